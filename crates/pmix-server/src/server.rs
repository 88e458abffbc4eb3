// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handle of a server: the calls of a host, from any thread.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces".

mod own;
mod requests;
mod resources;

use std::fmt;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use pmix_engine::Origin;
use pmix_proto::PeerForm;
use pmix_topology::Cpuset;
use pmix_types::{IntoOwned as _, Proc, Regex2, Regex2Ref, Status, Text};
use preg_core::Preg;

use crate::Error;
use crate::driver::Driver;
use crate::engine_handle::{EngineHandle, NewConnection, RequestedConnection, Wait};
use crate::fork::Fork;
use crate::net::owner::{Ends, Owner, Owners};

/// The server of the clients and tools of one node. Clones are handles of the same server. It ends with
/// [`finalize`](Self::finalize) or when the last handle is dropped.
///
/// Every method may be called from any thread, including from methods of the [`Host`](crate::Host). Before
/// [`start`](Self::start) and after `finalize` requests fail with `PMIX_ERR_INIT`. A host that owns a handle of its own
/// server keeps it alive until `finalize`.
///
/// # Progress
///
/// By default a progress thread runs the server from [`start`](Self::start) on. The host drives a server with external
/// progress, in one of two ways:
///
/// - A host without an event loop passes its own descriptor to [`watch`](Self::watch) and calls [`turn`](Self::turn)
///   repeatedly, which waits and works. This is simpler and cheaper.
/// - A host with an event loop waits for the server's descriptor ([`AsFd`]). It calls [`drive`](Self::drive) when the
///   descriptor is readable or the time returned by the last call has passed.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    handle: Arc<EngineHandle>,
    /// The driver. The thread that runs a turn removes it meanwhile, so that it holds no lock.
    driver: Mutex<Option<Box<Driver>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    modes: Modes,
    /// A duplicate of the driver's descriptor, which stays valid after the driver is dropped.
    fd: OwnedFd,
    fork: Fork,
    proc: Proc<'static>,
    preg: Arc<Preg>,
    files: Vec<PathBuf>,
    own_data: own::OwnData,
}

/// The mode of progress, and the strictness of registrations.
pub(crate) struct Modes {
    /// `true` if the host drives the server.
    pub(crate) external_progress: bool,
    /// The processors of the progress thread; `None` if it is not bound.
    pub(crate) progress_cpus: Option<Cpuset>,
    /// `true` if contradictory registrations are rejected.
    pub(crate) refuses_contradictions: bool,
    /// The XML of this node as the host described it.
    pub(crate) described_topology: Option<Text<'static>>,
    /// The topology XML of this node for the job info of every job.
    pub(crate) shared_topology: Option<Text<'static>>,
}

impl Server {
    pub(crate) fn new(
        driver: Driver,
        fork: Fork,
        proc: Proc<'static>,
        preg: Arc<Preg>,
        files: Vec<PathBuf>,
        modes: Modes,
    ) -> Result<Self, Error> {
        let fd = driver.fd()?;
        let handle = Arc::clone(driver.handle());
        // No `start` follows, and the host may register jobs from now on.
        if modes.external_progress {
            handle.start();
        }
        tracing::info!(uri = fork.uri, "listening");
        Ok(Self(Arc::new(Inner {
            handle,
            fd,
            driver: Mutex::new(Some(Box::new(driver))),
            thread: Mutex::new(None),
            modes,
            fork,
            proc,
            preg,
            files,
            own_data: own::OwnData::default(),
        })))
    }

    /// Starts the progress thread; clients are served from now on.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server was started or finalized before or has external progress, and an error if
    /// the system cannot start the thread.
    pub fn start(&self) -> Result<(), Error> {
        if self.0.modes.external_progress {
            let why = "this server has external progress: the host must drive it";
            return Err(Error::new(Status::ERR_INIT, why));
        }
        let driver = self.0.take_driver()?;
        self.0.handle.start();
        let named = thread::Builder::new().name("pmix-progress".to_owned());
        let cpus = self.0.modes.progress_cpus.clone();
        let run = move || {
            // The binding was checked when the server was built. If it fails now, clients are served without it.
            if let Some(Err(error)) = cpus.map(|cpus| cpus.bind_thread()) {
                tracing::warn!("the progress thread runs where the process may: {error}");
            }
            driver.run();
        };
        match named.spawn(run) {
            Ok(thread) => {
                *lock(&self.0.thread) = Some(thread);
                Ok(())
            }
            Err(error) => {
                // The driver was moved into the thread that failed to start, so the server cannot continue.
                self.0.handle.finish()?;
                Err(Error::io("starting the progress thread", error))
            }
        }
    }

    /// Does all pending work without blocking. Returns the time at which it must be called again even if the
    /// server's descriptor ([`AsFd`]) does not become readable; `None` means no such time.
    ///
    /// It is for a host with an event loop; a host without one blocks in [`turn`](Self::turn).
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server has a progress thread or is finalized, or if another call is running.
    pub fn drive(&self, now: Instant) -> Result<Option<Instant>, Error> {
        let mut driver = self.0.external_driver()?;
        match driver.drive(now) {
            Wait::Over => {
                driver.finish_output();
                Ok(None)
            }
            wait => {
                *lock(&self.0.driver) = Some(driver);
                Ok(match wait {
                    Wait::Until(time) => time,
                    _ => Some(now),
                })
            }
        }
    }

    /// Waits for work and does it, until `until` at the latest. It is for a host that leaves its waiting to the server,
    /// which costs less than waiting for the descriptor. Returns `true` if the descriptor passed to
    /// [`watch`](Self::watch) has become readable since the last call.
    ///
    /// # Errors
    /// Returns the errors of [`drive`](Self::drive).
    pub fn turn(&self, until: Option<Instant>) -> Result<bool, Error> {
        let mut driver = self.0.external_driver()?;
        match driver.turn(until) {
            None => {
                driver.finish_output();
                Ok(false)
            }
            Some(host_news) => {
                *lock(&self.0.driver) = Some(driver);
                Ok(host_news)
            }
        }
    }

    /// Lets [`turn`](Self::turn) also wait for one descriptor of the host, which can be an `epoll` instance
    /// for many descriptors. Each event is reported once. A closed descriptor is no longer polled.
    ///
    /// # Errors
    /// Returns the errors of [`drive`](Self::drive), and an error if the descriptor cannot be polled or another one is
    /// registered.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let mut driver = self.0.external_driver()?;
        let watched = driver.watch(fd.as_raw_fd());
        *lock(&self.0.driver) = Some(driver);
        watched.map_err(|error| Error::io("waiting for a descriptor of the host", error))
    }

    /// Stops the server: closes all connections and removes the rendezvous files. Pending events are first
    /// delivered to the host ([`Host::server_event`](crate::Host::server_event)), and pending output is sent
    /// to peers while they make progress, for at most three seconds. A call from a method of the host takes
    /// effect after the method has returned.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if it was finalized before.
    pub fn finalize(&self) -> Result<(), Error> {
        self.0.finalize()
    }

    /// Returns the name of the server, as clients and tools see it.
    #[must_use]
    pub fn proc(&self) -> &Proc<'static> {
        &self.0.proc
    }

    /// Returns the URI of the server: `<nspace>.<rank>;tcp4://<address>:<port>`, or `tcp6`.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.0.fork.uri
    }

    /// Returns the paths of the rendezvous files, which exist until the server ends.
    #[must_use]
    pub fn rendezvous_files(&self) -> &[PathBuf] {
        &self.0.files
    }
}

impl AsFd for Server {
    /// Returns a descriptor that is readable when [`drive`](Self::drive) has work. The host must only poll it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.uri()).finish()
    }
}

impl Inner {
    /// Returns the driver if the host drives the server.
    fn external_driver(&self) -> Result<Box<Driver>, Error> {
        if !self.modes.external_progress {
            let why = "this server has a progress thread, so the host cannot drive it";
            return Err(Error::new(Status::ERR_INIT, why));
        }
        self.take_driver()
    }

    fn take_driver(&self) -> Result<Box<Driver>, Error> {
        let taken = lock(&self.driver).take();
        taken.ok_or_else(|| {
            let why = "the server is started, finalized or being driven already";
            Error::new(Status::ERR_INIT, why)
        })
    }

    fn finalize(&self) -> Result<(), Error> {
        self.handle.finish()?;
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            // A method of the host runs in the progress thread, which cannot wait for itself.
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the progress thread panicked");
        }
        // With external progress, or before `start`, no thread has the driver.
        let driver = lock(&self.driver).take();
        if let Some(driver) = driver {
            driver.finish_output();
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // An explicit finalize may have preceded, so an error has no consequence.
        let _ = self.finalize();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// The encoding of node maps and process maps.
//
// Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_regex` and
// `PMIx_generate_ppn`.

impl Server {
    /// Encodes a node map: names separated by commas (`PMIx_generate_regex`).
    ///
    /// # Errors
    /// Returns an error if no encoder supports the list.
    pub fn generate_regex(&self, nodes: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.preg.generate_node_regex(nodes)?.bytes)
    }

    /// Encodes a process map: ranks separated by commas, nodes by semicolons (`PMIx_generate_ppn`).
    ///
    /// # Errors
    /// Returns an error if no encoder supports the list.
    pub fn generate_ppn(&self, ranks: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.preg.generate_ppn(ranks)?.bytes)
    }

    /// Encodes a node map or process map to a value that names its scheme (`PMIx_generate_regex2`).
    ///
    /// # Errors
    /// Returns an error if no encoder supports the list.
    pub fn generate_regex2(&self, list: &[u8]) -> Result<Regex2, Error> {
        Ok(self.0.preg.generate_regex(list)?)
    }

    /// Decodes a value that names its scheme to the list that was encoded (`PMIx_parse_regex2`).
    ///
    /// # Errors
    /// Returns an error if the scheme is unknown or the value is damaged.
    pub fn parse_regex2(&self, regex: Regex2Ref<'_>) -> Result<Vec<u8>, Error> {
        Ok(self.0.preg.parse_regex(regex)?)
    }
}

// Connections that the host made with tools, and connections of launchers that the host takes over as their tool.
//
// Source: PMIx Standard, chapter "Tools and Debuggers", "Indirect launch"; OpenPMIx, `PMIX_LAUNCHER_RNDZ_URI`.

/// A tool to which the host has connected, and which sends its requests over that connection.
pub struct ConnectedTool {
    /// The name of the tool.
    pub name: Proc<'static>,
    /// The layout and version that the tool packs with.
    pub form: PeerForm,
    /// The socket.
    pub stream: TcpStream,
    /// Bytes received from the tool but not yet decoded.
    pub unread: Vec<u8>,
}

impl Server {
    /// Serves a tool over a connection that the host opened. A launcher connects in this way to the tool that requested
    /// its start, whose address is in `PMIX_LAUNCHER_RNDZ_URI`. From then on the tool is served like any other.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, `PMIX_ERR_UNREACH` if the tool has disconnected, and
    /// `PMIX_ERR_NO_PERMISSIONS` if the tool belongs to another user according to the system, or is on another node,
    /// where its user cannot be determined. Returns an error for an invalid name or an unusable socket.
    pub fn add_tool(&self, tool: ConnectedTool) -> Result<(), Error> {
        let ConnectedTool {
            name,
            form,
            stream,
            unread,
        } = tool;
        let fault = |error| Error::io("serving the tool that started this launcher", error);
        stream.set_nonblocking(true).map_err(fault)?;
        let ends = Ends {
            local: stream.local_addr().map_err(fault)?,
            peer: stream.peer_addr().map_err(fault)?,
        };
        // The tool sends no credential on this connection, so only the kernel can identify its user.
        let owner = Owners::new().look_up(&[ends]).first().copied();
        let from = ends.peer;
        let uid = match owner {
            Some(Owner::User(uid)) => uid,
            Some(Owner::Gone) => {
                let message = format!("the tool at {from} has disconnected");
                return Err(Error::new(Status::ERR_UNREACH, message));
            }
            _ => {
                let message = format!("cannot determine the user of the tool at {from}");
                return Err(Error::new(Status::ERR_NO_PERMISSIONS, message));
            }
        };
        let origin = Origin {
            uid: Some(uid),
            gid: None,
            loopback: true,
        };
        self.0.handle.give(|engine, now| {
            let peer = engine.add_tool(origin, name, form, now)?;
            // The tool may have sent requests before the launcher got its job info (docs/decisions/0027).
            if !unread.is_empty() {
                engine.queue_input(peer, &unread);
            }
            Ok(NewConnection {
                peer,
                stream,
                from,
                uid,
            })
        })
    }

    /// Passes the connection of a registered process to the host as soon as the process has its job info and no pending
    /// request. If the process does not connect, this never happens. One call takes one connection. For this server the
    /// process has then finalized, and a later connection of it is a new one.
    ///
    /// It is for a tool that started a launcher. Such a tool sends its own requests over the connection that the
    /// launcher opened (`PMIX_LAUNCHER_RNDZ_URI`).
    ///
    /// The thread that drives the server calls `take`, which must not block. `take` gets the blocking socket and the
    /// packing form of the process. It is dropped without a call when the job is deregistered or the server ends.
    pub fn take_connection(
        &self,
        proc: &Proc<'_>,
        take: impl FnOnce(TcpStream, PeerForm) + Send + 'static,
    ) {
        self.0.handle.request_connection(RequestedConnection {
            proc: proc.clone().into_owned(),
            take: Box::new(take),
        });
    }
}

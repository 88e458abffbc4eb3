// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client: one process and its connection to the server, for any number of threads.
//!
//! Source: PMIx Standard, chapters "Client Initialization and Finalization" and "Data Access and Sharing".

mod calls;
mod groups;
mod init;

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_proto::{Event, PeerForm, Request};
use pmix_types::{Info, Key, Proc, Rank, Scope, Status, Value, keys};

use crate::cache::JobCache;
use crate::core::Core;
use crate::shared::{ClientEvent, Loop, Shared, lock};
use crate::socket::Socket;
use crate::{Error, Settings};

/// A process and its connection to the server, from init to finalize. Clones share the connection, and any thread may
/// use them.
///
/// Methods have the verb of the Standard and the arguments of the C function in its order; `docs/architecture.md` lists
/// them. A method that may wait for the server returns a [`Call`](crate::Call). [`Call::wait`](crate::Call::wait) waits
/// for the result, [`Call::start`](crate::Call::start) passes it to a callback. [`Settings::time_limit`] limits every
/// call, [`Call::within`](crate::Call::within) one of them.
///
/// A thread that waits reads the connection, and passes on the replies of other threads. The client starts a thread
/// only for callbacks: for [`Call::start`](crate::Call::start), and for events and output once there is a listener
/// ([`set_listener`](Self::set_listener)). A second thread makes the callbacks, so a callback may call the client and
/// wait. A program with its own loop has no such thread ([`Driver`](crate::driver::Driver)).
///
/// [`Settings::max_reply_bytes`] and [`Settings::max_string_bytes`] bound the size of a reply and of a decompressed
/// value.
///
/// When the last clone is dropped, the connection is closed, and the server treats the process as crashed unless
/// [`finalize`](Self::finalize) was called. Pending callbacks are called with an error, unless the program's own loop
/// makes the callbacks. Then the callbacks and the listener are dropped.
#[derive(Clone)]
pub struct Client(Arc<Handles>);

/// The part that all clones of the program own and the threads of the client do not.
struct Handles(Arc<Shared>);

impl Deref for Handles {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Client {
    /// Connects to the server that started this process (`PMIx_Init`). A program that also runs without a launcher
    /// calls [`init`](Self::init) with [`Settings::from_env_or_singleton`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Settings::from_env`] and [`init`](Self::init).
    pub fn from_env() -> Result<Self, Error> {
        Self::init(Settings::from_env()?)
    }

    /// Connects to a server and requests the job info (`PMIx_Init`, `PMIx_tool_init`). A tool without a name gets one
    /// from the server.
    ///
    /// With the settings of a [singleton](Settings::singleton) there is no server to connect to. Such a process can
    /// put, commit and get, and register for events. Fences, connects and disconnects work if it is the only
    /// participant. Calls that need a server or another process fail with `PMIX_ERR_UNREACH` at once: publish, lookup,
    /// queries, groups, events for other processes, and a fence with another process.
    ///
    /// ```
    /// use pmix_client::{Client, Settings};
    /// use pmix_types::{Info, Scope, keys};
    ///
    /// # let settings = Settings::singleton();
    /// # #[cfg(any())]
    /// let settings = Settings::from_env_or_singleton()?;
    /// let client = Client::init(settings)?;
    /// if client.is_singleton() {
    ///     println!("no launcher started this process");
    /// }
    /// client.put(Scope::GLOBAL, "card", "ib0:17")?;
    /// client.commit()?;
    /// client.fence([], [Info::new(keys::COLLECT_DATA, true)]).wait()?;
    /// let size = client.get(&client.job(), keys::JOB_SIZE, &[]).wait()?;
    /// assert_eq!(size.to_number::<u32>(), Ok(1));
    /// client.finalize()?;
    /// # Ok::<(), pmix_client::Error>(())
    /// ```
    ///
    /// If the job info has `PMIX_DEBUG_STOP_IN_INIT` for this process, init notifies the server that the process is
    /// ready for a debugger. Init then waits without a time limit for `PMIX_DEBUGGER_RELEASE`. This applies to clients
    /// and to tools that a server started, unless [`Settings::stops_in_init`] is `false`.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the server cannot be reached or closes the connection, which is how a server
    /// rejects a client. Returns `PMIX_ERR_TIMEOUT` if it does not reply in time, and an unpack error if its replies
    /// are damaged.
    pub fn init(settings: Settings) -> Result<Self, Error> {
        Self::begin(settings, |_| Ok(None))
    }

    /// Connects to a server. `own_loop` returns the parts for the program's own loop, if it has one.
    pub(crate) fn begin(
        settings: Settings,
        own_loop: impl FnOnce(&Socket) -> Result<Option<(Loop, OwnedFd)>, Error>,
    ) -> Result<Self, Error> {
        let (core, socket, buffer) = init::connect(settings)?;
        let own_loop = own_loop(&socket)?;
        let client = Self::with_core(core, Some(socket), buffer, own_loop);
        // The stop waits for an event, so it needs the complete client.
        client.stop_in_init()?;
        Ok(client)
    }

    /// Creates a client from a core whose init is complete.
    pub(crate) fn with_core(
        core: Core,
        socket: Option<Socket>,
        buffer: Box<[u8]>,
        own_loop: Option<(Loop, OwnedFd)>,
    ) -> Self {
        let shared = Shared::new(core, socket, buffer, own_loop);
        Self(Arc::new(Handles(shared)))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Returns the name of this process.
    #[must_use]
    pub fn proc(&self) -> &Proc<'static> {
        &self.0.settings.proc
    }

    /// Returns the own job as a process name (nspace and `PMIX_RANK_WILDCARD`), for gets of job info.
    #[must_use]
    pub fn job(&self) -> Proc<'static> {
        Proc::new(self.proc().nspace.clone(), Rank::WILDCARD)
    }

    /// Returns the name of the server, or `None` if no launcher started this process.
    #[must_use]
    pub fn server(&self) -> Option<&Proc<'static>> {
        self.0.settings.server.as_ref().map(|uri| &uri.server)
    }

    /// Returns `true` if no launcher started this process. It then has no server and is a job of its own
    /// ([`Settings::singleton`]).
    #[must_use]
    pub fn is_singleton(&self) -> bool {
        // A client without a connection has no server either, but no socket to wait on.
        self.0.settings.server.is_none() && self.0.socket.is_some()
    }

    /// Returns the settings, with the names of this process and of the server as init has set them.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the layout and version that this process and its server pack with, for [`request`](Self::request).
    #[must_use]
    pub fn form(&self) -> &PeerForm {
        &self.0.form
    }

    /// Puts a value for the processes in `scope`, which can get it after a [`commit`](Self::commit) (`PMIx_Put`).
    /// Reserved keys are accepted: Open MPI 4 puts `PMIX_HOSTNAME` of its processes, and no other library rejects them.
    ///
    /// # Errors
    ///
    /// Returns one of these errors, without a change of the stored data:
    ///
    /// - `PMIX_ERR_BAD_PARAM` for an undefined scope, for an empty or too long key, and for arrays nested more than 64
    ///   deep;
    /// - `PMIX_ERR_OUT_OF_RESOURCE` for a value that does not fit into a message of 64 MiB;
    /// - `PMIX_ERR_NOT_SUPPORTED` for the removal (`PMIX_DEL_GLOBAL` and its like) of a committed key, if the server
    ///   cannot remove keys (see [`Settings::removes_keys`](crate::Settings::removes_keys));
    /// - a pack error if the value has no form in the layout of the server.
    pub fn put<'v>(
        &self,
        scope: Scope,
        key: impl Into<Key<'v>>,
        value: impl Into<Value<'v>>,
    ) -> Result<(), Error> {
        self.0.known.put(scope, Info::new(key, value))
    }

    /// Stores a value about a process in this client only (`PMIx_Store_internal`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an empty or too long key.
    pub fn store<'v>(
        &self,
        proc: &Proc<'_>,
        key: impl Into<Key<'v>>,
        value: impl Into<Value<'v>>,
    ) -> Result<(), Error> {
        self.0.known.store(proc, Info::new(key, value))
    }

    /// Sends the values put since the last commit to the server (`PMIx_Commit`), and waits until it has stored them.
    /// Sends nothing if there are none. After a failure, values that the server has not stored are part of the next
    /// commit. The call waits for a commit of another thread, and sends the values that it failed to store.
    ///
    /// # Errors
    ///
    /// Returns a pack error, the server's status if it rejects the data, or an error if no reply arrives.
    pub fn commit(&self) -> Result<(), Error> {
        // The commit of another thread may contain puts of this one. If the server rejects it, they are sent again
        // here.
        let _acknowledged = lock(&self.0.commits);
        if self.0.known.has_uncommitted() {
            self.0.wait(self.0.end(None), Core::commit)?;
        }
        Ok(())
    }

    /// Returns all local values of a process: its own puts and stored values, and those from the server (`PMIx_Get`
    /// without a key). The only possible request is one for the job info, if init did not request it.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a whole job, and `PMIX_ERR_NOT_FOUND` if there are no values.
    pub fn get_all(
        &self,
        proc: &Proc<'_>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Info<'static>>, Error> {
        if proc.rank == Rank::WILDCARD {
            let message = "a request without a key is possible only for a single process";
            return Err(Error::new(Status::ERR_BAD_PARAM, message));
        }
        let known = &self.0.known;
        if known.cache().is_some_and(JobCache::lacks_job_info) {
            // This key does not exist, so the get requests the job info before it fails.
            let optional = [Info::new(keys::OPTIONAL, true)];
            match self.get(proc, "pmix.all", &optional).wait() {
                Err(error) if error.status() != Status::ERR_NOT_FOUND => return Err(error),
                _ => {}
            }
        }
        known.all(proc, infos)
    }

    /// Passes unsolicited input to a function, from now on and from the callback thread. Input that has arrived before
    /// is passed first. It replaces the last function, and [`next_event`](Self::next_event) gets no further events.
    ///
    /// The next call notices the loss of the server. If a thread reads ([`listen`](Self::listen)), it is noticed at
    /// once.
    pub fn set_listener(&self, listener: impl FnMut(ClientEvent) + Send + 'static) {
        self.0.set_listener(Box::new(listener));
    }

    /// Returns the next event, or `None` if none arrives within the time. It is for programs without a
    /// [listener](Self::set_listener), whose events are queued: at most 4096 of them and 68 MiB of messages.
    /// [`num_lost_events`](Self::num_lost_events) returns the number of dropped events.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the connection is lost and no event is queued.
    pub fn next_event(&self, within: Duration) -> Result<Option<Event<'static>>, Error> {
        let end = Instant::now().checked_add(within);
        let event = self.0.wait_for_event(end, |core| core.poll_event())?;
        // Other processes may have committed while this call waited.
        self.0.known.drop_prefetched();
        Ok(event)
    }

    /// Starts a thread that reads the connection at all times, if there is none. Calls that need it do so themselves. A
    /// program calls it to notice the loss of the server at once.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the system cannot start the thread.
    pub fn listen(&self) -> Result<(), Error> {
        self.0.listen()
    }

    /// Runs a function on the callback thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start the thread or the client has ended. The function is dropped then.
    pub fn later(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.0.later(Box::new(job))
    }

    /// Runs a function on the callback thread at a time. If the client ends before, the function is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start the thread or the client has ended.
    pub fn later_at(
        &self,
        time: Instant,
        job: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        self.0.later_at(time, Box::new(job))
    }

    /// Returns the number of events and pieces of output dropped because the queue was full: 4,096 events, or 64 MiB of
    /// events and output (4 MiB more for events).
    #[must_use]
    pub fn num_lost_events(&self) -> u64 {
        self.0.num_lost_events()
    }

    /// Disconnects from the server (`PMIx_Finalize`). When it returns, all due callbacks have been called. There are
    /// two exceptions: it was called by a callback, or another thread is in a callback of the program's own loop.
    ///
    /// # Errors
    ///
    /// Returns the server's status, `PMIX_ERR_UNREACH` if it is lost, and `PMIX_ERR_TIMEOUT` if it does not reply
    /// within [`Settings::time_limit`]. The threads have ended in each case.
    pub fn finalize(&self) -> Result<(), Error> {
        self.leave(self.0.settings.time_limit)
    }

    /// Disconnects from the server as [`finalize`](Self::finalize), with a time limit for the reply.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`finalize`](Self::finalize).
    pub fn finalize_within(&self, limit: Duration) -> Result<(), Error> {
        self.leave(Some(limit))
    }

    fn leave(&self, limit: Option<Duration>) -> Result<(), Error> {
        // `Duration::MAX` keeps `Call::wait` from applying the time limit of the settings.
        let finalize = self.call(Request::Finalize);
        let left: Result<(), Error> = finalize.within(limit.unwrap_or(Duration::MAX)).wait();
        // The threads end even if the server has not replied.
        self.close();
        left
    }

    /// Closes the connection and ends the threads as [`finalize`](Self::finalize), without a message. The server treats
    /// the process as lost.
    pub fn close(&self) {
        self.0.close();
    }
}

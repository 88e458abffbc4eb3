// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocking client: one process and its server.
//!
//! Source: PMIx Standard, chapters "Client Initialization and Finalization", "Synchronization" and
//! "Data Access and Sharing".

mod events;
mod get;
mod groups;
mod hello;
mod jobs;
mod stop;

use std::io;
use std::time::{Duration, Instant};

use pmix_proto::{PeerForm, Request, request};
use pmix_types::{Info, Proc, Scope, Status, Text, Value};

pub(crate) use self::hello::{VERSION, credential, hello};

use crate::connection::{Connection, Deadline};
use crate::core::{Answer, Core, OperationId};
use crate::shared_data::SharedData;
use crate::socket::Socket;
use crate::{Error, Fence, Settings};

/// A process and its blocking connection to the server, from init to finalize.
///
/// Every call waits for the server, but at most [`Settings::time_limit`], regardless of other messages that arrive.
/// [`Settings::max_reply_bytes`] and [`Settings::max_string_bytes`] bound the size of a reply and of a decompressed
/// value. If a client is dropped without [`finalize`](Self::finalize), the server treats the process as crashed.
pub struct Client {
    core: Core,
    connection: Connection,
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
    /// use pmix_client::{Client, Fence, Settings};
    /// use pmix_types::{Scope, keys};
    ///
    /// # let settings = Settings::singleton();
    /// # #[cfg(any())]
    /// let settings = Settings::from_env_or_singleton()?;
    /// let mut client = Client::init(settings)?;
    /// if client.is_singleton() {
    ///     println!("no launcher started this process");
    /// }
    /// client.put(Scope::GLOBAL, "card", "ib0:17")?;
    /// client.commit()?;
    /// client.fence(&Fence::new().collect())?;
    /// assert_eq!(client.get_of_job(keys::JOB_SIZE)?.to_number::<u32>(), Ok(1));
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
        let Some(server) = &settings.server else {
            let connection = Connection::new(Socket::unconnected()?);
            let core = Core::singleton(settings);
            return Ok(Self { core, connection });
        };
        let end = Deadline::after(settings.time_limit);
        let credential = credential(settings.security);
        let shared = settings.shared_data.as_deref();
        let (nspace, most) = (&settings.proc.nspace, settings.max_reply_bytes);
        let shared = shared.and_then(|at| SharedData::open(nspace, at, most));
        let connection = Connection::new(Socket::connect(server, end.left())?);
        let hello = hello(&settings, &credential, shared.is_some());
        let core = Core::new(settings.clone(), &hello, end.at())?.reading(shared);
        let mut client = Self { core, connection };
        client.run(Core::INIT)?;
        client.stop_in_init()?;
        Ok(client)
    }

    /// Returns the name of this process.
    #[must_use]
    pub const fn proc(&self) -> &Proc<'static> {
        self.core.proc()
    }

    /// Returns the own job as a process name (nspace and `PMIX_RANK_WILDCARD`), for gets of job info.
    #[must_use]
    pub fn job(&self) -> Proc<'static> {
        self.core.job()
    }

    /// Returns `true` if no launcher started this process. It then has no server and is a job of its own
    /// ([`Settings::singleton`]).
    #[must_use]
    pub const fn is_singleton(&self) -> bool {
        self.core.is_singleton()
    }

    /// Returns the layout and version that this process and its server pack with, for [`request`](Self::request).
    #[must_use]
    pub const fn form(&self) -> &PeerForm {
        self.core.form()
    }

    /// Puts a value for the processes in `scope`, which can get it after a [`commit`](Self::commit) (`PMIx_Put`).
    /// Reserved keys are accepted, as by OpenPMIx.
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
        &mut self,
        scope: Scope,
        key: &'v str,
        value: impl Into<Value<'v>>,
    ) -> Result<(), Error> {
        self.core.put(scope, Info::new(key, value))
    }

    /// Sends the values put since the last commit to the server (`PMIx_Commit`). Sends nothing if there are none. After
    /// a failure, values that the server has not stored are part of the next commit.
    ///
    /// # Errors
    ///
    /// Returns a pack error, the server's status if it rejects the data, or an error if no reply arrives.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.wait(Core::commit)?;
        Ok(())
    }

    /// Waits until all participants have entered the fence (`PMIx_Fence`).
    ///
    /// # Errors
    ///
    /// Returns the status of a failed fence, or an error if no reply arrives.
    pub fn fence(&mut self, fence: &Fence<'_>) -> Result<(), Error> {
        self.wait(|core, end| core.fence(fence, end))?;
        Ok(())
    }

    /// Requests that the host terminate `procs`, or all processes of the own job if `procs` is empty (`PMIx_Abort`).
    /// `status` becomes the exit code of the job.
    ///
    /// # Errors
    ///
    /// Returns the server's status if it rejects the request, or an error if no reply arrives.
    pub fn abort(&mut self, status: i32, why: &str, procs: &[Proc<'_>]) -> Result<(), Error> {
        self.done(&Request::Abort(request::Abort {
            status: Status::from_raw(status),
            message: Some(Text::from(why)),
            procs: procs.to_vec(),
        }))
    }

    /// Sends a heartbeat (`PMIx_Heartbeat`), for a server that monitors this process.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the connection is lost, or `PMIX_ERR_TIMEOUT` if the server does not read the
    /// message in time.
    pub fn heartbeat(&mut self) -> Result<(), Error> {
        self.say("a heartbeat", Core::heartbeat)
    }

    /// Sends any other request and returns the payload of the reply, which the types in [`pmix_proto::reply`] decode.
    ///
    /// # Errors
    ///
    /// Returns a pack error if the request cannot be packed, or an error if no reply arrives.
    pub fn request(&mut self, request: &Request<'_>) -> Result<Vec<u8>, Error> {
        match self.wait(|core, end| core.request(request, end))? {
            Answer::Payload(payload) => Ok(payload),
            _ => Err(Error::new(
                Status::ERR_COMM_FAILURE,
                "a reply without a payload",
            )),
        }
    }

    /// Disconnects from the server (`PMIx_Finalize`).
    ///
    /// # Errors
    ///
    /// Returns the server's status if it rejects the request, or an error if no reply arrives.
    pub fn finalize(mut self) -> Result<(), Error> {
        self.wait(Core::finalize)?;
        Ok(())
    }

    /// Returns the core and the socket, for a driver that waits in another way.
    pub(crate) fn into_parts(self) -> (Core, Socket) {
        (self.core, self.connection.into_socket())
    }

    fn end(&self) -> Deadline {
        Deadline::after(self.core.settings().time_limit)
    }

    /// Sends a request whose reply is only a status, and waits for it.
    fn done(&mut self, request: &Request<'_>) -> Result<(), Error> {
        self.wait(|core, end| core.done(request, end))?;
        Ok(())
    }

    /// Begins an operation and waits until it completes, at most [`Settings::time_limit`].
    fn wait(
        &mut self,
        begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
    ) -> Result<Answer, Error> {
        let end = self.end();
        self.wait_until(end, begin)
    }

    /// Begins an operation and waits until it completes or `end` has passed.
    fn wait_until(
        &mut self,
        end: Deadline,
        begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
    ) -> Result<Answer, Error> {
        // Without this wait, requests would pile up in memory for a server that does not read.
        if !self.transmit(end) {
            return Err(Error::timeout("an earlier request"));
        }
        let id = begin(&mut self.core, end.at())?;
        self.run(id)
    }

    /// Waits until an operation completes.
    fn run(&mut self, id: OperationId) -> Result<Answer, Error> {
        loop {
            while let Some((ended, outcome)) = self.core.poll_completed() {
                if ended == id {
                    // The completion may have queued messages to other processes. They are sent without waiting; the
                    // rest goes out with the next call.
                    self.transmit(Deadline::after(Some(Duration::ZERO)));
                    return outcome;
                }
            }
            self.turn(Deadline::after(None));
        }
    }

    /// Sends a message that has no reply, and waits until it is written.
    fn say(
        &mut self,
        what: &str,
        say: impl FnOnce(&mut Core) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let end = self.end();
        if self.transmit(end) {
            say(&mut self.core)?;
            if self.transmit(end) {
                return self.core.lost().cloned().map_or(Ok(()), Err);
            }
        }
        Err(Error::timeout(what))
    }

    /// Sends and receives once. Returns at `end` or at the next time limit of the core.
    fn turn(&mut self, end: Deadline) {
        let end = end.or_before(self.core.poll_timeout());
        if self.transmit(end) && self.core.lost().is_none() {
            match self.connection.receive(end) {
                Ok(Some(bytes)) => self.core.handle_input(bytes, Instant::now()),
                Ok(None) => {}
                Err(error) => self.lose(error),
            }
        }
        let now = Instant::now();
        if self.core.poll_timeout().is_some_and(|limit| limit <= now) {
            self.core.handle_timeout(now);
        }
        // The program is blocked in a call and cannot answer the question.
        while let Some((question, _)) = self.core.poll_question() {
            // The exchange is resolved without a decision, so an error has no consequence.
            let _ = self.core.decide(&question, None, now);
        }
        // The blocking client has no interface for forwarded output.
        while self.core.poll_output().is_some() {}
    }

    /// Sends all queued messages. Returns `false` if the server did not read them in time.
    fn transmit(&mut self, end: Deadline) -> bool {
        match self.connection.transmit(&mut self.core, end) {
            Ok(is_sent) => is_sent,
            Err(error) => {
                self.lose(error);
                true
            }
        }
    }

    fn lose(&mut self, error: io::Error) {
        self.core.handle_closed(error);
    }
}

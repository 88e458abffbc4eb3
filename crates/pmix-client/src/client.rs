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

/// Connects a process with its server, from init to finalize.
///
/// Every call waits for the server, [`Settings::time_limit`] at the most, whatever else arrives
/// meanwhile. What a reply may be and what a value may become is bounded by
/// [`Settings::max_reply_bytes`] and [`Settings::max_string_bytes`]. Dropping a client that
/// was not [finalized](Self::finalize) is what the server sees as a crash.
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
    /// As [`Settings::from_env`] and [`init`](Self::init).
    pub fn from_env() -> Result<Self, Error> {
        Self::init(Settings::from_env()?)
    }

    /// Connects to a server and asks it for the job info (`PMIx_Init`, `PMIx_tool_init`). A tool without
    /// a name takes the one that the server gives it.
    ///
    /// With the settings of a [singleton](Settings::singleton) there is no server to connect to. Such a process puts,
    /// commits and gets, enters fences, connects and disconnects of itself alone, and registers for events. What needs
    /// a server or another process ends with `PMIX_ERR_UNREACH` at once: publish, lookup, queries, groups, events for
    /// other processes, and a fence with a process of another name.
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
    /// A client, or a tool that a server started, whose job says so (`PMIX_DEBUG_STOP_IN_INIT`) tells its server that
    /// it is ready for a debugger, and returns when it is released (`PMIX_DEBUGGER_RELEASE`), however long that takes,
    /// unless [`Settings::stops_in_init`] is false.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_UNREACH` if the server cannot be reached or closes the connection, which is how
    /// it refuses a client; `PMIX_ERR_TIMEOUT`; what is wrong with its answers.
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

    /// Returns the job of this process as a whole (the wildcard rank), of which job info is asked.
    #[must_use]
    pub fn job(&self) -> Proc<'static> {
        self.core.job()
    }

    /// Returns `true` if no launcher started this process, which then has no server and is a job of its own
    /// ([`Settings::singleton`]).
    #[must_use]
    pub const fn is_singleton(&self) -> bool {
        self.core.is_singleton()
    }

    /// Returns the form in which both sides pack, for [`request`](Self::request).
    #[must_use]
    pub const fn form(&self) -> &PeerForm {
        self.core.form()
    }

    /// Puts a value for the processes that the scope names; they can see it after a
    /// [`commit`](Self::commit) (`PMIx_Put`). Reserved keys are taken, too, as OpenPMIx takes them.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a scope that is none, for a key that is empty or too long, and for arrays of which
    /// more than 64 stand in one another; what cannot be packed for the server; `PMIX_ERR_OUT_OF_RESOURCE` for a
    /// value that a message of 64 MiB has no room for; `PMIX_ERR_NOT_SUPPORTED` for the removal (`PMIX_DEL_GLOBAL`
    /// and its like) of a key that was committed, if the server removes no keys (see
    /// [`Settings::removes_keys`](crate::Settings::removes_keys)). Nothing has changed then.
    pub fn put<'v>(
        &mut self,
        scope: Scope,
        key: &'v str,
        value: impl Into<Value<'v>>,
    ) -> Result<(), Error> {
        self.core.put(scope, Info::new(key, value))
    }

    /// Hands what was put since the last commit to the server (`PMIx_Commit`). Nothing is sent if nothing was put. If
    /// it fails in any way, what the server has not stored is part of the next commit.
    ///
    /// # Errors
    ///
    /// What cannot be packed, what the server answers, or that it does not.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.wait(Core::commit)?;
        Ok(())
    }

    /// Waits until all participants of a fence have arrived (`PMIx_Fence`).
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn fence(&mut self, fence: &Fence<'_>) -> Result<(), Error> {
        self.wait(|core, end| core.fence(fence, end))?;
        Ok(())
    }

    /// Asks the host to end processes, all of the own job if none are named (`PMIx_Abort`). The
    /// status is the exit code that the job is to have.
    ///
    /// # Errors
    ///
    /// What the server answers, or that it does not.
    pub fn abort(&mut self, status: i32, why: &str, procs: &[Proc<'_>]) -> Result<(), Error> {
        self.done(&Request::Abort(request::Abort {
            status: Status::from_raw(status),
            message: Some(Text::from(why)),
            procs: procs.to_vec(),
        }))
    }

    /// Sends a heartbeat, to a server that was asked to monitor the process.
    ///
    /// # Errors
    ///
    /// If the connection to the server is lost; `PMIX_ERR_TIMEOUT` if it takes nothing in time.
    pub fn heartbeat(&mut self) -> Result<(), Error> {
        self.say("a heartbeat", Core::heartbeat)
    }

    /// Sends any other request and returns the payload of the reply, to be read by the types in
    /// [`pmix_proto::reply`].
    ///
    /// # Errors
    ///
    /// If the request cannot be packed, or if the server does not answer.
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
    /// What the server answers, or that it does not.
    pub fn finalize(mut self) -> Result<(), Error> {
        self.wait(Core::finalize)?;
        Ok(())
    }

    /// The state of the process and its socket, for another who waits.
    pub(crate) fn into_parts(self) -> (Core, Socket) {
        (self.core, self.connection.into_socket())
    }

    fn end(&self) -> Deadline {
        Deadline::after(self.core.settings().time_limit)
    }

    /// Asks for something that is answered with a status alone.
    fn done(&mut self, request: &Request<'_>) -> Result<(), Error> {
        self.wait(|core, end| core.done(request, end))?;
        Ok(())
    }

    /// Begins an operation and waits for its end, as long as the settings allow.
    fn wait(
        &mut self,
        begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
    ) -> Result<Answer, Error> {
        let end = self.end();
        self.wait_until(end, begin)
    }

    /// Begins an operation and waits for its end, until some time.
    fn wait_until(
        &mut self,
        end: Deadline,
        begin: impl FnOnce(&mut Core, Option<Instant>) -> Result<OperationId, Error>,
    ) -> Result<Answer, Error> {
        // Requests do not pile up before a server that takes none.
        if !self.transmit(end) {
            return Err(Error::timeout("an earlier request"));
        }
        let id = begin(&mut self.core, end.at())?;
        self.run(id)
    }

    /// Waits for the end of an operation.
    fn run(&mut self, id: OperationId) -> Result<Answer, Error> {
        loop {
            while let Some((ended, outcome)) = self.core.poll_completed() {
                if ended == id {
                    // What follows from it for others is said now, or with the next call.
                    self.transmit(Deadline::after(Some(Duration::ZERO)));
                    return outcome;
                }
            }
            self.turn(Deadline::after(None));
        }
    }

    /// Says something that has no reply.
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

    /// Sends and receives once, until some time or what the core has a time for.
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
        // Nobody can be asked while a call waits.
        while let Some((question, _)) = self.core.poll_question() {
            // Without a decision there is nothing to refuse.
            let _ = self.core.decide(&question, None, now);
        }
        // Nor is output taken here.
        while self.core.poll_output().is_some() {}
    }

    /// Sends what there is; false if the server did not take it in time.
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

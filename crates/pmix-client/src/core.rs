// SPDX-License-Identifier: MIT OR Apache-2.0
//! One process and its server, without a socket: bytes, calls and times in; bytes, answers and events
//! out.
//!
//! Source: PMIx Standard, chapters "Client Initialization and Finalization" and "Data Access and
//! Sharing"; OpenPMIx for the order of messages at init.

mod calls;
mod get;
mod groups;
mod operation;
mod reply;
mod singleton;
#[cfg(test)]
mod tests;
mod unasked;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_proto::{
    ClientConnection, Command, Event, Frame, Hello, Incoming, Output, PeerForm, Request, Response,
    Tag, Welcome,
};
use pmix_types::{IntoOwned as _, Proc, Rank, Status, memory};

use self::groups::Hearing;
pub(crate) use self::operation::Waiting;
pub use self::operation::{Answer, Completed, OperationId};
use self::operation::{Asker, Limited, Operations};
pub use self::unasked::Forwarded;
pub(crate) use self::unasked::Unasked;
use self::unasked::UnaskedQueue;
use crate::cache::JobCache;
use crate::client;
use crate::group;
use crate::known::Known;
use crate::shared_data::SharedData;
use crate::{Ask, Error, Question, Settings};

/// How long the server may take to acknowledge an event of an invitation if [`Settings::time_limit`] sets no
/// limit.
const SAY_TIME: Duration = Duration::from_secs(60);

/// Holds the state of one process towards its server, without a socket, a thread or a clock.
///
/// Whoever drives it connects a stream, sends what [`poll_transmit`](Self::poll_transmit) hands out,
/// gives what arrives to [`handle_input`](Self::handle_input), says with
/// [`handle_closed`](Self::handle_closed) that the stream has ended, and calls
/// [`handle_timeout`](Self::handle_timeout) when the time that [`poll_timeout`](Self::poll_timeout)
/// names has come. Then it takes what has ended ([`poll_completed`](Self::poll_completed)), what has
/// happened ([`poll_event`](Self::poll_event)), what was pulled ([`poll_output`](Self::poll_output)) and
/// what is to be decided ([`poll_question`](Self::poll_question)), until there is none of it.
///
/// A call that may wait begins an operation and returns its number. Each operation ends once: it is
/// answered, its time is over (`PMIX_ERR_TIMEOUT`), it is [cancelled](Self::cancel), or the server is
/// lost. [`INIT`](Self::INIT) is the first, and the only one before it has ended. The time limit of an
/// invitation holds until everybody has answered. The server then has [`Settings::time_limit`] (60 s if
/// there is none) to acknowledge the group.
///
/// What a server sends is bounded as [`Settings`] say; up to 4,096 events, and 64 MiB of events and output,
/// with 4 MiB more for events, wait to be taken, and the rest is counted.
///
/// ```
/// use pmix_client::{Core, Settings, Uri};
/// # use pmix_proto::{Hello, Role};
/// # use pmix_types::{Proc, Rank};
/// # use std::time::Instant;
/// # let uri: Uri = "server.0;tcp4://127.0.0.1:1".parse()?;
/// let settings = Settings::new(Proc::new("job", Rank::new(0)), uri);
/// # let hello = Hello {
/// #     psec: "none".into(), credential: &[], role: Role::CLIENT, ids: None,
/// #     proc: Some(settings.proc.clone()), version: "5.0.11".into(),
/// #     module: settings.layout.module.name().into(), buffer: settings.layout.buffer,
/// #     gds: "hash".into(), infos: vec![],
/// # };
/// let mut core = Core::new(settings, &hello, None)?;
/// assert!(core.poll_transmit().is_some()); // the hello
/// core.handle_closed(std::io::ErrorKind::UnexpectedEof.into());
/// let (operation, outcome) = core.poll_completed().unwrap();
/// assert_eq!(operation, Core::INIT);
/// assert!(outcome.is_err());
/// # Ok::<(), pmix_client::Error>(())
/// ```
pub struct Core {
    settings: Settings,
    form: PeerForm,
    link: Link,
    /// What is known without asking, which others may look into meanwhile.
    known: Arc<Known>,
    /// What is read without asking, until the cache has it.
    shared: Option<SharedData>,
    operations: Operations,
    groups: group::Operations,
    hearing: Hearing,
    unasked: UnaskedQueue,
}

/// The connection to the server, or why there is none.
enum Link {
    Open(Box<ClientConnection>),
    /// No launcher started this process.
    Singleton,
    Lost(Error),
}

/// Counts what a [`Core`] holds that goes when it is dealt with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreStats {
    /// Operations that have not ended.
    pub num_operations: usize,
    /// Requests whose reply is waited for.
    pub num_requests: usize,
    /// Time limits of operations and requests.
    pub num_limits: usize,
    /// Operations that have ended and were not taken.
    pub num_completed: usize,
    /// Invitations and acceptances that have not ended.
    pub num_invitations: usize,
    /// Events that were not taken.
    pub num_events: usize,
    /// Pieces of output that were not taken.
    pub num_outputs: usize,
    /// Bytes that events and output took on the wire, and 256 for each.
    pub unasked_bytes: usize,
    /// Questions that were not taken.
    pub num_questions: usize,
    /// Processes of which data came that nobody has asked for.
    pub num_prefetched: usize,
}

impl Core {
    /// The operation by which a core begins: the hello, and what the server says of the job.
    pub const INIT: OperationId = OperationId(0);

    /// Begins a connection with a hello, which is to end by a time, if there is one.
    ///
    /// # Errors
    ///
    /// If the hello cannot be packed, or if its module is not known here.
    pub fn new(settings: Settings, hello: &Hello<'_>, end: Option<Instant>) -> Result<Self, Error> {
        let mut connection = ClientConnection::connect(hello, settings.max_reply_bytes)?;
        if let Some(version) = &settings.server_version {
            connection.speak_to(version.as_bytes());
        }
        let mut operations = Operations::default();
        operations.begin(Waiting::Welcome, end);
        let form = *connection.form();
        Ok(Self {
            form,
            link: Link::Open(Box::new(connection)),
            known: Arc::new(Known::new(form, &settings)),
            shared: None,
            operations,
            groups: group::Operations::new(settings.proc.clone()),
            hearing: Hearing::No,
            unasked: UnaskedQueue::default(),
            settings,
        })
    }

    /// Goes on with a connection that a launcher made with this process, its tool, and that has been let in: the
    /// launcher is the server from now on. Nothing is to be waited for.
    pub(crate) fn with_launcher(settings: Settings) -> Result<Self, Error> {
        let address = settings.server.as_ref();
        let server = address
            .ok_or_else(|| Error::new(Status::ERR_BAD_PARAM, "a launcher without an address"))?;
        let version = settings
            .server_version
            .as_deref()
            .unwrap_or(client::VERSION);
        let form = PeerForm::new(settings.layout, version.as_bytes());
        let (server, most) = (server.server.clone(), settings.max_reply_bytes);
        let connection = ClientConnection::with_client(form, server, most);
        let known = Known::new(form, &settings);
        let (proc, host) = (&settings.proc, settings.host.as_deref());
        known.begin(JobCache::of_unknown(form, proc, host));
        let link = Link::Open(Box::new(connection));
        Ok(Self::begun(settings, form, link, known))
    }

    /// Creates the core of a process that knows its job and has nothing to wait for.
    fn begun(settings: Settings, form: PeerForm, link: Link, known: Known) -> Self {
        Self {
            form,
            link,
            known: Arc::new(known),
            shared: None,
            operations: Operations::default(),
            groups: group::Operations::new(settings.proc.clone()),
            hearing: Hearing::No,
            unasked: UnaskedQueue::default(),
            settings,
        }
    }

    /// Reads what processes of the node share with the server, which the hello said.
    pub(crate) fn reading(mut self, shared: Option<SharedData>) -> Self {
        self.shared = shared;
        self
    }

    /// Returns the name of this process. A tool has the one that its server gave it once
    /// [`INIT`](Self::INIT) has ended.
    #[must_use]
    pub const fn proc(&self) -> &Proc<'static> {
        &self.settings.proc
    }

    /// Returns the job of this process as a whole (the wildcard rank), of which job info is asked.
    #[must_use]
    pub fn job(&self) -> Proc<'static> {
        Proc::new(self.settings.proc.nspace.clone(), Rank::WILDCARD)
    }

    /// Returns the settings, with the names of this process and the server as they became known.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the form in which both sides pack.
    #[must_use]
    pub const fn form(&self) -> &PeerForm {
        &self.form
    }

    /// Returns why the server is lost, if it is.
    #[must_use]
    pub const fn lost(&self) -> Option<&Error> {
        match &self.link {
            Link::Lost(error) => Some(error),
            Link::Open(_) | Link::Singleton => None,
        }
    }

    /// Takes bytes that the server sent. What is wrong with them ends the connection.
    pub fn handle_input(&mut self, bytes: &[u8], now: Instant) {
        let Link::Open(connection) = &mut self.link else {
            return;
        };
        let read = connection.handle_input(bytes);
        self.welcome();
        // In their order: what came before the answer to an acceptance is about another group.
        while let Some(incoming) = self.poll_incoming() {
            match incoming {
                Incoming::Reply(response) => self.handle_reply(&response, now),
                Incoming::Unsolicited(notice) => self.handle_notice(&notice, now),
            }
        }
        if let Err(error) = read {
            self.lose(&error.into());
        }
    }

    /// Takes in that the stream has ended, or cannot be used: the server is lost.
    pub fn handle_closed(&mut self, cause: io::Error) {
        self.lose(&Error::lost("lost the connection to the server", cause));
    }

    /// Ends what has run out of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(late) = self.operations.take_late(now) {
            match late {
                Limited::Operation(id) => self.handle_late(id, now),
                Limited::Request(tag) => {
                    if let Some(asker) = self.operations.take_asker(tag) {
                        let error = Error::timeout("what was said of an invitation");
                        self.said(asker, Err(error));
                    }
                }
            }
        }
        self.groups.give_up_leaders(now);
        self.advance_groups(now);
    }

    /// Returns the next bytes for the server, oldest first.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        match &mut self.link {
            Link::Open(connection) => connection.poll_transmit(),
            Link::Singleton | Link::Lost(_) => None,
        }
    }

    /// Returns the next operation that has ended, and how.
    pub fn poll_completed(&mut self) -> Option<Completed> {
        self.operations.poll()
    }

    /// Returns the next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event<'static>> {
        self.unasked.poll_event()
    }

    /// Takes the oldest event with a status, and returns whether there was one.
    pub(crate) fn take_event(&mut self, status: Status) -> bool {
        self.unasked.take_event(status)
    }

    /// Returns the next piece of output that this process pulls, oldest first.
    pub fn poll_output(&mut self) -> Option<Forwarded> {
        self.unasked.poll_output()
    }

    /// Returns the next event, piece of output or question, whichever came first.
    pub(crate) fn poll_unasked(&mut self) -> Option<Unasked> {
        self.unasked.poll()
    }

    /// Returns how much [`poll_unasked`](Self::poll_unasked) has to hand out.
    pub(crate) fn num_unasked(&self) -> usize {
        self.unasked.len()
    }

    /// Returns the number of events and pieces of output that were dropped because too much waited.
    #[must_use]
    pub const fn num_lost_events(&self) -> u64 {
        self.unasked.num_lost()
    }

    /// Returns the next process that was invited to a group of this one and does not take part, or the
    /// leader of a group that this one joins and that is lost, with the event that says so.
    /// [`decide`](Self::decide) says how it goes on.
    pub fn poll_question(&mut self) -> Option<(Question, Event<'static>)> {
        self.unasked.poll_question()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called, if there is such a time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let limits = [self.operations.next_limit(), self.groups.next_choice()];
        limits.into_iter().flatten().min()
    }

    /// Ends an operation without its answer, which is ignored if it comes. The status is
    /// `PMIX_ERR_NOT_AVAILABLE`. One that has ended is left as it is.
    pub fn cancel(&mut self, id: OperationId, now: Instant) {
        let cancelled = Error::new(Status::ERR_NOT_AVAILABLE, "the operation was cancelled");
        match self.operations.waiting(id) {
            None => {}
            Some(Waiting::Welcome | Waiting::JobInfo) => self.lose(&cancelled),
            Some(Waiting::Group(of)) => {
                let of = *of;
                self.give_up(id, of, cancelled);
                self.advance_groups(now);
            }
            Some(_) => self.operations.complete(id, Err(cancelled)),
        }
    }

    /// Drops the data of other processes that came and were not asked for, so that the next get brings
    /// what its process has committed by now. Call it when the program learns by other means than PMIx
    /// that a process has committed.
    pub fn drop_prefetched(&mut self) {
        self.known.drop_prefetched();
    }

    /// Counts what is held.
    #[must_use]
    pub fn stats(&self) -> CoreStats {
        let [num_operations, num_requests, num_limits, num_completed] = self.operations.counts();
        let [num_events, num_outputs, num_questions] = self.unasked.counts();
        CoreStats {
            num_operations,
            num_requests,
            num_limits,
            num_completed,
            num_invitations: self.groups.num_open(),
            num_events,
            num_outputs,
            unasked_bytes: self.unasked.bytes(),
            num_questions,
            num_prefetched: self.known.num_prefetched(),
        }
    }

    /// Returns what is known without asking, for who looks there without the core. It is another one before
    /// [`INIT`](Self::INIT) has ended.
    pub(crate) const fn known_data(&self) -> &Arc<Known> {
        &self.known
    }

    fn poll_incoming(&mut self) -> Option<Incoming> {
        match &mut self.link {
            Link::Open(connection) => connection.poll_incoming(),
            Link::Singleton | Link::Lost(_) => None,
        }
    }

    /// Asks about the job once the server has answered the hello, unless it is one that the server has just made.
    fn welcome(&mut self) {
        if !matches!(self.operations.waiting(Self::INIT), Some(Waiting::Welcome)) {
            return;
        }
        let Link::Open(connection) = &mut self.link else {
            return;
        };
        let mut is_assigned = false;
        match connection.welcome() {
            None => return,
            Some(Welcome::Assigned { proc, server }) => {
                is_assigned = true;
                self.settings.proc = proc.clone();
                name_server(&mut self.settings, server);
                self.groups = group::Operations::new(proc.clone());
                self.known = Arc::new(Known::new(self.form, &self.settings));
            }
            Some(Welcome::Server { server }) => name_server(&mut self.settings, server),
            Some(_) => {}
        }
        if let Some(shared) = self.shared.take().filter(SharedData::has_job_info) {
            let (proc, host) = (&self.settings.proc, self.settings.host.as_deref());
            let cache = JobCache::of_shared(self.form, proc, host, shared);
            self.known.begin(cache);
            return self.operations.complete(Self::INIT, Ok(Answer::Done));
        }
        if is_assigned {
            let (proc, host) = (&self.settings.proc, self.settings.host.as_deref());
            self.known.begin(JobCache::of_tool(self.form, proc, host));
            return self.operations.complete(Self::INIT, Ok(Answer::Done));
        }
        match connection.request(&Request::JobInfo, None) {
            Ok(tag) => self.operations.ask(Self::INIT, tag, Some(Waiting::JobInfo)),
            Err(error) => self.lose(&error.into()),
        }
    }

    fn handle_reply(&mut self, response: &Response, now: Instant) {
        // What a get brings says nothing about what else may have changed.
        if response.command != Command::GETNB {
            self.known.drop_prefetched();
        }
        match self.operations.take_asker(response.tag) {
            // The reply to what was given up is nobody's.
            None => {}
            Some(Asker::Operation(id)) => self.answer(id, response.tag, &response.payload),
            Some(Asker::Context(of)) => {
                self.context_assigned(of, &response.payload, now);
                self.advance_groups(now);
            }
            Some(asker) => {
                let done = self.read_done(response.command, &response.payload);
                self.said(asker, done.map(drop));
                self.advance_groups(now);
            }
        }
    }

    /// Takes in what came unasked: events and output.
    fn handle_notice(&mut self, notice: &Frame, now: Instant) {
        self.known.drop_prefetched();
        let payload = &notice.payload;
        let read = match notice.header.tag {
            Tag::EVENT => self.handle_event(payload, now),
            Tag::OUTPUT => self.handle_output(payload),
            tag => return tracing::debug!("ignored a message with tag {tag}"),
        };
        if let Err(error) = read {
            tracing::warn!("what came unasked cannot be read: {error}");
        }
    }

    fn handle_event(&mut self, payload: &[u8], now: Instant) -> Result<(), Error> {
        let has_room = self.unasked.has_room_for_event(payload.len());
        if !has_room && !self.groups.listens() {
            self.unasked.lose();
            return Ok(());
        }
        let event = Event::decode(&self.form, None, payload)?.try_into_owned()?;
        if !self.hear(&event, now) {
            self.unasked.keep_event(event, payload.len());
        }
        Ok(())
    }

    fn handle_output(&mut self, payload: &[u8]) -> Result<(), Error> {
        if !self.unasked.has_room_for_output(payload.len()) {
            self.unasked.lose();
            return Ok(());
        }
        let output = Output::decode(&self.form, None, payload)?;
        memory::check(payload.len())?;
        self.unasked.keep_output(output.into(), payload.len());
        Ok(())
    }

    /// Ends an operation whose time is over.
    fn handle_late(&mut self, id: OperationId, now: Instant) {
        match self.operations.waiting(id) {
            None => {}
            Some(waiting @ (Waiting::Welcome | Waiting::JobInfo)) => {
                let late = waiting.late();
                self.lose(&late);
            }
            Some(Waiting::Group(of)) => {
                let of = *of;
                self.handle_late_group(id, of, now);
            }
            Some(waiting) => {
                let late = waiting.late();
                self.operations.complete(id, Err(late));
            }
        }
    }

    /// The server is lost: everything ends.
    fn lose(&mut self, error: &Error) {
        if self.lost().is_some() {
            return;
        }
        self.link = Link::Lost(error.clone());
        self.operations.lose();
        self.groups.fail(error);
        self.known.groups().clear();
        self.end_groups();
        self.known.drop_prefetched();
        for id in self.operations.all_open() {
            self.operations.complete(id, Err(error.clone()));
        }
    }

    /// Sends a request, once the core has begun.
    fn send(&mut self, request: &Request<'_>) -> Result<Tag, Error> {
        match &mut self.link {
            Link::Lost(error) => Err(error.clone()),
            Link::Singleton => Err(Error::no_server()),
            Link::Open(_) if self.known.cache().is_none() => Err(Error::not_begun()),
            Link::Open(connection) => Ok(connection.request(request, None)?),
        }
    }

    /// Asks for something: it ends with the [`Answer`] that says it.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn ask<T>(&mut self, ask: Ask<'_, T>, end: Option<Instant>) -> Result<OperationId, Error> {
        let mut request = ask.request;
        if let Request::Fence(fence) = &mut request
            && fence.procs.is_empty()
        {
            // Servers of OpenPMIx refuse a fence of nobody.
            fence.procs.push(self.job());
        }
        let begun = self.begin(&request, ask.waiting, end);
        begun.map_err(|error| match (&request, error.status()) {
            // A server that speaks as releases up to 5 do cannot be asked at all.
            (Request::ResourceBlock(_), Status::ERR_UNKNOWN_DATA_TYPE) => {
                let message = "the server knows no blocks of resources (PMIx_Resource_block)";
                Error::new(Status::ERR_NOT_SUPPORTED, message)
            }
            _ => error,
        })
    }

    /// Begins an operation that waits for the reply to a request.
    fn begin(
        &mut self,
        request: &Request<'_>,
        waiting: Waiting,
        end: Option<Instant>,
    ) -> Result<OperationId, Error> {
        let command = request.command();
        if !command.is_answered() {
            let message = format!("{command} has no reply to wait for");
            return Err(Error::new(Status::ERR_BAD_PARAM, message));
        }
        if let Link::Singleton = self.link {
            let outcome = self.answer_alone(request)?;
            return Ok(self.ended(outcome));
        }
        let resolved = groups::resolved(&self.known, request)?;
        let tag = self.send(resolved.as_ref().unwrap_or(request))?;
        let waiting = groups::ending(request).unwrap_or(waiting);
        let id = self.operations.begin(waiting, end);
        self.operations.ask(id, tag, None);
        Ok(id)
    }

    /// Begins an operation that has ended already.
    fn ended(&mut self, outcome: Result<Answer, Error>) -> OperationId {
        let id = self.operations.begin(Waiting::Welcome, None);
        self.operations.complete(id, outcome);
        id
    }
}

/// Takes the name that the server says of itself.
fn name_server(settings: &mut Settings, name: &Proc<'static>) {
    if let Some(server) = &mut settings.server {
        server.server = name.clone();
    }
}

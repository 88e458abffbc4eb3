// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state machine of a client without a socket. Input is bytes, calls and times; output is bytes, completed
//! operations, events and questions.
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
mod unsolicited;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_proto::{
    ClientConnection, Command, Deleted, Event, Flow, Frame, Hello, Incoming, Output, PeerForm,
    RELEASE, Request, Response, Tag, Welcome,
};
use pmix_types::{IntoOwned as _, IofChannel, Key, Proc, Rank, Status, memory};

use self::groups::EventRegistration;
pub use self::operation::{Answer, Answers, Completed, FromAnswer, OperationId};
use self::operation::{Limited, Operations, Requester};
pub(crate) use self::operation::{RequestCall, Waiting, result_of};
pub use self::unsolicited::Forwarded;
pub(crate) use self::unsolicited::Unsolicited;
use self::unsolicited::UnsolicitedQueue;
use crate::cache::JobCache;
use crate::group;
use crate::group::Question;
use crate::known::Known;
use crate::shared_data::SharedData;
use crate::{Error, Settings};

/// The time in which the server must acknowledge an event of an invitation if [`Settings::time_limit`] has no limit.
const ACKNOWLEDGMENT_TIME: Duration = Duration::from_secs(60);

/// The state of one process towards its server, without a socket, a thread or a clock.
///
/// The driver connects a stream and then does the following:
///
/// - It sends the bytes of [`poll_transmit`](Self::poll_transmit).
/// - It passes received bytes to [`handle_input`](Self::handle_input), and the end of the stream to
///   [`handle_closed`](Self::handle_closed).
/// - It calls [`handle_timeout`](Self::handle_timeout) at the time of [`poll_timeout`](Self::poll_timeout).
/// - After each of these it takes completed operations ([`poll_completed`](Self::poll_completed)), events
///   ([`poll_event`](Self::poll_event)), pulled output ([`poll_output`](Self::poll_output)) and questions
///   ([`poll_question`](Self::poll_question)) until none is left.
///
/// A call that may wait begins an operation and returns its id. Each operation completes once: by its reply, by its
/// time limit (`PMIX_ERR_TIMEOUT`), by a [cancellation](Self::cancel), or by the loss of the server.
/// [`INIT`](Self::INIT) is the first; no other begins before it has completed. The time limit of an invitation applies
/// until all invited processes have answered. The server then has [`Settings::time_limit`] (60 s if there is none) to
/// acknowledge the group.
///
/// [`Settings`] bounds the messages of the server. At most 4,096 events, and 64 MiB of events and output (4 MiB more
/// for events), are queued. Further ones are dropped and counted.
///
/// ```
/// use pmix_client::driver::Core;
/// use pmix_client::{Settings, Uri};
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
    /// The local data, shared with gets that do not lock the core.
    known: Arc<Known>,
    /// The shared memory of the node, until the cache takes it over.
    shared: Option<SharedData>,
    operations: Operations,
    groups: group::Operations,
    event_registration: EventRegistration,
    unsolicited: UnsolicitedQueue,
}

/// The connection to the server, or the reason why there is none.
enum Link {
    Open(Box<ClientConnection>),
    /// No launcher started this process, so it has no server.
    Singleton,
    Lost(Error),
}

/// The numbers of objects that a [`Core`] holds for open work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreStats {
    /// Operations that have not completed.
    pub num_operations: usize,
    /// Requests without a reply so far.
    pub num_requests: usize,
    /// Time limits of operations and requests.
    pub num_limits: usize,
    /// Completed operations that the driver has not taken.
    pub num_completed: usize,
    /// Invitations and acceptances that have not completed.
    pub num_invitations: usize,
    /// Events that the driver has not taken.
    pub num_events: usize,
    /// Pieces of output that the driver has not taken.
    pub num_outputs: usize,
    /// The size of queued events and output on the wire, plus 256 bytes for each.
    pub unsolicited_bytes: usize,
    /// Questions that the driver has not taken.
    pub num_questions: usize,
    /// Processes with unread data from the prefetch.
    pub num_prefetched: usize,
}

impl Core {
    /// The first operation of a core: the hello and the job info.
    pub const INIT: OperationId = OperationId(0);

    /// Begins a connection with a hello. `end` is the time limit of init.
    ///
    /// # Errors
    ///
    /// Returns a pack error if the hello cannot be packed, or an error if its packing module is unknown.
    pub fn new(settings: Settings, hello: &Hello<'_>, end: Option<Instant>) -> Result<Self, Error> {
        let mut connection = ClientConnection::connect(hello, settings.max_reply_bytes)?;
        if let Some(version) = &settings.server_version {
            connection.speak_to(version.as_bytes());
            // Only servers of this project read the parts of a commit.
            if !settings.reads_commit_parts {
                connection.hear_from(version.as_bytes());
            }
        }
        let mut operations = Operations::default();
        // The first operation has the id `INIT`.
        operations.begin(Waiting::Welcome, end);
        let form = *connection.form();
        Ok(Self {
            form,
            link: Link::Open(Box::new(connection)),
            known: Arc::new(Known::new(form, &settings)),
            shared: None,
            operations,
            groups: group::Operations::new(settings.proc.clone())
                .asking(settings.asks_about_acceptances),
            event_registration: EventRegistration::None,
            unsolicited: UnsolicitedQueue::new(settings.max_unread_bytes),
            settings,
        })
    }

    /// Creates the core of a tool from an accepted connection of a launcher. The launcher acts as the server from now
    /// on, and init is complete.
    pub(crate) fn with_launcher(settings: Settings) -> Result<Self, Error> {
        let address = settings.server.as_ref();
        let server = address
            .ok_or_else(|| Error::new(Status::ERR_BAD_PARAM, "a launcher without an address"))?;
        let version = settings.server_version.as_deref().unwrap_or(RELEASE);
        let form = PeerForm::new(settings.layout, version.as_bytes());
        let (server, most) = (server.server.clone(), settings.max_reply_bytes);
        let connection = ClientConnection::with_client(form, server, most);
        let known = Known::new(form, &settings);
        let (proc, host) = (&settings.proc, settings.host.as_deref());
        // The launcher sends no job info to its tool, so the cache begins empty.
        known.begin(JobCache::of_unknown(form, proc, host));
        let link = Link::Open(Box::new(connection));
        Ok(Self::begun(settings, form, link, known))
    }

    /// Creates the core of a process that is not connected to a server. Every call fails with the error.
    pub(crate) fn without_server(error: Error) -> Self {
        let settings = Settings::unconnected();
        let form = PeerForm::new(settings.layout, RELEASE.as_bytes());
        let known = Known::new(form, &settings);
        Self::begun(settings, form, Link::Lost(error), known)
    }

    /// Creates a core whose init is complete.
    fn begun(settings: Settings, form: PeerForm, link: Link, known: Known) -> Self {
        Self {
            form,
            link,
            known: Arc::new(known),
            shared: None,
            operations: Operations::default(),
            groups: group::Operations::new(settings.proc.clone())
                .asking(settings.asks_about_acceptances),
            event_registration: EventRegistration::None,
            unsolicited: UnsolicitedQueue::new(settings.max_unread_bytes),
            settings,
        }
    }

    /// Sets the shared memory of the node, which the hello announced.
    pub(crate) fn reading(mut self, shared: Option<SharedData>) -> Self {
        self.shared = shared;
        self
    }

    /// Returns the name of this process. For a tool without a name it is known once [`INIT`](Self::INIT) has completed.
    #[must_use]
    pub const fn proc(&self) -> &Proc<'static> {
        &self.settings.proc
    }

    /// Returns the own job as a process name (nspace and `PMIX_RANK_WILDCARD`), for gets of job info.
    #[must_use]
    pub fn job(&self) -> Proc<'static> {
        Proc::new(self.settings.proc.nspace.clone(), Rank::WILDCARD)
    }

    /// Returns the settings, with the names of this process and of the server as init has set them.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the layout and version that both sides pack with.
    #[must_use]
    pub const fn form(&self) -> &PeerForm {
        &self.form
    }

    /// Returns the error with which the server was lost, if it was.
    #[must_use]
    pub const fn lost(&self) -> Option<&Error> {
        match &self.link {
            Link::Lost(error) => Some(error),
            Link::Open(_) | Link::Singleton => None,
        }
    }

    /// Handles bytes from the server. Invalid bytes end the connection.
    pub fn handle_input(&mut self, bytes: &[u8], now: Instant) {
        let Link::Open(connection) = &mut self.link else {
            return;
        };
        let read = connection.handle_input(bytes);
        self.welcome();
        // The order matters: an event before the reply to an acceptance is about another group of that name.
        let mut removed = Vec::new();
        while let Some(incoming) = self.poll_incoming() {
            match incoming {
                Incoming::Unsolicited(notice) if notice.header.tag == Tag::DELETED => {
                    removed.extend(self.read_removed(&notice.payload));
                    continue;
                }
                _ => self.forget_keys(&mut removed),
            }
            match incoming {
                Incoming::Reply(response) => self.handle_reply(&response, now),
                Incoming::Unsolicited(notice) => self.handle_notice(&notice, now),
            }
        }
        self.forget_keys(&mut removed);
        // The messages before invalid bytes are complete, so they are handled before the connection is lost.
        if let Err(error) = read {
            self.lose(&error.into());
        }
    }

    /// Handles the end or a failure of the stream: the server is lost.
    pub fn handle_closed(&mut self, cause: io::Error) {
        self.lose(&Error::lost("lost the connection to the server", cause));
    }

    /// Completes operations and requests whose time limit has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(late) = self.operations.take_late(now) {
            match late {
                Limited::Operation(id) => self.handle_late(id, now),
                Limited::Request(tag) => {
                    if let Some(requester) = self.operations.take_requester(tag) {
                        let error = Error::timeout("an event of an invitation");
                        self.handle_group_reply(requester, Err(error));
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

    /// Returns the next completed operation and its outcome.
    pub fn poll_completed(&mut self) -> Option<Completed> {
        self.operations.poll()
    }

    /// Returns the next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event<'static>> {
        self.unsolicited.poll_event()
    }

    /// Removes the oldest event with a status. Returns `true` if there was one.
    pub(crate) fn take_event(&mut self, status: Status) -> bool {
        self.unsolicited.take_event(status)
    }

    /// Returns the next piece of output that this process pulls, oldest first.
    pub fn poll_output(&mut self) -> Option<Forwarded> {
        self.unsolicited.poll_output()
    }

    /// Returns the next event, piece of output or question in the order of arrival.
    pub(crate) fn poll_unsolicited(&mut self) -> Option<Unsolicited> {
        self.unsolicited.poll()
    }

    /// Returns the number of items that [`poll_unsolicited`](Self::poll_unsolicited) can return.
    pub(crate) fn num_unsolicited(&self) -> usize {
        self.unsolicited.len()
    }

    /// Returns the number of events and pieces of output dropped because the queue was full.
    #[must_use]
    pub const fn num_lost_events(&self) -> u64 {
        self.unsolicited.num_lost()
    }

    /// Returns the next question to the program, with the event that caused it. The subject is a process that does not
    /// take part in a group that this process leads, or the lost leader of its group. The program answers with
    /// [`decide`](Self::decide).
    pub fn poll_question(&mut self) -> Option<(Question, Event<'static>)> {
        self.unsolicited.poll_question()
    }

    /// Returns the time for the next [`handle_timeout`](Self::handle_timeout), if there is one.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let limits = [self.operations.next_limit(), self.groups.next_choice()];
        limits.into_iter().flatten().min()
    }

    /// Completes an operation with `PMIX_ERR_NOT_AVAILABLE`; a later reply to it is ignored. Does nothing for a
    /// completed operation.
    pub fn cancel(&mut self, id: OperationId, now: Instant) {
        let cancelled = Error::new(Status::ERR_NOT_AVAILABLE, "the operation was cancelled");
        match self.operations.waiting(id) {
            None => {}
            // Without init no call is possible, so the connection is of no use.
            Some(Waiting::Welcome | Waiting::JobInfo) => self.lose(&cancelled),
            Some(Waiting::Group(of)) => {
                let of = *of;
                self.give_up(id, of, cancelled);
                self.advance_groups(now);
            }
            Some(_) => self.operations.complete(id, Err(cancelled)),
        }
    }

    /// Drops the data of other processes that were sent in advance, so the next get requests the committed data of its
    /// process. A program calls it after it has learned of a commit by means other than PMIx.
    pub fn drop_prefetched(&mut self) {
        self.known.drop_prefetched();
    }

    /// Returns the numbers of objects held.
    #[must_use]
    pub fn stats(&self) -> CoreStats {
        let [num_operations, num_requests, num_limits, num_completed] = self.operations.counts();
        let [num_events, num_outputs, num_questions] = self.unsolicited.counts();
        CoreStats {
            num_operations,
            num_requests,
            num_limits,
            num_completed,
            num_invitations: self.groups.num_open(),
            num_events,
            num_outputs,
            unsolicited_bytes: self.unsolicited.bytes(),
            num_questions,
            num_prefetched: self.known.num_prefetched(),
        }
    }

    /// Returns the local data, for gets that do not lock the core. Init may replace it, so callers fetch it after
    /// [`INIT`](Self::INIT) has completed.
    pub(crate) const fn known_data(&self) -> &Arc<Known> {
        &self.known
    }

    fn poll_incoming(&mut self) -> Option<Incoming> {
        match &mut self.link {
            Link::Open(connection) => connection.poll_incoming(),
            Link::Singleton | Link::Lost(_) => None,
        }
    }

    /// Requests the job info once the server has replied to the hello. A tool whose job was created by this reply has
    /// none to request.
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
                // Both were created with the old name of this process.
                self.groups = group::Operations::new(proc.clone())
                    .asking(self.settings.asks_about_acceptances);
                self.known = Arc::new(Known::new(self.form, &self.settings));
            }
            Some(Welcome::Server { server }) => name_server(&mut self.settings, server),
            Some(_) => {}
        }
        if let Some(shared) = self.shared.take().filter(SharedData::has_job_info) {
            let (proc, host) = (&self.settings.proc, self.settings.host.as_deref());
            // The table has the job info, so init needs no second request.
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
            Ok(tag) => self
                .operations
                .add_request(Self::INIT, tag, Some(Waiting::JobInfo)),
            Err(error) => self.lose(&error.into()),
        }
    }

    fn handle_reply(&mut self, response: &Response, now: Instant) {
        // A fence or another reply may follow a commit of a process, so its data sent in advance may be old. The reply
        // to a get has no such meaning.
        if response.command != Command::GETNB {
            self.known.drop_prefetched();
        }
        match self.operations.take_requester(response.tag) {
            // The operation was cancelled or has timed out.
            None => {}
            Some(Requester::Operation(id)) => self.answer(id, response.tag, &response.payload),
            Some(Requester::ContextId(of)) => {
                self.context_assigned(of, &response.payload, now);
                self.advance_groups(now);
            }
            Some(requester) => {
                let done = self.read_done(response.command, &response.payload);
                self.handle_group_reply(requester, done.map(drop));
                self.advance_groups(now);
            }
        }
    }

    /// Handles an unsolicited message: an event or output.
    fn handle_notice(&mut self, notice: &Frame, now: Instant) {
        self.known.drop_prefetched();
        let payload = &notice.payload;
        let read = match notice.header.tag {
            Tag::EVENT => self.handle_event(payload, now),
            Tag::OUTPUT => self.handle_output(payload),
            Tag::FLOW => self.handle_flow(payload),
            tag => return tracing::debug!("ignored a message with tag {tag}"),
        };
        if let Err(error) = read {
            tracing::warn!("cannot decode an unsolicited message of the server: {error}");
        }
    }

    fn handle_event(&mut self, payload: &[u8], now: Instant) -> Result<(), Error> {
        let has_room = self.unsolicited.has_room_for_event(payload.len());
        // An event of an invitation is handled here and needs no room in the queue of the program.
        if !has_room && !self.groups.listens() {
            self.unsolicited.lose();
            return Ok(());
        }
        let event = Event::decode(&self.form, None, payload)?.try_into_owned()?;
        if !self.handle_group_event(&event, now) {
            self.unsolicited.keep_event(event, payload.len());
        }
        Ok(())
    }

    fn handle_output(&mut self, payload: &[u8]) -> Result<(), Error> {
        if !self.unsolicited.has_room_for_output(payload.len()) {
            self.unsolicited.lose();
            return Ok(());
        }
        let output = Output::decode(&self.form, None, payload)?;
        // The queue keeps a copy, which needs about the size of the message.
        memory::check(payload.len())?;
        self.unsolicited.keep_output(output.into(), payload.len());
        Ok(())
    }

    /// Stops or resumes the input that this process pushes. While it is stopped, no push completes, so a program that
    /// waits for each push sends no more.
    fn handle_flow(&mut self, payload: &[u8]) -> Result<(), Error> {
        let flow = Flow::decode(&self.form, None, payload)?;
        if flow.channel.contains(IofChannel::STDIN_CHANNEL) {
            self.operations.set_stopped(flow.stop);
        }
        Ok(())
    }

    /// Reads the notification of a key that a process has removed.
    fn read_removed(&self, payload: &[u8]) -> Option<(Proc<'static>, Key<'static>)> {
        self.known.drop_prefetched();
        match Deleted::decode(&self.form, None, payload) {
            Ok(Deleted { proc, key, .. }) => Some((proc.into_owned(), key.into_owned())),
            Err(error) => {
                tracing::warn!("cannot decode the notification of a removed key: {error}");
                None
            }
        }
    }

    /// Forgets removed keys, so that the next gets request them.
    fn forget_keys(&self, removed: &mut Vec<(Proc<'static>, Key<'static>)>) {
        if let Some(cache) = self.known.cache().filter(|_| !removed.is_empty()) {
            cache.forget_keys(removed);
        }
        removed.clear();
    }

    /// Completes an operation whose time limit has passed.
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

    /// Handles the loss of the server: every open operation fails.
    fn lose(&mut self, error: &Error) {
        if self.lost().is_some() {
            return;
        }
        // The state machines below cannot send anything from here on.
        self.link = Link::Lost(error.clone());
        self.operations.lose();
        self.groups.fail(error);
        self.known.groups().clear();
        // The ends of invitations complete their operations, so the loop finds only the others.
        self.end_groups();
        self.known.drop_prefetched();
        for id in self.operations.all_open() {
            self.operations.complete(id, Err(error.clone()));
        }
    }
}

/// Stores the server's name from its reply to the hello.
fn name_server(settings: &mut Settings, name: &Proc<'static>) {
    if let Some(server) = &mut settings.server {
        server.server = name.clone();
    }
}

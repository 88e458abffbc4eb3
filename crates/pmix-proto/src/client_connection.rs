// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client side of a connection.
//!
//! Source: OpenPMIx; `docs/protocol.md` describes the messages.

use std::collections::{HashMap, VecDeque};

use bfrops::RegexFramer;
use pmix_types::{IntoOwned, Proc, Status, memory};

use crate::{
    Command, Error, Frame, Header, Hello, Inbox, MAX_REQUEST_BYTES, PeerForm, Request, Tag,
    Welcome, WelcomeForm, reply,
};

/// The maximum number of queued messages at which requests of the other end still receive a reply.
const MAX_REFUSALS: usize = 64;

/// The client side of a connection, without a socket.
///
/// The driver sends the messages that [`poll_transmit`](Self::poll_transmit) returns and passes
/// received bytes to [`handle_input`](Self::handle_input). Then it polls replies and unsolicited
/// messages until there are none. The connection starts with the hello. Requests are possible once
/// [`welcome`](Self::welcome) returns the server's reply to the hello.
///
/// ```
/// # use bfrops::BufferKind;
/// # use pmix_types::{Proc, Rank};
/// use pmix_proto::{Hello, Request, Role, ClientConnection};
/// # let hello = Hello {
/// #     psec: "none".into(), credential: &[], role: Role::CLIENT, ids: None,
/// #     proc: Some(Proc::new("job", Rank::new(0))), version: "5.0.11".into(),
/// #     module: "v41".into(), buffer: BufferKind::NonDescribed, gds: "hash".into(),
/// #     infos: vec![],
/// # };
/// let mut session = ClientConnection::connect(&hello, 1 << 20)?;
/// assert!(session.poll_transmit().is_some()); // the hello
/// session.handle_input(&[0, 0, 0, 0, 0, 0, 0, 9])?; // status and index
/// assert!(session.welcome().is_some());
/// let tag = session.request(&Request::JobInfo, None)?;
/// assert!(session.poll_transmit().is_some());
/// # assert_eq!(tag, pmix_proto::Tag(101));
/// # Ok::<(), pmix_proto::Error>(())
/// ```
#[derive(Debug)]
pub struct ClientConnection {
    form: PeerForm,
    /// The form in which requests are packed for the server.
    requests: PeerForm,
    state: State,
    inbox: Inbox,
    /// The tag of the last request.
    tag: Tag,
    /// The commands of requests whose replies have not arrived, by tag.
    asked: HashMap<Tag, Command>,
    out: VecDeque<Vec<u8>>,
    /// The received replies, each with its number in the order of arrival.
    replies: VecDeque<(u64, Response)>,
    unsolicited: VecDeque<(u64, Frame)>,
    num_come: u64,
    /// `true` if the other end may send requests as well. They are rejected.
    is_asked: bool,
}

#[derive(Debug)]
enum State {
    /// The hello has been queued. The bytes of the welcome that have arrived so far.
    Greeting(WelcomeForm, Vec<u8>),
    Open(Welcome<'static>),
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The tag of the request.
    pub tag: Tag,
    /// The command of the request, which determines the layout of the payload.
    pub command: Command,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The reply to a request.
    Reply(Response),
    /// A message that is not a reply.
    Unsolicited(Frame),
}

impl ClientConnection {
    /// Starts a connection with a hello. Payloads of the server may have at most `max_payload`
    /// bytes.
    ///
    /// # Errors
    ///
    /// The hello cannot be packed, or its module is unknown.
    pub fn connect(hello: &Hello<'_>, max_payload: u32) -> Result<Self, Error> {
        let form = hello.form()?;
        let state = State::Greeting(hello.role.welcome(&form), Vec::new());
        Ok(Self {
            form,
            requests: form,
            state,
            inbox: Inbox::new(max_payload).dropping(),
            tag: Tag::FIRST_REQUEST,
            asked: HashMap::new(),
            out: VecDeque::from([hello.encode()?]),
            replies: VecDeque::new(),
            unsolicited: VecDeque::new(),
            num_come: 0,
            is_asked: false,
        })
    }

    /// Continues a connection whose other end connected as a client and now acts as the server.
    /// There is no handshake, because both ends know each other and pack in the same form.
    ///
    /// The other end may still send requests. A message whose tag belongs to no request of this
    /// side is a request of the other end. The reply to it is `PMIX_ERR_NOT_SUPPORTED`.
    #[must_use]
    pub fn with_client(form: PeerForm, server: Proc<'static>, max_payload: u32) -> Self {
        Self {
            form,
            requests: form,
            state: State::Open(Welcome::Server { server }),
            inbox: Inbox::new(max_payload).dropping(),
            tag: Tag::FIRST_REQUEST,
            asked: HashMap::new(),
            out: VecDeque::new(),
            replies: VecDeque::new(),
            unsolicited: VecDeque::new(),
            num_come: 0,
            is_asked: true,
        }
    }

    /// Records the release of the server, for example `4.2.2`. A server that is older than this
    /// client expects requests in the form of its own release, even if the hello has another form. A newer server reads requests in the form of the hello,
    /// but OpenPMIx packs replies, and arrays without a type, as its own release does.
    pub fn speak_to(&mut self, version: &[u8]) {
        let server = PeerForm::new(self.form.layout, version);
        let untyped = server.layout.untyped;
        self.requests.layout = self.requests.layout.with_untyped(untyped);
        if (server.major, server.minor) > (self.form.major, self.form.minor) {
            self.form = server;
        }
        self.form.layout = self.form.layout.with_untyped(untyped);
        if (server.major, server.minor) < (self.form.major, self.form.minor) {
            self.requests = server;
        }
    }

    /// Records that an older server replies in the form of its own release, as servers of OpenPMIx do; those of this
    /// project reply in the form of the hello. The reply of a 4.2 server is recognized in the form of 5.0.
    pub fn hear_from(&mut self, version: &[u8]) {
        let server = PeerForm::new(self.form.layout, version);
        if (server.major, server.minor) < (self.form.major, self.form.minor) {
            let layout = self.form.layout;
            self.form = match server.major {
                0..5 => PeerForm::new(layout, b"5.0.11"),
                _ => server,
            };
            self.form.layout = layout;
        }
    }

    /// Returns the form in which both sides pack.
    #[must_use]
    pub const fn form(&self) -> &PeerForm {
        &self.form
    }

    /// Returns the reply of the server to the hello, once it has arrived.
    #[must_use]
    pub const fn welcome(&self) -> Option<&Welcome<'static>> {
        match &self.state {
            State::Open(welcome) => Some(welcome),
            State::Greeting(..) => None,
        }
    }

    /// Sends a request, and returns the tag of its reply.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_AVAILABLE` before the welcome; `PMIX_ERR_OUT_OF_RESOURCE` for a request of
    /// more than [`MAX_REQUEST_BYTES`], because a server would close the connection. Another error
    /// if the request cannot be packed. Then nothing is sent.
    pub fn request(
        &mut self,
        request: &Request<'_>,
        framer: Option<&dyn RegexFramer>,
    ) -> Result<Tag, Error> {
        let payload = request.encode(&self.requests, framer)?;
        let tag = self.next_tag();
        self.send(tag, payload)?;
        self.tag = tag;
        let command = request.command();
        if command.is_answered() {
            self.asked.insert(tag, command);
        }
        Ok(tag)
    }

    /// Sends a heartbeat.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_AVAILABLE` before the welcome.
    pub fn heartbeat(&mut self) -> Result<(), Error> {
        self.send(Tag::HEARTBEAT, Vec::new())
    }

    /// Handles bytes from the server. If the process has no memory for a reply, the status
    /// `PMIX_ERR_NOMEM` replaces it. Unsolicited messages without memory are dropped.
    ///
    /// # Errors
    ///
    /// The server rejected the client: the status is that of the server, or `PMIX_ERR_COMM_FAILURE`
    /// if it is positive. Or the bytes violate the protocol. Then the caller must close the
    /// connection.
    pub fn handle_input(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.state {
            State::Open(_) => self.inbox.push(bytes),
            State::Greeting(form, came) => {
                came.extend_from_slice(bytes);
                let Some((welcome, len)) = Welcome::decode(*form, came) else {
                    return Ok(());
                };
                match welcome {
                    // A positive number is not an error status, and callers would mistake it for
                    // success.
                    Welcome::Refused(status) if status.as_raw() > 0 => {
                        let message = "the reply to the hello is not from a PMIx server: its status is positive; check the address";
                        return Err(Error::new(Status::ERR_COMM_FAILURE, message));
                    }
                    Welcome::Refused(status) => {
                        let message = match status {
                            // Servers reply with this status to a security module that they do not accept.
                            Status::ERR_NOT_SUPPORTED => {
                                "the server rejected the connection: it may accept only another security module, \
                                 which the parameter psec names (PMIX_MCA_psec=munge)"
                            }
                            _ => "the server rejected the connection",
                        };
                        return Err(Error::new(status, message));
                    }
                    _ => {}
                }
                self.inbox.push(came.get(len..).unwrap_or_default());
                let welcome = welcome.into_owned();
                self.state = State::Open(welcome);
            }
        }
        while let Some(frame) = self.inbox.next_frame()? {
            self.sort(frame)?;
        }
        Ok(())
    }

    /// Returns the next bytes to send to the server, oldest first.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// Returns the next reply, oldest first.
    pub fn poll_reply(&mut self) -> Option<Response> {
        self.replies.pop_front().map(|(_, reply)| reply)
    }

    /// Returns the next unsolicited message of the server. Its tag determines its type: an
    /// [`Event`](crate::Event), [`Output`](crate::Output), [`Flow`](crate::Flow) or
    /// [`Deleted`](crate::Deleted).
    pub fn poll_unsolicited(&mut self) -> Option<Frame> {
        self.unsolicited.pop_front().map(|(_, frame)| frame)
    }

    /// Returns the next reply or unsolicited message, oldest first.
    pub fn poll_incoming(&mut self) -> Option<Incoming> {
        let reply = self.replies.front().map(|(place, _)| *place);
        let unsolicited = self.unsolicited.front().map(|(place, _)| *place);
        match (reply, unsolicited) {
            (Some(reply), Some(unsolicited)) if unsolicited < reply => {
                self.poll_unsolicited().map(Incoming::Unsolicited)
            }
            (Some(_), _) => self.poll_reply().map(Incoming::Reply),
            (None, _) => self.poll_unsolicited().map(Incoming::Unsolicited),
        }
    }

    /// Returns the number of requests whose replies have not arrived.
    #[must_use]
    pub fn num_asked(&self) -> usize {
        self.asked.len()
    }

    fn index(&self) -> i32 {
        match &self.state {
            State::Open(Welcome::Index { index }) => index.cast_signed(),
            _ => 0,
        }
    }

    /// Returns a tag that no pending request uses.
    fn next_tag(&self) -> Tag {
        let mut tag = self.tag.next();
        while self.asked.contains_key(&tag) {
            tag = tag.next();
        }
        tag
    }

    fn send(&mut self, tag: Tag, payload: Vec<u8>) -> Result<(), Error> {
        if self.welcome().is_none() {
            let message = "the server has not answered the hello yet";
            return Err(Error::new(Status::ERR_NOT_AVAILABLE, message));
        }
        let len = u32::try_from(payload.len()).ok();
        let len = len.filter(|len| *len <= MAX_REQUEST_BYTES).ok_or_else(|| {
            let (len, most) = (payload.len(), MAX_REQUEST_BYTES);
            let message = format!(
                "a request of {len} bytes exceeds the limit of servers, {most} bytes; send less"
            );
            Error::new(Status::ERR_OUT_OF_RESOURCE, message)
        })?;
        let header = Header::new(self.index(), tag, len).encode();
        let mut bytes = memory::list(header.len() + payload.len())?;
        bytes.extend(header);
        bytes.extend(payload);
        self.out.push_back(bytes);
        Ok(())
    }

    fn sort(&mut self, mut frame: Frame) -> Result<(), Error> {
        let tag = frame.header.tag;
        if !frame.is_whole() {
            // Nearly all replies begin with a status. So only this request fails, and the
            // connection continues.
            frame.payload = reply::status(&self.form, Status::ERR_NOMEM)?;
            if !self.asked.contains_key(&tag) {
                return Ok(());
            }
        }
        self.num_come += 1;
        let place = self.num_come;
        match self.asked.remove(&tag) {
            Some(command) => {
                let payload = frame.payload;
                let response = Response {
                    tag,
                    command,
                    payload,
                };
                self.replies.push_back((place, response));
            }
            None if tag.is_request() && self.is_asked => {
                // The limit protects against a peer that sends requests endlessly but reads
                // nothing.
                if self.out.len() < MAX_REFUSALS {
                    let refusal = reply::status(&self.form, Status::ERR_NOT_SUPPORTED)?;
                    self.send(tag, refusal)?;
                }
            }
            None if tag.is_request() => {
                let message = format!("a reply with tag {tag}, which belongs to no request");
                return Err(Error::new(Status::ERR_COMM_FAILURE, message));
            }
            // A server that does not monitor heartbeats sends this reply, which the client ignores.
            None if tag == Tag::HEARTBEAT => {}
            None => self.unsolicited.push_back((place, frame)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, request};
    use bfrops::BufferKind;
    use pmix_types::{Proc, Rank};

    const WELCOME: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 9];

    fn hello() -> Hello<'static> {
        Hello {
            psec: "none".into(),
            credential: &[],
            role: Role::CLIENT,
            ids: None,
            proc: Some(Proc::new("job", Rank::new(0))),
            version: "5.0.11".into(),
            module: "v41".into(),
            buffer: BufferKind::NonDescribed,
            gds: "hash".into(),
            infos: vec![],
        }
    }

    fn session() -> ClientConnection {
        let hello = hello();
        let mut session = ClientConnection::connect(&hello, 1 << 10).unwrap();
        assert_eq!(session.poll_transmit(), Some(hello.encode().unwrap()));
        session
    }

    fn frame(tag: Tag, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).unwrap();
        [&Header::new(0, tag, len).encode()[..], payload].concat()
    }

    #[test]
    fn rejects_requests_above_the_limit_of_servers() {
        let mut session = session();
        session.handle_input(&frame(Tag::HELLO, &WELCOME)).unwrap();
        let most = usize::try_from(MAX_REQUEST_BYTES).unwrap();
        // The number of the command precedes the blocks.
        let blocks = vec![0; most];
        let commit = |from: usize| {
            let blocks = blocks.get(from..).unwrap_or_default();
            Request::Commit(request::Commit { blocks })
        };
        let refused = session.request(&commit(0), None).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
        assert_eq!((session.poll_transmit(), session.num_asked()), (None, 0));
        session.request(&commit(64), None).unwrap();
        let sent = session.poll_transmit().unwrap();
        assert!(sent.len() > most - 64);
    }

    #[test]
    fn matches_replies_to_requests_in_any_order() {
        let mut session = session();
        let error = session.request(&Request::JobInfo, None).unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_AVAILABLE);
        for byte in WELCOME {
            assert_eq!(session.welcome(), None);
            session.handle_input(&[byte]).unwrap();
        }
        let first = session.request(&Request::JobInfo, None).unwrap();
        let second = session.request(&Request::Finalize, None).unwrap();
        assert_eq!((first, second), (Tag(101), Tag(102)));
        let sent = session.poll_transmit().unwrap();
        assert_eq!(
            sent,
            [&Header::new(9, first, 2).encode()[..], &[2, 0]].concat()
        );
        let status = reply::status(session.form(), Status::SUCCESS).unwrap();
        session.handle_input(&frame(second, &status)).unwrap();
        session.handle_input(&frame(Tag::EVENT, b"event")).unwrap();
        session.handle_input(&frame(first, b"info")).unwrap();
        let replies: Vec<_> = std::iter::from_fn(|| session.poll_reply()).collect();
        let expected = [
            (second, Command::FINALIZE, &status[..]),
            (first, Command::REQ, b"info"),
        ];
        let seen = replies.iter().map(|r| (r.tag, r.command, &r.payload[..]));
        assert!(seen.eq(expected));
        assert_eq!(session.poll_unsolicited().unwrap().payload, b"event");
        assert_eq!((session.num_asked(), session.poll_unsolicited()), (0, None));
    }

    #[test]
    fn messages_of_both_kinds_keep_the_order_of_arrival() {
        let mut session = session();
        session.handle_input(&WELCOME).unwrap();
        let tag = session.request(&Request::Finalize, None).unwrap();
        let status = reply::status(session.form(), Status::SUCCESS).unwrap();
        let (reply, event) = (frame(tag, &status), |text: &[u8]| frame(Tag::EVENT, text));
        let bytes = [event(b"before"), reply, event(b"behind")].concat();
        session.handle_input(&bytes).unwrap();
        let come = std::iter::from_fn(|| session.poll_incoming());
        let come: Vec<_> = come
            .map(|incoming| match incoming {
                Incoming::Reply(reply) => reply.payload,
                Incoming::Unsolicited(frame) => frame.payload,
            })
            .collect();
        assert_eq!(come, [&b"before"[..], &status, b"behind"]);
    }

    #[test]
    fn keeps_bytes_that_arrive_with_the_welcome() {
        let mut session = session();
        let bytes = [&WELCOME[..], &frame(Tag::EVENT, b"stored")].concat();
        session.handle_input(&bytes).unwrap();
        assert_eq!(session.poll_unsolicited().unwrap().payload, b"stored");
    }

    #[test]
    fn a_rejection_and_an_unknown_reply_end_the_connection() {
        let mut refused = session();
        let status = Status::ERR_NOT_SUPPORTED.as_raw().to_be_bytes();
        let error = refused.handle_input(&status).unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
        let error = session().handle_input(b"-no ").unwrap_err();
        assert_eq!(error.status(), Status::ERR_COMM_FAILURE);
        let mut open = session();
        open.handle_input(&WELCOME).unwrap();
        let error = open.handle_input(&frame(Tag(101), &[2, 0])).unwrap_err();
        assert_eq!(error.status(), Status::ERR_COMM_FAILURE);
    }

    #[test]
    fn a_request_without_a_reply_uses_up_its_tag() {
        let mut session = session();
        session.handle_input(&WELCOME).unwrap();
        let end = Request::DeregisterEvents(crate::request::DeregisterEvents::default());
        assert_eq!(session.request(&end, None), Ok(Tag(101)));
        assert_eq!(session.num_asked(), 0);
        assert_eq!(session.request(&Request::Finalize, None), Ok(Tag(102)));
    }

    #[test]
    fn with_client_rejects_requests_and_accepts_replies() {
        let launcher = Proc::new("launcher", Rank::new(0));
        let form = *session().form();
        let mut session = ClientConnection::with_client(form, launcher.clone(), 1 << 10);
        assert_eq!(session.poll_transmit(), None);
        let server = launcher.clone();
        assert_eq!(session.welcome(), Some(&Welcome::Server { server }));
        let tag = session.request(&Request::Finalize, None).unwrap();
        session.poll_transmit().unwrap();
        let status = reply::status(&form, Status::SUCCESS).unwrap();
        session.handle_input(&frame(Tag(500), b"asks")).unwrap();
        session.handle_input(&frame(tag, &status)).unwrap();
        assert_eq!(session.poll_reply().unwrap().payload, status);
        let refusal = reply::status(&form, Status::ERR_NOT_SUPPORTED).unwrap();
        assert_eq!(session.poll_transmit(), Some(frame(Tag(500), &refusal)));
        for _ in 0..2 * MAX_REFUSALS {
            session.handle_input(&frame(Tag(501), b"asks")).unwrap();
        }
        let refused = std::iter::from_fn(|| session.poll_transmit());
        assert_eq!(refused.count(), MAX_REFUSALS);
    }

    #[test]
    fn replies_of_older_servers_have_their_own_form() {
        for (server, expected) in [
            ("4.2.2", (5, 0, 11)),
            ("5.0.7", (5, 0, 7)),
            ("7.0.0rc1", (7, 0, 0)),
            ("7.1.0", (7, 1, 0)),
        ] {
            let hello = Hello {
                version: crate::RELEASE.into(),
                ..hello()
            };
            let mut session = ClientConnection::connect(&hello, 1 << 20).unwrap();
            session.speak_to(server.as_bytes());
            session.hear_from(server.as_bytes());
            let form = session.form();
            assert_eq!((form.major, form.minor, form.patch), expected, "{server}");
        }
    }
}

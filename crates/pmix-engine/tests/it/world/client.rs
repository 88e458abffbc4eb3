// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that a test controls.

use std::collections::{HashMap, VecDeque};

use bfrops::BufferKind;
use pmix_engine::{Chunk, PeerId};
use pmix_proto::{
    ClientConnection, Error, Frame, Hello, Request, Response, Role, Tag, Welcome, reply,
};
use pmix_types::{Kval, Proc, Rank, Status, Value};

/// The default user and group of jobs.
pub(crate) const UID: u32 = 1000;

/// The credential of that user.
const CREDENTIAL: [u8; 8] = {
    let [a, b, c, d] = UID.to_ne_bytes();
    [a, b, c, d, a, b, c, d]
};

/// Creates the hello of a 5.0 client.
pub(crate) fn hello(nspace: &'static str, rank: u32) -> Hello<'static> {
    Hello {
        psec: "native".into(),
        credential: &CREDENTIAL,
        role: Role::CLIENT,
        ids: None,
        proc: Some(Proc::new(nspace, Rank::new(rank))),
        version: "5.0.11".into(),
        module: "v41".into(),
        buffer: BufferKind::NonDescribed,
        gds: "hash".into(),
        infos: vec![],
    }
}

/// The client's end of a connection.
pub(crate) struct Client {
    pub(crate) node: usize,
    /// The server's end; `None` when closed.
    pub(crate) peer: Option<PeerId>,
    pub(crate) session: ClientConnection,
    /// The first protocol error of the server.
    pub(crate) fault: Option<Error>,
    /// `true` if it does not read.
    pub(crate) is_deaf: bool,
    /// The unread chunks.
    pub(crate) unread: VecDeque<Chunk>,
    pub(crate) notices: Vec<Frame>,
    replies: HashMap<Tag, Response>,
}

impl Client {
    pub(super) fn new(node: usize, peer: PeerId, hello: &Hello<'_>) -> Self {
        Self {
            node,
            peer: Some(peer),
            session: ClientConnection::connect(hello, u32::MAX).unwrap(),
            fault: None,
            is_deaf: false,
            unread: VecDeque::new(),
            notices: Vec::new(),
            replies: HashMap::new(),
        }
    }

    /// Creates a tool to which the host connected, without a hello.
    pub(super) fn admitted(node: usize, peer: PeerId, hello: &Hello<'_>) -> Self {
        let mut client = Self::new(node, peer, hello);
        let _ = client.session.poll_transmit();
        let welcome = Welcome::Index { index: 0 }.encode().unwrap();
        client.hear(&welcome);
        client
    }

    pub(super) fn ask(&mut self, request: &Request<'_>) -> Tag {
        self.session.request(request, None).unwrap()
    }

    /// Processes bytes of the server. An unexpected reply is an error, so that a second reply to a request is noticed.
    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        if let Err(error) = self.session.handle_input(bytes) {
            self.fault = Some(error);
        }
        while let Some(response) = self.session.poll_reply() {
            assert!(
                !response.payload.is_empty(),
                "an empty reply to {}",
                response.command
            );
            self.replies.insert(response.tag, response);
        }
        while let Some(notice) = self.session.poll_unsolicited() {
            self.notices.push(notice);
        }
    }

    /// Returns `true` if the server admitted it.
    pub(crate) fn is_in(&self) -> bool {
        self.peer.is_some() && self.session.welcome().is_some()
    }

    /// Returns the reply to a request, if it has arrived.
    pub(crate) fn reply(&self, tag: Tag) -> Option<&Response> {
        self.replies.get(&tag)
    }

    /// Returns the status of the reply to a request, if it has arrived.
    pub(crate) fn status(&self, tag: Tag) -> Option<Status> {
        let response = self.reply(tag)?;
        let form = self.session.form();
        let reply = reply::Reply::decode(response.command, form, None, &response.payload);
        Some(reply.unwrap().status())
    }

    /// Returns the objects of the reply to a get: ranks and values.
    pub(crate) fn objects(&self, tag: Tag) -> Vec<(Rank, Vec<Kval<'_>>)> {
        let form = self.session.form();
        let response = self.reply(tag).expect("no reply");
        let objects = reply::Objects::decode(form, None, &response.payload).unwrap();
        assert_eq!(objects.status, Status::SUCCESS);
        let objects = objects.procs(form, None).map(Result::unwrap);
        let objects = objects.map(|object| (object.of.rank, object.kvals(form, None).unwrap()));
        objects.collect()
    }

    /// Returns the value of a key in the reply to a get.
    pub(crate) fn value(&self, tag: Tag, key: &str) -> Option<Value<'_>> {
        let kvals = self.objects(tag).into_iter().flat_map(|(_, kvals)| kvals);
        let mut kvals = kvals.filter(|kval| kval.key.is(key));
        kvals.next().map(|kval| kval.value)
    }
}

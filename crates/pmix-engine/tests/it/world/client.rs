// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that says what a test tells it.

use std::collections::{HashMap, VecDeque};

use bfrops::BufferKind;
use pmix_engine::{Chunk, PeerId};
use pmix_proto::{
    ClientConnection, Error, Frame, Hello, Request, Response, Role, Tag, Welcome, reply,
};
use pmix_types::{Kval, Proc, Rank, Status, Value};

/// The user and the group of jobs, where a test says nothing else.
pub(crate) const UID: u32 = 1000;

/// Its credential.
const CREDENTIAL: [u8; 8] = {
    let [a, b, c, d] = UID.to_ne_bytes();
    [a, b, c, d, a, b, c, d]
};

/// A client of 5.0.
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

/// One end of a connection.
pub(crate) struct Client {
    pub(crate) node: usize,
    /// The other end; none when it is closed.
    pub(crate) peer: Option<PeerId>,
    pub(crate) session: ClientConnection,
    /// What the server did wrong.
    pub(crate) fault: Option<Error>,
    /// Whether it does not read what it is sent.
    pub(crate) is_deaf: bool,
    /// What it has not read.
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

    /// A tool that said no hello, since the host connected with it.
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

    /// Takes bytes of the server. An answer that nobody asked for is a fault, so that no request
    /// is answered twice unnoticed.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
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

    /// Whether it was let in.
    pub(crate) fn is_in(&self) -> bool {
        self.peer.is_some() && self.session.welcome().is_some()
    }

    /// The reply to a request, if it is there.
    pub(crate) fn reply(&self, tag: Tag) -> Option<&Response> {
        self.replies.get(&tag)
    }

    /// The status of the reply to a request, if it is there.
    pub(crate) fn status(&self, tag: Tag) -> Option<Status> {
        let response = self.reply(tag)?;
        let form = self.session.form();
        let reply = reply::Reply::decode(response.command, form, None, &response.payload);
        Some(reply.unwrap().status())
    }

    /// The objects of the reply to a get: whose they are, and what is in them.
    pub(crate) fn objects(&self, tag: Tag) -> Vec<(Rank, Vec<Kval<'_>>)> {
        let form = self.session.form();
        let response = self.reply(tag).expect("no reply");
        let objects = reply::Objects::decode(form, None, &response.payload).unwrap();
        assert_eq!(objects.status, Status::SUCCESS);
        let objects = objects.procs(form, None).map(Result::unwrap);
        let objects = objects.map(|object| (object.of.rank, object.kvals(form, None).unwrap()));
        objects.collect()
    }

    /// The value of a key in the reply to a get.
    pub(crate) fn value(&self, tag: Tag, key: &str) -> Option<Value<'_>> {
        let kvals = self.objects(tag).into_iter().flat_map(|(_, kvals)| kvals);
        let mut kvals = kvals.filter(|kval| kval.key.is(key));
        kvals.next().map(|kval| kval.value)
    }
}

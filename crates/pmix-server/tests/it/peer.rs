// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client for tests: the protocol crate over a blocking socket.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bfrops::BufferKind;
use pmix_proto::{
    ClientConnection, Header, Hello, PeerForm, Request, Response, Role, Tag, Welcome, reply,
};
use pmix_server::{Builder, HostObject, Server};
use pmix_types::{Info, Nspace, Proc, Rank, Status, keys};

pub(crate) const JOB: &str = "job@1";

/// The time limit of each step; a server that hangs fails the test.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn me() -> (u32, u32) {
    use rustix::process::{getegid, geteuid};
    (geteuid().as_raw(), getegid().as_raw())
}

/// Returns a builder that ignores the environment.
pub(crate) fn builder() -> Builder {
    Server::builder()
        .hostname("n00")
        .params(pmix_mca::Params::default())
}

/// Starts a server with a job of local processes of this user.
pub(crate) fn serve(builder: Builder, num_procs: u32) -> Server {
    let server = builder.build().unwrap();
    server.start().unwrap();
    register(&server, JOB, num_procs, me());
    server
}

pub(crate) fn register(server: &Server, job: &str, num_procs: u32, (uid, gid): (u32, u32)) {
    let ranks: Vec<_> = (0..num_procs).map(|rank| rank.to_string()).collect();
    let infos = [
        Info::new(keys::NODE_MAP, "n00"),
        Info::new(keys::PROC_MAP, ranks.join(",")),
    ];
    let nspace = Nspace::new(job.to_owned());
    server.register_nspace(&nspace, num_procs, &infos).unwrap();
    for rank in 0..num_procs {
        let proc = Proc::new(nspace.clone(), Rank::new(rank));
        let object = HostObject(rank.into());
        server
            .register_client(&proc, pmix_server::Credentials::new(uid, gid), object)
            .unwrap();
    }
}

pub(crate) fn address(server: &Server) -> SocketAddr {
    let (_, address) = server.uri().split_once("://").unwrap();
    address.parse().unwrap()
}

/// Returns the native credential of a user and group.
pub(crate) fn credential((uid, gid): (u32, u32)) -> Vec<u8> {
    [uid.to_ne_bytes(), gid.to_ne_bytes()].concat()
}

pub(crate) fn hello<'c>(
    role: Role,
    proc: Option<Proc<'static>>,
    credential: &'c [u8],
) -> Hello<'c> {
    Hello {
        psec: "native".into(),
        credential,
        role,
        ids: role.says_ids().then(me),
        proc,
        version: "5.0.11".into(),
        module: "v41".into(),
        buffer: BufferKind::NonDescribed,
        gds: "hash".into(),
        infos: Vec::new(),
    }
}

pub(crate) struct Peer {
    stream: TcpStream,
    session: ClientConnection,
}

impl Peer {
    /// Connects as a process of the job.
    pub(crate) fn client(server: &Server, rank: u32) -> io::Result<Self> {
        let proc = Proc::new(JOB, Rank::new(rank));
        let credential = credential(me());
        Self::with(
            address(server),
            &hello(Role::CLIENT, Some(proc), &credential),
        )
    }

    pub(crate) fn with(address: SocketAddr, hello: &Hello<'_>) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let session = ClientConnection::connect(hello, 1 << 24).unwrap();
        let mut peer = Self { stream, session };
        peer.flush()?;
        while peer.session.welcome().is_none() {
            peer.read()?;
        }
        Ok(peer)
    }

    /// Sends a request and returns the payload of the reply.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> io::Result<Vec<u8>> {
        let tag = self.send(request)?;
        loop {
            if let Some(response) = self.session.poll_reply() {
                assert_eq!(response.tag, tag);
                return Ok(response.payload);
            }
            self.read()?;
        }
    }

    pub(crate) fn ask_status(&mut self, request: &Request<'_>) -> io::Result<Status> {
        let payload = self.ask(request)?;
        let done = reply::Done::decode(self.session.form(), None, &payload);
        Ok(done.map_err(io::Error::other)?.status)
    }

    pub(crate) fn send(&mut self, request: &Request<'_>) -> io::Result<Tag> {
        let tag = self.session.request(request, None).unwrap();
        self.flush()?;
        Ok(tag)
    }

    /// Sends `count` equal requests at once.
    pub(crate) fn send_many(&mut self, payload: &[u8], count: u32) -> io::Result<()> {
        let len = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        for number in 0..count {
            let tag = Tag(Tag::FIRST_REQUEST.0 + number);
            bytes.extend_from_slice(&Header::new(0, tag, len).encode());
            bytes.extend_from_slice(payload);
        }
        self.stream.write_all(&bytes)
    }

    /// Waits for the reply to any request.
    pub(crate) fn reply(&mut self) -> io::Result<Response> {
        loop {
            if let Some(response) = self.session.poll_reply() {
                return Ok(response);
            }
            self.read()?;
        }
    }

    pub(crate) fn welcome(&self) -> Welcome<'static> {
        self.session.welcome().unwrap().clone()
    }

    pub(crate) fn form(&self) -> &PeerForm {
        self.session.form()
    }

    /// Returns the socket for malformed messages.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some(bytes) = self.session.poll_transmit() {
            self.stream.write_all(&bytes)?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => self
                .session
                .handle_input(&buffer[..len])
                .map_err(io::Error::other),
        }
    }
}

/// Waits until the server closes a connection, and returns the bytes that it sent before.
pub(crate) fn closed(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sent = Vec::new();
    match stream.read_to_end(&mut sent) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server did not close the connection: {error}"),
    }
    sent
}

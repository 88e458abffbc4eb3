// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers that write what they like.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bfrops::{Layout, Module};
use pmix_proto::{Command, Header, Hello, Inbox, PeerForm, Request, Role, Tag};
use pmix_types::{Proc, Rank};

use super::server::me;

/// How long the server may take to answer or to hang up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The tag of a question that shows that everything before it was dealt with.
const PING: Tag = Tag(0x7fff_fff0);

/// What a native credential says.
pub(super) fn credential((uid, gid): (u32, u32)) -> Vec<u8> {
    [uid.to_ne_bytes(), gid.to_ne_bytes()].concat()
}

/// The hello of a peer that packs in this way.
pub(super) fn hello<'c>(
    role: Role,
    proc: Option<Proc<'c>>,
    credential: &'c [u8],
    layout: Layout,
) -> Hello<'c> {
    Hello {
        psec: "native".into(),
        credential,
        role,
        ids: role.says_ids().then(me),
        proc,
        version: version(layout.module).into(),
        module: layout.module.name().into(),
        buffer: layout.buffer,
        gds: "hash".into(),
        infos: Vec::new(),
    }
}

/// A release that packs with this module.
fn version(module: Module) -> &'static str {
    match module {
        Module::V12 => "1.2.5",
        Module::V20 => "2.0.3",
        Module::V21 => "2.2.5",
        Module::V3 => "3.2.3",
        Module::V4 => "4.0.0",
        Module::V41 => "5.0.11",
        _ => "7.0.0",
    }
}

/// Connects, and waits for nothing longer than is sensible.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Writes bytes and says that there are no more; then waits until the server hangs up, and gives
/// what it sent before.
///
/// # Errors
/// It does not hang up.
pub(super) fn say_and_leave(mut stream: TcpStream, bytes: &[u8]) -> Result<Vec<u8>, String> {
    // A server that has seen enough may have hung up by now.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    until_closed(&mut stream)
}

/// What comes until the server hangs up.
///
/// # Errors
/// It does not.
pub(super) fn until_closed(stream: &mut TcpStream) -> Result<Vec<u8>, String> {
    let mut sent = Vec::new();
    match stream.read_to_end(&mut sent) {
        Ok(_) => Ok(sent),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(sent),
        Err(error) => Err(format!("the server does not hang up: {error}")),
    }
}

/// A peer that was let in.
pub(super) struct Peer {
    pub(super) stream: TcpStream,
    pub(super) form: PeerForm,
    inbox: Inbox,
}

impl Peer {
    /// Says a good hello, as a process of this user.
    ///
    /// # Errors
    /// It is not let in.
    pub(super) fn client(
        address: SocketAddr,
        job: &str,
        rank: u32,
        layout: Layout,
    ) -> Result<Self, String> {
        let proc = Proc::new(job.to_owned(), Rank::new(rank));
        let credential = credential(me());
        let hello = hello(Role::CLIENT, Some(proc), &credential, layout);
        Self::with(address, &hello)
    }

    /// Says a hello.
    ///
    /// # Errors
    /// It is not let in.
    pub(super) fn with(address: SocketAddr, hello: &Hello<'_>) -> Result<Self, String> {
        let form = hello.form().map_err(|e| e.to_string())?;
        let bytes = hello.encode().map_err(|e| e.to_string())?;
        let mut stream = connect(address).map_err(|e| e.to_string())?;
        let fault = |e: io::Error| format!("not let in: {e}");
        stream.write_all(&bytes).map_err(fault)?;
        // What a client is told: a status, which is 0, and its index.
        let mut welcome = [0; 8];
        stream.read_exact(&mut welcome).map_err(fault)?;
        Ok(Self {
            stream,
            form,
            inbox: Inbox::new(u32::MAX),
        })
    }

    /// A frame with this payload.
    pub(super) fn frame(tag: Tag, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        [&Header::new(0, tag, len).encode()[..], payload].concat()
    }

    /// A frame with this request.
    pub(super) fn request(&self, tag: Tag, request: &Request<'_>) -> Result<Vec<u8>, String> {
        let payload = request.encode(&self.form, None);
        Ok(Self::frame(tag, &payload.map_err(|e| e.to_string())?))
    }

    /// Asks something that no server knows, and waits until it says so or hangs up: whether it is
    /// still there.
    ///
    /// # Errors
    /// It does neither.
    pub(super) fn ping(&mut self) -> Result<bool, String> {
        let ping = self.request(PING, &Request::Unknown(Command(99)))?;
        if self.stream.write_all(&ping).is_err() {
            return Ok(false);
        }
        let answered = self.reply(PING)?;
        Ok(answered.is_some())
    }

    /// The payload of the reply with this tag; what else comes is passed over. None if the server
    /// hangs up.
    ///
    /// # Errors
    /// Nothing comes.
    pub(super) fn reply(&mut self, tag: Tag) -> Result<Option<Vec<u8>>, String> {
        let mut buffer = [0; 16 << 10];
        loop {
            while let Some(frame) = self.inbox.next_frame().map_err(|e| e.to_string())? {
                if frame.header.tag == tag {
                    return Ok(Some(frame.payload));
                }
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(len) => self.inbox.push(buffer.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(format!("no answer: {error}")),
            }
        }
    }
}

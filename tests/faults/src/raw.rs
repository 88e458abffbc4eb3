// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers that can write arbitrary bytes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bfrops::{Layout, Module};
use pmix_proto::{Command, Header, Hello, Inbox, PeerForm, Request, Role, Tag};
use pmix_types::{Proc, Rank};

use super::server::me;

/// The time within which the server must reply or disconnect.
const PATIENCE: Duration = Duration::from_secs(20);

/// The tag of a request whose reply shows that everything sent before it was handled.
const PING: Tag = Tag(0x7fff_fff0);

/// Returns the bytes of a credential of the native security module.
pub(super) fn credential((uid, gid): (u32, u32)) -> Vec<u8> {
    [uid.to_ne_bytes(), gid.to_ne_bytes()].concat()
}

/// Returns the hello of a peer that packs in this layout.
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

/// Returns the version of a release that packs with this module.
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

/// Connects, with a time limit for reads and writes.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Writes bytes and closes the sending direction, then reads until the server disconnects. Returns the bytes that the
/// server sent.
///
/// # Errors
/// Returns a message if the server does not disconnect.
pub(super) fn say_and_leave(mut stream: TcpStream, bytes: &[u8]) -> Result<Vec<u8>, String> {
    // The write may fail: the server may have disconnected already.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    until_closed(&mut stream)
}

/// Reads until the server disconnects, and returns the bytes.
///
/// # Errors
/// Returns a message if the server does not disconnect.
pub(super) fn until_closed(stream: &mut TcpStream) -> Result<Vec<u8>, String> {
    let mut sent = Vec::new();
    match stream.read_to_end(&mut sent) {
        Ok(_) => Ok(sent),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(sent),
        Err(error) => Err(format!("the server does not hang up: {error}")),
    }
}

/// A registered peer.
pub(super) struct Peer {
    pub(super) stream: TcpStream,
    pub(super) form: PeerForm,
    inbox: Inbox,
}

impl Peer {
    /// Connects as a process of this user with a well-formed hello.
    ///
    /// # Errors
    /// Returns a message if the server refuses the connection.
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

    /// Connects with this hello.
    ///
    /// # Errors
    /// Returns a message if the server refuses the connection.
    pub(super) fn with(address: SocketAddr, hello: &Hello<'_>) -> Result<Self, String> {
        let form = hello.form().map_err(|e| e.to_string())?;
        let bytes = hello.encode().map_err(|e| e.to_string())?;
        let mut stream = connect(address).map_err(|e| e.to_string())?;
        let fault = |e: io::Error| format!("not let in: {e}");
        stream.write_all(&bytes).map_err(fault)?;
        // The welcome of a client: a status, which is 0, and its index.
        let mut welcome = [0; 8];
        stream.read_exact(&mut welcome).map_err(fault)?;
        Ok(Self {
            stream,
            form,
            inbox: Inbox::new(u32::MAX),
        })
    }

    /// Returns a frame with this payload.
    pub(super) fn frame(tag: Tag, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        [&Header::new(0, tag, len).encode()[..], payload].concat()
    }

    /// Returns a frame with this request.
    pub(super) fn request(&self, tag: Tag, request: &Request<'_>) -> Result<Vec<u8>, String> {
        let payload = request.encode(&self.form, None);
        Ok(Self::frame(tag, &payload.map_err(|e| e.to_string())?))
    }

    /// Sends a request that no server knows, and waits for the reply or a disconnect. Returns `true` if the server
    /// replied.
    ///
    /// # Errors
    /// Returns a message if neither happens in time.
    pub(super) fn ping(&mut self) -> Result<bool, String> {
        let ping = self.request(PING, &Request::Unknown(Command(99)))?;
        if self.stream.write_all(&ping).is_err() {
            return Ok(false);
        }
        let answered = self.reply(PING)?;
        Ok(answered.is_some())
    }

    /// Returns the payload of the reply with this tag, or `None` if the server disconnects. Other frames are skipped.
    ///
    /// # Errors
    /// Returns a message if nothing arrives in time.
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

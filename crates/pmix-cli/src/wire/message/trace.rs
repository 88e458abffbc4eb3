// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that passes on the connections of a server, a line of JSON for each message.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bfrops::{Layout, Limits, Module};
use pmix_proto::{Header, Hello};
use pmix_server::{PeerId, WireObserver};
use preg_core::Preg;
use serde_json::json;

use super::frame::Frame;
use super::{Connection, Side, secrets, show};
use crate::octets;

/// A file into which the messages of all connections are written as they pass, in the form of
/// `pmix wire decode --message` with the time, the number of the connection and who the peer is in
/// front. Credentials are left out.
pub(crate) struct Trace {
    path: PathBuf,
    /// The trace file; `None` after a write has failed.
    out: Option<BufWriter<File>>,
    preg: Arc<Preg>,
    began: Instant,
    conversations: HashMap<PeerId, Conversation>,
}

/// The state of a connection.
struct Conversation {
    connection: Connection,
    /// The beginning of an incomplete message.
    rest: Vec<u8>,
    /// The name that the peer sent.
    who: Option<String>,
}

impl Trace {
    /// Creates a trace in a file with permissions only for its owner; an existing file is truncated.
    pub(crate) fn create(path: &Path, preg: Arc<Preg>) -> io::Result<Self> {
        Ok(Self {
            out: Some(BufWriter::new(pmix_files::create(path)?)),
            path: path.to_owned(),
            preg,
            began: Instant::now(),
            conversations: HashMap::new(),
        })
    }

    /// Writes about a connection what `text` makes of it.
    fn note(&mut self, peer: PeerId, text: impl FnOnce(&mut Conversation) -> String) {
        let preg = &self.preg;
        let known = self.conversations.entry(peer);
        let conversation = known.or_insert_with(|| Conversation::new(preg));
        let line = text(conversation);
        let who = conversation
            .who
            .as_ref()
            .map_or_else(String::new, |who| format!("{who},"));
        let time = self.began.elapsed().as_secs_f64();
        let head = format!("{{\"time\":{time:.6},\"peer\":{peer},{who}");
        // The line is an object, so the leading members are inserted into it.
        let members = line.strip_prefix('{').unwrap_or(&line);
        let written = self
            .out
            .as_mut()
            .map(|out| writeln!(out, "{head}{members}"));
        if let Some(Err(e)) = written {
            tracing::error!("the trace ends here: {}: {e}", self.path.display());
            self.out = None;
        }
    }
}

impl WireObserver for Trace {
    fn received(&mut self, peer: PeerId, bytes: &[u8]) {
        let preg = &self.preg;
        let known = self.conversations.entry(peer);
        let conversation = known.or_insert_with(|| Conversation::new(preg));
        conversation.rest.extend_from_slice(bytes);
        while let Some(frame) = self
            .conversations
            .get_mut(&peer)
            .and_then(Conversation::next)
        {
            self.note(peer, |conversation| conversation.read(&frame));
        }
    }

    fn sent(&mut self, peer: PeerId, header: &[u8], payload: &[u8]) {
        let Some(header) = header.first_chunk() else {
            let line = json!({
                "from": "server",
                "len": payload.len(),
                "what": "welcome",
                "payload_hex": octets::hex(payload),
            });
            return self.note(peer, |_| line.to_string());
        };
        let frame = Frame {
            from: Side::Server,
            header: Header::decode(header),
            start: 0,
            payload: payload.to_vec(),
        };
        self.note(peer, |conversation| conversation.read(&frame));
    }

    fn closed(&mut self, peer: PeerId) {
        self.note(peer, |conversation| {
            let rest = conversation.rest.len();
            json!({"what": "closed", "unread": rest}).to_string()
        });
        self.conversations.remove(&peer);
    }
}

impl Conversation {
    fn new(preg: &Arc<Preg>) -> Self {
        Self {
            connection: Connection {
                preg: Arc::clone(preg),
                layout: Layout::new(Module::V41),
                limits: Limits::default(),
                major: 5,
                assumed: None,
                asked: HashMap::new(),
                with_trace: false,
            },
            rest: Vec::new(),
            who: None,
        }
    }

    /// Returns the next message of the peer, if it is whole.
    fn next(&mut self) -> Option<Frame> {
        let (header, body) = self.rest.split_first_chunk()?;
        let header = Header::decode(header);
        let len = usize::try_from(header.len).ok()?;
        let payload = body.get(..len)?.to_vec();
        self.rest.drain(..Header::LEN + len);
        Some(Frame {
            from: Side::Client,
            header,
            start: 0,
            payload,
        })
    }

    fn read(&mut self, frame: &Frame) -> String {
        if frame.header.is_hello() {
            let (hello, _) = Hello::explain(&frame.payload);
            let proc = hello.ok().and_then(|hello| hello.proc);
            self.who = proc.map(|proc| {
                let nspace = json!(String::from_utf8_lossy(proc.nspace.as_bytes()));
                format!("\"nspace\":{nspace},\"rank\":{}", proc.rank.as_raw())
            });
        }
        let message = self.connection.read(frame);
        if !frame.header.is_hello() {
            return secrets::without(show::line(frame, &message));
        }
        let mut shown = frame.clone();
        secrets::overwrite(&mut shown.payload);
        secrets::without(show::line(&shown, &message))
    }
}

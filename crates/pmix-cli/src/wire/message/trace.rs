// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace of all messages on the connections of a server, as a line of JSON for each.

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
use serde_json::{Value as Json, json};

use super::capture::Frame;
use super::{Connection, Side};
use crate::octets;

/// A file into which the messages of all connections are written. Each line has the time, the
/// number of the connection and the name of the peer, then the members of `pmix wire decode
/// --message`. Credentials are omitted.
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
    /// Creates a trace in a file with permissions only for its owner. An existing file is
    /// truncated.
    pub(crate) fn create(path: &Path, preg: Arc<Preg>) -> io::Result<Self> {
        Ok(Self {
            out: Some(BufWriter::new(pmix_files::create(path)?)),
            path: path.to_owned(),
            preg,
            began: Instant::now(),
            conversations: HashMap::new(),
        })
    }

    /// Writes the line that `text` returns for a connection.
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

    /// Returns the next message of the peer, if it is complete.
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
            return without(super::line(frame, &message));
        }
        let mut shown = frame.clone();
        overwrite(&mut shown.payload);
        without(super::line(&shown, &message))
    }
}

/// The replacement of a credential.
const HIDDEN: &str = "hidden";

/// The replacement of each byte of a credential.
const FILLER: u8 = b'*';

/// Overwrites the credential in the payload of a first message, which may be truncated. The
/// credential follows the name of the security module and a length.
pub(super) fn overwrite(payload: &mut [u8]) {
    let Some(end) = payload.iter().position(|byte| *byte == 0) else {
        return;
    };
    let Some((len, rest)) = payload[end + 1..].split_first_chunk_mut() else {
        return;
    };
    let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
    let len = len.min(rest.len());
    rest[..len].fill(FILLER);
}

/// Returns a message in JSON without the credentials of requests and replies.
pub(super) fn without(line: String) -> String {
    let has_any = [r#""credential""#, pmix_types::keys::CREDENTIAL];
    if !has_any.iter().any(|word| line.contains(word)) {
        return line;
    }
    // A line that is not JSON may still contain the credential, so the whole line is hidden.
    let Ok(mut json) = serde_json::from_str::<Json>(&line) else {
        return HIDDEN.to_owned();
    };
    hide(&mut json);
    json.to_string()
}

fn hide(json: &mut Json) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(hide),
        Json::Object(members) => {
            let is = |member: &str, word: &str| members.get(member).is_some_and(|m| m == word);
            let secret = match () {
                () if is("name", "credential") => Some("value"),
                () if is("key", pmix_types::keys::CREDENTIAL) => Some("data"),
                () => None,
            };
            for (name, member) in members.iter_mut() {
                match secret == Some(name.as_str()) {
                    true => *member = HIDDEN.into(),
                    false => hide(member),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_overwritten_in_a_message_of_any_length() {
        let whole = b"munge\0\0\0\0\x06MUNGE:\0rest";
        for len in 0..=whole.len() {
            let mut payload = whole[..len].to_vec();
            overwrite(&mut payload);
            let text = String::from_utf8_lossy(&payload).into_owned();
            assert!(!text.contains('M') && payload.len() == len, "{text}");
        }
        let mut payload = whole.to_vec();
        overwrite(&mut payload);
        assert_eq!(payload, b"munge\0\0\0\0\x06******\0rest");
        let mut lying = b"munge\0\xff\xff\xff\xffMUNGE:".to_vec();
        overwrite(&mut lying);
        assert!(lying.ends_with(b"******"));
    }

    #[test]
    fn credentials_of_requests_and_replies_are_left_out() {
        let line = r#"{"calls":[{"name":"credential","type":"PMIX_BYTE_OBJECT","value":["TVVOR0U="]},{"name":"infos","value":[{"key":"pmix.cred","data":"TVVOR0U=","type":"PMIX_STRING"},{"key":"a","data":1}]}]}"#;
        let expected = r#"{"calls":[{"name":"credential","type":"PMIX_BYTE_OBJECT","value":"hidden"},{"name":"infos","value":[{"key":"pmix.cred","data":"hidden","type":"PMIX_STRING"},{"key":"a","data":1}]}]}"#;
        assert_eq!(without(line.to_owned()), expected);
        assert_eq!(without("{\"a\": 1}".to_owned()), "{\"a\": 1}");
    }
}

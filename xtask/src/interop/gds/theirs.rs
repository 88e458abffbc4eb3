// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real server, reached through the program in `tests/interop/gds`.

use serde_json::Value;

use super::Answer;
use super::entry::THIS_HOST;
use super::plan::Plan;
use super::questions::Question;
use crate::interop::harness::Harness;
use crate::interop::install;
use crate::interop::peers::Peer;
use crate::process;

const SOURCES: &[&str] = &[
    "gds/peer.c",
    "gds/server.c",
    "gds/info.c",
    "gds/show.c",
    "bytes.c",
];

/// What `PMIx_server_register_nspace` returns when it finished without calling back.
const DONE_INLINE: i64 = -157;

/// What a server did with a get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Theirs {
    Answer(Answer),
    /// It ended, and how.
    Crashed(String),
}

/// A server of one release.
pub(super) struct Server {
    harness: Harness,
    /// The name of this node.
    host: String,
}

impl Server {
    /// Builds and starts the program; with a low limit it compresses its maps.
    ///
    /// # Errors
    /// It does not build or does not start.
    pub(super) fn start(peer: &Peer, compress: bool) -> Result<Self, String> {
        let source = process::root().join("tests/interop");
        let program = install::scratch("interop")?.join(format!("gds-{}", peer.version));
        let sources: Vec<_> = SOURCES.iter().map(|f| source.join(f)).collect();
        peer.library.compile(&program, &sources)?;
        let mut harness = Harness::new(&program);
        if compress && peer.reads_blob {
            harness = harness.with("pcompress_base_limit", "64");
        }
        let host = harness.ask("host")?;
        Ok(Self { harness, host })
    }

    /// Registers a job with a new server: its status, or how the server ended.
    ///
    /// # Errors
    /// The program does not answer.
    pub(super) fn register(&mut self, plan: &Plan) -> Result<Result<i64, String>, String> {
        let line = self.harness.ask(&plan.request(&self.host))?;
        Ok(match line.parse() {
            Ok(DONE_INLINE) => Ok(0),
            Ok(status) => Ok(status),
            Err(_) => Err(line),
        })
    }

    /// Asks for a value.
    ///
    /// # Errors
    /// The program does not answer.
    pub(super) fn get(&mut self, plan: &Plan, question: &Question) -> Result<Theirs, String> {
        let line = self.harness.ask(&question.request(plan, &self.host))?;
        if let Some(how) = line.strip_prefix("crashed ") {
            return Ok(Theirs::Crashed(how.to_owned()));
        }
        let fault = || format!("the peer answered {line:?}");
        let (status, json) = line.split_once(' ').ok_or_else(fault)?;
        let mut value = serde_json::from_str(json).map_err(|e| format!("{}: {e}", fault()))?;
        hide(&mut value, &self.host);
        Ok(Theirs::Answer(Answer {
            status: status.parse().map_err(|_| fault())?,
            value,
        }))
    }
}

/// Puts the name that stands for this node's in the place of it.
fn hide(value: &mut Value, host: &str) {
    match value {
        Value::String(text) => {
            let words = text.split(',');
            let words: Vec<_> = words
                .map(|w| if w == host { THIS_HOST } else { w })
                .collect();
            *text = words.join(",");
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, host)),
        Value::Object(members) => members.values_mut().for_each(|member| hide(member, host)),
        _ => {}
    }
}

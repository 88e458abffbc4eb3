// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real server, in the program of `tests/interop/gds`.

use serde_json::Value;

use super::entry::{Entry, THIS_HOST};
use super::plan::Plan;
use super::questions::Question;
use super::{Answer, Theirs};
use crate::harness::{Harness, hex};
use crate::peers::Peer;
use xtask::install;
use xtask::process;

const SOURCES: &[&str] = &[
    "gds/peer.c",
    "gds/server.c",
    "gds/info.c",
    "gds/show.c",
    "bytes.c",
];

/// `PMIX_OPERATION_SUCCEEDED`, which `PMIx_server_register_nspace` returns if it will not call back.
const DONE_INLINE: i64 = -157;

/// A server of one release.
pub(super) struct Server {
    harness: Harness,
    /// The name of this node.
    host: String,
}

impl Server {
    /// Builds and starts the program, which compresses its maps if `compress` is set.
    ///
    /// # Errors
    /// Returns a message if the program does not build or start.
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

    /// Registers a job with a new server, in two registrations if the plan has two. Returns the first status that is an
    /// error, or the exit status of a server that crashed.
    ///
    /// # Errors
    /// Returns a message if the program does not answer.
    pub(super) fn register(&mut self, plan: &Plan) -> Result<Result<i64, String>, String> {
        let mut outcome = Ok(0);
        for request in plan.requests(&self.host) {
            outcome = self.status(&request)?;
            if outcome != Ok(0) {
                break;
            }
        }
        Ok(outcome)
    }

    /// Registers these infos with a new server.
    ///
    /// # Errors
    /// Returns a message if the program does not answer.
    pub(super) fn try_register(&mut self, infos: &[Entry]) -> Result<Result<i64, String>, String> {
        let words: Vec<_> = infos.iter().map(|e| e.words(&self.host)).collect();
        self.status(&format!("job {} 1 {}", hex(b"refused@1"), words.join(" ")))
    }

    fn status(&mut self, request: &str) -> Result<Result<i64, String>, String> {
        let line = self.harness.ask(request)?;
        Ok(match line.parse() {
            Ok(DONE_INLINE) => Ok(0),
            Ok(status) => Ok(status),
            Err(_) => Err(line),
        })
    }

    /// Gets a value.
    ///
    /// # Errors
    /// Returns a message if the program does not answer.
    pub(super) fn get(&mut self, plan: &Plan, question: &Question) -> Result<Theirs, String> {
        let line = self.harness.ask(&question.request(plan, &self.host))?;
        if let Some(how) = line.strip_prefix("crashed ") {
            return Ok(Theirs::Crashed(how.to_owned()));
        }
        let fault = || format!("the peer answered {line:?}");
        let (status, json) = line.split_once(' ').ok_or_else(fault)?;
        let mut value = serde_json::from_str(json).map_err(|e| format!("{}: {e}", fault()))?;
        hide(&mut value, &self.host);
        let status = status.parse().map_err(|_| fault())?;
        Ok(Theirs::Answer(Answer { status, value }.in_order()))
    }
}

/// Replaces the name of this node by the placeholder.
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

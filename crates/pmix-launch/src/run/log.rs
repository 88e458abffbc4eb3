// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes ask to be logged: the launcher has two channels, its standard streams.

use pmix_server::upcall::Log;
use pmix_types::{Info, Status, Value, keys};

use super::job::Job;
use crate::output::Kind;

impl Job<'_> {
    /// Writes what is for the streams of the launcher; nothing else is supported.
    pub(super) fn log(&mut self, call: &Log) -> Status {
        let once = (call.directives.iter())
            .any(|info| info.key.is(keys::LOG_ONCE) && info.truth().is_true());
        let (mut written, mut refused) = (0, 0);
        for info in &call.data {
            let Some((kind, text)) = channel(info) else {
                refused += usize::from(info.key.as_bytes().starts_with(b"pmix.log"));
                continue;
            };
            // With "once" the first channel that works is the only one.
            if written == 0 || !once {
                self.forward.say(call.proc.rank, kind, text);
                written += 1;
            }
        }
        self.forward.turn(self.poll.registry());
        match (written, refused) {
            (0, _) => Status::ERR_NOT_SUPPORTED,
            (_, 0) => Status::SUCCESS,
            _ if once => Status::SUCCESS,
            _ => Status::ERR_PARTIAL_SUCCESS,
        }
    }
}

/// The stream that an info is for, and what is to be written there.
fn channel<'a>(info: &'a Info<'_>) -> Option<(Kind, &'a [u8])> {
    let kind = match () {
        () if info.key.is(keys::LOG_STDOUT) => Kind::Output,
        () if info.key.is(keys::LOG_STDERR) => Kind::Errors,
        () => return None,
    };
    match &info.value {
        Value::String(Some(text)) => Some((kind, text.as_bytes())),
        Value::ByteObject(bytes) => Some((kind, bytes)),
        _ => None,
    }
}

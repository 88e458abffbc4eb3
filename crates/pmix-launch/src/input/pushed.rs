// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input of processes of a spawned job that requested it (`PMIX_FWD_STDIN`, `PMIX_STDIN_TGT`): only pushed data.

use std::io;
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, PoisonError};

use mio::{Registry, Token};
use pmix_host::forward::StdinPipe;
use pmix_server::Completion;
use pmix_types::{Rank, Status};

/// The stdin pipes of processes, by rank.
#[derive(Default)]
pub(crate) struct PushedInput {
    pipes: Vec<(Rank, StdinPipe)>,
}

impl PushedInput {
    /// Adds the pipe of a process. All pipes share one token of the poll.
    pub(crate) fn add(
        &mut self,
        registry: &Registry,
        token: usize,
        rank: Rank,
        pipe: ChildStdin,
    ) -> io::Result<()> {
        let pipe = StdinPipe::new(registry, Token(token), pipe)?;
        self.pipes.push((rank, pipe));
        Ok(())
    }

    /// Writes as much pending input as the pipes accept.
    pub(crate) fn write(&mut self) {
        self.pipes.iter_mut().for_each(|(_, pipe)| pipe.write());
    }

    /// Returns `true` if one of the selected processes reads pushed input.
    pub(crate) fn has(&self, is_meant: impl Fn(Rank) -> bool) -> bool {
        self.pipes.iter().any(|(rank, _)| is_meant(*rank))
    }

    /// Pushes data to the selected processes. The push completes when each of them has received the data or has
    /// closed its input. The slowest reader therefore delays the next push, and the data, which all pipes share, is
    /// kept once.
    pub(crate) fn push(
        &mut self,
        is_meant: impl Fn(Rank) -> bool,
        data: &Arc<[u8]>,
        ends: bool,
        answer: &Arc<PushAnswer>,
    ) {
        let meant = self.pipes.iter_mut().filter(|(rank, _)| is_meant(*rank));
        for (_, pipe) in meant {
            let answer = Arc::clone(answer);
            pipe.push_then(Arc::clone(data), move |status| answer.report(status));
            if ends {
                pipe.end();
            }
        }
    }
}

/// The completion of a push to several processes, called when the last pipe drops its reference.
pub(crate) struct PushAnswer(Mutex<Outcome>);

struct Outcome {
    done: Option<Completion<()>>,
    /// `true` if at least one process received the input.
    any: bool,
    /// The result for the process that reported last.
    last: Status,
}

impl PushAnswer {
    pub(crate) fn new(done: Completion<()>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Outcome {
            done: Some(done),
            any: false,
            last: Status::ERR_IOF_COMPLETE,
        })))
    }

    /// Records the result for one process.
    fn report(&self, status: Status) {
        let mut outcome = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.any |= status.is_success();
        outcome.last = status;
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        match self.done.take() {
            // A process that closed its input does not make the push fail for the others.
            Some(done) if self.any => done.succeed(()),
            Some(done) => done.fail(self.last),
            None => {}
        }
    }
}

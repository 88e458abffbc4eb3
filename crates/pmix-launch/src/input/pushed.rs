// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input of processes of a spawned job that asked for some (`PMIX_FWD_STDIN`, `PMIX_STDIN_TGT`): what is pushed
//! to them, and nothing else.

use std::io;
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, PoisonError};

use mio::{Registry, Token};
use pmix_host::forward::StdinPipe;
use pmix_server::Completion;
use pmix_types::{Rank, Status};

/// The pipes of processes, by their ranks.
#[derive(Default)]
pub(crate) struct PushedInput {
    pipes: Vec<(Rank, StdinPipe)>,
}

impl PushedInput {
    /// Adds the pipe that a process reads. The poll tells of room in any of them by one token.
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

    /// Writes what there is room for.
    pub(crate) fn write(&mut self) {
        self.pipes.iter_mut().for_each(|(_, pipe)| pipe.write());
    }

    /// Whether one of the processes that are named reads what is pushed.
    pub(crate) fn has(&self, is_meant: impl Fn(Rank) -> bool) -> bool {
        self.pipes.iter().any(|(rank, _)| is_meant(*rank))
    }

    /// Pushes to the processes that are meant. Who pushes is answered when all of them have it or read no more:
    /// so whoever reads slowest holds it up, and the data, which all share, waits here once.
    pub(crate) fn push(
        &mut self,
        is_meant: impl Fn(Rank) -> bool,
        data: &Arc<[u8]>,
        ends: bool,
        answer: &Arc<Answer>,
    ) {
        let meant = self.pipes.iter_mut().filter(|(rank, _)| is_meant(*rank));
        for (_, pipe) in meant {
            let answer = Arc::clone(answer);
            pipe.push_then(Arc::clone(data), move |status| answer.told(status));
            if ends {
                pipe.end();
            }
        }
    }
}

/// The answer to a push that goes to several processes: given when the last of them is dropped.
pub(crate) struct Answer(Mutex<Outcome>);

struct Outcome {
    done: Option<Completion<()>>,
    /// Whether any process has the input.
    any: bool,
    /// How it went with the process that was told of last.
    last: Status,
}

impl Answer {
    pub(crate) fn new(done: Completion<()>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Outcome {
            done: Some(done),
            any: false,
            last: Status::ERR_IOF_COMPLETE,
        })))
    }

    /// Notes how it went with one process.
    fn told(&self, status: Status) {
        let mut outcome = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.any |= status.is_success();
        outcome.last = status;
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        match self.done.take() {
            Some(done) if self.any => done.succeed(()),
            Some(done) => done.fail(self.last),
            None => {}
        }
    }
}

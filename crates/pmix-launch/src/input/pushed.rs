// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input of processes of a spawned job that asked for some (`PMIX_FWD_STDIN`, `PMIX_STDIN_TGT`): what is pushed
//! to them, and nothing else.

use std::cell::Cell;
use std::io;
use std::process::ChildStdin;
use std::rc::Rc;

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
    /// so whoever reads slowest holds it up, and no more than that waits here.
    pub(crate) fn push(
        &mut self,
        is_meant: impl Fn(Rank) -> bool,
        data: &[u8],
        ends: bool,
        answer: &Rc<Answer>,
    ) {
        let meant = self.pipes.iter_mut().filter(|(rank, _)| is_meant(*rank));
        for (_, pipe) in meant {
            let answer = Rc::clone(answer);
            pipe.push_then(data.to_vec(), move |status| answer.told(status));
            if ends {
                pipe.end();
            }
        }
    }
}

/// The answer to a push that goes to several processes: given when the last of them is dropped.
pub(crate) struct Answer {
    done: Option<Completion<()>>,
    /// Whether any process has the input, and how it went with the last that was told.
    status: Cell<(bool, Status)>,
}

impl Answer {
    pub(crate) fn new(done: Completion<()>) -> Rc<Self> {
        Rc::new(Self {
            done: Some(done),
            status: Cell::new((false, Status::ERR_IOF_COMPLETE)),
        })
    }

    /// How it went with one process.
    fn told(&self, status: Status) {
        let (any, _) = self.status.get();
        self.status.set((any || status.is_success(), status));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let (any, status) = self.status.get();
        match self.done.take() {
            Some(done) if any => done.succeed(()),
            Some(done) => done.fail(status),
            None => {}
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The standard input of rank 0, or of another rank that the plan names. All other processes read `/dev/null`.

mod modes;
mod pushed;
mod signal_keys;
mod terminal;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::ChildStdin;
use std::time::Instant;

use mio::{Registry, Token};
use pmix_host::forward::StdinPipe;
use pmix_server::Completion;
use pmix_server::upcall::PushStdin;
use pmix_types::{Rank, Status, keys};
use rustix::process::Pid;

pub(crate) use self::modes::SavedModes;
pub(crate) use self::pushed::{PushAnswer, PushedInput};
pub(crate) use self::terminal::TerminalInput;
use crate::{Error, Plan, null};

/// The source of the input of rank 0.
pub(crate) enum Input<'a> {
    /// The launcher's own standard input, inherited: rank 0 reads it and takes no byte more than it needs.
    Own,
    /// The launcher's terminal.
    Typed(Box<TerminalInput<'a>>),
    /// The peers that push input (`PMIx_IOF_push`).
    Pushed(StdinPipe),
}

/// The standard input of a process.
#[derive(Debug)]
pub(crate) enum ProcessInput {
    /// A new pipe, to which the launcher writes.
    Pipe,
    /// This file, pipe or terminal.
    File(OwnedFd),
}

/// Returns the standard input for a process.
pub(crate) fn of(plan: &Plan, rank: Rank, input: BorrowedFd<'_>) -> Result<ProcessInput, Error> {
    if plan.stdin_rank != Some(rank) {
        return null::input()
            .map(ProcessInput::File)
            .map_err(|e| Error::system("cannot give a process empty standard input", e));
    }
    // A terminal cannot be inherited (see `terminal`), and pushed input needs a pipe. The test is an `ioctl` that file
    // systems refuse at once, so it does not wait for a disk.
    if plan.forward_io || rustix::termios::isatty(input) {
        return Ok(ProcessInput::Pipe);
    }
    let own = input.try_clone_to_owned();
    own.map(ProcessInput::File)
        .map_err(|e| Error::system("cannot forward standard input", e))
}

impl<'a> Input<'a> {
    /// Creates the source for the pipe that rank 0 reads. It uses two tokens, `token` and the next.
    pub(crate) fn new(
        plan: &Plan,
        registry: &Registry,
        token: usize,
        terminal: BorrowedFd<'a>,
        rank0: ChildStdin,
    ) -> io::Result<Self> {
        let feed = StdinPipe::new(registry, Token(token + 1), rank0)?;
        Ok(match plan.forward_io {
            true => Self::Pushed(feed),
            false => {
                let typed = TerminalInput::new(registry, Token(token), terminal, feed)?;
                Self::Typed(Box::new(typed))
            }
        })
    }

    /// Creates the source for the pseudo terminal that is standard input of rank 0. Its process leads the session of the
    /// terminal. It uses two tokens, `token` and the next.
    pub(crate) fn of_keyboard(
        registry: &Registry,
        token: usize,
        terminal: BorrowedFd<'a>,
        rank0: OwnedFd,
        leader: Pid,
    ) -> io::Result<Self> {
        let feed = StdinPipe::new(registry, Token(token + 1), rank0)?;
        let typed = TerminalInput::new(registry, Token(token), terminal, feed)?;
        Ok(Self::Typed(Box::new(typed.with_keyboard(leader))))
    }

    /// Returns the terminal that rank 0 reads.
    pub(crate) fn typed(&mut self) -> Option<&mut TerminalInput<'a>> {
        match self {
            Self::Typed(typed) => Some(typed),
            Self::Own | Self::Pushed(_) => None,
        }
    }

    /// Forwards the available input. The session calls this when the poll reports one of the tokens, at the
    /// [`deadline`](Self::deadline), and when the launcher comes to the foreground.
    pub(crate) fn turn(&mut self, registry: &Registry, now: Instant) {
        match self {
            Self::Own => {}
            Self::Typed(keyboard) => keyboard.turn(registry, now),
            Self::Pushed(feed) => feed.write(),
        }
    }

    /// Returns the time at which [`turn`](Self::turn) is due even without an event of the poll.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Typed(keyboard) => keyboard.deadline(),
            Self::Own | Self::Pushed(_) => None,
        }
    }

    /// Returns `true` once after the terminal that rank 0 reads hung up.
    pub(crate) fn take_hang_up(&mut self) -> bool {
        match self {
            Self::Typed(keyboard) => keyboard.take_hang_up(),
            Self::Own | Self::Pushed(_) => false,
        }
    }

    /// Accepts pushed input (`PMIx_IOF_push`) for the process of the job that reads it.
    pub(crate) fn push(&mut self, plan: &Plan, call: PushStdin, done: Completion<()>) {
        let Self::Pushed(feed) = self else {
            return done.not_supported();
        };
        if !is_for(plan, &call) {
            return done.fail(Status::ERR_NOT_FOUND);
        }
        let ends = ends(&call);
        feed.push(call.data, Some(done));
        if ends {
            feed.end();
        }
    }
}

/// Returns `true` if a push is for the process of the first job that reads input.
pub(crate) fn is_for(plan: &Plan, call: &PushStdin) -> bool {
    let reads = |rank: Rank| plan.stdin_rank == Some(rank) || rank == Rank::WILDCARD;
    call.targets.is_empty()
        || (call.targets.iter())
            .any(|proc| proc.nspace.as_bytes() == plan.nspace.as_bytes() && reads(proc.rank))
}

/// Returns `true` if a push ends the input: it has no data or `PMIX_IOF_COMPLETE`.
pub(crate) fn ends(call: &PushStdin) -> bool {
    let mut directives = call.directives.iter();
    call.data.is_empty()
        || directives.any(|info| info.key.is(keys::IOF_COMPLETE) && info.truth().is_true())
}

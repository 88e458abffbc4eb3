// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the two streams of each process lead.

use std::os::fd::BorrowedFd;
use std::process::Stdio;

use pmix_types::Rank;

use super::files::Files;
use crate::{Error, Output, Plan};

/// Where the two streams of each process lead: to files, to those of the launcher, or through pipes
/// to the launcher.
///
/// A pipe costs a descriptor for each process and a copy of every byte, so there is one only where
/// something is done with the bytes on their way.
pub(crate) enum Route<'a> {
    /// To files of its own.
    Files(Files),
    /// For each stream, the one of the launcher that it shares; a pipe where there is none.
    Streams([Option<BorrowedFd<'a>>; 2]),
}

impl<'a> Route<'a> {
    /// What a plan asks for, beside the streams of the launcher.
    pub(crate) fn new(
        plan: &Plan,
        output: BorrowedFd<'a>,
        errors: BorrowedFd<'a>,
    ) -> Result<Self, Error> {
        Ok(match &plan.output {
            Output::Plain | Output::Lines | Output::Tagged => {
                Self::Streams([output, errors].map(|fd| (!passes(plan, fd)).then_some(fd)))
            }
            Output::Files(dir) => Self::Files(Files::create(dir, plan.layout.num_procs())?),
        })
    }

    /// How many descriptors the launcher holds for each process of a plan.
    pub(crate) fn num_pipes(plan: &Plan, output: BorrowedFd<'_>, errors: BorrowedFd<'_>) -> usize {
        match plan.output {
            Output::Files(_) => 0,
            Output::Plain | Output::Lines | Output::Tagged => {
                let streams = [output, errors].into_iter();
                streams.filter(|&fd| passes(plan, fd)).count()
            }
        }
    }

    /// Standard output and standard error of a process.
    pub(crate) fn of(&self, rank: Rank) -> Result<[Stdio; 2], Error> {
        let shared = match self {
            Self::Files(files) => return files.of(rank).map(|files| files.map(Stdio::from)),
            Self::Streams(shared) => *shared,
        };
        let open = |shared: Option<BorrowedFd<'_>>| match shared {
            Some(fd) => fd.try_clone_to_owned().map(Stdio::from),
            None => Ok(Stdio::piped()),
        };
        let [output, errors] = shared.map(open);
        let cannot = |e| Error::system("cannot hand the output on", e);
        Ok([output.map_err(cannot)?, errors.map_err(cannot)?])
    }
}

/// Whether what is for a stream of the launcher passes through it.
///
/// A terminal is not shared: processes are in the background there, and would be stopped when they set
/// it up, or when they write to one that is set up so (`stty tostop`).
fn passes(plan: &Plan, stream: BorrowedFd<'_>) -> bool {
    matches!(plan.output, Output::Lines | Output::Tagged)
        || plan.forward_io
        || rustix::termios::isatty(stream)
}

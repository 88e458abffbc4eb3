// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of a job.

use std::fmt;
use std::time::Duration;

use pmix_types::{Proc, Rank, Status};
use rustix::process::Signal;

use crate::process::{Ending, of_signal, signal_name};
use pmix_topology::Cpuset;

/// What became of a job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The name of the job.
    pub nspace: String,
    /// The name of this node.
    pub host: Vec<u8>,
    /// Its processes on this node, in the order of their ranks.
    pub ranks: Vec<RankOutcome>,
    /// What went wrong first, if anything did.
    pub cause: Option<Cause>,
    /// Groups of its processes that were not taken apart, or could not be made, in the order in which
    /// they were; not more than 1000.
    pub groups: Vec<GroupOutcome>,
    /// How many groups were made.
    pub num_groups: u64,
    /// The jobs that its processes asked for and that are over, in the order in which they ended; not
    /// more than 1000.
    pub spawned: Vec<JobOutcome>,
    /// How many jobs its processes asked for and were started.
    pub num_spawned: u64,
    /// How long it took, from before the first process was started to after the last was gone.
    pub elapsed: Duration,
    /// The processor time of this process so far: of launcher and server, not of the job.
    pub processor_time: Duration,
}

/// What became of a process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RankOutcome {
    /// Its rank.
    pub rank: Rank,
    /// The number of its application.
    pub app: usize,
    /// Its process number.
    pub pid: i32,
    /// The processors it was bound to, if it was.
    pub cpus: Option<Cpuset>,
    /// When it started, after the job.
    pub started: Duration,
    /// How long it ran.
    pub elapsed: Duration,
    /// How it ended.
    pub ending: Ending,
}

/// What became of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupOutcome {
    /// Its name.
    pub name: String,
    /// Its members, in the order of their ranks in it, without those that left it. The wildcard rank
    /// stands for the whole job.
    pub members: Vec<Proc<'static>>,
    /// The members that were not there at the end, or that did not come, in ascending order.
    pub missing: Vec<Proc<'static>>,
    /// The status with which its construction or destruction failed, if one did.
    pub failure: Option<Status>,
}

/// What became of a job that a process asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobOutcome {
    /// The name of the job.
    pub nspace: String,
    /// The process that asked for it, as `NSPACE,RANK`.
    pub parent: String,
    /// How many processes it had.
    pub num_procs: u64,
    /// How many of them ended badly, or without finalising.
    pub num_failed: usize,
    /// How often its processes were started again (`PMIX_MAX_RESTARTS`), all together.
    pub num_restarts: u64,
    /// Its exit code: that of its cause, 1 if it was ended with another job, else the largest of its
    /// processes.
    pub exit_code: u8,
    /// What went wrong with it first, if anything did.
    pub cause: Option<Cause>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// What went wrong with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A process ended badly.
    Failed {
        /// Which one.
        rank: Rank,
        /// How.
        ending: Ending,
    },
    /// A process ended without finalising, though it had initialised: the others may wait for it.
    NotFinalized {
        /// Which one.
        rank: Rank,
    },
    /// A process asked for the job to be aborted.
    Aborted {
        /// Which one.
        rank: Rank,
        /// The status that it gave.
        status: i32,
        /// Why, in its words.
        message: String,
    },
    /// The time was up.
    TimedOut(
        /// How much it was.
        Duration,
    ),
    /// A job failed that a process had asked for.
    Spawned {
        /// The name of the job.
        nspace: String,
        /// What went wrong with it.
        cause: Box<Self>,
    },
    /// Another job failed or ended, without which this one was not to go on.
    WithJob {
        /// The name of the other job.
        nspace: String,
    },
    /// A process or a tool ended the session.
    SessionEnded {
        /// Which one, as messages call it.
        by: String,
    },
    /// Processes did not end by a signal that the launcher handed on, and were killed.
    Unheeded {
        /// The signal.
        signal: i32,
        /// How much time they had.
        grace: Duration,
    },
    /// The launcher was told twice to end.
    Interrupted {
        /// By this signal.
        signal: i32,
    },
}

impl Cause {
    /// The exit code of the launcher: that of the process, 128 and the signal, the low byte of an
    /// abort's status (1 if that is zero), 124 when the time was up as `timeout` has it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed { ending, .. } => ending.exit_code(),
            Self::NotFinalized { .. } | Self::WithJob { .. } => 1,
            Self::Spawned { cause, .. } => cause.exit_code(),
            Self::Aborted { status, .. } => match u8::try_from(status & 0xff) {
                Ok(code) if code != 0 => code,
                _ => 1,
            },
            Self::TimedOut(_) => 124,
            // As processes end that are told to.
            Self::SessionEnded { .. } => of_signal(Signal::TERM.as_raw()),
            Self::Unheeded { signal, .. } | Self::Interrupted { signal } => of_signal(*signal),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { rank, ending } => write!(f, "rank {rank} ended with {ending}"),
            Self::NotFinalized { rank } => {
                write!(f, "rank {rank} exited without calling PMIx_Finalize")
            }
            Self::Aborted {
                rank,
                status,
                message,
            } => {
                write!(f, "rank {rank} aborted the job with status {status}")?;
                // What Open MPI says where a program gave no reason.
                match message.as_str() {
                    "" | "N/A" => Ok(()),
                    message => write!(f, ": {message}"),
                }
            }
            Self::Spawned { nspace, cause } => write!(f, "{cause}, in {nspace}"),
            Self::WithJob { nspace } => write!(f, "it was terminated together with {nspace}"),
            Self::TimedOut(limit) => write!(f, "the job was still running after {limit:?}"),
            Self::SessionEnded { by } => write!(f, "{by} terminated the session"),
            Self::Unheeded { signal, grace } => {
                let name = signal_name(*signal);
                write!(
                    f,
                    "the job did not end within {grace:?} of {name} and was killed"
                )
            }
            Self::Interrupted { signal } => {
                write!(f, "the launcher got {} twice", signal_name(*signal))
            }
        }
    }
}

impl Outcome {
    /// The exit code of the launcher: 0, or that of what went wrong first.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.cause.as_ref().map_or(0, Cause::exit_code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_a_shell_would_give() {
        let aborted = |status| Cause::Aborted {
            rank: Rank::new(1),
            status,
            message: String::new(),
        };
        assert_eq!(aborted(7).exit_code(), 7);
        assert_eq!(aborted(0).exit_code(), 1);
        assert_eq!(aborted(-1).exit_code(), 255);
        assert_eq!(aborted(256).exit_code(), 1);
        assert_eq!(Cause::TimedOut(Duration::ZERO).exit_code(), 124);
        assert_eq!(Cause::Interrupted { signal: 2 }.exit_code(), 130);
    }

    #[test]
    fn an_abort_is_told_in_the_words_of_who_asked_for_it() {
        let aborted = |message: &str| {
            let cause = Cause::Aborted {
                rank: Rank::new(3),
                status: 7,
                message: message.to_owned(),
            };
            cause.to_string()
        };
        let bare = "rank 3 aborted the job with status 7";
        assert_eq!(aborted("no more fuel"), format!("{bare}: no more fuel"));
        assert_eq!((aborted(""), aborted("N/A")), (bare.into(), bare.into()));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a job.

use std::fmt;
use std::time::Duration;

use pmix_types::{Proc, Rank, Status};
use rustix::process::Signal;

use crate::process::{Ending, of_signal, signal_name};
use pmix_topology::Cpuset;

/// The outcome of a job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The name of the job.
    pub nspace: String,
    /// The name of this node.
    pub host: Vec<u8>,
    /// The processes on this node, in the order of their ranks.
    pub ranks: Vec<RankOutcome>,
    /// The first failure, if any.
    pub cause: Option<Cause>,
    /// The process that the first failure is about, if it is about one.
    pub culprit: Option<Culprit>,
    /// The groups of its processes that were not destructed or whose construction failed, in the order of these
    /// events; at most 1000.
    pub groups: Vec<GroupOutcome>,
    /// The number of groups that were constructed.
    pub num_groups: u64,
    /// The ended jobs that its processes spawned, in the order in which they ended; at most 1000.
    pub spawned: Vec<JobOutcome>,
    /// The number of jobs that its processes spawned.
    pub num_spawned: u64,
    /// The completed fences in the order of their ends, at most 10,000, if the plan wants them.
    pub fences: Vec<FenceOutcome>,
    /// The number of completed fences, if the plan wants them.
    pub num_fences: u64,
    /// The time from before the start of the first process to the exit of the last.
    pub elapsed: Duration,
    /// The processor time of this process (launcher and server) so far, without that of the job.
    pub processor_time: Duration,
}

/// The process that a failure is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Culprit {
    /// The program.
    pub program: String,
    /// The process id.
    pub pid: i32,
    /// The name of its node.
    pub host: Vec<u8>,
    /// The reason for a kill by the kernel.
    pub kernel_kill: Option<String>,
}

/// The outcome of a process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RankOutcome {
    /// The rank.
    pub rank: Rank,
    /// The index of the process's application in the job, from zero.
    pub app: usize,
    /// The process id.
    pub pid: i32,
    /// The name of its node.
    pub host: Vec<u8>,
    /// The processors to which it was bound, if any.
    pub cpus: Option<Cpuset>,
    /// The time from the start of the process to its first initialize.
    pub init: Option<Duration>,
    /// The processor time of the process and of its children that it waited for, if it was measured.
    pub processor_time: Option<Duration>,
    /// The largest resident memory in the samples, in bytes.
    pub largest_memory: Option<u64>,
    /// The reason for a kill by the kernel.
    pub kernel_kill: Option<String>,
    /// The time from the start of the job to that of the process.
    pub started: Duration,
    /// The time for which it ran.
    pub elapsed: Duration,
    /// The way in which it ended.
    pub ending: Ending,
}

/// A completed fence. Times are from the start of the first job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FenceOutcome {
    /// The time of the first call.
    pub began: Duration,
    /// The time at which all its processes had called.
    pub ended: Duration,
    /// The number of its processes on this node.
    pub num_procs: u64,
}

/// The outcome of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupOutcome {
    /// The name of the group.
    pub name: String,
    /// Its members, in the order of their ranks in it, without those that left. The wildcard rank denotes a whole
    /// job.
    pub members: Vec<Proc<'static>>,
    /// The members that were lost or did not call, in ascending order.
    pub missing: Vec<Proc<'static>>,
    /// The status of a failed construct or destruct.
    pub failure: Option<Status>,
}

/// The outcome of a spawned job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobOutcome {
    /// The name of the job.
    pub nspace: String,
    /// The process that spawned it, as `NSPACE,RANK`.
    pub parent: String,
    /// The number of its processes.
    pub num_procs: u64,
    /// The number of processes that failed or exited without `PMIx_Finalize`.
    pub num_failed: usize,
    /// The number of restarts of all its processes together (`PMIX_MAX_RESTARTS`).
    pub num_restarts: u64,
    /// The exit code: that of its cause, 1 if it was terminated together with another job, else the largest of its
    /// processes.
    pub exit_code: u8,
    /// The first failure, if any.
    pub cause: Option<Cause>,
    /// The time for which it ran.
    pub elapsed: Duration,
}

/// The first failure of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The failure of a process.
    Failed {
        /// The rank of the process.
        rank: Rank,
        /// The way in which it ended.
        ending: Ending,
    },
    /// An exit without `PMIx_Finalize` after `PMIx_Init`. The other processes may be waiting for it.
    NotFinalized {
        /// The rank of the process.
        rank: Rank,
    },
    /// A call of `PMIx_Abort`.
    Aborted {
        /// The rank of the process.
        rank: Rank,
        /// The status that it passed.
        status: i32,
        /// The message that it passed.
        message: String,
    },
    /// The end of the time limit of the job.
    TimedOut(
        /// The limit.
        Duration,
    ),
    /// The failure of a spawned job.
    Spawned {
        /// The name of the job.
        nspace: String,
        /// The failure of that job.
        cause: Box<Self>,
    },
    /// The failure or end of another job together with which this one was to be terminated.
    WithJob {
        /// The name of the other job.
        nspace: String,
    },
    /// The termination of the session by a process or a tool.
    SessionEnded {
        /// The process or tool, as messages name it.
        by: String,
    },
    /// The kill of processes that did not terminate after a forwarded signal.
    Unheeded {
        /// The signal.
        signal: i32,
        /// The time that they had.
        grace: Duration,
    },
    /// A terminating signal that the launcher received twice.
    Interrupted {
        /// The second signal.
        signal: i32,
    },
}

impl Cause {
    /// Returns the exit code of the launcher: that of the process, 128 plus the signal, the low byte of the status of
    /// an abort (1 if that is zero), or 124 after a timeout, as `timeout` does.
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
            // The exit code of a process that `SIGTERM` terminated.
            Self::SessionEnded { .. } => of_signal(Signal::TERM.as_raw()),
            Self::Unheeded { signal, .. } | Self::Interrupted { signal } => of_signal(*signal),
        }
    }
}

impl Cause {
    /// Returns the rank of the process that the failure is about.
    pub(crate) fn rank(&self) -> Option<Rank> {
        match self {
            Self::Failed { rank, .. }
            | Self::NotFinalized { rank }
            | Self::Aborted { rank, .. } => Some(*rank),
            Self::Spawned { cause, .. } => cause.rank(),
            _ => None,
        }
    }

    /// Returns the message for users. `process` is the name of the process that the failure is about, and `job` is the
    /// name of the job.
    fn message(&self, job: &str, process: &str, kernel_kill: Option<&str>) -> String {
        match self {
            Self::Failed { ending, .. } => match (ending.to_predicate(), kernel_kill) {
                (ended, None) => format!("{process} {ended}"),
                (ended, Some(reason)) => format!("{process} {ended} ({reason})"),
            },
            Self::NotFinalized { .. } => {
                format!("{process} exited without calling PMIx_Finalize")
            }
            Self::Aborted { .. } => {
                let text = self.to_string();
                let said = text.split_once(" aborted ").map(|(_, said)| said);
                format!("{process} aborted {}", said.unwrap_or_default())
            }
            Self::Spawned { nspace, cause } => {
                let said = cause.message(nspace, process, kernel_kill);
                format!("{said}, in {nspace}")
            }
            Self::TimedOut(limit) => format!("{job} was still running after {limit:?}"),
            Self::WithJob { nspace } => format!("{job} was terminated together with {nspace}"),
            Self::SessionEnded { .. } | Self::Interrupted { .. } => self.to_string(),
            Self::Unheeded { signal, grace } => {
                let name = signal_name(*signal);
                format!("{job} did not end within {grace:?} of {name} and was killed")
            }
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
                // Open MPI passes "N/A" if the program gave no reason.
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
    /// Returns the message about the first failure, with rank, program, process id and node of the process.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        let cause = self.cause.as_ref()?;
        let rank = cause
            .rank()
            .map_or_else(String::new, |rank| format!("rank {rank}"));
        let (process, kernel_kill) = match &self.culprit {
            Some(Culprit {
                program,
                pid,
                host,
                kernel_kill,
            }) => {
                let host = String::from_utf8_lossy(host);
                let process = format!("{rank} ({program}, pid {pid} on {host})");
                (process, kernel_kill.as_deref())
            }
            None => (rank, None),
        };
        Some(cause.message(&self.nspace, &process, kernel_kill))
    }

    /// Returns the exit code of the launcher: 0, or that of the first failure.
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
    fn an_abort_is_reported_with_the_message_of_the_caller() {
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages between a controller and the agent of another node.
//!
//! The form is that of [postcard](https://postcard.jamesmunns.com), version 1. Both ends are the same release of this
//! crate, which the greeting of the agent states before the first message.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pmix_host::forward::OutputStream;
use pmix_host::usage::Detail;
use pmix_types::{Nspace, Proc, Rank};
use serde::{Deserialize, Serialize};

use crate::{Export, Interfaces, OutputFiles};

/// The process of a job, by the name of the job and the rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcName {
    pub(crate) nspace: Vec<u8>,
    pub(crate) rank: u32,
}

/// The settings of a session for the agent of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionForm {
    /// The name of the node in the maps of the jobs.
    pub(crate) host: Vec<u8>,
    /// The name of the first job.
    pub(crate) nspace: String,
    /// The values of the MCA parameters.
    pub(crate) params: Vec<(String, String)>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) compat_env: bool,
    pub(crate) client_library: Option<OsString>,
    pub(crate) interfaces: Interfaces,
    /// The number of the session (`PMIX_SESSION_ID`).
    pub(crate) session: u32,
    /// The number of the node in the session, from 1.
    pub(crate) node: u32,
    pub(crate) grace: Duration,
    /// `true` if processor time and memory of each process are measured.
    pub(crate) measures: bool,
    /// The working directory of processes whose application names none. Another one is used if it does not exist.
    pub(crate) wdir: Option<PathBuf>,
}

/// An application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AppForm {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) num_procs: u32,
    pub(crate) wdir: Option<PathBuf>,
    pub(crate) exports: Vec<Export>,
}

/// The policy for placing processes; levels by their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PolicyForm {
    pub(crate) map_by: Option<String>,
    pub(crate) bind_to: Option<String>,
    pub(crate) parts_each: usize,
    pub(crate) procs_each: Option<usize>,
    pub(crate) strict: bool,
}

/// A job, as the agent of a node starts its part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobForm {
    pub(crate) nspace: String,
    pub(crate) apps: Vec<AppForm>,
    /// The names of the nodes, encoded as a node map.
    pub(crate) nodes: MapForm,
    /// The ranks of each node, encoded as a process map.
    pub(crate) procs: MapForm,
    pub(crate) policy: PolicyForm,
    /// The processors to use, as a list.
    pub(crate) cpus: Option<String>,
    pub(crate) process_sets: Vec<(String, Vec<(u32, u32)>)>,
    /// The rank that reads the input that the controller passes.
    pub(crate) stdin_rank: Option<u32>,
    pub(crate) is_merged: bool,
    pub(crate) files: Option<OutputFiles>,
    /// `true` if standard output of the processes is a pseudo terminal.
    pub(crate) has_terminals: bool,
    /// The settings of a spawned job; `None` for the first job.
    pub(crate) spawned: Option<SpawnedForm>,
}

/// The settings of a spawned job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpawnedForm {
    /// The number of the spawned job, from 1.
    pub(crate) number: u64,
    pub(crate) parent: Option<ProcName>,
    /// The number of processes that were started before its own.
    pub(crate) offset: u32,
    /// The values that a spawn by PMI defines for its processes, packed.
    pub(crate) preput: Vec<u8>,
    /// The command that executes each process, and `true` if the rank is part of `argv[0]`.
    pub(crate) agent: Vec<OsString>,
    pub(crate) has_rank: bool,
    pub(crate) shows_progress: bool,
}

/// An encoded map, with the name of its scheme.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MapForm {
    pub(crate) scheme: String,
    #[serde(with = "serde_bytes")]
    pub(crate) bytes: Vec<u8>,
}

/// A message of the controller to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToNode {
    /// The settings of the session; the first message.
    Session(Box<SessionForm>),
    /// The start of the part of a job. A job without processes on the node is registered only.
    Start(Box<JobForm>),
    /// The start of a job is given up; its processes are killed.
    Cancel { nspace: Vec<u8> },
    /// Signals for processes and their descendants, in this order.
    Signal {
        nspace: Vec<u8>,
        ranks: Vec<u32>,
        signals: Vec<i32>,
    },
    /// The agent does not wait any more for descendants of the processes of a job, nor for output that they hold open.
    Abandon { nspace: Vec<u8> },
    /// The end of a job: what is left of it is killed and removed.
    EndJob { nspace: Vec<u8> },
    /// The answer to an upcall, packed.
    Answer {
        call: u64,
        #[serde(with = "serde_bytes")]
        reply: Vec<u8>,
    },
    /// A request for the data of a process of that node.
    Modex {
        call: u64,
        proc: ProcName,
        infos: Vec<u8>,
    },
    /// An event for the clients and tools of the node.
    Event {
        status: i32,
        source: ProcName,
        range: u8,
        infos: Vec<u8>,
    },
    /// Collectives do not wait any more for a process of that node.
    Deregister { proc: ProcName },
    /// Input for the reading rank of a job; its end if there are no bytes.
    Input {
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// The controller took bytes of output, so the agent may send as many more.
    Taken { num_bytes: u64 },
    /// A request for the operations in which processes of that node wait: those of each of these jobs, or of all jobs.
    Waits {
        call: u64,
        jobs: Vec<Option<Vec<u8>>>,
    },
    /// A request for the examination of processes of that node.
    Examine {
        call: u64,
        subjects: Vec<SubjectForm>,
        has_stacks: bool,
    },
    /// A request for measurements on that node.
    Measure {
        call: u64,
        questions: Vec<QuestionForm>,
    },
    /// The end of the session. The agent ends all processes, removes their files and closes the link.
    End,
}

/// A process of a node to examine, with the parts of its line that the controller knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SubjectForm {
    pub(crate) proc: ProcName,
    pub(crate) name: String,
    pub(crate) state: String,
}

/// A measurement on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuestionForm {
    pub(crate) kind: QuestionKind,
    /// The job of the processes, and their ranks.
    pub(crate) nspace: Vec<u8>,
    pub(crate) ranks: Vec<u32>,
    /// The wanted figures or the qualifiers of the query, packed.
    pub(crate) infos: Vec<u8>,
}

/// The subject of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum QuestionKind {
    /// The usage of the node.
    Node,
    /// The usage of processes.
    Processes(DetailForm),
    /// The memory of processes and of the agent.
    Memory,
}

/// The level of detail of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DetailForm {
    State,
    Memory,
    Proportional,
}

impl From<Detail> for DetailForm {
    fn from(detail: Detail) -> Self {
        match detail {
            Detail::State => Self::State,
            Detail::Memory => Self::Memory,
            Detail::Proportional => Self::Proportional,
        }
    }
}

impl From<DetailForm> for Detail {
    fn from(form: DetailForm) -> Self {
        match form {
            DetailForm::State => Self::State,
            DetailForm::Memory => Self::Memory,
            DetailForm::Proportional => Self::Proportional,
        }
    }
}

/// The way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EndForm {
    Exited(u8),
    Signalled { signal: i32, core: bool },
}

/// A process that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndedForm {
    pub(crate) proc: ProcName,
    pub(crate) ending: EndForm,
    pub(crate) largest_memory: Option<u64>,
    pub(crate) processor_time: Option<Duration>,
    pub(crate) kernel_kill: Option<String>,
}

/// An error of an agent, with its exit code and status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ErrorForm {
    pub(crate) exit_code: u8,
    pub(crate) status: i32,
    pub(crate) message: String,
}

impl ProcName {
    /// Returns the form of a name.
    pub(crate) fn of(proc: &Proc<'_>) -> Self {
        Self {
            nspace: proc.nspace.as_bytes().to_vec(),
            rank: proc.rank.as_raw(),
        }
    }

    /// Returns the name.
    pub(crate) fn into_proc(self) -> Proc<'static> {
        Proc::new(Nspace::new(self.nspace).to_shared(), Rank::new(self.rank))
    }
}

/// A message of an agent to the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum FromNode {
    /// The agent serves the session.
    Ready { num_processors: u32 },
    /// A process runs.
    Started { proc: ProcName, app: u32, pid: i32 },
    /// All processes of the part of a job were started, or the start failed.
    JobStarted {
        nspace: Vec<u8>,
        failure: Option<ErrorForm>,
    },
    /// A process has initialized (`true`) or finalized.
    Linked { proc: ProcName, is_connected: bool },
    /// A process has ended, and everything that it had sent before was passed on.
    Ended(EndedForm),
    /// Output of a process; the end of the stream if there are no bytes.
    Output {
        proc: ProcName,
        is_error: bool,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Nothing of the part of a job is left on the node: no process, no descendant, no open output.
    JobOver { nspace: Vec<u8> },
    /// An upcall of the server of the node, packed.
    Upcall {
        call: u64,
        #[serde(with = "serde_bytes")]
        upcall: Vec<u8>,
    },
    /// The answer to a request: the data of a process, or a list that was asked for.
    Data {
        call: u64,
        result: Result<Vec<u8>, i32>,
    },
    /// An event of the server of the node.
    Server(ServerForm),
    /// The input that was passed was read, so more may follow.
    InputTaken { num_bytes: u64 },
    /// The last message: the processes have ended and their files are removed.
    Bye,
}

/// An event of the server of a node that the controller counts or reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ServerForm {
    /// A completed fence of processes of several jobs that collected no data.
    FenceAcrossJobs { procs: Vec<ProcName> },
    /// A tool has left.
    ToolLeft { proc: ProcName },
}

impl EndForm {
    /// Returns the form of the way in which a process of this node ended; `None` for the loss of a node.
    pub(crate) const fn of(ending: crate::Ending) -> Option<Self> {
        match ending {
            crate::Ending::Exited(code) => Some(Self::Exited(code)),
            crate::Ending::Signalled { signal, core } => Some(Self::Signalled { signal, core }),
            crate::Ending::Lost => None,
        }
    }

    /// Returns the way for the table of processes.
    pub(crate) const fn into_ending(self) -> crate::Ending {
        match self {
            Self::Exited(code) => crate::Ending::Exited(code),
            Self::Signalled { signal, core } => crate::Ending::Signalled { signal, core },
        }
    }
}

/// Returns `true` if a stream is standard error.
pub(crate) fn is_error(kind: OutputStream) -> bool {
    kind == OutputStream::Errors
}

/// Returns the stream of an output message.
pub(crate) const fn stream(is_error: bool) -> OutputStream {
    match is_error {
        true => OutputStream::Errors,
        false => OutputStream::Output,
    }
}

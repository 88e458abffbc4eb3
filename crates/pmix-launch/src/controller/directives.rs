// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives of a spawn that the launcher knows, with their effects. One table serves to obey them, to refuse
//! them, and to reply to queries for supported directives. docs/cli.md has the same list.
//!
//! Other directives are ignored unless they are required (`PMIX_INFO_REQD`).
//!
//! Source: PMIx Standard, chapter "Process Management", `PMIx_Spawn` and "Spawn-specific attributes".

use pmix_types::{Key, keys};

use super::debug_request::DebugDirective;
use crate::stops::StopPoint;

/// A directive of a spawn.
#[derive(Debug)]
pub(crate) struct Directive {
    pub(crate) key: &'static str,
    /// The name of its constant in C.
    pub(crate) name: &'static str,
    pub(crate) effect: Effect,
}

/// The effect of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The change of a setting.
    Obeyed(Asked),
    /// None, since it requests what holds for any job.
    Given,
    /// The refusal of the spawn: a job started without it would not be the requested one.
    Refused,
}

/// The setting that an obeyed directive changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The independence of the parent job.
    Separate,
    MapBy,
    RankBy,
    BindTo,
    CoresEach,
    Cpus,
    TagsOutput,
    OutputDir,
    OutputFile,
    /// A pattern as file name.
    FilePattern,
    /// Output to files only.
    FilesAlone,
    /// Standard error in the destination of standard output.
    Merged,
    /// The continuation after the failure of a process.
    KeepGoing,
    /// The termination of the job on a nonzero exit code.
    EndsByExitCode,
    /// The display of the placement of processes.
    ShowMap,
    ShowMapDetailed,
    ShowAllocation,
    ShowTopology,
    ShowProcessors,
    /// Displays that programs can parse.
    Parseable,
    ShowProgress,
    /// The preparation without a start.
    PrepareOnly,
    /// The separate outcomes of child jobs.
    ChildrenApart,
    /// The number of restarts of a failed process.
    Restarts,
    /// The command that executes each process.
    Agent,
    /// The rank as part of `argv[0]`.
    RankInArgv,
    /// The number of processes for each part of the node.
    ProcsPerPart,
    /// The refusal of more processes than processors.
    WithinProcessors,
    /// The processes on whose node the new processes are placed.
    Beside,
    BesideEach,
    BesideOnNode,
    /// The locations of processes in tags.
    DetailedTags,
    /// The input that is pushed.
    Input,
    /// The rank that reads input.
    Reader,
    /// A list of options, as words.
    Options,
    /// The time limit of the job.
    JobLimit,
    /// The time limit for starting the job.
    SpawnLimit,
    Host,
    Wdir,
    Variable,
    /// The directives for the job that an intermediate launcher starts.
    ForLauncher,
    /// The start of a tool.
    Tool,
    /// A directive for debuggers.
    Debug(DebugDirective),
    /// The forwarding of output to the requester. The server forwards all output that passes through the launcher.
    Forwarded,
}

/// Builds the rows of the table from the names of keys (those in C without their prefix) and effects.
macro_rules! directives {
    ($($name:ident => $effect:expr,)*) => {
        &[$(Directive {
            key: keys::$name,
            name: concat!("PMIX_", stringify!($name)),
            effect: $effect,
        }),*]
    };
}

use Asked as A;
use Effect::{Given, Obeyed, Refused};

pub(crate) const DIRECTIVES: &[Directive] = directives! {
    ABORT_NON_ZERO_TERM => Obeyed(A::EndsByExitCode),
    ADD_ENVAR => Obeyed(A::Variable),
    APPEND_ENVAR => Obeyed(A::Variable),
    BINDTO => Obeyed(A::BindTo),
    CPUS_PER_PROC => Obeyed(A::CoresEach),
    CPU_LIST => Obeyed(A::Cpus),
    COLOCATE_NPERNODE => Obeyed(A::BesideOnNode),
    COLOCATE_NPERPROC => Obeyed(A::BesideEach),
    COLOCATE_PROCS => Obeyed(A::Beside),
    DEBUGGER_DAEMONS => Obeyed(A::Debug(DebugDirective::Daemons)),
    DEBUG_DAEMONS_PER_NODE => Obeyed(A::Debug(DebugDirective::PerNode)),
    DEBUG_DAEMONS_PER_PROC => Obeyed(A::Debug(DebugDirective::PerProc)),
    DEBUG_JOB => Obeyed(A::Debug(DebugDirective::Target)),
    DEBUG_STOP_IN_APP => Obeyed(A::Debug(DebugDirective::Stop(StopPoint::InApp))),
    DEBUG_STOP_IN_INIT => Obeyed(A::Debug(DebugDirective::Stop(StopPoint::InInit))),
    DEBUG_STOP_ON_EXEC => Obeyed(A::Debug(DebugDirective::Stop(StopPoint::OnExec))),
    DEBUG_TARGET => Obeyed(A::Debug(DebugDirective::Target)),
    DISPLAY_ALLOCATION => Obeyed(A::ShowAllocation),
    DISPLAY_MAP => Obeyed(A::ShowMap),
    DISPLAY_MAP_DETAILED => Obeyed(A::ShowMapDetailed),
    DISPLAY_PARSEABLE_OUTPUT => Obeyed(A::Parseable),
    DISPLAY_PROCESSORS => Obeyed(A::ShowProcessors),
    DISPLAY_TOPOLOGY => Obeyed(A::ShowTopology),
    DO_NOT_LAUNCH => Obeyed(A::PrepareOnly),
    EXEC_AGENT => Obeyed(A::Agent),
    FIRST_ENVAR => Obeyed(A::Variable),
    FORKEXEC_AGENT => Obeyed(A::Agent),
    FWD_STDDIAG => Obeyed(A::Forwarded),
    FWD_STDERR => Obeyed(A::Forwarded),
    FWD_STDIN => Obeyed(A::Input),
    FWD_STDOUT => Obeyed(A::Forwarded),
    HOST => Obeyed(A::Host),
    INDEX_ARGV => Obeyed(A::RankInArgv),
    IOF_FILE_ONLY => Obeyed(A::FilesAlone),
    IOF_FILE_PATTERN => Obeyed(A::FilePattern),
    IOF_MERGE_STDERR_STDOUT => Obeyed(A::Merged),
    IOF_OUTPUT_TO_DIRECTORY => Obeyed(A::OutputDir),
    IOF_OUTPUT_TO_FILE => Obeyed(A::OutputFile),
    IOF_TAG_DETAILED_OUTPUT => Obeyed(A::DetailedTags),
    IOF_TAG_FULLNAME_OUTPUT => Obeyed(A::TagsOutput),
    IOF_TAG_OUTPUT => Obeyed(A::TagsOutput),
    JOB_CONTINUOUS => Obeyed(A::KeepGoing),
    JOB_RECOVERABLE => Obeyed(A::KeepGoing),
    JOB_TIMEOUT => Obeyed(A::JobLimit),
    LAUNCHER_RENDEZVOUS_FILE => Obeyed(A::Variable),
    LAUNCH_DIRECTIVES => Obeyed(A::ForLauncher),
    MAPBY => Obeyed(A::MapBy),
    MAX_RESTARTS => Obeyed(A::Restarts),
    MERGE_STDERR_STDOUT => Obeyed(A::Merged),
    NO_OVERSUBSCRIBE => Obeyed(A::WithinProcessors),
    OUTPUT_NOCOPY => Obeyed(A::FilesAlone),
    OUTPUT_TO_DIRECTORY => Obeyed(A::OutputDir),
    OUTPUT_TO_FILE => Obeyed(A::OutputFile),
    PPR => Obeyed(A::ProcsPerPart),
    PREPEND_ENVAR => Obeyed(A::Variable),
    RANKBY => Obeyed(A::RankBy),
    REPORT_BINDINGS => Obeyed(A::ShowMap),
    REPORT_CHILD_SEP => Obeyed(A::ChildrenApart),
    RUNTIME_OPTIONS => Obeyed(A::Options),
    SET_ENVAR => Obeyed(A::Variable),
    SHOW_LAUNCH_PROGRESS => Obeyed(A::ShowProgress),
    SPAWN_CHILD_SEP => Obeyed(A::Separate),
    SPAWN_TIMEOUT => Obeyed(A::SpawnLimit),
    SPAWN_TOOL => Obeyed(A::Tool),
    STDIN_TGT => Obeyed(A::Reader),
    TAG_OUTPUT => Obeyed(A::TagsOutput),
    TIMEOUT => Obeyed(A::SpawnLimit),
    UNSET_ENVAR => Obeyed(A::Variable),
    WDIR => Obeyed(A::Wdir),
    // Any program may run, ends are reported to all that register for them, repeated messages are counted, and the
    // origin of the working directory makes no difference.
    AGGREGATE_HELP => Given,
    NON_PMI => Given,
    NOTIFY_COMPLETION => Given,
    NOTIFY_JOB_EVENTS => Given,
    NOTIFY_PROC_ABNORMAL_TERMINATION => Given,
    NOTIFY_PROC_TERMINATION => Given,
    PERSONALITY => Given,
    WDIR_USER_SPECIFIED => Given,
    ADD_HOST => Refused,
    ADD_HOSTFILE => Refused,
    COSPAWN_APP => Refused,
    HOSTFILE => Refused,
    IOF_TIMESTAMP_OUTPUT => Refused,
    IOF_XML_OUTPUT => Refused,
    NO_PROCS_ON_HEAD => Refused,
    PREFIX => Refused,
    PRELOAD_BIN => Refused,
    PRELOAD_FILES => Refused,
    SET_SESSION_CWD => Refused,
    SPAWN_PTY => Refused,
    TIMESTAMP_OUTPUT => Refused,
};

impl Directive {
    /// Returns the directive of a key.
    pub(crate) fn of(key: &Key<'_>) -> Option<&'static Self> {
        DIRECTIVES.iter().find(|directive| key.is(directive.key))
    }

    /// Returns `true` if a job of a command line obeys it as well, as one of `PMIX_LAUNCH_DIRECTIVES`.
    pub(crate) fn is_for_launch(&self) -> bool {
        match self.effect {
            Given | Refused => true,
            Obeyed(asked) => matches!(
                asked,
                A::MapBy
                    | A::RankBy
                    | A::BindTo
                    | A::CoresEach
                    | A::Cpus
                    | A::TagsOutput
                    | A::DetailedTags
                    | A::OutputDir
                    | A::OutputFile
                    | A::FilePattern
                    | A::FilesAlone
                    | A::Merged
                    | A::KeepGoing
                    | A::ShowMap
                    | A::Restarts
                    | A::ProcsPerPart
                    | A::WithinProcessors
                    | A::Input
                    | A::Reader
                    | A::JobLimit
                    | A::Host
                    | A::Wdir
                    | A::Variable
                    | A::Forwarded
                    | A::Debug(DebugDirective::Stop(_))
            ),
        }
    }

    /// Returns the keys of the supported directives for debuggers, in the form of `PMIX_QUERY_DEBUG_SUPPORT`.
    pub(crate) fn supported_for_debuggers() -> String {
        let supported = DIRECTIVES.iter().filter(|one| one.effect != Refused);
        let keys = supported.map(|directive| directive.key);
        let keys: Vec<_> = keys.filter(|key| key.starts_with("pmix.dbg.")).collect();
        keys.join(",")
    }

    /// Returns the keys of the supported directives, in the form of `PMIX_QUERY_SPAWN_SUPPORT`.
    pub(crate) fn supported() -> String {
        let supported = DIRECTIVES.iter().filter(|one| one.effect != Refused);
        let keys: Vec<_> = supported.map(|directive| directive.key).collect();
        keys.join(",")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_directive_stands_once_in_the_table_and_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, text) = text.split_once("*Spawned jobs.*").unwrap();
        let (obeyed, rest) = text.split_once("*Directives that are refused*").unwrap();
        let (refused, _) = rest.split_once("*Events*").unwrap();
        let known = DIRECTIVES.iter().map(|one| one.key);
        assert_eq!(known.collect::<BTreeSet<_>>().len(), DIRECTIVES.len());
        for Directive { name, effect, .. } in DIRECTIVES {
            let (place, other) = match effect {
                Effect::Refused => (refused, obeyed),
                _ => (obeyed, refused),
            };
            let name = format!("`{name}`");
            assert!(
                place.contains(&name),
                "{name} is not documented as {effect:?}"
            );
            assert!(
                !other.contains(&name),
                "{name} is documented as more than {effect:?}"
            );
        }
    }

    #[test]
    fn what_is_supported_is_what_is_not_refused() {
        let supported = Directive::supported();
        let supported: BTreeSet<_> = supported.split(',').collect();
        for key in [keys::NON_PMI, keys::TIMEOUT, keys::FWD_STDOUT, keys::MAPBY] {
            assert!(supported.contains(key), "{key}");
        }
        for key in [keys::PREFIX, keys::HOSTFILE] {
            assert!(!supported.contains(key), "{key}");
        }
    }
}

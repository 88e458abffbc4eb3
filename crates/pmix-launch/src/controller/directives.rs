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
    Obeyed(Setting),
    /// None, since it requests what holds for any job.
    Given,
    /// The refusal of the spawn: a job started without it would not be the requested one.
    Refused,
}

/// The setting that an obeyed directive changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
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
    Hostfile,
    /// The nodes to add to the session.
    AddHost,
    AddHostfile,
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

use Effect::{Given, Obeyed, Refused};
use Setting as S;

pub(crate) const DIRECTIVES: &[Directive] = directives! {
    ABORT_NON_ZERO_TERM => Obeyed(S::EndsByExitCode),
    ADD_ENVAR => Obeyed(S::Variable),
    ADD_HOST => Obeyed(S::AddHost),
    ADD_HOSTFILE => Obeyed(S::AddHostfile),
    APPEND_ENVAR => Obeyed(S::Variable),
    BINDTO => Obeyed(S::BindTo),
    CPUS_PER_PROC => Obeyed(S::CoresEach),
    CPU_LIST => Obeyed(S::Cpus),
    COLOCATE_NPERNODE => Obeyed(S::BesideOnNode),
    COLOCATE_NPERPROC => Obeyed(S::BesideEach),
    COLOCATE_PROCS => Obeyed(S::Beside),
    DEBUGGER_DAEMONS => Obeyed(S::Debug(DebugDirective::Daemons)),
    DEBUG_DAEMONS_PER_NODE => Obeyed(S::Debug(DebugDirective::PerNode)),
    DEBUG_DAEMONS_PER_PROC => Obeyed(S::Debug(DebugDirective::PerProc)),
    DEBUG_JOB => Obeyed(S::Debug(DebugDirective::Target)),
    DEBUG_STOP_IN_APP => Obeyed(S::Debug(DebugDirective::Stop(StopPoint::InApp))),
    DEBUG_STOP_IN_INIT => Obeyed(S::Debug(DebugDirective::Stop(StopPoint::InInit))),
    DEBUG_STOP_ON_EXEC => Obeyed(S::Debug(DebugDirective::Stop(StopPoint::OnExec))),
    DEBUG_TARGET => Obeyed(S::Debug(DebugDirective::Target)),
    DISPLAY_ALLOCATION => Obeyed(S::ShowAllocation),
    DISPLAY_MAP => Obeyed(S::ShowMap),
    DISPLAY_MAP_DETAILED => Obeyed(S::ShowMapDetailed),
    DISPLAY_PARSEABLE_OUTPUT => Obeyed(S::Parseable),
    DISPLAY_PROCESSORS => Obeyed(S::ShowProcessors),
    DISPLAY_TOPOLOGY => Obeyed(S::ShowTopology),
    DO_NOT_LAUNCH => Obeyed(S::PrepareOnly),
    EXEC_AGENT => Obeyed(S::Agent),
    FIRST_ENVAR => Obeyed(S::Variable),
    FORKEXEC_AGENT => Obeyed(S::Agent),
    FWD_STDDIAG => Obeyed(S::Forwarded),
    FWD_STDERR => Obeyed(S::Forwarded),
    FWD_STDIN => Obeyed(S::Input),
    FWD_STDOUT => Obeyed(S::Forwarded),
    HOST => Obeyed(S::Host),
    HOSTFILE => Obeyed(S::Hostfile),
    INDEX_ARGV => Obeyed(S::RankInArgv),
    IOF_FILE_ONLY => Obeyed(S::FilesAlone),
    IOF_FILE_PATTERN => Obeyed(S::FilePattern),
    IOF_MERGE_STDERR_STDOUT => Obeyed(S::Merged),
    IOF_OUTPUT_TO_DIRECTORY => Obeyed(S::OutputDir),
    IOF_OUTPUT_TO_FILE => Obeyed(S::OutputFile),
    IOF_TAG_DETAILED_OUTPUT => Obeyed(S::DetailedTags),
    IOF_TAG_FULLNAME_OUTPUT => Obeyed(S::TagsOutput),
    IOF_TAG_OUTPUT => Obeyed(S::TagsOutput),
    JOB_CONTINUOUS => Obeyed(S::KeepGoing),
    JOB_RECOVERABLE => Obeyed(S::KeepGoing),
    JOB_TIMEOUT => Obeyed(S::JobLimit),
    LAUNCHER_RENDEZVOUS_FILE => Obeyed(S::Variable),
    LAUNCH_DIRECTIVES => Obeyed(S::ForLauncher),
    MAPBY => Obeyed(S::MapBy),
    MAX_RESTARTS => Obeyed(S::Restarts),
    MERGE_STDERR_STDOUT => Obeyed(S::Merged),
    NO_OVERSUBSCRIBE => Obeyed(S::WithinProcessors),
    OUTPUT_NOCOPY => Obeyed(S::FilesAlone),
    OUTPUT_TO_DIRECTORY => Obeyed(S::OutputDir),
    OUTPUT_TO_FILE => Obeyed(S::OutputFile),
    PPR => Obeyed(S::ProcsPerPart),
    PREPEND_ENVAR => Obeyed(S::Variable),
    RANKBY => Obeyed(S::RankBy),
    REPORT_BINDINGS => Obeyed(S::ShowMap),
    REPORT_CHILD_SEP => Obeyed(S::ChildrenApart),
    RUNTIME_OPTIONS => Obeyed(S::Options),
    SET_ENVAR => Obeyed(S::Variable),
    SHOW_LAUNCH_PROGRESS => Obeyed(S::ShowProgress),
    SPAWN_CHILD_SEP => Obeyed(S::Separate),
    SPAWN_TIMEOUT => Obeyed(S::SpawnLimit),
    SPAWN_TOOL => Obeyed(S::Tool),
    STDIN_TGT => Obeyed(S::Reader),
    TAG_OUTPUT => Obeyed(S::TagsOutput),
    TIMEOUT => Obeyed(S::SpawnLimit),
    UNSET_ENVAR => Obeyed(S::Variable),
    WDIR => Obeyed(S::Wdir),
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
    COSPAWN_APP => Refused,
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
            Obeyed(setting) => matches!(
                setting,
                S::MapBy
                    | S::RankBy
                    | S::BindTo
                    | S::CoresEach
                    | S::Cpus
                    | S::TagsOutput
                    | S::DetailedTags
                    | S::OutputDir
                    | S::OutputFile
                    | S::FilePattern
                    | S::FilesAlone
                    | S::Merged
                    | S::KeepGoing
                    | S::ShowMap
                    | S::Restarts
                    | S::ProcsPerPart
                    | S::WithinProcessors
                    | S::Input
                    | S::Reader
                    | S::JobLimit
                    | S::Host
                    | S::Wdir
                    | S::Variable
                    | S::Forwarded
                    | S::Debug(DebugDirective::Stop(_))
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
        for key in [keys::PREFIX, keys::PRELOAD_BIN] {
            assert!(!supported.contains(key), "{key}");
        }
    }
}

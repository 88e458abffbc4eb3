// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations in which processes of a job wait: their text for users, and their form in the result of a query.
//!
//! The query key is [`QUERY_PENDING`], a private key of this project. Its value is an array of infos:
//!
//! | key | value |
//! | --- | --- |
//! | `pmixrs.pending` | an array of infos for each operation, as below |
//! | `pmixrs.pending.more` | the number of operations beyond the limit, `uint64_t`; absent if there are none |
//! | `pmixrs.pending.silent`, `pmixrs.pending.num_silent` | the names of nodes whose agents have not answered in time, an array of strings, and their number, `uint64_t`; absent if all have |
//!
//! | key of an operation | value |
//! | --- | --- |
//! | `pmixrs.pending.operation` | `fence`, `connect`, `disconnect`, `group construct`, `group destruct` or `get` |
//! | `pmixrs.pending.id` | the identifier, `uint64_t`: no other operation of this kind has it; 0 if the collective waits for the registration of a job |
//! | `pmixrs.pending.group` | the name of the group of a construct or destruct |
//! | `pmixrs.pending.key` | the key of a get; absent if the get is of all data |
//! | `pmix.procid` | the process whose data a get requests |
//! | `pmixrs.pending.ms` | the time since the first call in milliseconds, `uint64_t` |
//! | `pmixrs.pending.of_all` | `true` if the lists have the processes of all nodes; otherwise those of the node of the server |
//! | `pmixrs.pending.callers`, `pmixrs.pending.missing` | the processes that have called, or have not: an array of processes (`pmix_proc_t`), in pairs of the first and the last process of a run of ranks |
//! | `pmixrs.pending.participants`, `pmixrs.pending.num_participants` | all processes of a collective in the same form; a whole job is its wildcard |
//! | `pmixrs.pending.num_callers`, `pmixrs.pending.num_missing` | the number of these processes, `uint64_t`; runs beyond the limit are missing in the list |

mod merge;

use std::fmt::Write as _;
use std::time::Duration;

use pmix_server::{RankRuns, Wait, WaitOperation, Waits};
use pmix_types::{DataArray, Info, IntoOwned as _, Proc, Rank, Text, Value, keys};

pub(crate) use self::merge::{GatheredWait, NodeWaits, ProcsOfNodes, merge};

/// The key of the query for the pending operations of a job.
pub const QUERY_PENDING: &str = "pmixrs.query.pending";

const PENDING: &str = "pmixrs.pending";
const MORE: &str = "pmixrs.pending.more";
const OPERATION: &str = "pmixrs.pending.operation";
const ID: &str = "pmixrs.pending.id";
const GROUP: &str = "pmixrs.pending.group";
const KEY: &str = "pmixrs.pending.key";
const AGE: &str = "pmixrs.pending.ms";
const CALLERS: &str = "pmixrs.pending.callers";
const NUM_CALLERS: &str = "pmixrs.pending.num_callers";
const MISSING: &str = "pmixrs.pending.missing";
const NUM_MISSING: &str = "pmixrs.pending.num_missing";

const PARTICIPANTS: &str = "pmixrs.pending.participants";
const NUM_PARTICIPANTS: &str = "pmixrs.pending.num_participants";
const OF_ALL: &str = "pmixrs.pending.of_all";
const SILENT: &str = "pmixrs.pending.silent";
const NUM_SILENT: &str = "pmixrs.pending.num_silent";

/// The largest number of operations that are read from a result.
const MAX_READ: usize = 256;

/// The largest number of names of nodes that have not answered.
const MOST_SILENT: usize = 16;

/// The largest number of runs of ranks that are read from a list.
const MAX_RUNS_READ: usize = 64;

/// The pending operations of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingOperations {
    /// The operations, collectives first.
    pub listed: Vec<PendingOperation>,
    /// The number of operations that are not listed.
    pub num_more: u64,
    /// The names of nodes whose agents have not answered in time, the first ones of [`Self::num_silent`].
    pub silent: Vec<String>,
    /// The number of nodes whose agents have not answered in time.
    pub num_silent: u64,
}

/// An operation in which processes wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingOperation {
    /// The identifier of the operation at the server; 0 before the registration of its job.
    pub(crate) id: u64,
    /// The word for the operation, such as `fence`.
    pub operation: String,
    /// The name of the group of a construct or destruct.
    pub group: Option<Text<'static>>,
    /// The process whose data a get requests.
    pub proc: Option<Proc<'static>>,
    /// The key of a get; `None` for all data.
    pub key: Option<Text<'static>>,
    /// The time since the first call.
    pub age: Duration,
    /// The participants of a collective on all nodes.
    pub(crate) participants: ProcRuns,
    /// `true` if the lists have the processes of all nodes; otherwise those of the node of the server.
    pub is_of_all_nodes: bool,
    /// The processes that have called.
    pub callers: ProcRuns,
    /// The processes that have not called.
    pub missing: ProcRuns,
    /// The numbers of nodes with the identifiers at their servers, for an operation on several nodes.
    pub(crate) ids: Vec<(usize, u64)>,
}

/// Processes as runs of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcRuns {
    /// The first process of each run, and its last rank.
    pub runs: Vec<(Proc<'static>, Rank)>,
    /// The number of processes, including those that are not listed.
    pub num_procs: u64,
}

impl PendingOperations {
    pub(crate) fn of(waits: &Waits) -> Self {
        Self {
            listed: waits.listed.iter().map(PendingOperation::of).collect(),
            num_more: u64::try_from(waits.num_more).unwrap_or(u64::MAX),
            ..Self::default()
        }
    }

    /// Returns the value of a query.
    pub(crate) fn to_value(&self) -> Value<'static> {
        let rows = self.listed.iter();
        let mut rows: Vec<_> = rows.map(PendingOperation::to_info).collect();
        if self.num_more > 0 {
            rows.push(Info::new(MORE, self.num_more));
        }
        if self.num_silent > 0 {
            let names = self.silent.iter();
            let names = names.map(|name| Some(Text::new(name.clone().into_bytes())));
            let names = Value::DataArray(DataArray::String(names.collect()));
            rows.push(Info::new(SILENT, names));
            rows.push(Info::new(NUM_SILENT, self.num_silent));
        }
        Value::DataArray(DataArray::Info(rows))
    }

    /// Reads the value of a query. Ignores parts that it does not know.
    #[must_use]
    pub fn of_value(value: &Value<'_>) -> Self {
        let rows = value.as_infos().unwrap_or_default();
        let listed = rows.iter().filter(|row| row.key.is(PENDING));
        Self {
            listed: (listed.take(MAX_READ))
                .filter_map(PendingOperation::of_info)
                .collect(),
            num_more: number(rows, MORE),
            silent: match find(rows, SILENT) {
                Some(Value::DataArray(DataArray::String(names))) => {
                    let names = names.iter().flatten().take(MOST_SILENT);
                    names.map(|name| name.to_str_lossy().into_owned()).collect()
                }
                _ => Vec::new(),
            },
            num_silent: number(rows, NUM_SILENT),
        }
    }

    /// Returns the line about the nodes that have not answered in time, if there are any. The names are as they are, so
    /// the caller escapes what a terminal must not receive.
    #[must_use]
    pub fn silent_line(&self) -> Option<String> {
        let more = self
            .num_silent
            .saturating_sub(u64::try_from(self.silent.len()).unwrap_or(u64::MAX));
        let mut words = self.silent.clone();
        if more > 0 {
            words.push(format!("{more} more"));
        }
        let (noun, verb) = match self.num_silent {
            0 => return None,
            1 => ("node", "has"),
            _ => ("nodes", "have"),
        };
        let names = words.join(", ");
        Some(format!(
            "{noun} {names} {verb} not answered in time, so the state of the ranks there is not known"
        ))
    }

    /// Returns the processes that an operation waits for, each once, at most `limit`.
    pub(crate) fn missing(&self, limit: usize) -> Vec<Proc<'static>> {
        self.missing_of(None, limit)
    }

    /// Returns the processes of a job, or of all, that an operation waits for, each once, at most `limit`.
    #[must_use]
    pub fn missing_of(&self, job: Option<&[u8]>, limit: usize) -> Vec<Proc<'static>> {
        let procs = self.listed.iter().flat_map(|one| one.missing.procs_of(job));
        let mut missing: Vec<Proc<'static>> = Vec::new();
        for proc in procs {
            if missing.len() >= limit {
                break;
            }
            if !missing.contains(&proc) {
                missing.push(proc);
            }
        }
        missing.sort_unstable();
        missing
    }
}

impl PendingOperation {
    fn of(wait: &Wait) -> Self {
        let (operation, group, proc, key) = match &wait.operation {
            WaitOperation::Collective { kind, group } => {
                (kind.to_string(), group.clone(), None, None)
            }
            WaitOperation::Get { proc, key } => {
                let key = key.as_ref().map(|key| key.as_text().clone().into_owned());
                ("get".to_owned(), None, Some(proc.clone()), key)
            }
            _ => ("operation".to_owned(), None, None, None),
        };
        Self {
            id: wait.id,
            operation,
            group,
            proc,
            key,
            age: wait.age,
            participants: ProcRuns::of(&wait.participants),
            is_of_all_nodes: false,
            callers: ProcRuns::of(&wait.callers),
            missing: ProcRuns::of(&wait.missing),
            ids: Vec::new(),
        }
    }

    /// Returns the identifiers of the operation with the numbers of their nodes.
    pub(crate) fn identifiers(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let own = self.ids.is_empty().then_some((0, self.id));
        own.into_iter().chain(self.ids.iter().copied())
    }

    fn to_info(&self) -> Info<'static> {
        let text = |key, text: &Text<'static>| Info::new(key, Value::String(Some(text.clone())));
        let ms = u64::try_from(self.age.as_millis()).unwrap_or(u64::MAX);
        let mut about = vec![Info::new(OPERATION, self.operation.clone())];
        about.push(Info::new(ID, self.id));
        about.extend(self.group.as_ref().map(|group| text(GROUP, group)));
        about.extend(self.key.as_ref().map(|key| text(KEY, key)));
        about.extend({ self.proc.as_ref() }.map(|proc| Info::new(keys::PROCID, proc.clone())));
        about.push(Info::new(AGE, ms));
        about.push(Info::new(OF_ALL, self.is_of_all_nodes));
        let participants = &self.participants;
        participants.write(&mut about, (PARTICIPANTS, NUM_PARTICIPANTS));
        self.callers.write(&mut about, (CALLERS, NUM_CALLERS));
        self.missing.write(&mut about, (MISSING, NUM_MISSING));
        Info::new(PENDING, Value::DataArray(DataArray::Info(about)))
    }

    fn of_info(row: &Info<'_>) -> Option<Self> {
        let about = row.value.as_infos().ok()?;
        let text = |key| match find(about, key)? {
            Value::String(Some(text)) => Some(text.clone().into_owned()),
            _ => None,
        };
        Some(Self {
            id: number(about, ID),
            operation: text(OPERATION)?.to_str_lossy().into_owned(),
            group: text(GROUP),
            proc: match find(about, keys::PROCID) {
                Some(Value::Proc(proc)) => Some(proc.clone().into_owned()),
                _ => None,
            },
            key: text(KEY),
            age: Duration::from_millis(number(about, AGE)),
            participants: ProcRuns::read(about, (PARTICIPANTS, NUM_PARTICIPANTS)),
            is_of_all_nodes: find(about, OF_ALL) == Some(&Value::Bool(true)),
            ids: Vec::new(),
            callers: ProcRuns::read(about, (CALLERS, NUM_CALLERS)),
            missing: ProcRuns::read(about, (MISSING, NUM_MISSING)),
        })
    }

    /// Returns the operation as a line for users. Processes of `job` are named by their ranks alone. The names of groups
    /// and keys are as they are, so the caller escapes what a terminal must not receive.
    #[must_use]
    pub fn to_line(&self, job: &[u8]) -> String {
        let mut line = self.operation.clone();
        if let Some(group) = &self.group {
            let _ = write!(line, " of group {}", group.to_str_lossy());
        }
        if let Some(proc) = &self.proc {
            match &self.key {
                Some(key) => _ = write!(line, " of key {}", key.to_str_lossy()),
                None => line.push_str(" of all data"),
            }
            let of = ProcRuns::one(proc);
            let _ = write!(line, " of {}", of.to_words(job));
        }
        let _ = write!(line, ", {} s: ", self.age.as_secs());
        match (self.missing.num_procs, &self.proc) {
            (0, Some(_)) => {
                line.push_str("waits for the registration of the process or for its node")
            }
            (0, None) if self.id == 0 => {
                line.push_str("waits for the registration of a job");
            }
            (0, None) if self.is_of_all_nodes => {
                line.push_str("no rank is known to be missing");
            }
            (0, None) => line.push_str("all ranks of this node have called"),
            (_, Some(_)) => {
                let _ = write!(
                    line,
                    "waits for {} to commit it",
                    self.missing.to_words(job)
                );
            }
            (_, None) => _ = write!(line, "waits for {}", self.missing.to_words(job)),
        }
        if self.callers.num_procs > 0 {
            let _ = write!(line, "; called by {}", self.callers.to_words(job));
        }
        line
    }
}

impl ProcRuns {
    fn of(runs: &RankRuns) -> Self {
        let run = |run: &pmix_server::RankRun| {
            let first = Proc::new(run.nspace.clone(), run.first);
            (first, run.last)
        };
        Self {
            runs: runs.runs.iter().map(run).collect(),
            num_procs: u64::try_from(runs.num_procs).unwrap_or(u64::MAX),
        }
    }

    fn one(proc: &Proc<'static>) -> Self {
        Self {
            runs: vec![(proc.clone(), proc.rank)],
            num_procs: 1,
        }
    }

    fn write(&self, about: &mut Vec<Info<'static>>, (list, num): (&'static str, &'static str)) {
        let pairs = self.runs.iter().flat_map(|(first, last)| {
            let end = Proc::new(first.nspace.clone(), *last);
            [first.clone(), end]
        });
        about.push(Info::new(
            list,
            Value::DataArray(DataArray::Proc(pairs.collect())),
        ));
        about.push(Info::new(num, self.num_procs));
    }

    fn read(about: &[Info<'_>], (list, num): (&str, &str)) -> Self {
        let pairs = match find(about, list) {
            Some(Value::DataArray(DataArray::Proc(pairs))) => &pairs[..],
            _ => &[],
        };
        let run = |pair: &[Proc<'_>]| match pair {
            [first, last] if first.nspace == last.nspace && first.rank <= last.rank => {
                Some((first.clone().into_owned(), last.rank))
            }
            _ => None,
        };
        Self {
            runs: { pairs.chunks_exact(2) }
                .take(MAX_RUNS_READ)
                .filter_map(run)
                .collect(),
            num_procs: number(about, num),
        }
    }

    /// Returns the listed processes one by one, those of a job or all. The ranks come from a server, so there may be many.
    pub fn procs_of(&self, job: Option<&[u8]>) -> impl Iterator<Item = Proc<'static>> {
        let runs = self
            .runs
            .iter()
            .filter(move |(first, _)| job.is_none_or(|job| first.nspace.as_bytes() == job));
        runs.flat_map(|(first, last)| {
            let ranks = first.rank.as_raw()..=last.as_raw();
            ranks.map(|rank| Proc::new(first.nspace.clone(), Rank::new(rank)))
        })
    }

    /// Returns the processes as words: `rank 1`, `ranks 0, 2-4`, `ranks 0, job@2:1`.
    #[must_use]
    pub fn to_words(&self, job: &[u8]) -> String {
        let mut num_listed = 0_u64;
        let word = |(first, last): &(Proc<'static>, Rank)| {
            let (from, to) = (first.rank.as_raw(), last.as_raw());
            num_listed = num_listed.saturating_add(u64::from(to.saturating_sub(from)) + 1);
            let ranks = match (first.rank, from == to) {
                (Rank::WILDCARD, _) => "all".to_owned(),
                (_, true) => first.rank.to_string(),
                (_, false) => format!("{}-{last}", first.rank),
            };
            match first.nspace.as_bytes() == job {
                true => ranks,
                false => format!("{}:{ranks}", first.nspace),
            }
        };
        let mut words: Vec<_> = self.runs.iter().map(word).collect();
        if let more @ 1.. = self.num_procs.saturating_sub(num_listed) {
            words.push(format!("{more} more"));
        }
        let noun = if self.num_procs == 1 { "rank" } else { "ranks" };
        format!("{noun} {}", words.join(", "))
    }
}

fn find<'i, 'a>(infos: &'i [Info<'a>], key: &str) -> Option<&'i Value<'a>> {
    let found = infos.iter().find(|info| info.key.is(key));
    found.map(|info| &info.value)
}

fn number(infos: &[Info<'_>], key: &str) -> u64 {
    let found = find(infos, key).and_then(|value| value.to_number().ok());
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(runs: &[(&'static str, u32, u32)], num_procs: u64) -> ProcRuns {
        let run = |(job, first, last): &(&'static str, u32, u32)| {
            (Proc::new(*job, Rank::new(*first)), Rank::new(*last))
        };
        ProcRuns {
            runs: runs.iter().map(run).collect(),
            num_procs,
        }
    }

    fn fence() -> PendingOperation {
        PendingOperation {
            operation: "fence".to_owned(),
            age: Duration::from_millis(40_700),
            callers: runs(&[("job", 0, 0), ("job", 2, 3), ("two", 5, 5)], 4),
            missing: runs(&[("job", 1, 1)], 1),
            ..PendingOperation::default()
        }
    }

    fn get() -> PendingOperation {
        PendingOperation {
            operation: "get".to_owned(),
            proc: Some(Proc::new("job", Rank::new(2))),
            key: Some("site.port".into()),
            age: Duration::from_secs(3),
            callers: runs(&[("job", 0, 1)], 100),
            missing: runs(&[("job", 2, 2)], 1),
            ..PendingOperation::default()
        }
    }

    #[test]
    fn operations_are_the_same_after_a_query() {
        let pending = PendingOperations {
            listed: vec![fence(), get()],
            num_more: 7,
            silent: vec!["n3".to_owned()],
            num_silent: 5,
        };
        let silent = "nodes n3, 4 more have not answered in time, so the state of the ranks there is not known";
        assert_eq!(pending.silent_line().as_deref(), Some(silent));
        assert_eq!(PendingOperations::of_value(&pending.to_value()), pending);
        let nothing = PendingOperations::of_value(&Value::Undef);
        assert_eq!(nothing, PendingOperations::default());
    }

    #[test]
    fn a_line_names_the_operation_its_age_and_the_missing_ranks() {
        let line = fence().to_line(b"job");
        let expected = "fence, 40 s: waits for rank 1; called by ranks 0, 2-3, two:5";
        assert_eq!(line, expected);
        let line = get().to_line(b"job");
        let expected = "get of key site.port of rank 2, 3 s: waits for rank 2 to commit it; \
                        called by ranks 0-1, 98 more";
        assert_eq!(line, expected);
    }

    #[test]
    fn the_ranks_of_a_server_are_read_within_a_limit() {
        let all = PendingOperations {
            listed: vec![PendingOperation {
                missing: runs(&[("job", 0, u32::MAX)], u64::MAX),
                ..fence()
            }],
            ..PendingOperations::default()
        };
        assert_eq!(all.missing(3).len(), 3);
    }
}

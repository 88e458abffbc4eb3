// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a spawn asks for, read out of its infos.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use pmix_server::upcall::Spawn;
use pmix_topology::{Cpuset, Level};
use pmix_types::{App as Asked, Info, Status, Text, Value, keys};

use crate::environment::is_foreign;
use crate::{App, Error, Export, MapBy};

/// Why a job is not started.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: Status,
    pub(super) why: String,
}

impl Refusal {
    pub(super) fn new(status: Status, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }

    pub(super) fn of(error: &Error) -> Self {
        Self::new(error.status(), error.to_string())
    }

    fn bad(why: impl Into<String>) -> Self {
        Self::new(Status::ERR_BAD_PARAM, why)
    }
}

/// A job that is asked for. What is none is as in the first job.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) apps: Vec<App>,
    /// Whether it is to go on without its parent (`PMIX_SPAWN_CHILD_SEP`).
    pub(super) is_separate: Option<bool>,
    pub(super) map_by: Option<MapBy>,
    /// What processes are bound to; inside, none binds them to nothing.
    pub(super) bind_to: Option<Option<Level>>,
    /// How many cores each has (`PMIX_CPUS_PER_PROC`, `pe=N`).
    pub(super) cores_each: Option<usize>,
    pub(super) cpus: Option<Cpuset>,
    pub(super) tags_output: Option<bool>,
    pub(super) output_dir: Option<PathBuf>,
    pub(super) keep_going: Option<bool>,
    pub(super) announce: Option<bool>,
    pub(super) timeout: Option<Duration>,
}

/// What no launcher of one node does, though a process asks for it.
const REFUSED: &[(&str, &str)] = &[
    (keys::ADD_HOST, "PMIX_ADD_HOST"),
    (keys::ADD_HOSTFILE, "PMIX_ADD_HOSTFILE"),
    (keys::HOSTFILE, "PMIX_HOSTFILE"),
    (keys::PRELOAD_BIN, "PMIX_PRELOAD_BIN"),
    (keys::PRELOAD_FILES, "PMIX_PRELOAD_FILES"),
    (keys::FORKEXEC_AGENT, "PMIX_FORKEXEC_AGENT"),
    (keys::SPAWN_PTY, "PMIX_SPAWN_PTY"),
    (keys::STDIN_TGT, "PMIX_STDIN_TGT"),
    (keys::FWD_STDIN, "PMIX_FWD_STDIN"),
    (keys::INDEX_ARGV, "PMIX_INDEX_ARGV"),
    (keys::DO_NOT_LAUNCH, "PMIX_DO_NOT_LAUNCH"),
    (keys::MAX_RESTARTS, "PMIX_MAX_RESTARTS"),
    (keys::OUTPUT_TO_FILE, "PMIX_OUTPUT_TO_FILE"),
    (keys::MERGE_STDERR_STDOUT, "PMIX_MERGE_STDERR_STDOUT"),
    (keys::IOF_OUTPUT_TO_FILE, "PMIX_IOF_OUTPUT_TO_FILE"),
    (
        keys::IOF_MERGE_STDERR_STDOUT,
        "PMIX_IOF_MERGE_STDERR_STDOUT",
    ),
    (keys::TIMESTAMP_OUTPUT, "PMIX_TIMESTAMP_OUTPUT"),
    (keys::IOF_TIMESTAMP_OUTPUT, "PMIX_IOF_TIMESTAMP_OUTPUT"),
    (keys::IOF_XML_OUTPUT, "PMIX_IOF_XML_OUTPUT"),
    (keys::COLOCATE_PROCS, "PMIX_COLOCATE_PROCS"),
    (keys::COLOCATE_NPERPROC, "PMIX_COLOCATE_NPERPROC"),
    (keys::COLOCATE_NPERNODE, "PMIX_COLOCATE_NPERNODE"),
    (keys::DEBUGGER_DAEMONS, "PMIX_DEBUGGER_DAEMONS"),
    (keys::DEBUG_STOP_ON_EXEC, "PMIX_DEBUG_STOP_ON_EXEC"),
    (keys::DEBUG_STOP_IN_INIT, "PMIX_DEBUG_STOP_IN_INIT"),
    (keys::DEBUG_STOP_IN_APP, "PMIX_DEBUG_STOP_IN_APP"),
];

impl Request {
    /// Reads what is asked for.
    ///
    /// # Errors
    /// It makes no sense, or is nothing that a launcher of one node does: `PMIX_ERR_NOT_SUPPORTED`.
    pub(super) fn of(call: &Spawn, host: &[u8]) -> Result<Self, Refusal> {
        let mut request = Self::default();
        for info in &call.infos {
            request.take(info, host)?;
        }
        for asked in &call.apps {
            let app = request.app(asked, host)?;
            request.apps.push(app);
        }
        Ok(request)
    }

    /// How many processes it has.
    pub(super) fn num_procs(&self) -> Result<u32, Refusal> {
        let numbers = self.apps.iter().map(|app| app.num_procs);
        let sum = numbers.fold(0u32, u32::saturating_add);
        match sum {
            0 => Err(Refusal::bad("no processes")),
            sum => Ok(sum),
        }
    }

    /// Takes what is said of the job as a whole.
    fn take(&mut self, info: &Info<'static>, host: &[u8]) -> Result<(), Refusal> {
        let flag = info.truth().is_true();
        let is = |key: &str| info.key.is(key);
        // What is said not to be wanted is not.
        let is_denied = matches!(info.value, Value::Bool(false));
        let mut refused = REFUSED.iter();
        if let Some((_, name)) = refused.find(|(key, _)| is(key) && !is_denied) {
            return Err(Refusal::new(
                Status::ERR_NOT_SUPPORTED,
                format!("{name} is nothing that pmix run does"),
            ));
        }
        match () {
            () if is(keys::SPAWN_CHILD_SEP) => self.is_separate = Some(flag),
            () if is(keys::MAPBY) => self.map(text_of(info)?)?,
            () if is(keys::RANKBY) => rank(text_of(info)?)?,
            () if is(keys::BINDTO) => self.bind_to = Some(bind(text_of(info)?)?),
            () if is(keys::CPUS_PER_PROC) => self.cores_each = Some(number(info)?),
            () if is(keys::CPU_LIST) => self.cpus = Some(cpus(text_of(info)?)?),
            () if is(keys::TAG_OUTPUT) || is(keys::IOF_TAG_OUTPUT) => self.tags_output = Some(flag),
            () if is(keys::OUTPUT_TO_DIRECTORY) || is(keys::IOF_OUTPUT_TO_DIRECTORY) => {
                self.output_dir = Some(own(text_of(info)?).into());
            }
            () if is(keys::JOB_CONTINUOUS) || is(keys::JOB_RECOVERABLE) => {
                self.keep_going = Some(flag);
            }
            () if is(keys::ABORT_NON_ZERO_TERM) => self.keep_going = Some(!flag),
            () if is(keys::REPORT_BINDINGS) || is(keys::DISPLAY_MAP) => self.announce = Some(flag),
            () if is(keys::JOB_TIMEOUT) || is(keys::TIMEOUT) => self.limit(number(info)?),
            () if is(keys::HOST) => here(text_of(info)?, host)?,
            // Personality, the kind of program and who is told of its end change nothing here.
            () => tracing::debug!("{} is taken without effect", info.key),
        }
        Ok(())
    }

    fn limit(&mut self, seconds: usize) {
        let limit = u64::try_from(seconds).map_or(Duration::MAX, Duration::from_secs);
        // 0 is no limit.
        if !limit.is_zero() {
            self.timeout = Some(self.timeout.map_or(limit, |other| other.min(limit)));
        }
    }

    /// Takes a mapping such as `core:PE=2:OVERSUBSCRIBE`.
    fn map(&mut self, text: &Text<'_>) -> Result<(), Refusal> {
        let text = text.to_str_lossy().to_ascii_lowercase();
        let unknown = |word: &str| {
            let why = format!("PMIX_MAPBY {word:?} is nothing that pmix run does");
            Refusal::new(Status::ERR_NOT_SUPPORTED, why)
        };
        for (place, word) in text.split(':').enumerate() {
            match (place, word.split_once('=')) {
                (0, _) if matches!(word, "" | "slot" | "byslot") => self.map_by = Some(MapBy::Slot),
                (0, _) => {
                    let name = word.strip_prefix("by").unwrap_or(word);
                    self.map_by = Some(MapBy::Level(level(name).ok_or_else(|| unknown(word))?));
                }
                (_, Some(("pe", count))) => {
                    let count = count.parse().ok().filter(|count| *count > 0);
                    self.cores_each = Some(count.ok_or_else(|| unknown(word))?);
                }
                // Processes may outnumber processors whether this is said or not.
                (_, None) if matches!(word, "oversubscribe" | "inherit" | "noinherit") => {}
                _ => return Err(unknown(word)),
            }
        }
        Ok(())
    }

    /// Reads an application, with what its own infos say of the job.
    fn app(&mut self, asked: &Asked<'static>, host: &[u8]) -> Result<App, Refusal> {
        let num_procs = u32::try_from(asked.maxprocs);
        let num_procs = num_procs.map_err(|_| Refusal::bad("a number of processes below 0"))?;
        let first = asked.cmd.as_ref().or_else(|| asked.argv.first());
        let program = first.map(own).filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| {
            Refusal::new(
                Status::ERR_JOB_NO_EXE_SPECIFIED,
                "an application without a program",
            )
        })?;
        let mut wdir = asked.cwd.as_ref().map(|cwd| own(cwd).into());
        let exports = asked.env.iter().filter_map(|text| variable(&own(text)));
        let mut exports: Vec<_> = exports.collect();
        for info in &asked.info {
            if info.key.is(keys::WDIR) {
                wdir = Some(own(text_of(info)?).into());
            } else if let Some(export) = envar(info)? {
                exports.push(export);
            } else {
                self.take(info, host)?;
            }
        }
        Ok(App {
            program,
            args: asked.argv.iter().skip(1).map(own).collect(),
            num_procs,
            wdir,
            exports,
        })
    }
}

fn own(text: &Text<'_>) -> OsString {
    OsStr::from_bytes(text.as_bytes()).to_owned()
}

fn text_of<'a>(info: &'a Info<'static>) -> Result<&'a Text<'static>, Refusal> {
    match &info.value {
        Value::String(Some(text)) => Ok(text),
        _ => Err(Refusal::bad(format!("{} without text", info.key))),
    }
}

fn number(info: &Info<'static>) -> Result<usize, Refusal> {
    let number: Option<u32> = info.value.to_number().ok();
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| Refusal::bad(format!("{} without a number", info.key)))
}

fn level(name: &str) -> Option<Level> {
    Some(match name {
        "node" => Level::Node,
        "package" | "socket" => Level::Package,
        "numa" => Level::Numa,
        "l3cache" => Level::L3Cache,
        "l2cache" => Level::L2Cache,
        "l1cache" => Level::L1Cache,
        "core" => Level::Core,
        "hwthread" => Level::HwThread,
        _ => return None,
    })
}

fn bind(text: &Text<'_>) -> Result<Option<Level>, Refusal> {
    let text = text.to_str_lossy().to_ascii_lowercase();
    // What is bound although there are too few is bound here, too.
    let word = text.split(':').next().unwrap_or_default();
    match word {
        "none" => Ok(None),
        word => match level(word) {
            Some(level) => Ok(Some(level)),
            None => {
                let why = format!("PMIX_BINDTO {word:?} is nothing that pmix run does");
                Err(Refusal::new(Status::ERR_NOT_SUPPORTED, why))
            }
        },
    }
}

/// Ranks are numbered in the order in which they are dealt out.
fn rank(text: &Text<'_>) -> Result<(), Refusal> {
    let text = text.to_str_lossy().to_ascii_lowercase();
    match text.as_str() {
        "slot" | "byslot" | "fill" => Ok(()),
        word => {
            let why = format!("PMIX_RANKBY {word:?} is nothing that pmix run does");
            Err(Refusal::new(Status::ERR_NOT_SUPPORTED, why))
        }
    }
}

fn cpus(text: &Text<'_>) -> Result<Cpuset, Refusal> {
    let cpus = Cpuset::parse(&text.to_str_lossy()).ok();
    let cpus = cpus.filter(|cpus| !cpus.is_empty());
    cpus.ok_or_else(|| Refusal::bad("PMIX_CPU_LIST is no list of processors"))
}

/// Whether this node is among those that are named, with or without slots behind it.
fn here(text: &Text<'_>, host: &[u8]) -> Result<(), Refusal> {
    let mut words = text.as_bytes().split(|byte| *byte == b',');
    let is_here = |word: &[u8]| {
        let name = word.split(|byte| *byte == b':').next().unwrap_or_default();
        name == host || name == b"localhost"
    };
    match words.any(is_here) {
        true => Ok(()),
        false => Err(Refusal::new(
            Status::ERR_JOB_FAILED_TO_MAP,
            "PMIX_HOST names other nodes than this one",
        )),
    }
}

/// A variable that the environment of an application has. What tells who asks for the job which
/// process it is itself is not for its children.
fn variable(text: &OsString) -> Option<Export> {
    let at = memchr::memchr(b'=', text.as_bytes())?;
    let (name, value) = text.as_bytes().split_at(at);
    let (name, value) = (OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
    // Those of PMIx itself are set for each process whatever stands here.
    let is_own = is_foreign(name)
        && !name.as_bytes().starts_with(b"PMIX_")
        && name != "OMPI_MCA_orte_precondition_transports";
    (!name.is_empty() && !is_own).then(|| Export::Set(name.to_owned(), value.to_owned()))
}

/// What a directive does to a variable, if it is one for that.
fn envar(info: &Info<'static>) -> Result<Option<Export>, Refusal> {
    let is = |key: &str| info.key.is(key);
    if is(keys::UNSET_ENVAR) {
        return Ok(Some(Export::Unset(own(text_of(info)?))));
    }
    let all = [
        keys::SET_ENVAR,
        keys::ADD_ENVAR,
        keys::PREPEND_ENVAR,
        keys::APPEND_ENVAR,
        keys::FIRST_ENVAR,
    ];
    if !all.into_iter().any(is) {
        return Ok(None);
    }
    let Value::Envar(envar) = &info.value else {
        return Err(Refusal::bad(format!("{} without a variable", info.key)));
    };
    let name = envar.envar.as_ref().map(own).unwrap_or_default();
    let value = envar.value.as_ref().map(own).unwrap_or_default();
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(Refusal::bad(format!("{} without a name", info.key)));
    }
    let separator = envar.separator;
    Ok(Some(match () {
        () if is(keys::SET_ENVAR) => Export::Set(name, value),
        () if is(keys::ADD_ENVAR) => Export::Default(name, value),
        () if is(keys::APPEND_ENVAR) => Export::Append(name, value, separator),
        // First means in front, wherever it stood before.
        () => Export::Prepend(name, value, separator),
    }))
}

#[cfg(test)]
mod tests {
    use pmix_types::Envar;

    use super::*;

    fn taken(infos: Vec<Info<'static>>) -> Result<Request, Refusal> {
        let mut request = Request::default();
        let app = Asked {
            cmd: Some("true".into()),
            maxprocs: 2,
            info: infos,
            ..Asked::default()
        };
        let app = request.app(&app, b"n1")?;
        request.apps.push(app);
        Ok(request)
    }

    #[test]
    fn what_is_not_done_is_refused_by_its_name() {
        for (key, name) in REFUSED {
            let refusal = taken(vec![Info::new(*key, true)]).unwrap_err();
            assert_eq!(refusal.status, Status::ERR_NOT_SUPPORTED, "{name}");
            assert!(refusal.why.starts_with(name), "{}", refusal.why);
            taken(vec![Info::new(*key, false)]).unwrap();
        }
        for (key, value) in [
            (keys::MAPBY, "ppr:2:node"),
            (keys::MAPBY, "seq"),
            (keys::RANKBY, "node"),
            (keys::BINDTO, "board"),
        ] {
            let refusal = taken(vec![Info::new(key, value)]).unwrap_err();
            assert_eq!(refusal.status, Status::ERR_NOT_SUPPORTED, "{value}");
        }
        let elsewhere = taken(vec![Info::new(keys::HOST, "n2,n3:4")]).unwrap_err();
        assert_eq!(elsewhere.status, Status::ERR_JOB_FAILED_TO_MAP);
    }

    #[test]
    fn directives_say_where_processes_run_and_for_how_long() {
        let request = taken(vec![
            Info::new(keys::PERSONALITY, "ompi"),
            Info::new(keys::HOST, "n2,n1:4"),
            Info::new(keys::MAPBY, "core:PE=2:OVERSUBSCRIBE"),
            Info::new(keys::RANKBY, "slot"),
            Info::new(keys::BINDTO, "none"),
            Info::new(keys::TAG_OUTPUT, true),
            Info::new(keys::JOB_TIMEOUT, 9i32),
            Info::new(keys::TIMEOUT, 0i32),
            Info::new(keys::WDIR, "/tmp"),
        ]);
        let request = request.unwrap();
        assert_eq!(request.map_by, Some(MapBy::Level(Level::Core)));
        assert_eq!((request.cores_each, request.bind_to), (Some(2), Some(None)));
        assert_eq!(request.tags_output, Some(true));
        assert_eq!(request.timeout, Some(Duration::from_secs(9)));
        assert_eq!(request.apps[0].wdir, Some("/tmp".into()));
        assert_eq!(request.num_procs().unwrap(), 2);
    }

    #[test]
    fn variables_are_changed_in_the_order_of_the_directives() {
        let envar = |name: &'static str, value: &'static str| {
            Value::Envar(Box::new(Envar {
                envar: Some(name.into()),
                value: Some(value.into()),
                separator: b':',
            }))
        };
        let request = taken(vec![
            Info::new(keys::SET_ENVAR, envar("A", "1")),
            Info::new(keys::PREPEND_ENVAR, envar("P", "front")),
            Info::new(keys::UNSET_ENVAR, "U"),
        ]);
        let expected = [
            Export::Set("A".into(), "1".into()),
            Export::Prepend("P".into(), "front".into(), b':'),
            Export::Unset("U".into()),
        ];
        assert_eq!(request.unwrap().apps[0].exports, expected);
        assert!(taken(vec![Info::new(keys::SET_ENVAR, envar("", "1"))]).is_err());
        assert!(taken(vec![Info::new(keys::SET_ENVAR, "A=1")]).is_err());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a spawn asks for, read out of its infos.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pmix_server::upcall::Spawn;
use pmix_topology::{Cpuset, Level};
use pmix_types::{App as SpawnApp, Info, Status, Text, Value, keys};

use super::debug::DebugRequest;
use super::directives::{Asked, Directive, Effect};
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

    fn unsupported(what: impl fmt::Display) -> Self {
        let why = format!("pmix run does not support {what}");
        Self::new(Status::ERR_NOT_SUPPORTED, why)
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
    /// The directory for files of its output (`PMIX_IOF_OUTPUT_TO_DIRECTORY`).
    pub(super) output_dir: Option<PathBuf>,
    /// How files of its output are called (`PMIX_IOF_OUTPUT_TO_FILE`).
    pub(super) output_file: Option<PathBuf>,
    /// Whether that is a pattern (`PMIX_IOF_FILE_PATTERN`).
    pub(super) is_pattern: bool,
    /// Whether files are all that the output goes to (`PMIX_IOF_FILE_ONLY`).
    pub(super) is_in_files_alone: Option<bool>,
    /// Whether standard error goes where standard output goes.
    pub(super) is_merged: Option<bool>,
    pub(super) keep_going: Option<bool>,
    /// Whether a process that ends with another exit code than 0 ends it.
    pub(super) ends_by_exit_code: Option<bool>,
    pub(super) announce: Option<bool>,
    /// How long it may run.
    pub(super) timeout: Option<Duration>,
    /// How long it may take until it is started.
    pub(super) spawn_timeout: Option<Duration>,
    /// Whether it is not to be started unless who asks is sent its output.
    pub(super) needs_forwarding: bool,
    pub(super) debug: DebugRequest,
    /// Where applications start that do not say it themselves.
    wdir: Option<PathBuf>,
    /// What is done to the variables of all applications.
    exports: Vec<Export>,
}

impl Request {
    /// Reads what is asked for.
    ///
    /// # Errors
    /// It makes no sense, or the launcher does not support it: `PMIX_ERR_NOT_SUPPORTED`.
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
            0 => Err(Refusal::bad("the applications have no processes")),
            sum => Ok(sum),
        }
    }

    /// Takes what is said of the job as a whole.
    fn take(&mut self, info: &Info<'static>, host: &[u8]) -> Result<(), Refusal> {
        let Some(directive) = Directive::of(&info.key) else {
            return unknown(info);
        };
        let flag = info.truth().is_true();
        let asked = match directive.effect {
            Effect::Obeyed(asked) => asked,
            Effect::Given => return Ok(()),
            // What is said not to be wanted is not.
            Effect::Refused if matches!(info.value, Value::Bool(false)) => return Ok(()),
            Effect::Refused => return Err(Refusal::unsupported(directive.name)),
        };
        match asked {
            Asked::Separate => self.is_separate = Some(flag),
            Asked::MapBy => self.map(text_of(info)?)?,
            Asked::RankBy => rank(text_of(info)?)?,
            Asked::BindTo => self.bind_to = Some(bind(text_of(info)?)?),
            Asked::CoresEach => self.cores_each = Some(number(info)?),
            Asked::Cpus => self.cpus = Some(cpus(text_of(info)?)?),
            Asked::TagsOutput => self.tags_output = Some(flag),
            Asked::OutputDir => self.output_dir = Some(own(text_of(info)?).into()),
            Asked::OutputFile => self.output_file = Some(own(text_of(info)?).into()),
            Asked::FilePattern => self.is_pattern = flag,
            Asked::FilesAlone => self.is_in_files_alone = Some(flag),
            Asked::Merged => self.is_merged = Some(flag),
            Asked::KeepGoing => self.keep_going = Some(flag),
            Asked::EndsByExitCode => self.ends_by_exit_code = Some(flag),
            Asked::Announce => self.announce = Some(flag),
            Asked::JobLimit => shorten(&mut self.timeout, number(info)?),
            Asked::SpawnLimit => shorten(&mut self.spawn_timeout, number(info)?),
            Asked::Host => here(text_of(info)?, host)?,
            Asked::Wdir => self.wdir = Some(own(text_of(info)?).into()),
            Asked::Variable => self.exports.extend(envar(info)?),
            Asked::Debug(wish) => self.debug.take(wish, info, None),
            Asked::Forwarded => self.needs_forwarding |= flag && info.is_required(),
        }
        Ok(())
    }

    /// Whether the time is up in which a job that was asked for at some time is to be started.
    pub(super) fn is_late(&self, asked: Instant, now: Instant) -> bool {
        let limit = self.spawn_timeout;
        limit.is_some_and(|limit| now.saturating_duration_since(asked) >= limit)
    }

    /// Takes a mapping such as `core:PE=2:OVERSUBSCRIBE`.
    fn map(&mut self, text: &Text<'_>) -> Result<(), Refusal> {
        let text = text.to_str_lossy().to_ascii_lowercase();
        let unknown = |word: &str| Refusal::unsupported(format_args!("PMIX_MAPBY {word:?}"));
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
    fn app(&mut self, asked: &SpawnApp<'static>, host: &[u8]) -> Result<App, Refusal> {
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
        wdir = wdir.or_else(|| self.wdir.clone());
        let exports = asked.env.iter().filter_map(|text| variable(&own(text)));
        let mut exports: Vec<_> = exports.chain(self.exports.iter().cloned()).collect();
        for info in &asked.info {
            match Directive::of(&info.key).map(|directive| directive.effect) {
                Some(Effect::Obeyed(Asked::Wdir)) => wdir = Some(own(text_of(info)?).into()),
                Some(Effect::Obeyed(Asked::Variable)) => exports.extend(envar(info)?),
                Some(Effect::Obeyed(Asked::Debug(wish))) => {
                    self.debug.take(wish, info, Some(self.apps.len()));
                }
                _ => self.take(info, host)?,
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

/// A directive that the launcher does not know is ignored, unless who asks cannot do without it.
fn unknown(info: &Info<'_>) -> Result<(), Refusal> {
    if info.is_required() {
        return Err(Refusal::unsupported(&info.key));
    }
    tracing::debug!("{} is ignored", info.key);
    Ok(())
}

/// Shortens a limit of time; 0 seconds are no limit.
fn shorten(limit: &mut Option<Duration>, seconds: usize) {
    let new = u64::try_from(seconds).map_or(Duration::MAX, Duration::from_secs);
    if !new.is_zero() {
        *limit = Some(limit.map_or(new, |old| old.min(new)));
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
            None => Err(Refusal::unsupported(format_args!("PMIX_BINDTO {word:?}"))),
        },
    }
}

/// Ranks are numbered in the order in which they are dealt out.
fn rank(text: &Text<'_>) -> Result<(), Refusal> {
    let text = text.to_str_lossy().to_ascii_lowercase();
    match text.as_str() {
        "slot" | "byslot" | "fill" => Ok(()),
        word => Err(Refusal::unsupported(format_args!("PMIX_RANKBY {word:?}"))),
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
    use crate::run::directives::DIRECTIVES;

    fn taken(infos: Vec<Info<'static>>) -> Result<Request, Refusal> {
        let mut request = Request::default();
        let app = SpawnApp {
            info: infos,
            ..program()
        };
        let app = request.app(&app, b"n1")?;
        request.apps.push(app);
        Ok(request)
    }

    fn program() -> SpawnApp<'static> {
        SpawnApp {
            cmd: Some("true".into()),
            maxprocs: 2,
            ..SpawnApp::default()
        }
    }

    #[test]
    fn what_is_not_done_is_refused_by_its_name() {
        let all = DIRECTIVES.iter();
        for Directive { key, name, .. } in all.filter(|one| one.effect == Effect::Refused) {
            let refusal = taken(vec![Info::new(*key, true)]).unwrap_err();
            assert_eq!(refusal.status, Status::ERR_NOT_SUPPORTED, "{name}");
            assert!(refusal.why.ends_with(name), "{}", refusal.why);
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
    fn what_is_unknown_is_ignored_unless_it_is_required() {
        for key in ["example.unknown", keys::TIMEOUT_STACKTRACES] {
            let info = Info::new(key, false);
            taken(vec![info.clone()]).unwrap();
            let refusal = taken(vec![info.required()]).unwrap_err();
            assert_eq!(refusal.status, Status::ERR_NOT_SUPPORTED);
            assert!(refusal.why.ends_with(key), "{}", refusal.why);
        }
        for one in DIRECTIVES.iter().filter(|one| one.effect == Effect::Given) {
            taken(vec![Info::new(one.key, true).required()]).unwrap();
        }
        taken(vec![Info::new(keys::TAG_OUTPUT, true).required()]).unwrap();
    }

    #[test]
    fn the_time_limit_of_the_spawn_is_not_that_of_the_job() {
        for key in [keys::TIMEOUT, keys::SPAWN_TIMEOUT] {
            let request = taken(vec![Info::new(key, 30i32)]).unwrap();
            assert_eq!(request.timeout, None);
            let asked = Instant::now();
            let after = |seconds| request.is_late(asked, asked + Duration::from_secs(seconds));
            assert!(!after(29) && after(30));
        }
        let unlimited = taken(vec![Info::new(keys::TIMEOUT, 0i32)]).unwrap();
        let asked = Instant::now();
        assert!(!unlimited.is_late(asked, asked + Duration::from_secs(1000)));
    }

    #[test]
    fn what_is_said_of_the_job_holds_for_all_its_applications() {
        let unset = |name: &'static str| Info::new(keys::UNSET_ENVAR, name);
        let mut request = Request::default();
        for info in [Info::new(keys::WDIR, "/job"), unset("J")] {
            request.take(&info, b"n1").unwrap();
        }
        let first = SpawnApp {
            cwd: Some("/app".into()),
            info: vec![unset("A")],
            ..program()
        };
        let first = request.app(&first, b"n1").unwrap();
        let second = request.app(&program(), b"n1").unwrap();
        assert_eq!(first.wdir, Some("/app".into()));
        assert_eq!(second.wdir, Some("/job".into()));
        let unset = |name: &str| Export::Unset(name.into());
        assert_eq!(first.exports, [unset("J"), unset("A")]);
        assert_eq!(second.exports, [unset("J")]);
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a spawn asks for, read out of its infos.

mod options;
mod read;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_server::upcall::Spawn;
use pmix_topology::{Cpuset, Level};
use pmix_types::{App as SpawnApp, Info, Proc, Rank, Status, Text, Value, keys};

use super::debug::DebugRequest;
use super::directives::{Asked, Directive, Effect};
use super::display::Display;
use super::tool_wait::PAUSE_FOR_TOOL;
use crate::process::CommandForm;
use crate::{App, Error, Export, MapBy};
use read::{
    bind, command, cpus, directory, envar, here, infos, level, number, own, procs, rank, reader,
    shorten, text_of, unknown, variable,
};

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

    /// Who asks cannot do without output or input that does not pass through the launcher.
    pub(super) fn unforwarded() -> Self {
        let why = "its output and input do not pass through the launcher (--forward-io)";
        Self::new(Status::ERR_NOT_SUPPORTED, why)
    }

    fn unsupported(what: impl fmt::Display) -> Self {
        let why = format!("pmix run does not support {what}");
        Self::new(Status::ERR_NOT_SUPPORTED, why)
    }

    pub(super) fn bad(why: impl Into<String>) -> Self {
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
    /// Whether tags also say where processes run (`PMIX_IOF_TAG_DETAILED_OUTPUT`).
    pub(super) has_detailed_tags: bool,
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
    /// What is shown before it starts.
    pub(super) display: Display,
    /// Whether it is said how many of its processes have started (`PMIX_SHOW_LAUNCH_PROGRESS`).
    pub(super) shows_progress: bool,
    /// Whether it is only prepared (`PMIX_DO_NOT_LAUNCH`).
    pub(super) is_only_prepared: bool,
    /// Whether what becomes of jobs that it asks for is not what becomes of the launcher
    /// (`PMIX_REPORT_CHILD_SEP`).
    pub(super) reports_children_apart: bool,
    /// How often a process of it that ends badly is started again (`PMIX_MAX_RESTARTS`).
    pub(super) max_restarts: Option<u32>,
    /// The rank that reads what is pushed (`PMIX_FWD_STDIN`, `PMIX_STDIN_TGT`), or all with the wildcard.
    pub(super) reader: Option<Rank>,
    /// How the command lines of its processes are made.
    pub(super) form: CommandForm,
    /// How many processes each part of the node has (`ppr:N:PART`).
    pub(super) procs_each: Option<usize>,
    /// Whether processes may not outnumber processors (`PMIX_NO_OVERSUBSCRIBE`).
    pub(super) is_within_processors: bool,
    /// The processes that its own are to be on the node of (`PMIX_COLOCATE_PROCS`).
    pub(super) beside: Vec<Proc<'static>>,
    /// How many are to be beside each of these, or on the node of each.
    num_beside: Option<usize>,
    num_beside_node: Option<usize>,
    /// How long it may run.
    pub(super) timeout: Option<Duration>,
    /// How long it may take until it is started.
    pub(super) spawn_timeout: Option<Duration>,
    /// Whether it is not to be started unless who asks is sent its output.
    pub(super) needs_forwarding: bool,
    pub(super) debug: DebugRequest,
    /// What a launcher that it is does with the job that it starts in turn (`PMIX_LAUNCH_DIRECTIVES`), if that is said.
    pub(super) for_launcher: Option<Vec<Info<'static>>>,
    /// Whether it is a tool (`PMIX_SPAWN_TOOL`).
    is_tool: bool,
    /// Where applications start that do not say it themselves.
    wdir: Option<PathBuf>,
    /// What is done to the variables of all applications.
    exports: Vec<Export>,
    /// The same as one list that the applications share, once the first of them was read.
    shared: Option<Arc<[Export]>>,
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
        request.fill_node();
        request.mark_launcher();
        Ok(request)
    }

    /// Reads the launch directives that the job of a command line is to obey, and not a job that is asked for: they are
    /// about a job as a whole whose applications and names are known.
    ///
    /// # Errors
    /// One of them makes no sense, or cannot be obeyed for such a job: `PMIX_ERR_NOT_SUPPORTED`.
    pub(super) fn of_launch(directives: &[Info<'static>], host: &[u8]) -> Result<Self, Refusal> {
        let mut request = Self::default();
        for info in directives {
            match Directive::of(&info.key) {
                Some(directive) if !directive.is_for_launch() => {
                    let name = directive.name;
                    return Err(Refusal::unsupported(format_args!(
                        "{name} among PMIX_LAUNCH_DIRECTIVES"
                    )));
                }
                _ => request.take(info, host)?,
            }
            // What the job of a command line reads can be pushed to it only where all passes through the launcher.
            if info.key.is(keys::FWD_STDIN) && info.is_required() {
                request.needs_forwarding |= request.reader.is_some();
            }
        }
        Ok(request)
    }

    /// What is done to the variables of all applications, and where they start that do not say it.
    pub(super) fn of_apps(&self) -> (&[Export], Option<&PathBuf>) {
        (&self.exports, self.wdir.as_ref())
    }

    /// A launcher is told that a tool has it started, or it would not ask what that tool wants of it.
    fn mark_launcher(&mut self) {
        let stops = self.is_tool && self.debug.stops_in_init();
        if !stops && self.for_launcher.is_none() {
            return;
        }
        let value = if stops { "1" } else { "0" };
        let mark = Export::Default(OsStr::new(PAUSE_FOR_TOOL).into(), OsStr::new(value).into());
        (self.apps.iter_mut()).for_each(|app| app.exports.push(mark.clone()));
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

    /// An application without a number of processes has as many as the node is to have (`ppr:N:node`).
    fn fill_node(&mut self) {
        let of_node = self.map_by == Some(MapBy::Level(Level::Node));
        if let Some(each) = self.procs_each.filter(|_| of_node) {
            let each = u32::try_from(each).unwrap_or(u32::MAX);
            let unsaid = self.apps.iter_mut().filter(|app| app.num_procs == 0);
            unsaid.for_each(|app| app.num_procs = each);
        }
    }

    /// The number of processes follows from those that they are to be beside, which are so many, if it is said how
    /// many there are for each.
    pub(super) fn count_beside(&mut self, num_others: usize) -> Result<(), Refusal> {
        let num_procs = match (self.num_beside, self.num_beside_node) {
            (None, None) => return Ok(()),
            (Some(each), None) => each.saturating_mul(num_others),
            // All of them are on one node.
            (None, Some(on_node)) if num_others > 0 => on_node,
            (None, Some(_)) => 0,
            (Some(_), Some(_)) => {
                return Err(Refusal::bad(
                    "PMIX_COLOCATE_NPERPROC and PMIX_COLOCATE_NPERNODE do not go together",
                ));
            }
        };
        if num_procs == 0 {
            return Err(Refusal::bad("PMIX_COLOCATE_PROCS names no processes"));
        }
        let [app] = &mut self.apps[..] else {
            return Err(Refusal::bad(
                "a number of processes beside others is that of one application",
            ));
        };
        app.num_procs = u32::try_from(num_procs).unwrap_or(u32::MAX);
        Ok(())
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
            Asked::ShowMap => self.display.map |= flag,
            Asked::ShowMapDetailed => self.display.detailed |= flag,
            Asked::ShowAllocation => self.display.allocation |= flag,
            Asked::ShowTopology => {
                here(info, host)?;
                self.display.topology = true;
            }
            Asked::ShowProcessors => {
                here(info, host)?;
                self.display.processors = true;
            }
            Asked::Parseable => self.display.is_parseable = flag,
            Asked::ShowProgress => self.shows_progress = flag,
            Asked::PrepareOnly => self.is_only_prepared = flag,
            Asked::ChildrenApart => self.reports_children_apart = flag,
            Asked::Restarts => {
                self.max_restarts = Some(u32::try_from(number(info)?).unwrap_or(u32::MAX));
            }
            Asked::Agent => self.form.agent = command(info)?,
            Asked::RankInArgv => self.form.has_rank = flag,
            Asked::ProcsPerPart => self.part(text_of(info)?)?,
            Asked::WithinProcessors => self.is_within_processors = flag,
            Asked::Beside => self.beside = procs(info)?,
            Asked::BesideEach => self.num_beside = Some(number(info)?),
            Asked::BesideOnNode => self.num_beside_node = Some(number(info)?),
            Asked::DetailedTags => self.has_detailed_tags = flag,
            Asked::Input => match reader(info)? {
                // Whoever named a rank meant that.
                Some(rank) => {
                    self.reader.get_or_insert(rank);
                }
                None => self.reader = None,
            },
            Asked::Reader => self.reader = reader(info)?,
            Asked::Options => self.options(text_of(info)?)?,
            Asked::JobLimit => shorten(&mut self.timeout, number(info)?),
            Asked::SpawnLimit => shorten(&mut self.spawn_timeout, number(info)?),
            Asked::Host => here(info, host)?,
            Asked::Wdir => self.wdir = Some(directory(text_of(info)?)?),
            Asked::Variable => self.exports.extend(envar(info)?),
            Asked::ForLauncher => self.for_launcher = Some(infos(info)?),
            Asked::Tool => self.is_tool = flag,
            Asked::Debug(directive) => {
                { self.debug.take(directive, info, None) }.map_err(Refusal::bad)?
            }
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
        if text.starts_with("ppr:") {
            return self.part(&text.into());
        }
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
                (_, None) if word == "nooversubscribe" => self.is_within_processors = true,
                _ => return Err(unknown(word)),
            }
        }
        Ok(())
    }

    /// Takes how many processes each part of the node has, such as `2:package`.
    fn part(&mut self, text: &Text<'_>) -> Result<(), Refusal> {
        let text = text.to_str_lossy().to_ascii_lowercase();
        let unknown = || Refusal::unsupported(format_args!("PMIX_PPR {text:?}"));
        let mut words = text.strip_prefix("ppr:").unwrap_or(&text).split(':');
        let number = words.next().and_then(|word| word.parse().ok());
        self.procs_each = Some(number.filter(|each| *each > 0).ok_or_else(unknown)?);
        let part = words.next().and_then(level).ok_or_else(unknown)?;
        self.map_by = Some(MapBy::Level(part));
        for word in words {
            match word {
                "oversubscribe" => {}
                "nooversubscribe" => self.is_within_processors = true,
                _ => return Err(unknown()),
            }
        }
        Ok(())
    }

    /// Returns what is done to the variables of all applications, as one list that they share.
    fn exports_of_all(&mut self) -> Option<Export> {
        if self.exports.is_empty() {
            return None;
        }
        let exports = &self.exports;
        let shared = self.shared.get_or_insert_with(|| exports.as_slice().into());
        Some(Export::All(Arc::clone(shared)))
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
        let mut wdir = asked.cwd.as_ref().map(directory).transpose()?;
        wdir = wdir.or_else(|| self.wdir.clone());
        let mut exports: Vec<_> = asked.env.iter().filter_map(variable).collect();
        exports.extend(self.exports_of_all());
        for info in &asked.info {
            match Directive::of(&info.key).map(|directive| directive.effect) {
                Some(Effect::Obeyed(Asked::Wdir)) => wdir = Some(directory(text_of(info)?)?),
                Some(Effect::Obeyed(Asked::Variable)) => exports.extend(envar(info)?),
                Some(Effect::Obeyed(Asked::Debug(directive))) => {
                    let taken = self.debug.take(directive, info, Some(self.apps.len()));
                    taken.map_err(Refusal::bad)?;
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a spawn request, read from its infos.

mod hosts;
mod read;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmix_pmi::PREPUT;
use pmix_server::upcall::Spawn;
use pmix_topology::{Cpuset, Level};
use pmix_types::{App as SpawnApp, Info, Proc, Rank, Status, Text, Value, keys};

use super::debug_request::DebugRequest;
use super::directives::{Directive, Effect, Setting};
use super::display::Display;
use super::tool_wait::PAUSE_FOR_TOOL;
use crate::process::CommandForm;
use crate::{App, Export, MapBy};
pub(crate) use hosts::{NamedHost, NamedHosts};
pub(crate) use read::Refusal;
use read::{
    bind, command, cpus, directory, envar, here, infos, level, number, own, procs, rank, reader,
    shorten, text_of, unknown, variable,
};

/// The settings of a requested job. `None` selects the setting of the first job.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) apps: Vec<App>,
    /// `true` to continue after its parent job failed (`PMIX_SPAWN_CHILD_SEP`).
    pub(crate) is_separate: Option<bool>,
    pub(crate) map_by: Option<MapBy>,
    /// The level to which processes are bound; the inner `None` leaves them unbound.
    pub(crate) bind_to: Option<Option<Level>>,
    /// The number of cores for each process (`PMIX_CPUS_PER_PROC`, `pe=N`).
    pub(crate) cores_each: Option<usize>,
    pub(crate) cpus: Option<Cpuset>,
    pub(crate) tags_output: Option<bool>,
    /// `true` if tags also contain the location of processes (`PMIX_IOF_TAG_DETAILED_OUTPUT`).
    pub(crate) has_detailed_tags: bool,
    /// The directory for output files (`PMIX_IOF_OUTPUT_TO_DIRECTORY`).
    pub(crate) output_dir: Option<PathBuf>,
    /// The name of output files (`PMIX_IOF_OUTPUT_TO_FILE`).
    pub(crate) output_file: Option<PathBuf>,
    /// `true` if that name is a pattern (`PMIX_IOF_FILE_PATTERN`).
    pub(crate) is_pattern: bool,
    /// `true` if output goes to files only (`PMIX_IOF_FILE_ONLY`).
    pub(crate) is_in_files_alone: Option<bool>,
    /// `true` if standard error goes to the destination of standard output.
    pub(crate) is_merged: Option<bool>,
    pub(crate) keep_going: Option<bool>,
    /// `true` if a nonzero exit code of a process terminates the job.
    pub(crate) ends_by_exit_code: Option<bool>,
    /// The parts to display before it starts.
    pub(crate) display: Display,
    /// `true` to report the number of started processes (`PMIX_SHOW_LAUNCH_PROGRESS`).
    pub(crate) shows_progress: bool,
    /// `true` if the job is only prepared (`PMIX_DO_NOT_LAUNCH`).
    pub(crate) is_only_prepared: bool,
    /// `true` if the outcomes of jobs that it spawns do not affect that of the launcher (`PMIX_REPORT_CHILD_SEP`).
    pub(crate) reports_children_apart: bool,
    /// The largest number of restarts of each failed process (`PMIX_MAX_RESTARTS`).
    pub(crate) max_restarts: Option<u32>,
    /// The rank that reads pushed input (`PMIX_FWD_STDIN`, `PMIX_STDIN_TGT`); the wildcard for all.
    pub(crate) reader: Option<Rank>,
    /// The form of the command lines of its processes.
    pub(crate) form: CommandForm,
    /// The number of processes for each part of the node (`ppr:N:PART`).
    pub(crate) procs_each: Option<usize>,
    /// `true` to refuse more processes than processors (`PMIX_NO_OVERSUBSCRIBE`).
    pub(crate) is_within_processors: bool,
    /// `true` to place more processes on a node than it has slots.
    pub(crate) oversubscribes: bool,
    /// The nodes for the job, and for each application.
    pub(crate) hosts: NamedHosts,
    pub(crate) app_hosts: Vec<NamedHosts>,
    /// The processes with which its own are co-located (`PMIX_COLOCATE_PROCS`).
    pub(crate) beside: Vec<Proc<'static>>,
    /// The number of processes for each of these (`PMIX_COLOCATE_NPERPROC`), or for each of their nodes
    /// (`PMIX_COLOCATE_NPERNODE`).
    num_beside: Option<usize>,
    num_beside_node: Option<usize>,
    /// The time limit of the job.
    pub(crate) timeout: Option<Duration>,
    /// The time limit for starting it.
    pub(crate) spawn_timeout: Option<Duration>,
    /// `true` if the requester requires its output to be forwarded.
    pub(crate) needs_forwarding: bool,
    pub(crate) debug: DebugRequest,
    /// The directives for the job that it starts in turn, if it is an intermediate launcher
    /// (`PMIX_LAUNCH_DIRECTIVES`).
    pub(crate) for_launcher: Option<Vec<Info<'static>>>,
    /// The values that a spawn by PMI defines for its processes.
    pub(crate) preput: Vec<Info<'static>>,
    /// `true` if it is a tool (`PMIX_SPAWN_TOOL`).
    is_tool: bool,
    /// The working directory of applications without one of their own.
    wdir: Option<PathBuf>,
    /// The changes to the environment of all applications.
    exports: Vec<Export>,
    /// The list of `exports` that all applications share, created with the first application.
    shared: Option<Arc<[Export]>>,
}

impl Request {
    /// Reads a spawn request.
    ///
    /// # Errors
    /// Returns [`Refusal`] if it is invalid, or if the launcher does not support it (`PMIX_ERR_NOT_SUPPORTED`).
    pub(crate) fn of(call: &Spawn, host: &[u8]) -> Result<Self, Refusal> {
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

    /// Reads the launch directives for the job of a command line. Unlike a spawn, that job already has its
    /// applications and its name.
    ///
    /// # Errors
    /// Returns [`Refusal`] if a directive is invalid, or cannot be obeyed for such a job (`PMIX_ERR_NOT_SUPPORTED`).
    pub(crate) fn of_launch(directives: &[Info<'static>], host: &[u8]) -> Result<Self, Refusal> {
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
            request.hosts.check_here(host)?;
            // Input can be pushed to the job of a command line only if input and output pass through the launcher.
            if info.key.is(keys::FWD_STDIN) && info.is_required() {
                request.needs_forwarding |= request.reader.is_some();
            }
        }
        Ok(request)
    }

    /// Returns the changes to the environment of all applications, and their default working directory.
    pub(crate) fn of_apps(&self) -> (&[Export], Option<&PathBuf>) {
        (&self.exports, self.wdir.as_ref())
    }

    /// Returns `true` if the request names hostfiles that were not read.
    pub(crate) fn has_hostfiles(&self) -> bool {
        self.hosts.has_files() || self.app_hosts.iter().any(NamedHosts::has_files)
    }

    /// Reads the hostfiles. This can take as long as the disks need.
    pub(crate) fn read_hostfiles(&mut self) -> Result<(), Refusal> {
        self.hosts.read()?;
        self.app_hosts.iter_mut().try_for_each(NamedHosts::read)
    }

    /// Refuses nodes other than this one.
    pub(crate) fn check_hosts_here(&self, host: &[u8]) -> Result<(), Refusal> {
        let mut all = std::iter::once(&self.hosts).chain(&self.app_hosts);
        all.try_for_each(|hosts| hosts.check_here(host))
    }

    /// Returns the target of a job of debugger daemons.
    pub(crate) fn debug_target(&self) -> Option<&Proc<'static>> {
        let target = self.debug.is_of_daemons().then(|| self.debug.target().ok());
        target.flatten()
    }

    /// Refuses a job with processes on other nodes that needs what only a job on this node has.
    pub(crate) fn check_for_several_nodes(&self) -> Result<(), Refusal> {
        let lacking = match () {
            () if !self.debug.stops(&self.apps).is_empty() => "stopping processes for a debugger",
            () if self.max_restarts.unwrap_or(0) > 0 => "restarting processes",
            () if self.reader.is_some() => "input that is pushed to processes",
            () if self.for_launcher.is_some() || self.is_tool => "a launcher or tool",
            () => return Ok(()),
        };
        Err(Refusal::unsupported(format_args!(
            "{lacking} on other nodes"
        )))
    }

    /// Marks an intermediate launcher by a variable. Without it the launcher would not request its directives from
    /// the server.
    fn mark_launcher(&mut self) {
        let stops = self.is_tool && self.debug.stops_in_init();
        if !stops && self.for_launcher.is_none() {
            return;
        }
        let value = if stops { "1" } else { "0" };
        let mark = Export::Default(OsStr::new(PAUSE_FOR_TOOL).into(), OsStr::new(value).into());
        (self.apps.iter_mut()).for_each(|app| app.exports.push(mark.clone()));
    }

    /// Returns the number of processes.
    pub(crate) fn num_procs(&self) -> Result<u32, Refusal> {
        let numbers = self.apps.iter().map(|app| app.num_procs);
        let sum = numbers.fold(0u32, u32::saturating_add);
        match sum {
            0 => Err(Refusal::bad("the applications have no processes")),
            sum => Ok(sum),
        }
    }

    /// Sets the number of processes of applications without one to the number for the node (`ppr:N:node`).
    fn fill_node(&mut self) {
        let of_node = self.map_by == Some(MapBy::Level(Level::Node));
        if let Some(each) = self.procs_each.filter(|_| of_node) {
            let each = u32::try_from(each).unwrap_or(u32::MAX);
            let unsaid = self.apps.iter_mut().filter(|app| app.num_procs == 0);
            unsaid.for_each(|app| app.num_procs = each);
        }
    }

    /// Derives the number of processes from the number of processes with which they are co-located, if one of the two
    /// numbers for that was given.
    pub(crate) fn count_beside(
        &mut self,
        num_others: usize,
        num_nodes: usize,
    ) -> Result<(), Refusal> {
        let num_procs = match (self.num_beside, self.num_beside_node) {
            (None, None) => return Ok(()),
            (Some(each), None) => each.saturating_mul(num_others),
            (None, Some(on_node)) => on_node.saturating_mul(num_nodes),
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

    /// Reads an info of the job as a whole.
    fn take(&mut self, info: &Info<'static>, host: &[u8]) -> Result<(), Refusal> {
        let Some(directive) = Directive::of(&info.key) else {
            if info.key.is(PREPUT) {
                self.preput = infos(info)?;
                return Ok(());
            }
            return unknown(info);
        };
        let flag = info.truth().is_true();
        let setting = match directive.effect {
            Effect::Obeyed(setting) => setting,
            Effect::Given => return Ok(()),
            // A directive with the value `false` requests nothing.
            Effect::Refused if matches!(info.value, Value::Bool(false)) => return Ok(()),
            Effect::Refused => return Err(Refusal::unsupported(directive.name)),
        };
        match setting {
            Setting::Separate => self.is_separate = Some(flag),
            Setting::MapBy => self.map(text_of(info)?)?,
            Setting::RankBy => rank(text_of(info)?)?,
            Setting::BindTo => self.bind_to = Some(bind(text_of(info)?)?),
            Setting::CoresEach => self.cores_each = Some(number(info)?),
            Setting::Cpus => self.cpus = Some(cpus(text_of(info)?)?),
            Setting::TagsOutput => self.tags_output = Some(flag),
            Setting::OutputDir => self.output_dir = Some(own(text_of(info)?).into()),
            Setting::OutputFile => self.output_file = Some(own(text_of(info)?).into()),
            Setting::FilePattern => self.is_pattern = flag,
            Setting::FilesAlone => self.is_in_files_alone = Some(flag),
            Setting::Merged => self.is_merged = Some(flag),
            Setting::KeepGoing => self.keep_going = Some(flag),
            Setting::EndsByExitCode => self.ends_by_exit_code = Some(flag),
            Setting::ShowMap => self.display.map |= flag,
            Setting::ShowMapDetailed => self.display.detailed |= flag,
            Setting::ShowAllocation => self.display.allocation |= flag,
            Setting::ShowTopology => {
                here(info, host)?;
                self.display.topology = true;
            }
            Setting::ShowProcessors => {
                here(info, host)?;
                self.display.processors = true;
            }
            Setting::Parseable => self.display.is_parseable = flag,
            Setting::ShowProgress => self.shows_progress = flag,
            Setting::PrepareOnly => self.is_only_prepared = flag,
            Setting::ChildrenApart => self.reports_children_apart = flag,
            Setting::Restarts => {
                self.max_restarts = Some(u32::try_from(number(info)?).unwrap_or(u32::MAX));
            }
            Setting::Agent => self.form.agent = command(info)?,
            Setting::RankInArgv => self.form.has_rank = flag,
            Setting::ProcsPerPart => self.part(text_of(info)?)?,
            Setting::WithinProcessors => self.is_within_processors = flag,
            Setting::Beside => self.beside = procs(info)?,
            Setting::BesideEach => self.num_beside = Some(number(info)?),
            Setting::BesideOnNode => self.num_beside_node = Some(number(info)?),
            Setting::DetailedTags => self.has_detailed_tags = flag,
            Setting::Input => match reader(info)? {
                // A rank that `PMIX_STDIN_TGT` named has precedence.
                Some(rank) => {
                    self.reader.get_or_insert(rank);
                }
                None => self.reader = None,
            },
            Setting::Reader => self.reader = reader(info)?,
            Setting::Options => self.options(text_of(info)?)?,
            Setting::JobLimit => shorten(&mut self.timeout, number(info)?),
            Setting::SpawnLimit => shorten(&mut self.spawn_timeout, number(info)?),
            Setting::Host => self.hosts.take(text_of(info)?.as_bytes(), false)?,
            Setting::AddHost => self.hosts.take(text_of(info)?.as_bytes(), true)?,
            Setting::Hostfile => self.hosts.take_file(own(text_of(info)?).into(), false),
            Setting::AddHostfile => self.hosts.take_file(own(text_of(info)?).into(), true),
            Setting::Wdir => self.wdir = Some(directory(text_of(info)?)?),
            Setting::Variable => self.exports.extend(envar(info)?),
            Setting::ForLauncher => self.for_launcher = Some(infos(info)?),
            Setting::Tool => self.is_tool = flag,
            Setting::Debug(directive) => {
                { self.debug.take(directive, info, None) }.map_err(Refusal::bad)?
            }
            Setting::Forwarded => self.needs_forwarding |= flag && info.is_required(),
        }
        Ok(())
    }

    /// Returns `true` if the time limit for starting a job that was requested at `asked` has passed.
    pub(crate) fn is_late(&self, asked: Instant, now: Instant) -> bool {
        let limit = self.spawn_timeout;
        limit.is_some_and(|limit| now.saturating_duration_since(asked) >= limit)
    }

    /// Parses a mapping such as `core:PE=2:OVERSUBSCRIBE`.
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
                // On one node, oversubscription is allowed by default.
                (_, None) if word == "oversubscribe" => self.oversubscribes = true,
                (_, None) if matches!(word, "inherit" | "noinherit") => {}
                (_, None) if word == "nooversubscribe" => self.is_within_processors = true,
                _ => return Err(unknown(word)),
            }
        }
        Ok(())
    }

    /// Parses the number of processes for each part of the node, such as `2:package`.
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
                "oversubscribe" => self.oversubscribes = true,
                "nooversubscribe" => self.is_within_processors = true,
                _ => return Err(unknown()),
            }
        }
        Ok(())
    }

    /// Returns the changes to the environment of all applications, as a list that they share.
    fn exports_of_all(&mut self) -> Option<Export> {
        if self.exports.is_empty() {
            return None;
        }
        let exports = &self.exports;
        let shared = self.shared.get_or_insert_with(|| exports.as_slice().into());
        Some(Export::All(Arc::clone(shared)))
    }

    /// Reads an application. Directives of the job among its infos apply to the job.
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
        let mut hosts = NamedHosts::default();
        let mut exports: Vec<_> = asked.env.iter().filter_map(variable).collect();
        exports.extend(self.exports_of_all());
        for info in &asked.info {
            match Directive::of(&info.key).map(|directive| directive.effect) {
                Some(Effect::Obeyed(Setting::Wdir)) => wdir = Some(directory(text_of(info)?)?),
                Some(Effect::Obeyed(Setting::Variable)) => exports.extend(envar(info)?),
                Some(Effect::Obeyed(Setting::Host)) => {
                    hosts.take(text_of(info)?.as_bytes(), false)?;
                }
                Some(Effect::Obeyed(Setting::Hostfile)) => {
                    hosts.take_file(own(text_of(info)?).into(), false);
                }
                Some(Effect::Obeyed(Setting::Debug(directive))) => {
                    let taken = self.debug.take(directive, info, Some(self.apps.len()));
                    taken.map_err(Refusal::bad)?;
                }
                _ => self.take(info, host)?,
            }
        }
        self.app_hosts.push(hosts);
        Ok(App {
            program,
            args: asked.argv.iter().skip(1).map(own).collect(),
            num_procs,
            wdir,
            exports,
        })
    }
}

/// The words of `PMIX_RUNTIME_OPTIONS`, as in `prterun --runtime-options`. Each is equivalent to a directive.
impl Request {
    /// Parses options such as `error-nonzero-status=false,max-restarts=2`, in upper or lower case.
    fn options(&mut self, text: &Text<'_>) -> Result<(), Refusal> {
        let text = text.to_str_lossy();
        let options = text.split(',').map(str::trim);
        for option in options.filter(|option| !option.is_empty()) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.trim())),
                None => (option, None),
            };
            if !self.option(&name.trim().to_ascii_lowercase(), value) {
                let what = format!("PMIX_RUNTIME_OPTIONS {option:?}");
                return Err(Refusal::unsupported(what));
            }
        }
        Ok(())
    }

    /// Parses one option. Returns `true` if it is supported.
    fn option(&mut self, name: &str, value: Option<&str>) -> bool {
        match (name, flag(value), value) {
            ("error-nonzero-status", Some(flag), _) => self.ends_by_exit_code = Some(flag),
            ("recoverable" | "continuous", Some(flag), _) => self.keep_going = Some(flag),
            ("donotlaunch", Some(flag), _) => self.is_only_prepared = flag,
            ("show-progress", Some(flag), _) => self.shows_progress = flag,
            ("report-child-jobs-separately", Some(flag), _) => self.reports_children_apart = flag,
            // These request the default behavior.
            ("aggregate-help" | "aggregate-help-messages", Some(true), _)
            | ("notifyerrors" | "fwd-environment", Some(true), _) => {}
            ("max-restarts", _, Some(number)) => match number.parse() {
                Ok(number) => self.max_restarts = Some(number),
                Err(_) => return false,
            },
            ("exec-agent", _, Some(agent)) if !agent.trim().is_empty() => {
                self.form.agent = agent.split_whitespace().map(OsString::from).collect();
            }
            _ => return false,
        }
        true
    }
}

/// Parses a flag; an option without a value is `true`.
fn flag(value: Option<&str>) -> Option<bool> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("true" | "yes" | "t" | "y" | "1") => Some(true),
        Some("false" | "no" | "f" | "n" | "0") => Some(false),
        Some(_) => None,
    }
}

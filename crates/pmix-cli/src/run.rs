// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run`: starts a job on this node.

mod allocation;
mod exports;
pub(crate) mod habits;
mod initiator;
pub(crate) mod launcher_mca;
pub(crate) mod mca;
mod nodes;
mod own;
mod page;
mod placement;
mod report;
mod several;
mod variables;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use pmix_launch::{
    App, Cause, DebugStops, Diagnosis, Ending, Export, FilePattern, Layout, Outcome, Output,
    OutputFiles, OutputForm, Part, Plan, PseudoTerminals, RankOutcome, Standard,
};
use pmix_mca::Environment;
use pmix_server::WireObserver;
use pmix_types::Rank;
use preg_core::Status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::args::{AppArgs, Cli, NextApp, Report, Run};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::get::host_name;
use crate::input::read_job;
use crate::wire::Trace;
use exports::export;
use habits::{WHOLE, elsewhere, has_option, with_two_dashes};
use initiator::Initiator;
use nodes::{Here, ThisNode};
pub(crate) use own::{WATCHER, WRAPPER, exec_wrapped, watch, watcher, wrapper};

/// The name of this command.
pub(crate) const NAME: &str = "run";

/// The beginning of each message, so that a log tells who wrote it.
const PREFIX: &str = "pmix run:";

/// The time after which the launcher reports a collective that waits for ranks.
const NOTICE_AFTER: Duration = Duration::from_secs(30);

/// Returns the words of a command line in the form for the argument parser.
pub(crate) fn words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let words: Vec<_> = words.collect();
    let mut named = words.iter().skip_while(|word| *word != NAME);
    if !named.any(|word| habits::has_one_dash(word) || habits::is_export(word)) {
        return words;
    }
    let mut cli = Cli::command();
    cli.build();
    match (place(&cli, &words), cli.find_subcommand(NAME)) {
        (Some(at), Some(command)) => {
            let (head, tail) = words.split_at(at + 1);
            [head, &habits::with_two_dashes(command, tail.to_vec())].concat()
        }
        _ => words,
    }
}

/// Returns the position of `run` in a command line, if it is the command.
fn place(cli: &clap::Command, words: &[OsString]) -> Option<usize> {
    habits::command_at(cli, words).filter(|&at| words.get(at).is_some_and(|word| word == NAME))
}

/// Returns `true` if `run` is the command of a command line.
pub(crate) fn is_named(cli: &clap::Command, words: &[OsString]) -> bool {
    place(cli, words).is_some()
}

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: Run, mca: &[String]) -> Result<Exit, Failure> {
    crate::trace::speak_as(PREFIX);
    let report = args.report.clone();
    let trace = args.trace.clone();
    if let Err(e) = crate::trace::never_wait() {
        tracing::debug!("cannot make standard error nonblocking: {e}");
    }
    let mut plan = plan(context, args, mca)?;
    let mut initiator = Initiator::of(&Environment::of_process())?;
    if let Some(initiator) = &initiator {
        plan = initiator.direct(plan)?;
    }
    let trace = trace.map(|path| observe(context, &path)).transpose()?;
    let page = match &report {
        // A file that cannot be written is an error before the job, not after it.
        Some(Report::Html(path)) => Some(page::Page::create(path.as_deref(), &plan.nspace)?),
        _ => None,
    };
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let standard = Standard {
        input: input.as_fd(),
        output: output.as_fd(),
        errors: errors.as_fd(),
    };
    let wait = initiator.as_mut().and_then(Initiator::wait);
    let outcome = pmix_launch::launch_for_tool(&plan, standard, trace, wait);
    // Finalizes before any error is returned, so that the server that started this launcher does
    // not treat its exit as a failure.
    drop(initiator);
    let outcome = outcome.map_err(|error| match error.exit_code() {
        NOT_FOUND | NOT_EXECUTABLE => habits::misread(refused(error), &plan.apps),
        _ if error.status() == Status::ERR_JOB_FAILED_TO_MAP => placement::advise(refused(error)),
        _ => refused(error),
    })?;
    if report == Some(Report::Text) {
        crate::trace::say(report::table(&outcome).into_bytes());
    }
    if let Some(page) = page {
        page.write(&plan, &outcome);
    }
    if context.json {
        context.out.json(&report::summary(&plan, &outcome))?;
    }
    ending(&outcome, plan.keep_going, context.json)
}

/// Returns the exit code of the job, and its message.
fn ending(outcome: &Outcome, keeps_going: bool, answered: bool) -> Result<Exit, Failure> {
    let Some(cause) = &outcome.cause else {
        return Ok(Exit::Ok);
    };
    let exit = Exit::Job(outcome.exit_code());
    let mut message = outcome.message().unwrap_or_else(|| cause.to_string());
    if keeps_going && let Cause::Failed { rank, .. } = cause {
        message.push_str(&others(&outcome.ranks, *rank));
    }
    let failure = Failure::new(exit, Status::ERR_JOB_TERM_WO_SYNC, message);
    Err(match () {
        // Exits quietly, like any program whose output pipe was closed.
        () if is_of_pipe(cause) && is_closed(&std::io::stdout()) => failure.unread(),
        () if answered => failure.answered(),
        () => failure,
    })
}

/// The exit code if a program does not exist.
const NOT_FOUND: u8 = 127;
/// The exit code for a program that cannot be executed.
const NOT_EXECUTABLE: u8 = 126;

/// The maximum number of failed ranks that a message names after the first one.
const NAMED: usize = 8;

/// Returns the end of a message with the other failed ranks, for a job that continued after a
/// failure (`--keep-going`).
fn others(ranks: &[RankOutcome], first: Rank) -> String {
    let failed = ranks
        .iter()
        .filter(|other| other.rank != first && !other.ending.is_success());
    let have_exited = { ranks.iter() }
        .filter(|rank| !rank.ending.is_success())
        .all(|rank| matches!(rank.ending, Ending::Exited(_)));
    let named = failed.clone().take(NAMED).map(|other| match have_exited {
        // The sentence began with "rank N ended".
        true => format!(", rank {} with {}", other.rank, other.ending),
        false => format!(", rank {} {}", other.rank, other.ending.to_predicate()),
    });
    let mut text: String = named.collect();
    if let Some(more @ 1..) = failed.count().checked_sub(NAMED) {
        text.push_str(&format!(", and {more} more ranks failed"));
    }
    text
}

/// Returns `true` if the job failed because SIGPIPE terminated a process.
fn is_of_pipe(cause: &Cause) -> bool {
    let pipe = Signal::PIPE.as_raw();
    matches!(cause, Cause::Failed { ending: Ending::Signalled { signal, .. }, .. } if *signal == pipe)
}

/// Returns `true` if a stream is a pipe without a reader.
fn is_closed(stream: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let asked = poll(&mut polled, Some(&now)).is_ok();
    asked
        && polled
            .iter()
            .any(|polled| polled.revents().contains(PollFlags::ERR))
}

fn observe(context: &Context, path: &Path) -> Result<Box<dyn WireObserver>, Failure> {
    let trace = Trace::create(path, Arc::clone(&context.preg));
    let trace =
        trace.map_err(|e| Failure::usage(format!("cannot write {}: {e}", path.display())))?;
    Ok(Box::new(trace))
}

pub(crate) fn refused(error: pmix_launch::Error) -> Failure {
    Failure::new(
        Exit::Job(error.exit_code()),
        error.status(),
        error.to_string(),
    )
}

fn plan(context: &Context, mut args: Run, mca: &[String]) -> Result<Plan, Failure> {
    let environment = Environment::of_process();
    let default = launcher_mca::apply(&mut args, mca, &environment.vars)?;
    let default = default.filter(|_| !variables::have_allocation(&environment.vars));
    let system = host_name().unwrap_or_else(|| "localhost".to_owned());
    // The names of this node: those of the system and of Slurm, and the one from the command line.
    let of_slurm = environment.first_of(&["SLURMD_NODENAME"]);
    let of_slurm = of_slurm.map(|name| name.to_string_lossy().into_owned());
    let names = [Some(system.clone()), args.node_name.clone(), of_slurm];
    let here = Here {
        node: ThisNode::new(names.into_iter().flatten().collect()),
        limits: context.limits(),
        is_part: args.nodes.is_some(),
        default,
        of_default: OnceCell::new(),
    };
    let host = args.node_name.clone().unwrap_or(system);
    let several = here.several(&args.app, &host)?;
    let of_hosts = match &several {
        Some(nodes) => Some(nodes.num_procs(&args)?),
        None => here.slots(&args.app)?,
    };
    let has_hosts = of_hosts.is_some() || here.is_part;
    let is_open = args.app.num_procs.is_none();
    let allocated = match has_hosts {
        true => None,
        false => allocation::slots(&environment.vars, &here.node, here.limits, is_open)?,
    };
    let maps = match &args.nodes {
        Some(nodes) => Some(larger_job(context, &host, nodes, &args)?),
        None if args.layout.is_asked() => {
            let message = "--ppn and --layout require --nodes";
            return Err(Failure::usage(message).cure("use -n N to start N processes on this node"));
        }
        None => None,
    };
    let policy = placement::policy(&args, &environment.vars);
    let diagnosis = Diagnosis {
        notice_after: (!args.quiet).then_some(NOTICE_AFTER),
        stacks: args.stacks,
        measures: args.report.is_some() || context.json,
        fences: matches!(args.report, Some(Report::Html(_))),
    };
    let announce = args.report == Some(Report::Text)
        || args.report_bindings
        || !args.habits.display.is_empty();
    let output = output(&mut args)?;
    let placed = maps.as_ref().map(Layout::num_procs);
    let has_ppr = args
        .map_by
        .is_some_and(|map_by| map_by.procs_each.is_some());
    let placed = match args.app.num_procs {
        None if (several.is_some() || !has_ppr) && of_hosts.is_some() => {
            placed.or_else(|| of_hosts.map(u64::from))
        }
        None => placed.or_else(|| {
            let slots = allocated.or_else(|| here.default_slots());
            placement::num_procs(&args, &environment.vars, slots)
        }),
        Some(_) => placed,
    };
    let division = several::division(&args);
    let of_limit = of_hosts.or(allocated).or_else(|| here.default_slots());
    let most = placement::most_procs(&args, &environment.vars, of_limit);
    let apps = read(args.app, placed, of_hosts, &mca::exports(mca), &here)?;
    let num_procs = apps
        .iter()
        .try_fold(0u32, |sum, app| sum.checked_add(app.num_procs));
    let num_procs = num_procs
        .ok_or_else(|| Failure::usage("the number of processes exceeds the largest rank"))?;
    placement::check_slots(num_procs, most)?;
    let (layout, part) = match (maps, several) {
        (Some(layout), _) => (layout, Part::Alone),
        (None, Some(nodes)) => {
            let layout = nodes.layout(&host, num_procs, division, context.limits())?;
            // Also if the processes fill the slots of this node: spawned jobs may need the others.
            let agents = several::agents(&args.several, nodes.into_slots(), division)?;
            (layout, Part::Controller(agents))
        }
        (None, None) => {
            let layout = Layout::on_one_node(host.as_bytes(), num_procs).map_err(refused)?;
            (layout, Part::Alone)
        }
    };
    // A debugger with MPIR attaches before the processes start their program, unless they stop
    // later.
    let mpir = pmix_launch::is_being_debugged() && !args.stop_in_init && !args.stop_in_app;
    let stops = DebugStops {
        on_exec: all_if(args.stop_on_exec || mpir, &layout),
        in_init: all_if(args.stop_in_init, &layout),
        in_app: all_if(args.stop_in_app, &layout),
    };
    let nspace = args.nspace;
    Ok(Plan {
        // Programs build keys from the nspace, and a key that begins with "pmix" is reserved.
        nspace: nspace.unwrap_or_else(|| format!("run-{host}-{}@1", std::process::id())),
        apps,
        layout,
        part,
        policy,
        preg: Arc::clone(&context.preg),
        params: context.params.clone(),
        system_server: (args.system_server).then(|| system_dir(&environment.vars)),
        tmpdir: existing(&environment.vars)?,
        syslog: "/dev/log".into(),
        timeout: args.timeout.or_else(|| limit_of(&environment)),
        environment: environment.vars.into(),
        output,
        grace: args.grace,
        keep_going: args.keep_going,
        adopt: true,
        forward_io: args.forward_io,
        max_spawned: args.max_spawned,
        max_spawn_depth: args.max_spawn_depth,
        max_restarts: args.max_restarts,
        watcher: Some(watcher()),
        wrapper: Some(wrapper()),
        cpus: args.cpu_set,
        compat_env: !args.no_compat_env,
        client_library: Some(client_library()),
        interfaces: args.pmi.0,
        stdin_rank: args.stdin.0.map(Rank::new),
        announce,
        diagnosis,
        process_sets: args.process_sets,
        stops,
    })
}

/// Returns the path of the `libpmix.so.2` that was installed with this command by `cargo xtask dist` or a
/// Debian package. Without one, returns its name, for which the loader searches.
fn client_library() -> OsString {
    let command = std::env::current_exe().ok();
    let prefix = command.as_deref().and_then(|exe| exe.parent()?.parent());
    // In a Debian package, the library is in `lib/pmix-rs/lib`, because `lib` has that of the
    // system.
    let places = ["lib/pmix-rs/lib", "lib"].iter();
    let mut installed = places.filter_map(|dir| Some(prefix?.join(dir).join("libpmix.so.2")));
    match installed.find(|path| path.exists()) {
        Some(path) => path.into(),
        None => "libpmix.so.2".into(),
    }
}

/// Returns all ranks of this node if `is_asked`, otherwise none.
fn all_if(is_asked: bool, layout: &Layout) -> BTreeSet<Rank> {
    match is_asked {
        true => layout.here().iter().copied().collect(),
        false => BTreeSet::new(),
    }
}

/// Returns the handling of output. Separate files for each process do not need tags or whole lines,
/// so these options imply a copy to the launcher's streams.
fn output(args: &mut Run) -> Result<Output, Failure> {
    let form = match args {
        _ if args.tag_output => OutputForm::Tagged,
        _ if args.whole_lines => OutputForm::Lines,
        _ if args.no_whole_lines => OutputForm::Plain,
        _ => OutputForm::Unmixed,
    };
    let name = match &args.output_name {
        Some(name) => FilePattern::parse(name).map_err(refused)?,
        None => FilePattern::default(),
    };
    Ok(Output {
        form,
        is_merged: args.merge_output,
        pseudo_terminals: match (args.pty, args.no_pty) {
            (true, _) => PseudoTerminals::All,
            (_, true) => PseudoTerminals::None,
            _ => PseudoTerminals::Inherited,
        },
        files: args.output_dir.take().map(|dir| OutputFiles {
            dir,
            name,
            is_copied: args.copy_output || matches!(form, OutputForm::Tagged | OutputForm::Lines),
        }),
    })
}

fn larger_job(context: &Context, host: &str, nodes: &OsStr, args: &Run) -> Result<Layout, Failure> {
    if nodes.is_empty() {
        let failure = Failure::usage("--nodes is empty: it names the nodes of a larger job");
        return Err(failure.cure("use -n N for the number of processes on this node"));
    }
    if args.procs.is_none()
        && nodes
            .to_string_lossy()
            .bytes()
            .all(|byte| byte.is_ascii_digit())
    {
        let message = format!(
            "--nodes {} is a number, as for srun, but --nodes names the nodes of a larger job here",
            nodes.display()
        );
        return Err(
            Failure::usage(message).cure("use -n N for the number of processes on this node")
        );
    }
    let (nodes, procs) = read_job(&context.preg, nodes, args.procs.as_deref(), &args.layout)?;
    Layout::of_maps(host.as_bytes(), nodes, procs).map_err(|error| {
        refused(error)
            .cure("use --node-name for the name of this node in the maps; `pmix map verify` checks the maps")
    })
}

/// Returns the directory for the session.
///
/// # Errors
/// TMPDIR names something else than a directory. Another directory is not used, because tools search in this one.
fn existing(vars: &[(OsString, OsString)]) -> Result<PathBuf, Failure> {
    let dir = tmpdir(vars);
    let fault = match std::fs::metadata(&dir) {
        Ok(about) if about.is_dir() => return Ok(dir),
        Ok(_) => "is not a directory".to_owned(),
        Err(error) => format!("cannot be used: {error}"),
    };
    let (shown, named) = (dir.display(), named_dir(vars, "TMPDIR").is_some());
    let variable = if named {
        "TMPDIR names"
    } else {
        "TMPDIR is not set, and"
    };
    let message = match named {
        true => format!("{variable} {shown}, which {fault}"),
        false => format!("{variable} {shown} {fault}"),
    };
    Err(Failure::usage(message).cure(
        "create the directory, or set TMPDIR to an existing one, for example `TMPDIR=/tmp pmix run`",
    ))
}

/// Returns the time limit in MPIEXEC_TIMEOUT, which mpirun and mpiexec obey.
fn limit_of(environment: &Environment) -> Option<Duration> {
    let value = environment.first_of(&["MPIEXEC_TIMEOUT"])?;
    let seconds = value
        .to_str()
        .and_then(|text| text.trim().parse::<f64>().ok());
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let limit = limit.filter(|limit| !limit.is_zero());
    if limit.is_none() {
        tracing::warn!(
            "MPIEXEC_TIMEOUT={} is not used: expected a number of seconds above 0",
            value.display()
        );
    }
    limit
}

fn tmpdir(vars: &[(OsString, OsString)]) -> PathBuf {
    named_dir(vars, "TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Returns the directory in which tools search for the system server.
fn system_dir(vars: &[(OsString, OsString)]) -> PathBuf {
    named_dir(vars, "PMIX_SYSTEM_TMPDIR").unwrap_or_else(|| tmpdir(vars))
}

fn named_dir(vars: &[(OsString, OsString)], variable: &str) -> Option<PathBuf> {
    let mut named = vars.iter().filter(|(name, _)| name == variable);
    let found = named.find(|(_, dir)| !dir.is_empty());
    found.map(|(_, dir)| PathBuf::from(dir))
}

/// Reads the applications for this node. All their processes get these variables.
/// With maps, a single application without `-n` has all processes of the maps. `of_hosts` is the number of slots that
/// the options of the first application give.
fn read(
    mut first: AppArgs,
    placed: Option<u64>,
    of_hosts: Option<u32>,
    all: &[Export],
    here: &Here<'_>,
) -> Result<Vec<App>, Failure> {
    let words = std::mem::take(&mut first.command);
    let mut parts = words.split(|word| word == ":");
    first.command = parts.next().unwrap_or_default().to_vec();
    let rest: Vec<&[OsString]> = parts.collect();
    if first.num_procs.is_none() && rest.is_empty() {
        let placed = placed.map(u32::try_from).transpose();
        first.num_procs = placed
            .map_err(|_| Failure::usage("the number of processes exceeds the largest rank"))?;
    }
    if first.num_procs.is_none() && !rest.is_empty() {
        first.num_procs = of_hosts.or_else(|| here.default_slots());
    }
    let mut apps = vec![app(first, all)?];
    if rest.is_empty() {
        return Ok(apps);
    }
    let mut cli = Cli::command();
    cli.build();
    let whole = cli
        .find_subcommand(NAME)
        .expect("this command is part of the program's arguments");
    for words in rest {
        let words = with_two_dashes(whole, words.to_vec());
        let mut next = NextApp::try_parse_from(words).map_err(|error| misuse(&error, whole))?;
        let of_hosts = here.slots(&next.app)?;
        let own = next.app.num_procs.or(of_hosts);
        next.app.num_procs = own.or_else(|| here.default_slots());
        let own = mca::exports_of_app(&next.mca)?;
        apps.push(app(next.app, &[all, &own].concat())?);
    }
    Ok(apps)
}

fn app(args: AppArgs, all: &[Export]) -> Result<App, Failure> {
    let mut words = args.command.into_iter();
    let Some(program) = words.next() else {
        let failure = Failure::usage("an application has no program");
        return Err(failure.cure("name a program on each side of `:`, as in -n 2 ./a : -n 4 ./b"));
    };
    let mut exports = all.to_vec();
    for pair in args.genv.chunks_exact(2) {
        exports.push(Export::set(&pair[0], &pair[1]));
    }
    for word in &args.exports {
        exports.extend(export(word)?);
    }
    Ok(App {
        program: own(program),
        args: words.collect(),
        num_procs: args.num_procs.unwrap_or(1),
        wdir: args.wdir,
        exports,
    })
}

/// Returns the program to run. `pmix` means this command, even if it is not in `PATH`.
fn own(program: OsString) -> OsString {
    if program != "pmix" {
        return program;
    }
    std::env::current_exe().map_or(program, PathBuf::into_os_string)
}

/// Converts an error of clap about the words after a `:`, without its usage. Adds the replacement for an
/// option of the whole job or of another launcher.
fn misuse(error: &clap::Error, whole: &clap::Command) -> Failure {
    let text = error.to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" ");
    let mut text = text;
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && let Some(typed) = habits::typed(option)
    {
        text = text.replace(option, &typed);
    }
    let failure = Failure::usage(format!("after `:`: {}", text.trim_start_matches("error: ")));
    let cure = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => {
            let typed = habits::typed(option);
            elsewhere(typed.as_deref().unwrap_or(option))
                .or_else(|| has_option(whole, option).then_some(WHOLE))
        }
        _ => None,
    };
    failure.cure(cure.unwrap_or(
        "expected after `:`: [-n N] [-x VAR[=VALUE]] [--wdir DIR] [--mca NAME VALUE] PROGRAM [ARG]...",
    ))
}

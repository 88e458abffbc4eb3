// SPDX-License-Identifier: MIT OR Apache-2.0
//! C tools that connect to servers in this process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use pmix_server::upcall::{NotifyEvent, SessionControl};
use pmix_server::{Completion, Host, HostObject, NoHost, Server};
use pmix_types::{BREAKPOINT_IN_INIT, DataRange, Info, Proc, Rank, Status, keys};
use tempfile::TempDir;

use crate::build::{must, run};
use crate::programs::{each, user_of};

/// Starts a server that accepts tools, with a job of one process.
fn server(name: &'static str, top: &Path) -> Server {
    server_of(NoHost, name, 1, top)
}

/// Starts a server that accepts tools, with a job of `num_procs` processes and its files in `top`.
pub(crate) fn server_of(
    host: impl Host + 'static,
    name: &'static str,
    num_procs: u32,
    top: &Path,
) -> Server {
    offered(host, name, num_procs, top, false)
}

/// Starts a server like [`server_of`], which may be the system server.
fn offered(
    host: impl Host + 'static,
    name: &'static str,
    num_procs: u32,
    top: &Path,
    is_of_system: bool,
) -> Server {
    let server = Server::builder()
        .host(host)
        .system_support(is_of_system)
        .nspace(name)
        .server_tmpdir(top)
        .system_tmpdir(top)
        .tool_support(true)
        .build()
        .expect("a server");
    server.start().expect("the server starts");
    let infos = [
        Info::new(keys::NODE_MAP, "n01"),
        Info::new(keys::PROC_MAP, format!("0-{}", num_procs - 1)),
    ];
    let job = format!("{name}.job");
    let made = server.register_nspace(&job.into(), num_procs, &infos);
    made.expect("a job");
    server
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns a program as a tool that no launcher started.
fn tool(program: &Path, library: &Path, what: &str) -> Command {
    let mut command = Command::new(program);
    command
        .arg(what)
        .env_clear()
        .env("LD_LIBRARY_PATH", library);
    command
}

#[test]
fn a_tool_initializes_without_a_server() {
    each("tool.c", |program, library| {
        let empty = folder();
        let said = must(tool(program, library, "alone").arg(empty.path()));
        assert_eq!(said, "alone: ok\n");
    });
}

#[test]
fn a_tool_has_several_servers_and_asks_the_primary_one() {
    each("tool.c", |program, library| {
        let (first, second) = (folder(), folder());
        let (one, two) = (server("one", first.path()), server("two", second.path()));
        let said = must(tool(program, library, "two").args([first.path(), second.path()]));
        assert_eq!(said, "two: ok\n");
        // Two servers of a session, without a choice between them.
        let below = first.path().join("below");
        std::fs::create_dir(&below).expect("a folder");
        let three = server("three", &below);
        let said = must(tool(program, library, "several").arg(first.path()));
        assert_eq!(said, "several: ok\n");
        for server in [one, two, three] {
            server.finalize().expect("the server ends");
        }
    });
}

#[test]
fn a_tool_finds_its_server_by_every_attribute() {
    each("tool.c", |program, library| {
        let (first, second) = (folder(), folder());
        let one = offered(NoHost, "one", 1, first.path(), true);
        let two = server("two", second.path());
        let mut command = tool(program, library, "ways");
        command.args([first.path(), second.path()]).arg(one.uri());
        assert_eq!(must(&mut command), "ways: ok\n");
        for server in [one, two] {
            server.finalize().expect("the server ends");
        }
    });
}

/// The host of a scheduler or a system controller, which accepts control of session 7.
struct Controls;

impl Host for Controls {
    fn session_control(&self, call: SessionControl, done: Completion<Vec<Info<'static>>>) {
        match call.session {
            7 => done.succeed(Vec::new()),
            _ => done.fail(Status::ERR_NOT_FOUND),
        }
    }
}

#[test]
fn a_tool_and_a_runtime_environment_reach_the_scheduler_and_it_is_the_only_one() {
    each("scheduler.c", |program, library| {
        let top = folder();
        let builder = |name: &'static str| {
            let builder = Server::builder().host(Controls).nspace(name);
            builder.server_tmpdir(top.path()).system_tmpdir(top.path())
        };
        let scheduler = builder("scheduler")
            .scheduler(true)
            .build()
            .expect("a server");
        let controller = builder("controller")
            .controller(true)
            .build()
            .expect("a server");
        for server in [&scheduler, &controller] {
            server.start().expect("the server starts");
        }
        for what in ["tool", "controlled", "rte", "second"] {
            let said = must(tool(program, library, what).arg(top.path()));
            assert_eq!(said, format!("{what}: ok\n"));
        }
        for server in [scheduler, controller] {
            server.finalize().expect("the server ends");
        }
    });
}

#[test]
fn a_tool_that_launches_listens_with_its_module() {
    each("tool_serves.c", |program, library| {
        let top = folder();
        let server = server("one", top.path());
        let file = top.path().join("launcher");
        let said = must(tool(program, library, "serves").args([top.path(), &file]));
        assert_eq!(said, "serves: ok\n");
        server.finalize().expect("the server ends");
    });
}

#[test]
fn queries_of_a_tool_are_answered_by_its_library_and_its_server() {
    each("tool_asks.c", |program, library| {
        let top = folder();
        let server = server("one", top.path());
        let infos = [
            Info::new(keys::NODE_MAP, "n01,n02"),
            Info::new(keys::PROC_MAP, "0,1;2"),
        ];
        let job = "one.job".into();
        server.deregister_nspace(&job).expect("the job goes");
        let made = server.register_nspace(&job, 2, &infos);
        made.expect("a job");
        let mut command = tool(program, library, "queries");
        // The directory where the library searches for servers.
        command.env("TMPDIR", top.path()).arg(top.path());
        assert_eq!(must(&mut command), "queries: ok\n");
        server.finalize().expect("the server ends");
    });
}

#[test]
fn a_tool_resolves_the_processes_of_its_own_node_without_naming_it() {
    each("tool_asks.c", |program, library| {
        let top = folder();
        let server = server("one", top.path());
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let infos = [
            Info::new(keys::NODE_MAP, format!("{},n02", host.trim())),
            Info::new(keys::PROC_MAP, "0,1;2"),
        ];
        let job = "one.job".into();
        server.deregister_nspace(&job).expect("the job goes");
        let made = server.register_nspace(&job, 2, &infos);
        made.expect("a job");
        let said = must(tool(program, library, "resolves").arg(top.path()));
        assert_eq!(said, "resolves: ok\n");
        server.finalize().expect("the server ends");
    });
}

#[test]
fn a_tool_that_loses_its_server_is_notified_and_uses_another() {
    each("tool.c", |program, library| {
        let (first, second) = (folder(), folder());
        let (one, two) = (server("one", first.path()), server("two", second.path()));
        let mut command = tool(program, library, "loses");
        command.args([first.path(), second.path()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the tool starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut line = || lines.next().expect("a line").expect("text");
        assert_eq!(line(), "end one");
        one.finalize().expect("the server ends");
        drop(one);
        assert_eq!(line(), "tell");
        let told = two.notify(Status::from_raw(-4), two.proc(), DataRange::LOCAL, &[]);
        told.expect("an event");
        assert_eq!(line(), "leave");
        let mut input = child.stdin.take().expect("its input");
        input.write_all(b"leave\n").expect("it reads");
        assert_eq!(line(), "loses: ok");
        assert!(child.wait().expect("it ends").success());
        two.finalize().expect("the server ends");
    });
}

#[test]
fn a_tool_that_a_server_started_is_the_process_that_it_started() {
    each("tool.c", |program, library| {
        let top = folder();
        let server = server("one", top.path());
        let proc = Proc::new("one.job", Rank::new(0));
        let registered = server.register_client(&proc, user_of(library), HostObject(0));
        registered.expect("a process");
        let environment = server.setup_fork(&proc).expect("an environment");
        let output = run(tool(program, library, "started").envs(environment));
        let said = String::from_utf8_lossy(&output.stdout);
        let fault = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "started: ok\n", "{fault}");
        server.finalize().expect("the server ends");
    });
}

/// A host that forwards the events of processes to the test.
struct Hears(mpsc::Sender<NotifyEvent>);

impl Host for Hears {
    fn notify_event(&self, call: NotifyEvent, done: Completion<()>) {
        self.0.send(call).expect("the test waits");
        done.succeed(());
    }
}

#[test]
fn a_tool_that_a_server_started_waits_in_init_for_a_debugger() {
    each("tool.c", |program, library| {
        let (sender, told) = mpsc::channel();
        let server = Server::builder().host(Hears(sender)).nspace("one");
        let server = server.build().expect("a server");
        server.start().expect("the server starts");
        let proc = Proc::new("one.job", Rank::new(0));
        let infos = [
            Info::new(keys::NODE_MAP, "n01"),
            Info::new(keys::PROC_MAP, "0"),
            Info::new(keys::DEBUG_STOP_IN_INIT, true),
        ];
        let made = server.register_nspace(&proc.nspace, 1, &infos);
        made.expect("a job");
        let registered = server.register_client(&proc, user_of(library), HostObject(0));
        registered.expect("a process");
        let environment = server.setup_fork(&proc).expect("an environment");
        let mut command = tool(program, library, "started");
        command.envs(environment);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let child = command.spawn().expect("the tool starts");
        let ready = told.recv_timeout(Duration::from_secs(60));
        let ready = ready.expect("the tool tells that it waits");
        assert_eq!(ready.status, Status::READY_FOR_DEBUG);
        assert_eq!(ready.source, proc);
        let point = ready
            .infos
            .iter()
            .find(|info| info.key.is(keys::BREAKPOINT));
        assert_eq!(
            point.map(|info| &info.value),
            Some(&BREAKPOINT_IN_INIT.into())
        );
        let infos = [
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_CUSTOM_RANGE, vec![proc]),
        ];
        let released = server.notify(
            Status::DEBUGGER_RELEASE,
            server.proc(),
            DataRange::CUSTOM,
            &infos,
        );
        released.expect("an event");
        let output = child.wait_with_output().expect("the tool ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "started: ok\n");
        server.finalize().expect("the server ends");
    });
}

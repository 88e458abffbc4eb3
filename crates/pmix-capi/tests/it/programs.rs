// SPDX-License-Identifier: MIT OR Apache-2.0
//! C programs, linked with the shared library; some also with the static one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pmix_server::{Credentials, HostObject, Server};
use pmix_topology::Topology;
use pmix_types::{Info, Proc, Rank, keys};

use crate::build::{Linked, cc, ended, is_under_tool, library, must, root};

/// Compiles a program with the headers and a library.
pub(crate) fn program(name: &str, folder: &Path, linked: Linked) -> PathBuf {
    let strict = [
        "-std=c11",
        "-D_DEFAULT_SOURCE",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
    ];
    cc(
        &root().join("tests/capi").join(name),
        folder,
        &strict,
        linked,
    )
}

/// The programs that are also linked with the static library: utilities, a client, a host, a tool with threads, and a
/// process without a launcher. Both libraries have the same functions, and linking 200 MB takes 6 s of processor time.
const ALSO_STATIC: &[&str] = &[
    "client.c",
    "host.c",
    "singleton.c",
    "threads.c",
    "tool_serves.c",
    "util.c",
];

/// Runs a check with a program linked with the shared library, and again with the static library if the program is in
/// [`ALSO_STATIC`].
pub(crate) fn each(name: &str, check: impl Fn(&Path, &Path)) {
    each_with(name, |_| {}, check);
}

/// Runs [`each`], with files in the directory that the program includes.
pub(crate) fn each_with(name: &str, write: impl Fn(&Path), check: impl Fn(&Path, &Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    for linked in [Linked::Shared, Linked::Statically] {
        // A tool provides only the shared library.
        let is_static_wanted = ALSO_STATIC.contains(&name) && !is_under_tool();
        if linked == Linked::Shared || is_static_wanted {
            check(&program(name, folder.path(), linked), folder.path());
        }
    }
}

#[test]
fn data_are_made_and_taken_apart() {
    each("util.c", |program, folder| {
        let mut command = Command::new(program);
        must(
            command
                .env("LD_LIBRARY_PATH", folder)
                .env_remove("PMIX_NAMESPACE"),
        );
    });
}

#[test]
fn a_host_may_prepare_a_process_in_the_child_of_a_fork() {
    each("forked.c", |program, folder| {
        must(Command::new(program).env("LD_LIBRARY_PATH", folder));
    });
}

#[test]
fn a_child_of_a_fork_waits_for_no_lock_of_its_parent() {
    // The thread sanitizer does not let the child of a process with several threads start another process.
    if is_under_tool() {
        return;
    }
    each("children.c", |program, folder| {
        let said = must(Command::new(program).env("LD_LIBRARY_PATH", folder));
        assert_eq!(said, "children: ok\n");
    });
}

#[test]
fn a_host_may_answer_under_a_lock_that_its_release_takes() {
    each("host.c", |program, folder| {
        must(Command::new(program).env("LD_LIBRARY_PATH", folder));
    });
}

#[test]
fn a_host_registers_resources_exchanges_inventories_and_has_input_wait() {
    each("resources.c", |program, folder| {
        let said = must(Command::new(program).env("LD_LIBRARY_PATH", folder));
        assert_eq!(said, "resources: ok\n");
    });
}

#[test]
fn a_host_registers_a_session_that_its_client_reads() {
    each("sessions.c", |program, folder| {
        let said = must(Command::new(program).env("LD_LIBRARY_PATH", folder));
        assert_eq!(said, "sessions: ok\n");
    });
}

#[test]
fn the_library_watches_files_where_the_host_does_not() {
    each("monitored.c", |program, folder| {
        let said = must(Command::new(program).env("LD_LIBRARY_PATH", folder));
        assert_eq!(said, "monitored: ok\n");
    });
}

#[test]
fn an_encoded_map_is_one_pointer_in_every_function_and_read_whole() {
    each("maps.c", |program, folder| {
        let said = must(Command::new(program).env("LD_LIBRARY_PATH", folder));
        assert_eq!(said, "maps: ok\n");
    });
}

#[test]
fn the_process_of_a_server_reads_for_itself_and_its_host_serves_it() {
    each("own.c", |program, folder| {
        let said = must(
            Command::new(program)
                .arg("all")
                .env("LD_LIBRARY_PATH", folder),
        );
        assert_eq!(said, "own: ok\n");
    });
}

#[test]
fn a_process_that_no_launcher_started_is_a_job_of_one() {
    each("singleton.c", |program, folder| {
        let mut command = Command::new(program);
        command.arg("all").env("LD_LIBRARY_PATH", folder);
        for name in ["PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_URI41"] {
            command.env_remove(name);
        }
        assert_eq!(must(&mut command), "singleton: ok\n");
    });
}

/// Starts a server with a job for C programs.
fn serve(size: u32) -> Server {
    serve_with(size, Vec::new())
}

/// Starts a server with a job for C programs and more job info.
fn serve_with(size: u32, more: Vec<Info<'static>>) -> Server {
    let server = Server::builder()
        .hostname("localhost")
        .build()
        .expect("a server");
    server.start().expect("the server starts");
    let ranks: Vec<_> = (0..size).map(|rank| rank.to_string()).collect();
    let mut infos = vec![
        Info::new(keys::NODE_MAP, "localhost"),
        Info::new(keys::PROC_MAP, ranks.join(",")),
        Info::new(keys::JOBID, "job@1"),
    ];
    infos.extend(more);
    server
        .register_nspace(&"job@1".into(), size, &infos)
        .expect("a job");
    server
}

#[test]
fn invalid_calls_return_a_status() {
    each("hostile.c", |program, folder| {
        let with = |command: &mut Command| {
            let said = must(command.env("LD_LIBRARY_PATH", folder));
            assert_eq!(said, "hostile: ok\n");
        };
        with(Command::new(program).arg("server"));
        let server = serve(1);
        let proc = Proc::new("job@1", Rank::new(0));
        server
            .register_client(&proc, user_of(folder), HostObject(0))
            .expect("a client");
        let environment = server.setup_fork(&proc).expect("an environment");
        with(Command::new(program).envs(environment));
        server.finalize().expect("the server ends");
    });
}

/// Returns the number of calls for each function in the tests of callbacks.
fn num_counted() -> String {
    // A tool runs one thread at a time, and slowly.
    let calls = if is_under_tool() { 40 } else { 3000 };
    calls.to_string()
}

/// Returns the processor time that a hypervisor has taken from this machine, in clock ticks; 0 if the kernel does not
/// count it.
fn stolen_time() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_all = text.lines().next().unwrap_or_default();
    let stolen = of_all.split_whitespace().nth(8);
    stolen.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Runs `returned.c`, which counts for each function the callbacks that ran before the call returned.
#[track_caller]
fn none_is_early(mut run: impl FnMut() -> String, least: usize) {
    // The kernel charges time that the hypervisor takes to the interrupted thread. A thread that is interrupted right
    // before it returns then seems to have run on, so such a count is repeated.
    for is_last in [false, false, true] {
        let stolen = stolen_time();
        let output = run();
        let early = early_callbacks(&output, least);
        let Some(early) = early else { return };
        assert!(!is_last && stolen_time() > stolen, "{early}");
    }
}

/// Returns a description of the first function whose callbacks came early.
#[track_caller]
fn early_callbacks(output: &str, least: usize) -> Option<String> {
    let mut num_functions = 0;
    let mut found = None;
    for line in output.lines() {
        let [name, _calls, called, early] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        if early != "0" && found.is_none() {
            found = Some(format!(
                "{early} callbacks of {name} came early, of {called}"
            ));
        }
        num_functions += usize::from(called != "0");
    }
    assert!(
        num_functions >= least,
        "{num_functions} functions called back:\n{output}"
    );
    found
}

#[test]
fn no_callback_comes_before_its_call_has_returned() {
    each("returned.c", |program, folder| {
        let count = |as_what: &str| {
            let mut command = Command::new(program);
            command.arg(as_what).arg(num_counted());
            command.env("LD_LIBRARY_PATH", folder);
            command
        };
        none_is_early(|| must(&mut count("server")), 20);
        none_is_early(
            || {
                let (server, environment) = serve_one(folder);
                let output = must(count("client").envs(environment));
                server.finalize().expect("the server ends");
                output
            },
            20,
        );
        let top = tempfile::tempdir().expect("a folder");
        let server = crate::tools::server_of(pmix_server::NoHost, "calls", 1, top.path());
        none_is_early(|| must(count("tool").arg(top.path())), 15);
        server.finalize().expect("the server ends");
    });
}

/// Starts a server with a job of one process, and returns the environment of the process.
fn serve_one(folder: &Path) -> (Server, Vec<(OsString, OsString)>) {
    serve_first(1, folder)
}

/// Starts a server with a job of `size` processes, and returns the environment of the first.
pub(crate) fn serve_first(size: u32, folder: &Path) -> (Server, Vec<(OsString, OsString)>) {
    serve_first_with(size, folder, Vec::new())
}

/// Starts a server with a job of `size` processes and more job info, and returns the environment of the first.
pub(crate) fn serve_first_with(
    size: u32,
    folder: &Path,
    more: Vec<Info<'static>>,
) -> (Server, Vec<(OsString, OsString)>) {
    let server = serve_with(size, more);
    // A fence waits until all processes are registered.
    for rank in 0..size {
        let proc = Proc::new("job@1", Rank::new(rank));
        let made = server.register_client(&proc, user_of(folder), HostObject(0));
        made.expect("a client");
    }
    let proc = Proc::new("job@1", Rank::new(0));
    let environment = server.setup_fork(&proc).expect("an environment");
    (server, environment)
}

#[test]
fn threads_initialize_put_get_handle_events_and_finalize_while_others_fork() {
    each("threads.c", |program, folder| {
        let (server, environment) = serve_one(folder);
        let mut command = Command::new(program);
        command
            .args(["64", "10", "20"])
            .envs(environment)
            .env("LD_LIBRARY_PATH", folder);
        assert_eq!(must(&mut command), "threads: ok\n");
        server.finalize().expect("the server ends");
    });
}

/// Runs a program as the first process of a job with `size` processes.
fn first_of(name: &str, size: u32) {
    each(&format!("{name}.c"), |program, folder| {
        let (server, environment) = serve_first(size, folder);
        let mut command = Command::new(program);
        command.envs(environment).env("LD_LIBRARY_PATH", folder);
        assert_eq!(must(&mut command), format!("{name}: ok\n"));
        server.finalize().expect("the server ends");
    });
}

#[test]
fn a_cancelled_thread_ends_after_its_current_call() {
    first_of("cancelled", 2);
}

#[test]
fn a_call_is_refused_when_no_thread_can_start_and_the_client_continues() {
    // A tool needs memory of its own.
    if !is_under_tool() {
        first_of("unthreaded", 1);
    }
}

#[test]
fn values_too_large_for_a_message_are_refused_and_freed() {
    first_of("unsendable", 1);
}

#[test]
fn a_program_opens_and_closes_the_library_again_and_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let library = library(folder).join("libpmix.so.2");
    let program = program("opened.c", folder, Linked::Not);
    let (server, environment) = serve_one(folder);
    let mut command = Command::new(program);
    command.arg(&library).arg("40").envs(environment);
    assert_eq!(must(&mut command), "opened: ok\n");
    server.finalize().expect("the server ends");
}

#[test]
fn the_library_may_be_loaded_before_all_others_and_bound_at_once() {
    for (name, value) in [("LD_PRELOAD", "libpmix.so.2"), ("LD_BIND_NOW", "1")] {
        let with = |command: &mut Command, folder: &Path| {
            let value = match name {
                "LD_PRELOAD" => folder.join(value).into_os_string(),
                _ => value.into(),
            };
            command.env("LD_LIBRARY_PATH", folder).env(name, value);
        };
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let linked = program("threads.c", folder, Linked::Shared);
        let (server, environment) = serve_one(folder);
        let mut command = Command::new(linked);
        command.args(["4", "2", "2"]).envs(environment);
        with(&mut command, folder);
        assert_eq!(must(&mut command), "threads: ok\n", "{name}");
        server.finalize().expect("the server ends");
        // A program that does not use the library runs as before.
        let mut command = Command::new("sh");
        command.args(["-c", "echo $(printf 17)"]);
        with(&mut command, folder);
        assert_eq!(must(&mut command), "17\n", "{name}");
    }
}

/// A machine with two packages of two cores each, and a network interface in the second package.
const MACHINE: &str = r#"<topology version="2.0">
<object type="Machine" cpuset="0xf">
 <object type="NUMANode" os_index="0" cpuset="0xf"/>
 <object type="Package" cpuset="0x3">
  <object type="Core" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object>
  <object type="Core" cpuset="0x2"><object type="PU" os_index="1" cpuset="0x2"/></object>
 </object>
 <object type="Package" cpuset="0xc">
  <object type="Core" cpuset="0x4"><object type="PU" os_index="2" cpuset="0x4"/></object>
  <object type="Core" cpuset="0x8"><object type="PU" os_index="3" cpuset="0x8"/></object>
  <object type="Bridge"><object type="PCIDev">
   <object type="OSDev" name="eth0" osdev_type="2">
    <info name="Address" value="02:00:00:00:00:11"/>
   </object>
  </object></object>
 </object>
</object>
</topology>"#;

#[test]
fn a_program_gets_the_topology_of_its_node() {
    each("topology.c", |program, folder| {
        let with = |command: &mut Command| {
            let said = must(command.env("LD_LIBRARY_PATH", folder));
            assert_eq!(said, "topology: ok\n");
        };
        let description = folder.join("machine.xml");
        std::fs::write(&description, MACHINE).expect("a description");
        with(
            Command::new(program)
                .arg("server")
                .env("HWLOC_XMLFILE", &description),
        );
        // A client receives it from its server.
        let server = serve(1);
        let about = [
            Info::new(keys::NODE_MAP, "localhost"),
            Info::new(keys::PROC_MAP, "0"),
            Info::new(keys::HWLOC_XML_V2, MACHINE),
        ];
        server
            .register_nspace(&"job@2".into(), 1, &about)
            .expect("a job");
        let proc = Proc::new("job@2", Rank::new(0));
        server
            .register_client(&proc, user_of(folder), HostObject(0))
            .expect("a client");
        let environment = server.setup_fork(&proc).expect("an environment");
        let missing = folder.join("missing.xml");
        with(
            Command::new(program)
                .envs(environment)
                .env("HWLOC_XMLFILE", &missing),
        );
        server.finalize().expect("the server ends");
        // A server can also share its topology with all jobs.
        let topology = Topology::of_xml(MACHINE.to_owned()).expect("a machine");
        let server = Server::builder()
            .hostname("localhost")
            .topology(topology.without_xml())
            .share_topology(true)
            .build()
            .expect("a server");
        server.start().expect("the server starts");
        let [maps @ .., _] = about;
        server
            .register_nspace(&"job@2".into(), 1, &maps)
            .expect("a job");
        server
            .register_client(&proc, user_of(folder), HostObject(0))
            .expect("a client");
        let environment = server.setup_fork(&proc).expect("an environment");
        with(
            Command::new(program)
                .envs(environment)
                .env("HWLOC_XMLFILE", missing),
        );
        server.finalize().expect("the server ends");
    });
}

#[test]
fn threads_of_the_library_run_on_the_processors_that_init_names() {
    each("bound.c", |program, folder| {
        for role in ["client", "tool", "server"] {
            let (server, environment) = serve_one(folder);
            let mut command = Command::new(program);
            command.arg(role).env("LD_LIBRARY_PATH", folder);
            if role != "server" {
                command.envs(environment);
            }
            assert_eq!(must(&mut command), "bound: ok\n");
            server.finalize().expect("the server ends");
        }
    });
}

/// Returns the owner of a file of this process, who is also the user of its children.
pub(crate) fn user_of(file: &Path) -> Credentials {
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::metadata(file).expect("the file");
    Credentials::new(file.uid(), file.gid())
}

#[test]
fn clients_exchange_the_values_that_they_put() {
    three_processes_hold("client.c");
}

#[test]
fn a_process_knows_itself_and_new_handlers_receive_earlier_events() {
    three_processes_hold("itself.c");
}

#[test]
fn a_program_drives_progress_itself() {
    three_processes_hold("driven.c");
}

#[test]
fn clients_make_groups_fence_by_their_names_leave_and_take_them_apart() {
    three_processes_hold("group.c");
}

#[test]
fn clients_invite_join_decline_and_leave() {
    three_processes_hold("invite.c");
}

#[test]
fn handlers_decide_about_the_construction_of_groups() {
    three_processes_hold("led.c");
}

/// Runs a program as the three processes of a job, each of which must report success.
fn three_processes_hold(name: &str) {
    each(name, |program, folder| {
        let server = serve(3);
        let user = user_of(folder);
        let children = (0..3).map(|rank| {
            let proc = Proc::new("job@1", Rank::new(rank));
            server
                .register_client(&proc, user, HostObject(0))
                .expect("a client");
            let mut command = Command::new(program);
            command.envs(server.setup_fork(&proc).expect("an environment"));
            command
                .env("LD_LIBRARY_PATH", folder)
                .stdout(Stdio::piped());
            command.spawn().expect("the program starts")
        });
        for (rank, child) in children.collect::<Vec<_>>().into_iter().enumerate() {
            let output = ended(child);
            assert!(output.status.success(), "{program:?}, rank {rank}");
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said, format!("rank {rank} of 3: ok\n"));
        }
        server.finalize().expect("the server ends");
    });
}

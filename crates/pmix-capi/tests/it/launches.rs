// SPDX-License-Identifier: MIT OR Apache-2.0
//! C tools that start launchers themselves. The launcher is this test program.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use pmix_client::Settings;
use pmix_client::driver::ToolConnection;
use pmix_mca::Environment;
use pmix_server::upcall::NotifyEvent;
use pmix_server::{Completion, ConnectedTool, Host, Server};
use pmix_types::{DataArray, Info, Status, Value, keys};

use crate::build::{is_under_tool, must};
use crate::programs::each;

/// Runs a tool that starts a launcher, and returns the output of both.
fn launched(program: &Path, library: &Path, what: &str, launcher: &[&str]) -> String {
    let mut command = Command::new(program);
    command
        .arg(what)
        .args(launcher)
        .current_dir(library)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", library)
        .env("LD_LIBRARY_PATH", library);
    must(&mut command)
}

/// A host that waits for one event.
struct Hears(mpsc::Sender<Status>);

impl Host for Hears {
    fn notify_event(&self, call: NotifyEvent, done: Completion<()>) {
        // The receiver may have been dropped after the first event.
        let _ = self.0.send(call.status);
        done.succeed(());
    }
}

/// Connects to the tool that started it, passes the connection to its server, and exits with 3 when it is released.
#[test]
#[ignore = "a launcher that the tools of the other tests start"]
fn launcher() {
    let environment = Environment::of_process();
    let Some(settings) = Settings::of_launcher(&environment).expect("variables") else {
        return;
    };
    let made = ToolConnection::open(settings).expect("a tool");
    let wanted = match made.job_info(keys::LAUNCH_DIRECTIVES) {
        Some(Value::DataArray(DataArray::Info(wanted))) => wanted,
        other => panic!("{other:?}"),
    };
    assert_eq!(wanted, [Info::new(keys::TAG_OUTPUT, true)]);
    assert_eq!(
        made.job_info(keys::PARENT_ID),
        Some(Value::Proc(made.tool.clone()))
    );
    // Launchers of PRRTE learn their names from these variables.
    for (name, value) in [
        ("PMIX_SERVER_NSPACE", made.launcher.nspace.to_string()),
        ("PMIX_SERVER_RANK", made.launcher.rank.to_string()),
    ] {
        let mut vars = environment.vars.iter();
        let found = vars.find(|(known, _)| known == name);
        assert_eq!(found.map(|(_, found)| found), Some(&value.into()), "{name}");
    }
    let (sender, released) = mpsc::channel();
    let server = Server::builder()
        .host(Hears(sender))
        .nspace("launched.server");
    let server = server.build().expect("a server");
    server.start().expect("the server starts");
    let maps = [
        Info::new(keys::NODE_MAP, "n01"),
        Info::new(keys::PROC_MAP, "0"),
    ];
    let job = server.register_nspace(&"launched".into(), 1, &maps);
    job.expect("a job");
    let tool = ConnectedTool {
        name: made.tool,
        form: made.form,
        stream: made.stream,
        unread: made.unread,
    };
    server.add_tool(tool).expect("the tool is served");
    assert_eq!(released.recv(), Ok(Status::DEBUGGER_RELEASE));
    server.finalize().expect("the server ends");
    std::process::exit(3);
}

#[test]
fn a_tool_starts_a_launcher_and_asks_it_over_the_connection_that_it_made() {
    let this = std::env::current_exe().expect("a test has a path");
    let this = this.to_str().expect("text");
    let words = [this, "--exact", "launches::launcher", "--ignored", "-q"];
    each("launches.c", |program, library| {
        let said = launched(program, library, "connects", &words);
        assert!(said.ends_with("connects: ok\n"), "{said}");
        // A launcher that waits for its release exits with its tool.
        let said = launched(program, library, "leaves", &words);
        assert!(said.ends_with("leaves: ok\n"), "{said}");
        // A launcher that does not reply exits as well.
        let numbered = r#"echo $$ >launcher.pid; exec "$0" "$@""#;
        let numbered = [&["sh", "-c", numbered], &words[..]].concat();
        let said = launched(program, library, "stopped", &numbered);
        assert!(said.ends_with("stopped: ok\n"), "{said}");
    });
}

#[test]
fn a_launcher_that_ends_is_waited_for_no_longer_and_one_that_runs_ends_with_its_tool() {
    each("launches.c", |program, library| {
        let said = launched(program, library, "ends", &["true"]);
        assert_eq!(said, "ends: ok\n");
        // The launcher shares the output of its tool, which is read until both have closed it.
        let said = launched(program, library, "stays", &["sleep", "1000"]);
        assert_eq!(said, "stays: ok\n");
        // A launcher that is a client of the server stays a client.
        let said = launched(program, library, "client", &["client"]);
        assert_eq!(said, "client: ok\n");
        // A command line that cannot be started fails with its status. Under valgrind, posix_spawn does not report a
        // missing program.
        if !is_under_tool() {
            let said = launched(program, library, "refused", &["true"]);
            assert_eq!(said, "refused: ok\n");
        }
    });
}

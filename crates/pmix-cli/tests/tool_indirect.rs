// SPDX-License-Identifier: MIT OR Apache-2.0
//! A debugger that has a launcher started, by a launcher that runs, and finds the job of that one.

mod command;

use std::time::Duration;

use command::launcher::Running;
use pmix_client::Ask;
use pmix_tool::{Search, Target, Tool};
use pmix_types::{App, Info, keys};

/// Longer than anything takes here, so that a fault of the test ends it.
const LIMIT: Duration = Duration::from_secs(60);

/// The tool of this process, at the server whose files are below the directory of a launcher.
fn attached(outer: &Running) -> Tool {
    let search = Search::from_env()
        .host("n1")
        .server_dir(outer.tmp.path())
        .target(Target::Pid(outer.child.id()));
    let found = search.find().unwrap();
    let mut tool = Tool::new();
    let made = tool.attach(&found, |_| {});
    made.unwrap();
    tool
}

#[test]
fn a_debugger_starts_a_launcher_and_releases_the_job_that_it_starts() {
    let mut outer = Running::start(&[
        "-n",
        "1",
        "--node-name",
        "n1",
        "--nspace",
        "outer@1",
        "--keep-going",
        "sh",
        "-c",
        "echo up; while test ! -e \"$TMPDIR/over\"; do sleep 0.05; done; rm \"$TMPDIR/over\"",
    ]);
    assert_eq!(outer.line(), "up");
    let tool = attached(&outer);
    let (pmix, file) = (env!("CARGO_BIN_EXE_pmix"), outer.tmp.path().join("inner"));
    let argv = [
        pmix,
        "run",
        "-n",
        "2",
        "--node-name",
        "n1",
        "--nspace",
        "inner@1",
        "--stop-in-init",
        pmix,
        "hello",
    ];
    let launcher = App {
        cmd: Some(pmix.into()),
        argv: argv.map(Into::into).to_vec(),
        maxprocs: 1,
        ..App::default()
    };
    let infos = vec![
        Info::new(keys::SPAWN_TOOL, true).required(),
        Info::new(
            keys::LAUNCHER_RENDEZVOUS_FILE,
            file.to_str().unwrap().to_owned(),
        ),
    ];
    let started = tool.wait(Ask::spawn(infos, vec![launcher])).unwrap();
    assert_eq!(started.to_string(), "outer@2");
    // The launcher is there when its file is.
    let search = Search::from_env().target(Target::File(file.clone()));
    let tries = u32::try_from(LIMIT.as_millis() / 10).unwrap();
    let inner = search.tries(tries, Duration::from_millis(10)).find();
    assert_eq!(
        inner.unwrap().uri.server.nspace.to_string(),
        "inner@1.server"
    );
    let at = |args: &[&str]| {
        let at_file = ["--file", file.to_str().unwrap()];
        outer.tool(&[args, &at_file].concat())
    };
    let ready = at(&[
        "--json",
        "events",
        "--count",
        "1",
        "--code",
        "PMIX_READY_FOR_DEBUG",
    ]);
    assert_eq!(ready.json()["name"], "PMIX_READY_FOR_DEBUG");
    let procs = at(&["--json", "ps"]).json();
    assert_eq!(procs["nspace"], "inner@1");
    assert_eq!(procs["procs"].as_array().map(Vec::len), Some(2));
    assert_eq!(at(&["release", "inner@1"]).code, 0);
    let mut lines = [outer.line(), outer.line()];
    lines.sort();
    for (rank, line) in lines.iter().enumerate() {
        assert!(line.contains(&format!("rank {rank} of 2")), "{lines:?}");
    }
    tool.finalize().unwrap();
    std::fs::write(outer.tmp.path().join("over"), "").unwrap();
    let (code, rest, errors) = outer.end();
    assert_eq!((code, rest.as_str()), (Some(0), ""), "{errors}");
}

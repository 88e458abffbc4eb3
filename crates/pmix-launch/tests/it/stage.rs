// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs of this program, and their outcomes.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmix_launch::{
    App, Export, Layout, Outcome, Output, Plan, Policy, ProcessSet, Standard, launch,
};
use pmix_mca::Params;
use tempfile::TempDir;

/// An ended job with the output of its processes.
pub(crate) struct Played {
    pub(crate) outcome: Outcome,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Plays an act.
pub(crate) fn play(act: &str, num_procs: u32) -> Played {
    play_with(act, num_procs, &[])
}

/// Plays an act with variables for the actors.
pub(crate) fn play_with(act: &str, num_procs: u32, vars: &[(&str, &Path)]) -> Played {
    play_plan(act, num_procs, vars, |_| {})
}

/// Plays an act like [`play_with`], with a modified plan.
pub(crate) fn play_plan(
    act: &str,
    num_procs: u32,
    vars: &[(&str, &Path)],
    change: impl FnOnce(&mut Plan),
) -> Played {
    let tmp = tempfile::tempdir().unwrap();
    let mut plan = plan_of(act, num_procs, vars, &tmp);
    change(&mut plan);
    let (input, mut output, mut errors) = (null(), scratch(), scratch());
    let standard = Standard {
        input: input.as_fd(),
        output: output.as_fd(),
        errors: errors.as_fd(),
    };
    let outcome = launch(&plan, standard, None).unwrap();
    let left = std::fs::read_dir(&tmp).unwrap().count();
    assert_eq!(left, 0, "the directory of the session is left");
    Played {
        outcome,
        output: spoken(&mut output),
        errors: spoken(&mut errors),
    }
}

/// Plays an act like [`play_with`], with an output that is not read until a file exists.
pub(crate) fn play_unread(
    act: &str,
    num_procs: u32,
    vars: &[(&str, &Path)],
    until: &Path,
) -> (Outcome, Vec<u8>) {
    let tmp = tempfile::tempdir().unwrap();
    let plan = plan_of(act, num_procs, vars, &tmp);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let (input, mut errors) = (null(), scratch());
    // The file of a failed job never appears.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            while !until.exists() && !is_over.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let mut text = Vec::new();
            reader.read_to_end(&mut text).unwrap();
            text
        });
        let standard = Standard {
            input: input.as_fd(),
            output: writer.as_fd(),
            errors: errors.as_fd(),
        };
        let outcome = launch(&plan, standard, None);
        is_over.store(true, Ordering::Relaxed);
        drop(writer);
        let (outcome, read) = (outcome.unwrap(), read.join().unwrap());
        assert!(until.exists(), "{outcome:?}: {}", spoken(&mut errors));
        (outcome, read)
    })
}

fn plan_of(act: &str, num_procs: u32, vars: &[(&str, &Path)], tmp: &TempDir) -> Plan {
    let set = |name: &str, value: &Path| Export::set(name, value);
    let exports = vars.iter().map(|(name, value)| set(name, value));
    let app = App {
        program: std::env::current_exe().unwrap().into(),
        args: ["--exact", "actors::actor", "--ignored", "--nocapture"]
            .map(Into::into)
            .to_vec(),
        num_procs,
        wdir: None,
        exports: exports.chain([set("ACT", Path::new(act))]).collect(),
    };
    let params = Params::default();
    Plan {
        nspace: format!("{act}@1"),
        layout: Layout::on_one_node(b"here", num_procs).unwrap(),
        part: pmix_launch::Part::Alone,
        apps: vec![app],
        policy: Policy::default(),
        environment: Vec::new().into(),
        preg: Arc::new(pmix_builtin::open_preg(&params).unwrap()),
        params,
        tmpdir: tmp.path().to_owned(),
        syslog: tmp.path().join("no-log"),
        output: Output::default(),
        timeout: Some(Duration::from_secs(60)),
        grace: Duration::from_secs(5),
        // The process that terminates another one must survive to receive the reply.
        keep_going: act == "control",
        adopt: false,
        forward_io: false,
        max_spawned: 16,
        max_spawn_depth: 4,
        max_restarts: 0,
        system_server: None,
        watcher: None,
        wrapper: None,
        cpus: None,
        compat_env: true,
        interfaces: pmix_launch::Interfaces::default(),
        client_library: None,
        stdin_rank: Some(pmix_types::Rank::new(0)),
        announce: false,
        diagnosis: pmix_launch::Diagnosis::default(),
        stops: pmix_launch::DebugStops::default(),
        process_sets: match act {
            "sets" => vec![ProcessSet {
                name: "tail".to_owned(),
                ranks: vec![(1, 2)],
            }],
            _ => Vec::new(),
        },
    }
}

fn null() -> File {
    File::open("/dev/null").unwrap()
}

fn scratch() -> File {
    tempfile::tempfile().unwrap()
}

/// Returns the lines of the actors, sorted and without those of the test runner.
fn spoken(file: &mut File) -> String {
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    let mut lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.retain(|line| *line != "running 1 test");
    lines.sort_unstable();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

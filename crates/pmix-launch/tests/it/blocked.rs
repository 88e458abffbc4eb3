// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file system that hangs. It is simulated by a pipe without a reader, below a path at which the launcher opens
//! files without checking them. Other processes must be served meanwhile.
#![allow(clippy::disallowed_methods, reason = "the environment has its path")]

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use pmix_client::Client;
use pmix_launch::{FilePattern, Output, OutputFiles};
use pmix_proto::{Request, reply, request};
use pmix_types::{App, Info, Status, keys};

use crate::actors::rank;
use crate::stage::play_plan;

/// The root directory, by a path below which the launcher opens files without checking their type.
const ROOT: &str = "/proc/self/fd/../../..";

/// The time after which a blocked launcher is released, so that a failed test ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// The number of fences that a process completes beside work of the launcher.
const FENCES: usize = 200;

/// Returns the directory of a test.
fn place() -> PathBuf {
    std::env::var_os("PLACE").unwrap().into()
}

/// Completes fences of its own while `goes_on` returns `true`, and then some more. Each takes a turn of the launcher.
fn fence_while(client: &mut Client, goes_on: impl Fn() -> bool) {
    let own = [client.proc().clone()];
    let mut num_left = FENCES;
    while num_left > 0 {
        num_left -= usize::from(!goes_on());
        client.fence(&own, []).wait().unwrap();
    }
}

/// Reads a pipe after the sender sent or was dropped. Prints `late` if neither happened in time.
fn let_go(fifo: PathBuf) -> (Sender<()>, thread::JoinHandle<Option<File>>) {
    let (say, said): (_, Receiver<()>) = channel();
    let reader = thread::spawn(move || {
        let late = said.recv_timeout(PATIENCE).is_err();
        // The pipe may have no writer.
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
        let opened = File::options()
            .read(true)
            .custom_flags(nonblocking)
            .open(fifo);
        if late {
            println!("late");
        }
        opened.ok()
    });
    (say, reader)
}

fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

/// Rank 0 spawns a job whose files cannot be opened, and rank 1 completes fences until it unblocks them.
pub(crate) fn opens_slowly(mut client: Client) {
    let dir = place().join("opens_slowly@2");
    if rank(&client) == 0 {
        let below = place();
        let below = below.strip_prefix("/").unwrap();
        let dir = Path::new(ROOT).join(below).display().to_string();
        let app = App {
            cmd: Some("true".into()),
            maxprocs: 1,
            ..App::default()
        };
        let request = Request::Spawn(request::Spawn {
            infos: vec![Info::new(keys::IOF_OUTPUT_TO_DIRECTORY, dir)],
            apps: vec![app],
        });
        let payload = client.request(request).wait().unwrap();
        let answer = reply::Spawned::decode(client.form(), None, &payload).unwrap();
        println!("{}", answer.status);
    } else {
        let (say, reader) = let_go(dir.join("rank.0.stderr"));
        fence_while(&mut client, || !dir.join("rank.0.stdout").exists());
        println!("went on");
        say.send(()).unwrap();
        // The pipe keeps its reader while the job may write to it.
        let reader = reader.join().unwrap();
        client.fence([], []).wait().unwrap();
        drop(reader);
        return client.finalize().unwrap();
    }
    client.fence([], []).wait().unwrap();
    client.finalize().unwrap();
}

#[test]
fn files_of_a_job_that_cannot_be_opened_hold_up_that_job_alone() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("opens_slowly@2");
    fs::create_dir(&dir).unwrap();
    make_fifo(&dir.join("rank.0.stderr"));
    let played = play_plan("opens_slowly", 2, &[("PLACE", place.path())], |_| {});
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let expected = format!("{}\nwent on\n", Status::SUCCESS);
    assert_eq!(played.output, expected, "{}", played.errors);
    assert_eq!(played.outcome.num_spawned, 1);
}

/// Rank 0 fails once and then its file cannot be opened, and rank 1 completes fences until it unblocks the file.
pub(crate) fn restarts_slowly(mut client: Client) {
    let errors = place().join("rank.0.stderr");
    let pid = place().join("pid");
    if rank(&client) == 0 {
        if !pid.exists() {
            client.fence([], []).wait().unwrap();
            fs::remove_file(&errors).unwrap();
            make_fifo(&errors);
            fs::write(&pid, std::process::id().to_string()).unwrap();
            client.finalize().unwrap();
            std::process::exit(1);
        }
        println!("again");
        fs::write(place().join("again"), "").unwrap();
    } else {
        client.fence([], []).wait().unwrap();
        let (say, reader) = let_go(errors);
        // The process id is kept until the next incarnation exists.
        let is_there = || {
            let Ok(pid) = fs::read_to_string(&pid) else {
                return true;
            };
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit_once(") ");
            state.is_some_and(|(_, state)| !state.starts_with('Z'))
        };
        fence_while(&mut client, is_there);
        println!("went on");
        say.send(()).unwrap();
        let _reader = reader.join().unwrap();
        fence_while(&mut client, || !place().join("again").exists());
    }
    client.finalize().unwrap();
}

#[test]
fn a_process_is_started_again_once_its_files_are_open_and_others_go_on() {
    let place = tempfile::tempdir().unwrap();
    let below = place.path().strip_prefix("/").unwrap();
    let dir = Path::new(ROOT).join(below);
    let played = play_plan("restarts_slowly", 2, &[("PLACE", place.path())], |plan| {
        plan.max_restarts = 1;
        plan.keep_going = true;
        plan.output = copied_to(dir);
    });
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(played.output, "again\nwent on\n", "{}", played.errors);
}

/// Returns the output of a plan that is copied to files in a directory.
fn copied_to(dir: PathBuf) -> Output {
    Output {
        files: Some(OutputFiles {
            dir,
            name: FilePattern::default(),
            is_copied: true,
        }),
        ..Output::default()
    }
}

/// Rank 0 completes fences until it unblocks the file of rank 1, which is not started before.
pub(crate) fn starts_slowly(mut client: Client) {
    if rank(&client) == 0 {
        let (say, reader) = let_go(place().join("rank.1.stderr"));
        fence_while(&mut client, || !place().join("rank.1.stdout").exists());
        println!("went on");
        say.send(()).unwrap();
        let reader = reader.join().unwrap();
        client.fence([], []).wait().unwrap();
        drop(reader);
    } else {
        client.fence([], []).wait().unwrap();
    }
    client.finalize().unwrap();
}

#[test]
fn files_of_the_first_job_that_cannot_be_opened_hold_up_their_process_alone() {
    let place = tempfile::tempdir().unwrap();
    let dir = Path::new(ROOT).join(place.path().strip_prefix("/").unwrap());
    make_fifo(&place.path().join("rank.1.stderr"));
    let played = play_plan("starts_slowly", 2, &[("PLACE", place.path())], |plan| {
        plan.output = copied_to(dir);
    });
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(played.output, "went on\n", "{}", played.errors);
}

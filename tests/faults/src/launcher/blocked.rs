// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work of `pmix run` with a duration that depends on a process or a disk. Examples are searches
//! for programs, environments, output into a pipe that is not read, and directories full of files.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use pmix_client::Client;
use pmix_proto::{Request, reply, request};
use pmix_types::{App, Envar, Info, Query, Value, keys};
use rustix::process::Signal;
use xtask::process;

use super::{Launcher, MEMORY, OBEYED, PATIENCE, build, own};
use crate::wait::{shown, until};
use crate::{Field, Verdict};

/// The kinds of work that one process causes while another one fences.
const KINDS: [&str; 6] = ["path", "variable", "fifo", "job-files", "cleanup", "usage"];

/// The limit of a fence of the other process.
const FENCE: Duration = Duration::from_millis(50);

/// The limit in the short form: a test build is slower, and the processes compete for processors.
const SHORT_FENCE: Duration = Duration::from_millis(250);

/// The limit from SIGTERM to the end in the short form, in which other threads of the launcher compete for processors.
const SHORT_OBEYED: Duration = Duration::from_secs(2);

/// The number of times that a process maps the same memory, and its size in MiB. With these values the kernel needs seconds to report
/// the memory of the process.
const MAPPED: [&str; 2] = ["64", "256"];

/// Makes the launcher do slow work for one process while another one fences, and then sends SIGTERM.
pub(crate) fn blocked(field: &Field) -> Result<Verdict, String> {
    let pmix = build(field)?;
    let own = own()?;
    let time = field.count(5_000, 1_000).to_string();
    let num_files = field.count(200_000, 10_000).to_string();
    let (mut longest, mut obeyed, mut memory) = (Duration::ZERO, Duration::ZERO, 0);
    for kind in KINDS {
        let directory = field.directory("launcher-blocked")?;
        let tmpdir = field.directory("launcher-blocked-tmp")?;
        let told = directory.join("longest");
        let (place, path) = (directory.to_string_lossy(), told.to_string_lossy());
        // Memory queries are slow only once the memory is mapped.
        let begins = match kind {
            "usage" => directory.join("mapped"),
            _ => directory.clone(),
        };
        let begins = begins.to_string_lossy();
        let job = [
            &*own,
            "peer",
            "blocks",
            kind,
            &num_files,
            &place,
            ":",
            "sh",
            "-c",
            "until [ -e \"$0\" ]; do sleep 0.05; done; exec \"$@\"",
            &begins,
            &own,
            "peer",
            "own-fences",
            &time,
            &path,
        ];
        // After the last process, orphans have one grace period and unwritten output another, with 200 ms in between.
        let options = ["--keep-going", "--grace", "0.1", "--max-spawned", "1000"];
        let mut launcher = Launcher::by(Command::new(&pmix), &tmpdir, &options, &job)?;
        let fence = until(PATIENCE, || {
            let longest = fs::read_to_string(&told).ok()?.trim().parse().ok()?;
            Some(Duration::from_micros(longest))
        });
        let fence = fence.ok_or_else(|| format!("{kind}: no fence: {}", launcher.give_up()))?;
        longest = longest.max(fence);
        memory = memory.max(launcher.memory()?);
        let clock = launcher.clock();
        launcher.signal(Signal::TERM)?;
        let (code, took) = launcher.end_after(clock)?;
        obeyed = obeyed.max(took);
        let left = fs::read_dir(&tmpdir).map_or(0, Iterator::count);
        let figures = format!(
            "{kind}: longest fence {}, ended {} after SIGTERM with exit code {code:?}, {left} entries left",
            shown(fence),
            shown(took)
        );
        let most = if field.short { SHORT_FENCE } else { FENCE };
        let obeyed_by = if field.short { SHORT_OBEYED } else { OBEYED };
        // Before it ends, the launcher removes the files of the job, and the kernel needs seconds to free mapped
        // memory.
        let limit = match kind {
            "job-files" | "usage" => OBEYED * 20,
            _ => obeyed_by,
        };
        if fence >= most || took >= limit || left > 0 || code != Some(143) {
            return Err(format!("{figures}: {}", launcher.errors(PATIENCE)?));
        }
    }
    let figures = format!(
        "{} kinds: longest fence {}, ended {} after SIGTERM at most, {} MiB",
        KINDS.len(),
        shown(longest),
        shown(obeyed),
        memory >> 10
    );
    match memory < MEMORY {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// Makes the launcher do slow work repeatedly or without end.
pub(crate) fn blocks(
    mut client: Client,
    kind: &str,
    num_files: u32,
    place: &Path,
) -> Result<(), String> {
    match kind {
        "path" => loop {
            let path = format!("PATH={}", "/no/such:".repeat(4_000));
            let apps = (0..300).map(|number| app(&[&format!("absent-{number}")], &[&path]));
            spawn(&mut client, Vec::new(), apps.collect())?;
        },
        "variable" => loop {
            let long = Envar {
                envar: Some("LONG".into()),
                value: Some("x".repeat(6 << 20).into()),
                separator: b':',
            };
            let set = Info::new(keys::SET_ENVAR, Value::Envar(Box::new(long)));
            spawn(&mut client, vec![set], vec![app(&["true"], &[]); 900])?;
        },
        "fifo" => {
            let fifo = place.join("output.0.stdout");
            process::run(Command::new("mkfifo").arg(&fifo))?;
            let mut options = fs::File::options();
            // Opening must not wait for a writer. The pipe is never read.
            let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits());
            options.custom_flags(nonblocking.map_err(|e| e.to_string())?);
            let reader = options.read(true).open(&fifo).map_err(|e| e.to_string())?;
            let pattern = place.join("output.%r").to_string_lossy().into_owned();
            let infos = vec![
                Info::new(keys::IOF_OUTPUT_TO_FILE, pattern),
                Info::new(keys::IOF_FILE_PATTERN, true),
                Info::new(keys::IOF_MERGE_STDERR_STDOUT, false),
            ];
            let status = spawn(&mut client, infos, vec![app(&["yes"], &[])])?;
            if !status.contains("PMIX_SUCCESS") {
                return Err(format!("no job writes to the pipe: {status}"));
            }
            stay();
            drop(reader);
        }
        "job-files" => {
            let num_files = num_files.to_string();
            let own = std::env::current_exe().map_err(|e| e.to_string())?;
            let own = own.to_string_lossy();
            for _ in 0..3 {
                let words = [&*own, "peer", "fills", &num_files];
                spawn(&mut client, Vec::new(), vec![app(&words, &[])])?;
            }
            stay();
        }
        "cleanup" => {
            let full = place.join("full");
            fill(&full, num_files)?;
            let full = full.to_string_lossy().into_owned();
            let own = std::env::current_exe().map_err(|e| e.to_string())?;
            let words = [&*own.to_string_lossy(), "peer", "cleans", &full];
            spawn(&mut client, Vec::new(), vec![app(&words, &[])])?;
            stay();
        }
        "usage" => {
            let told = place.join("mapped");
            let program = compile(place)?;
            let path = told.to_string_lossy();
            let words = [&*program.to_string_lossy(), MAPPED[0], MAPPED[1], &path];
            spawn(&mut client, Vec::new(), vec![app(&words, &[])])?;
            until(PATIENCE, || told.exists().then_some(())).ok_or("nothing is mapped")?;
            let job = format!("{}", client.proc().nspace).replace("@1", "@2");
            let mut num_told = 0;
            loop {
                let query = Query {
                    keys: vec![keys::QUERY_PROC_RESOURCE_USAGE.into()],
                    qualifiers: vec![Info::new(keys::NSPACE, job.clone())],
                };
                let queries = vec![query];
                let request = Request::Query(request::Query { queries });
                let payload = client.request(request).wait().map_err(|e| e.to_string())?;
                let answer = reply::Infos::decode(client.form(), None, &payload);
                let answer = answer.map_err(|e| e.to_string())?;
                if !answer.status.is_success() {
                    return Err(format!("{num_told} answers, then {}", answer.status));
                }
                num_told += 1;
            }
        }
        _ => return Err(format!("{kind} blocks nothing")),
    }
    Ok(())
}

/// Fills the directory of this process, which the launcher removes.
pub(crate) fn fills(client: Client, num_files: u32) -> Result<(), String> {
    let own = client.proc().clone();
    let told = client.get(&own, keys::PROCDIR, &[]).wait();
    let Value::String(Some(place)) = told.map_err(|e| e.to_string())? else {
        return Err("the directory of the process is no text".to_owned());
    };
    fill(Path::new(&*place.to_str_lossy()), num_files)?;
    client.finalize().map_err(|e| e.to_string())
}

/// Registers a directory for cleanup, and exits.
pub(crate) fn cleans(path: &str) -> Result<(), String> {
    let settings = pmix_client::Settings::from_env().map_err(|e| e.to_string())?;
    let client = Client::init(settings).map_err(|e| e.to_string())?;
    let infos = vec![
        Info::new(keys::REGISTER_CLEANUP_DIR, path.to_owned()),
        Info::new(keys::CLEANUP_RECURSIVE, true),
    ];
    let asked = client.job_control(Vec::new(), infos).wait();
    asked.map_err(|e| e.to_string())?;
    client.finalize().map_err(|e| e.to_string())
}

fn fill(place: &Path, num_files: u32) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("{}: {e}", place.display());
    fs::create_dir_all(place).map_err(fault)?;
    for number in 0..num_files {
        fs::write(place.join(number.to_string()), "").map_err(fault)?;
    }
    Ok(())
}

/// Compiles the program that maps much memory.
fn compile(place: &Path) -> Result<PathBuf, String> {
    let source = process::root().join("tests/faults/mapped.c");
    let program = place.join("maps");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-o"]).arg(&program);
    process::run(compiler.arg(source))?;
    Ok(program)
}

fn stay() {
    loop {
        sleep(Duration::from_secs(60));
    }
}

pub(super) fn app(words: &[&str], env: &[&str]) -> App<'static> {
    let own = |word: &&str| (*word).to_owned().into();
    App {
        cmd: words.first().map(own),
        argv: words.iter().map(own).collect(),
        env: env.iter().map(own).collect(),
        maxprocs: 1,
        ..App::default()
    }
}

/// Requests a spawn and returns the status of the reply.
pub(super) fn spawn(
    client: &mut Client,
    infos: Vec<Info<'static>>,
    apps: Vec<App<'static>>,
) -> Result<String, String> {
    let request = Request::Spawn(request::Spawn { infos, apps });
    let payload = client.request(request).wait().map_err(|e| e.to_string())?;
    let answer = reply::Spawned::decode(client.form(), None, &payload);
    answer
        .map(|answer| answer.status.to_string())
        .map_err(|e| e.to_string())
}

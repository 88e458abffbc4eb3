// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask interop tools`: our tools with servers of each kind, and foreign tools with our server.
//!
//! `pmix query` and `pmix ps` query `pmix run`, a C host with our library and with each release, prterun and prte. Our
//! server serves Debian's `pps`, `pattrs` and `pevent`, and the Python wrapper. C programs that are tools run in `cargo
//! xtask interop server` and `consumers`.

pub mod running;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::capi;
use crate::ours::Ours;
use crate::peers::{PYTHON, Peer, require_wrapper};
use crate::server::case::{Case, Judge, run_within};
use crate::server::launcher::Launcher;
use crate::server::{missing, run_all};
use crate::tally::Tally;
use running::Running;
use xtask::{install, process};

/// The Debian packages with the tools of OpenPMIx. Its `pquery` and `plookup` crash with every server.
pub(super) const PACKAGES: &[&str] = &["libpmix-bin", "python3-pmix"];

/// The time limit of a tool.
const LIMIT: Duration = Duration::from_secs(40);

/// The time limit of all programs of the Python wrapper.
const LIMIT_OF_ALL: Duration = Duration::from_secs(5 * 60);

/// The number of tools that attach at the same time.
const AT_ONCE: usize = 4;

/// A check of the exit code and the whole output of a tool.
type Verdict<'a> = Box<dyn Fn(Option<i32>, &str) -> Result<(), String> + 'a>;

/// Runs all checks.
///
/// # Errors
/// Returns a message if a crate of ours does not build.
pub(super) fn run(peers: &[Peer], profile: &str, tally: &mut Tally) -> Result<(), String> {
    let pmix = Ours::build(profile)?.program;
    let ours = Launcher::Ours(pmix.clone());
    let mut launchers = vec![
        ours.clone(),
        Launcher::host_of("ours", &capi::library("dev")?)?,
    ];
    for peer in peers {
        launchers.push(Launcher::host(peer)?);
        launchers.extend(Launcher::prterun(peer));
    }
    for launcher in &launchers {
        let has_table = !matches!(launcher, Launcher::Host(_, release) if release != "ours");
        let stock = matches!(launcher, Launcher::Ours(_))
            || matches!(launcher, Launcher::Host(_, release) if release == "ours");
        let begun = Running::start(&launcher.title(), launcher.command(2), true);
        let mut server = match begun {
            Ok(server) => server,
            Err(why) => {
                tally.fail(&what_of(&launcher.title()), &why);
                continue;
            }
        };
        finding(&pmix, &server, tally);
        asking(&pmix, &server, has_table, tally);
        metrics(&pmix, &server, tally);
        if stock {
            others(&server, tally);
        }
        lost(&pmix, &mut server, tally)?;
    }
    for peer in peers {
        if let Some(prte) = peer.library.beside("prte") {
            without_job(&pmix, &prte, &peer.version, tally);
        }
    }
    run_all(python(&ours, tally), Instant::now() + LIMIT_OF_ALL, tally)
}

fn what_of(server: &str) -> String {
    format!("tools: ours at {server}")
}

/// Runs a tool to its end and checks the result.
fn check(
    tally: &mut Tally,
    what: &str,
    server: &Running,
    command: &mut Command,
    verdict: &Verdict<'_>,
) {
    let words: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy())
        .collect();
    let name = words.join(" ");
    let output = server.home.join("said");
    let ended = run_within(tool(command, server), LIMIT, &output, &server.home);
    let text = fs::read(&output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let judged = ended.and_then(|status| verdict(status.code(), &text));
    match judged {
        Ok(()) => tally.pass(what),
        Err(why) => tally.fail(what, &format!("{name}: {why}; it wrote: {text:.600}")),
    }
}

/// Makes a tool search for servers below the directory of this server.
fn tool<'c>(command: &'c mut Command, server: &Running) -> &'c mut Command {
    command.env("TMPDIR", &server.home)
}

/// Returns a check for this exit code and all of these phrases.
fn says<'a>(code: i32, phrases: &'a [&'a str]) -> Verdict<'a> {
    Box::new(move |ended, text| {
        if ended != Some(code) {
            return Err(format!("{ended:?}, not {code}"));
        }
        match phrases.iter().find(|phrase| !text.contains(**phrase)) {
            Some(phrase) => Err(format!("it does not say {phrase:?}")),
            None => Ok(()),
        }
    })
}

/// Returns every combination of options that selects the server.
fn ways(server: &Running) -> Vec<Vec<String>> {
    let file = server.file.display().to_string();
    vec![
        vec!["--pid".to_owned(), server.pid()],
        vec!["--uri".to_owned(), server.uri.clone()],
        vec!["--uri".to_owned(), format!("file:{file}")],
        vec!["--file".to_owned(), file],
        vec!["--session".to_owned()],
        Vec::new(),
    ]
}

/// Checks that our tool finds the server by each option, and that several tools find it at the same time.
fn finding(pmix: &Path, server: &Running, tally: &mut Tally) {
    let what = what_of(&server.title);
    let nspace = server.nspace.as_deref().unwrap_or_default();
    for way in ways(server) {
        let mut command = Command::new(pmix);
        command.arg("query").args(way).arg("QUERY_NAMESPACES");
        check(tally, &what, server, &mut command, &says(0, &[nspace]));
    }
    let script = r#"for i in 1 2 3 4; do "$@" & all="$all $!"; done; for one in $all; do wait $one || exit 1; done"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(pmix);
    command.args(["query", "--pid", &server.pid(), "QUERY_NAMESPACES"]);
    let verdict: Verdict<'_> = Box::new(|code, text| {
        let answers = text.lines().filter(|line| line.contains(nspace)).count();
        match (code, answers) {
            (Some(0), AT_ONCE) => Ok(()),
            _ => Err(format!("{code:?}, and {answers} answers")),
        }
    });
    check(tally, &what, server, &mut command, &verdict);
}

/// Reads metrics with the parser of Prometheus's client library, and prints the jobs and the number of their ranks.
const PARSER: &str = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
ranks = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        if sample.name == 'pmix_job_ranks':
            job = sample.labels['job']
            ranks[job] = ranks.get(job, 0) + sample.value
print('parsed', *('%s:%d' % one for one in ranks.items()))";

/// Checks that Prometheus can read the metrics of a server.
fn metrics(pmix: &Path, server: &Running, tally: &mut Tally) {
    let what = what_of(&server.title);
    let python = match install::pip("prometheus-client").and_then(|()| install::venv()) {
        Ok(python) => python,
        Err(why) => return missing(&why, tally),
    };
    let nspace = server.nspace.as_deref().unwrap_or_default();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        r#""$1" top --openmetrics --pid "$2" | "$3" -c "$4""#,
        "sh",
    ]);
    command.arg(pmix).arg(server.pid()).arg(python).arg(PARSER);
    check(
        tally,
        &what,
        server,
        &mut command,
        &says(0, &["parsed", nspace]),
    );
}

/// Checks queries of our tools about the job, and about objects that do not exist.
fn asking(pmix: &Path, server: &Running, has_table: bool, tally: &mut Tally) {
    let what = what_of(&server.title);
    let nspace = server.nspace.as_deref().unwrap_or_default();
    let pid = server.pid();
    let mut ask = |words: &[&str], verdict: &Verdict<'_>| {
        let mut command = Command::new(pmix);
        check(tally, &what, server, command.args(words), verdict);
    };
    let about = ["query", "--pid", &pid, "--nspace", nspace, "JOB_SIZE"];
    // A real server forwards the query to its host, which does not support it.
    match has_table {
        true => ask(&about, &says(0, &["pmix.job.size: 2"])),
        false => ask(&about, &says(1, &["JOB_SIZE", "returned no value"])),
    }
    ask(&["ps", "--pid", &pid], &says(0, &[nspace, &pid]));
    ask(&["ps"], &says(0, &[nspace, &pid]));
    ask(&["ps", nspace], &says(0, &[nspace]));
    let rows: Verdict<'_> = Box::new(|code, text| {
        let mut lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let job = lines.find(|job: &serde_json::Value| job["nspace"] == nspace);
        let job = job.ok_or_else(|| format!("{code:?}, and nothing of {nspace}"))?;
        // Only a server that knows its processes lists them.
        match (job["procs"].as_array().map(Vec::len), has_table) {
            (Some(2), true) => Ok(()),
            (None, false) if job["status"] == -46 => Ok(()),
            _ => Err(format!("{code:?}, and {job}")),
        }
    });
    ask(&["--json", "ps", "--pid", &pid], &rows);
    let unknown = ["query", "--pid", &pid, "no.such.key"];
    ask(&unknown, &says(1, &["no.such.key", "returned no value"]));
    ask(
        &["ps", "--pid", &pid, "no-such-job"],
        &says(1, &["no-such-job"]),
    );
}

/// Checks the tools of OpenPMIx with our server.
fn others(server: &Running, tally: &mut Tally) {
    let what = format!("tools: those of OpenPMIx 4.2 at {}", server.title);
    if !Path::new("/usr/bin/pps").exists() {
        missing("no pps: install libpmix-bin", tally);
        return;
    }
    let nspace = server.nspace.as_deref().unwrap_or_default();
    let active = format!("Active nspaces: {nspace}");
    let pid = server.pid();
    let runs: [(&[&str], &[&str]); 6] = [
        (&["pps", "--pid", &pid], &[&active]),
        (&["pps", "--uri", &server.uri], &[&active]),
        (&["pps"], &[&active]),
        (&["pps", "--nodes", "--pid", &pid], &[&active]),
        (
            &["pattrs", "--pid", &pid, "--client", "PMIx_Get"],
            &["PMIx_Get:", "pmix.hname"],
        ),
        (
            &["pevent", "--pid", &pid, "--event", "-51", "--range", "4"],
            &[],
        ),
    ];
    for (words, phrases) in runs {
        let mut command = Command::new(format!("/usr/bin/{}", words[0]));
        command.args(&words[1..]);
        check(tally, &what, server, &mut command, &says(0, phrases));
    }
}

/// Kills the server. Its file is left, and our tools report that the server is dead. The helper process of `pmix run`
/// soon removes the file, and the tools then report that there is no server.
fn lost(pmix: &Path, server: &mut Running, tally: &mut Tally) -> Result<(), String> {
    let what = what_of(&server.title);
    server.kill()?;
    let pid = server.pid();
    let verdict = |ended: Option<i32>, text: &str| match ended {
        Some(1) if text.contains("dead") || text.contains("rendezvous file") => Ok(()),
        ended => Err(format!(
            "{ended:?}, and no word of a dead server or of no file"
        )),
    };
    let verdict: Verdict<'_> = Box::new(verdict);
    for words in [
        &["query", "--pid", &pid, "QUERY_NAMESPACES"][..],
        &["query", "QUERY_NAMESPACES"],
    ] {
        let mut command = Command::new(pmix);
        check(tally, &what, server, command.args(words), &verdict);
    }
    Ok(())
}

/// Checks a server without a job: that of prte.
fn without_job(pmix: &Path, prte: &Path, release: &str, tally: &mut Tally) {
    let title = format!("prte {release}");
    let what = what_of(&title);
    let mut command = Command::new(prte);
    command.args(["--allow-run-as-root", "--host", "localhost:16"]);
    let mut server = match Running::start(&title, command, false) {
        Ok(server) => server,
        Err(why) => {
            tally.fail(&what, &why);
            return;
        }
    };
    for way in ways(&server) {
        let mut command = Command::new(pmix);
        command.arg("query").args(way).arg("QUERY_NAMESPACES");
        check(
            tally,
            &what,
            &server,
            &mut command,
            &says(0, &["pmix.qry.ns: prte-"]),
        );
    }
    let mut command = Command::new(pmix);
    command.args(["ps", "--pid", &server.pid()]);
    check(
        tally,
        &what,
        &server,
        &mut command,
        &says(0, &[&server.pid()]),
    );
    if let Err(why) = lost(pmix, &mut server, tally) {
        tally.fail(&what, &why);
    }
}

/// Returns runs of the Python wrapper as a tool that our server started, and as one that finds the server.
fn python(ours: &Launcher, tally: &mut Tally) -> Vec<Case> {
    if let Err(why) = require_wrapper() {
        missing(&why, tally);
        return Vec::new();
    }
    let folder = process::root().join("tests/server/python");
    let case = |name: &str| {
        let mut command = ours.command(4);
        command.arg(PYTHON).arg(folder.join(name));
        Case {
            what: format!("tools: python3-pmix at {}", ours.title()),
            name: name.to_owned(),
            command,
            limit: LIMIT,
            judge: Judge::Says(vec![("is content", 4)], &["Traceback"]),
            is_control: false,
        }
    };
    ["tool.py", "attached.py"].map(case).into()
}

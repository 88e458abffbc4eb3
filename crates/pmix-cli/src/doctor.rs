// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix doctor`: a report of problems on this node that prevent PMIx servers, clients and tools
//! from working.

mod control_group;
mod job;
mod libraries;
mod node;
mod program;
mod setup;
mod system;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use pmix_mca::Environment;
use pmix_tool::{FoundServer, PassedOver, Search, Tool};
use serde_json::json;

use crate::args::{Doctor, Global};
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::style::{Style, printable};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    /// The checked object works, but with restrictions or not for long.
    Warning,
    /// The checked object does not work.
    Fault,
}

/// The finding of a check.
struct Finding {
    /// The subject of the check.
    check: &'static str,
    verdict: Verdict,
    found: String,
    /// The advice for the user.
    help: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, found.into(), None)
    }

    fn warning(check: &'static str, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(check, Verdict::Warning, found.into(), Some(help.into()))
    }

    fn fault(check: &'static str, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(check, Verdict::Fault, found.into(), Some(help.into()))
    }

    fn new(check: &'static str, verdict: Verdict, found: String, help: Option<String>) -> Self {
        Self {
            check,
            verdict,
            found,
            help,
        }
    }
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// The input of the checks: this process, its environment, and paths.
struct Subject<'a> {
    environment: &'a Environment,
    shm: PathBuf,
}

impl Subject<'_> {
    /// Returns the value of a variable, if it is set and not empty.
    fn var(&self, name: &str) -> Option<String> {
        let value = self.environment.first_of(&[name])?;
        Some(value.to_string_lossy().into_owned())
    }

    /// Returns the file of a program, as a shell finds it by its name.
    fn program(&self, name: impl AsRef<std::path::Path>) -> Option<PathBuf> {
        let path = self.var("PATH").unwrap_or_default();
        let mut files = std::env::split_paths(&path).map(|dir| dir.join(&name));
        files.find(|file| file.is_file())
    }

    /// Returns the directory in the first of these variables that is set, as servers do.
    fn directory(&self, names: &[&str]) -> PathBuf {
        let found = self.environment.first_of(names);
        found.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
    }
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Doctor) -> Result<Exit, Failure> {
    let environment = Environment::of_process();
    let subject = Subject {
        environment: &environment,
        shm: args.shm.clone(),
    };
    let mut findings = node::check(&subject);
    findings.extend(control_group::check());
    findings.extend(system::check(&subject, args.timeout));
    findings.extend(node::check_places(&subject));
    findings.extend(setup::check(global, &subject));
    findings.extend(libraries::check(&subject));
    findings.extend(check_servers(args.timeout));
    if let Some(name) = &args.program {
        match job::check(name, args) {
            Some(of_job) => findings.extend(of_job),
            None => findings.push(program::check(&subject, name)),
        }
    }
    let mut out = Out::new();
    match global.json {
        true => {
            for finding in &findings {
                out.json(&json!({
                    "check": finding.check,
                    "verdict": finding.verdict.name(),
                    "found": finding.found,
                    "help": finding.help,
                }))?;
            }
        }
        false => in_words(global, &mut out, &findings)?,
    }
    out.flush()?;
    match findings.iter().any(|one| one.verdict == Verdict::Fault) {
        true => Ok(Exit::Negative),
        false => Ok(Exit::Ok),
    }
}

fn in_words(global: &Global, out: &mut Out, findings: &[Finding]) -> Result<(), Failure> {
    let style = Style::new(global.color, &std::io::stdout());
    for finding in findings {
        let name = format!("{:<8}", finding.verdict.name());
        let name = match finding.verdict {
            Verdict::Ok => style.green(&name),
            Verdict::Warning => style.yellow(&name),
            Verdict::Fault => style.red(&name),
        };
        let found = printable(finding.found.as_bytes());
        writeln!(out, "{name} {:<12} {found}", finding.check)?;
        if let Some(help) = &finding.help {
            writeln!(out, "{:22}help: {}", "", printable(help.as_bytes()))?;
        }
    }
    let count = |verdict| findings.iter().filter(|one| one.verdict == verdict).count();
    let (faults, warnings) = (count(Verdict::Fault), count(Verdict::Warning));
    writeln!(out, "faults: {faults}, warnings: {warnings}")?;
    Ok(())
}

/// Attaches to every server, with a time limit for each.
fn check_servers(limit: Duration) -> Vec<Finding> {
    let listing = Search::from_env().list();
    let (dead, others): (Vec<_>, Vec<_>) =
        { listing.passed_over.iter() }.partition(|one| one.is_dead);
    let mut findings: Vec<_> = passed_over(&dead)
        .into_iter()
        .chain(passed_over(&others))
        .collect();
    if listing.servers.is_empty() {
        findings.push(Finding::ok(
            "servers",
            "no server that tools of this user can find",
        ));
    }
    findings.extend(listing.servers.iter().map(|server| attach(server, limit)));
    findings
}

/// Reports the rendezvous files that tools ignore for one reason, all in one line. The file of an exited server can be
/// removed. A file that another user could have written is suspicious.
fn passed_over(files: &[&PassedOver]) -> Option<Finding> {
    let first = files.first()?;
    let path = first.path.display();
    let number: usize = files.iter().map(|file| file.num_files).sum();
    Some(match (first.is_dead, number) {
        (true, 1) => {
            let found = format!("{path}: {}", first.reason);
            Finding::warning("servers", found, format!("the file is unused: rm {path}"))
        }
        (true, _) => Finding::warning(
            "servers",
            format!("{number} rendezvous files of servers that have exited, such as {path}"),
            "the files are unused: remove them with their directories",
        ),
        (false, 1) => Finding::fault(
            "servers",
            format!("{path}: {}", first.reason),
            "tools ignore the file: check the owner of the file and of its directory",
        ),
        (false, _) => Finding::fault(
            "servers",
            format!(
                "{number} rendezvous files are rejected, such as {path}: {}",
                first.reason
            ),
            "tools ignore the files: check their owners, or set TMPDIR to a directory of this user",
        ),
    })
}

fn attach(server: &FoundServer, limit: Duration) -> Finding {
    let name = &server.uri.server.nspace;
    let pid = server
        .pid
        .map_or_else(String::new, |pid| format!(", process {pid}"));
    let release = match server.release.as_str() {
        "" => String::new(),
        release => format!(", PMIx {release}"),
    };
    let known = format!("{name}{pid}{release}");
    let mut tool = Tool::new().time_limit(limit);
    match tool.attach(server, |_| {}) {
        Ok(_) => {
            // The server has already replied, so an error of finalize does not matter.
            let _ = tool.finalize();
            Finding::ok("servers", format!("{known}: accepts tools"))
        }
        Err(error) => Finding::fault(
            "servers",
            format!("{known}: {error}"),
            "its process is running but does not accept tools of this user",
        ),
    }
}

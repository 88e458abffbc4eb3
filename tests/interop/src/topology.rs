// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers of the libraries and of ours about the machines of `testdata/topology`, and about this one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::capi;
use crate::peers::{Library, Peer};
use crate::tally::Tally;
use pmix_topology::Topology;
use xtask::{install, process};

/// The name of our library in reports.
const OURS: &str = "ours";

/// The host in the recorded names of devices.
const RECORDED_HOST: &str = "gpu://n1::";

/// Sets of hwloc that a program exchanges with a library.
const BITMAPS: &[&str] = &[
    "0",
    "1-3",
    "63",
    "64",
    "0-63",
    "0-127",
    "5,64,200-300",
    "0-",
    "7-",
    "64-",
    "-",
    "1000",
];

/// A question about a machine and its answer.
type Row = (String, String);

/// The peer program with a library.
struct Asked {
    release: String,
    program: PathBuf,
}

/// Runs the checks.
///
/// # Errors
/// Returns a message if a program does not build or run.
pub(crate) fn run(peers: &[Peer], tally: &mut Tally) -> Result<(), String> {
    let ours = capi::library("dev")?;
    let mut asked = vec![Asked::build(OURS, &ours)?];
    for peer in peers {
        asked.push(Asked::build(&peer.version, &peer.library)?);
    }
    let recorded = recorded()?;
    let written = written(recorded.keys())?;
    for one in &asked {
        let mut compare = |what: &str, folder: &Path| -> Result<(), String> {
            let what = format!("topology: {what}, {}", one.release);
            for (machine, rows) in &recorded {
                let questions: Vec<_> = rows.iter().map(|(question, _)| &**question).collect();
                let description = folder.join(format!("{machine}.xml"));
                let answers = one.ask(Some(&description), &questions)?;
                for ((question, recorded), answer) in rows.iter().zip(answers) {
                    let verb = question.split(' ').next().unwrap_or_default();
                    let told = || format!("{machine}: {question}: {recorded:?}, now {answer:?}");
                    match is_same(verb, recorded, &answer, one.release == OURS) {
                        true => tally.pass(&what),
                        false => tally.fail(&what, &told()),
                    }
                }
            }
            Ok(())
        };
        compare("machines", &data())?;
        if one.release != OURS {
            compare("machines as we write them", &written)?;
        }
        let what = format!("topology: bitmaps of hwloc, {}", one.release);
        let questions: Vec<_> = BITMAPS
            .iter()
            .map(|list| format!("bitmap {list}"))
            .collect();
        let answers = one.ask(None, &questions.iter().map(|q| &**q).collect::<Vec<_>>())?;
        for (list, answer) in BITMAPS.iter().zip(answers) {
            let plain = if *list == "-" { "" } else { list };
            match answer == format!("0 hwloc:{plain} 0 {list}") {
                true => tally.pass(&what),
                false => tally.fail(&what, &format!("{list}: {answer:?}")),
            }
        }
    }
    here(&asked, tally)
}

/// Writes the machines as our crate exports them, into a folder.
fn written<'a>(machines: impl Iterator<Item = &'a String>) -> Result<PathBuf, String> {
    let folder = install::scratch("interop/topology/written")?;
    for machine in machines {
        let name = format!("{machine}.xml");
        let topology = Topology::of_xml_file(&data().join(&name)).map_err(|e| e.to_string())?;
        let (path, topology) = (folder.join(name), topology.without_xml());
        let done = std::fs::write(&path, &*topology.to_xml());
        done.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(folder)
}

/// Checks the answers of all libraries about this machine, without a description.
fn here(asked: &[Asked], tally: &mut Tally) -> Result<(), String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut questions = vec![
        "bound process".to_owned(),
        "bound thread".to_owned(),
        format!("set 0-{}", cpus - 1),
        format!("distances 0-{} all", cpus - 1),
    ];
    for cpu in 0..cpus {
        questions.push(format!("set {cpu}"));
        questions.push(format!("distances {cpu} all"));
    }
    let questions: Vec<_> = questions.iter().map(|question| &**question).collect();
    let Some((ours, theirs)) = asked.split_first() else {
        return Ok(());
    };
    let mine = ours.ask(None, &questions)?;
    for other in theirs {
        let what = format!("topology: this machine, {}", other.release);
        let answers = other.ask(None, &questions)?;
        for ((question, mine), theirs) in questions.iter().zip(&mine).zip(answers) {
            let verb = question.split(' ').next().unwrap_or_default();
            match is_same(verb, &theirs, mine, true) {
                true => tally.pass(&what),
                false => {
                    tally.fail(
                        &what,
                        &format!("{question}: ours {mine:?}, theirs {theirs:?}"),
                    );
                }
            }
        }
    }
    Ok(())
}

/// Returns `true` if an answer is the recorded one. Some statuses of ours may differ: ours succeeds where the others
/// never do, and reports an error where they query a server.
fn is_same(verb: &str, recorded: &str, answer: &str, is_ours: bool) -> bool {
    let failed = |answer: &str| answer.starts_with('-') && !answer.contains(' ');
    let rest = |answer: &str| answer.split_once(' ').map(|(_, rest)| rest.to_owned());
    match verb {
        "shared" if is_ours => answer.starts_with("0 ") && rest(recorded) == rest(answer),
        "distances" if is_ours && failed(recorded) => failed(answer),
        _ => recorded == answer,
    }
}

/// Returns the recorded questions and answers of each machine.
fn recorded() -> Result<BTreeMap<String, Vec<Row>>, String> {
    let path = data().join("answers.tsv");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut found: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let columns: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let [machine, question, answer] = <[String; 3]>::try_from(columns)
            .map_err(|row| format!("{}: {row:?} has not three columns", path.display()))?;
        found.entry(machine).or_default().push((question, answer));
    }
    Ok(found)
}

fn data() -> PathBuf {
    process::root().join("testdata/topology")
}

impl Asked {
    fn build(release: &str, library: &Library) -> Result<Self, String> {
        let program = install::scratch("interop/topology")?.join(format!("peer-{release}"));
        let source = process::root().join("tests/interop/topology");
        library.compile_with(&program, &source, &[source.join("peer.c")])?;
        Ok(Self {
            release: release.to_owned(),
            program,
        })
    }

    /// Returns the answers of the library, one for each question, about a described machine or this one.
    fn ask(&self, machine: Option<&Path>, questions: &[&str]) -> Result<Vec<String>, String> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PMIX_") {
                command.env_remove(name);
            }
        }
        command.env_remove("HWLOC_XMLFILE");
        if let Some(machine) = machine {
            command.env("HWLOC_XMLFILE", machine);
            command.env("HWLOC_THISSYSTEM", "1");
        }
        command.env("PMIX_MCA_gds", "hash");
        command.env("PMIX_MCA_pmix_keep_fqdn_hostnames", "1");
        let said = with_input(&mut command, &format!("{}\n", questions.join("\n")))?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
        let host = host.map_err(|e| format!("the name of this host: {e}"))?;
        let said = match machine {
            Some(_) => said.replace(&format!("gpu://{}::", host.trim()), RECORDED_HOST),
            None => said,
        };
        let answers: Vec<_> = said.lines().map(str::to_owned).collect();
        match answers.len() == questions.len() {
            true => Ok(answers),
            false => Err(format!(
                "{}, {machine:?}: {} answers to {} questions",
                self.release,
                answers.len(),
                questions.len()
            )),
        }
    }
}

/// Runs a command with a file as its input, so that neither side blocks, and returns the output.
fn with_input(command: &mut Command, input: &str) -> Result<String, String> {
    let path: &Path = &install::scratch("interop/topology")?.join("questions");
    let fault = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::write(path, input).map_err(fault)?;
    command.stdin(std::fs::File::open(path).map_err(fault)?);
    let done = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    match done.status.success() {
        true => Ok(said),
        false => Err(format!(
            "{command:?} ended with {}: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr)
        )),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Binary compatibility with the releases, checked by `abidiff` of libabigail.
//!
//! The exported functions are compared directly. Types are compared by a C library that declares a
//! variable for each public function and type, compiled with each release's headers and with ours.
//! This library is needed because the libraries themselves do not describe the arguments of their
//! functions. The headers of 4.2.2 are the installed ones. Those of 5.0.11 are described in
//! `testdata/abi`, as `abidw` writes it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers::{Library, Peer};
use crate::server::missing;
use crate::tally::Tally;
use xtask::{install, process};

/// The Debian packages that this check needs.
const PACKAGES: &[&str] = &["abigail-tools"];

/// The releases as the tables name them, and the description of their headers if they are not installed.
const RELEASES: [(&str, Option<&str>); 2] =
    [("4.2.2", None), ("5.0.11", Some("openpmix-5.0.11.abi"))];

/// Compares our library with each peer's.
///
/// # Errors
/// Returns a message if a folder cannot be created or a table cannot be read.
pub(super) fn run(library: &Library, peers: &[Peer], tally: &mut Tally) -> Result<(), String> {
    install::packages(PACKAGES);
    if process::output(Command::new("abidiff").arg("--version")).is_err() {
        missing("no abidiff: install abigail-tools", tally);
        return Ok(());
    }
    let home = install::scratch("sanitize/abi")?;
    for (release, said) in RELEASES {
        let Some(peer) = peers.iter().find(|peer| peer.version.starts_with(release)) else {
            missing(&format!("no release {release} to compare with"), tally);
            continue;
        };
        let what = format!("abi: functions that {release} exports");
        match functions(peer.library.file(), library.file()) {
            Ok(count) => tally.passes(&what, count),
            Err(why) => tally.fail(&what, &why),
        }
        let what = format!("abi: public types of {release}");
        match types(release, said, peer, &home)? {
            Ok(count) => tally.passes(&what, count),
            Err(why) => tally.fail(&what, &why),
        }
    }
    Ok(())
}

/// Returns the number of their public functions, all of which must be in ours.
fn functions(theirs: &Path, ours: &Path) -> Result<usize, String> {
    let mut command = Command::new("nm");
    let names = process::output(command.args(["-D", "--defined-only"]).arg(theirs))?;
    let names = String::from_utf8_lossy(&names).into_owned();
    let count = names.matches(" T PMIx_").count();
    let (_, report) = abidiff(theirs, ours, &[])?;
    let gone = |prefix: &str| -> Vec<_> {
        let names = report.lines().filter_map(|l| l.trim().strip_prefix("[D] "));
        names.filter(|name| name.starts_with(prefix)).collect()
    };
    // Internal functions are missing in ours, which proves that abidiff compared the two.
    if gone("pmix_").len() < 100 || count < 100 {
        return Err(format!("nothing was compared: {report}"));
    }
    match gone("PMIx_") {
        missing if missing.is_empty() => Ok(count),
        missing => Err(format!("not in ours: {}", missing.join(" "))),
    }
}

/// Returns the number of types of a release that are the same in ours. All must be, except for
/// additions.
fn types(
    release: &str,
    said: Option<&str>,
    peer: &Peer,
    home: &Path,
) -> Result<Result<usize, String>, String> {
    let (text, count) = declarations(release)?;
    let source = home.join(format!("types-{release}.c"));
    std::fs::write(&source, text).map_err(|e| format!("{}: {e}", source.display()))?;
    let folder = process::root().join("testdata/abi");
    let compile = |headers: &Path, name: &str, more: &[&str]| -> Result<PathBuf, String> {
        let library = home.join(format!("types-{release}-{name}.so"));
        let mut command = Command::new("gcc");
        command.args(["-g", "-shared", "-fPIC"]).args(more);
        // The declarations also name deprecated functions, and functions that are macros under another name.
        command.args(["-w", "-I"]).arg(headers).arg(&source);
        process::output(command.arg("-o").arg(&library))?;
        Ok(library)
    };
    let headers = process::root().join("include");
    let ours = compile(&headers, "ours", &[])?;
    let planted = compile(&headers, "planted", &["-Dmaxprocs=maxprocs, planted"])?;
    let theirs = match said {
        Some(file) => folder.join(file),
        None => compile(peer.library.include(), "theirs", &[])?,
    };
    let allowed = folder.join("additions.ini");
    let same = |ours: &Path| abidiff(&theirs, ours, &[Path::new("--suppr"), &allowed]);
    // Prove that abidiff detects a change: a member planted in a structure must be reported.
    if same(&planted)?.0 {
        return Ok(Err("a structure that has changed is not seen".to_owned()));
    }
    Ok(match same(&ours)? {
        (true, _) => Ok(count),
        (false, report) => Err(report),
    })
}

/// Returns `true` if two libraries are the same, and the output of abidiff.
fn abidiff(theirs: &Path, ours: &Path, more: &[&Path]) -> Result<(bool, String), String> {
    let mut command = Command::new("abidiff");
    command
        .arg("--no-added-syms")
        .args(more)
        .args([theirs, ours]);
    let output = command.output().map_err(|e| format!("abidiff: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => Ok((true, said)),
        // Exit status bits: 1 and 2 report an error of abidiff or its arguments, 4 and 8 a change.
        Some(code) if code & 3 == 0 => Ok((false, said)),
        _ => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!(
                "{}: {}: {why}",
                process::shown(&command),
                output.status
            ))
        }
    }
}

/// Returns C declarations of a variable for each function and type of a release, and their number.
fn declarations(release: &str) -> Result<(String, usize), String> {
    let column = format!("in_{release}");
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        // This type has different members at its end in each release. The functions that take it
        // show the change.
        if name != "pmix_server_module_t" && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    };
    for (table, wanted, yes, of) in [
        ("structs", "version", release, "struct"),
        ("typedefs", &*column, "1", "name"),
        ("callbacks", &*column, "1", "name"),
        ("enums", &*column, "1", "group"),
    ] {
        for name in values(table, wanted, yes, of)? {
            if name.starts_with("pmix_") {
                add(&name);
            }
        }
    }
    let functions = values("functions", &column, "1", "function")?;
    let mut text = String::from("#include <pmix_server.h>\n#include <pmix_tool.h>\n");
    for name in &names {
        let _ = writeln!(text, "{name} a_{name};");
    }
    for name in &functions {
        let _ = writeln!(text, "__typeof__(&{name}) to_{name} = 0;");
    }
    Ok((text, names.len() + functions.len()))
}

/// Returns the values of a column of `data/TABLE.tsv`, in the rows in which another column has a given value.
fn values(table: &str, wanted: &str, value: &str, of: &str) -> Result<Vec<String>, String> {
    let path = process::root().join(format!("data/{table}.tsv"));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let place = |name: &str| {
        let found = head.split('\t').position(|column| column == name);
        found.ok_or_else(|| format!("{}: no column {name}", path.display()))
    };
    let (wanted, of) = (place(wanted)?, place(of)?);
    let cell = |line: &str, place: usize| line.split('\t').nth(place).map(str::to_owned);
    let rows = lines.filter(|line| cell(line, wanted).as_deref() == Some(value));
    Ok(rows.filter_map(|line| cell(line, of)).collect())
}

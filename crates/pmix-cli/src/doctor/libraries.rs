// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check of the files `libpmix.so.2` that C programs load, and of their versions.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Finding, Subject};

/// The name of the library that programs load.
const NAME: &str = "libpmix.so.2";
/// Directories that the loader searches in addition to `LD_LIBRARY_PATH` and `/etc/ld.so.conf.d`.
const USUAL: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// The maximum size of a library in bytes.
pub(super) const LARGEST: u64 = 256 << 20;
/// The beginning of the version text in the library of this project.
const OURS: &str = "pmix-rs ";
/// The launcher of PRRTE. Its server is the library with which it was built.
const PRTERUN: &str = "prterun";
/// The parameter that selects the datastores of a client or server of OpenPMIx.
const STORE: &str = "PMIX_MCA_gds";
/// The text after the name and version in each library.
const MARK: &[u8] = b" (PMIx Standard:";

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The files in the order of the loader, each once.
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    let mut seen = Vec::new();
    for path in candidates(subject) {
        if fs::symlink_metadata(&path).is_err() {
            continue;
        }
        let real = match fs::canonicalize(&path) {
            Ok(real) if seen.contains(&real) => continue,
            Ok(real) => real,
            Err(error) => {
                findings.push(unusable(&path, &error.to_string()));
                continue;
            }
        };
        seen.push(real.clone());
        match version(&real) {
            Ok(version) => found.push((path, version)),
            // The loader passes over such a file, and systems with libraries of two processors have one.
            Err(why) if why == OTHER_MACHINE && !is_named(subject, &path) => {}
            Err(why) if why == OTHER_MACHINE => findings.push(Finding::warning(
                "libpmix",
                format!("{} is not loaded: {why}", path.display()),
                "remove its directory from LD_LIBRARY_PATH, or install the library for this processor there",
            )),
            Err(why) => findings.push(unusable(&path, &why)),
        }
    }
    let Some((first, version)) = found.first() else {
        let none = format!(
            "no {NAME} found: only programs in Rust or with their own PMIx library can use PMIx"
        );
        findings.push(Finding::ok("libpmix", none));
        return findings;
    };
    let others: Vec<_> = found
        .iter()
        .skip(1)
        .filter(|(_, other)| other != version)
        .collect();
    if version.starts_with(OURS) {
        findings.extend(prterun(subject));
    }
    let known = format!("{version} in {}", first.display());
    findings.push(match &others[..] {
        [] => Finding::ok("libpmix", known),
        others => {
            let others = others.iter().map(|(path, version)| format!("{version} in {}", path.display()));
            let others: Vec<_> = others.collect();
            Finding::warning(
                "libpmix",
                format!("{known}; also {}", others.join(", ")),
                "a program loads one of them, depending on LD_LIBRARY_PATH and its RUNPATH: see `ldd PROGRAM`",
            )
        }
    });
    findings
}

/// Returns a warning if prterun uses a datastore that clients with this project's library do not
/// have.
fn prterun(subject: &Subject<'_>) -> Option<Finding> {
    if subject.var(STORE).is_some_and(|store| store == "hash") {
        return None;
    }
    let program = subject.program(PRTERUN)?;
    Some(Finding::warning(
        PRTERUN,
        format!(
            "{} can start programs that load {NAME} of pmix-rs, but {STORE} is not set to hash",
            program.display()
        ),
        format!(
            "if such a program spawns processes, set {STORE}=hash in the environment of prterun, so that all \
            connected processes use the same kind of store"
        ),
    ))
}

fn unusable(path: &Path, why: &str) -> Finding {
    Finding::fault(
        "libpmix",
        format!("{} cannot be loaded: {why}", path.display()),
        "remove it, or install the library again",
    )
}

/// The reason for which the loader passes over a library.
const OTHER_MACHINE: &str =
    "it is for another kind of processor, or for another word size, than this command";

/// Returns `true` if LD_LIBRARY_PATH names the directory of a file.
fn is_named(subject: &Subject<'_>, path: &Path) -> bool {
    let named = subject.var("LD_LIBRARY_PATH").unwrap_or_default();
    named
        .split([':', ';'])
        .any(|dir| !dir.is_empty() && path.parent() == Some(Path::new(dir)))
}

/// Returns the files that the loader would try.
fn candidates(subject: &Subject<'_>) -> Vec<PathBuf> {
    let named = subject.var("LD_LIBRARY_PATH").unwrap_or_default();
    let named = named
        .split([':', ';'])
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from);
    let mut dirs: Vec<_> = named.collect();
    let mut files: Vec<_> = {
        fs::read_dir("/etc/ld.so.conf.d")
            .into_iter()
            .flatten()
            .flatten()
    }
    .map(|entry| entry.path())
    .collect();
    files.sort();
    for file in files {
        let text = pmix_files::read_regular(&file, 1 << 16).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with('/'));
        dirs.extend(lines.map(PathBuf::from));
    }
    dirs.extend(USUAL.iter().map(PathBuf::from));
    dirs.into_iter().map(|dir| dir.join(NAME)).collect()
}

/// Returns the class (32 or 64 bits), the byte order and the machine in the header of an ELF file. Returns `None` for a
/// file without a whole header.
fn machine(bytes: &[u8]) -> Option<([u8; 2], [u8; 2])> {
    let class = bytes.get(4..6)?.try_into().ok()?;
    let machine = bytes.get(18..20)?.try_into().ok()?;
    // The header has 52 bytes or more.
    (bytes.len() >= 52).then_some((class, machine))
}

/// Returns the same of this command.
fn own_machine() -> Option<([u8; 2], [u8; 2])> {
    let own = std::env::current_exe().ok()?;
    let mut header = [0; 64];
    let mut file = fs::File::open(own).ok()?;
    std::io::Read::read_exact(&mut file, &mut header).ok()?;
    machine(&header)
}

/// Returns the first library that programs load, with its version.
pub(super) fn first(subject: &Subject<'_>) -> Option<(PathBuf, String)> {
    let found = candidates(subject).into_iter().find(|path| path.exists())?;
    let version = version(&found).ok()?;
    Some((found, version))
}

/// The maximum length in bytes of a name with a version.
const LONGEST_NAME: usize = 64;

/// Returns the name and version in the file of a library.
///
/// # Errors
/// Returns a message if the file cannot be read or is no library.
pub(super) fn version(path: &Path) -> Result<String, String> {
    let bytes = pmix_files::read_regular(path, LARGEST).map_err(|error| error.to_string())?;
    if !bytes.starts_with(b"\x7fELF") {
        return Err("not a shared library".to_owned());
    }
    if let (Some(theirs), Some(own)) = (machine(&bytes), own_machine())
        && theirs != own
    {
        return Err(OTHER_MACHINE.to_owned());
    }
    let Some(at) = memchr::memmem::find(&bytes, MARK) else {
        // Libraries before 4.2 have no text about the Standard.
        return Ok("an unknown version".to_owned());
    };
    let before = bytes.get(..at).unwrap_or_default();
    let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let len = before
        .iter()
        .rev()
        .take(LONGEST_NAME)
        .take_while(|byte| is_text(byte))
        .count();
    let text = before.get(at - len..).unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

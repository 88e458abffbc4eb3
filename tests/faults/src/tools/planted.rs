// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files planted where `pmix query` looks for a server.

use std::fs::{self, Permissions};
use std::io::{Error, ErrorKind, Result as IoResult};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use super::{NOBODY, PATIENCE};
use crate::launcher::build;
use crate::server::me;
use crate::wait::until;
use crate::{Field, Verdict};

/// A function that plants an object in place of a server's file, given the content of a true one.
type Plant = fn(&Path, &str) -> IoResult<()>;

/// A kind of planted file.
struct Planted {
    what: &'static str,
    plant: Plant,
    /// The reason that the tool prints; empty if the tool must behave as if there were no file.
    reason: &'static str,
    /// `true` if only root can plant it.
    by_root: bool,
}

const fn by_user(what: &'static str, plant: Plant, reason: &'static str) -> Planted {
    Planted {
        what,
        plant,
        reason,
        by_root: false,
    }
}

const fn by_root(what: &'static str, plant: Plant, reason: &'static str) -> Planted {
    let by_root = true;
    Planted {
        by_root,
        ..by_user(what, plant, reason)
    }
}

/// The planted files. The tool follows a link that its user owns, but it must follow none of these.
const PLANTS: &[Planted] = &[
    by_root("a link of another user", foreign_link, "65534"),
    by_root("a file of another user", foreign_file, "65534"),
    by_user("a link to nothing", |at, _| symlink("nowhere", at), ""),
    by_user(
        "a link to a device",
        |at, _| symlink("/dev/zero", at),
        "not a regular file",
    ),
    by_user("a pipe", pipe, "not a regular file"),
    by_user("a huge file", huge, "more than 4096 bytes"),
    by_user(
        "a file that others may write to",
        |at, text| write(at, text).and_then(|()| chmod(at, 0o666)),
        "others may write to it",
    ),
    by_user("a file in an open directory", open_directory, "others may"),
    by_user(
        "no address",
        |at, _| write(at, "who knows\n"),
        "is not the address of a server",
    ),
    by_user(
        "binary nonsense",
        |at, _| fs::write(at, [0xff; 300]),
        "is not the address of a server",
    ),
    by_user("the number of no process", ended, "is not running"),
    by_user("the number of a later process", later, "is not running"),
    by_user(
        "the address of another node",
        |at, text| write(at, &text.replace("127.0.0.1", "192.0.2.1")),
        "is not an address of this node",
    ),
];

/// The name of a server's file, and the options by which the tool looks for it.
const NAMES: &[(&str, &[&str])] = &[
    ("pmix.n01.tool.77", &["--session"]),
    ("pmix.n01.tool.77", &["--pid", "77"]),
    ("pmix.sys.n01", &["--system"]),
];

/// Plants each file, and runs the tool.
pub(crate) fn planted(field: &Field) -> Result<Verdict, String> {
    let pmix = build(field)?;
    let top = field.directory("tool-planted")?;
    let fault = |e: Error| e.to_string();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fault)?;
    listener.set_nonblocking(true).map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    let pid = std::process::id();
    let text = format!("planted.0;tcp4://{address}\n5.0.11\n{pid}\n0:0\n\n\n");
    let is_root = me().0 == 0;
    let possible = |planted: &&Planted| is_root || !planted.by_root;
    let plants: Vec<_> = PLANTS.iter().filter(possible).collect();
    let sessions = top.join("sessions");
    for (name, options) in NAMES {
        for Planted {
            what,
            plant,
            reason,
            ..
        } in &plants
        {
            let failed = |why: String| format!("{what} as {name}: {why}");
            fs::create_dir(&sessions).map_err(fault)?;
            plant(&sessions.join(name), &text).map_err(|e| failed(e.to_string()))?;
            let said = ask(&pmix, options, &sessions).map_err(failed)?;
            if !said.contains(reason) {
                return Err(failed(format!("{said:?} does not say {reason:?}")));
            }
            if listener.accept().is_ok() {
                return Err(failed("the tool connected".to_owned()));
            }
            fs::remove_dir_all(&sessions).map_err(fault)?;
        }
        // Check the counterpart: the tool follows the same text in a trusted file. The failures above are then due to
        // the plants.
        fs::create_dir(&sessions).map_err(fault)?;
        write(&sessions.join(name), &text).map_err(fault)?;
        let mut child = command(&pmix, options, &sessions).spawn().map_err(fault)?;
        let came = until(PATIENCE, || listener.accept().ok());
        let _ = child.kill();
        let _ = child.wait();
        came.ok_or_else(|| format!("a true file {name} is not used"))?;
        fs::remove_dir_all(&sessions).map_err(fault)?;
    }
    let (num, ways) = (plants.len(), NAMES.len());
    let without = match is_root {
        true => "",
        false => "; those of another user need root",
    };
    Ok(Verdict::Held(format!(
        "{num} kinds passed over in {ways} ways, no connection to any of them{without}"
    )))
}

fn write(at: &Path, text: &str) -> IoResult<()> {
    fs::write(at, text)?;
    chmod(at, 0o600)
}

fn chmod(at: &Path, mode: u32) -> IoResult<()> {
    fs::set_permissions(at, Permissions::from_mode(mode))
}

/// Changes the mode of the directory of a file.
fn directory(at: &Path, mode: u32) -> IoResult<()> {
    chmod(at.parent().ok_or(ErrorKind::NotFound)?, mode)
}

/// Plants a link to a trustworthy file in a directory in which every user may create files.
fn foreign_link(at: &Path, text: &str) -> IoResult<()> {
    directory(at, 0o1777)?;
    write(&at.with_file_name("real"), text)?;
    symlink("real", at)?;
    lchown(at, Some(NOBODY), None)
}

fn foreign_file(at: &Path, text: &str) -> IoResult<()> {
    directory(at, 0o1777)?;
    write(at, text)?;
    chown(at, Some(NOBODY), None)
}

fn pipe(at: &Path, _: &str) -> IoResult<()> {
    match Command::new("mkfifo").arg(at).status()?.success() {
        true => Ok(()),
        false => Err(Error::other("mkfifo made no pipe")),
    }
}

fn huge(at: &Path, text: &str) -> IoResult<()> {
    write(at, text)?;
    let file = fs::OpenOptions::new().write(true).open(at)?;
    file.set_len(1 << 40)
}

/// Plants a file in a directory in which any user can replace it.
fn open_directory(at: &Path, text: &str) -> IoResult<()> {
    write(at, text)?;
    directory(at, 0o777)
}

/// Names a process ID that is too high for any process on Linux.
fn ended(at: &Path, text: &str) -> IoResult<()> {
    let own = format!("\n{}\n", std::process::id());
    write(at, &text.replace(&own, "\n2147483640\n"))
}

/// Names a process that started after the file was written.
fn later(at: &Path, text: &str) -> IoResult<()> {
    write(at, text)?;
    let file = fs::OpenOptions::new().write(true).open(at)?;
    file.set_modified(UNIX_EPOCH + Duration::from_secs(86_400))
}

fn command(pmix: &Path, options: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(pmix);
    command
        .arg("query")
        .args(options)
        .arg("QUERY_NAMESPACES")
        .env("PMIX_SERVER_TMPDIR", directory)
        .env("PMIX_SYSTEM_TMPDIR", directory)
        .env("PMIX_HOSTNAME", "n01")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Returns the output of the tool, which finds no server.
fn ask(pmix: &Path, options: &[&str], directory: &Path) -> Result<String, String> {
    let child = command(pmix, options, directory).spawn();
    let mut child = child.map_err(|e| e.to_string())?;
    let ended = until(PATIENCE, || child.try_wait().ok().flatten());
    let Some(status) = ended else {
        let _ = child.kill();
        let _ = child.wait();
        return Err("the tool does not end".to_owned());
    };
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match status.success() {
        true => Err(format!("the tool found a server: {said}")),
        false => Ok(said),
    }
}

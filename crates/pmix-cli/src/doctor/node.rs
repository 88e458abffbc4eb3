// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of the node and of directories: name, limits, interfaces, owners, and free space.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{Resource, getrlimit};

use super::{Finding, Subject, Verdict};

/// The time limit for a connection to this node.
const CONNECT: Duration = Duration::from_secs(2);

/// The number of free descriptors below which even a job of one process may fail.
const FEWEST_DESCRIPTORS: u64 = 64;

/// The number of descriptors for a job on a full node.
const FEW_DESCRIPTORS: u64 = 1024;

/// The number of processes below which even a small job may fail: a launcher, its watcher and some
/// processes.
const FEWEST_PROCESSES: u64 = 64;

/// The variables that select interfaces in this project's command, in OpenPMIx, PRRTE and Open MPI.
const INTERFACES: &[&str] = &[
    "PMIX_MCA_ptl_base_if_include",
    "PMIX_MCA_ptl_tcp_if_include",
    "PRTE_MCA_oob_tcp_if_include",
    "OMPI_MCA_oob_tcp_if_include",
    "OMPI_MCA_btl_tcp_if_include",
];

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = vec![
        about(),
        name(subject),
        descriptors(),
        processes(),
        loopback(),
    ];
    findings.extend(named_interfaces(subject));
    findings
}

fn about() -> Finding {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    Finding::ok(
        "system",
        format!(
            "pmix-rs {}, {} {} {}, user {}, group {}",
            env!("CARGO_PKG_VERSION"),
            text(system.sysname()),
            text(system.release()),
            text(system.machine()),
            user.as_raw(),
            group.as_raw(),
        ),
    )
}

/// Checks the name of this node in rendezvous files.
fn name(subject: &Subject<'_>) -> Finding {
    let system = rustix::system::uname();
    let own = system.nodename().to_string_lossy().into_owned();
    let short = own.split('.').next().unwrap_or_default();
    match subject.var("PMIX_HOSTNAME") {
        Some(name) if name != own && name != short => Finding::warning(
            "hostname",
            format!("PMIX_HOSTNAME is {name}, but the host name of this node is {own}"),
            "tools cannot find servers whose rendezvous files have another host name; unset PMIX_HOSTNAME \
            unless a launcher set it",
        ),
        _ => Finding::ok("hostname", own),
    }
}

fn descriptors() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit
        .maximum
        .map_or_else(|| "unlimited".to_owned(), |n| n.to_string());
    let Some(soft) = limit.current else {
        return Finding::ok("descriptors", "unlimited");
    };
    let found = format!("{soft} (ulimit -n), maximum {hard} (ulimit -Hn)");
    let help = "a server needs one descriptor for each process, and two more for each process whose output \
    it forwards; raise the limit with ulimit -n";
    match (soft < FEWEST_DESCRIPTORS, soft < FEW_DESCRIPTORS) {
        (true, _) => Finding::fault("descriptors", found, help),
        (_, true) => Finding::warning("descriptors", found, help),
        _ => Finding::ok("descriptors", found),
    }
}

fn processes() -> Finding {
    match getrlimit(Resource::Nproc).current {
        Some(most) if most < FEWEST_PROCESSES => Finding::warning(
            "processes",
            format!("this user can have {most} processes (ulimit -u)"),
            "the limit applies to all sessions of the user; raise it with ulimit -u",
        ),
        Some(most) => Finding::ok("processes", format!("{most} (ulimit -u)")),
        None => Finding::ok("processes", "unlimited"),
    }
}

/// Checks the loopback interface, through which clients connect to their server.
fn loopback() -> Finding {
    // A socket can listen at the address of an interface that is down, but no client reaches it.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener
        .as_ref()
        .map_err(|error| error.kind())
        .and_then(|listener| listener.local_addr().map_err(|error| error.kind()));
    let connected = match (&listener, address) {
        (Ok(_), Ok(address)) => TcpStream::connect_timeout(&address, CONNECT).map(|_| ()),
        (Ok(_), Err(kind)) => Err(kind.into()),
        (Err(error), _) => Err(error.kind().into()),
    };
    if let Err(error) = connected {
        let what = if listener.is_ok() {
            "connect to"
        } else {
            "listen on"
        };
        return Finding::fault(
            "interfaces",
            format!("cannot {what} 127.0.0.1: {error}"),
            "clients reach their server at this address; bring the loopback interface up: ip link set lo up",
        );
    }
    let mut names: Vec<_> = {
        fs::read_dir("/sys/class/net")
            .into_iter()
            .flatten()
            .flatten()
    }
    .map(|entry| {
        let state = fs::read_to_string(entry.path().join("operstate")).unwrap_or_default();
        let name = entry.file_name().to_string_lossy().into_owned();
        format!("{name} {}", state.trim())
    })
    .collect();
    names.sort();
    Finding::ok("interfaces", names.join(", "))
}

/// Reports selected interfaces that do not exist.
fn named_interfaces(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for variable in INTERFACES {
        let Some(list) = subject.var(variable) else {
            continue;
        };
        // Words with these characters are networks, not interfaces.
        let is_name = |word: &&str| !word.is_empty() && !word.contains(['/', '.', ':']);
        let names = list.split(',').map(str::trim).filter(is_name);
        let missing: Vec<_> = names
            .filter(|name| !Path::new("/sys/class/net").join(name).exists())
            .collect();
        if !missing.is_empty() {
            findings.push(Finding::fault(
                "interfaces",
                format!(
                    "{variable} names {}, which does not exist on this node",
                    missing.join(", ")
                ),
                "`ip link` lists the interfaces of this node",
            ));
        }
    }
    findings
}

/// The free bytes below which a session directory does not work.
const LEAST_ROOM: u64 = 1 << 20;

/// The free bytes below which a job that writes output files may soon fail.
const LITTLE_ROOM: u64 = 64 << 20;

/// The number of files of a small job.
const FEWEST_FILES: u64 = 100;

/// The mode bits that let other users write.
const WRITE_OF_OTHERS: u32 = 0o022;

const STICKY: u32 = 0o1000;

pub(super) fn check_places(subject: &Subject<'_>) -> Vec<Finding> {
    let session = subject.directory(&["PMIX_SERVER_TMPDIR", "TMPDIR", "TEMP", "TMP"]);
    let system = subject.directory(&["PMIX_SYSTEM_TMPDIR", "TMPDIR", "TEMP", "TMP"]);
    let mut findings = vec![directory("tmpdir", &session)];
    findings.extend(left_over(&session));
    if system != session {
        findings.push(directory("system-tmpdir", &system));
    }
    findings.push(directory("shm", &subject.shm));
    findings
}

/// The number of entries of a directory that are searched for sessions, because any user can fill it.
const MOST_ENTRIES: usize = 100_000;

/// Reports session directories of launchers that have ended.
fn left_over(dir: &Path) -> Option<Finding> {
    let prefix = format!("pmix-run.{}.", rustix::process::getuid().as_raw());
    let entries = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .take(MOST_ENTRIES);
    let mut left: Vec<_> = entries
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(prefix.as_bytes())
        })
        .map(|entry| entry.path())
        .filter(|path| is_left_over(path))
        .collect();
    left.sort();
    let first = left.first()?;
    let found = match left.len() {
        1 => format!(
            "{} is the session of a launcher that has ended",
            first.display()
        ),
        number => format!(
            "{number} sessions of launchers that have ended, such as {}",
            first.display()
        ),
    };
    Some(Finding::warning(
        "sessions",
        found,
        "the next `pmix run` with this TMPDIR removes them",
    ))
}

/// Returns `true` for a session directory of this user whose lock no launcher holds. The launcher removes only those.
fn is_left_over(path: &Path) -> bool {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::open(path, flags, Mode::empty()) else {
        return false;
    };
    let owner = rustix::fs::fstat(&dir).map(|about| about.st_uid);
    owner == Ok(rustix::process::geteuid().as_raw())
        && rustix::fs::flock(&dir, FlockOperation::NonBlockingLockShared).is_ok()
}

/// Checks a directory in which this user creates files that others must not replace.
fn directory(check: &'static str, path: &Path) -> Finding {
    let shown = path.display();
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) => {
            let help = match check {
                "shm" => {
                    "MPI libraries need it for shared memory; mount a tmpfs, or name another directory with --shm"
                }
                _ => "create it, or set TMPDIR to another directory",
            };
            return Finding::fault(check, format!("{shown}: {error}"), help);
        }
    };
    if !about.is_dir() {
        let found = format!("{shown} is not a directory");
        return Finding::fault(check, found, "set TMPDIR to another directory");
    }
    let (uid, mode) = (about.uid(), about.permissions().mode() & 0o7777);
    let own = rustix::process::geteuid().as_raw();
    let known = format!("{shown}: user {uid}, mode {mode:04o}");
    if uid != 0 && uid != own {
        let help = "its owner can replace the files in it: use a directory of root or of this user";
        return Finding::fault(check, format!("{known}, owned by another user"), help);
    }
    if mode & WRITE_OF_OTHERS != 0 && mode & STICKY == 0 {
        let help = format!("other users can replace the files in it: chmod +t {shown}");
        return Finding::fault(check, format!("{known}, writable by other users"), help);
    }
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    if let Err(error) = rustix::fs::access(path, access) {
        let help = "this user cannot make files there: set TMPDIR to another directory";
        return Finding::fault(check, format!("{known}: {error}"), help);
    }
    let room = room(check, path, &known);
    if room.verdict == Verdict::Ok && check != "shm" && path.as_os_str().len() > LONGEST_PATH {
        let found = format!("{known}, a path of {} bytes", path.as_os_str().len());
        let help = "the path of a socket has at most 107 bytes, and MPI libraries and prterun make sockets below it: set \
                    TMPDIR to a shorter path";
        return Finding::warning(check, found, help);
    }
    room
}

/// The length of a path in bytes that leaves room for the names of sockets below it.
const LONGEST_PATH: usize = 64;

fn room(check: &'static str, path: &Path, known: &str) -> Finding {
    let Ok(system) = rustix::fs::statvfs(path) else {
        return Finding::warning(check, format!("{known}, free space unknown"), "see `df`");
    };
    let bytes = system.f_bavail.saturating_mul(system.f_frsize);
    let found = format!("{known}, {} MiB free", bytes >> 20);
    // File systems that do not count files report 0.
    let has_files = system.f_files == 0 || system.f_favail >= FEWEST_FILES;
    let help = "remove unneeded files, or set TMPDIR to another directory";
    if !has_files {
        let found = format!("{found}, {} free inodes", system.f_favail);
        return Finding::fault(check, found, help);
    }
    match (bytes < LEAST_ROOM, bytes < LITTLE_ROOM) {
        (true, _) => Finding::fault(check, found, help),
        (_, true) => Finding::warning(check, found, help),
        _ => Finding::ok(check, found),
    }
}

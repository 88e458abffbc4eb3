// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checks of what the system must provide: /proc, /dev/null, the clock, and the address of this node.

use std::fs::{self, OpenOptions};
use std::net::ToSocketAddrs as _;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use super::{Finding, Subject};

/// The difference from which a clock is wrong, not only a little late.
const LATE: Duration = Duration::from_secs(24 * 60 * 60);

/// Checks the system. The name of this node is resolved within the time limit.
pub(super) fn check(subject: &Subject<'_>, limit: Duration) -> Vec<Finding> {
    let mut findings = vec![proc(), null()];
    findings.extend(clock());
    findings.extend(address(subject, limit));
    findings
}

/// Checks that /proc is mounted, and shows the processes of other users.
fn proc() -> Finding {
    if let Err(error) = fs::metadata("/proc/self/stat") {
        return Finding::fault(
            "proc",
            format!("/proc has no processes: {error}"),
            "mount -t proc proc /proc: the launcher, tools and MPI libraries read it",
        );
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    match hidden(&mounts) {
        Some(option) => Finding::warning(
            "proc",
            format!(
                "/proc is mounted with {option}: a user sees little of the processes of others"
            ),
            "tools and servers cannot check processes of other users; mount /proc with gid=GROUP for the users of both, \
             or without the option",
        ),
        None => Finding::ok("proc", "/proc shows all processes"),
    }
}

/// Returns the option of the last mount of /proc that hides processes.
fn hidden(mounts: &str) -> Option<&str> {
    let proc = mounts.lines().rev().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        (words.next()? == "/proc").then(|| words.nth(1))?
    })?;
    let mut options = proc
        .split(',')
        .filter(|option| option.starts_with("hidepid="));
    options.find(|option| !matches!(*option, "hidepid=0" | "hidepid=off"))
}

/// Checks /dev/null, from which processes without input read.
fn null() -> Finding {
    const HELP: &str =
        "mknod -m 666 /dev/null c 1 3: ranks without input read it (in a container: mount /dev)";
    let path = "/dev/null";
    match fs::metadata(path) {
        Err(error) => Finding::fault("devices", format!("{path}: {error}"), HELP),
        Ok(about) if !about.file_type().is_char_device() => {
            let found = format!("{path} is not a device: output to it fills the file system");
            Finding::fault("devices", found, HELP)
        }
        Ok(_) => match OpenOptions::new().read(true).write(true).open(path) {
            Ok(_) => Finding::ok("devices", "/dev/null works"),
            Err(error) => Finding::fault("devices", format!("{path}: {error}"), HELP),
        },
    }
}

/// Compares the clock with the time at which this command was installed.
fn clock() -> Option<Finding> {
    let own = std::env::current_exe().ok()?;
    let installed = fs::metadata(&own).and_then(|about| about.modified()).ok()?;
    let early = installed.duration_since(SystemTime::now()).ok()?;
    (early > LATE).then(|| {
        let days = early.as_secs() / LATE.as_secs();
        Finding::warning(
            "clock",
            format!("the clock is {days} days before the time at which {} was written", own.display()),
            "set the clock (timedatectl, chronyc): credentials of MUNGE are refused after 5 minutes of difference",
        )
    })
}

/// Checks that the name of this node has an address.
fn address(subject: &Subject<'_>, limit: Duration) -> Option<Finding> {
    let system = rustix::system::uname();
    let own = system.nodename().to_string_lossy().into_owned();
    if subject.var("PMIX_HOSTNAME").is_some_and(|name| name != own) {
        // Another check reports the name.
        return None;
    }
    let (sender, replies) = mpsc::channel();
    let name = own.clone();
    // A name server that does not reply blocks the thread, which ends with the command.
    let begun = thread::Builder::new().spawn(move || {
        let found = (name.as_str(), 0).to_socket_addrs().map(|_| ());
        // The receiver is dropped at the time limit.
        let _ = sender.send(found);
    });
    const HELP: &str = "MPI libraries and prterun connect to this name from other nodes: add it to /etc/hosts or to the \
                        name service";
    let why = match (begun, replies.recv_timeout(limit)) {
        (Err(error), _) => error.to_string(),
        (Ok(_), Ok(Ok(()))) => return None,
        (Ok(_), Ok(Err(error))) => error.to_string(),
        (Ok(_), Err(_)) => format!("no reply in {} s", limit.as_secs_f32()),
    };
    let found = format!("the host name {own} has no address: {why}");
    Some(Finding::warning("address", found, HELP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_of_proc_counts() {
        let mount =
            |options: &str| format!("sysfs /sys sysfs rw 0 0\nproc /proc proc rw,{options} 0 0\n");
        assert_eq!(hidden(&mount("hidepid=2")), Some("hidepid=2"));
        assert_eq!(
            hidden(&mount("gid=5,hidepid=invisible")),
            Some("hidepid=invisible")
        );
        assert_eq!(hidden(&mount("relatime")), None);
        assert_eq!(hidden(&mount("hidepid=off")), None);
        assert_eq!(
            hidden(&format!("{}{}", mount("hidepid=2"), mount("relatime"))),
            None
        );
        assert_eq!(hidden(""), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix doctor` among planted problems of a system, in namespaces of their own: each is reported once, with advice.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use crate::command::finish;
use serde_json::Value as Json;
use tempfile::TempDir;

/// A problem: commands that plant it, the check that finds it, the verdict, and a part of the finding and of the advice.
struct Planted {
    /// Namespaces of their own, as options of unshare.
    namespaces: &'static str,
    /// Commands of a shell, which then becomes `pmix`. `$D` is a directory of the test, and `$$` the process.
    plant: &'static str,
    check: &'static str,
    verdict: &'static str,
    found: &'static str,
    help: &'static str,
}

const PLANTED: &[Planted] = &[
    Planted {
        namespaces: "-n",
        plant: "true",
        check: "interfaces",
        verdict: "fault",
        found: "cannot connect to 127.0.0.1: Network is unreachable",
        help: "ip link set lo up",
    },
    Planted {
        namespaces: "-m",
        plant: "group 2 pids.max 12; echo 3 > $D/g/job/pids.current",
        check: "pids",
        verdict: "fault",
        found: "room for 9 more processes of 12 (/sys/fs/cgroup/job/pids.max)",
        help: "raise pids.max",
    },
    Planted {
        namespaces: "-m",
        plant: "group 1 pids.max 40; echo 3 > $D/g/pids/job/pids.current",
        check: "pids",
        verdict: "warning",
        found: "room for 37 more processes of 40 (/sys/fs/cgroup/pids/job/pids.max)",
        help: "TasksMax",
    },
    Planted {
        namespaces: "-m",
        plant: "group 2 memory.max 67108864; echo 1048576 > $D/g/job/memory.current",
        check: "memory",
        verdict: "warning",
        found: "63 of 64 MiB are free in the control group (/sys/fs/cgroup/job/memory.max)",
        help: "Slurm: --mem",
    },
    Planted {
        namespaces: "-m",
        plant: "group 1 memory.limit_in_bytes 67108864; echo 0 > $D/g/memory/job/memory.usage_in_bytes",
        check: "memory",
        verdict: "warning",
        found: "64 of 64 MiB are free",
        help: "in a container: --memory",
    },
    Planted {
        namespaces: "-m",
        plant: "group 2 cpu.max '50000 100000'",
        check: "processors",
        verdict: "warning",
        found: "has the time of 0.50 processors",
        help: "start at most 1, or raise the quota",
    },
    Planted {
        namespaces: "-m",
        plant: "group 1 cpu.cfs_quota_us 25000; echo 100000 > $D/g/cpu/job/cpu.cfs_period_us",
        check: "processors",
        verdict: "warning",
        found: "has the time of 0.25 processors",
        help: "raise the quota",
    },
    Planted {
        namespaces: "-m -p -f",
        plant: "mount -t proc -o hidepid=2 proc /proc",
        check: "proc",
        verdict: "warning",
        found: "mounted with hidepid=",
        help: "mount /proc with gid=GROUP",
    },
    Planted {
        namespaces: "-m",
        plant: "mount -t tmpfs none /proc",
        check: "proc",
        verdict: "fault",
        found: "/proc has no processes",
        help: "mount -t proc proc /proc",
    },
    Planted {
        namespaces: "-m",
        plant: "touch $D/null; mount --bind $D/null /dev/null",
        check: "devices",
        verdict: "fault",
        found: "/dev/null is not a device",
        help: "mknod -m 666 /dev/null c 1 3",
    },
    Planted {
        namespaces: "-u",
        plant: "hostname no-such-host.invalid",
        check: "address",
        verdict: "warning",
        found: "the host name no-such-host.invalid has no address",
        help: "add it to /etc/hosts",
    },
    Planted {
        namespaces: "-m",
        plant: "mount -t tmpfs -o size=32k none $TMPDIR; chmod 700 $TMPDIR",
        check: "tmpdir",
        verdict: "fault",
        found: "0 MiB free",
        help: "set TMPDIR to another directory",
    },
    Planted {
        namespaces: "-m",
        plant: "mount -t tmpfs -o size=1m,ro none $TMPDIR",
        check: "tmpdir",
        verdict: "fault",
        found: "Read-only file system",
        help: "set TMPDIR to another directory",
    },
    Planted {
        namespaces: "-m",
        plant: "mkdir $D/shm; mount -t tmpfs -o size=16m none $D/shm; chmod 1777 $D/shm; set -- --shm $D/shm",
        check: "shm",
        verdict: "warning",
        found: "16 MiB free",
        help: "remove unneeded files",
    },
    Planted {
        namespaces: "-m",
        plant: "d=$D/a-directory-with-a-name-that-is-much-longer-than-a-socket-allows; mkdir -m 700 $d; export TMPDIR=$d",
        check: "tmpdir",
        verdict: "warning",
        found: "a path of ",
        help: "set TMPDIR to a shorter path",
    },
    Planted {
        namespaces: "-m",
        plant: "mkdir -m 700 $TMPDIR/pmix-run.$(id -u).12.abc $TMPDIR/pmix-run.$(id -u).13.abc",
        check: "sessions",
        verdict: "warning",
        found: "2 sessions of launchers that have ended, such as ",
        help: "the next `pmix run` with this TMPDIR removes them",
    },
    Planted {
        namespaces: "-m",
        plant: "cp $P $D/pmix; touch -d '10 days' $D/pmix; P=$D/pmix",
        check: "clock",
        verdict: "warning",
        found: "days before the time at which ",
        help: "set the clock",
    },
    Planted {
        namespaces: "-m",
        plant: "mkdir $D/lib; printf '\\177ELF\\1\\1%046d' 0 > $D/lib/libpmix.so.2; export LD_LIBRARY_PATH=$D/lib",
        check: "libpmix",
        verdict: "warning",
        found: "it is for another kind of processor",
        help: "from LD_LIBRARY_PATH",
    },
    Planted {
        namespaces: "-m",
        plant: "export PMIX_MCA_psec=munge,native PMIX_MCA_psec_munge_socket=$D/nothing",
        check: "munge",
        verdict: "fault",
        found: "no daemon answers on ",
        help: "start munged",
    },
    Planted {
        namespaces: "-m",
        plant: "ulimit -n 60",
        check: "descriptors",
        verdict: "fault",
        found: "60 (ulimit -n)",
        help: "raise the limit",
    },
    Planted {
        namespaces: "-m",
        plant: "export TMPDIR=$D/none",
        check: "tmpdir",
        verdict: "fault",
        found: "No such file or directory",
        help: "create it, or set TMPDIR",
    },
];

/// A function of the shell that mounts control groups with one limit over those of the system.
const GROUP: &str = r#"group() {
    controller=${2%%.*}
    case $1 in
        1) dir=$D/g/$controller/job
           echo "7:$controller:/job" > $D/cgroup
           echo "cgroup /sys/fs/cgroup/$controller cgroup rw,$controller 0 0" > $D/mounts ;;
        2) dir=$D/g/job
           echo "0::/job" > $D/cgroup
           echo "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0" > $D/mounts ;;
    esac
    mkdir -p $dir
    echo "$3" > $dir/$2
    mount --bind $D/g /sys/fs/cgroup
    mount --bind $D/cgroup /proc/$$/cgroup
    mount --bind $D/mounts /proc/$$/mounts
}"#;

fn doctor(top: &Path, planted: &Planted) -> (Vec<Json>, String) {
    let dir = top.display();
    let script = format!(
        "set -e; D={dir} P={}; export TMPDIR=$D/tmp; mkdir -m 700 $TMPDIR; {GROUP}\n{}; exec $P --json doctor \"$@\"",
        env!("CARGO_BIN_EXE_pmix"),
        planted.plant
    );
    let mut command = Command::new("unshare");
    command
        .args(planted.namespaces.split(' '))
        .args(["sh", "-c", &script, "sh"])
        .env_clear();
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/nonexistent")
        .env("PMIX_PLUGINS", "none")
        .current_dir(top);
    let outcome = finish(command, b"");
    let text = outcome.text();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or(Json::Null));
    (lines.collect(), outcome.stderr)
}

#[test]
#[ignore = "needs root"]
fn at_least_16_planted_problems_are_each_reported_once() {
    assert!(PLANTED.len() >= 16);
    let mut missed = Vec::new();
    for planted in PLANTED {
        // A short path, which leaves room for sockets.
        let top = TempDir::new_in("/tmp").unwrap();
        let (found, said) = doctor(top.path(), planted);
        let is_it = |one: &&Json| {
            one["check"] == planted.check
                && one["verdict"] == planted.verdict
                && one["found"]
                    .as_str()
                    .is_some_and(|text| text.contains(planted.found))
                && one["help"]
                    .as_str()
                    .is_some_and(|text| text.contains(planted.help))
        };
        let number = found.iter().filter(is_it).count();
        if number != 1 {
            let of_check: Vec<_> = found
                .iter()
                .filter(|one| one["check"] == planted.check)
                .collect();
            missed.push(format!(
                "{}: {number} times: {of_check:?} {said}",
                planted.plant
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
#[ignore = "needs root"]
fn thousands_of_files_of_another_user_are_one_line() {
    let top = tempfile::tempdir().unwrap();
    fs::set_permissions(top.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    for number in 1..=3000 {
        let path = top.path().join(format!("pmix.{host}.tool.{number}"));
        fs::write(&path, "x").unwrap();
        chown(&path, Some(54_321), None).unwrap();
    }
    let mut command = crate::command::command(&["--json", "doctor"]);
    command.env("TMPDIR", top.path());
    let outcome = finish(command, b"");
    let text = outcome.text();
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.contains("rejected"))
        .collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(
        lines[0].contains("3000 rendezvous files are rejected, such as "),
        "{}",
        lines[0]
    );
    assert!(text.lines().count() < 30, "{text}");
}

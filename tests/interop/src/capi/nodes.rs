// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` on several nodes: network namespaces with host names of their own, each with Debian's sshd. The launcher
//! reaches them by ssh, and by a command that enters their namespaces.
//!
//! Every way in which a link can end is tried at several times after the start: nothing may be left on any node.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::machines::{Form, Machines};
use crate::server::case::{Case, Judge};
use crate::server::{missing, run_all};
use crate::tally::Tally;
use xtask::{install, process};

/// The Debian packages that this needs.
pub(super) const PACKAGES: &[&str] = &["openssh-server", "openssh-client", "iproute2"];

/// The machines. The launcher runs on the first.
const NAMES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];

/// The hosts of most runs: two processes on each of four nodes, none on that of the launcher.
const HOSTS: &str = "n1:2,n2:2,n3:2,n4:2";

/// The program of MPI in Python.
const ALLREDUCE: &str = "from mpi4py import MPI; w = MPI.COMM_WORLD; n = w.size; \
                         assert w.allreduce(w.rank) == n * (n - 1) // 2; \
                         assert w.gather(w.rank) in (None, list(range(n))); \
                         here = w.Split_type(MPI.COMM_TYPE_SHARED).size; \
                         print(f'rank {w.rank} of {n}, {here} on this node: passed')";

/// The program that spawns others: with the options of MPI in its first argument, and the number of processes in its second.
const PARENT: &str = "import sys
from mpi4py import MPI
w = MPI.COMM_WORLD
info = MPI.Info.Create()
for word in sys.argv[1].split():
    info.Set(*word.split('=', 1))
num = int(sys.argv[2])
child = sys.argv[0].replace('parent.py', 'child.py')
c = w.Spawn(sys.executable, [child], num, info)
m = c.Merge(False)
assert m.allreduce(m.rank) == m.size * (m.size - 1) // 2
assert m.size == num + w.size
m.Free()
c.Disconnect()
";

/// The program that is spawned.
const CHILD: &str = "from mpi4py import MPI
p = MPI.Comm.Get_parent()
m = p.Merge(True)
assert m.allreduce(m.rank) == m.size * (m.size - 1) // 2
print(f'child on {MPI.Get_processor_name()}: passed', flush=True)
m.Free()
p.Disconnect()
";

/// A spawn by a first job of two processes.
struct SpawnCase {
    /// The nodes of the session with their slots.
    hosts: &'static str,
    /// The options of MPI.
    options: &'static str,
    num_procs: u32,
    /// The expected lines of the children with their numbers.
    lines: &'static [(&'static str, usize)],
}

const SPAWNS: [SpawnCase; 3] = [
    SpawnCase {
        hosts: "n1:2,n2:3,n3:1",
        options: "",
        num_procs: 4,
        lines: &[("child on n2: passed", 3), ("child on n3: passed", 1)],
    },
    SpawnCase {
        hosts: "n1:2,n2:3,n3:2",
        options: "host=n3",
        num_procs: 2,
        lines: &[("child on n3: passed", 2)],
    },
    SpawnCase {
        hosts: "n1:1,n2:1",
        options: "add-host=n4:2",
        num_procs: 2,
        lines: &[("child on n4: passed", 2)],
    },
];

/// The times in milliseconds after the start at which a link ends.
const STEPS: [u64; 10] = [0, 20, 50, 80, 120, 180, 260, 400, 700, 1200];

/// The time limit of a run.
const LIMIT: Duration = Duration::from_secs(60);

/// The nodes, with the programs and ways to reach them.
struct Nodes {
    machines: Machines,
    /// The folder that all machines see.
    home: PathBuf,
    pmix: PathBuf,
    /// The ways to reach a node: a title, and the command.
    ways: Vec<(&'static str, String)>,
}

impl Nodes {
    /// Creates the machines and starts sshd on each.
    fn start(pmix: &Path) -> Result<Self, String> {
        let home = install::target().join("interop/capi/nodes");
        let machines = Machines::start(Form::Namespaces, &home, &NAMES, None)?;
        let shared = machines.shared().to_string();
        let fault = |e: std::io::Error| format!("{}: {e}", home.display());
        for key in ["host_key", "key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            process::output(keygen.arg(home.join(key)))?;
        }
        let server = format!(
            "HostKey {shared}/host_key\nAuthorizedKeysFile {shared}/key.pub\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin yes\nUseDNS no\nMaxStartups 100\n"
        );
        fs::write(home.join("sshd_config"), server).map_err(fault)?;
        let client = format!(
            "IdentityFile {shared}/key\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        );
        fs::write(home.join("ssh_config"), client).map_err(fault)?;
        for (name, text) in [("parent.py", PARENT), ("child.py", CHILD)] {
            fs::write(home.join(name), text).map_err(fault)?;
        }
        // The host name of a node is that of its UTS namespace.
        let enter = "#!/bin/sh\nnode=$1; shift\nexec ip netns exec \"$node\" unshare --uts sh -c \
                     'hostname \"$0\" && exec \"$@\"' \"$node\" \"$@\"\n";
        let script = home.join("enter");
        fs::write(&script, enter).map_err(fault)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).map_err(fault)?;
        let mut nodes = Self {
            machines,
            home,
            pmix: pmix.to_owned(),
            ways: vec![
                (
                    "ssh",
                    format!("ssh -F {shared}/ssh_config -T -o BatchMode=yes"),
                ),
                ("namespaces", format!("{shared}/enter")),
            ],
        };
        for name in NAMES.iter().skip(1) {
            let run =
                format!("mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e -f {shared}/sshd_config");
            nodes.machines.run(name, ("NODE", name), &[], &run)?;
        }
        nodes.wait(&shared)?;
        Ok(nodes)
    }

    /// Waits until every sshd replies.
    fn wait(&mut self, shared: &str) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(30);
        for name in NAMES.iter().skip(1) {
            loop {
                let ask = format!("timeout 10 ssh -F {shared}/ssh_config {name} hostname");
                let said = process::output(&mut self.machines.command(NAMES[0], &ask));
                if said
                    .as_ref()
                    .is_ok_and(|said| said == format!("{name}\n").as_bytes())
                {
                    break;
                }
                if Instant::now() > until {
                    let logs = self.machines.last_words();
                    return Err(format!("{name} does not reply by ssh: {said:?}: {logs}"));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Returns a shell command on the node of the launcher that starts a job, with these options and words.
    fn run(&self, way: &str, words: &str) -> String {
        let pmix = self.pmix.display();
        format!("exec {pmix} run --launch-agent '{way}' {words}")
    }

    /// Returns a case with a job on all nodes.
    fn case(&self, (title, way): (&str, &str), name: &str, words: &str, judge: Judge) -> Case {
        Case {
            what: format!("nodes: by {title}"),
            name: name.to_owned(),
            command: self.machines.command(NAMES[0], &self.run(way, words)),
            limit: LIMIT,
            judge,
            is_control: false,
        }
    }
}

/// Returns the interpreters of Python with mpi4py, with the name of the library of each.
fn interpreters(tally: &mut Tally) -> Vec<(&'static str, PathBuf)> {
    let mut found = vec![("Open MPI 4.1", PathBuf::from("/usr/bin/python3"))];
    match install::pip(super::suite::SUITE).and_then(|()| install::venv()) {
        Ok(python) => found.push(("Open MPI 5.0", python)),
        Err(why) => missing(&why, tally),
    }
    match install::mpich(super::suite::SUITE) {
        Ok(python) => found.push(("MPICH", python)),
        Err(why) => missing(&why, tally),
    }
    found
}

/// Runs programs on the nodes, and ends links.
///
/// # Errors
/// Returns a message if a program does not compile.
pub(super) fn run(
    pmix: &Path,
    is_long: bool,
    until: Instant,
    tally: &mut Tally,
) -> Result<(), String> {
    let nodes = match Nodes::start(pmix) {
        Ok(nodes) => nodes,
        Err(why) => {
            missing(&format!("nodes: {why}"), tally);
            return Ok(());
        }
    };
    let pmix = pmix.display();
    let mut cases = Vec::new();
    let ways: Vec<_> = nodes
        .ways
        .iter()
        .map(|(title, way)| (*title, way.as_str()))
        .collect();
    let interpreters = interpreters(tally);
    for way in &ways {
        let job = format!("--host {HOSTS}");
        let all = |text| Judge::Says(vec![(text, 8)], &[]);
        cases.push(nodes.case(
            *way,
            "hello",
            &format!("{job} {pmix} hello"),
            all(": 8 peers replied"),
        ));
        let beside = format!("--host localhost:2,n2:2 {pmix} hello --fences 50 --bytes 1000");
        cases.push(nodes.case(*way, "hello beside the launcher", &beside, all_of_four()));
        let names = format!("{job} --map-by node hostname");
        let two_each = vec![("n1", 2), ("n2", 2), ("n3", 2), ("n4", 2)];
        cases.push(nodes.case(*way, "hostname", &names, Judge::Says(two_each, &[])));
        let fails = format!("{job} sh -c 'test $PMIX_RANK = 5 && exit 7; sleep 60'");
        cases.push(nodes.case(
            *way,
            "a process that fails",
            &fails,
            Judge::CodeSaying(7, "on n3) ended with exit code 7"),
        ));
        let missing = "--host n1,n9.invalid --start-timeout 20 true";
        cases.push(nodes.case(
            *way,
            "a node that does not exist",
            missing,
            Judge::CodeSaying(1, "node n9.invalid"),
        ));
        for (name, python) in &interpreters {
            let words = format!("{job} {} -c \"{ALLREDUCE}\"", python.display());
            let title = format!("mpi4py on {name}");
            cases.push(nodes.case(*way, &title, &words, all("2 on this node: passed")));
            let abort = format!(
                "{job} {} -c \"from mpi4py import MPI; w = MPI.COMM_WORLD; w.rank == 5 and w.Abort(9); w.barrier()\"",
                python.display()
            );
            let title = format!("an abort of {name}");
            cases.push(nodes.case(*way, &title, &abort, Judge::Code(9)));
            // MPICH passes no options of its own to a spawn.
            let has_options = *name != "MPICH";
            for spawn in SPAWNS {
                let SpawnCase {
                    hosts,
                    options,
                    num_procs,
                    lines,
                } = spawn;
                if !options.is_empty() && !has_options {
                    continue;
                }
                let words = format!(
                    "--host {hosts} -n 2 {} {}/parent.py '{options}' {num_procs}",
                    python.display(),
                    nodes.machines.shared()
                );
                let title = format!("a spawn of {name} with {options:?}");
                let judge = Judge::Says(lines.to_vec(), &[]);
                cases.push(nodes.case(*way, &title, &words, judge));
            }
        }
    }
    run_all(cases, until, tally)?;
    for (title, way) in &nodes.ways {
        ends(&nodes, (title, way), is_long, until, tally);
    }
    Ok(())
}

fn all_of_four() -> Judge {
    Judge::Says(vec![(": 4 peers replied", 4)], &[])
}

/// The ways in which a link ends. Each is a shell command, in which `$launcher` is the process id of the launcher. It is
/// repeated until it has found a process.
const ENDS: [(&str, &str); 4] = [
    (
        "the agent is killed",
        "pkill -KILL -f \"$pmix node --stdio\" --oldest",
    ),
    (
        "the program that reaches a node is killed",
        "pkill -KILL -P $launcher --oldest",
    ),
    ("the launcher is killed", "kill -KILL $launcher"),
    ("the launcher is interrupted", "kill -TERM $launcher"),
];

/// Ends a link at each step in each way, and checks that the launcher ends and leaves nothing on any node.
fn ends(
    nodes: &Nodes,
    (title, way): (&str, &str),
    is_long: bool,
    until: Instant,
    tally: &mut Tally,
) {
    let what = format!("nodes: links that end, by {title}");
    let pmix = nodes.pmix.display();
    for (name, end) in ENDS {
        let each = if is_long { 1 } else { 5 };
        for step in STEPS.into_iter().step_by(each) {
            if Instant::now() > until {
                tally.fail(&what, "no time is left");
                return;
            }
            let tmp = format!("{}/tmp.{step}", nodes.machines.shared());
            let job = format!("--host {HOSTS} {pmix} hello --fences 100000");
            // `wait` returns the code of the launcher. All processes of the job must have ended soon after.
            let script = format!(
                "pmix={pmix}; mkdir -p {tmp}; export TMPDIR={tmp}\n\
                 $pmix run --launch-agent '{way}' {job} > {tmp}.out 2>&1 & launcher=$!\n\
                 sleep {}.{:03}; until {end}; do sleep 0.002; done; wait $launcher; code=$?\n\
                 for attempt in $(seq 100); do\n\
                 left=$(pgrep -f \"$pmix (node|hello|run)\"; ls {tmp}); test -z \"$left\" && break; sleep 0.1\n\
                 done\n\
                 echo code $code left $left; pkill -KILL -f \"$pmix (node|hello|run)\"; rm -rf {tmp}; cat {tmp}.out; true",
                step / 1000,
                step % 1000
            );
            // In a file, so that the shell is not one of the processes with this text.
            let written = fs::write(nodes.home.join("end.sh"), script);
            let run = format!("timeout -s KILL 60 sh {}/end.sh", nodes.machines.shared());
            let mut command = nodes.machines.command(NAMES[0], &run);
            let said = written
                .map_err(|e| e.to_string())
                .and_then(|()| process::output(&mut command));
            match said {
                Ok(said) => {
                    let said = String::from_utf8_lossy(&said).into_owned();
                    let first = said.lines().next().unwrap_or_default();
                    match first.strip_suffix(" left") {
                        Some(code) if code != "code 0" => tally.pass(&what),
                        _ => tally.fail(&what, &format!("{name} after {step} ms: {}", said.trim())),
                    }
                }
                Err(why) => tally.fail(&what, &format!("{name} after {step} ms: {why}")),
            }
        }
    }
}

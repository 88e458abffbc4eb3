// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slurm over two nodes of this machine, each in network, mount and host-name namespaces of its own,
//! with our library in the place from which Slurm's plug-in loads it: on both nodes, on one, on none.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{OURS, Swap};
use crate::peers::{Library, Peer, package_files};
use crate::server::case::{Case, Judge};
use crate::server::{missing, programs};
use crate::tally::Tally;
use xtask::install;
use xtask::process::output;

/// What it needs, as Debian calls it.
pub(super) const PACKAGES: &[&str] = &["slurmctld", "slurmd", "slurm-client", "iproute2"];

/// How long the nodes may take until they are idle.
const START: Duration = Duration::from_secs(40);

/// What the nodes have in the place of the library.
const NODES: [(&str, [bool; 2]); 3] = [
    ("the installed library in slurmstepd", [false, false]),
    ("ours in slurmstepd", [true, true]),
    ("ours in slurmstepd of one node", [true, false]),
];

/// Programs of `tests/server/programs` that ask for nothing that Slurm does not give.
const PROGRAMS: [&str; 2] = ["short", "nodes"];

/// Runs the programs with both libraries in each of the clusters.
///
/// # Errors
/// A program does not compile.
pub(super) fn run(swap: &Swap, peers: &[Peer], tally: &mut Tally) -> Result<(), String> {
    let plugged = match plugged() {
        Ok(file) => file,
        Err(why) => {
            missing(&why, tally);
            return Ok(());
        }
    };
    if swap.file.starts_with("/tmp") {
        tally.skip(
            "capi: Slurm",
            "each node has a /tmp of its own, and this is in /tmp",
        );
        return Ok(());
    }
    if !install::is_root() {
        tally.skip("capi: Slurm", "only root can make nodes of this machine");
        return Ok(());
    }
    let mut clients: Vec<(&str, &Library)> = vec![(OURS, &swap.library)];
    if let Some(peer) = peers.iter().find(|peer| peer.version.starts_with("4.")) {
        clients.push((&peer.version, &peer.library));
    }
    for (title, with_ours) in NODES {
        let libraries = with_ours.map(|ours| ours.then_some(swap.file.as_path()));
        let cluster = match Cluster::start(&plugged, libraries) {
            Ok(cluster) => cluster,
            Err(why) if why.starts_with(NO_NAMESPACES) => {
                tally.skip("capi: Slurm", NO_NAMESPACES);
                return Ok(());
            }
            Err(why) => {
                tally.fail(&format!("capi: Slurm with {title}"), &why);
                continue;
            }
        };
        for (release, library) in &clients {
            for name in PROGRAMS {
                let program = programs::compile_for(release, library, name)?;
                let what = format!("capi: Slurm with {title}, client {release}");
                match cluster.step(&what, name, &program) {
                    Ok(()) => tally.pass(&what),
                    Err(why) => tally.fail(&what, &why),
                }
            }
        }
    }
    Ok(())
}

/// Why there are no nodes where a container may not make them.
const NO_NAMESPACES: &str = "namespaces cannot be made here";

/// The file that Slurm's plug-in opens in the end, over which ours is mounted.
fn plugged() -> Result<PathBuf, String> {
    for program in ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun"] {
        if !Path::new(program).exists() {
            return Err(format!(
                "no {program}: install slurmctld slurmd slurm-client"
            ));
        }
    }
    let link = package_files(&["libpmix-dev"])
        .into_iter()
        .find(|path| path.ends_with("pmix2/lib/libpmix.so"))
        .ok_or("no pmix2/lib/libpmix.so: install libpmix-dev")?;
    fs::canonicalize(&link).map_err(|e| format!("{}: {e}", link.display()))
}

/// slurmctld and its nodes, which end with this.
struct Cluster {
    home: PathBuf,
    /// The network namespaces: first that of slurmctld.
    networks: Vec<String>,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start(plugged: &Path, libraries: [Option<&Path>; 2]) -> Result<Self, String> {
        // A short path, as sockets are made in it; one that nobody else has made; not in /tmp, of
        // which each node has its own.
        let home = Path::new("/var/tmp").join(format!("pmix-slurm-{}", std::process::id()));
        let fault = |e: std::io::Error| format!("{}: {e}", home.display());
        let mut private = fs::DirBuilder::new();
        private.mode(0o700).create(&home).map_err(fault)?;
        fs::create_dir(home.join("state")).map_err(fault)?;
        fs::write(home.join("slurm.conf"), configuration(&home)).map_err(fault)?;
        fs::write(home.join("hosts"), HOSTS).map_err(fault)?;
        fs::write(home.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").map_err(fault)?;
        let mut cluster = Self {
            home,
            networks: Vec::new(),
            daemons: Vec::new(),
        };
        cluster.connect()?;
        cluster.daemon(0, "ctl", None, "exec slurmctld -D")?;
        for (number, library) in libraries.into_iter().enumerate() {
            let node = number + 1;
            let mount = library.map(|library| (library, plugged));
            let run = format!(
                "mount -t tmpfs shm /dev/shm && mount -t tmpfs tmp /tmp && exec slurmd -D -N n{node}"
            );
            cluster.daemon(node, &format!("n{node}"), mount, &run)?;
        }
        cluster.wait()?;
        Ok(cluster)
    }

    /// Makes the namespaces and the bridge between them.
    fn connect(&mut self) -> Result<(), String> {
        let own = std::process::id();
        for node in 0..=2 {
            let name = format!("pmix{own}-{node}");
            ip(&["netns", "add", &name]).map_err(|why| format!("{NO_NAMESPACES}: {why}"))?;
            self.networks.push(name.clone());
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            if node == 0 {
                ip(&[
                    "-n", &name, "link", "add", "name", "bridge0", "type", "bridge",
                ])
                .map_err(|why| format!("{NO_NAMESPACES}: {why}"))?;
                ip(&["-n", &name, "addr", "add", "10.99.0.1/24", "dev", "bridge0"])?;
                ip(&["-n", &name, "link", "set", "bridge0", "up"])?;
                continue;
            }
            let (first, end) = (self.networks[0].as_str(), format!("v{node}"));
            let pair = ["link", "add", &end, "type", "veth", "peer", "name", "eth0"];
            ip(&[&["-n", first][..], &pair, &["netns", &name]].concat())
                .map_err(|why| format!("{NO_NAMESPACES}: {why}"))?;
            ip(&["-n", first, "link", "set", &end, "master", "bridge0", "up"])?;
            let address = format!("10.99.0.1{node}/24");
            ip(&["-n", &name, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        }
        Ok(())
    }

    /// A command in the network of a node.
    fn inside(&self, node: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.networks[node], program]);
        command.env("SLURM_CONF", self.home.join("slurm.conf"));
        command
    }

    /// Starts a daemon, which sees a file in the place of another.
    fn daemon(
        &mut self,
        node: usize,
        host: &str,
        mount: Option<(&Path, &Path)>,
        run: &str,
    ) -> Result<(), String> {
        let hosts = self.home.join("hosts");
        let mounts = std::iter::once((hosts.as_path(), Path::new("/etc/hosts"))).chain(mount);
        let mounts: String = mounts
            .map(|(from, to)| format!("mount --bind '{}' '{}' && ", from.display(), to.display()))
            .collect();
        let log = fs::File::create(self.home.join(format!("{host}.log")));
        let log = log.map_err(|e| format!("log of {host}: {e}"))?;
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let mut command = self.inside(node, "unshare");
        command.args(["-m", "-u", "sh", "-c"]);
        command.arg(format!("hostname {host} && {mounts}{run}"));
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        self.daemons
            .push(command.spawn().map_err(|e| format!("{host}: {e}"))?);
        Ok(())
    }

    /// Waits until every node is idle.
    fn wait(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let mut asked = self.inside(0, "timeout");
            asked.args(["10", "sinfo", "-h", "-N", "-o", "%T"]);
            let said = output(&mut asked).unwrap_or_default();
            let states = String::from_utf8_lossy(&said).into_owned();
            if states.lines().filter(|state| *state == "idle").count() == 2 {
                return Ok(());
            }
            let ended = self
                .daemons
                .iter_mut()
                .any(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            if ended || begun.elapsed() > START {
                let logs = ["ctl", "n1", "n2"].map(|host| self.last_of(host));
                return Err(format!("the nodes are {states:?}: {}", logs.join("; ")));
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// The end of a daemon's log.
    fn last_of(&self, host: &str) -> String {
        let log = fs::read(self.home.join(format!("{host}.log"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<_> = text.lines().collect();
        let from = lines.len().saturating_sub(4);
        format!("{host}: {}", lines[from..].join(" | "))
    }

    /// Runs a program as a job of four processes over both nodes.
    fn step(&self, what: &str, name: &str, program: &Path) -> Result<(), String> {
        let mut command = self.inside(0, "srun");
        command.args(["--mpi=pmix", "-N", "2", "-n", "4", "--time=1"]);
        command.arg(program);
        let mut case = Case {
            what: what.to_owned(),
            name: name.to_owned(),
            command,
            limit: Duration::from_secs(45),
            judge: Judge::Code(0),
        };
        case.run(&self.home.join("output"), &self.home)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for network in &self.networks {
            // Daemons and what they started, of this cluster alone.
            let pids = output(Command::new("ip").args(["netns", "pids", network]));
            let pids = String::from_utf8_lossy(&pids.unwrap_or_default()).into_owned();
            let mut kill = Command::new("kill");
            kill.arg("-KILL").args(pids.split_whitespace());
            if !pids.trim().is_empty() {
                let _ = kill.stderr(Stdio::null()).status();
            }
        }
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for network in &self.networks {
            let _ = ip(&["netns", "del", network]);
        }
        let _ = fs::remove_dir_all(&self.home);
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    output(Command::new("ip").args(words)).map(drop)
}

const HOSTS: &str = "127.0.0.1 localhost\n10.99.0.1 ctl\n10.99.0.11 n1\n10.99.0.12 n2\n";

fn configuration(home: &Path) -> String {
    let home = home.display();
    format!(
        "ClusterName=pmix
SlurmctldHost=ctl(10.99.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool.%n
SlurmctldPidFile={home}/ctl.pid
SlurmdPidFile={home}/%n.pid
SlurmctldLogFile={home}/ctl.daemon.log
SlurmdLogFile={home}/%n.daemon.log
SlurmctldPort=16817
SlurmdPort=16818
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=3
NodeName=n1 NodeAddr=10.99.0.11 CPUs=8 RealMemory=1000 State=UNKNOWN
NodeName=n2 NodeAddr=10.99.0.12 CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=YES
"
    )
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slurm over two nodes of this machine, each in network, mount and host-name namespaces of its own,
//! with our library in the place from which Slurm's plug-in loads it: on both nodes, on one, on none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::machines::{Machines, NO_NAMESPACES, SHARED, address};
use super::{OURS, Swap};
use crate::peers::{Library, Peer, package_files};
use crate::server::case::{Case, Judge};
use crate::server::{missing, programs};
use crate::tally::Tally;
use xtask::install;
use xtask::process::output;

/// What it needs, as Debian calls it.
pub(super) const PACKAGES: &[&str] = &[
    "slurmctld",
    "slurmd",
    "slurm-client",
    "iproute2",
    "util-linux",
];

/// How long the nodes may take until they are idle.
const START: Duration = Duration::from_secs(90);

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
pub(super) fn run(
    swap: &Swap,
    peers: &[Peer],
    until: Instant,
    tally: &mut Tally,
) -> Result<(), String> {
    if !install::is_root() {
        tally.skip("capi: Slurm", "only root can make nodes of this machine");
        return Ok(());
    }
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
    let mut clients: Vec<(&str, &Library)> = vec![(OURS, &swap.library)];
    if let Some(peer) = peers.iter().find(|peer| peer.version.starts_with("4.")) {
        clients.push((&peer.version, &peer.library));
    }
    for (title, with_ours) in NODES {
        let libraries = with_ours.map(|ours| ours.then_some(swap.file.as_path()));
        let cluster = match Cluster::start(&plugged, libraries, until) {
            Ok(cluster) => cluster,
            Err(why) if why.starts_with(NO_NAMESPACES) => {
                println!("{why}");
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
                match cluster.step(&what, name, &program, until) {
                    Ok(()) => tally.pass(&what),
                    Err(why) => tally.fail(&what, &why),
                }
            }
        }
    }
    Ok(())
}

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
    machines: Machines,
}

impl Cluster {
    fn start(
        plugged: &Path,
        libraries: [Option<&Path>; 2],
        until: Instant,
    ) -> Result<Self, String> {
        let home = install::target().join("interop/capi/slurm");
        let machines = Machines::start(&home, &NAMES)?;
        let mut cluster = Self { home, machines };
        let fault = |e: std::io::Error| format!("{}: {e}", cluster.home.display());
        fs::create_dir(cluster.home.join("state")).map_err(fault)?;
        fs::write(cluster.home.join("slurm.conf"), configuration()).map_err(fault)?;
        fs::write(cluster.home.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").map_err(fault)?;
        cluster.daemon(NAMES[0], None, "exec slurmctld -D")?;
        for (name, library) in NAMES[1..].iter().zip(libraries) {
            let mount = library.map(|library| (library, plugged));
            let run = format!(
                "mount -t tmpfs shm /dev/shm && mount -t tmpfs tmp /tmp && exec slurmd -D -N {name}"
            );
            cluster.daemon(name, mount, &run)?;
        }
        cluster.wait(until)?;
        Ok(cluster)
    }

    /// A command on the network of slurmctld.
    fn inside(&self, program: &str) -> Command {
        let mut command = self.machines.inside(NAMES[0], program);
        command.env(CONFIGURED.0, CONFIGURED.1);
        command
    }

    /// Starts a daemon, which sees a file in the place of another.
    fn daemon(
        &mut self,
        name: &str,
        mount: Option<(&Path, &Path)>,
        run: &str,
    ) -> Result<(), String> {
        self.machines.run(name, CONFIGURED, mount.as_slice(), run)
    }

    /// Waits until every node is idle.
    fn wait(&mut self, until: Instant) -> Result<(), String> {
        let until = until.min(Instant::now() + START);
        loop {
            let mut asked = self.inside("timeout");
            asked.args(["10", "sinfo", "-h", "-N", "-o", "%T"]);
            let said = output(&mut asked).unwrap_or_default();
            let states = String::from_utf8_lossy(&said).into_owned();
            if states.lines().filter(|state| *state == "idle").count() == 2 {
                return Ok(());
            }
            if self.machines.has_ended() || Instant::now() > until {
                let logs = self.machines.last_words();
                return Err(format!("the nodes are {states:?}: {logs}"));
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// Runs a program as a job of four processes over both nodes.
    fn step(&self, what: &str, name: &str, program: &Path, until: Instant) -> Result<(), String> {
        let mut command = self.inside("srun");
        command.args(["--mpi=pmix", "-N", "2", "-n", "4", "--time=1"]);
        command.arg(program);
        let mut case = Case {
            what: what.to_owned(),
            name: name.to_owned(),
            command,
            limit: Duration::from_secs(60),
            judge: Judge::Code(0),
        };
        case.run(&self.home.join("output"), &self.home, until)
    }
}

/// The machines: first that of slurmctld.
const NAMES: [&str; 3] = ["ctl", "n1", "n2"];

/// Where Slurm's programs find the configuration.
const CONFIGURED: (&str, &str) = ("SLURM_CONF", "/run/shared/slurm.conf");

fn configuration() -> String {
    let [ctl, n1, n2] = [0, 1, 2].map(address);
    format!(
        "ClusterName=pmix
SlurmctldHost=ctl({ctl})
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
StateSaveLocation={SHARED}/state
SlurmdSpoolDir={SHARED}/spool.%n
SlurmctldPidFile={SHARED}/ctl.pid
SlurmdPidFile={SHARED}/%n.pid
SlurmctldLogFile={SHARED}/ctl.daemon.log
SlurmdLogFile={SHARED}/%n.daemon.log
SlurmctldPort=16817
SlurmdPort=16818
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=3
NodeName=n1 NodeAddr={n1} CPUs=8 RealMemory=1000 State=UNKNOWN
NodeName=n2 NodeAddr={n2} CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=YES
"
    )
}

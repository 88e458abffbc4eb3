// SPDX-License-Identifier: MIT OR Apache-2.0
//! slurmctld and its nodes on namespaces of this machine, with a library of ours in the place of the one
//! that Slurm's plug-in opens, on the nodes that are named.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::machines::{Machines, SHARED, address};
use crate::server::case::Case;
use xtask::install;
use xtask::process::output;

/// How long the nodes may take until they are idle.
const START: Duration = Duration::from_secs(90);

/// The machines: first that of slurmctld.
const NAMES: [&str; 5] = ["ctl", "n1", "n2", "n3", "n4"];

/// Where Slurm's programs find the configuration.
const CONFIGURED: (&str, &str) = ("SLURM_CONF", "/run/shared/slurm.conf");

/// How many processes a node takes.
const CPUS: usize = 64;

/// What a cluster is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// What it is called in tables.
    pub(super) title: &'static str,
    /// Its nodes, and whether each has ours.
    pub(super) ours: &'static [bool],
    /// Whether its daemons know each other by MUNGE.
    pub(super) munge: bool,
}

/// A cluster that runs, which ends with this.
pub(super) struct Cluster {
    home: PathBuf,
    machines: Machines,
    setup: Setup,
}

impl Cluster {
    /// Starts one; `library` is seen in the place of `plugged`.
    ///
    /// # Errors
    /// It does not get ready; the text begins with [`super::super::machines::NO_NAMESPACES`] where no
    /// nodes can be made.
    pub(super) fn start(
        setup: Setup,
        plugged: &Path,
        library: &Path,
        until: Instant,
    ) -> Result<Self, String> {
        let home = install::target().join("interop/capi/slurm");
        let num = setup.ours.len();
        let names = NAMES.get(..=num).ok_or("too many nodes")?;
        let machines = Machines::start(&home, names)?;
        let mut cluster = Self {
            home,
            machines,
            setup,
        };
        let fault = |e: std::io::Error| format!("{}: {e}", cluster.home.display());
        fs::create_dir(cluster.home.join("state")).map_err(fault)?;
        fs::write(cluster.home.join("slurm.conf"), configuration(setup)).map_err(fault)?;
        fs::write(cluster.home.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").map_err(fault)?;
        let mut first = String::new();
        if setup.munge {
            make_key(&cluster.home.join("munge.key"))?;
            first = munged();
        }
        cluster.daemon("ctl", None, &format!("{first}exec slurmctld -D"))?;
        for (name, ours) in names.iter().skip(1).zip(setup.ours) {
            let mount = ours.then_some((library, plugged));
            let run = format!(
                "mount -t tmpfs shm /dev/shm && mount -t tmpfs tmp /tmp && exec slurmd -D -N {name}"
            );
            cluster.daemon(name, mount, &run)?;
        }
        cluster.wait(until)?;
        Ok(cluster)
    }

    /// The folder that all nodes see as `/run/shared`.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// How many nodes there are.
    pub(super) fn num_nodes(&self) -> usize {
        self.setup.ours.len()
    }

    /// The names of the nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().skip(1).take(self.num_nodes())
    }

    /// A command on the network of slurmctld.
    pub(super) fn inside(&self, program: &str) -> Command {
        let mut command = self.machines.inside("ctl", program);
        command.env(CONFIGURED.0, CONFIGURED.1);
        command
    }

    /// What a short shell command on the machine of slurmctld says.
    ///
    /// # Errors
    /// It fails, or takes long.
    pub(super) fn ask(&self, script: &str) -> Result<String, String> {
        let mut command = self.inside("timeout");
        command.args(["20", "sh", "-c", script]);
        let said = output(&mut command)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
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
            let idle = states.lines().filter(|state| *state == "idle").count();
            if idle == self.num_nodes() {
                return Ok(());
            }
            if self.machines.has_ended() || Instant::now() > until {
                let logs = self.machines.last_words();
                return Err(format!("the nodes are {states:?}: {logs}"));
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// Runs a command on it as a case.
    ///
    /// # Errors
    /// As [`Case::run`]; what the daemons said of it is added.
    pub(super) fn run(&self, mut case: Case, until: Instant) -> Result<(), String> {
        case.run(&self.home.join("output"), &self.home, until)
    }

    /// Whether a daemon ended.
    pub(super) fn has_ended(&mut self) -> Option<String> {
        let ended = self.machines.has_ended();
        ended.then(|| format!("a daemon ended: {}", self.machines.last_words()))
    }
}

/// The daemon of MUNGE, which all nodes ask.
fn munged() -> String {
    format!(
        "munged --force --key-file={SHARED}/munge.key --socket={SHARED}/munge.socket \
         --pid-file={SHARED}/munged.pid --log-file={SHARED}/munged.log \
         --seed-file={SHARED}/munge.seed && "
    )
}

fn make_key(file: &Path) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("{}: {e}", file.display());
    let mut random = fs::File::open("/dev/urandom").map_err(fault)?;
    let mut key = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .map_err(fault)?;
    let mut random = std::io::Read::take(&mut random, 128);
    std::io::copy(&mut random, &mut key).map_err(fault)?;
    Ok(())
}

fn configuration(setup: Setup) -> String {
    let auth = match setup.munge {
        true => format!(
            "AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={SHARED}/munge.socket"
        ),
        false => "AuthType=auth/none\nCredType=cred/none".to_owned(),
    };
    let ctl = address(0);
    let nodes: String = NAMES
        .iter()
        .enumerate()
        .skip(1)
        .take(setup.ours.len())
        .map(|(number, name)| {
            let address = address(number);
            format!(
                "NodeName={name} NodeAddr={address} CPUs={CPUS} RealMemory=1000 State=UNKNOWN\n"
            )
        })
        .collect();
    format!(
        "ClusterName=pmix
SlurmctldHost=ctl({ctl})
SlurmUser=root
SlurmdUser=root
{auth}
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
{nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=YES
"
    )
}

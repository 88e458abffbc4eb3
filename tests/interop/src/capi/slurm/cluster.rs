// SPDX-License-Identifier: MIT OR Apache-2.0
//! slurmctld and its nodes in namespaces of this machine. On the named nodes our library replaces the one that Slurm's
//! plugin opens. If namespaces are not allowed, all daemons run side by side, each with a port and folders of its own.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::machines::{Form, Machines, host_name};
use super::source::Source;
use crate::server::case::Case;
use xtask::install;
use xtask::process::output;

/// The time limit for all nodes to become idle.
pub(super) const START: Duration = Duration::from_secs(90);

/// The machines. The first is that of slurmctld.
const NAMES: [&str; 5] = ["ctl", "n1", "n2", "n3", "n4"];

/// The variable that names the configuration file to Slurm's programs.
const CONFIGURED: &str = "SLURM_CONF";

/// The port of slurmctld, followed by those of the nodes.
const PORT: usize = 16817;

/// The time limit for cancelled steps to end.
const STOP: Duration = Duration::from_secs(15);

/// The number of processes that a node accepts.
const CPUS: usize = 64;

/// The configuration of a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// The name in reports.
    pub(super) title: &'static str,
    /// The nodes; `true` for a node with our library.
    pub(super) ours: &'static [bool],
    /// `true` if the daemons authenticate by MUNGE.
    pub(super) munge: bool,
    /// `true` if the nodes are daemons side by side, also where namespaces are allowed.
    pub(super) is_named: bool,
}

impl Setup {
    /// Returns the setup of these nodes, without a name and without MUNGE.
    pub(super) const fn new(ours: &'static [bool]) -> Self {
        Self {
            title: "",
            ours,
            munge: false,
            is_named: false,
        }
    }
}

/// A running cluster, which is shut down on drop.
pub(super) struct Cluster {
    home: PathBuf,
    machines: Machines,
    setup: Setup,
}

impl Cluster {
    /// Starts a cluster of a Slurm. On the selected nodes, `library` is mounted over the file that the plug-in opens.
    ///
    /// # Errors
    /// Returns a message if it does not become ready. The message begins with
    /// [`super::super::machines::NO_NAMESPACES`] if the namespaces of the nodes cannot be created.
    pub(super) fn start(
        form: Form,
        setup: Setup,
        source: &Source,
        library: &Path,
        until: Instant,
    ) -> Result<Self, String> {
        let home = install::target().join("interop/capi/slurm");
        let num = setup.ours.len();
        let names = NAMES.get(..=num).ok_or("too many nodes")?;
        let machines = Machines::start(form, &home, names, source.root.as_ref())?;
        let mut cluster = Self {
            home,
            machines,
            setup,
        };
        let fault = |e: std::io::Error| format!("{}: {e}", cluster.home.display());
        fs::create_dir(cluster.home.join("state")).map_err(fault)?;
        for name in names {
            fs::create_dir(cluster.home.join(format!("tmp.{name}"))).map_err(fault)?;
        }
        let configuration = configuration(setup, &cluster.machines)?;
        fs::write(cluster.home.join("slurm.conf"), configuration).map_err(fault)?;
        let cgroups = format!("CgroupPlugin={}\n", source.cgroups);
        fs::write(cluster.home.join("cgroup.conf"), cgroups).map_err(fault)?;
        let mut first = String::new();
        if setup.munge {
            make_key(&cluster.home.join("munge.key"))?;
            first = munged(&cluster.machines);
        }
        cluster.daemon("ctl", None, &format!("{first}exec slurmctld -D"))?;
        for (name, ours) in names.iter().skip(1).zip(setup.ours) {
            let mount = ours.then_some((library, &*source.plugged));
            let own = match form {
                Form::Namespaces => "mount -t tmpfs shm /dev/shm && mount -t tmpfs tmp /tmp && ",
                Form::Names => "",
            };
            let run = format!("{own}exec slurmd -D -N {name}");
            cluster.daemon(name, mount, &run)?;
        }
        cluster.wait(until)?;
        Ok(cluster)
    }

    /// Returns the folder that all nodes see as [`Self::shared`].
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the path at which the nodes see that folder.
    pub(super) fn shared(&self) -> std::path::Display<'_> {
        self.machines.shared()
    }

    /// Returns the separation of the nodes.
    pub(super) fn form(&self) -> Form {
        self.machines.form()
    }

    /// Returns the number of nodes.
    pub(super) fn num_nodes(&self) -> usize {
        self.setup.ours.len()
    }

    /// Returns the names of the nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().skip(1).take(self.num_nodes())
    }

    /// Returns a command on the network of slurmctld.
    pub(super) fn inside(&self, program: &str) -> Command {
        let mut command = self.machines.inside("ctl", program);
        command.env(CONFIGURED, self.configuration());
        command
    }

    /// Returns the configuration file as the nodes see it.
    fn configuration(&self) -> String {
        format!("{}/slurm.conf", self.shared())
    }

    /// Returns the output of a short shell command on the machine of slurmctld.
    ///
    /// # Errors
    /// Returns a message if the command fails or exceeds its time limit.
    pub(super) fn ask(&self, script: &str) -> Result<String, String> {
        let mut command = self.inside("timeout");
        command.args(["20", "sh", "-c", script]);
        let said = output(&mut command)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// Starts a daemon with one file mounted over another.
    fn daemon(
        &mut self,
        name: &str,
        mount: Option<(&Path, &Path)>,
        run: &str,
    ) -> Result<(), String> {
        let configuration = self.configuration();
        let environment = (CONFIGURED, &*configuration);
        self.machines.run(name, environment, mount.as_slice(), run)
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

    /// Runs a command on the cluster as a case.
    ///
    /// # Errors
    /// See [`Case::run`]. The output of the daemons is added.
    pub(super) fn run(&self, mut case: Case, until: Instant) -> Result<(), String> {
        case.run(&self.home.join("output"), &self.home, until)
    }

    /// Returns the output of a daemon that has exited, if any.
    pub(super) fn has_ended(&mut self) -> Option<String> {
        let ended = self.machines.has_ended();
        ended.then(|| format!("a daemon ended: {}", self.machines.last_words()))
    }
}

impl Drop for Cluster {
    /// Stops daemons that no namespace ends.
    fn drop(&mut self) {
        if self.form() == Form::Namespaces {
            return;
        }
        let begun = Instant::now();
        while begun.elapsed() < STOP
            && self
                .ask("squeue -h -o %A | xargs -r scancel --signal=KILL --full 2>/dev/null; squeue -h")
                .is_ok_and(|left| !left.trim().is_empty())
        {
            sleep(Duration::from_millis(200));
        }
        if self.setup.munge {
            let socket = format!("--socket={}/munge.socket", self.shared());
            let mut stop = self.inside("munged");
            // Stopping fails if munged never started.
            let _ = output(stop.args(["--stop", &socket]));
        }
    }
}

/// Returns the shell command of the MUNGE daemon that all nodes use.
fn munged(machines: &Machines) -> String {
    let shared = machines.shared();
    format!(
        "munged --force --key-file={shared}/munge.key --socket={shared}/munge.socket \
         --pid-file={shared}/munged.pid --log-file={shared}/munged.log \
         --seed-file={shared}/munge.seed && "
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

fn configuration(setup: Setup, machines: &Machines) -> Result<String, String> {
    let shared = machines.shared();
    let auth = match setup.munge {
        true => format!(
            "AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={shared}/munge.socket"
        ),
        false => "AuthType=auth/none\nCredType=cred/none".to_owned(),
    };
    let ctl = machines.address(0);
    // A daemon finds its own entry in the configuration by the name of its machine.
    let machine = match machines.form() {
        Form::Namespaces => None,
        Form::Names => Some(host_name()?),
    };
    let temporary = match machines.form() {
        Form::Namespaces => String::new(),
        Form::Names => format!("TmpFS={shared}/tmp.%n\n"),
    };
    let first = machine.as_deref().unwrap_or("ctl");
    let nodes: String = NAMES
        .iter()
        .enumerate()
        .skip(1)
        .take(setup.ours.len())
        .map(|(number, name)| {
            let address = machines.address(number);
            let own = match &machine {
                Some(machine) => format!(" NodeHostname={machine} Port={}", PORT + number),
                None => String::new(),
            };
            format!(
                "NodeName={name} NodeAddr={address}{own} CPUs={CPUS} RealMemory=1000 State=UNKNOWN\n"
            )
        })
        .collect();
    let node = PORT + 1;
    Ok(format!(
        "ClusterName=pmix
SlurmctldHost={first}({ctl})
SlurmUser=root
SlurmdUser=root
{auth}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
StateSaveLocation={shared}/state
SlurmdSpoolDir={shared}/spool.%n
SlurmctldPidFile={shared}/ctl.pid
SlurmdPidFile={shared}/%n.pid
SlurmctldLogFile={shared}/ctl.daemon.log
SlurmdLogFile={shared}/%n.daemon.log
SlurmctldPort={PORT}
SlurmdPort={node}
{temporary}ReturnToService=2
SlurmdParameters=config_overrides
KillWait=3
{nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=YES
"
    ))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers of the processes: ours, a host with a real library, or Open MPI's launcher.

use std::path::PathBuf;
use std::process::Command;

use crate::peers::{Library, Peer};
use xtask::install;
use xtask::process;

/// A launcher, which starts processes and serves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `pmix run`.
    Ours(PathBuf),
    /// The program of `tests/server/host`, and the release of its library.
    Host(PathBuf, String),
    /// prterun, and the release of its library.
    Prterun(PathBuf, String),
    /// The example `minimal_host` of the crate `pmix`.
    Example(PathBuf),
}

/// The name of our library in place of a release.
pub(crate) const OURS: &str = "ours";

/// The sources of the host.
pub(crate) const HOST: &[&str] = &[
    "board.c",
    "children.c",
    "job.c",
    "main.c",
    "services.c",
    "upcalls.c",
];

impl Launcher {
    /// Compiles the host with a peer's library.
    ///
    /// # Errors
    /// Returns a message if it does not compile.
    pub fn host(peer: &Peer) -> Result<Self, String> {
        Self::host_of(&peer.version, &peer.library)
    }

    /// Compiles the host with the library of a release.
    ///
    /// # Errors
    /// Returns a message if it does not compile.
    pub fn host_of(release: &str, library: &Library) -> Result<Self, String> {
        let source = process::root().join("tests/server/host");
        let program = install::scratch("interop/server")?.join(format!("host-{release}"));
        let sources: Vec<_> = HOST.iter().map(|file| source.join(file)).collect();
        library.compile_with(&program, &source, &sources)?;
        Ok(Self::Host(program, release.to_owned()))
    }

    /// Builds the smallest host of the crate `pmix` with a cargo profile.
    ///
    /// # Errors
    /// Returns a message if the build fails.
    pub fn example(profile: &str) -> Result<Self, String> {
        let package = process::selection(profile, "pmix");
        process::run(process::cargo(["build", "--example", "minimal_host"]).args(package))?;
        let program = install::built(profile).join("examples/minimal_host");
        Ok(Self::Example(program))
    }

    /// Returns the launcher that is installed with a peer, if any.
    pub fn prterun(peer: &Peer) -> Option<Self> {
        let program = peer.library.beside("prterun")?;
        Some(Self::Prterun(program, peer.version.clone()))
    }

    /// Returns `true` if no part of ours is involved when it starts a program of a release: [`Case::is_control`].
    ///
    /// [`Case::is_control`]: super::case::Case::is_control
    pub fn is_control_for(&self, release: &str) -> bool {
        self.is_stock() && release != OURS
    }

    /// Returns `true` if it contains no part of ours.
    fn is_stock(&self) -> bool {
        match self {
            Self::Ours(_) | Self::Example(_) => false,
            Self::Host(_, release) | Self::Prterun(_, release) => release != OURS,
        }
    }

    /// Returns the name in reports.
    pub fn title(&self) -> String {
        match self {
            Self::Ours(_) => "pmix run".to_owned(),
            Self::Host(_, release) => format!("host {release}"),
            Self::Prterun(_, release) => format!("prterun {release}"),
            Self::Example(_) => "minimal_host".to_owned(),
        }
    }

    /// Returns a command that starts the local processes of a larger job. No launcher starts the remote ones.
    ///
    /// # Errors
    /// Returns a message if the launcher cannot describe such a job.
    pub fn command_of_larger(&self, num_local: u32, far: Far) -> Result<Command, String> {
        match self {
            Self::Ours(_) => {
                // The maps define the number of processes.
                let (nodes, procs) = far.maps(num_local);
                let mut command = self.launching();
                command.args(["--node-name", HERE, "--nodes", &nodes, "--procs", &procs]);
                Ok(command)
            }
            Self::Host(..) => {
                let mut command = self.command(num_local);
                command.args(["--far", &far.text()]);
                Ok(command)
            }
            Self::Prterun(..) | Self::Example(_) => {
                Err(format!("{} does not describe other nodes", self.title()))
            }
        }
    }

    /// Returns a command that starts `num_procs` processes. The caller adds the program and its arguments.
    pub fn command(&self, num_procs: u32) -> Command {
        let mut command = self.launching();
        if !matches!(self, Self::Example(_)) {
            command.arg("-n");
        }
        command.arg(num_procs.to_string());
        command
    }

    /// Returns a command that starts processes, still without their number.
    fn launching(&self) -> Command {
        let mut command;
        match self {
            Self::Ours(program) => {
                command = Command::new(program);
                command.arg("run");
            }
            Self::Host(program, _) => {
                command = Command::new(program);
                command.args(["--timeout", "120"]);
                // Open MPI 4.1 uses PMIx of a foreign launcher only if this variable is set.
                command.env("JSM_JSRUN_PORT", "1");
            }
            Self::Prterun(program, _) => {
                command = Command::new(program);
                // Allow more processes than processors, and root.
                command.args(["--allow-run-as-root", "--bind-to", "none"]);
                command.args(["--host", "localhost:4096"]);
            }
            Self::Example(program) => command = Command::new(program),
        }
        Self::clean(&mut command);
        command
    }

    /// Removes variables of another launcher from the environment, and lets many processes share a core.
    pub(crate) fn clean(command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["PMIX_", "PMI_", "OMPI_", "PRTE_", "SLURM_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
            {
                command.env_remove(&*name);
            }
        }
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        // One node only has shared memory and the loopback.
        command.env("OMPI_MCA_pml", "ob1");
    }
}

/// The name of this node in a larger job.
pub const HERE: &str = "here";

/// The remote nodes of a job, as groups of (nodes, processes per node).
#[derive(Clone, Copy, Debug)]
pub struct Far(pub &'static [(u32, u32)]);

impl Far {
    /// Returns the number of remote processes.
    pub fn num_procs(self) -> u32 {
        self.0.iter().map(|(nodes, each)| nodes * each).sum()
    }

    /// Returns the argument of the host.
    fn text(self) -> String {
        let parts = self.0.iter().map(|(nodes, each)| format!("{nodes}x{each}"));
        parts.collect::<Vec<_>>().join(",")
    }

    /// Returns the maps of the whole job.
    pub fn maps(self, num_local: u32) -> (String, String) {
        let mut names = vec![HERE.to_owned()];
        let mut ranks = vec![format!("0-{}", num_local - 1)];
        let mut next = num_local;
        for (nodes, each) in self.0 {
            for _ in 0..*nodes {
                names.push(format!("far{:06}", names.len()));
                ranks.push(format!("{next}-{}", next + each - 1));
                next += each;
            }
        }
        (names.join(","), ranks.join(";"))
    }
}

#[cfg(test)]
mod tests {
    use super::Far;

    #[test]
    fn a_larger_job_begins_with_this_node() {
        let far = Far(&[(2, 3), (1, 2)]);
        assert_eq!(far.num_procs(), 8);
        assert_eq!(far.text(), "2x3,1x2");
        let (names, ranks) = far.maps(4);
        assert_eq!(names, "here,far000001,far000002,far000003");
        assert_eq!(ranks, "0-3;4-6;7-9;10-11");
    }
}

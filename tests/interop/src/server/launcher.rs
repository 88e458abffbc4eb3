// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who serves the processes: us, a host around a real library, or Open MPI's launcher.

use std::path::PathBuf;
use std::process::Command;

use crate::peers::{Library, Peer};
use xtask::install;
use xtask::process;

/// What starts processes and serves them.
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

/// What our library is called where releases of others are.
pub(crate) const OURS: &str = "ours";

/// The sources of the host around a library.
pub(crate) const HOST: &[&str] = &[
    "board.c",
    "children.c",
    "job.c",
    "main.c",
    "services.c",
    "upcalls.c",
];

impl Launcher {
    /// The host around a peer's library.
    ///
    /// # Errors
    /// It does not compile.
    pub fn host(peer: &Peer) -> Result<Self, String> {
        Self::host_of(&peer.version, &peer.library)
    }

    /// The host around the library of a release.
    ///
    /// # Errors
    /// It does not compile.
    pub fn host_of(release: &str, library: &Library) -> Result<Self, String> {
        let source = process::root().join("tests/server/host");
        let program = install::scratch("interop/server")?.join(format!("host-{release}"));
        let sources: Vec<_> = HOST.iter().map(|file| source.join(file)).collect();
        library.compile_with(&program, &source, &sources)?;
        Ok(Self::Host(program, release.to_owned()))
    }

    /// The smallest host of the crate `pmix`, built with a profile of cargo.
    ///
    /// # Errors
    /// It does not build.
    pub fn example(profile: &str) -> Result<Self, String> {
        let example = ["build", "--quiet", "--package", "pmix", "--example"];
        process::run(process::cargo(example).args(["minimal_host", "--profile", profile]))?;
        let program = install::built(profile).join("examples/minimal_host");
        Ok(Self::Example(program))
    }

    /// The launcher that comes with a peer, if there is one.
    pub fn prterun(peer: &Peer) -> Option<Self> {
        let program = peer.library.beside("prterun")?;
        Some(Self::Prterun(program, peer.version.clone()))
    }

    /// Whether nothing of ours takes part when it starts a program of a release: [`Case::is_control`].
    ///
    /// [`Case::is_control`]: super::case::Case::is_control
    pub fn is_control_for(&self, release: &str) -> bool {
        self.is_stock() && release != OURS
    }

    /// Whether nothing of ours is in it.
    fn is_stock(&self) -> bool {
        match self {
            Self::Ours(_) | Self::Example(_) => false,
            Self::Host(_, release) | Self::Prterun(_, release) => release != OURS,
        }
    }

    /// What it is called in tables.
    pub fn title(&self) -> String {
        match self {
            Self::Ours(_) => "pmix run".to_owned(),
            Self::Host(_, release) => format!("host {release}"),
            Self::Prterun(_, release) => format!("prterun {release}"),
            Self::Example(_) => "minimal_host".to_owned(),
        }
    }

    /// A command that starts the processes here of a job that has others, which no launcher of
    /// another node would start.
    ///
    /// # Errors
    /// The launcher cannot describe such a job.
    pub fn command_of_larger(&self, num_local: u32, far: Far) -> Result<Command, String> {
        match self {
            Self::Ours(_) => {
                // The maps say how many processes there are.
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

    /// A command that starts so many processes; the program and its arguments are to be added.
    pub fn command(&self, num_procs: u32) -> Command {
        let mut command = self.launching();
        if !matches!(self, Self::Example(_)) {
            command.arg("-n");
        }
        command.arg(num_procs.to_string());
        command
    }

    /// A command that starts processes, which does not say yet how many.
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
                // A foreign launcher: Open MPI 4.1 asks for a sign that it has one.
                command.env("JSM_JSRUN_PORT", "1");
            }
            Self::Prterun(program, _) => {
                command = Command::new(program);
                // More slots than processors, and no complaint of being root.
                command.args(["--allow-run-as-root", "--bind-to", "none"]);
                command.args(["--host", "localhost:4096"]);
            }
            Self::Example(program) => command = Command::new(program),
        }
        Self::clean(&mut command);
        command
    }

    /// Takes away what another launcher told this process, and lets many processes share a core.
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
        // Shared memory and loopback are all that there is on one node.
        command.env("OMPI_MCA_pml", "ob1");
    }
}

/// What this node is called in a larger job.
pub const HERE: &str = "here";

/// Nodes of a job that are not here: so many, so many processes on each.
#[derive(Clone, Copy, Debug)]
pub struct Far(pub &'static [(u32, u32)]);

impl Far {
    /// How many processes they have.
    pub fn num_procs(self) -> u32 {
        self.0.iter().map(|(nodes, each)| nodes * each).sum()
    }

    /// As the host takes it.
    fn text(self) -> String {
        let parts = self.0.iter().map(|(nodes, each)| format!("{nodes}x{each}"));
        parts.collect::<Vec<_>>().join(",")
    }

    /// The maps of the whole job, as we take them.
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

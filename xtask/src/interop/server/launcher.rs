// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who serves the processes: us, a host around a real library, or Open MPI's launcher.

use std::path::PathBuf;
use std::process::Command;

use crate::interop::install;
use crate::interop::peers::Peer;
use crate::process;

/// What starts processes and serves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Launcher {
    /// `pmix run`.
    Ours(PathBuf),
    /// The program of `tests/server/host`, and the release of its library.
    Host(PathBuf, String),
    /// prterun, and the release of its library.
    Prterun(PathBuf, String),
}

const HOST: &[&str] = &["board.c", "children.c", "job.c", "main.c", "upcalls.c"];

impl Launcher {
    /// The host around a peer's library.
    ///
    /// # Errors
    /// It does not compile.
    pub(crate) fn host(peer: &Peer) -> Result<Self, String> {
        let source = process::root().join("tests/server/host");
        let program = install::scratch("interop/server")?.join(format!("host-{}", peer.version));
        let sources: Vec<_> = HOST.iter().map(|file| source.join(file)).collect();
        peer.library.compile_with(&program, &source, &sources)?;
        Ok(Self::Host(program, peer.version.clone()))
    }

    /// The launcher that comes with a peer, if there is one.
    pub(crate) fn prterun(peer: &Peer) -> Option<Self> {
        let program = peer.library.beside("prterun")?;
        Some(Self::Prterun(program, peer.version.clone()))
    }

    /// What it is called in tables.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Ours(_) => "pmix run".to_owned(),
            Self::Host(_, release) => format!("host {release}"),
            Self::Prterun(_, release) => format!("prterun {release}"),
        }
    }

    /// A command that starts so many processes; the program and its arguments are to be added.
    pub(crate) fn command(&self, num_procs: u32) -> Command {
        let number = num_procs.to_string();
        let mut command;
        match self {
            Self::Ours(program) => {
                command = Command::new(program);
                command.args(["run", "-n", &number]);
            }
            Self::Host(program, _) => {
                command = Command::new(program);
                command.args(["-n", &number, "--timeout", "120"]);
                // A foreign launcher: Open MPI 4.1 asks for a sign that it has one.
                command.env("JSM_JSRUN_PORT", "1");
            }
            Self::Prterun(program, _) => {
                command = Command::new(program);
                // More slots than processors, and no complaint of being root.
                command.args(["--allow-run-as-root", "--bind-to", "none"]);
                command.args(["--host", "localhost:4096", "-n", &number]);
            }
        }
        clean(&mut command);
        command
    }
}

/// Takes away what another launcher told this process, and lets many processes share a core.
fn clean(command: &mut Command) {
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

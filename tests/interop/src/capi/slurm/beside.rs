// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nodes with our library and nodes with the installed one in one cluster, for `cargo xtask bench capi`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use super::super::machines::{Form, NO_NAMESPACES};
use super::cluster::{Cluster, START, Setup};
use super::{PACKAGES, plugged};
use crate::peers::Library;
use crate::server::programs;
use xtask::install;

/// The cluster: the first two nodes have ours, the others the installed library.
const SETUP: Setup = Setup {
    title: "ours beside the installed library",
    ours: &[true, true, false, false],
    munge: false,
};

/// The library of a step, in `slurmstepd` and in its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Both {
    /// Our library.
    Ours,
    /// The installed library.
    Installed,
}

/// Slurm over four nodes of this machine, two with each library. Dropping it ends everything.
pub struct Beside {
    cluster: Cluster,
    ours: PathBuf,
    installed: PathBuf,
}

impl Beside {
    /// Starts the daemons, and compiles a file of `tests/server/programs` for our library and for the installed one.
    ///
    /// # Errors
    /// Returns a message without root, without Slurm, or if the nodes do not become idle.
    pub fn start(ours: &Library, installed: &Library, program: &str) -> Result<Self, String> {
        if !install::is_root() {
            return Err("only root can make nodes of this machine".to_owned());
        }
        install::packages(PACKAGES);
        let plugged = plugged()?;
        // Copy the installed library, as ours is mounted over it on the nodes.
        let copy = installed.copied(&install::scratch("interop/capi/beside")?)?;
        let programs = (
            programs::compile_for("ours", ours, program)?,
            programs::compile_for("beside", &copy, program)?,
        );
        let start =
            |form| Cluster::start(form, SETUP, &plugged, ours.file(), Instant::now() + START);
        let cluster = match start(Form::Namespaces) {
            Err(why) if why.starts_with(NO_NAMESPACES) => start(Form::Names),
            started => started,
        };
        Ok(Self {
            cluster: cluster?,
            ours: programs.0,
            installed: programs.1,
        })
    }

    /// Returns a step of the program on the two nodes with a library, with this many processes on each.
    #[must_use]
    pub fn step(&self, library: Both, each: u32) -> Command {
        let (nodes, program) = match library {
            Both::Ours => ("n1,n2", &self.ours),
            Both::Installed => ("n3,n4", &self.installed),
        };
        let mut command = self.cluster.inside("srun");
        command.args(["--mpi=pmix_v4", "--time=3", "--quiet", "-N", "2", "-n"]);
        command.arg((2 * each).to_string());
        command.arg(format!("--ntasks-per-node={each}"));
        command.args(["--nodelist", nodes]).arg(program);
        command
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of other launchers: accepted, or refused with the option to use instead. The parser and
//! docs/launchers.md both use this table.
//!
//! Source: mpirun(1) of Open MPI 4.1, the help of prterun 3 (`help-prterun.txt`) for Open MPI 5, srun(1) of Slurm 22.05,
//! `mpiexec.hydra --help` of MPICH 4.0, flux-run(1), the usage of aprun 6.6, PALS and jsrun.

use super::places::{NODES, PLACEMENT, PROCESSES};
use super::row::Row;
use super::scheduler::SCHEDULER;
use super::streams::{DAEMONS, ENDING, ENVIRONMENT, STREAMS};

/// The sections of the table with their titles.
pub(super) const SECTIONS: &[(&str, &[Row])] = &[
    ("Number of processes and applications", PROCESSES),
    ("Nodes", NODES),
    ("Placement and binding", PLACEMENT),
    ("Output and input", STREAMS),
    ("Environment", ENVIRONMENT),
    ("End of the job", ENDING),
    ("Parameters and daemons", DAEMONS),
    ("Requests to a scheduler", SCHEDULER),
];

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job steps that run on a cluster: their placement and the expected results.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::machines::Form;
use super::cluster::Cluster;
use crate::server::case::{Case, Judge};

/// The time limit of a step.
const LIMIT: Duration = Duration::from_secs(120);

/// The file with the node of each process, for a step with its own order of nodes.
const ORDER: &str = "order";

/// A job step.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// A file of `tests/server/programs` or `tests/server/mpi`, and its argument.
    program: &'static str,
    argument: Option<&'static str>,
    /// The number of nodes and of processes.
    nodes: u32,
    tasks: u32,
    /// Options of `srun`.
    options: &'static [&'static str],
    /// The node of each process, if the step sets it.
    order: &'static [&'static str],
    /// `true` if the servers communicate directly, `false` if through Slurm's daemons. With three and more nodes these
    /// sometimes lose messages, also with only the installed library.
    direct: bool,
    judge: fn() -> Judge,
    /// `true` if a form of CI runs the step.
    pub(super) short: bool,
    /// `true` if clients of every release run the step.
    pub(super) every: bool,
    /// `true` if the step requires our library on all nodes.
    pub(super) whole: bool,
}

fn goes_well() -> Judge {
    Judge::Code(0)
}

fn fails() -> Judge {
    Judge::Fails
}

const fn step(program: &'static str, nodes: u32, tasks: u32) -> Step {
    Step {
        program,
        argument: None,
        nodes,
        tasks,
        options: &[],
        order: &[],
        direct: true,
        judge: goes_well,
        short: true,
        every: false,
        whole: false,
    }
}

const EVEN: &[&str] = &["--ntasks-per-node=2"];
const CYCLIC: &[&str] = &["--distribution=cyclic"];
const PLANE: &[&str] = &["--distribution=plane=3"];
const BLOCK: &[&str] = &["--distribution=block"];
const SIXTEEN: &[&str] = &["--ntasks-per-node=16"];

/// Returns the steps of C programs.
pub(super) fn steps() -> Vec<Step> {
    let mut steps = vec![
        Step {
            options: EVEN,
            every: true,
            ..step("across", 2, 4)
        },
        Step {
            options: EVEN,
            direct: false,
            every: true,
            ..step("across", 2, 4)
        },
        step("across", 1, 4),
        step("short", 2, 4),
        // At times a server of 4.2.2 treats the result of one get as all data of the process.
        Step {
            argument: Some("asked"),
            whole: true,
            ..step("across", 4, 16)
        },
        Step {
            options: CYCLIC,
            ..step("across", 4, 16)
        },
        Step {
            options: PLANE,
            ..step("across", 4, 16)
        },
        Step {
            options: BLOCK,
            ..step("across", 3, 10)
        },
        Step {
            order: &["n1", "n2", "n2", "n2", "n3", "n4", "n4", "n1"],
            options: &["--distribution=arbitrary"],
            every: true,
            ..step("across", 4, 8)
        },
        Step {
            options: SIXTEEN,
            ..step("nodes", 4, 64)
        },
        Step {
            judge: fails,
            every: true,
            ..step("abort", 2, 4)
        },
        Step {
            argument: Some("killed"),
            judge: fails,
            ..step("stuck", 2, 4)
        },
        Step {
            argument: Some("left"),
            judge: fails,
            options: &["--kill-on-bad-exit=1"],
            ..step("stuck", 2, 4)
        },
    ];
    for direct in [true, false] {
        for options in [BLOCK, CYCLIC, PLANE] {
            let sizes = [(2, 4), (2, 16), (3, 7), (4, 16), (4, 64)];
            for (nodes, tasks) in sizes.into_iter().filter(|(nodes, _)| direct || *nodes == 2) {
                steps.push(Step {
                    options,
                    direct,
                    short: false,
                    ..step("across", nodes, tasks)
                });
            }
        }
    }
    steps
}

/// The number of processes of the largest step. From about a thousand on, the text of a process map is so long that
/// OpenPMIx 5.0.8 and later compress it.
pub(super) const MANY: u32 = 1042;

/// Returns the step of [`MANY`] processes, more than the nodes have processors. Ranks in cyclic order make a long map.
pub(super) fn many() -> Step {
    Step {
        options: &["--overcommit", "--distribution=cyclic"],
        ..step("short", 4, MANY)
    }
}

/// Returns a step of MPI on one node.
pub(super) fn hello() -> Step {
    step("hello", 1, 2)
}

/// Returns a step on one node.
pub(super) fn on_node(node: &'static str) -> Step {
    let options: &[&str] = match node {
        "n1" => &["--nodelist=n1"],
        _ => &["--nodelist=n2"],
    };
    Step {
        options,
        ..step("across", 1, 2)
    }
}

/// Returns the steps of mpi4py.
pub(super) fn python_steps() -> Vec<Step> {
    let larger = Step {
        options: CYCLIC,
        short: false,
        ..step("mpi4py", 4, 16)
    };
    vec![
        Step {
            options: EVEN,
            ..step("mpi4py", 2, 4)
        },
        larger,
    ]
}

/// Returns the steps of MPI programs.
pub(super) fn mpi_steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for program in ["hello", "ring", "alltoall"] {
        for (nodes, tasks, options, direct) in [
            (2, 4, EVEN, true),
            (2, 4, CYCLIC, true),
            (2, 4, CYCLIC, false),
            (4, 16, CYCLIC, true),
            (4, 64, SIXTEEN, true),
        ] {
            steps.push(Step {
                options,
                direct,
                short: nodes == 2 && direct && (options == CYCLIC) == (program == "ring"),
                ..step(program, nodes, tasks)
            });
        }
    }
    steps
}

/// A program of a step, with its library.
pub(super) struct Client {
    /// The name in reports.
    pub(super) title: String,
    /// The folder in which the loader searches for libraries first, if any.
    pub(super) libraries: Option<PathBuf>,
    /// The text that the version of its library must contain.
    pub(super) version: Option<&'static str>,
    /// `true` if it sometimes crashes with installed libraries only, so that a crash proves nothing about ours.
    pub(super) may_fail: bool,
}

impl Step {
    /// Returns the source of the step's program.
    pub(super) fn program(&self) -> &'static str {
        self.program
    }

    /// Returns the step as a case on a cluster. `words` are the program and its arguments.
    ///
    /// # Errors
    /// Returns a message if the order of the nodes cannot be written.
    pub(super) fn case(
        &self,
        cluster: &Cluster,
        title: &str,
        client: &Client,
        words: &[&Path],
    ) -> Result<Case, String> {
        let mut command = self.command(cluster, client.may_fail)?;
        command.arg("env");
        match &client.libraries {
            Some(folder) => command.arg(format!("LD_LIBRARY_PATH={}", folder.display())),
            None => command.args(["-u", "LD_LIBRARY_PATH"]),
        };
        // Intel MPI is not linked with PMIx and opens the library named here.
        command.arg("I_MPI_PMI_LIBRARY=libpmix.so.2");
        if let Some(version) = client.version {
            command.arg(format!("CHECK_LIBRARY={version}"));
        }
        command.args(words).args(self.argument);
        let connection = if self.direct {
            "direct"
        } else {
            "through slurmd"
        };
        let words = [self.program, self.argument.unwrap_or_default()].join(" ");
        Ok(Case {
            what: format!("{title}, client {}", client.title),
            name: format!(
                "{} on {} nodes, {} processes, {} {connection}",
                words.trim(),
                self.nodes,
                self.tasks,
                self.options.join(" "),
            ),
            command,
            limit: LIMIT,
            judge: (self.judge)(),
            is_control: false,
        })
    }

    /// Returns `true` if a cluster of that many nodes can run the step.
    pub(super) fn fits(&self, num_nodes: usize) -> bool {
        usize::try_from(self.nodes).is_ok_and(|nodes| nodes <= num_nodes)
    }

    /// Returns the number of processes as an argument.
    pub(super) fn tasks(&self) -> String {
        self.tasks.to_string()
    }

    /// Returns `srun` with the options of this step.
    fn command(&self, cluster: &Cluster, may_fail: bool) -> Result<Command, String> {
        let mut command = srun(cluster, may_fail);
        command.args(["-n", &self.tasks.to_string()]);
        // Slurm 24.11 refuses a number of nodes beside an order of nodes.
        if self.order.is_empty() {
            command.args(["-N", &self.nodes.to_string()]);
        }
        command.args(self.options);
        command.env("SLURM_PMIX_DIRECT_CONN", self.direct.to_string());
        if self.direct {
            // Slurm's other fence algorithm completes a fence without data on each node alone.
            command.env("SLURM_PMIX_FENCE", "ring");
        }
        if !self.order.is_empty() {
            let file = cluster.home().join(ORDER);
            let text: String = self.order.iter().map(|name| format!("{name}\n")).collect();
            let fault = |e: std::io::Error| format!("{}: {e}", file.display());
            std::fs::write(&file, text).map_err(fault)?;
            command.env("SLURM_HOSTFILE", format!("{}/{ORDER}", cluster.shared()));
        }
        Ok(command)
    }
}

/// Returns `srun` with the common options. A step that may fail is run up to three times.
fn srun(cluster: &Cluster, may_fail: bool) -> Command {
    let mut command = match may_fail {
        false => cluster.inside("srun"),
        true => {
            let mut command = cluster.inside("sh");
            command.args(["-c", r#""$@" || "$@" || "$@""#, "sh", "srun"]);
            command
        }
    };
    command.args(["--mpi=pmix", "--time=3", "--quiet"]);
    // The nodes have only the loopback and their network.
    command.env("OMPI_MCA_pml", "ob1");
    let network = match cluster.form() {
        Form::Namespaces => "eth0",
        Form::Names => {
            // Nodes have no host names of their own.
            command.env("CHECK_NODES", "named");
            "lo"
        }
    };
    command.env("OMPI_MCA_btl_tcp_if_include", network);
    command.env("OMPI_MCA_mpi_yield_when_idle", "1");
    command
}

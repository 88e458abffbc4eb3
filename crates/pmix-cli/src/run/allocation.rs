// SPDX-License-Identifier: MIT OR Apache-2.0
//! The allocation of a resource manager in which `pmix run` was started: Slurm, PBS, LSF or Flux.
//!
//! Source: the output environment variables in sbatch(1), `PBS_NODEFILE` in qsub(1), `LSB_MCPU_HOSTS`, `LSB_HOSTS` and
//! `LSB_DJOB_HOSTFILE` in the reference of LSF, flux-environment(7).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use pmix_map::Limits;

use super::nodes::{ThisNode, read};
use super::variables::{Variables, is_rank, number};
use crate::failure::Failure;
use crate::input::{Form, Source, allocation};

/// The nodes of an allocation.
struct Allocated {
    /// The variable that names them.
    variable: &'static str,
    description: Description,
    /// The command that starts processes on all of them.
    launcher: &'static str,
    /// The command line that starts `pmix run` on one of them.
    instead: &'static str,
}

/// The nodes of an allocation, in a variable or in the file that it names.
enum Description {
    Text(Source),
    File(OsString),
}

/// Returns the number of processes for which an allocation has slots on this node, if a resource manager other than
/// Slurm made one. For Slurm, only the node is checked. In a process of a job, nothing is checked.
///
/// # Errors
/// This node is not part of the allocation, or its description cannot be read and is needed (`is_needed`).
pub(super) fn slots(
    vars: &Variables,
    here: &ThisNode,
    limits: &Limits,
    is_needed: bool,
) -> Result<Option<u32>, Failure> {
    if is_rank(vars) {
        return Ok(None);
    }
    let Some(allocated) = of_environment(vars) else {
        return Ok(of_flux(vars));
    };
    let Allocated {
        variable,
        description,
        launcher,
        instead,
    } = allocated;
    let found = match description {
        Description::Text(source) => allocation(&source, limits)?,
        Description::File(path) => {
            let found = read(path.as_ref()).and_then(|source| allocation(&source, limits));
            match found {
                Ok(found) => found,
                Err(failure) if is_needed => {
                    let message = format!("the allocation in ${variable}: {}", failure.message());
                    return Err(failure.saying(&message).cure(format!(
                        "use -n N for the number of processes on this node, or `env -u {variable} pmix run`"
                    )));
                }
                Err(failure) => {
                    tracing::warn!(
                        "the allocation in ${variable} is not checked: {}",
                        failure.message()
                    );
                    return Ok(None);
                }
            }
        }
    };
    let is_slurm = found.slots.is_none();
    let names: Vec<_> = found.nodes.iter().collect();
    let names: Vec<_> = names
        .iter()
        .map(|name| String::from_utf8_lossy(name))
        .collect();
    let are_here = here.find(names.iter().map(|name| &**name));
    let at = are_here.iter().position(|is_here| *is_here);
    let slots = found.slots.unwrap_or_default();
    let own = at.map(|at| slots.per_node().nth(at).unwrap_or(1));
    let Some(own) = own else {
        let here = here.named();
        let first = found.nodes.nth(0).unwrap_or_default();
        let first = String::from_utf8_lossy(&first).into_owned();
        let others = match found.nodes.len() {
            0 | 1 => String::new(),
            len => format!(" and {} more", len - 1),
        };
        let message = format!(
            "the allocation in ${variable} has {first}{others}, but not this node, {here}, and pmix run starts processes \
            on this node only"
        );
        return Err(Failure::usage(message).cure(format!(
            "`{}` starts them on {first}; add --host localhost to start them on {here}",
            instead.replace("NODE", &first)
        )));
    };
    if is_slurm {
        return Ok(None);
    }
    let num_nodes = found.nodes.len();
    if num_nodes > 1 {
        tracing::warn!(
            "this allocation has {num_nodes} nodes, but processes start on this node only: use {launcher} to start \
            processes on all nodes"
        );
    }
    Ok(Some(own))
}

/// Returns the allocation that the environment describes.
fn of_environment(vars: &Variables) -> Option<Allocated> {
    let var = |name: &str| {
        let mut vars = vars.iter();
        let found = vars.find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.as_os_str())
    };
    let of_text = |variable: &'static str, text: &OsStr, form: Form| Source {
        origin: format!("${variable}"),
        bytes: text.as_bytes().to_vec(),
        comments: false,
        form,
    };
    if let Some(nodes) = var("SLURM_JOB_NODELIST") {
        let source = of_text("SLURM_JOB_NODELIST", nodes, Form::Slurm(None));
        return Some(Allocated {
            variable: "SLURM_JOB_NODELIST",
            description: Description::Text(source),
            launcher: "srun",
            instead: "srun -N 1 -n 1 pmix run -n N PROGRAM",
        });
    }
    if let Some(file) = var("PBS_NODEFILE") {
        return Some(Allocated {
            variable: "PBS_NODEFILE",
            description: Description::File(file.to_owned()),
            launcher: "prterun or mpirun",
            instead: "pbsdsh -n 0 -- pmix run -n N PROGRAM",
        });
    }
    let lsf = |variable, description| {
        Some(Allocated {
            variable,
            description,
            launcher: "prterun or mpirun",
            instead: "blaunch NODE pmix run -n N PROGRAM",
        })
    };
    if let Some(hosts) = var("LSB_MCPU_HOSTS") {
        let source = of_text("LSB_MCPU_HOSTS", hosts, Form::McpuHosts);
        return lsf("LSB_MCPU_HOSTS", Description::Text(source));
    }
    if let Some(file) = var("LSB_DJOB_HOSTFILE") {
        return lsf("LSB_DJOB_HOSTFILE", Description::File(file.to_owned()));
    }
    let mut source = of_text("LSB_HOSTS", var("LSB_HOSTS")?, Form::Hostfile);
    // A name for each slot, with blanks between them.
    for byte in &mut source.bytes {
        if *byte == b' ' {
            *byte = b'\n';
        }
    }
    lsf("LSB_HOSTS", Description::Text(source))
}

/// Returns 1 in the only task of a Flux job. The variables of Flux exist only in tasks, and each of several tasks starts
/// its own `pmix run`.
fn of_flux(vars: &Variables) -> Option<u32> {
    let nodes = number(vars, "FLUX_JOB_NNODES")?;
    let tasks = number(vars, "FLUX_JOB_SIZE")?;
    if nodes > 1 {
        tracing::warn!(
            "this allocation has {nodes} nodes, but processes start on this node only: use flux run to start processes on \
            all nodes"
        );
    }
    (tasks == 1).then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vars: &[(&str, &str)]) -> Result<Option<u32>, Failure> {
        let vars: Vec<_> = vars
            .iter()
            .map(|(name, value)| (OsString::from(*name), OsString::from(*value)))
            .collect();
        let here = ThisNode::new(vec!["n1".to_owned()]);
        slots(&vars, &here, &Limits::default(), true)
    }

    #[test]
    fn slots_of_this_node_in_an_allocation_are_the_number_of_processes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"n1.cluster\nn1.cluster\nn2.cluster\n").unwrap();
        let path = file.path().to_str().unwrap();
        for (vars, slots) in [
            (&[("PBS_NODEFILE", path)][..], Some(2)),
            (&[("LSB_DJOB_HOSTFILE", path)], Some(2)),
            (&[("LSB_MCPU_HOSTS", "n0 1 n1 4")], Some(4)),
            (&[("LSB_HOSTS", "n1 n1 n1")], Some(3)),
            (&[("FLUX_JOB_NNODES", "1"), ("FLUX_JOB_SIZE", "1")], Some(1)),
            (&[("FLUX_JOB_NNODES", "1"), ("FLUX_JOB_SIZE", "5")], None),
            (&[("FLUX_JOB_NNODES", "2"), ("FLUX_JOB_SIZE", "5")], None),
            (&[("SLURM_JOB_NODELIST", "n[1-3]")], None),
            // A rank inherits the variables.
            (&[("PBS_NODEFILE", path), ("PMIX_RANK", "0")], None),
            (
                &[("LSB_HOSTS", "n2 n2"), ("OMPI_COMM_WORLD_RANK", "1")],
                None,
            ),
            (&[], None),
        ] {
            assert_eq!(of(vars).unwrap(), slots, "{vars:?}");
        }
    }

    #[test]
    fn an_allocation_without_this_node_is_refused_with_the_command_to_use() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"n2.invalid\nn2.invalid\n").unwrap();
        let path = file.path().to_str().unwrap();
        for (name, value, hint) in [
            (
                "SLURM_JOB_NODELIST",
                "n[2-4].invalid",
                "srun -N 1 -n 1 pmix run",
            ),
            ("PBS_NODEFILE", path, "pbsdsh -n 0"),
            (
                "LSB_MCPU_HOSTS",
                "n2.invalid 4",
                "blaunch n2.invalid pmix run",
            ),
        ] {
            let message = format!("{:?}", of(&[(name, value)]).unwrap_err());
            for said in [hint, name, "n2", "not this node, n1", "--host localhost"] {
                assert!(message.contains(said), "{name}: {message}");
            }
        }
    }

    #[test]
    fn an_allocation_in_an_unreadable_file_is_named_and_not_needed_with_a_number() {
        for path in ["/no/such/file", "/dev/zero", "-"] {
            let message = format!("{:?}", of(&[("PBS_NODEFILE", path)]).unwrap_err());
            for said in ["$PBS_NODEFILE", path, "use -n N", "env -u PBS_NODEFILE"] {
                assert!(message.contains(said), "{message}");
            }
            let vars = [("PBS_NODEFILE".into(), path.into())];
            let here = ThisNode::new(vec!["n1".to_owned()]);
            assert_eq!(
                slots(&vars, &here, &Limits::default(), false).unwrap(),
                None
            );
        }
    }
}

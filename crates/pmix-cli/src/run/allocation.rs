// SPDX-License-Identifier: MIT OR Apache-2.0
//! The allocation of a resource manager in which `pmix run` was started: Slurm, PBS, LSF or Flux.
//!
//! Source: the output environment variables in sbatch(1), `PBS_NODEFILE` in qsub(1), `LSB_MCPU_HOSTS`, `LSB_HOSTS` and
//! `LSB_DJOB_HOSTFILE` in the reference of LSF, flux-environment(7).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use pmix_map::Limits;

use super::nodes::ThisNode;
use crate::failure::Failure;
use crate::input::{Form, Source, allocation, read_path};

/// The nodes of an allocation.
struct Allocated {
    /// The variable that names them.
    variable: &'static str,
    source: Source,
    /// The command that starts processes on all of them.
    launcher: &'static str,
    /// The command line that starts `pmix run` on one of them.
    instead: &'static str,
}

/// Returns the number of processes for which an allocation has slots on this node, if a resource manager other than
/// Slurm made one. For Slurm, only the node is checked.
///
/// # Errors
/// This node is not part of the allocation, or its description cannot be read.
pub(super) fn slots(
    vars: &[(OsString, OsString)],
    here: &ThisNode,
    limits: &Limits,
) -> Result<Option<u32>, Failure> {
    let Some(allocated) = of_environment(vars)? else {
        return Ok(of_flux(vars));
    };
    let Allocated {
        variable,
        source,
        launcher,
        instead,
    } = allocated;
    let found = allocation(&source, limits)?;
    let is_slurm = found.slots.is_none();
    let slots = found.slots.unwrap_or_default();
    let mut per_node = slots.per_node();
    let mut own = None;
    for name in found.nodes.iter() {
        let slots = per_node.next();
        if here.is_named(&String::from_utf8_lossy(&name)) {
            own = Some(slots.unwrap_or(1));
            break;
        }
    }
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
fn of_environment(vars: &[(OsString, OsString)]) -> Result<Option<Allocated>, Failure> {
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
    let of_file = |path: &OsStr| -> Result<Source, Failure> {
        let source = read_path(Some(path))?;
        Ok(Source {
            form: Form::Hostfile,
            ..source
        })
    };
    if let Some(nodes) = var("SLURM_JOB_NODELIST") {
        return Ok(Some(Allocated {
            variable: "SLURM_JOB_NODELIST",
            source: of_text("SLURM_JOB_NODELIST", nodes, Form::Slurm(None)),
            launcher: "srun",
            instead: "srun -N 1 -n 1 pmix run -n N PROGRAM",
        }));
    }
    if let Some(file) = var("PBS_NODEFILE") {
        return Ok(Some(Allocated {
            variable: "PBS_NODEFILE",
            source: of_file(file)?,
            launcher: "prterun or mpirun",
            instead: "pbsdsh -n 0 -- pmix run -n N PROGRAM",
        }));
    }
    let lsf = |variable, source| Allocated {
        variable,
        source,
        launcher: "prterun or mpirun",
        instead: "blaunch NODE pmix run -n N PROGRAM",
    };
    Ok(
        match (
            var("LSB_MCPU_HOSTS"),
            var("LSB_DJOB_HOSTFILE"),
            var("LSB_HOSTS"),
        ) {
            (Some(hosts), ..) => {
                let source = of_text("LSB_MCPU_HOSTS", hosts, Form::McpuHosts);
                Some(lsf("LSB_MCPU_HOSTS", source))
            }
            (None, Some(file), _) => Some(lsf("LSB_DJOB_HOSTFILE", of_file(file)?)),
            (None, None, Some(hosts)) => {
                let mut source = of_text("LSB_HOSTS", hosts, Form::Hostfile);
                // A name for each slot, with blanks between them.
                for byte in &mut source.bytes {
                    if *byte == b' ' {
                        *byte = b'\n';
                    }
                }
                Some(lsf("LSB_HOSTS", source))
            }
            (None, None, None) => None,
        },
    )
}

/// Returns the number of tasks of a Flux job. Its variables exist only in its tasks, which run on its nodes.
fn of_flux(vars: &[(OsString, OsString)]) -> Option<u32> {
    let number = |name: &str| super::placement::number(vars, name);
    let (nodes, tasks) = (number("FLUX_JOB_NNODES")?, number("FLUX_JOB_SIZE")?);
    if nodes == 1 {
        return Some(tasks);
    }
    tracing::warn!(
        "this allocation has {nodes} nodes, but processes start on this node only: use flux run to start processes on \
        all nodes"
    );
    None
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
        slots(&vars, &here, &Limits::default())
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
            (&[("FLUX_JOB_NNODES", "1"), ("FLUX_JOB_SIZE", "5")], Some(5)),
            (&[("FLUX_JOB_NNODES", "2"), ("FLUX_JOB_SIZE", "5")], None),
            (&[("SLURM_JOB_NODELIST", "n[1-3]")], None),
            (&[], None),
        ] {
            assert_eq!(of(vars).unwrap(), slots, "{vars:?}");
        }
    }

    #[test]
    fn an_allocation_without_this_node_is_refused_with_the_command_to_use() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"n2\nn2\n").unwrap();
        let path = file.path().to_str().unwrap();
        for (name, value, hint) in [
            ("SLURM_JOB_NODELIST", "n[2-4]", "srun -N 1 -n 1 pmix run"),
            ("PBS_NODEFILE", path, "pbsdsh -n 0"),
            ("LSB_MCPU_HOSTS", "n2 4", "blaunch n2 pmix run"),
        ] {
            let message = format!("{:?}", of(&[(name, value)]).unwrap_err());
            for said in [hint, name, "n2", "not this node, n1", "--host localhost"] {
                assert!(message.contains(said), "{name}: {message}");
            }
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resources of this node, for queries and displays.

use pmix_topology::Cpuset;
use pmix_types::{DataArray, Info, Text, Value, keys};

use crate::process;
use crate::topology::memory_kb;

/// Returns the nodes on which jobs are started: this one, with its name, the processors that processes may use and
/// its memory in kB.
pub(crate) fn allocation(host: &[u8]) -> Value<'static> {
    let mut node = vec![Info::new(keys::HOSTNAME, text(host))];
    node.push(Info::new(keys::MAX_PROCS, num_processors()));
    if let Some(total) = memory_kb() {
        node.push(Info::new(keys::AVAIL_PHYS_MEMORY, total));
    }
    let node = Value::DataArray(DataArray::Info(node));
    let nodes = vec![Info::new(keys::NODE_INFO, node)];
    Value::DataArray(DataArray::Info(nodes))
}

/// Returns the number of processors on which processes of this launcher may run.
pub(crate) fn num_processors() -> u32 {
    let allowed = process::allowed().map(|cpus| cpus.len());
    let all = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    allowed
        .or_else(|| u32::try_from(all()).ok())
        .unwrap_or(u32::MAX)
}

/// Returns the processors on which processes may run, such as `0-3`, optionally restricted to a set.
pub(crate) fn processors(of: Option<&Cpuset>) -> String {
    match (process::allowed(), of) {
        (Some(allowed), Some(of)) => allowed.and(of).to_string(),
        (Some(allowed), None) => allowed.to_string(),
        (None, Some(of)) => of.to_string(),
        (None, None) => format!("0-{}", num_processors().saturating_sub(1)),
    }
}

fn text(bytes: &[u8]) -> Value<'static> {
    Value::String(Some(Text::new(bytes.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infos(value: &Value<'static>) -> Vec<Info<'static>> {
        value.as_infos().unwrap().to_vec()
    }

    #[test]
    fn the_allocation_has_the_host_name_first_then_processors_and_memory() {
        let nodes = infos(&allocation(b"n1"));
        assert!(nodes.len() == 1 && nodes[0].key.is(keys::NODE_INFO));
        let node = infos(&nodes[0].value);
        assert_eq!(node[0], Info::new(keys::HOSTNAME, "n1"));
        assert!(node[1].key.is(keys::MAX_PROCS));
        assert!(node[1].value.to_number::<u32>().unwrap() > 0);
        let memory = node[2].value.to_number::<u64>().unwrap();
        assert!(node[2].key.is(keys::AVAIL_PHYS_MEMORY) && memory > 1024);
    }
}

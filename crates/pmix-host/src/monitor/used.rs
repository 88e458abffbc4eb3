// SPDX-License-Identifier: MIT OR Apache-2.0
//! The targets, figures and form of a request for resource usage.

use std::collections::HashSet;
use std::time::Instant;

use pmix_types::{DataArray, DataType, Info, NodeStats, Proc, Status, Text, Value, keys};

use super::sample::Samples;
use super::{LocalNode, error, wrong};
use crate::Error;
use crate::usage::{Detail, MOST_PSS, Wanted, of_disk, of_interface, of_node, of_process};

/// The largest number of targets in a request, over all its directives. A target keeps at most 255 bytes of its name, so
/// a monitor keeps at most 20 MiB.
const MOST_TARGETS: usize = 65_536;
/// The largest number of figures in a request; there are fewer.
const MOST_FIGURES: usize = 256;

/// The monitor of resource usage.
#[derive(Debug)]
pub(super) struct UsageMonitor {
    kind: UsageKind,
    wanted: Wanted,
    /// `true` if the request wants an array of a statistics type instead of infos.
    is_typed: bool,
    targets: Targets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsageKind {
    Processes,
    Node,
    Disks,
    Interfaces,
}

/// The requested targets; an empty list selects all.
#[derive(Debug, Default)]
struct Targets {
    procs: Option<HashSet<Proc<'static>>>,
    pids: Option<Vec<(Option<Text<'static>>, u32, i32)>>,
    nodes: Option<Vec<Text<'static>>>,
    nodeids: Option<Vec<u32>>,
    disks: Option<HashSet<Text<'static>>>,
    nets: Option<HashSet<Text<'static>>>,
}

impl UsageMonitor {
    /// Parses a request.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_SUPPORTED` for another monitor, `PMIX_ERR_BAD_PARAM` for targets of another type, and
    /// `PMIX_ERR_OUT_OF_RESOURCE` for too many targets or figures.
    pub(super) fn read(monitor: &Info<'_>, directives: &[Info<'_>]) -> Result<Self, Error> {
        let (kind, own_type) = match monitor.key.as_text().as_str() {
            Some(keys::MONITOR_PROC_RESOURCE_USAGE) => (UsageKind::Processes, DataType::PROC_STATS),
            Some(keys::MONITOR_NODE_RESOURCE_USAGE) => (UsageKind::Node, DataType::NODE_STATS),
            Some(keys::MONITOR_DISK_RESOURCE_USAGE) => (UsageKind::Disks, DataType::DISK_STATS),
            Some(keys::MONITOR_NET_RESOURCE_USAGE) => (UsageKind::Interfaces, DataType::NET_STATS),
            _ => {
                let message = format!("{} is not supported by this host", monitor.key);
                return Err(error(Status::ERR_NOT_SUPPORTED, message));
            }
        };
        let is_typed = match &monitor.value {
            Value::DataArray(array) if array.len() > MOST_FIGURES => {
                let message = format!("{} names more than {MOST_FIGURES} figures", monitor.key);
                return Err(error(Status::ERR_OUT_OF_RESOURCE, message));
            }
            Value::DataArray(array) => array.data_type() == own_type,
            _ => false,
        };
        Ok(Self {
            kind,
            wanted: Wanted::of_value(&monitor.value),
            is_typed,
            targets: Targets::read(directives)?,
        })
    }

    /// Measures the targets and returns the requested figures.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if none of the named targets is on this node, `PMIX_ERR_OUT_OF_RESOURCE` if the
    /// proportional set size of too many processes is requested by name, and an error if the system cannot be read.
    pub(super) fn measure(
        &self,
        node: &LocalNode,
        samples: &mut Samples,
        now: Instant,
    ) -> Result<Vec<Info<'static>>, Error> {
        if !self.targets.has_node(node) {
            let message = format!("the named nodes do not include {}", node.name);
            return Err(error(Status::ERR_NOT_FOUND, message));
        }
        if self.kind == UsageKind::Processes {
            let procs = self.targets.processes(node);
            // A node may have no processes, but a named process must exist.
            if procs.is_empty() && self.targets.names_processes() {
                let message = "none of the named processes runs on this node";
                return Err(error(Status::ERR_NOT_FOUND, message));
            }
            let is_small = procs.len() <= MOST_PSS;
            if !is_small && self.wanted.names(keys::PROC_PSS) {
                let message = format!(
                    "{} is reported for at most {MOST_PSS} processes, {} were named",
                    keys::PROC_PSS,
                    procs.len()
                );
                return Err(error(Status::ERR_OUT_OF_RESOURCE, message));
            }
            let detail = match Detail::of(&self.wanted) {
                // The kernel walks all pages of a process for this figure, and the request does not name it.
                Detail::Proportional if !is_small => Detail::Memory,
                detail => detail,
            };
            let stats = samples.processes(&procs, &node.name, detail, now);
            return Ok(match self.is_typed {
                true => vec![array(
                    keys::PROC_RESOURCE_USAGE,
                    DataArray::ProcStats(stats),
                )],
                false => stats
                    .iter()
                    .map(|stats| of_process(stats, &self.wanted))
                    .collect(),
            });
        }
        let stats = samples.node(&node.name, now)?;
        Ok(self.of_node(self.targets.parts(stats)))
    }

    /// Returns the usage of a node.
    fn of_node(&self, stats: NodeStats<'static>) -> Vec<Info<'static>> {
        let at = stats.sample_time.tv_sec;
        match (self.kind, self.is_typed) {
            (UsageKind::Disks, false) => {
                let disks = stats.diskstats.iter();
                disks.map(|disk| of_disk(disk, &self.wanted, at)).collect()
            }
            (UsageKind::Interfaces, false) => {
                let nets = stats.netstats.iter();
                nets.map(|net| of_interface(net, &self.wanted, at))
                    .collect()
            }
            (_, false) => vec![of_node(&stats, &self.wanted)],
            (UsageKind::Disks, true) => {
                let disks = DataArray::DiskStats(stats.diskstats);
                vec![array(keys::DISK_RESOURCE_USAGE, disks)]
            }
            (UsageKind::Interfaces, true) => {
                let nets = DataArray::NetStats(stats.netstats);
                vec![array(keys::NETWORK_RESOURCE_USAGE, nets)]
            }
            (_, true) => {
                let nodes = DataArray::NodeStats(vec![stats]);
                vec![array(keys::NODE_RESOURCE_USAGE, nodes)]
            }
        }
    }

    /// Measures again. Returns `None` while none of the targets exists.
    pub(super) fn update(
        &self,
        node: &LocalNode,
        samples: &mut Samples,
        now: Instant,
    ) -> Option<Vec<Info<'static>>> {
        let found = self.measure(node, samples, now).ok()?;
        (!found.is_empty()).then_some(found)
    }
}

impl Targets {
    fn read(directives: &[Info<'_>]) -> Result<Self, Error> {
        let mut targets = Self::default();
        let mut num_targets = 0;
        for info in directives {
            let Some(key) = info.key.as_text().as_str() else {
                continue;
            };
            if !key.starts_with("pmix.monitor.tgt") {
                continue;
            }
            let Value::DataArray(array) = &info.value else {
                return Err(wrong(info));
            };
            num_targets += array.len();
            if num_targets > MOST_TARGETS {
                let message = format!("a request names more than {MOST_TARGETS} targets");
                return Err(error(Status::ERR_OUT_OF_RESOURCE, message));
            }
            match (key, array) {
                // An empty array selects nothing.
                (_, array) if array.is_empty() => {}
                (keys::MONITOR_TARGET_PROCS, DataArray::Proc(procs)) => {
                    targets.procs = Some(Proc::owned_list(procs).into_iter().collect());
                }
                (keys::MONITOR_TARGET_PIDS, DataArray::NodePid(pids)) => {
                    let pid = |pid: &pmix_types::NodePid<'_>| {
                        let host = pid.hostname.as_ref().map(Wanted::kept_name);
                        (host, pid.nodeid, pid.pid)
                    };
                    targets.pids = Some(pids.iter().map(pid).collect());
                }
                (keys::MONITOR_TARGET_NODES, DataArray::String(names)) => {
                    targets.nodes = Some(owned(names));
                }
                (keys::MONITOR_TARGET_NODEIDS, DataArray::Uint32(ids)) => {
                    targets.nodeids = Some(ids.clone());
                }
                (keys::MONITOR_TARGET_DISKS, DataArray::String(names)) => {
                    targets.disks = Some(owned(names));
                }
                (keys::MONITOR_TARGET_NETS, DataArray::String(names)) => {
                    targets.nets = Some(owned(names));
                }
                _ => return Err(wrong(info)),
            }
        }
        Ok(targets)
    }

    fn has_node(&self, node: &LocalNode) -> bool {
        let by_name = self.nodes.as_ref().map(|names| names.contains(&node.name));
        let by_number = self.nodeids.as_ref().map(|ids| ids.contains(&node.nodeid));
        match (by_name, by_number) {
            (None, None) => true,
            (by_name, by_number) => by_name == Some(true) || by_number == Some(true),
        }
    }

    fn names_processes(&self) -> bool {
        self.procs.is_some() || self.pids.is_some()
    }

    /// Returns the requested processes.
    fn processes(&self, node: &LocalNode) -> Vec<(Proc<'static>, i32)> {
        let here: HashSet<i32> = (self.pids.iter().flatten())
            .filter(|(host, nodeid, _)| match host {
                Some(host) => *host == node.name,
                None => *nodeid == node.nodeid || *nodeid == u32::MAX,
            })
            .map(|(_, _, pid)| *pid)
            .collect();
        let is_meant = |(proc, pid): &&(Proc<'static>, i32)| {
            let whole = Proc::new(proc.nspace.clone(), pmix_types::Rank::WILDCARD);
            let procs = self.procs.as_ref();
            !self.names_processes()
                || here.contains(pid)
                || procs.is_some_and(|procs| procs.contains(proc) || procs.contains(&whole))
        };
        node.processes.iter().filter(is_meant).cloned().collect()
    }

    /// Returns a node with its requested disks and interfaces.
    fn parts(&self, stats: &NodeStats<'static>) -> NodeStats<'static> {
        let mut stats = stats.clone();
        let has = |names: &Option<HashSet<Text<'static>>>, name: &Option<Text<'static>>| {
            let name = name.as_ref();
            names
                .as_ref()
                .is_none_or(|names| name.is_some_and(|name| names.contains(name)))
        };
        stats.diskstats.retain(|disk| has(&self.disks, &disk.disk));
        stats
            .netstats
            .retain(|net| has(&self.nets, &net.net_interface));
        stats
    }
}

fn array(key: &'static str, array: DataArray<'static>) -> Info<'static> {
    Info::new(key, Value::DataArray(array))
}

fn owned<C: FromIterator<Text<'static>>>(names: &[Option<Text<'_>>]) -> C {
    names.iter().flatten().map(Wanted::kept_name).collect()
}

#[cfg(test)]
mod tests {
    use pmix_types::{DiskStats, NodePid, Rank};

    use super::*;

    fn targets(directives: &[Info<'_>]) -> Result<Targets, Status> {
        Targets::read(directives).map_err(|error| error.status())
    }

    fn target(key: &'static str, array: DataArray<'static>) -> Targets {
        targets(&[Info::new(key, Value::DataArray(array))]).unwrap()
    }

    fn node() -> LocalNode {
        let proc = |job: &'static str, rank| Proc::new(job, Rank::new(rank));
        LocalNode {
            name: "n1".into(),
            nodeid: 3,
            processes: vec![(proc("a", 0), 10), (proc("a", 1), 11), (proc("b", 0), 12)],
        }
    }

    fn pids(targets: &Targets) -> Vec<i32> {
        let procs = targets.processes(&node());
        procs.into_iter().map(|(_, pid)| pid).collect()
    }

    #[test]
    fn processes_are_meant_by_name_by_job_and_by_number() {
        assert_eq!(pids(&Targets::default()), [10, 11, 12]);
        let procs = |procs: &[(&'static str, Rank)]| {
            let procs = procs.iter().map(|(job, rank)| Proc::new(*job, *rank));
            target(keys::MONITOR_TARGET_PROCS, DataArray::Proc(procs.collect()))
        };
        assert_eq!(
            pids(&procs(&[("a", Rank::new(1)), ("c", Rank::new(0))])),
            [11]
        );
        assert_eq!(pids(&procs(&[("a", Rank::WILDCARD)])), [10, 11]);
        assert_eq!(
            pids(&procs(&[])),
            [10, 11, 12],
            "an empty array names nothing"
        );
        let pid = |hostname: Option<&'static str>, nodeid, pid| NodePid {
            hostname: hostname.map(Text::from),
            nodeid,
            pid,
        };
        let listed = vec![
            pid(Some("n1"), 0, 10),
            pid(Some("n2"), 3, 11),
            pid(None, 3, 12),
            pid(None, 4, 10),
        ];
        let listed = target(keys::MONITOR_TARGET_PIDS, DataArray::NodePid(listed));
        assert_eq!(pids(&listed), [10, 12]);
    }

    #[test]
    fn a_node_is_meant_by_name_or_number() {
        let named = |name: &'static str| {
            let names = DataArray::String(vec![None, Some(name.into())]);
            target(keys::MONITOR_TARGET_NODES, names).has_node(&node())
        };
        let numbered = |id| {
            let ids = DataArray::Uint32(vec![id]);
            target(keys::MONITOR_TARGET_NODEIDS, ids).has_node(&node())
        };
        assert_eq!([named("n1"), named("n2")], [true, false]);
        assert_eq!([numbered(3), numbered(0)], [true, false]);
        let disks = DataArray::String(vec![Some("vda".into())]);
        let disks = target(keys::MONITOR_TARGET_DISKS, disks);
        let disk = |name: &'static str| DiskStats {
            disk: Some(name.into()),
            ..DiskStats::default()
        };
        let stats = NodeStats {
            diskstats: vec![disk("vda"), disk("vdb")],
            ..NodeStats::default()
        };
        assert_eq!(disks.parts(&stats).diskstats, [disk("vda")]);
    }

    #[test]
    fn the_proportional_set_size_is_limited_to_a_number_of_processes() {
        let of = |figures: Vec<Info<'static>>, number: usize| {
            let figures = Value::DataArray(DataArray::Info(figures));
            let monitor = Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, figures);
            let own = i32::try_from(std::process::id()).unwrap();
            let node = LocalNode {
                processes: vec![(Proc::new("a", Rank::new(0)), own); number],
                ..node()
            };
            let monitor = UsageMonitor::read(&monitor, &[]).unwrap();
            let measured = monitor.measure(&node, &mut Samples::default(), Instant::now());
            let measured = measured.map_err(|error| error.status())?;
            let all = measured
                .iter()
                .filter_map(|info| info.value.as_infos().ok());
            let with = all.filter(|infos| infos.iter().any(|info| info.key.is(keys::PROC_PSS)));
            Ok::<_, Status>((measured.len(), with.count()))
        };
        let pss = || vec![Info::new(keys::PROC_PSS, true)];
        assert_eq!(of(pss(), 2), Ok((2, 2)));
        let refused = Err(Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(of(pss(), MOST_PSS + 1), refused);
        // A request for all figures gets those without the proportional set size.
        assert_eq!(of(Vec::new(), MOST_PSS + 1), Ok((MOST_PSS + 1, 0)));
    }

    #[test]
    fn the_number_of_named_figures_is_limited() {
        let read = |number| {
            let figures = DataArray::Info(vec![Info::new(keys::PROC_RSS, true); number]);
            let monitor = Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, Value::DataArray(figures));
            let read = UsageMonitor::read(&monitor, &[]);
            read.map(|read| read.wanted.has(keys::PROC_RSS))
                .map_err(|error| error.status())
        };
        assert_eq!(read(MOST_FIGURES), Ok(true));
        assert_eq!(read(MOST_FIGURES + 1), Err(Status::ERR_OUT_OF_RESOURCE));
    }

    #[test]
    fn targets_of_another_type_and_too_many_are_refused() {
        let half = || Value::DataArray(DataArray::Uint32(vec![0; MOST_TARGETS / 2 + 1]));
        let halves = [half(), half()].map(|half| Info::new(keys::MONITOR_TARGET_NODEIDS, half));
        assert_eq!(targets(&halves).unwrap_err(), Status::ERR_OUT_OF_RESOURCE);
        let many = DataArray::Uint32(vec![0; MOST_TARGETS + 1]);
        for (value, status) in [
            (Value::Bool(true), Status::ERR_BAD_PARAM),
            (
                Value::DataArray(DataArray::Bool(vec![true])),
                Status::ERR_BAD_PARAM,
            ),
            (Value::DataArray(many), Status::ERR_OUT_OF_RESOURCE),
        ] {
            let refused = targets(&[Info::new(keys::MONITOR_TARGET_NODEIDS, value)]);
            assert_eq!(refused.err(), Some(status));
        }
    }
}

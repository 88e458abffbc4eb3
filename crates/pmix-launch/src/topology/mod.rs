// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a node is made of: packages, caches, cores, hardware threads.

mod cpus;
mod hwloc;
mod sysfs;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

pub use cpus::Cpus;

/// A kind of part that a node is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The whole node.
    Node,
    /// A package: what is plugged into a socket.
    Package,
    /// The processors near one memory.
    Numa,
    /// A level 3 cache.
    L3Cache,
    /// A level 2 cache.
    L2Cache,
    /// A level 1 data cache.
    L1Cache,
    /// A core.
    Core,
    /// A hardware thread.
    HwThread,
}

impl Level {
    /// Every level, the widest first.
    pub const ALL: [Self; 8] = [
        Self::Node,
        Self::Package,
        Self::Numa,
        Self::L3Cache,
        Self::L2Cache,
        Self::L1Cache,
        Self::Core,
        Self::HwThread,
    ];

    /// What it is called on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Package => "package",
            Self::Numa => "numa",
            Self::L3Cache => "l3cache",
            Self::L2Cache => "l2cache",
            Self::L1Cache => "l1cache",
            Self::Core => "core",
            Self::HwThread => "hwthread",
        }
    }
}

/// What this node is made of, as far as the system tells.
///
/// Parts of a level stand in the order in which hwloc numbers them, by their lowest processor, so
/// that indices mean the same to who reads them with hwloc. Where the system has no part of a
/// level, there is none here; the node, its cores and hardware threads are always there.
#[derive(Clone, Debug)]
pub struct Topology {
    parts: BTreeMap<Level, Vec<Cpus>>,
    xml: Option<String>,
}

impl Topology {
    /// This machine, as hwloc describes it where it is installed, and `/sys` otherwise.
    ///
    /// The environment says where hwloc's `lstopo` is (`PATH`), or which file describes the machine
    /// in its stead (`HWLOC_XMLFILE`).
    #[must_use]
    pub fn of_this_machine(environment: &[(OsString, OsString)]) -> Self {
        let exported = hwloc::export(environment);
        let by_hwloc = exported.and_then(Self::of_xml);
        let read = || Self::read(Path::new("/sys/devices/system"));
        by_hwloc.or_else(read).unwrap_or_else(|| {
            tracing::debug!("/sys/devices/system does not describe the processors");
            Self::flat(std::thread::available_parallelism().map_or(1, usize::from))
        })
    }

    /// The machine that hwloc's XML, of release 2, describes.
    #[must_use]
    pub fn of_xml(xml: String) -> Option<Self> {
        let parts = hwloc::parse(&xml)?;
        Some(Self {
            parts,
            xml: Some(xml),
        })
    }

    /// The XML that this was read from.
    #[must_use]
    pub fn xml(&self) -> Option<&str> {
        self.xml.as_deref()
    }

    /// The machine that a directory laid out like `/sys/devices/system` describes.
    #[must_use]
    pub fn read(dir: &Path) -> Option<Self> {
        let mut parts = sysfs::read(dir)?;
        for sets in parts.values_mut() {
            sets.sort_by_key(Cpus::first);
        }
        number_as_hwloc(&mut parts);
        Some(Self { parts, xml: None })
    }

    /// A machine of cores of which nothing is known but their number.
    #[must_use]
    pub fn flat(num_cores: usize) -> Self {
        let num_cores = u32::try_from(num_cores.clamp(1, 1024)).unwrap_or(1);
        let each: Vec<_> = (0..num_cores).map(|cpu| Cpus::from_iter([cpu])).collect();
        let parts = [
            (Level::Node, vec![(0..num_cores).collect()]),
            (Level::Core, each.clone()),
            (Level::HwThread, each),
        ];
        Self {
            parts: parts.into(),
            xml: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn of_parts(parts: impl Into<BTreeMap<Level, Vec<Cpus>>>) -> Self {
        Self {
            parts: parts.into(),
            xml: None,
        }
    }

    /// The parts of a level, each with its processors.
    #[must_use]
    pub fn parts(&self, level: Level) -> &[Cpus] {
        self.parts.get(&level).map_or(&[], Vec::as_slice)
    }

    /// Where a process runs that is bound to some processors, in the words of
    /// `PMIX_LOCALITY_STRING`: the parts of each level that it shares, as in
    /// `SK0:L30:L20-1:L10-1:CR0-1:HT0-1:NM0`.
    #[must_use]
    pub fn locality(&self, bound: &Cpus) -> String {
        // The order of OpenPMIx with hwloc 2, where memory stands beside the tree.
        const WORDS: [(&str, Level); 7] = [
            ("SK", Level::Package),
            ("L3", Level::L3Cache),
            ("L2", Level::L2Cache),
            ("L1", Level::L1Cache),
            ("CR", Level::Core),
            ("HT", Level::HwThread),
            ("NM", Level::Numa),
        ];
        let mut text = String::new();
        for (word, level) in WORDS {
            let shared: Cpus = (0..)
                .zip(self.parts(level))
                .filter(|(_, part)| part.intersects(bound))
                .map(|(index, _)| index)
                .collect();
            if !shared.is_empty() {
                let separator = if text.is_empty() { "" } else { ":" };
                // Writing into a String cannot fail.
                let _ = write!(text, "{separator}{word}{shared}");
            }
        }
        text
    }
}

/// Cores and hardware threads stand inside the parts that hold them: those of one package follow
/// each other though the system may deal their numbers out in turns.
fn number_as_hwloc(parts: &mut BTreeMap<Level, Vec<Cpus>>) {
    let levels: Vec<Level> = parts.keys().copied().collect();
    for (index, &level) in levels.iter().enumerate() {
        // Nodes of memory are numbered by the system.
        if level == Level::Numa {
            continue;
        }
        let around: Vec<Vec<Cpus>> = levels[..index]
            .iter()
            .filter(|&&outer| outer != Level::Numa)
            .map(|outer| parts[outer].clone())
            .collect();
        let place = |set: &Cpus| -> Vec<Option<usize>> {
            let outer = around
                .iter()
                .map(|sets| sets.iter().position(|outer| outer.intersects(set)));
            outer.collect()
        };
        if let Some(sets) = parts.get_mut(&level) {
            sets.sort_by_cached_key(|set| (place(set), set.first()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Two packages of two cores of two threads; the system deals the numbers out in turns, as
    /// servers of two sockets do.
    fn two_sockets() -> (tempfile::TempDir, Topology) {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: String, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        put("cpu/online".into(), "0-7");
        for cpu in 0..8 {
            let package = if cpu % 2 == 0 { "0,2,4,6" } else { "1,3,5,7" };
            let core = format!("{},{}", cpu % 4, cpu % 4 + 4);
            put(format!("cpu/cpu{cpu}/topology/package_cpus_list"), package);
            put(format!("cpu/cpu{cpu}/topology/core_cpus_list"), &core);
            for (index, level, kind, shared) in [
                (0, "1", "Data", core.as_str()),
                (1, "1", "Instruction", &core),
                (2, "3", "Unified", package),
            ] {
                let cache = format!("cpu/cpu{cpu}/cache/index{index}");
                put(format!("{cache}/level"), level);
                put(format!("{cache}/type"), kind);
                put(format!("{cache}/shared_cpu_list"), shared);
            }
        }
        put("node/node0/cpulist".into(), "0,2,4,6");
        put("node/node1/cpulist".into(), "1,3,5,7");
        let topology = Topology::read(dir.path()).unwrap();
        (dir, topology)
    }

    fn lists(topology: &Topology, level: Level) -> Vec<String> {
        let parts = topology.parts(level).iter();
        parts.map(ToString::to_string).collect()
    }

    #[test]
    fn parts_are_numbered_inside_the_parts_that_hold_them() {
        let (_dir, topology) = two_sockets();
        assert_eq!(lists(&topology, Level::Node), ["0-7"]);
        assert_eq!(lists(&topology, Level::Package), ["0,2,4,6", "1,3,5,7"]);
        assert_eq!(lists(&topology, Level::Numa), ["0,2,4,6", "1,3,5,7"]);
        assert_eq!(lists(&topology, Level::Core), ["0,4", "2,6", "1,5", "3,7"]);
        assert_eq!(
            lists(&topology, Level::HwThread),
            ["0", "4", "2", "6", "1", "5", "3", "7"]
        );
        assert_eq!(lists(&topology, Level::L2Cache), [""; 0]);
    }

    #[test]
    fn locality_names_the_shared_parts_of_each_level() {
        let (_dir, topology) = two_sockets();
        let locality = |list: &str| topology.locality(&Cpus::parse(list).unwrap());
        assert_eq!(locality("2,6"), "SK0:L30:L11:CR1:HT2-3:NM0");
        assert_eq!(locality("1"), "SK1:L31:L12:CR2:HT4:NM1");
        assert_eq!(locality("0-7"), "SK0-1:L30-1:L10-3:CR0-3:HT0-7:NM0-1");
    }

    #[test]
    fn processors_that_are_offline_are_in_no_part() {
        let (dir, _) = two_sockets();
        fs::write(dir.path().join("cpu/online"), "0-2,4-7\n").unwrap();
        let topology = Topology::read(dir.path()).unwrap();
        assert_eq!(lists(&topology, Level::Core), ["0,4", "2,6", "1,5", "7"]);
        assert_eq!(lists(&topology, Level::Package), ["0,2,4,6", "1,5,7"]);
    }

    #[test]
    fn a_machine_that_tells_little_has_cores_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Topology::read(dir.path()).is_none());
        fs::create_dir(dir.path().join("cpu")).unwrap();
        fs::write(dir.path().join("cpu/online"), "0-1").unwrap();
        let topology = Topology::read(dir.path()).unwrap();
        assert_eq!(lists(&topology, Level::Core), ["0", "1"]);
        assert_eq!(lists(&topology, Level::Package), [""; 0]);
        assert_eq!(topology.locality(&Cpus::from_iter([1])), "CR1:HT1");
        assert_eq!(Topology::flat(2).parts(Level::Core).len(), 2);
    }
}

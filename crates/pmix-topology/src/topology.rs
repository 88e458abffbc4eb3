// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware of a node: packages, memories, caches, cores, hardware threads, devices.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use pmix_types::DeviceDistance;

use crate::cgroup::Allowed;
use crate::locality::WORDS;
use crate::nest::Pieces;
use crate::tree::{Bank, Kind, Tree};
use crate::{Cpuset, DeviceFilter, Error, Level, distance, export, nest, sysfs, xml};

/// The hardware of a node, as far as the system describes it.
///
/// The objects of a level have the order of hwloc, so an index means the same object as in hwloc.
/// The exception is [`Level::Numa`], which omits memory without near processors. A level is empty
/// if the system does not describe its objects. The node and its hardware threads always exist.
#[derive(Clone, Debug)]
pub struct Topology {
    tree: Tree,
    parts: BTreeMap<Level, Vec<Cpuset>>,
    xml: Option<String>,
}

impl Topology {
    fn of_tree(tree: Tree) -> Self {
        let mut parts: BTreeMap<Level, Vec<Cpuset>> = BTreeMap::new();
        for (kind, level) in tree.levels() {
            if let Kind::Known(known) = kind {
                let cpus = level.map(|part| part.cpus.clone());
                parts.entry(known).or_default().extend(cpus);
            }
        }
        // Memory without near processors is omitted, because no process can be placed there.
        let near = tree.memories().iter().map(|memory| &memory.near);
        let near: Vec<_> = near.filter(|near| !near.is_empty()).cloned().collect();
        if !near.is_empty() {
            parts.insert(Level::Numa, near);
        }
        Self {
            tree,
            parts,
            xml: None,
        }
    }

    /// Returns this machine as `/sys` describes it, without objects that the control group of this
    /// process may not use. If `/sys` has no description, the result has only cores.
    #[must_use]
    pub fn of_system() -> Self {
        Self::read_allowed(Path::new("/sys"), &Allowed::of_process(Path::new("/"))).unwrap_or_else(
            |_| Self::flat(std::thread::available_parallelism().map_or(1, usize::from)),
        )
    }

    /// Returns the topology that XML of hwloc 2 describes.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM`: the XML is invalid, declares entities, has more than 1,048,576
    /// elements, or describes no processor; `PMIX_ERR_OUT_OF_RESOURCE`: it has more than 64 MiB.
    pub fn of_xml(xml: String) -> Result<Self, Error> {
        let mut topology = Self::of_tree(xml::parse(&xml)?);
        topology.xml = Some(xml);
        Ok(topology)
    }

    /// Returns the topology that a file with XML of hwloc 2 describes: a regular file of at most 64 MiB.
    ///
    /// # Errors
    /// As for [`Topology::of_xml`]; `PMIX_ERR_NOT_FOUND`: the file does not exist or cannot be
    /// read; `PMIX_ERR_BAD_PARAM`: it is not a regular file, or not UTF-8;
    /// `PMIX_ERR_OUT_OF_RESOURCE`: it is larger.
    pub fn of_xml_file(path: &Path) -> Result<Self, Error> {
        let bytes = pmix_files::read_regular(path, xml::MAX_LEN);
        let bytes = bytes.map_err(|fault| Error::of_file(path, fault))?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| Error::malformed(format!("{}: not UTF-8", path.display())))?;
        Self::of_xml(text)
    }

    /// Returns the topology that a directory with the layout of `/sys` describes.
    ///
    /// # Errors
    /// `PMIX_ERR_NOT_FOUND`: the directory does not tell which processors are online.
    pub fn read(sys: &Path) -> Result<Self, Error> {
        Self::read_allowed(sys, &Allowed::default())
    }

    fn read_allowed(sys: &Path, allowed: &Allowed) -> Result<Self, Error> {
        let Some((online, pieces)) = sysfs::read(sys, allowed) else {
            let sys = sys.display();
            return Err(Error::missing(format!(
                "{sys} does not say which processors are online"
            )));
        };
        nest::tree(&online, pieces).map(Self::of_tree)
    }

    /// Returns a machine with a number of cores, 1 to 1,024, and no other information.
    #[must_use]
    pub fn flat(num_cores: usize) -> Self {
        let num_cores = u32::try_from(num_cores.clamp(1, 1024)).unwrap_or(1);
        let each = (0..num_cores).map(|cpu| (Level::Core, Cpuset::from_iter([cpu])));
        Self::of_parts(&(0..num_cores).collect(), each)
    }

    /// Returns a machine with these processors and objects. Processors outside of the machine are
    /// removed from objects. An object that overlaps another is omitted.
    ///
    /// # Panics
    /// There is no processor, or the set of processors is unbounded.
    #[must_use]
    pub fn of_parts(cpus: &Cpuset, parts: impl IntoIterator<Item = (Level, Cpuset)>) -> Self {
        assert!(
            !cpus.is_empty() && !cpus.is_endless(),
            "a machine has processors"
        );
        let mut pieces = Pieces::default();
        for (level, part) in parts {
            let part = part.and(cpus);
            match level {
                _ if part.is_empty() => {}
                Level::Node | Level::HwThread => {}
                Level::Numa => {
                    let index = u32::try_from(pieces.memories.len()).unwrap_or(u32::MAX);
                    pieces.memories.push(Bank { index, near: part });
                }
                level => pieces.parts.push((Kind::Known(level), part)),
            }
        }
        let tree = nest::tree(cpus, pieces);
        tree.map(Self::of_tree)
            .expect("there are processors, and fewer levels than kinds")
    }

    /// Returns the XML from which the topology was read.
    #[must_use]
    pub fn xml(&self) -> Option<&str> {
        self.xml.as_deref()
    }

    /// Returns the topology as XML of hwloc 2. This is the original XML if there is one,
    /// otherwise XML with all known data, in which sizes are 0.
    #[must_use]
    pub fn to_xml(&self) -> Cow<'_, str> {
        match &self.xml {
            Some(xml) => Cow::Borrowed(xml),
            None => Cow::Owned(export::xml(&self.tree)),
        }
    }

    /// Returns the topology without the XML from which it was read.
    #[must_use]
    pub fn without_xml(mut self) -> Self {
        self.xml = None;
        self
    }

    /// Returns the processors of each object of a level.
    #[must_use]
    pub fn parts(&self, level: Level) -> &[Cpuset] {
        self.parts.get(&level).map_or(&[], Vec::as_slice)
    }

    /// Returns the location of a process that is bound to some processors, in the form of
    /// `PMIX_LOCALITY_STRING`. The text names the objects of each level that contain some of these
    /// processors, for example `SK0:L30:L20-1:L10-1:CR0-1:HT0-1:NM0`. Returns `None` if the process
    /// is unbound, or bound to no processor of this machine.
    ///
    /// Levels are in the order of their nesting. Memories are last.
    #[must_use]
    pub fn locality(&self, bound: &Cpuset) -> Option<String> {
        if bound.is_full() {
            return None;
        }
        let mut text = String::new();
        for (kind, parts) in self.tree.levels() {
            let word = WORDS
                .iter()
                .find(|(_, level, _)| kind == Kind::Known(*level));
            if let Some((word, ..)) = word {
                add(&mut text, word, parts.map(|part| &part.cpus), bound);
            }
        }
        let around = self.tree.memories().iter().map(|memory| &memory.around);
        add(&mut text, "NM", around, bound);
        (!text.is_empty()).then_some(text)
    }

    /// Returns `true` if there are devices whose distances PMIx reports.
    #[must_use]
    pub fn has_devices(&self) -> bool {
        self.tree.devices().next().is_some()
    }

    /// Returns the distances of devices from some processors: graphics processors, network
    /// interfaces and OpenFabrics adapters, in this order. A device with a smaller distance is
    /// nearer. Distances are comparable only on this machine. Names of devices without an address
    /// contain `hostname`.
    ///
    /// As in OpenPMIx, the distance is from all processors together. It is the number of levels
    /// from the lowest object that contains them and the device down to the threads.
    ///
    /// DEVIATION: a filter with names only applies to all types, where 4.2.2 finds no device; a
    /// device without a valid address is omitted, where 4.2.2 fails;
    /// `device_distances_are_filtered_by_type_and_id`.
    ///
    /// # Errors
    /// `PMIX_ERR_NOT_FOUND`: there is no such device; `PMIX_ERR_NOT_AVAILABLE`: the processors
    /// share only the machine as a whole, or do not belong to it.
    pub fn distances(
        &self,
        cpus: &Cpuset,
        hostname: &str,
        filter: &DeviceFilter,
    ) -> Result<Vec<DeviceDistance<'static>>, Error> {
        distance::distances(&self.tree, cpus, hostname, filter)
    }
}

/// Appends a word with the numbers of the objects that contain some of the processors. Appends
/// nothing if there is no such object.
fn add<'a>(text: &mut String, word: &str, parts: impl Iterator<Item = &'a Cpuset>, bound: &Cpuset) {
    let shared = (0..).zip(parts).filter(|(_, part)| part.intersects(bound));
    // The numbers of objects have the form of a list of processors.
    let shared: Cpuset = shared.map(|(index, _)| index).collect();
    if !shared.is_empty() {
        let separator = if text.is_empty() { "" } else { ":" };
        // Writing into a String cannot fail.
        let _ = write!(text, "{separator}{word}{shared}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Creates two packages with two cores of two threads each. The system numbers the threads in a
    /// cyclic way, as on servers with two sockets.
    fn two_sockets() -> (tempfile::TempDir, Topology) {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: String, text: &str| {
            let path = dir.path().join("devices/system").join(path);
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
        let locality = |list: &str| topology.locality(&Cpuset::parse(list).unwrap()).unwrap();
        assert_eq!(locality("2,6"), "SK0:L30:L11:CR1:HT2-3:NM0");
        assert_eq!(locality("1"), "SK1:L31:L12:CR2:HT4:NM1");
        assert_eq!(locality("0-7"), "SK0-1:L30-1:L10-3:CR0-3:HT0-7:NM0-1");
    }

    #[test]
    fn offline_processors_are_in_no_part() {
        let (dir, _) = two_sockets();
        fs::write(dir.path().join("devices/system/cpu/online"), "0-2,4-7\n").unwrap();
        let topology = Topology::read(dir.path()).unwrap();
        assert_eq!(lists(&topology, Level::Core), ["0,4", "2,6", "1,5", "7"]);
        assert_eq!(lists(&topology, Level::Package), ["0,2,4,6", "1,5,7"]);
    }

    #[test]
    fn disallowed_parts_are_not_counted() {
        let (dir, _) = two_sockets();
        let allowed = Allowed {
            cpus: Some(Cpuset::parse("2,5-100").unwrap()),
            memories: Some(Cpuset::parse("1").unwrap()),
        };
        let topology = Topology::read_allowed(dir.path(), &allowed).unwrap();
        assert_eq!(lists(&topology, Level::Core), ["2,6", "5", "7"]);
        assert_eq!(lists(&topology, Level::Package), ["2,6", "5,7"]);
        assert_eq!(lists(&topology, Level::Numa), ["5,7"]);
    }

    #[test]
    fn a_machine_without_details_still_has_cores() {
        let dir = tempfile::tempdir().unwrap();
        let error = Topology::read(dir.path()).unwrap_err();
        assert_eq!(error.status(), pmix_types::Status::ERR_NOT_FOUND);
        fs::create_dir_all(dir.path().join("devices/system/cpu")).unwrap();
        fs::write(dir.path().join("devices/system/cpu/online"), "0-1").unwrap();
        let topology = Topology::read(dir.path()).unwrap();
        assert_eq!(lists(&topology, Level::Core), ["0", "1"]);
        assert_eq!(lists(&topology, Level::Package), [""; 0]);
        let second = topology.locality(&Cpuset::from_iter([1]));
        assert_eq!(second.as_deref(), Some("CR1:HT1"));
        assert_eq!(topology.locality(&Cpuset::full()), None);
        assert_eq!(topology.locality(&Cpuset::from_iter([2])), None);
        assert_eq!(Topology::flat(2).parts(Level::Core).len(), 2);
    }
}

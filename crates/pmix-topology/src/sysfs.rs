// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of `/sys`, as Linux documents it in
//! `Documentation/ABI/stable/sysfs-devices-system-cpu`, `sysfs-devices-node`,
//! `sysfs-class-infiniband`, and `Documentation/ABI/testing/sysfs-class-net`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cgroup::Allowed;
use crate::nest::Pieces;
use crate::tree::{Bank, Device, DeviceKind, Kind};
use crate::{Cpuset, Level};

/// Reads the processors that are online and allowed, and the hardware objects that `sys` describes.
///
/// An object is read from its first processor. The others would give the same result.
pub(crate) fn read(sys: &Path, allowed: &Allowed) -> Option<(Cpuset, Pieces)> {
    let dir = sys.join("devices/system");
    let online = list(&dir.join("cpu/online")).map(|online| match &allowed.cpus {
        Some(allowed) => online.and(allowed),
        None => online,
    });
    let online = online.filter(|cpus| !cpus.is_empty() && !cpus.is_endless())?;
    let mut parts = Parts {
        found: Vec::new(),
        known: BTreeMap::new(),
        online: &online,
    };
    for cpu in online.iter() {
        let own = dir.join(format!("cpu/cpu{cpu}"));
        let topology = own.join("topology");
        let core = || one_of(&topology, ["core_cpus_list", "thread_siblings_list"]);
        parts.around(cpu, Kind::Known(Level::Core), || {
            core().or_else(|| Some(Cpuset::from_iter([cpu])))
        });
        let package = || one_of(&topology, ["package_cpus_list", "core_siblings_list"]);
        parts.around(cpu, Kind::Known(Level::Package), package);
        parts.around(cpu, Kind::Die, || {
            // A package with only one die needs no die object.
            list(&topology.join("die_cpus_list")).filter(|die| Some(die) != package().as_ref())
        });
        caches(cpu, &own.join("cache"), &mut parts);
    }
    let memories = memories(&dir.join("node")).into_iter();
    let memories = memories.filter(|index| {
        let allowed = allowed.memories.as_ref();
        allowed.is_none_or(|allowed| allowed.contains(*index))
    });
    let memories = memories.filter_map(|index| {
        let near = list(&dir.join(format!("node/node{index}/cpulist")))?;
        let near = near.and(&online);
        Some(Bank { index, near })
    });
    let pieces = Pieces {
        memories: memories.collect(),
        devices: devices(&sys.join("class"), &online),
        parts: parts.found,
    };
    Some((online, pieces))
}

struct Parts<'a> {
    found: Vec<(Kind, Cpuset)>,
    /// The processors whose object is already known, for each kind.
    known: BTreeMap<u8, Cpuset>,
    online: &'a Cpuset,
}

impl Parts<'_> {
    /// Reads the object of a kind that contains a processor, unless it is already known from
    /// another processor.
    fn around(&mut self, cpu: u32, kind: Kind, read: impl FnOnce() -> Option<Cpuset>) {
        let known = self.known.entry(kind.place()).or_default();
        if known.contains(cpu) {
            return;
        }
        if let Some(cpus) = read() {
            let cpus = cpus.and(self.online);
            if !cpus.is_empty() {
                known.extend(&cpus);
                self.found.push((kind, cpus));
            }
        }
    }
}

fn caches(cpu: u32, dir: &Path, parts: &mut Parts<'_>) {
    for index in 0..16 {
        let cache = dir.join(format!("index{index}"));
        let Some(level) = text(&cache.join("level")) else {
            break;
        };
        let kind = match level.as_str() {
            "1" => Kind::Known(Level::L1Cache),
            "2" => Kind::Known(Level::L2Cache),
            "3" => Kind::Known(Level::L3Cache),
            "4" => Kind::FarCache(4),
            "5" => Kind::FarCache(5),
            _ => continue,
        };
        if text(&cache.join("type")).as_deref() != Some("Instruction") {
            parts.around(cpu, kind, || list(&cache.join("shared_cpu_list")));
        }
    }
}

/// Returns the numbers of the NUMA nodes, in ascending order.
fn memories(dir: &Path) -> Vec<u32> {
    let mut numbers: Vec<u32> = names(dir)
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the PCI devices whose distances PMIx reports, each with its nearest processors, in the
/// order of their PCI addresses.
fn devices(class: &Path, online: &Cpuset) -> Vec<(Device, Cpuset)> {
    let mut found: Vec<(String, String, Device, Cpuset)> = Vec::new();
    for kind in ["drm", "net", "infiniband"] {
        for name in names(&class.join(kind)) {
            let dir = class.join(kind).join(&name);
            let device = match kind {
                // The directory also contains the connectors of a card, which are not devices here.
                "drm" if name.starts_with("render") => Some(DeviceKind::Gpu),
                "net" => network(&dir),
                "infiniband" => adapter(&dir),
                _ => None,
            };
            let device = device.and_then(|kind| Device::new(&name, kind));
            if let Some((device, (bus, pci))) = device.zip(on_pci(&dir)) {
                let near = list(&pci.join("local_cpulist")).unwrap_or_default();
                found.push((bus, name, device, near.and(online)));
            }
        }
    }
    found.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    let found = found.into_iter();
    found.map(|(_, _, device, near)| (device, near)).collect()
}

fn network(dir: &Path) -> Option<DeviceKind> {
    let address = text(&dir.join("address"))?;
    Some(DeviceKind::Network { address })
}

fn adapter(dir: &Path) -> Option<DeviceKind> {
    Some(DeviceKind::Fabric {
        node: text(&dir.join("node_guid"))?,
        system: text(&dir.join("sys_image_guid"))?,
    })
}

/// Returns the address, such as `0000:3b:00.0`, and the directory of the PCI device to which a
/// device belongs. Returns `None` if it belongs to none.
fn on_pci(dir: &Path) -> Option<(String, PathBuf)> {
    let real = fs::canonicalize(dir).ok()?;
    real.ancestors().find_map(|dir| {
        let name = dir.file_name()?.to_str()?;
        is_pci(name).then(|| (name.to_owned(), dir.to_owned()))
    })
}

/// Returns `true` for a PCI address: domain, bus, device and function in hexadecimal digits.
fn is_pci(name: &str) -> bool {
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts = name.split([':', '.']);
    let four = [parts.next(), parts.next(), parts.next(), parts.next()];
    let all = four.iter().all(|part| part.is_some_and(hex));
    all && parts.next().is_none() && name.matches(':').count() == 2
}

/// Returns the names in a directory, or nothing if the directory does not exist.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.collect()
}

/// Returns the list in the first of two files that exists, because newer kernels renamed the file.
fn one_of(dir: &Path, names: [&str; 2]) -> Option<Cpuset> {
    names.iter().find_map(|name| list(&dir.join(name)))
}

fn list(path: &Path) -> Option<Cpuset> {
    Cpuset::parse(&text(path)?).ok()
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

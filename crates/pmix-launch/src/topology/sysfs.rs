// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading `/sys/devices/system`, as Linux documents it in
//! `Documentation/ABI/stable/sysfs-devices-system-cpu` and `sysfs-devices-node`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Cpus, Level};

/// The parts of each level that the directory describes, in no particular order.
///
/// A part is read at the first of its processors; the others would say the same.
pub(super) fn read(dir: &Path) -> Option<BTreeMap<Level, Vec<Cpus>>> {
    let online = list(&dir.join("cpu/online")).filter(|cpus| !cpus.is_empty())?;
    let mut parts = Parts {
        found: BTreeMap::new(),
        online: &online,
    };
    parts.add(Level::Node, online.clone());
    for cpu in online.iter() {
        let own = dir.join(format!("cpu/cpu{cpu}"));
        parts.add(Level::HwThread, Cpus::from_iter([cpu]));
        let core = || {
            one_of(
                &own.join("topology"),
                ["core_cpus_list", "thread_siblings_list"],
            )
        };
        parts.around(cpu, Level::Core, || {
            core().or_else(|| Some(Cpus::from_iter([cpu])))
        });
        parts.around(cpu, Level::Package, || {
            one_of(
                &own.join("topology"),
                ["package_cpus_list", "core_siblings_list"],
            )
        });
        caches(cpu, &own.join("cache"), &mut parts);
    }
    for index in memories(&dir.join("node")) {
        if let Some(near) = list(&dir.join(format!("node/node{index}/cpulist"))) {
            parts.add(Level::Numa, near);
        }
    }
    Some(parts.found)
}

struct Parts<'a> {
    found: BTreeMap<Level, Vec<Cpus>>,
    online: &'a Cpus,
}

impl Parts<'_> {
    fn add(&mut self, level: Level, cpus: Cpus) {
        let cpus = cpus.and(self.online);
        // Memory without processors near it is no place to run.
        if !cpus.is_empty() {
            self.found.entry(level).or_default().push(cpus);
        }
    }

    fn knows(&self, cpu: u32, level: Level) -> bool {
        let parts = self.found.get(&level).into_iter().flatten();
        parts.into_iter().any(|part| part.contains(cpu))
    }

    /// The part around a processor, unless another processor of it told of it.
    fn around(&mut self, cpu: u32, level: Level, read: impl FnOnce() -> Option<Cpus>) {
        if !self.knows(cpu, level)
            && let Some(cpus) = read()
        {
            self.add(level, cpus);
        }
    }
}

fn caches(cpu: u32, dir: &Path, parts: &mut Parts<'_>) {
    for index in 0..16 {
        let cache = dir.join(format!("index{index}"));
        let Some(level) = text(&cache.join("level")) else {
            break;
        };
        let level = match level.as_str() {
            "1" => Level::L1Cache,
            "2" => Level::L2Cache,
            "3" => Level::L3Cache,
            _ => continue,
        };
        if parts.knows(cpu, level) || text(&cache.join("type")).as_deref() == Some("Instruction") {
            continue;
        }
        if let Some(cpus) = list(&cache.join("shared_cpu_list")) {
            parts.add(level, cpus);
        }
    }
}

/// The numbers of the nodes of memory, in order.
fn memories(dir: &Path) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix("node")?
                .parse()
                .ok()
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The list in the first of two files that is there: newer kernels renamed the older one.
fn one_of(dir: &Path, names: [&str; 2]) -> Option<Cpus> {
    names.iter().find_map(|name| list(&dir.join(name)))
}

fn list(path: &Path) -> Option<Cpus> {
    Cpus::parse(&text(path)?)
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

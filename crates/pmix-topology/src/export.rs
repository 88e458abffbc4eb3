// SPDX-License-Identifier: MIT OR Apache-2.0
//! The export of a tree as hwloc's XML of release 2.
//!
//! Source: hwloc documentation, "Importing and exporting topologies from/to XML files". `cargo
//! xtask interop topology` shows which attributes hwloc 2.9 requires, by importing the output.

use std::fmt::Write as _;

use crate::tree::{Device, DeviceKind, Kind, Part, Tree};
use crate::{Cpuset, Level};

/// Returns the XML of a tree.
pub(crate) fn xml(tree: &Tree) -> String {
    let mut writer = Writer {
        tree,
        inner_memories: tree.inner_memories(),
        text: String::new(),
        last_object: 0,
    };
    writer.text.push_str(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n",
    );
    writer.all();
    writer.text.push_str("</topology>\n");
    writer.text
}

struct Writer<'a> {
    tree: &'a Tree,
    /// The memories attached to each object or to objects inside it.
    inner_memories: Vec<Cpuset>,
    text: String,
    /// The unique number of the last written object.
    last_object: u64,
}

/// A pending step of the output.
enum Due<'a> {
    /// The start of an object, with its index, and the memories attached to the enclosing objects.
    Open((usize, &'a Part), Cpuset),
    /// The end of an object, with the devices attached to it.
    Close(&'a Part),
}

impl<'a> Writer<'a> {
    fn all(&mut self) {
        let Some(machine) = self.tree.machine() else {
            return;
        };
        let mut stack = vec![Due::Open((0, machine), Cpuset::new())];
        while let Some(due) = stack.pop() {
            match due {
                Due::Open((index, part), outer) => {
                    let around = self.open(index, part, &outer);
                    stack.push(Due::Close(part));
                    let inside: Vec<_> = self.tree.inside(part).collect();
                    let inside = inside.into_iter().rev();
                    stack.extend(inside.map(|child| Due::Open(child, around.clone())));
                }
                Due::Close(part) => {
                    for device in &part.devices {
                        self.device(device);
                    }
                    self.text.push_str("</object>\n");
                }
            }
        }
    }

    /// Writes the start of an object. Returns the memories attached to it and to its enclosing
    /// objects.
    fn open(&mut self, index: usize, part: &Part, outer: &Cpuset) -> Cpuset {
        let mut around = outer.clone();
        around.extend(&part.memories.iter().map(|memory| memory.index).collect());
        let mut near = self.inner_memories.get(index).cloned().unwrap_or_default();
        near.extend(&around);
        // hwloc requires memory attached to a machine.
        let is_alone = part.parent.is_none() && near.is_empty();
        if is_alone {
            near = Cpuset::from_iter([0]);
        }
        let (name, more) = match part.kind {
            Kind::Known(Level::Node) => ("Machine", String::new()),
            Kind::Known(Level::Package) => ("Package", String::new()),
            Kind::Known(Level::Numa) => ("NUMANode", String::new()),
            Kind::Known(Level::L3Cache) => ("L3Cache", cache(3)),
            Kind::Known(Level::L2Cache) => ("L2Cache", cache(2)),
            Kind::Known(Level::L1Cache) => ("L1Cache", cache(1)),
            Kind::Known(Level::Core) => ("Core", String::new()),
            Kind::Known(Level::HwThread) => {
                let index = part.cpus.first().unwrap_or_default();
                ("PU", format!(" os_index=\"{index}\""))
            }
            Kind::FarCache(4) => ("L4Cache", cache(4)),
            Kind::FarCache(_) => ("L5Cache", cache(5)),
            Kind::Die => ("Die", String::new()),
            Kind::Group(depth) => {
                let kept = if part.is_kept {
                    " dont_merge=\"1\""
                } else {
                    ""
                };
                let group = format!(" kind=\"0\" subkind=\"0\" depth=\"{depth}\"{kept}");
                ("Group", group)
            }
        };
        let allowed = match part.parent {
            None => format!(
                " os_index=\"0\" allowed_cpuset=\"{}\" allowed_nodeset=\"{}\"",
                part.cpus.to_bitmap(),
                near.to_bitmap()
            ),
            Some(_) => String::new(),
        };
        let more = format!("{more}{allowed}");
        self.begin(name, &part.cpus, &near, &more);
        self.text.push_str(">\n");
        for memory in &part.memories {
            self.memory(memory.index, &memory.near);
        }
        if is_alone {
            self.memory(0, &part.cpus);
        }
        around
    }

    fn memory(&mut self, index: u32, near: &Cpuset) {
        let own = Cpuset::from_iter([index]);
        let more = format!(" os_index=\"{index}\" local_memory=\"0\"");
        self.begin("NUMANode", near, &own, &more);
        self.text.push_str("/>\n");
    }

    /// Writes the start of an object with processors and memories.
    fn begin(&mut self, name: &str, cpus: &Cpuset, memories: &Cpuset, more: &str) {
        self.last_object += 1;
        let (cpus, memories) = (cpus.to_bitmap(), memories.to_bitmap());
        // Writing into a String cannot fail.
        let _ = write!(
            self.text,
            "<object type=\"{name}\" cpuset=\"{cpus}\" complete_cpuset=\"{cpus}\" nodeset=\"{memories}\" \
             complete_nodeset=\"{memories}\"{more} gp_index=\"{}\"",
            self.last_object
        );
    }

    fn device(&mut self, device: &Device) {
        self.last_object += 1;
        let (kind, infos) = match &device.kind {
            DeviceKind::Gpu => (1, Vec::new()),
            DeviceKind::Network { address } => (2, vec![("Address", address)]),
            DeviceKind::Fabric { node, system } => {
                (3, vec![("NodeGUID", node), ("SysImageGUID", system)])
            }
        };
        let name = escaped(&device.name);
        // Writing into a String cannot fail.
        let _ = writeln!(
            self.text,
            "<object type=\"OSDev\" gp_index=\"{}\" name=\"{name}\" osdev_type=\"{kind}\">",
            self.last_object
        );
        for (name, value) in infos {
            let value = escaped(value);
            let _ = writeln!(self.text, "<info name=\"{name}\" value=\"{value}\"/>");
        }
        self.text.push_str("</object>\n");
    }
}

fn cache(level: u8) -> String {
    // hwloc's cache type: a data cache at the first level, a unified cache at the others.
    let kind = u8::from(level == 1);
    format!(
        " cache_size=\"0\" depth=\"{level}\" cache_linesize=\"0\" cache_associativity=\"0\" \
         cache_type=\"{kind}\""
    )
}

/// Escapes text for an attribute and omits characters that XML does not allow.
fn escaped(text: &str) -> String {
    let mut to = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            c if c.is_control() => {}
            c => to.push(c),
        }
    }
    to
}

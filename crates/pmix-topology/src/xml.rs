// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of hwloc's XML of release 2.
//!
//! Source: hwloc documentation, "Importing and exporting topologies from/to XML files".

use std::collections::HashMap;

use roxmltree::{Document, Node, NodeId, ParsingOptions};

use crate::tree::{Bank, Device, DeviceKind, Kind, Part, Tree};
use crate::{Cpuset, Error, Level};

/// The maximum length of a description in bytes. For a machine with 1,000 processors, it has 2 MB.
pub(crate) const MAX_LEN: u64 = 64 << 20;

/// The maximum number of memories in Linux.
const MAX_MEMORIES: u32 = 1024;

/// The maximum number of elements and texts in a description.
const MAX_NODES: u32 = 1 << 20;

/// Parses the tree in hwloc's XML.
///
/// The tree has the nesting of the XML objects. It omits objects that hwloc omits by default:
/// instruction caches, and processors that the process that wrote the XML may not use.
pub(crate) fn parse(xml: &str) -> Result<Tree, Error> {
    let refused = |why: &str| Error::malformed(format!("hwloc's XML: {why}"));
    if u64::try_from(xml.len()).is_ok_and(|len| len > MAX_LEN) {
        let message = format!("hwloc's XML: it has more than {MAX_LEN} bytes");
        return Err(Error::too_large(message));
    }
    // A few nested entities can expand to any amount of text. hwloc declares none.
    if xml.contains("<!ENTITY") {
        return Err(refused("it declares entities"));
    }
    let options = ParsingOptions {
        // hwloc writes a document type declaration.
        allow_dtd: true,
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(xml, options);
    let document = document.map_err(|error| refused(&error.to_string()))?;
    let mut reader = Reader::default();
    let objects = document.descendants().filter(|n| n.has_tag_name("object"));
    for object in objects {
        reader.take(object)?;
    }
    match reader.parts.is_empty() {
        true => Err(refused("it describes no machine")),
        false => Tree::new(reader.parts),
    }
}

#[derive(Default)]
struct Reader {
    parts: Vec<Part>,
    /// The index of the tree's object for each XML object, or of the one around it.
    within: HashMap<NodeId, usize>,
    /// The number of memories.
    num_memories: u32,
    /// The processors that the process that wrote the description may use.
    allowed: Option<Cpuset>,
}

impl Reader {
    fn take(&mut self, object: Node<'_, '_>) -> Result<(), Error> {
        let around = object
            .parent()
            .and_then(|around| self.within.get(&around.id()).copied());
        let name = object.attribute("type").unwrap_or_default();
        let cpus = object
            .attribute("cpuset")
            .map(Cpuset::parse_bitmap)
            .transpose()?;
        let kind = kind_of(name, object);
        if self.parts.is_empty() && kind != Some(Kind::Known(Level::Node)) {
            return Ok(());
        }
        if let Some(around) = around {
            self.within.insert(object.id(), around);
        }
        match (kind, name, around) {
            (Some(Kind::Known(Level::Numa)), _, Some(around)) => {
                if let Some(part) = self.parts.get_mut(around) {
                    let index: Option<u32> = object
                        .attribute("os_index")
                        .and_then(|index| index.parse().ok());
                    let index = index.unwrap_or(self.num_memories);
                    if index >= MAX_MEMORIES {
                        let why = format!("hwloc's XML: no memory has the number {index}");
                        return Err(Error::malformed(why));
                    }
                    let near = within(cpus.unwrap_or_default(), self.allowed.as_ref())?;
                    part.memories.push(Bank { index, near });
                    self.num_memories += 1;
                }
            }
            (None, "OSDev", Some(around)) => {
                if let Some((part, device)) = self.parts.get_mut(around).zip(device(object)) {
                    part.devices.push(device);
                }
            }
            (Some(kind), ..) => {
                if let Some(cpus) = cpus {
                    self.add(object, kind, cpus, around)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds an object to the tree.
    fn add(
        &mut self,
        object: Node<'_, '_>,
        kind: Kind,
        cpus: Cpuset,
        around: Option<usize>,
    ) -> Result<(), Error> {
        if self.parts.is_empty() {
            let allowed = object.attribute("allowed_cpuset").map(Cpuset::parse_bitmap);
            self.allowed = allowed.transpose()?;
        } else if around.is_none() {
            return Err(Error::malformed(
                "hwloc's XML: it describes more than one machine",
            ));
        }
        let cpus = within(cpus, self.allowed.as_ref())?;
        if cpus.is_empty() {
            return Ok(());
        }
        if self.parts.is_empty() {
            // The allowed processors of the machine bound those of all objects.
            self.allowed = Some(cpus.clone());
        }
        let index = self.parts.len();
        let mut part = Part::new(kind, cpus, around);
        part.is_kept = object.attribute("dont_merge") == Some("1");
        self.parts.push(part);
        self.within.insert(object.id(), index);
        if let Some(around) = around.and_then(|around| self.parts.get_mut(around)) {
            around.children.push(index);
        }
        Ok(())
    }
}

/// Returns the processors of a set that are allowed.
fn within(cpus: Cpuset, allowed: Option<&Cpuset>) -> Result<Cpuset, Error> {
    let cpus = match allowed {
        Some(allowed) => cpus.and(allowed),
        None => cpus,
    };
    match cpus.is_endless() {
        true => Err(Error::malformed(
            "hwloc's XML: the cpuset of an object is infinite",
        )),
        false => Ok(cpus),
    }
}

fn kind_of(name: &str, object: Node<'_, '_>) -> Option<Kind> {
    Some(match name {
        "Machine" => Kind::Known(Level::Node),
        "Package" => Kind::Known(Level::Package),
        "NUMANode" => Kind::Known(Level::Numa),
        "L3Cache" => Kind::Known(Level::L3Cache),
        "L2Cache" => Kind::Known(Level::L2Cache),
        "L1Cache" => Kind::Known(Level::L1Cache),
        "Core" => Kind::Known(Level::Core),
        "PU" => Kind::Known(Level::HwThread),
        "L5Cache" => Kind::FarCache(5),
        "L4Cache" => Kind::FarCache(4),
        "Die" => Kind::Die,
        "Group" => {
            let depth = object
                .attribute("depth")
                .and_then(|depth| depth.parse().ok());
            Kind::Group(depth.unwrap_or(0))
        }
        _ => return None,
    })
}

/// Returns the device of an operating system object, if PMIx reports its distance.
fn device(object: Node<'_, '_>) -> Option<Device> {
    let name = object.attribute("name")?;
    let info = |wanted: &str| {
        let infos = object.children().filter(|n| n.has_tag_name("info"));
        let mut named = infos.filter(|n| {
            n.attribute("name")
                .is_some_and(|name| name.eq_ignore_ascii_case(wanted))
        });
        named.next()?.attribute("value").map(str::to_owned)
    };
    Device::new(
        name,
        match object.attribute("osdev_type")? {
            "1" => DeviceKind::Gpu,
            "2" => DeviceKind::Network {
                address: info("Address")?,
            },
            "3" => DeviceKind::Fabric {
                node: info("NodeGUID")?,
                system: info("SysImageGUID")?,
            },
            _ => return None,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The XML of hwloc 2.9 for two packages with a core and a memory each. The second core has two
    /// threads.
    const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000001,0x00000005" gp_index="1">
    <info name="OSName" value="Linux"/>
    <object type="NUMANode" os_index="2" cpuset="0x0" nodeset="0x00000004" gp_index="9"/>
    <object type="Package" os_index="0" complete_cpuset="0x3" cpuset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000001" gp_index="3">
        <page_type size="4096" count="6"/>
      </object>
      <object type="L1iCache" cpuset="0x00000001" gp_index="4">
        <object type="Core" os_index="0" cpuset="0x00000001" gp_index="5">
          <object type="PU" os_index="0" cpuset="0x00000001" gp_index="6"/>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x00000001,0x00000004" gp_index="7">
      <object type="Core" os_index="0" cpuset="0x00000001,0x00000004" gp_index="8">
        <object type="PU" os_index="32" cpuset="0x00000001," gp_index="10"/>
        <object type="PU" os_index="2" cpuset="0x00000004" gp_index="11"/>
      </object>
    </object>
  </object>
  <support name="discovery.pu"/>
</topology>
"#;

    fn lists(tree: &Tree, level: Level) -> Vec<String> {
        let mut levels = tree.levels();
        let found = levels.find(|(kind, _)| *kind == Kind::Known(level));
        let parts = found.into_iter().flat_map(|(_, parts)| parts);
        parts.map(|part| part.cpus.to_string()).collect()
    }

    #[test]
    fn parts_have_the_order_of_hwloc() {
        let parts = parse(XML).unwrap();
        assert_eq!(lists(&parts, Level::Node), ["0,2,32"]);
        assert_eq!(lists(&parts, Level::Package), ["0", "2,32"]);
        let near: Vec<_> = parts
            .memories()
            .iter()
            .map(|m| m.near.to_string())
            .collect();
        assert_eq!(near, ["0", ""], "those inside come first");
        let around = parts.memories().iter().map(|m| m.around.to_string());
        assert_eq!(around.collect::<Vec<_>>(), ["0", "0,2,32"]);
        assert_eq!(lists(&parts, Level::Core), ["0", "2,32"]);
        assert_eq!(lists(&parts, Level::HwThread), ["0", "32", "2"]);
        assert_eq!(lists(&parts, Level::L1Cache), [""; 0], "for instructions");
    }

    #[test]
    fn attributes_are_escaped() {
        let named =
            |name: &str| XML.replace("type=\"Package\"", &format!("type=\"Package\" name={name}"));
        for name in [
            "\"a > b\"",
            "\"cpuset=&quot;0x2&quot;\"",
            "'a \"quoted\" word'",
        ] {
            let parts = parse(&named(name)).unwrap();
            assert_eq!(lists(&parts, Level::Package), ["0", "2,32"], "{name}");
        }
        let commented = XML.replace(
            "<support",
            "<!-- <object type=\"PU\" cpuset=\"0x8\"/> --><support",
        );
        let parts = parse(&commented).unwrap();
        assert_eq!(lists(&parts, Level::HwThread), ["0", "32", "2"]);
    }

    #[test]
    fn rejects_entities_that_would_expand() {
        let entity = XML.replace("\"hwloc2.dtd\"", "\"hwloc2.dtd\" [<!ENTITY a \"a\">]");
        assert!(parse(&entity).is_err());
        assert!(parse(&XML.replace("\"hwloc2.dtd\"", "\"hwloc2.dtd\" []")).is_ok());
        let many = format!("<topology>{}</topology>", "<object/>".repeat(1 << 20));
        assert!(parse(&many).is_err());
        let deep = format!(
            "{}{}",
            "<object>".repeat(100_000),
            "</object>".repeat(100_000)
        );
        assert!(parse(&deep).is_err());
    }

    #[test]
    fn rejects_descriptions_without_processors() {
        assert!(parse("").is_err());
        assert!(parse("<object type=\"Machine\" cpuset=\"0x1\">").is_err());
        assert!(parse(&XML.replace("0x00000004", "0xf...f")).is_err());
    }
}

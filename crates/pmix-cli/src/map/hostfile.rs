// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostfiles as the launchers of Open MPI and `pmix run --hostfile` read them.

use std::collections::HashMap;
use std::io::Write as _;

use pmix_hostlist::Slots;
use pmix_map::NodeList;
use preg_core::Status;

use super::list::Map;
use crate::args::Shape;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{Source, read_slots};
use crate::style::printable;

/// Reads sources with their slots, and writes them as a hostfile.
pub(super) fn write(
    context: &mut Context,
    sources: Vec<Source>,
    shape: &Shape,
) -> Result<(), Failure> {
    if shape.contiguous || shape.output_format.is_some() || shape.separator.is_some() {
        let message = "--contiguous, --output-format and --separator do not apply to --to hostfile";
        return Err(Failure::usage(message).cure("leave out the option"));
    }
    let mut hosts = Hosts::default();
    for source in sources {
        let (list, slots) = read_slots(&context.preg, source)?;
        hosts.add(&list, slots.as_ref());
    }
    let text = hosts.text()?;
    match context.json {
        true => {
            let text = String::from_utf8_lossy(&text);
            context.out.json(&serde_json::json!({ "text": text }))?;
        }
        // The names were checked when the lines were made, and a terminal needs the line ends.
        false => context.out.write_all(&text)?,
    }
    Ok(())
}

/// Returns a hostfile of the names of a map.
pub(super) fn text(map: &Map) -> Result<Vec<u8>, Failure> {
    match map {
        Map::Nodes(list) => {
            let mut hosts = Hosts::default();
            hosts.add(list, None);
            hosts.text()
        }
        Map::Procs(_) => {
            let message = "a hostfile has names of nodes, not ranks";
            Err(Failure::usage(message).cure("leave out --procs, or use --to list"))
        }
    }
}

/// The lines of a hostfile, in the order in which nodes first appear.
#[derive(Default)]
struct Hosts {
    lines: Vec<Host>,
    places: HashMap<Vec<u8>, usize>,
}

/// A line of a hostfile.
struct Host {
    name: Vec<u8>,
    slots: u64,
    /// `true` if the input has a number of slots for the node.
    is_counted: bool,
}

impl Hosts {
    fn add(&mut self, list: &NodeList, slots: Option<&Slots>) {
        let mut counts = slots.map(Slots::per_node);
        list.for_each(|name| {
            let count = counts.as_mut().and_then(Iterator::next);
            let number = u64::from(count.unwrap_or(1));
            match self.places.get(name) {
                Some(place) => {
                    let host = &mut self.lines[*place];
                    host.slots = host.slots.saturating_add(number);
                    host.is_counted = true;
                }
                None => {
                    self.places.insert(name.to_vec(), self.lines.len());
                    let is_counted = count.is_some();
                    self.lines.push(Host {
                        name: name.to_vec(),
                        slots: number,
                        is_counted,
                    });
                }
            }
        });
    }

    fn text(&self) -> Result<Vec<u8>, Failure> {
        let mut text = Vec::new();
        for Host {
            name,
            slots,
            is_counted,
        } in &self.lines
        {
            let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"#=,[]@".contains(byte);
            if name.is_empty() || !name.iter().all(is_plain) {
                let message = format!(
                    "the name `{}` cannot be written in a hostfile",
                    printable(name)
                );
                return Err(
                    Failure::new(Exit::Negative, Status::ERR_NOT_SUPPORTED, message)
                        .cure("use --to list or --to json"),
                );
            }
            text.extend_from_slice(name);
            if *is_counted {
                write!(text, " slots={slots}")?;
            }
            text.push(b'\n');
        }
        Ok(text)
    }
}

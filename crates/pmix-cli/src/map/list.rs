// SPDX-License-Identifier: MIT OR Apache-2.0
//! A map of either kind, and the ways to print its elements.

use std::io::{self, Write};

use pmix_map::{Limits, NodeList, ProcMap};
use preg_core::{Error, Status};

use crate::octets::push_hex;
use crate::output::{Out, json_string};

/// A node list or a process map, folded.
#[derive(Debug)]
pub(super) enum Map {
    Nodes(Box<NodeList>),
    Procs(Box<ProcMap>),
}

impl From<NodeList> for Map {
    fn from(list: NodeList) -> Self {
        Self::Nodes(Box::new(list))
    }
}

impl From<ProcMap> for Map {
    fn from(map: ProcMap) -> Self {
        Self::Procs(Box::new(map))
    }
}

impl Map {
    /// Names, or nodes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nodes(list) => list.len(),
            Self::Procs(map) => map.num_nodes(),
        }
    }

    /// Refuses a map whose elements together exceed the limits.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), Error> {
        let len = match self {
            Self::Nodes(list) => list.text_len() as u64,
            // A rank has at most ten digits; their number was limited when the map was read.
            Self::Procs(_) => 0,
        };
        if len <= limits.max_bytes {
            return Ok(());
        }
        let message = format!(
            "the list has {len} bytes, more than {}; raise the limit if this is meant",
            limits.max_bytes
        );
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// Calls `f` with each name, or with each node's ranks separated by commas.
    pub(super) fn each(&self, mut f: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut result = Ok(());
        match self {
            Self::Nodes(list) => list.for_each(|name| {
                if result.is_ok() {
                    result = f(name);
                }
            }),
            Self::Procs(map) => {
                let mut text = Vec::new();
                for node in 0..map.num_nodes() {
                    text.clear();
                    map.write_node(node, &mut text);
                    f(&text)?;
                }
            }
        }
        result
    }

    /// One element a line.
    pub(super) fn write_lines(&self, out: &mut Out) -> io::Result<()> {
        self.each(|element| {
            out.foreign(element)?;
            out.write_all(b"\n")
        })
    }

    /// The elements on one line, separated as the library separates them.
    pub(super) fn write_list(&self, out: &mut Out) -> io::Result<()> {
        let separator: &[u8] = match self {
            Self::Nodes(_) => b",",
            Self::Procs(_) => b";",
        };
        let mut between: &[u8] = b"";
        self.each(|element| {
            out.write_all(std::mem::replace(&mut between, separator))?;
            out.foreign(element)
        })
    }

    /// A JSON array of strings; returns whether they hold the bytes exactly.
    pub(super) fn write_array(&self, out: &mut impl Write) -> io::Result<bool> {
        let mut between: &[u8] = b"[";
        let mut exact = true;
        self.each(|element| {
            out.write_all(std::mem::replace(&mut between, b","))?;
            exact &= json_string(element, out)?;
            Ok(())
        })?;
        out.write_all(if self.len() == 0 { b"[]" } else { b"]" })?;
        Ok(exact)
    }

    /// `"list":[…]`, and `"list_hex":[…]` where a name is not UTF-8.
    pub(super) fn write_members(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"\"list\":")?;
        if self.write_array(out)? {
            return Ok(());
        }
        out.write_all(b",\"list_hex\":")?;
        let mut between: &[u8] = b"[\"";
        let mut digits = String::new();
        self.each(|element| {
            out.write_all(std::mem::replace(&mut between, b"\",\""))?;
            digits.clear();
            push_hex(element, &mut digits);
            out.write_all(digits.as_bytes())
        })?;
        out.write_all(b"\"]")
    }
}

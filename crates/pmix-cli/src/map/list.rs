// SPDX-License-Identifier: MIT OR Apache-2.0
//! A map of either kind, and the ways to print its elements.

use std::io::{self, Write};

use pmix_map::{Limits, NodeList, ProcMap, Ranks};
use preg_core::Error;

use crate::octets::push_hex;
use crate::output::{Out, json_string};

/// A node list or a process map, folded.
#[derive(Debug)]
pub(super) enum Map {
    Nodes(Box<NodeList>),
    Procs(Box<ProcMap>),
}

/// The position of a piece in its element.
#[derive(Clone, Copy)]
struct Part {
    is_first: bool,
    is_last: bool,
}

/// The number of ranks of a node that are written at once.
const RANKS_AT_ONCE: usize = 16 << 10;

/// Writes the ranks of a node in pieces, so that the text of a large node is never in memory as a
/// whole.
fn each_part(
    ranks: Ranks<'_>,
    text: &mut Vec<u8>,
    f: &mut impl FnMut(&[u8], Part) -> io::Result<()>,
) -> io::Result<()> {
    let (mut is_first, mut left) = (true, RANKS_AT_ONCE);
    for rank in ranks {
        if left == 0 {
            let is_last = false;
            f(text, Part { is_first, is_last })?;
            text.clear();
            (is_first, left) = (false, RANKS_AT_ONCE);
        }
        if !(is_first && text.is_empty()) {
            text.push(b',');
        }
        write!(text, "{}", rank.as_raw())?;
        left -= 1;
    }
    let is_last = true;
    f(text, Part { is_first, is_last })
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
    /// Returns the number of names or nodes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nodes(list) => list.len(),
            Self::Procs(map) => map.num_nodes(),
        }
    }

    /// Checks that the elements together do not exceed the limits.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), Error> {
        let len = match self {
            Self::Nodes(list) => list.text_len(),
            Self::Procs(map) => map.text_len(),
        };
        Ok(limits.check_text(len)?)
    }

    /// Calls `f` with each element in order. A node with very many ranks is passed in pieces.
    fn each(&self, mut f: impl FnMut(&[u8], Part) -> io::Result<()>) -> io::Result<()> {
        const WHOLE: Part = Part {
            is_first: true,
            is_last: true,
        };
        let mut result = Ok(());
        match self {
            Self::Nodes(list) => list.for_each(|name| {
                if result.is_ok() {
                    result = f(name, WHOLE);
                }
            }),
            Self::Procs(map) => {
                let mut text = Vec::new();
                for (node, ranks) in map.iter().enumerate() {
                    text.clear();
                    if ranks.size_hint().0 > RANKS_AT_ONCE {
                        each_part(ranks, &mut text, &mut f)?;
                    } else {
                        map.write_node(node, &mut text);
                        f(&text, WHOLE)?;
                    }
                }
            }
        }
        result
    }

    /// Writes one element per line.
    pub(super) fn write_lines(&self, out: &mut Out) -> io::Result<()> {
        self.each(|element, part| {
            out.foreign(element)?;
            match part.is_last {
                true => out.write_all(b"\n"),
                false => Ok(()),
            }
        })
    }

    /// Writes the elements with a separator; the default is that of the library, on one line.
    pub(super) fn write_list(&self, out: &mut Out, separator: Option<&[u8]>) -> io::Result<()> {
        let separator: &[u8] = match (separator, self) {
            (Some(separator), _) => separator,
            (None, Self::Nodes(_)) => b",",
            (None, Self::Procs(_)) => b";",
        };
        let mut between: &[u8] = b"";
        self.each(|element, part| {
            if part.is_first {
                out.write_all(std::mem::replace(&mut between, separator))?;
            }
            out.foreign(element)
        })
    }

    /// Writes a JSON array of strings. Returns `true` if they represent the bytes exactly.
    pub(super) fn write_array(&self, out: &mut impl Write) -> io::Result<bool> {
        let mut between: &[u8] = b"[";
        let mut exact = true;
        self.each(|element, part| {
            if part.is_first {
                out.write_all(std::mem::replace(&mut between, b","))?;
            }
            if part.is_first && part.is_last {
                exact &= json_string(element, out)?;
                return Ok(());
            }
            // Ranks and commas need no escapes in JSON.
            out.write_all(if part.is_first { b"\"" } else { b"" })?;
            out.write_all(element)?;
            out.write_all(if part.is_last { b"\"" } else { b"" })
        })?;
        out.write_all(if self.len() == 0 { b"[]" } else { b"]" })?;
        Ok(exact)
    }

    /// Writes `"list":[…]`, and `"list_hex":[…]` if a name is not UTF-8.
    pub(super) fn write_members(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"\"list\":")?;
        if self.write_array(out)? {
            return Ok(());
        }
        out.write_all(b",\"list_hex\":")?;
        let mut between: &[u8] = b"[\"";
        let mut digits = String::new();
        self.each(|element, _| {
            out.write_all(std::mem::replace(&mut between, b"\",\""))?;
            digits.clear();
            push_hex(element, &mut digits);
            out.write_all(digits.as_bytes())
        })?;
        out.write_all(b"\"]")
    }
}

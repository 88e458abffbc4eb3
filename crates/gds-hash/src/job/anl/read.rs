// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of a process map as blocks of nodes.

use super::{AnlMap, Block, Part};
use crate::Error;

impl AnlMap {
    /// Parses a map; returns `None` if the text has another notation.
    pub(crate) fn parse(text: &[u8]) -> Result<Option<Self>, Error> {
        let Some(mut rest) = text.trim_ascii().strip_prefix(b"(vector") else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        loop {
            rest = rest.trim_ascii_start();
            if let Some(end) = rest.strip_prefix(b")") {
                return match end {
                    [] => Ok(Some(Self(parts))),
                    _ => Err(fault(text, end, "the end after the last bracket")),
                };
            }
            let (part, behind) = part(text, token(text, rest, b',')?)?;
            add(&mut parts, part);
            rest = behind;
        }
    }
}

/// Keeps only parts with processes, so that a large repetition count cannot cause work without
/// processes.
fn add(parts: &mut Vec<Part>, mut part: Part) {
    (part.blocks).retain(|block| block.nodes > 0 && block.procs > 0);
    match parts.last_mut() {
        _ if part.times == 0 || part.blocks.is_empty() => {}
        Some(last) if last.times == 1 && part.times == 1 => last.blocks.append(&mut part.blocks),
        _ => parts.push(part),
    }
}

/// Parses a block, or `[block,block]xN`.
fn part<'t>(text: &[u8], rest: &'t [u8]) -> Result<(Part, &'t [u8]), Error> {
    let Some(mut rest) = rest.trim_ascii_start().strip_prefix(b"[") else {
        let (block, rest) = block(text, rest)?;
        let blocks = vec![block];
        return Ok((Part { blocks, times: 1 }, rest));
    };
    let mut blocks = Vec::new();
    loop {
        let (block, behind) = block(text, rest)?;
        blocks.push(block);
        match token(text, behind, b']') {
            Ok(behind) => {
                let (times, rest) = number(text, token(text, behind, b'x')?)?;
                return Ok((Part { blocks, times }, rest));
            }
            Err(_) => rest = token(text, behind, b',')?,
        }
    }
}

/// Parses `(first,nodes,procs)`, or the number of a node.
fn block<'t>(text: &[u8], rest: &'t [u8]) -> Result<(Block, &'t [u8]), Error> {
    let Some(rest) = rest.trim_ascii_start().strip_prefix(b"(") else {
        let (first, rest) = number(text, rest)?;
        let (nodes, procs) = (1, 1);
        return Ok((
            Block {
                first,
                nodes,
                procs,
            },
            rest,
        ));
    };
    let (first, rest) = number(text, rest)?;
    let rest = token(text, rest, b',')?;
    let (nodes, rest) = number(text, rest)?;
    let rest = token(text, rest, b',')?;
    let (procs, rest) = number(text, rest)?;
    let rest = token(text, rest, b')')?;
    let block = Block {
        first,
        nodes,
        procs,
    };
    Ok((block, rest))
}

fn token<'t>(text: &[u8], rest: &'t [u8], byte: u8) -> Result<&'t [u8], Error> {
    let rest = rest.trim_ascii_start();
    match rest.split_first() {
        Some((first, behind)) if *first == byte => Ok(behind),
        _ => Err(fault(text, rest, &format!("`{}`", char::from(byte)))),
    }
}

fn number<'t>(text: &[u8], rest: &'t [u8]) -> Result<(u64, &'t [u8]), Error> {
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = rest.split_at_checked(digits).unwrap_or((rest, &[]));
    // Nine digits exceed the number of nodes of any machine.
    if digits.is_empty() || digits.len() > 9 {
        return Err(fault(text, rest, "a number of at most nine digits"));
    }
    Ok((pmix_map::scan::number(digits), behind))
}

#[cold]
fn fault(text: &[u8], rest: &[u8], expected: &str) -> Error {
    let at = text
        .trim_ascii_end()
        .len()
        .saturating_sub(rest.trim_ascii_end().len());
    Error::bad(format!("expected {expected} at byte {at}"))
}

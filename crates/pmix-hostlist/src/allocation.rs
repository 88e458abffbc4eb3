// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nodes with their slots, in the formats of hostfiles and resource managers.
//!
//! Source: `SLURM_JOB_NODELIST` in sbatch(1), `PBS_NODEFILE` in qsub(1), `LSB_MCPU_HOSTS` in the manual of
//! LSF, hostfiles in the manuals of Open MPI and MPICH.

use std::collections::HashMap;

use pmix_map::{Limits, NodeList, NodeListBuilder};

use crate::slots::Slots;
use crate::{Error, Notation, is_blank, parse, parse_notation};

const HINT: &str = "a line of a hostfile is n1, n1:4 or n1 slots=4";
const PAIRS: &str = "LSF writes a name and a number for each node: n1 4 n2 8";

/// The nodes of an allocation and the number of slots on each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The nodes, without duplicates.
    pub nodes: NodeList,
    /// The slots of the nodes, if they are known.
    pub slots: Option<Slots>,
}

/// Parses a hostfile: one node per line, with `:N` or `slots=N` after the name. Blanks may surround the `=`, and
/// the name of a user may precede the node (`user@n1`); it is not part of the result. A line without a
/// number has one slot. A node on several lines has the sum of their slots, so the function also
/// parses a `PBS_NODEFILE`. With `comments`, a `#` at the start of a line or after a blank begins a
/// comment.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM` with the offset of an invalid line; `PMIX_ERR_OUT_OF_RESOURCE` beyond the
/// limits.
pub fn parse_hostfile(text: &[u8], comments: bool, limits: &Limits) -> Result<Allocation, Error> {
    let mut nodes = Counted::default();
    let mut start = 0;
    for line in text.split(|byte| *byte == b'\n') {
        read_line(line, comments, limits, &mut nodes).map_err(|error| error.shifted_by(start))?;
        start += line.len() + 1;
    }
    nodes.finish(limits)
}

/// Parses the nodes of `--host`: names with commas between them, `:N` after a name for N slots. A name without a
/// number has one slot, and a name that is repeated has the sum. A name may have bracket ranges.
///
/// # Errors
/// As for [`parse_hostfile`].
pub fn parse_hosts(text: &[u8], limits: &Limits) -> Result<Allocation, Error> {
    let mut nodes = Counted::default();
    let (mut start, mut depth) = (0, 0_usize);
    for (at, byte) in text.iter().chain(b",").enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 || at == text.len() => {
                let word = text.get(start..at).unwrap_or_default();
                read_host(word, limits, &mut nodes).map_err(|error| error.shifted_by(start))?;
                start = at + 1;
            }
            _ => {}
        }
    }
    nodes.finish(limits)
}

/// Parses `LSB_MCPU_HOSTS`: pairs of a name and its number of slots.
///
/// # Errors
/// As for [`parse_hostfile`].
pub fn parse_mcpu_hosts(text: &[u8], limits: &Limits) -> Result<Allocation, Error> {
    let mut nodes = Counted::default();
    let mut words = words(text);
    while let Some((at, name)) = words.next() {
        let count = words.next().and_then(|(_, word)| number(word));
        let count = count.ok_or_else(|| {
            let message = format!("no number of slots follows `{}`", name.escape_ascii());
            Error::syntax(at, message, PAIRS)
        })?;
        nodes.add(name, count, limits)?;
    }
    nodes.finish(limits)
}

/// Parses the node list of a Slurm job, in Slurm's order, and the number of tasks on each node.
///
/// # Errors
/// As for [`parse`], and `PMIX_ERR_BAD_PARAM` if the two have different numbers of nodes.
pub fn parse_slurm(
    nodes: &[u8],
    tasks_per_node: Option<&[u8]>,
    limits: &Limits,
) -> Result<Allocation, Error> {
    let nodes = parse_notation(nodes, false, Notation::Slurm, limits)?;
    let slots = tasks_per_node.map(Slots::parse).transpose()?;
    if let Some(slots) = &slots
        && slots.num_nodes() != nodes.len() as u64
    {
        let message = format!(
            "there are {} nodes, and tasks for {}",
            nodes.len(),
            slots.num_nodes()
        );
        return Err(Error::syntax(0, message, "2(x3),1 is for four nodes"));
    }
    Ok(Allocation { nodes, slots })
}

/// Returns `true` if a text contains `slots=`, also with blanks before the `=`. Then it is a hostfile, because no
/// list of names contains this.
#[must_use]
pub fn has_slots(text: &[u8]) -> bool {
    memchr::memmem::find_iter(text, b"slots").any(|at| {
        let after = text.get(at + b"slots".len()..).unwrap_or_default();
        let is_word = at == 0 || text.get(at - 1).is_some_and(|byte| is_blank(*byte));
        is_word && after.iter().find(|byte| !b" \t".contains(byte)) == Some(&b'=')
    })
}

/// Nodes in the order of their first occurrence, with the slots of all their lines.
#[derive(Default)]
struct Counted {
    places: HashMap<Vec<u8>, usize>,
    nodes: Vec<(Vec<u8>, u32)>,
    /// The total length of all names.
    len: usize,
}

impl Counted {
    fn add(&mut self, name: &[u8], slots: u32, limits: &Limits) -> Result<(), Error> {
        if let Some((_, known)) = self
            .places
            .get(name)
            .and_then(|place| self.nodes.get_mut(*place))
        {
            *known = known.saturating_add(slots);
            return Ok(());
        }
        self.len = self.len.saturating_add(name.len() + 1);
        limits.check_text(self.len)?;
        self.places.insert(name.to_vec(), self.nodes.len());
        self.nodes.push((name.to_vec(), slots));
        Ok(())
    }

    fn finish(self, limits: &Limits) -> Result<Allocation, Error> {
        let mut list = NodeListBuilder::new(limits);
        let mut slots = Slots::default();
        for (name, count) in self.nodes {
            list.name(&name)?;
            slots.push(count, 1);
        }
        Ok(Allocation {
            nodes: list.finish(),
            slots: Some(slots),
        })
    }
}

fn read_line(
    line: &[u8],
    comments: bool,
    limits: &Limits,
    nodes: &mut Counted,
) -> Result<(), Error> {
    let words = words(line).take_while(|(_, word)| !comments || !word.starts_with(b"#"));
    let mut words = words.peekable();
    let Some((at, first)) = words.next() else {
        return Ok(());
    };
    let (name, mut count) = name_and_count(without_user(first));
    if name.is_empty() || name.contains(&b'=') {
        let message = format!("`{}` is not a name of a node", first.escape_ascii());
        return Err(Error::syntax(at, message, HINT));
    }
    while let Some((at, word)) = words.next() {
        let fault = |message: String| Error::syntax(at, message, HINT);
        let equals = memchr::memchr(b'=', word).unwrap_or(word.len());
        let (key, mut value) = word.split_at(equals);
        // Blanks may surround the equals sign.
        if value.is_empty()
            && let Some((_, next)) = words.next_if(|(_, next)| next.starts_with(b"="))
        {
            value = next;
        }
        if value == b"="
            && let Some((_, next)) = words.next()
        {
            value = next;
        }
        match key {
            b"slots" | b"cpus" | b"count" => {
                let digits = value.strip_prefix(b"=").unwrap_or(value);
                count = Some(number(digits).ok_or_else(|| {
                    let word = word.escape_ascii();
                    fault(match is_number(digits) {
                        true => format!("`{word}` has a number that exceeds {}", u32::MAX),
                        false => format!("`{word}` has no number"),
                    })
                })?);
            }
            // These words do not affect the map.
            b"max_slots" | b"max-slots" | b"user" | b"username" | b"port" | b"ifhn"
            | b"binding"
                if !value.is_empty() => {}
            _ => {
                let message = format!(
                    "`{}` is not a known property of a node",
                    word.escape_ascii()
                );
                return Err(fault(message));
            }
        }
    }
    add_all(name, count.unwrap_or(1), limits, nodes).map_err(|error| error.shifted_by(at))
}

/// Reads a node of `--host`.
fn read_host(word: &[u8], limits: &Limits, nodes: &mut Counted) -> Result<(), Error> {
    const HINT: &str = "the nodes of --host are n1,n2 or n1:4,n2:2";
    let (name, count) = name_and_count(without_user(word.trim_ascii()));
    if name.is_empty() || name.iter().any(|byte| is_blank(*byte) || *byte == b'=') {
        let message = format!("`{}` is not a name of a node", word.escape_ascii());
        return Err(Error::syntax(0, message, HINT));
    }
    if count.is_none() && memchr::memchr_iter(b':', name).count() == 1 {
        let digits = name.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        let fault = match is_number(digits) {
            true => format!("a number of slots after `:` that exceeds {}", u32::MAX),
            false => "no number of slots after `:`".to_owned(),
        };
        let message = format!("`{}` has {fault}", word.escape_ascii());
        return Err(Error::syntax(0, message, HINT));
    }
    add_all(name, count.unwrap_or(1), limits, nodes)
}

/// Returns a word without the name of a user and the `@` before the name of the node.
fn without_user(word: &[u8]) -> &[u8] {
    match memchr::memchr(b'@', word) {
        None | Some(0) => word,
        Some(at) => word.get(at + 1..).unwrap_or_default(),
    }
}

/// Adds all nodes of a name, which may have bracket ranges, with this number of slots each.
fn add_all(name: &[u8], count: u32, limits: &Limits, nodes: &mut Counted) -> Result<(), Error> {
    if memchr::memchr2(b'[', b']', name).is_none() {
        return nodes.add(name, count, limits);
    }
    let list = parse(name, limits)?;
    limits.check_text(list.text_len())?;
    let mut result = Ok(());
    list.for_each(|name| {
        if result.is_ok() {
            result = nodes.add(name, count, limits);
        }
    });
    result
}

/// Splits a word into a name and the number after its only colon. A word with several colons is an
/// IPv6 address.
fn name_and_count(word: &[u8]) -> (&[u8], Option<u32>) {
    let colon = memchr::memchr(b':', word).filter(|at| memchr::memrchr(b':', word) == Some(*at));
    let split = colon.and_then(|at| Some((word.get(..at)?, number(word.get(at + 1..)?)?)));
    split.map_or((word, None), |(name, count)| (name, Some(count)))
}

/// Returns `true` for a number of any size.
fn is_number(digits: &[u8]) -> bool {
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn number(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok()?;
    let digits = Some(digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

/// Returns the words between blanks, each with its offset.
fn words(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    let word = move |word: &'_ [u8]| {
        let start = at;
        at += word.len() + 1;
        (start, word.len())
    };
    let places: Vec<_> = text.split(|byte| is_blank(*byte)).map(word).collect();
    let filled = places.into_iter().filter(|(_, len)| *len > 0);
    filled.filter_map(|(start, len)| Some((start, text.get(start..start + len)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(found: Allocation) -> String {
        let names = found.nodes.iter().collect::<Vec<_>>().join(&b","[..]);
        format!("{} {:?}", String::from_utf8_lossy(&names), found.slots)
    }

    fn same(found: Result<Allocation, Error>, names: &str, slots: &str) {
        let slots = Slots::parse(slots.as_bytes()).unwrap();
        assert_eq!(shown(found.unwrap()), format!("{names} {:?}", Some(slots)));
    }

    #[test]
    fn every_form_of_a_hostfile_is_read() {
        let limits = Limits::default();
        let text = b"# rack\nn1 slots=4 max_slots=8 # first\r\nn2:2\n\n  n3\nn1\nn[4-5] slots=3\n";
        same(
            parse_hostfile(text, true, &limits),
            "n1,n2,n3,n4,n5",
            "5,2,1,3(x2)",
        );
        // The format of PBS, one line per slot.
        same(parse_hostfile(b"a\na\nb\n", true, &limits), "a,b", "2,1");
        same(
            parse_hostfile(b"fe80::1:2\n", true, &limits),
            "fe80::1:2",
            "1",
        );
        same(
            parse_mcpu_hosts(b" h1 4  h2 8 h1 1", &limits),
            "h1,h2",
            "5,8",
        );
    }

    #[test]
    fn blanks_around_the_equals_sign_and_users_are_read() {
        let limits = Limits::default();
        let text = b"n1 slots = 4 max_slots = 8\nme@n2 slots= 2\nn3 slots =3 user = me\n";
        same(parse_hostfile(text, true, &limits), "n1,n2,n3", "4,2,3");
        for (text, at) in [("n1 slots =", 3), ("n1 slots = x", 3), ("n1 = 4", 3)] {
            let error = parse_hostfile(text.as_bytes(), true, &limits).unwrap_err();
            assert_eq!(error.offset(), Some(at), "{text:?}: {error}");
        }
        assert!(has_slots(b"n1 slots = 4"));
        assert!(!has_slots(b"n1 slots 4"));
    }

    #[test]
    fn nodes_of_host_have_the_sum_of_their_slots() {
        let limits = Limits::default();
        for (text, names, slots) in [
            ("a,a,a", "a", "3"),
            ("a:3", "a", "3"),
            ("a:2,b,a", "a,b", "3,1"),
            ("me@a:2,n[1-2]:4", "a,n1,n2", "2,4,4"),
            ("::1,fe80::1:2", "::1,fe80::1:2", "1,1"),
            ("@all", "@all", "1"),
        ] {
            same(parse_hosts(text.as_bytes(), &limits), names, slots);
        }
        for (text, at) in [
            ("", 0),
            ("a,,b", 2),
            ("a:x", 0),
            ("a,b:-1", 2),
            ("a,n[1", 2),
        ] {
            let error = parse_hosts(text.as_bytes(), &limits).unwrap_err();
            assert!(error.offset() >= Some(at), "{text:?}: {error}");
        }
        let error = parse_hosts(b"a:99999999999", &limits).unwrap_err();
        assert!(error.to_string().contains("exceeds 4294967295"), "{error}");
        let error = parse_hostfile(b"a slots=99999999999", true, &limits).unwrap_err();
        assert!(error.to_string().contains("exceeds 4294967295"), "{error}");
    }

    #[test]
    fn both_variables_of_slurm_must_match() {
        let limits = Limits::default();
        same(
            parse_slurm(b"n[1-3],x", Some(b"2(x3),1"), &limits),
            "n1,n2,n3,x",
            "2(x3),1",
        );
        assert_eq!(parse_slurm(b"n[1-3]", None, &limits).unwrap().slots, None);
        let error = parse_slurm(b"n[1-3]", Some(b"2(x4)"), &limits).unwrap_err();
        assert!(
            error.to_string().contains("3 nodes, and tasks for 4"),
            "{error}"
        );
    }

    #[test]
    fn invalid_lines_are_errors_with_an_offset() {
        let limits = Limits::default();
        for (text, at) in [
            ("n1\nslots=4\n", 3),
            ("n1 slots=x", 3),
            ("n1 slots=", 3),
            ("n1 slots", 3),
            ("n1 n2", 3),
            ("a\nn1 max_slots", 5),
            ("a\n n[1-x]", 7),
            ("n1 slots=4294967296", 3),
        ] {
            let error = parse_hostfile(text.as_bytes(), true, &limits).unwrap_err();
            assert_eq!(error.offset(), Some(at), "{text:?}: {error}");
        }
        assert_eq!(
            parse_mcpu_hosts(b"a 1 b", &limits).unwrap_err().offset(),
            Some(4)
        );
        assert_eq!(
            parse_mcpu_hosts(b"a b", &limits).unwrap_err().offset(),
            Some(0)
        );
        let few = Limits {
            max_nodes: 2,
            ..limits
        };
        assert!(parse_hostfile(b"a\nb\nc", true, &few).is_err());
        let short = Limits {
            max_text: 100,
            ..limits
        };
        assert!(parse_hostfile(b"n[1-1000000]", true, &short).is_err());
    }

    #[test]
    fn recognizes_hostfiles_by_words_with_slots() {
        assert!(has_slots(b"n1 slots=4"));
        assert!(has_slots(b"slots=4"));
        assert!(!has_slots(b"n1,xslots=4"));
        assert!(!has_slots(b"slots"));
    }
}

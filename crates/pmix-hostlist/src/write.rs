// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writer of lists with brackets. It keeps the order, so that parsing the text gives the same
//! list.

mod group;
mod level;

use std::io::Write;

use pmix_map::{NodeList, NodeRun, ProcMap, Progression};

use crate::brackets::Notation;
use crate::{Error, is_blank};
use level::{Item, Level};

/// Writes a list such as `n[001-128,200],login`, which [`parse`](crate::parse) and
/// [`parse_file`](crate::parse_file) parse to the same list.
///
/// # Errors
/// `PMIX_ERR_NOT_SUPPORTED` for a name with a bracket, a comma or a blank, for a first name that
/// begins with `#`, and for the list of one empty name.
pub fn write(list: &NodeList, notation: Notation) -> Result<Vec<u8>, Error> {
    let mut folder = Folder::new(notation);
    let mut result = Ok(());
    list.for_each_run(|run| {
        if result.is_ok() {
            result = match run {
                NodeRun::Name(name) => folder.name(name),
                NodeRun::Progression(run) => folder.progression(&run),
            };
        }
    });
    result?;
    folder.close();
    let out = folder.out;
    // Empty text would be the empty list, and a leading `#` would begin a comment.
    match out.first() {
        None if !list.is_empty() => Err(Error::unwritable(b"")),
        Some(b'#') => Err(Error::unwritable(&list.nth(0).unwrap_or_default())),
        _ => Ok(out),
    }
}

/// Returns `true` for a byte that separates names or opens a bracket.
fn is_special(byte: &u8) -> bool {
    b"[],".contains(byte) || is_blank(*byte)
}

/// A folder of names in levels. The first level folds names on one number. The next level folds the
/// results on a number further left, and so on.
struct Folder {
    notation: Notation,
    /// The levels, innermost first. A level is added once the previous level has created a bracket.
    levels: Vec<Level>,
    out: Vec<u8>,
    started: bool,
}

impl Folder {
    fn new(notation: Notation) -> Self {
        Self {
            notation,
            levels: vec![Level::new(notation)],
            out: Vec::new(),
            started: false,
        }
    }

    fn name(&mut self, name: &[u8]) -> Result<(), Error> {
        if name.iter().any(is_special) {
            return Err(Error::unwritable(name));
        }
        let closed = self.levels[0].push(name, b"");
        self.pass(closed, 1);
        Ok(())
    }

    fn progression(&mut self, run: &Progression<'_>) -> Result<(), Error> {
        if run.prefix.iter().chain(run.suffix).any(is_special) {
            return Err(Error::unwritable(&[run.prefix, b"0", run.suffix].concat()));
        }
        if self.notation.ends_with(run.suffix) {
            let closed = self.levels[0].progression(run);
            self.pass(closed, 1);
            return Ok(());
        }
        let mut name = Vec::new();
        for number in numbers(run) {
            name.clear();
            name.extend_from_slice(run.prefix);
            // Writing into a Vec cannot fail.
            let _ = write!(name, "{number:0width$}", width = run.width);
            name.extend_from_slice(run.suffix);
            self.name(&name)?;
        }
        Ok(())
    }

    /// Passes an item to the levels from `next` on. Each level may return the item that it closes,
    /// which goes to the next level. The item of the last level is written.
    fn pass(&mut self, mut item: Option<Item>, mut next: usize) {
        while let Some(closed) = item.take() {
            if next == self.levels.len() {
                if closed.tail.is_empty() || next == self.notation.max_brackets() {
                    return self.write(&closed);
                }
                self.levels.push(Level::new(self.notation));
            }
            item = self.levels[next].push(&closed.head, &closed.tail);
            next += 1;
        }
    }

    fn write(&mut self, item: &Item) {
        if std::mem::replace(&mut self.started, true) {
            self.out.push(b',');
        }
        self.out.extend_from_slice(&item.head);
        self.out.extend_from_slice(&item.tail);
    }

    /// Writes all open items.
    fn close(&mut self) {
        let mut level = 0;
        // Closing a level may add the next one.
        while level < self.levels.len() {
            let item = self.levels[level].close();
            level += 1;
            self.pass(item, level);
        }
    }
}

/// Returns the numbers of a progression. They fit 64 bits, because each is a number of a name.
fn numbers(run: &Progression<'_>) -> impl Iterator<Item = u64> + use<> {
    let (first, step) = (i128::from(run.first), i128::from(run.step));
    (0..run.count).map_while(move |i| u64::try_from(first + i128::from(i) * step).ok())
}

/// Writes a process map with consecutive ranks as ranges, `0-3,8;4-7`, which
/// [`ProcMap::parse_text`] parses.
#[must_use]
pub fn write_procs(map: &ProcMap) -> Vec<u8> {
    let mut out = Vec::new();
    for node in 0..map.num_nodes() {
        if node > 0 {
            out.push(b';');
        }
        append_ranks(map, node, &mut out);
    }
    out
}

/// Writes the ranks of one node as ranges, `0-3,8`. Returns empty text for an unknown node.
#[must_use]
pub fn write_ranks(map: &ProcMap, node: usize) -> Vec<u8> {
    let mut out = Vec::new();
    append_ranks(map, node, &mut out);
    out
}

/// Appends the ranks of one node: `0-3,8`.
fn append_ranks(map: &ProcMap, node: usize, out: &mut Vec<u8>) {
    let mut open: Option<(u32, u32)> = None;
    let mut first = true;
    for rank in map.ranks_of(node).into_iter().flatten() {
        let rank = rank.as_raw();
        match &mut open {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => push_ranks(open.replace((rank, rank)), &mut first, out),
        }
    }
    push_ranks(open, &mut first, out);
}

fn push_ranks(range: Option<(u32, u32)>, first: &mut bool, out: &mut Vec<u8>) {
    let Some((from, to)) = range else { return };
    if !std::mem::take(first) {
        out.push(b',');
    }
    // Writing into a Vec cannot fail.
    let _ = match from == to {
        true => write!(out, "{from}"),
        false => write!(out, "{from}-{to}"),
    };
}

#[cfg(test)]
mod tests {
    use pmix_map::Limits;
    use proptest::prelude::*;

    use super::*;
    use crate::{parse, parse_file};

    fn folded(names: &[u8]) -> Result<String, String> {
        // ClusterShell's parser accepts Slurm's notation as well.
        written(names, Notation::Slurm)?;
        written(names, Notation::ClusterShell)
    }

    fn written(names: &[u8], notation: Notation) -> Result<String, String> {
        let list = NodeList::parse_text(names, &Limits::default()).unwrap();
        let out = write(&list, notation).map_err(|e| e.to_string())?;
        for back in [
            parse(&out, &Limits::default()),
            parse_file(&out, &Limits::default()),
        ] {
            let mut text = Vec::new();
            back.unwrap().write_text(b',', &mut text);
            assert_eq!(
                String::from_utf8_lossy(&text),
                String::from_utf8_lossy(names)
            );
        }
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn numbers_fold_with_their_padding() {
        let cases = [
            ("n8,n9,n10,n11", "n[8-11]"),
            ("n08,n09,n10", "n[08-10]"),
            ("n099,n100,n101", "n[099-101]"),
            ("n99,n100", "n[99-100]"),
            ("n09,n010", "n[09,010]"),
            ("n1,n1,n2", "n[1,1-2]"),
            ("n3,n2,n1", "n[3,2,1]"),
            ("n0,n1", "n[0-1]"),
            ("n00,n01", "n[00-01]"),
            ("a1b,a2b,a3c", "a[1-2]b,a3c"),
            ("x1000c0s0b0n0,x1000c0s0b0n1", "x1000c0s0b0n[0-1]"),
            ("1,2,3", "[1-3]"),
            ("r1n1,r1n2,r2n1,r2n2,r3n1", "r[1-2]n[1-2],r3n1"),
            ("a1,b1,b2,c1,c2", "a1,b[1-2],c[1-2]"),
            ("x9c0n0,x9c0n1,x10c0n0,x10c0n1", "x[9-10]c0n[0-1]"),
            (
                "a1b1c1,a1b1c2,a1b2c1,a1b2c2,a2b1c1,a2b1c2,a2b2c1,a2b2c2",
                "a[1-2]b[1-2]c[1-2]",
            ),
            ("n0,n2,n4", "n[0,2,4]"),
            ("n0,n2,n4,n6", "n[0-6/2]"),
            ("n1,n2,n5,n8,n11,n14", "n[1-2,5-14/3]"),
            ("n08,n10,n12,n14", "n[08-14/2]"),
            ("n8,n10,n012,n014", "n[8,10,012,014]"),
            ("n006,n008,n010,n012", "n[006-012/2]"),
            ("n96,n98,n100,n102", "n[96-102/2]"),
            ("a,b", "a,b"),
            ("", ""),
            (",a", ",a"),
        ];
        for (names, text) in cases {
            assert_eq!(folded(names.as_bytes()).as_deref(), Ok(text), "{names:?}");
        }
    }

    /// `scontrol show hostnames` of Slurm 22.05 rejects text after the last bracket.
    #[test]
    fn slurm_names_end_with_their_last_bracket() {
        let cases = [
            ("n1-ib,n2-ib", "n1-ib,n2-ib"),
            ("a01b2,a02b2", "a01b2,a02b2"),
            ("a01b2,a01b3,a02b2,a02b3", "a[01-02]b[2-3]"),
            ("n1,n2,n2-ib,n3-ib,n3", "n[1-2],n2-ib,n3-ib,n3"),
            ("n08.x,n09.x,n10.x,n11.x", "n08.x,n09.x,n10.x,n11.x"),
        ];
        for (names, text) in cases {
            let slurm = written(names.as_bytes(), Notation::Slurm);
            assert_eq!(slurm.as_deref(), Ok(text), "{names:?}");
        }
    }

    #[test]
    fn rejects_names_that_would_be_misread() {
        for names in ["#a", "n[1]", "a b", "pmix[a", "a\x0bb"] {
            let list = NodeList::parse_text(names.as_bytes(), &Limits::default()).unwrap();
            let error = write(&list, Notation::ClusterShell).unwrap_err();
            assert_eq!(
                error.status(),
                pmix_types::Status::ERR_NOT_SUPPORTED,
                "{names:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_list_survives(
            names in prop::collection::vec("[an]?-?[0-9]{0,3}[b.]?[0-9]{0,4}|[0-9]{17,23}", 1..40)
        ) {
            // No text represents a list of one empty name.
            prop_assume!(names.len() > 1 || !names[0].is_empty());
            prop_assert!(folded(names.join(",").as_bytes()).is_ok());
        }

        #[test]
        fn products_survive(
            ends in prop::collection::vec((0u32..12, 1u32..5, 1u32..4), 1..5), drop in 0usize..8,
        ) {
            let mut names = vec![String::from("x")];
            for (first, count, step) in ends {
                let numbers = (0..count).map(|n| first + n * step);
                let columns = numbers.map(|n| format!("{n}c")).collect::<Vec<_>>();
                let longer = |name: &String| columns.iter().map(|c| format!("{name}{c}")).collect::<Vec<_>>();
                names = names.iter().flat_map(longer).collect();
            }
            names.truncate(names.len().saturating_sub(drop).max(1));
            prop_assert!(folded(names.join(",").as_bytes()).is_ok());
        }

        #[test]
        fn neighbors_fold(start in 0u32..1200, count in 2u32..50, width in 1usize..5) {
            let names: Vec<_> = (start..start + count).map(|n| format!("n{n:0width$}x")).collect();
            let text = folded(names.join(",").as_bytes()).unwrap();
            let last = start + count - 1;
            prop_assert_eq!(text, format!("n[{start:0width$}-{last:0width$}]x"));
        }
    }

    #[test]
    fn consecutive_ranks_are_ranges_and_survive() {
        for (text, written) in [
            ("0,1,2,3,8;4,5,6,7", "0-3,8;4-7"),
            ("0,2,4;1,3,5", "0,2,4;1,3,5"),
            ("3,2;1,0", "3,2;1,0"),
            (";0;;1;", ";0;;1;"),
            ("", ""),
        ] {
            let map = ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap();
            let out = write_procs(&map);
            assert_eq!(String::from_utf8_lossy(&out), written, "{text:?}");
            let back = ProcMap::parse_text(&out, &Limits::default()).unwrap();
            assert_eq!(back, map, "{text:?}");
        }
        let map = ProcMap::parse_text(b"0-3,8;4-7", &Limits::default()).unwrap();
        assert_eq!(write_ranks(&map, 0), b"0-3,8");
        assert_eq!(write_ranks(&map, 2), b"");
    }
}

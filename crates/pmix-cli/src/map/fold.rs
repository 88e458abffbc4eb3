// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folding into bracket lists, in order: what [`crate::input`] reads back as the same list.

use std::io::Write;
use std::ops::Range;

use pmix_map::scan::MAX_DIGITS;
use pmix_map::{NodeList, NodeRun, ProcMap, Progression};
use preg_core::{Preg, Status};

use crate::failure::{Exit, Failure};
use crate::input::{Segment, Source, segments};

/// Appends `n[001-128,200],login`.
///
/// Only what Slurm reads too: one bracket a name, no steps.
pub(super) fn nodes(list: &NodeList, preg: &Preg, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut folder = Folder::default();
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
    out.append(&mut folder.out);
    // A first name that reads as something else than a name cannot be written here.
    let source = Source {
        origin: String::new(),
        bytes: out.clone(),
        comments: true,
    };
    let first = out.first().copied().unwrap_or(b'n');
    let odd = b"#@{".contains(&first) || out == b"-" || (out.is_empty() && !list.is_empty());
    match segments(preg, source) {
        Ok(found) if !odd && matches!(found[..], [Segment::List(_)]) => Ok(()),
        _ => Err(unwritable(&list.nth(0).unwrap_or_default())),
    }
}

/// What separates names or opens a bracket.
fn is_special(byte: &u8) -> bool {
    b"[],\x0b".contains(byte) || byte.is_ascii_whitespace()
}

fn unwritable(name: &[u8]) -> Failure {
    let shown = crate::excerpt::printable(name);
    let message = format!("the name {shown:?} cannot stand in a bracket list");
    Failure::new(Exit::Negative, Status::ERR_NOT_SUPPORTED, message)
        .cure("use --to list, --to json or --to pmix")
}

/// Appends `0-3,8;4-7`.
pub(super) fn procs(map: &ProcMap, out: &mut Vec<u8>) {
    for node in 0..map.num_nodes() {
        if node > 0 {
            out.push(b';');
        }
        ranks(map, node, out);
    }
}

/// Appends the ranks of one node: `0-3,8`.
pub(super) fn ranks(map: &ProcMap, node: usize, out: &mut Vec<u8>) {
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

/// Consecutive names that differ in one number only.
#[derive(Default)]
struct Folder {
    out: Vec<u8>,
    started: bool,
    /// The name that the next one may fold with.
    single: Option<Vec<u8>>,
    group: Option<Group>,
}

struct Group {
    prefix: Vec<u8>,
    suffix: Vec<u8>,
    ranges: Vec<Numbers>,
}

/// Consecutive numbers, as they are written between brackets.
#[derive(Clone, Copy)]
struct Numbers {
    first: u64,
    last: u64,
    /// Digits of the first number; all have as many if it has leading zeros.
    width: usize,
}

impl Numbers {
    fn of(digits: &[u8]) -> Self {
        let number = pmix_map::scan::number(digits);
        Self {
            first: number,
            last: number,
            width: digits.len(),
        }
    }

    fn digits(number: u64) -> usize {
        usize::try_from(number.max(1).ilog10() + 1).unwrap_or(MAX_DIGITS)
    }

    fn padded(&self) -> bool {
        self.width > Self::digits(self.first)
    }

    /// Whether `next` continues this range and is read back from it.
    fn takes(&self, next: &Self) -> bool {
        let width = if self.padded() {
            self.width.max(Self::digits(next.first))
        } else {
            Self::digits(next.first)
        };
        self.last.checked_add(1) == Some(next.first) && next.width == width
    }

    fn write(&self, out: &mut Vec<u8>) {
        let width = self.width;
        let _ = write!(out, "{:0width$}", self.first);
        if self.last > self.first {
            let _ = write!(out, "-{:0width$}", self.last);
        }
    }
}

impl Folder {
    fn name(&mut self, name: &[u8]) -> Result<(), Failure> {
        if name.iter().any(is_special) {
            return Err(unwritable(name));
        }
        if let Some(group) = &mut self.group {
            if let Some(digits) = number_between(name, &group.prefix, &group.suffix) {
                group.add(Numbers::of(&name[digits]));
                return Ok(());
            }
        } else if let Some(single) = &self.single
            && let Some((old, new)) = field(single, name)
        {
            let mut group = Group {
                prefix: name[..new.start].to_vec(),
                suffix: name[new.end..].to_vec(),
                ranges: vec![Numbers::of(&single[old])],
            };
            group.add(Numbers::of(&name[new]));
            (self.single, self.group) = (None, Some(group));
            return Ok(());
        }
        self.close();
        self.single = Some(name.to_vec());
        Ok(())
    }

    fn progression(&mut self, run: &Progression<'_>) -> Result<(), Failure> {
        if run.prefix.iter().chain(run.suffix).any(is_special) {
            return Err(unwritable(&[run.prefix, b"0", run.suffix].concat()));
        }
        self.open(run);
        let Some(group) = &mut self.group else {
            return Ok(());
        };
        if run.step == 1 {
            group.add(Numbers {
                first: run.first,
                last: run.first + (run.count - 1),
                width: run.width,
            });
            return Ok(());
        }
        for index in 0..run.count {
            let number = i128::from(run.first) + i128::from(index) * i128::from(run.step);
            let Ok(number) = u64::try_from(number) else {
                break;
            };
            group.add(Numbers {
                first: number,
                last: number,
                width: run.width,
            });
        }
        Ok(())
    }

    /// Makes the current group one that takes this run's names.
    fn open(&mut self, run: &Progression<'_>) {
        let same = |g: &Group| g.prefix == run.prefix && g.suffix == run.suffix;
        if self.group.as_ref().is_some_and(same) {
            return;
        }
        let mut group = Group {
            prefix: run.prefix.to_vec(),
            suffix: run.suffix.to_vec(),
            ranges: Vec::new(),
        };
        let before = self.single.take();
        let digits = before
            .as_ref()
            .and_then(|name| number_between(name, run.prefix, run.suffix));
        match (before, digits) {
            (Some(name), Some(digits)) => group.add(Numbers::of(&name[digits])),
            (name, _) => {
                self.single = name;
                self.close();
            }
        }
        self.group = Some(group);
    }

    /// Writes what is open.
    fn close(&mut self) {
        let (single, group) = (self.single.take(), self.group.take());
        if single.is_none() && group.is_none() {
            return;
        }
        if std::mem::replace(&mut self.started, true) {
            self.out.push(b',');
        }
        if let Some(name) = single {
            self.out.extend_from_slice(&name);
        }
        if let Some(group) = group {
            group.write(&mut self.out);
        }
    }
}

impl Group {
    fn add(&mut self, numbers: Numbers) {
        match self.ranges.last_mut() {
            Some(last) if last.takes(&numbers) => last.last = numbers.last,
            _ => self.ranges.push(numbers),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let alone = matches!(self.ranges[..], [one] if one.first == one.last);
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(if alone { b"" } else { b"[" });
        for (index, range) in self.ranges.iter().enumerate() {
            out.extend_from_slice(if index > 0 { b"," } else { b"" });
            range.write(out);
        }
        out.extend_from_slice(if alone { b"" } else { b"]" });
        out.extend_from_slice(&self.suffix);
    }
}

/// The number between a prefix and a suffix, if that is all there is.
fn number_between(name: &[u8], prefix: &[u8], suffix: &[u8]) -> Option<Range<usize>> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    is_number(digits).then(|| prefix.len()..name.len() - suffix.len())
}

fn is_number(digits: &[u8]) -> bool {
    (1..=MAX_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// The one number in which two names differ, in each of them; they may differ in length.
fn field(a: &[u8], b: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    if common == a.len() && common == b.len() {
        // Equal names fold on their last number.
        let end = a.iter().rposition(u8::is_ascii_digit)? + 1;
        let start = a[..end]
            .iter()
            .rposition(|x| !x.is_ascii_digit())
            .map_or(0, |n| n + 1);
        return is_number(&a[start..end]).then_some((start..end, start..end));
    }
    let start = a[..common]
        .iter()
        .rposition(|x| !x.is_ascii_digit())
        .map_or(0, |n| n + 1);
    let digits = |name: &[u8]| {
        start
            + name[start..]
                .iter()
                .take_while(|x| x.is_ascii_digit())
                .count()
    };
    let (end_a, end_b) = (digits(a), digits(b));
    let fits =
        a[end_a..] == b[end_b..] && is_number(&a[start..end_a]) && is_number(&b[start..end_b]);
    fits.then_some((start..end_a, start..end_b))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The builder of node lists, which folds incrementally.
//!
//! It has three stages, each with bounded work per name. Names of the expected shape become
//! numbers. Numbers with a constant step become rows. Rows become blocks (see [`super::fold`]).
//!
//! Source: this project; the folding is this project's own.

use pmix_types::memory;

use super::NodeList;
use super::matcher::Matcher;
use super::runs::Progression;
use super::shape::Shape;
use crate::scan::MAX_DIGITS;
use crate::{Error, Limits};

/// The number of recent shapes with which a name is compared before it is looked up among all
/// shapes.
const RECENT_SHAPES: usize = 4;

/// The maximum memory of a matcher in bytes, for each byte of its name.
const MATCHER_BYTES: usize = 8;

/// The last numbers (`first`, `first + step`, ...), which the next number may continue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) first: i64,
    pub(super) step: i64,
    pub(super) count: u64,
    /// The number that would continue the row.
    pub(super) next: i64,
}

/// A builder of [`NodeList`]s, which folds incrementally.
#[derive(Debug)]
pub struct NodeListBuilder {
    pub(super) list: NodeList,
    pub(super) limits: Limits,
    /// The recent shapes; `current` is the index of the shape of `row`.
    pub(super) matchers: Vec<Matcher>,
    pub(super) current: usize,
    evict: usize,
    pub(super) row: Row,
    /// `true` if the last finished row was folded into the previous block.
    pub(super) folded: bool,
    /// A buffer for the first name of a progression, kept to reuse its allocation.
    scratch: Vec<u8>,
    /// `true` if the list is complete. From then on, no step may fail.
    pub(super) is_ending: bool,
}

impl NodeListBuilder {
    /// Creates an empty list that may grow up to the limits.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            list: NodeList::default(),
            limits: *limits,
            matchers: Vec::new(),
            current: 0,
            evict: 0,
            row: Row::default(),
            folded: false,
            scratch: Vec::new(),
            is_ending: false,
        }
    }

    /// Appends one name.
    ///
    /// # Errors
    /// The list would exceed the limits.
    pub fn name(&mut self, name: &[u8]) -> Result<(), Error> {
        self.grow(1, name.len())?;
        self.place(name)
    }

    /// Appends a name that is already counted against the limits.
    pub(super) fn place(&mut self, name: &[u8]) -> Result<(), Error> {
        let known = self.matchers.get(self.current).and_then(|m| m.number(name));
        let number = match known {
            Some(number) => number,
            None => self.turn(name, 0)?,
        };
        self.number(number)
    }

    /// Appends a progression without expansion.
    ///
    /// # Errors
    /// The list would exceed the limits, or a number does not fit the width.
    pub fn progression(&mut self, run: &Progression<'_>) -> Result<(), Error> {
        run.check()?;
        if run.count == 0 {
            return Ok(());
        }
        let len = run.prefix.len() + run.width + run.suffix.len();
        if u64::try_from(len).map_or(true, |len| len > self.limits.max_name) {
            return Err(Error::limit("bytes of one name", self.limits.max_name));
        }
        self.grow(run.count, len)?;
        let behind = run.suffix.iter().filter(|b| b.is_ascii_digit()).count();
        // The window usually covers the last digits of a name. If the field is further left, the
        // window is moved to it.
        let in_window = behind + run.width <= MAX_DIGITS;
        let tail = if in_window { 0 } else { behind };
        let tail = u32::try_from(tail).map_err(|_| Error::limit("digits", u64::from(u32::MAX)))?;
        let unit = if in_window { power_of_ten(behind) } else { 1 };

        let mut name = std::mem::take(&mut self.scratch);
        name.clear();
        memory::reserve(&mut name, len)?;
        name.extend_from_slice(run.prefix);
        push_padded(run.first, run.width, &mut name);
        name.extend_from_slice(run.suffix);
        let known = match self.matchers.get(self.current) {
            Some(m) if self.list.shapes.get(m.id).tail == tail => m.number(&name),
            _ => None,
        };
        let first = match known {
            Some(number) => number,
            None => self.turn(&name, tail)?,
        };
        self.scratch = name;
        if run.count == 1 {
            return self.number(first);
        }
        self.row_of(first, run.step * unit, run.count)
    }

    /// Returns the finished list.
    #[must_use]
    pub fn finish(mut self) -> NodeList {
        // Storing the last row must not fail. Its names are already counted, and it takes little
        // memory.
        self.limits.max_memory = u64::MAX;
        self.is_ending = true;
        let flushed = self.flush().and_then(|()| self.demote());
        debug_assert!(flushed.is_ok());
        self.list.len = self.stored();
        let list = &mut self.list;
        list.shapes.shrink();
        list.blocks.shrink_to_fit();
        list.dims.shrink_to_fit();
        list.numbers.shrink_to_fit();
        self.list
    }

    /// Counts names of one length against the limits, before they are stored.
    fn grow(&mut self, count: u64, len: usize) -> Result<(), Error> {
        self.fits(count)?;
        let each = u64::try_from(len).unwrap_or(u64::MAX).saturating_add(1);
        self.count_bytes(count.saturating_mul(each))?;
        self.list.len += count;
        Ok(())
    }

    /// Counts names against the limit. Their bytes are already counted.
    #[inline]
    pub(super) fn count(&mut self, names: u64) -> Result<(), Error> {
        self.fits(names)?;
        self.list.len += names;
        Ok(())
    }

    #[inline]
    fn fits(&self, names: u64) -> Result<(), Error> {
        // No underflow: the list never has more names than the limit.
        if names > self.limits.max_nodes - self.list.len {
            return Err(Error::limit("nodes", self.limits.max_nodes));
        }
        Ok(())
    }

    /// Counts the bytes of names, including separators, against the limit.
    pub(super) fn count_bytes(&mut self, bytes: u64) -> Result<(), Error> {
        let total = self.list.bytes.saturating_add(bytes);
        if total.saturating_sub(1) > self.limits.max_bytes {
            return Err(Error::limit("bytes of names", self.limits.max_bytes));
        }
        self.list.bytes = total;
        Ok(())
    }

    /// Sets the current shape to that of a name, and returns the number of the name.
    #[cold]
    fn turn(&mut self, name: &[u8], tail: u32) -> Result<i64, Error> {
        self.flush()?;
        for (at, matcher) in self.matchers.iter().enumerate() {
            if self.list.shapes.get(matcher.id).tail == tail
                && let Some(number) = matcher.number(name)
            {
                self.current = at;
                return Ok(number);
            }
        }
        if u64::try_from(name.len()).map_or(true, |len| len > self.limits.max_name) {
            return Err(Error::limit("bytes of one name", self.limits.max_name));
        }
        let (id, number) = self.list.shapes.add(name, tail)?;
        self.limits.check_memory(self.list.memory_bytes())?;
        // A matcher has two copies of the name, plus a check for each word of the name.
        memory::check(name.len().saturating_mul(MATCHER_BYTES))?;
        if self.matchers.len() < RECENT_SHAPES {
            self.current = self.matchers.len();
            self.matchers.push(Matcher::default());
        } else {
            self.current = self.evict;
            self.evict = (self.evict + 1) % RECENT_SHAPES;
        }
        self.matchers[self.current].set(id, &self.list.shapes.get(id));
        Ok(number)
    }

    /// Returns the current shape.
    pub(super) fn shape(&self) -> Option<Shape<'_>> {
        let matcher = self.matchers.get(self.current)?;
        Some(self.list.shapes.get(matcher.id))
    }

    /// Appends a number of the current shape.
    #[inline]
    pub(super) fn number(&mut self, number: i64) -> Result<(), Error> {
        let row = &mut self.row;
        if row.count >= 2 && number == row.next {
            row.count += 1;
            row.next += row.step;
            return Ok(());
        }
        if row.count == 1 {
            row.step = number - row.first;
            row.next = number + row.step;
            row.count = 2;
            return Ok(());
        }
        self.bend(number)
    }

    /// Appends a number that does not continue the current row.
    fn bend(&mut self, number: i64) -> Result<(), Error> {
        let Row {
            first, step, count, ..
        } = self.row;
        if count == 2 && !is_unit(step) {
            // Any two numbers form a row. They are kept as a row only if they differ by one in one
            // field.
            self.single(first)?;
            let last = first + step;
            self.row = Row {
                first: last,
                step: number - last,
                count: 2,
                next: number + (number - last),
            };
            return Ok(());
        }
        self.row_of(number, 0, 1)
    }

    /// Appends a whole row of the current shape, or extends the current row if the new one
    /// continues it.
    fn row_of(&mut self, first: i64, step: i64, count: u64) -> Result<(), Error> {
        let row = &mut self.row;
        let continues = match row.count {
            0 => false,
            1 => row.first + step == first || count == 1,
            _ => row.next == first && (row.step == step || count == 1),
        };
        if !continues {
            self.flush()?;
            let next = first.wrapping_add(step.wrapping_mul(count.cast_signed()));
            self.row = Row {
                first,
                step,
                count,
                next,
            };
            return Ok(());
        }
        if row.count == 1 {
            row.step = first - row.first;
        }
        row.count += count;
        row.next = first.wrapping_add(row.step.wrapping_mul(count.cast_signed()));
        Ok(())
    }

    /// Stores the current row, and starts an empty one.
    fn flush(&mut self) -> Result<(), Error> {
        let row = std::mem::take(&mut self.row);
        match row.count {
            0 => Ok(()),
            1 => self.single(row.first),
            2 if !is_unit(row.step) => {
                self.single(row.first)?;
                self.single(row.first + row.step)
            }
            _ => self.lattice(&row),
        }
    }

    /// Returns the shape id of the row.
    pub(super) fn shape_id(&self) -> u32 {
        self.matchers.get(self.current).map_or(0, |m| m.id)
    }
}

/// Returns `true` if a step is a power of ten, which counts one field up or down.
#[inline]
pub(super) fn is_unit(step: i64) -> bool {
    let bits = 63 - (step | 1).leading_zeros().min(63);
    step == POWERS[bits as usize]
}

/// The powers of ten by their number of bits; 0 if no power of ten has that number of bits.
const POWERS: [i64; 64] = {
    let mut powers = [0; 64];
    let mut power = 1i64;
    let mut digits = 1;
    while digits <= MAX_DIGITS {
        powers[63 - power.leading_zeros() as usize] = power;
        power *= 10;
        digits += 1;
    }
    powers
};

fn power_of_ten(digits: usize) -> i64 {
    (0..digits).fold(1i64, |n, _| n.saturating_mul(10))
}

fn push_padded(number: u64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + width, b'0');
    let mut number = number;
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

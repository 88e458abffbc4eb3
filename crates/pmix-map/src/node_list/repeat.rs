// SPDX-License-Identifier: MIT OR Apache-2.0
//! The prediction of names in a text from previous names, for lattices.
//!
//! An *element* is the names for one step of a lattice's outermost dimension. Once a lattice has
//! absorbed an element, the next one is predicted: the same bytes change in the same way in all its
//! names. The prediction is compared word by word, without parsing. A wrong prediction takes at
//! most about as long as parsing the previous element.

use std::ops::Range;

use super::build::Row;
use super::{Kind, NodeListBuilder};
use crate::Error;
use crate::lattice::{self, Dim};
use crate::scan::{MAX_DIGITS, word};

const WORD: usize = 8;

/// The maximum length in bytes of a predicted name with its separator.
const MAX_STRIDE: usize = 8 * WORD;

/// The predicted element of the last block.
struct Element {
    /// The number of names in the element.
    names: usize,
    /// The length in bytes of a name and its separator.
    stride: usize,
    change: Change,
}

/// The difference between a name and the name one element later, in words that may overlap.
#[derive(Default)]
struct Change {
    words: [(usize, u64); MAX_STRIDE / WORD],
    len: usize,
}

impl NodeListBuilder {
    /// Appends the elements of the last block that follow in the text.
    ///
    /// `name` is the range of the last name, which is a row by itself. Returns the start of the
    /// first name that is not appended.
    pub(super) fn repeat_text(&mut self, text: &[u8], name: Range<usize>) -> Result<usize, Error> {
        let mut at = name.start;
        while let Some(element) = self.next_element(at == name.start)
            && element.is_at(text, at)
        {
            if at == name.start {
                // The last name is the first one of the element, which appends it again.
                self.row = Row::default();
                self.list.len -= 1;
            }
            self.count(u64::try_from(element.names).unwrap_or(u64::MAX))?;
            if let Some(outer) = self.list.dims.last_mut() {
                outer.count += 1;
            }
            at += element.names * element.stride;
            while self.fold_last_two() {}
        }
        Ok(if at == name.start { name.end + 1 } else { at })
    }

    /// Returns the element that would continue the last block. If a name is `pending`, it must be
    /// the first name of the element.
    fn next_element(&self, pending: bool) -> Option<Element> {
        let last = self.list.blocks.last()?;
        let shape = self.shape()?;
        let stride = shape.text.len() + 1;
        let fits = (WORD..=MAX_STRIDE).contains(&stride) && last.shape == self.shape_id();
        let (outer, inner) = self.list.dims_of(last).split_last()?;
        if !fits || inner.is_empty() || matches!(last.kind, Kind::Scatter) {
            return None;
        }
        let next = last.first + outer.step.wrapping_mul(outer.count.cast_signed());
        if pending && next != self.row.first {
            return None;
        }
        let mut grown = [Dim { count: 1, step: 0 }; lattice::MAX_DIMS];
        let grown = grown.get_mut(..=inner.len())?;
        grown[..inner.len()].copy_from_slice(inner);
        grown[inner.len()] = Dim {
            count: outer.count + 1,
            step: outer.step,
        };
        if !lattice::nests(grown) {
            return None;
        }
        // The same digits must change in all names of an element.
        let unit = unit_of(outer.step);
        let (low, high) = lattice::bounds(next, inner);
        if low < 0 || high >= limit(shape.spans.iter().map(|s| u32::from(s.len)).sum()) {
            return None;
        }
        let (before, behind) = ((low - outer.step) / unit, low / unit);
        if behind != high / unit || before != (high - outer.step) / unit {
            return None;
        }
        let mut names = [[b'0'; MAX_STRIDE]; 2];
        for (name, number) in names.iter_mut().zip([before, behind]) {
            shape.write(name, number * unit);
        }
        Some(Element {
            names: usize::try_from(lattice::len(inner)).ok()?,
            stride,
            change: Change::between(&names[0], &names[1], stride),
        })
    }
}

impl Element {
    /// Returns `true` if the names of the predicted element are at offset `at` of the text. The previous element must
    /// end at this offset.
    fn is_at(&self, text: &[u8], at: usize) -> bool {
        let Some(bytes) = self.names.checked_mul(self.stride) else {
            return false;
        };
        let before = at.checked_sub(bytes).and_then(|start| text.get(start..at));
        let (Some(before), Some(here)) = (before, text.get(at..).and_then(|t| t.get(..bytes)))
        else {
            return false;
        };
        match self.change.words {
            [a, ..] if self.change.len == 1 => self.change_is([a], before, here),
            [a, b, ..] if self.change.len == 2 => self.change_is([a, b], before, here),
            [a, b, c, ..] if self.change.len == 3 => self.change_is([a, b, c], before, here),
            all => self.change_is(all, before, here),
        }
    }

    fn change_is<const N: usize>(
        &self,
        words: [(usize, u64); N],
        before: &[u8],
        here: &[u8],
    ) -> bool {
        let pairs = before
            .chunks_exact(self.stride)
            .zip(here.chunks_exact(self.stride));
        pairs.into_iter().all(|(before, here)| {
            let differs = |(at, change)| word(before, at) ^ word(here, at) ^ change;
            words.into_iter().fold(0, |d, w| d | differs(w)) == 0
        })
    }
}

impl Change {
    fn between(before: &[u8], behind: &[u8], stride: usize) -> Self {
        let mut change = Self::default();
        for slot in &mut change.words {
            // The last word may overlap the previous one; unused words equal the last one.
            let at = (change.len * WORD).min(stride - WORD);
            *slot = (at, word(before, at) ^ word(behind, at));
            change.len += usize::from(change.len * WORD < stride);
        }
        change
    }
}

/// Returns the largest power of ten that divides a step.
fn unit_of(step: i64) -> i64 {
    let mut unit = 1;
    while step != 0 && step / unit % 10 == 0 {
        unit *= 10;
    }
    unit
}

/// Returns the lowest number with more than `digits` digits.
fn limit(digits: u32) -> i64 {
    debug_assert!(digits as usize <= MAX_DIGITS);
    10i64.saturating_pow(digits)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::{Limits, NodeList, NodeListBuilder};

    /// A counter: first number, count and step. The first counter of a list varies slowest.
    type Counter = (i64, i64, i64);

    fn odometer(counters: &[Counter], widths: &[usize], suffix: &str) -> Vec<String> {
        let mut names = vec![String::new()];
        for (letter, ((first, count, step), width)) in ('a'..).zip(counters.iter().zip(widths)) {
            let longer = |name: &String| {
                let numbers = (0..*count).map(|i| (first + i * step).max(0));
                let joint = if *width > 2 { "" } else { &letter.to_string() };
                let fields = numbers.map(|n| format!("{name}{joint}{n:0width$}"));
                fields.collect::<Vec<_>>()
            };
            names = names.iter().flat_map(longer).collect();
        }
        names.iter().map(|n| format!("{n}{suffix}")).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn predicted_names_equal_the_text(
            counters in vec((0i64..120, 1i64..7, -3i64..12), 1..5),
            widths in vec(1usize..4, 5),
            suffix in "(|-ib|[.]example[.][a-z]{0,60})",
            damage in vec((any::<prop::sample::Index>(), 0usize..6), 0..4),
            (part, history) in (1usize..3000, 0usize..1000),
            most in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut names = odometer(&counters, &widths, &suffix);
            for (at, what) in damage {
                let at = at.index(names.len());
                match what {
                    0 => drop(names.remove(at)),
                    1 => names.insert(at, names[at].clone()),
                    2 => names[at].push('1'),
                    3 => names[at] = names[at].replacen('1', "2", 1),
                    4 => names[at] = names[at].replacen('a', "b", 1),
                    _ => names[at].clear(),
                }
                if names.len() < 2 {
                    return Ok(());
                }
            }
            let text = names.join(",").into_bytes();
            let list = NodeList::parse_text(&text, &Limits::default()).unwrap();
            prop_assert_eq!(list.len(), names.len());
            prop_assert!(list.iter().eq(names.iter().map(|n| n.clone().into_bytes())));
            let mut builder = NodeListBuilder::new(&Limits::default());
            for name in &names {
                builder.name(name.as_bytes()).unwrap();
            }
            prop_assert_eq!(&builder.finish(), &list);
            let mut builder = NodeListBuilder::new(&Limits::default());
            let (mut buffer, mut from) = (Vec::new(), 0);
            for part in text.chunks(part) {
                buffer.extend_from_slice(part);
                from = builder.text_part(&buffer, from).unwrap();
                let gone = from.saturating_sub(history);
                buffer.drain(..gone);
                from -= gone;
            }
            builder.name(&buffer[from..]).unwrap();
            prop_assert_eq!(&builder.finish(), &list);
            if let Some(most) = most {
                let max_nodes = most.index(2 * names.len()) as u64;
                let limits = Limits { max_nodes, ..Limits::default() };
                let fits = names.len() as u64 <= max_nodes;
                prop_assert_eq!(NodeList::parse_text(&text, &limits).is_ok(), fits);
            }
        }
    }

    #[test]
    fn prediction_and_parsing_give_the_same_lattice() {
        let names = odometer(
            &[(1000, 5, 1), (0, 8, 1), (0, 8, 1), (0, 2, 1), (0, 2, 1)],
            &[1; 5],
            "",
        );
        let list = NodeList::parse_text(names.join(",").as_bytes(), &Limits::default()).unwrap();
        let mut builder = NodeListBuilder::new(&Limits::default());
        for name in &names {
            builder.name(name.as_bytes()).unwrap();
        }
        let read = builder.finish();
        assert_eq!(list.memory_bytes(), read.memory_bytes());
        assert_eq!(format!("{list:?}"), format!("{read:?}"));
    }
}

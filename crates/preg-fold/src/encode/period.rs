// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number of names in a record: the shortest period in the shapes of the next names.

use std::collections::VecDeque;

/// The maximum number of names in a record.
const LONGEST: usize = 8;
/// The number of names that are examined for a period. It is bounded, so that the time of the
/// encoder stays linear.
const WINDOW: usize = 2 * LONGEST;

/// One of the next names: its offset, and a hash of its shape, in which consecutive digits count as
/// one.
#[derive(Clone, Copy, Debug)]
struct Look {
    start: usize,
    end: usize,
    hash: u64,
}

/// A window of the next names. Each name is hashed only once.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    text: &'a [u8],
    looks: VecDeque<Look>,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            looks: VecDeque::new(),
        }
    }

    /// Returns the number of names in a record at `at`, and the end of the first record. The number
    /// is 1 if the names have no period.
    pub(crate) fn record(&mut self, at: usize) -> (usize, usize) {
        self.fill(at);
        let hash = |index: usize| self.looks.get(index).map(|l| l.hash);
        let count = self.looks.len();
        let repeats = |p: &usize| (0..count - p).all(|n| hash(n) == hash(n + p));
        let period = (1..=LONGEST.min(count / 2)).find(repeats).unwrap_or(1);
        let end = self.looks.get(period - 1).map_or(at, |l| l.end);
        (period, end)
    }

    fn fill(&mut self, at: usize) {
        while self.looks.front().is_some_and(|l| l.start < at) {
            self.looks.pop_front();
        }
        while self.looks.len() < WINDOW {
            let start = self.looks.back().map_or(at, |l| l.end + 1);
            if start > self.text.len() {
                return;
            }
            self.looks.push_back(look(self.text, start));
        }
    }
}

fn look(text: &[u8], start: usize) -> Look {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut end = start;
    let mut digits = false;
    for byte in &text[start..] {
        if matches!(byte, b',' | b';') {
            break;
        }
        end += 1;
        let digit = byte.is_ascii_digit();
        if !(digit && digits) {
            let seen = if digit { b'0' } else { *byte };
            hash = (hash ^ u64::from(seen)).wrapping_mul(0x100_0000_01b3);
        }
        digits = digit;
    }
    Look { start, end, hash }
}

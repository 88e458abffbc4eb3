// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that compare one figure of ours with one of a peer.

use crate::table::{self, Row, Verdict, factor};

/// One comparison; what is smaller is better.
pub(crate) struct Pair {
    pub(crate) figure: &'static str,
    pub(crate) input: String,
    pub(crate) ours: f64,
    pub(crate) peer: f64,
    /// Whose the other figure is.
    pub(crate) name: String,
    /// How many times ours the other is promised to be.
    pub(crate) bound: Option<f64>,
    /// How a figure is written.
    pub(crate) shown: fn(f64) -> String,
}

impl Pair {
    pub(crate) fn row(self) -> Row {
        let ratio = self.peer / self.ours;
        Row {
            figure: self.figure.to_owned(),
            input: self.input,
            ours: (self.shown)(self.ours),
            peer: format!("{}: {}", self.name, (self.shown)(self.peer)),
            ratio: factor(ratio),
            bound: self.bound.map_or_else(String::new, table::bound),
            verdict: self
                .bound
                .map_or(Verdict::Shown, |bound| Verdict::of(ratio >= bound)),
        }
    }
}

/// KiB in the unit that reads best.
pub(crate) fn kib(value: f64) -> String {
    crate::table::size(value * 1024.0)
}

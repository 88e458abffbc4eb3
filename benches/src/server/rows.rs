// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the rows that compare one figure of ours with one of a peer.

use crate::table::{self, Row, Verdict, factor};

/// One comparison of figures. The smaller figure is better.
pub(crate) struct Pair {
    pub(crate) figure: &'static str,
    pub(crate) input: String,
    pub(crate) ours: f64,
    pub(crate) peer: f64,
    /// The name of the peer.
    pub(crate) name: String,
    /// The promised ratio of the peer's figure to ours.
    pub(crate) bound: Option<f64>,
    /// The function that formats a figure.
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

/// Formats KiB in the most readable unit.
pub(crate) fn kib(value: f64) -> String {
    crate::table::size(value * 1024.0)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of the table and their text form.

use std::fmt::Write as _;

/// The relation of a figure to the promised ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The figure meets the ratio.
    Meets,
    /// The figure misses the ratio.
    Misses,
    /// The ratio is not promised for this size, or no peer is available.
    NotJudged,
    /// No ratio is promised. The figure is shown for comparison.
    Shown,
}

impl Verdict {
    /// Returns `Meets` if `meets` is `true`, else `Misses`.
    pub(crate) fn of(holds: bool) -> Self {
        if holds { Self::Meets } else { Self::Misses }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Meets => "meets",
            Self::Misses => "**misses**",
            Self::NotJudged => "not judged",
            Self::Shown => "",
        }
    }
}

/// One row of the table.
pub(crate) struct Row {
    /// The measured operation.
    pub(crate) figure: String,
    /// The input list.
    pub(crate) input: String,
    /// Our figure.
    pub(crate) ours: String,
    /// The peer's figure and the peer's name.
    pub(crate) peer: String,
    /// The ratio of the two figures.
    pub(crate) ratio: String,
    /// The promised ratio.
    pub(crate) bound: String,
    /// The relation of the ratio to the promised one.
    pub(crate) verdict: Verdict,
}

/// Returns the table in Markdown.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| figure | input | ours | beside it | ratio | at least | |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for r in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            r.figure,
            r.input,
            r.ours,
            r.peer,
            r.ratio,
            r.bound,
            r.verdict.text()
        );
    }
    text
}

/// Formats nanoseconds in the most readable unit.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        n if n < 100.0 => format!("{n:.1} ns"),
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.3} µs", n / 1e3),
        n if n < 1e9 => format!("{:.3} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// Formats bytes in the most readable unit.
pub(crate) fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e4 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b => format!("{:.2} MB", b / 1e6),
    }
}

/// Formats a ratio with two or three significant digits.
pub(crate) fn factor(ratio: f64) -> String {
    match ratio {
        r if r < 10.0 => format!("{r:.2}"),
        r if r < 100.0 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    }
}

/// Formats a required ratio: a whole number, or two digits after the decimal point.
pub(crate) fn bound(ratio: f64) -> String {
    let text = format!("{ratio:.2}");
    match text.strip_suffix(".00") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{bound, factor, size, time};

    #[test]
    fn figures_have_the_unit_that_reads_best() {
        assert_eq!(time(950.0), "950 ns");
        assert_eq!(time(4_568_374.0), "4.568 ms");
        assert_eq!(time(18.1e9), "18.10 s");
        assert_eq!(size(36_000_000.0), "36.00 MB");
        assert_eq!(factor(712.4), "712");
        assert_eq!([bound(20.0), bound(1.0 / 0.35)], ["20", "2.86"]);
    }
}

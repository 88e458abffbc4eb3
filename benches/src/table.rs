// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of the table and how they are written.

use std::fmt::Write as _;

/// Whether a figure keeps what was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does.
    Meets,
    /// It does not.
    Misses,
    /// There is a promise, but not for this size, or no peer to compare with.
    NotJudged,
    /// Shown for comparison; nothing was promised.
    Shown,
}

impl Verdict {
    /// Meets if true, misses if false.
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

/// One line of the table.
pub(crate) struct Row {
    /// What is measured.
    pub(crate) figure: String,
    /// On which list.
    pub(crate) input: String,
    /// Our figure.
    pub(crate) ours: String,
    /// The other's figure, and whose it is.
    pub(crate) peer: String,
    /// The one over the other.
    pub(crate) ratio: String,
    /// What was promised.
    pub(crate) bound: String,
    /// Whether it is kept.
    pub(crate) verdict: Verdict,
}

/// The table in Markdown.
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

/// Nanoseconds in the unit that reads best.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        n if n < 100.0 => format!("{n:.1} ns"),
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.3} µs", n / 1e3),
        n if n < 1e9 => format!("{:.3} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// Bytes in the unit that reads best.
pub(crate) fn size(bytes: f64) -> String {
    match bytes {
        b if b < 1e4 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b => format!("{:.2} MB", b / 1e6),
    }
}

/// A factor, with as many digits as it deserves.
pub(crate) fn factor(ratio: f64) -> String {
    match ratio {
        r if r < 10.0 => format!("{r:.2}"),
        r if r < 100.0 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    }
}

/// A factor that is asked for: a whole number, or two digits behind the point.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timeline of a job as SVG: a bar for each process, and the fences across them.

use std::fmt::Write as _;
use std::time::Duration;

use pmix_launch::{FenceOutcome, Outcome, RankOutcome};

use super::number_of;

/// The largest number of bars. Several ranks share a bar in a larger job.
const MAX_BARS: usize = 256;
/// The width of the area of the bars.
const WIDTH: f64 = 1000.0;
/// The space for labels beside and above the bars.
const LEFT: f64 = 74.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 12.0;
/// The number of intervals of the time axis.
const TICKS: u32 = 8;
/// The number of labels of ranks.
const LABELS: usize = 32;

/// The times of one or several ranks in seconds.
struct Bar {
    first: u32,
    last: u32,
    start: f64,
    /// The end of the last initialize; `None` if no rank initialized.
    init: Option<f64>,
    end: f64,
    num_failed: usize,
    /// The end of the only rank.
    ending: Option<String>,
}

impl Bar {
    fn of(ranks: &[RankOutcome]) -> Option<Self> {
        let (first, last) = (ranks.first()?, ranks.last()?);
        let end = |rank: &RankOutcome| (rank.started + rank.elapsed).as_secs_f64();
        let init = |rank: &RankOutcome| Some((rank.started + rank.init?).as_secs_f64());
        let start = ranks.iter().map(|rank| rank.started).min();
        Some(Self {
            first: first.rank.as_raw(),
            last: last.rank.as_raw(),
            start: start.unwrap_or_default().as_secs_f64(),
            init: ranks.iter().filter_map(init).reduce(f64::max),
            end: ranks.iter().map(end).fold(0.0, f64::max),
            num_failed: { ranks.iter() }
                .filter(|rank| rank.ending.exit_code() != 0)
                .count(),
            ending: (ranks.len() == 1).then(|| first.ending.to_string()),
        })
    }

    fn title(&self) -> String {
        let mut title = match self.first == self.last {
            true => format!("rank {}", self.first),
            false => format!("ranks {} to {}", self.first, self.last),
        };
        // Writing into a String cannot fail.
        let _ = write!(title, ": start {:.3} s", self.start);
        if let Some(init) = self.init {
            let _ = write!(title, ", init {init:.3} s");
        }
        let _ = write!(title, ", end {:.3} s", self.end);
        match &self.ending {
            Some(ending) => title += &format!(", {ending}"),
            None if self.num_failed > 0 => title += &format!(", {} failed", self.num_failed),
            None => {}
        }
        title
    }
}

/// Returns the timeline of a job with its heading.
pub(super) fn render(outcome: &Outcome) -> String {
    let ranks_per_bar = outcome.ranks.len().div_ceil(MAX_BARS).max(1);
    let bars: Vec<_> = { outcome.ranks.chunks(ranks_per_bar) }
        .filter_map(Bar::of)
        .collect();
    let mut html = "<h2>Timeline</h2>\n".to_owned();
    if bars.is_empty() {
        return html + "<p>No process was started on this node.</p>\n";
    }
    let ends = bars.iter().map(|bar| bar.end);
    let whole = ends.fold(outcome.elapsed.as_secs_f64(), f64::max).max(1e-6);
    let height = match bars.len() {
        0..=24 => 22.0,
        25..=96 => 11.0,
        _ => 5.0,
    };
    html += "<p class=\"dim key\"><span style=\"background:var(--boot)\"></span>start to init\
        <span style=\"background:var(--run)\"></span>init to end\
        <span style=\"background:var(--plain)\"></span>without PMIx\
        <span style=\"background:var(--bad)\"></span>failed\
        <span style=\"background:var(--fence)\"></span>fence, from the first call until it completed</p>\n";
    html += &svg(&bars, &outcome.fences, whole, height);
    if ranks_per_bar > 1 {
        html += &format!(
            "<p class=\"dim\">Each bar shows {ranks_per_bar} consecutive ranks: the first start, the last init and the \
             last end.</p>\n"
        );
    }
    let kept = u64::try_from(outcome.fences.len()).unwrap_or(u64::MAX);
    html += &match (outcome.num_fences, outcome.num_fences.saturating_sub(kept)) {
        (0, _) => "<p class=\"dim\">No fence completed.</p>\n".to_owned(),
        (num, 0) => format!("<p class=\"dim\">Fences: {num}.</p>\n"),
        (num, more) => {
            format!("<p class=\"dim\">Fences: {num}; the last {more} are not shown.</p>\n")
        }
    };
    html
}

fn svg(bars: &[Bar], fences: &[FenceOutcome], whole: f64, height: f64) -> String {
    let x = |seconds: f64| LEFT + (seconds / whole).clamp(0.0, 1.0) * WIDTH;
    let rows = f64::from(u32::try_from(bars.len()).unwrap_or(u32::MAX));
    let (page_width, bottom) = (LEFT + WIDTH + 30.0, TOP + rows * height);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {page_width} {}\" role=\"img\" \
         aria-label=\"Timeline of the processes\">\n",
        bottom + BOTTOM
    );
    for tick in 0..=TICKS {
        let seconds = whole * f64::from(tick) / f64::from(TICKS);
        let at = x(seconds);
        let _ = writeln!(
            svg,
            "<rect class=\"grid\" x=\"{at:.1}\" y=\"{TOP}\" width=\"1\" height=\"{:.1}\"/>\
             <text x=\"{at:.1}\" y=\"16\" text-anchor=\"middle\">{}</text>",
            bottom - TOP,
            time_label(seconds, whole)
        );
    }
    let step = bars.len().div_ceil(LABELS).max(1);
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + f64::from(u32::try_from(index).unwrap_or(u32::MAX)) * height;
        if index % step == 0 {
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">rank {}</text>",
                LEFT - 8.0,
                y + height / 2.0 + 4.0,
                bar.first
            );
        }
        let gap = (height * 0.12).min(2.0);
        let (y, height) = (y + gap, height - 2.0 * gap);
        let mut part = |class: &str, from: f64, to: f64, least: f64| {
            let width = (x(to) - x(from)).max(least);
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"/>",
                x(from)
            );
        };
        match bar.init {
            Some(init) => {
                part("boot", bar.start, init, 0.5);
                part("run", init, bar.end, 0.5);
            }
            None => part("plain", bar.start, bar.end, 0.5),
        }
        if bar.num_failed > 0 {
            part("end", bar.end, bar.end, 4.0);
        }
        // A rectangle without color over the whole bar has the text that a browser shows beside the pointer.
        let _ = writeln!(
            svg,
            "<rect fill=\"none\" pointer-events=\"all\" x=\"{:.2}\" y=\"{y:.2}\" width=\"{:.2}\" \
             height=\"{height:.2}\"><title>{}</title></rect>",
            x(bar.start),
            (x(bar.end) - x(bar.start)).max(4.0),
            super::escape(bar.title().as_bytes())
        );
    }
    for band in bands(fences, whole) {
        let (from, to) = (x(band.began), x(band.ended));
        let _ = writeln!(
            svg,
            "<g><title>{}</title><rect class=\"fence\" x=\"{from:.2}\" y=\"{TOP}\" width=\"{:.2}\" height=\"{:.1}\"/>\
             <rect class=\"done\" x=\"{:.2}\" y=\"{TOP}\" width=\"1\" height=\"{:.1}\"/></g>",
            band.title(),
            (to - from).max(1.0),
            bottom - TOP,
            to,
            bottom - TOP
        );
    }
    svg + "</svg>\n"
}

/// One or several fences that completed at the same place of the timeline.
#[derive(Debug, PartialEq)]
struct Band {
    first: usize,
    num: usize,
    began: f64,
    ended: f64,
}

impl Band {
    fn title(&self) -> String {
        let (began, ended) = (self.began, self.ended);
        let first = self.first + 1;
        let fences = match self.num {
            1 => format!("fence {first}"),
            num => format!("{} from fence {first}", number_of(num, "fence", "fences")),
        };
        format!("{fences}: first call {began:.3} s, complete {ended:.3} s")
    }
}

/// Returns the fences as bands, at most one for each unit of the width.
fn bands(fences: &[FenceOutcome], whole: f64) -> Vec<Band> {
    let place = |time: Duration| (time.as_secs_f64() / whole * WIDTH).floor();
    let mut bands: Vec<Band> = Vec::new();
    let mut last = None;
    for (index, fence) in fences.iter().enumerate() {
        let (began, ended) = (fence.began.as_secs_f64(), fence.ended.as_secs_f64());
        match bands
            .last_mut()
            .filter(|_| last == Some(place(fence.ended)))
        {
            Some(band) => {
                band.num += 1;
                band.began = band.began.min(began);
                band.ended = band.ended.max(ended);
            }
            None => bands.push(Band {
                first: index,
                num: 1,
                began,
                ended,
            }),
        }
        last = Some(place(fence.ended));
    }
    bands
}

/// Returns a time with the digits that distinguish the labels of the axis.
fn time_label(seconds: f64, whole: f64) -> String {
    match whole {
        w if w < 0.08 => format!("{:.1} ms", seconds * 1e3),
        w if w < 0.8 => format!("{:.0} ms", seconds * 1e3),
        w if w < 80.0 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a fence that ends at a time in milliseconds.
    fn band(first: usize, num: usize, began: f64, ended: f64) -> Band {
        Band {
            first,
            num,
            began,
            ended,
        }
    }

    #[test]
    fn labels_distinguish_the_ticks() {
        assert_eq!(time_label(0.0125, 0.05), "12.5 ms");
        assert_eq!(time_label(0.125, 0.5), "125 ms");
        assert_eq!(time_label(1.25, 5.0), "1.25 s");
        assert_eq!(time_label(125.0, 1000.0), "125 s");
    }

    #[test]
    fn a_band_names_its_fences() {
        assert_eq!(
            band(2, 1, 0.5, 1.0).title(),
            "fence 3: first call 0.500 s, complete 1.000 s"
        );
        assert_eq!(
            band(0, 12, 0.0, 1.0).title(),
            "12 fences from fence 1: first call 0.000 s, complete 1.000 s"
        );
    }
}

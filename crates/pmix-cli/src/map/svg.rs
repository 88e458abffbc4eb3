// SPDX-License-Identifier: MIT OR Apache-2.0
//! The picture of a map as SVG, written by hand: a page of rectangles, readable in light and dark.

use std::fmt::Write as _;

use super::matrix::{Mark, Matrix};

const CELL: usize = 10;
const LEFT: usize = 150;
const TOP: usize = 44;
/// Room below the grid: the marks and their key.
const BOTTOM: usize = 40;
/// Most labels beside the rows and above the columns.
const LABELS: usize = 32;

const STYLE: &str = "\
text{font:11px ui-monospace,monospace;fill:#222}\
.title{font-size:13px;font-weight:bold}\
.end{text-anchor:end}\
.back{fill:#f4f4f4}\
.s1{fill:#1668b8;fill-opacity:.25}.s2{fill:#1668b8;fill-opacity:.5}\
.s3{fill:#1668b8;fill-opacity:.75}.s4{fill:#1668b8}\
.missing{fill:#c62828}.doubled{fill:#e08a00}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.back{fill:#242424}\
.s1,.s2,.s3,.s4{fill:#6db3f2}.missing{fill:#ff6b6b}.doubled{fill:#ffb74d}}";

/// Draws a grid with a title; `label` names a node.
pub(super) fn render(matrix: &Matrix, title: &str, label: impl Fn(usize) -> String) -> String {
    let (width, height) = (matrix.cols() * CELL, matrix.rows() * CELL);
    let all = (LEFT + width.max(400) + 20, TOP + height + BOTTOM);
    let title = escape(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"8\" y=\"18\">{title}</text>\n\
         <rect class=\"back\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\"/>\n",
        all.0, all.1
    );
    let step = matrix.cols().div_ceil(LABELS / 2).max(1);
    for col in (0..matrix.cols()).step_by(step) {
        let (x, rank) = (LEFT + col * CELL, matrix.ranks_of(col).start);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{}\">{rank}</text>", TOP - 6);
    }
    let step = matrix.rows().div_ceil(LABELS).max(1);
    for row in 0..matrix.rows() {
        let y = TOP + row * CELL;
        if row % step == 0 {
            let name = escape(&shorten(&label(matrix.nodes_of(row).start)));
            let (x, y) = (LEFT - 6, y + CELL - 1);
            let _ = writeln!(svg, "<text class=\"end\" x=\"{x}\" y=\"{y}\">{name}</text>");
        }
        cells(&mut svg, matrix, row, y);
    }
    marks(&mut svg, matrix, TOP + height + 2);
    svg.push_str("</svg>\n");
    svg
}

/// One rectangle for neighbours of one shade.
fn cells(svg: &mut String, matrix: &Matrix, row: usize, y: usize) {
    let mut col = 0;
    while col < matrix.cols() {
        let shade = matrix.shade(row, col);
        let end = (col..matrix.cols()).find(|c| matrix.shade(row, *c) != shade);
        let end = end.unwrap_or_else(|| matrix.cols());
        if shade > 0 {
            let (x, width) = (LEFT + col * CELL, (end - col) * CELL);
            let _ = writeln!(
                svg,
                "<rect class=\"s{shade}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{CELL}\"/>"
            );
        }
        col = end;
    }
}

fn marks(svg: &mut String, matrix: &Matrix, y: usize) {
    for col in 0..matrix.cols() {
        let class = match matrix.mark_of(col) {
            Mark::None => continue,
            Mark::Missing => "missing",
            Mark::Doubled => "doubled",
        };
        let x = LEFT + col * CELL;
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"6\"/>"
        );
    }
    if matrix.has_marks() {
        let y = y + 24;
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{y}\">red: missing ranks, orange: doubled ranks</text>"
        );
    }
}

fn shorten(name: &str) -> String {
    match name.chars().count() > 20 {
        true => name.chars().take(19).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// Text as XML; control characters were escaped before.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

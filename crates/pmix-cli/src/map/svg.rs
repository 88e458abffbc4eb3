// SPDX-License-Identifier: MIT OR Apache-2.0
//! The picture of a map as SVG: rectangles, visible on light and dark backgrounds.

use std::fmt::Write as _;

use super::matrix::{Mark, Matrix, shorten_all};

const CELL: usize = 10;
const LEFT: usize = 150;
/// The height of the title, and of the line and the ranks above a grid.
const TITLE: usize = 26;
const TOP: usize = 40;
/// The height below the grid, for the marks and their key.
const BOTTOM: usize = 40;
/// The maximum number of labels beside the rows and above the columns.
const LABELS: usize = 32;
/// The number of columns that a label needs.
const MIN_STEP: usize = 8;
/// The number of columns for the name of a node.
const NAME: usize = 20;

const STYLE: &str = "\
text{font:11px ui-monospace,monospace;fill:#222}\
.title{font-size:13px;font-weight:bold}\
.end{text-anchor:end}\
.page{fill:#fff}.back{fill:#f0f2f4}\
.s1{fill:#1668b8;fill-opacity:.25}.s2{fill:#1668b8;fill-opacity:.5}\
.s3{fill:#1668b8;fill-opacity:.75}.s4{fill:#1668b8}\
.missing{fill:#c62828}.doubled{fill:#e08a00}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.page{fill:#161616}.back{fill:#262626}\
.s1,.s2,.s3,.s4{fill:#6db3f2}.missing{fill:#ff6b6b}.doubled{fill:#ffb74d}}";

/// Draws grids below each other, each with a line above it; `label` names a node.
pub(super) fn render(
    title: &str,
    panels: &[(String, Matrix)],
    label: impl Fn(usize) -> String,
) -> String {
    let width = panels.iter().map(|(_, m)| m.cols() * CELL).max();
    let width = LEFT + width.unwrap_or(0).max(400) + 20;
    let height: usize = panels.iter().map(|(_, m)| panel_height(m)).sum();
    let (title, height) = (escape(title), height + TITLE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"8\" y=\"18\">{title}</text>\n"
    );
    let mut top = TITLE;
    for (line, matrix) in panels {
        let (line, y) = (escape(line), top + 14);
        if !line.is_empty() {
            let _ = writeln!(svg, "<text x=\"8\" y=\"{y}\">{line}</text>");
        }
        panel(&mut svg, matrix, top + TOP, &label);
        top += panel_height(matrix);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel_height(matrix: &Matrix) -> usize {
    TOP + matrix.rows() * CELL + BOTTOM
}

/// Draws a grid with its axes, from `top` down.
fn panel(svg: &mut String, matrix: &Matrix, top: usize, label: impl Fn(usize) -> String) {
    let (width, height) = (matrix.cols() * CELL, matrix.rows() * CELL);
    let _ = writeln!(
        svg,
        "<rect class=\"back\" x=\"{LEFT}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>"
    );
    let y = top - 6;
    let _ = writeln!(
        svg,
        "<text class=\"end\" x=\"{}\" y=\"{y}\">rank</text>",
        LEFT - 6
    );
    let step = matrix.cols().div_ceil(LABELS / 2).max(MIN_STEP);
    for col in (0..matrix.cols()).step_by(step) {
        let (x, rank) = (LEFT + col * CELL, matrix.ranks_of(col).start);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{rank}</text>");
    }
    let step = matrix.rows().div_ceil(LABELS).max(1);
    let rows = (0..matrix.rows()).step_by(step);
    let names = rows.clone().map(|row| label(matrix.nodes_of(row).start));
    for (row, name) in rows.zip(shorten_all(names.collect(), NAME)) {
        let name = escape(&name);
        let (x, y) = (LEFT - 6, top + row * CELL + CELL - 1);
        let _ = writeln!(svg, "<text class=\"end\" x=\"{x}\" y=\"{y}\">{name}</text>");
    }
    // Adjacent rows with equal shades are drawn as one.
    let shades = |row: usize| (0..matrix.cols()).map(move |col| matrix.shade(row, col));
    let mut row = 0;
    while row < matrix.rows() {
        let end = (row..matrix.rows()).find(|r| !shades(*r).eq(shades(row)));
        let end = end.unwrap_or_else(|| matrix.rows());
        cells(svg, matrix, row, (top + row * CELL, (end - row) * CELL));
        row = end;
    }
    marks(svg, matrix, top + height + 2);
}

/// Draws one rectangle for adjacent cells of the same shade.
fn cells(svg: &mut String, matrix: &Matrix, row: usize, (y, height): (usize, usize)) {
    let mut col = 0;
    while col < matrix.cols() {
        let shade = matrix.shade(row, col);
        let end = (col..matrix.cols()).find(|c| matrix.shade(row, *c) != shade);
        let end = end.unwrap_or_else(|| matrix.cols());
        if shade > 0 {
            let (x, width) = (LEFT + col * CELL, (end - col) * CELL);
            let _ = writeln!(
                svg,
                "<rect class=\"s{shade}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
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
            "<text x=\"{LEFT}\" y=\"{y}\">red: missing ranks, orange: duplicate ranks</text>"
        );
    }
}

/// Escapes text for XML. Control characters are already escaped.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_map::{Limits, ProcMap};

    fn drawn(text: &str, size: (usize, usize)) -> String {
        let map = ProcMap::parse_text(text.as_bytes(), &Limits::default()).unwrap();
        let matrix = Matrix::new(&map, map.num_nodes(), map.num_ranks(), size, &[]);
        let line = "<line>".to_owned();
        render("a & b", &[(line, matrix)], |node| format!("n{node}"))
    }

    #[test]
    fn rows_that_look_the_same_are_one_rectangle() {
        let cyclic: Vec<_> = (0..64).map(|n| format!("{n},{}", n + 64)).collect();
        let picture = drawn(&cyclic.join(";"), (8, 2));
        assert_eq!(picture.matches("class=\"s1\"").count(), 1, "{picture}");
        assert_eq!(drawn("0;1", (8, 8)).matches("class=\"s4\"").count(), 2);
    }

    #[test]
    fn foreign_text_is_escaped_and_the_page_has_a_background() {
        let picture = drawn("0", (8, 8));
        assert!(picture.contains("&lt;line&gt;") && picture.contains("a &amp; b"));
        assert!(picture.contains("class=\"page\""));
    }
}

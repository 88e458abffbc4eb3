// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map draw`: one look tells block, cyclic or holes.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;

use pmix_map::{NodeList, ProcMap};
use preg_core::Status;
use serde_json::json;

use super::matrix::{Mark, Matrix};
use super::pattern::{self, Layout, Summary};
use super::{label, paired, svg};
use crate::args::{Draw, DrawAs, Pair};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{read_option, read_procs, read_sources};
use crate::printable::{columns, printable};
use crate::progress::Progress;
use crate::style::Style;
use crate::words::counted;

/// The largest picture in characters, and the corner that is shown beside a folded one.
const CELLS: (usize, usize) = (32, 64);
const CORNER: (usize, u64) = (12, 64);
/// The largest picture as an image.
const IMAGE: (usize, usize) = (128, 256);
/// With a blank and the cells these are 80 columns.
const LABEL: usize = 15;

pub(super) fn run(context: &mut Context, args: &Draw) -> Result<Exit, Failure> {
    let (list, map) = maps(context, args)?;
    let progress = Progress::start("drawing");
    let summary = pattern::summary(&map);
    let to_file = args.output.is_some();
    let picture = match args.kind {
        DrawAs::Svg => {
            let matrix = Matrix::new(&map, map.num_nodes(), summary.span, IMAGE, &summary.faults);
            let corner = corner(&map, &summary, &matrix);
            let mut panels = vec![(folding(&summary, &matrix), matrix)];
            panels.extend(corner);
            svg::render(&summary.text, &panels, |node| name_of(&list, node))
        }
        DrawAs::Text => text(
            &list,
            &map,
            &summary,
            context.style.only_if(!to_file && !context.json),
        ),
    };
    drop(progress);
    match &args.output {
        None if context.json => {
            let answer = json!({
                "nodes": map.num_nodes(),
                "ranks": map.num_ranks(),
                "layout": summary.layout.word(),
                "summary": summary.text,
                "picture": picture,
            });
            context.out.json(&answer)?;
        }
        None => context.out.write_all(picture.as_bytes())?,
        Some(path) => std::fs::write(path, picture).map_err(|e| {
            let message = format!("{} cannot be written: {e}", path.display());
            Failure::new(Exit::Data, Status::ERROR, message)
        })?,
    }
    Ok(Exit::Ok)
}

/// The process map, and the node map if there is one.
fn maps(context: &Context, args: &Draw) -> Result<(NodeList, ProcMap), Failure> {
    let layout = args.layout.clone();
    if let Some(nodes) = args.nodes.clone() {
        let standard_input = || OsString::from("-");
        let procs = args.procs.clone();
        let procs = procs.or_else(|| (!layout.is_asked()).then(standard_input));
        let pair = Pair {
            nodes,
            procs,
            layout,
        };
        return paired(context, &pair);
    }
    if layout.is_asked() {
        return Err(Failure::usage("--ppn and --layout need --nodes"));
    }
    let sources = match &args.procs {
        Some(procs) => read_option("--procs", procs)?,
        None => read_sources(&[])?,
    };
    let map = read_procs(&context.preg, sources)?.into_map(context.limits())?;
    Ok((NodeList::default(), map))
}

/// A node's name, or its number if it has none.
fn name_of(list: &NodeList, node: usize) -> String {
    match list.nth(node) {
        Some(name) => printable(&name),
        None => format!("node {node}"),
    }
}

fn text(list: &NodeList, map: &ProcMap, summary: &Summary, style: Style) -> String {
    let nodes = map.num_nodes();
    let matrix = Matrix::new(map, nodes, summary.span, CELLS, &summary.faults);
    let mut picture = format!("{}\n", style.bold(&summary.text));
    if matrix.is_folded() {
        let _ = writeln!(picture, "{}", style.dim(&folding(summary, &matrix)));
    }
    grid(&mut picture, list, &matrix, style);
    if let Some((line, corner)) = corner(map, summary, &matrix) {
        let _ = writeln!(picture, "\n{}", style.dim(&line));
        grid(&mut picture, list, &corner, style);
    }
    picture
}

/// How much a cell of a folded picture stands for; nothing of another.
fn folding(summary: &Summary, matrix: &Matrix) -> String {
    if !matrix.is_folded() {
        return String::new();
    }
    let nodes = matrix.num_nodes().div_ceil(matrix.rows().max(1));
    let ranks = summary.span.div_ceil(matrix.cols().max(1) as u64);
    format!(
        "each cell: up to {} by {}",
        counted(nodes as u64, "node"),
        counted(ranks, "rank")
    )
}

/// The first nodes and ranks, where the folded picture does not show how they alternate.
fn corner(map: &ProcMap, summary: &Summary, whole: &Matrix) -> Option<(String, Matrix)> {
    if !whole.is_folded() || matches!(summary.layout, Layout::Block | Layout::Empty) {
        return None;
    }
    let (nodes, ranks) = (map.num_nodes().min(CORNER.0), summary.span.min(CORNER.1));
    let line = format!("the first {nodes} nodes and {ranks} ranks:");
    let corner = Matrix::new(map, nodes, ranks, CELLS, &summary.faults);
    Some((line, corner))
}

fn grid(picture: &mut String, list: &NodeList, matrix: &Matrix, style: Style) {
    let mut axis = format!("{:>LABEL$} ", "rank");
    for col in (0..matrix.cols()).step_by(16) {
        let _ = write!(axis, "{:<16}", matrix.ranks_of(col).start);
    }
    let _ = writeln!(picture, "{}", style.dim(axis.trim_end()));
    let names = (0..matrix.rows()).map(|row| name_of(list, matrix.nodes_of(row).start));
    let names = label::shorten_all(names.collect(), LABEL);
    for (row, mut name) in names.into_iter().enumerate() {
        name.insert_str(0, &" ".repeat(LABEL.saturating_sub(columns(&name))));
        let cells: String = (0..matrix.cols())
            .map(|col| ['·', '░', '▒', '▓', '█'][matrix.shade(row, col)])
            .collect();
        let line = format!("{name} {}", style.blue(&cells));
        let _ = writeln!(picture, "{}", line.trim_end());
    }
    if matrix.has_marks() {
        let marks: String = (0..matrix.cols())
            .map(|col| match matrix.mark_of(col) {
                Mark::None => ' ',
                Mark::Missing => '?',
                Mark::Doubled => '!',
            })
            .collect();
        let key = "? missing, ! doubled";
        let _ = writeln!(picture, "{:>LABEL$} {}", "", style.red(marks.trim_end()));
        let _ = writeln!(picture, "{:>LABEL$} {}", "", style.dim(key));
    }
}

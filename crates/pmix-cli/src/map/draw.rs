// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map draw`: a picture that shows block and cyclic layouts and missing ranks.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::Write;

use pmix_map::{NodeList, ProcMap};
use preg_core::Status;
use serde_json::json;

use super::matrix::{Mark, Matrix, shorten_all};
use super::pattern::{self, Layout, Summary};
use super::{check_pair, read_pair, svg};
use crate::args::{Draw, DrawAs, Pair};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{read_option, read_procs, read_sources};
use crate::style::{Progress, Style, columns, counted, printable};

/// The maximum number of rows of a picture in characters, and of the corner printed with a folded
/// picture.
const ROWS: usize = 32;
const CORNER_ROWS: usize = 12;
/// The maximum size of an image in cells.
const IMAGE: (usize, usize) = (128, 256);
/// The number of columns without a terminal, and the maximum and minimum number on a terminal.
const COLUMNS: (usize, usize, usize) = (80, 400, 40);

/// The layout of a line: the name of a node, a space, and one cell for each column of ranks.
#[derive(Clone, Copy)]
struct Width {
    label: usize,
    cells: usize,
}

impl Width {
    /// Splits the columns. Of up to 80 columns, names get 15. Of more columns, long names get up to
    /// a quarter.
    fn of(columns: usize, longest: usize) -> Self {
        let most = if columns > 80 { columns / 4 } else { 15 };
        let label = longest.clamp(15, most.max(15)).min(columns / 3);
        Self {
            label,
            cells: columns - label - 1,
        }
    }
}

/// Returns the number of columns of the terminal, or 80 for a file or a pipe.
fn terminal_columns() -> usize {
    let (usual, most, fewest) = COLUMNS;
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let columns = size.ok().map(|size| usize::from(size.ws_col));
    let columns = columns.filter(|columns| *columns > 0);
    columns.map_or(usual, |columns| columns.clamp(fewest, most))
}

pub(super) fn run(context: &mut Context, args: &Draw) -> Result<Exit, Failure> {
    let (list, map) = maps(context, args)?;
    let progress = Progress::start("drawing");
    let summary = pattern::summary(&map);
    let to_file = args.output.is_some();
    let picture = match args.kind {
        DrawAs::Svg => {
            let matrix = Matrix::new(&map, map.num_nodes(), summary.span, IMAGE, &summary.faults);
            let corner = corner(&map, &summary, &matrix, 64);
            let mut panels = vec![(folding(&summary, &matrix), matrix)];
            panels.extend(corner);
            svg::render(&summary.text, &panels, |node| name_of(&list, node))
        }
        DrawAs::Text => {
            let is_shown = !to_file && !context.json;
            let columns = if is_shown {
                terminal_columns()
            } else {
                COLUMNS.0
            };
            let style = context.style.only_if(is_shown);
            text(&list, &map, &summary, columns, style)
        }
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
            let message = format!("cannot write {}: {e}", path.display());
            Failure::new(Exit::Data, Status::ERROR, message)
        })?,
    }
    Ok(Exit::Ok)
}

/// Returns the process map, and the node map if there is one.
fn maps(context: &Context, args: &Draw) -> Result<(NodeList, ProcMap), Failure> {
    let layout = args.layout.clone();
    if let Some(nodes) = nodes_of(args)? {
        let standard_input = || OsString::from("-");
        let procs = args.procs.clone();
        let procs = procs.or_else(|| (!layout.is_asked()).then(standard_input));
        let pair = Pair {
            nodes,
            procs,
            layout,
        };
        let (list, map) = read_pair(context, &pair)?;
        if args.procs.is_none() && map.num_nodes() == 0 && !list.is_empty() {
            let message = "missing process map, and standard input is empty";
            let cure = "use --procs, or --ppn with the number of ranks per node";
            return Err(Failure::usage(message).cure(cure));
        }
        return check_pair(list, map);
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

/// Returns the node map of --nodes, or the words joined by spaces.
fn nodes_of(args: &Draw) -> Result<Option<OsString>, Failure> {
    match &args.names[..] {
        [] => Ok(args.nodes.clone()),
        [one] => Ok(Some(one.clone())),
        all => {
            let is_source = |word: &&OsString| {
                let word = word.as_encoded_bytes();
                word.starts_with(b"@") || word == b"-"
            };
            match all.iter().find(is_source) {
                Some(word) => {
                    let word = word.to_string_lossy();
                    let message = format!("{word} cannot be combined with other arguments");
                    Err(Failure::usage(message).cure("give one file, or names"))
                }
                None => Ok(Some(all.join(OsStr::new(" ")))),
            }
        }
    }
}

/// Returns a node's name, or its number if it has none.
fn name_of(list: &NodeList, node: usize) -> String {
    match list.nth(node) {
        Some(name) => printable(&name),
        None => format!("node {node}"),
    }
}

fn text(list: &NodeList, map: &ProcMap, summary: &Summary, line: usize, style: Style) -> String {
    let nodes = map.num_nodes();
    // Only names of printed rows matter. The names in between have similar lengths.
    let shown = (0..nodes).step_by(nodes.div_ceil(ROWS).max(1));
    let longest = shown.map(|node| columns(&name_of(list, node))).max();
    let width = Width::of(line, longest.unwrap_or(0));
    let cells = (ROWS, width.cells);
    let matrix = Matrix::new(map, nodes, summary.span, cells, &summary.faults);
    let mut picture = format!("{}\n", style.bold(&summary.text));
    if matrix.is_folded() {
        let _ = writeln!(picture, "{}", style.dim(&folding(summary, &matrix)));
    }
    grid(&mut picture, list, &matrix, width, style);
    if let Some((line, corner)) = corner(map, summary, &matrix, width.cells) {
        let _ = writeln!(picture, "\n{}", style.dim(&line));
        grid(&mut picture, list, &corner, width, style);
    }
    picture
}

/// Returns a text with the size of a cell for a folded picture, or empty text.
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

/// Returns a picture of the first nodes and ranks, if the folded picture does not show how ranks
/// alternate.
fn corner(
    map: &ProcMap,
    summary: &Summary,
    whole: &Matrix,
    cells: usize,
) -> Option<(String, Matrix)> {
    if !whole.is_folded() || matches!(summary.layout, Layout::Block | Layout::Empty) {
        return None;
    }
    let nodes = map.num_nodes().min(CORNER_ROWS);
    let ranks = summary.span.min(cells as u64);
    let line = format!("the first {nodes} nodes and {ranks} ranks:");
    let corner = Matrix::new(map, nodes, ranks, (CORNER_ROWS, cells), &summary.faults);
    Some((line, corner))
}

fn grid(picture: &mut String, list: &NodeList, matrix: &Matrix, width: Width, style: Style) {
    let label = width.label;
    let mut axis = format!("{:>label$} ", "rank");
    for col in (0..matrix.cols()).step_by(16) {
        let _ = write!(axis, "{:<16}", matrix.ranks_of(col).start);
    }
    let _ = writeln!(picture, "{}", style.dim(axis.trim_end()));
    let names = (0..matrix.rows()).map(|row| name_of(list, matrix.nodes_of(row).start));
    let names = shorten_all(names.collect(), label);
    for (row, mut name) in names.into_iter().enumerate() {
        name.insert_str(0, &" ".repeat(label.saturating_sub(columns(&name))));
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
        let _ = writeln!(picture, "{:>label$} {}", "", style.red(marks.trim_end()));
        let _ = writeln!(picture, "{:>label$} {}", "", style.dim(key));
    }
}

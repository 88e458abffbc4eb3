// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix map`, and their inputs, layouts and lists.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use pmix_hostlist::Layout;

use super::tool::Target;

/// The commands under `pmix map`.
#[derive(Subcommand)]
pub(crate) enum MapCommand {
    /// Encode a list.
    Encode(Encode),
    /// Decode a value, or expand a bracket list, and print its names.
    #[command(visible_alias = "expand")]
    Decode(Decode),
    /// Rewrite a map as a list, a Slurm bracket list, an encoded value or JSON.
    Convert(Convert),
    /// Count the names, or the nodes and ranks.
    Count(MapInput),
    /// Print one element.
    Nth(Nth),
    /// Sort names, remove repeated names, and print a bracket list, as `nodeset --fold` does.
    Fold(Lists),
    /// Sort names, comparing the numbers in them by value: n2 before n10.
    Sort(Lists),
    /// Remove repeated names.
    Unique(Lists),
    /// Print the names in any of the lists.
    Union(Lists),
    /// Print the names of the first list that are in no other list.
    Minus(Lists),
    /// Print the names in all lists.
    Intersection(Lists),
    /// Print the names in an odd number of lists; for two lists, the names in only one of them.
    Xor(Lists),
    /// Print the names at given positions of a list.
    Slice(Slice),
    /// Split a list into N parts of nearly equal length.
    Split(Parts),
    /// Split a list into parts of N names.
    Chop(Parts),
    /// Select N names of a list at random.
    Pick(Parts),
    /// List the groups of nodes from the files of ClusterShell and genders.
    Groups(GroupList),
    /// Replace nodes by the groups that consist of them, as `nodeset --regroup` does.
    Regroup(Regroup),
    /// Print the positions of names in a list.
    Position(Position),
    /// Compare two pairs of maps: nodes added and removed, ranks moved.
    Diff(Diff),
    /// Explain an encoded value byte by byte.
    Explain(Explain),
    /// Compare the encodings of a list by each scheme.
    Size(MapInput),
    /// Check a node map and a process map for errors.
    Verify(Pair),
    /// Print the node of each rank.
    Where(Where),
    /// Print the ranks on each node.
    Who(Who),
    /// Draw the ranks on each node.
    Draw(Draw),
    /// Read requests from standard input, one JSON object per line.
    Batch,
}

/// Arguments of `encode`.
#[derive(Args)]
pub(crate) struct Encode {
    #[command(flatten)]
    pub(crate) input: MapInput,
    /// The scheme: `auto` encodes like the library; a name selects that scheme alone, even if it is disabled.
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(crate) scheme: String,
    /// The form of the result: a string (`char *`), or a value with a type and a length.
    #[arg(long, value_enum, default_value_t = FormArg::String)]
    pub(crate) form: FormArg,
    /// The output format.
    #[arg(long, value_enum, default_value_t = EncodeOut::Text)]
    pub(crate) out: EncodeOut,
}

/// The two forms of an encoded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArg {
    /// `PMIx_generate_regex` and `PMIx_generate_ppn`.
    String,
    /// `PMIx_generate_regex2`.
    Regex2,
}

/// Output formats of `encode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EncodeOut {
    /// The bytes themselves.
    Text,
    /// Hexadecimal.
    Hex,
    /// Base64.
    Base64,
    /// {"form","type","len","bytes_hex"}.
    Json,
}

/// Arguments of `decode`.
#[derive(Args)]
pub(crate) struct Decode {
    #[command(flatten)]
    pub(crate) input: MapInput,
    /// The value has this type and no tag (`pmix_regex2_t`); hexadecimal digits alone are hex.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = DecodeOut::Lines)]
    pub(crate) out: DecodeOut,
}

/// Output formats of `decode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecodeOut {
    /// One element per line.
    Lines,
    /// One line: names separated by commas, nodes of a process map by semicolons.
    List,
    /// A JSON array.
    Json,
}

/// Arguments of `convert`.
#[derive(Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) input: MapInput,
    /// The program that wrote the bracket lists of the input.
    #[arg(long, value_enum, value_name = "WRITER", conflicts_with = "procs")]
    pub(crate) from: Option<Writer>,
    /// The output format.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: Target,
    #[command(flatten)]
    pub(crate) shape: Shape,
}

/// The arrangement of the names of a result.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Print each run of consecutive numbers on a line of its own.
    #[arg(long)]
    pub(crate) contiguous: bool,
    /// Write this text instead of each name, with %s in the place of the name: %s-ib.
    #[arg(short = 'O', long, value_name = "FORMAT", value_parser = name_format)]
    pub(crate) output_format: Option<String>,
    /// With --to list: the text between names, with \n for a new line and \t for a tabulator.
    #[arg(short = 'S', long, value_name = "TEXT", value_parser = separator)]
    pub(crate) separator: Option<String>,
}

/// Checks that a format has a place for the name.
fn name_format(text: &str) -> Result<String, String> {
    let mut left = text;
    let mut names = 0;
    while let Some(at) = left.find('%') {
        names += match left.as_bytes().get(at + 1) {
            Some(b's') => 1,
            Some(b'%') => 0,
            _ => {
                return Err(
                    "expected %s for the name, or %% for a percent sign, after `%`".to_owned(),
                );
            }
        };
        left = &left[at + 2..];
    }
    match names {
        0 => Err("expected %s for the name, as in %s-ib".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Replaces the escapes of a separator.
fn separator(text: &str) -> Result<String, String> {
    Ok(text.replace("\\n", "\n").replace("\\t", "\t"))
}

/// The writer of a bracket list; Slurm and ClusterShell expand it in different orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Writer {
    /// Slurm: with three or more brackets the last counts fastest, then the first.
    Slurm,
    /// ClusterShell and this command: the rightmost bracket counts fastest.
    Clustershell,
}

/// Arguments of `nth`.
#[derive(Args)]
pub(crate) struct Nth {
    /// The position, counted from zero; -1 is the last.
    #[arg(value_name = "INDEX", allow_negative_numbers = true, value_parser = index)]
    pub(crate) index: i64,
    #[command(flatten)]
    pub(crate) input: MapInput,
}

/// Parses a position in a list.
fn index(text: &str) -> Result<i64, String> {
    let why = "expected a position, counted from zero, or from the end with -1 as the last";
    text.parse().map_err(|_| why.to_owned())
}

/// Options that derive a process map from a node map.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LayoutArgs {
    /// Instead of --procs: N ranks on each node, or one number per node in Slurm's notation, 2(x3),1. The
    /// default is the number of slots in hostfile:FILE, slurm:, pbs:, lsf: or flux:FILE.
    #[arg(long, value_name = "N", conflicts_with = "procs")]
    pub(crate) ppn: Option<String>,
    /// Instead of --procs: the order in which ranks fill nodes: block (the default), cyclic, or plane=N for N
    /// ranks per node in turn.
    #[arg(long, value_name = "ORDER", value_parser = LayoutArg::parse, conflicts_with = "procs")]
    pub(crate) layout: Option<LayoutArg>,
}

impl LayoutArgs {
    /// Returns `true` if a process map is to be derived.
    pub(crate) fn is_asked(&self) -> bool {
        self.ppn.is_some() || self.layout.is_some()
    }
}

/// The order in which ranks fill nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutArg(pub(crate) Layout);

impl LayoutArg {
    fn parse(text: &str) -> Result<Self, String> {
        let layout = match text {
            "block" => Layout::Block,
            "cyclic" => Layout::Cyclic,
            text => {
                let ranks = text.strip_prefix("plane=").and_then(|n| n.parse().ok());
                let ranks = ranks.filter(|ranks| *ranks > 0);
                Layout::Plane(ranks.ok_or("expected block, cyclic or plane=N")?)
            }
        };
        Ok(Self(layout))
    }
}

/// Arguments of `explain`.
#[derive(Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) input: MapInput,
    /// The value has this type and no tag (`pmix_regex2_t`).
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
}

/// A node map and its process map; either can be @FILE or - for standard input.
#[derive(Args)]
pub(crate) struct Pair {
    /// The node map, in any form that the map commands accept as one argument.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: OsString,
    /// The process map.
    #[arg(long, value_name = "MAP")]
    pub(crate) procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

/// Arguments of `where`.
#[derive(Args)]
pub(crate) struct Where {
    /// Ranks and ranges: 3, 8-15.
    #[arg(value_name = "RANK", required = true)]
    pub(crate) ranks: Vec<String>,
    #[command(flatten)]
    pub(crate) maps: Pair,
}

/// Arguments of `who`.
#[derive(Args)]
pub(crate) struct Who {
    /// Names of nodes, or bracket lists.
    #[arg(value_name = "NODE", required = true)]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) maps: Pair,
}

/// Arguments of `draw`.
#[derive(Args)]
pub(crate) struct Draw {
    /// The node map as names and bracket lists, instead of --nodes.
    #[arg(value_name = "NODE", conflicts_with = "nodes")]
    pub(crate) names: Vec<OsString>,
    /// The node map, for the names of the rows.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: Option<OsString>,
    /// The process map; - for standard input (the default).
    #[arg(long, value_name = "MAP")]
    pub(crate) procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
    /// The kind of picture.
    #[arg(long = "of", value_enum, default_value_t = DrawAs::Text, value_name = "KIND")]
    pub(crate) kind: DrawAs,
    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DrawAs {
    /// Characters.
    Text,
    /// A vector image.
    Svg,
}

/// Lists, and the format of the result.
#[derive(Args)]
pub(crate) struct Lists {
    /// Lists, one per argument: names, bracket lists, encoded values, @FILE, or - for standard input (the
    /// default).
    #[arg(value_name = "LIST")]
    pub(crate) lists: Vec<OsString>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Target::Clustershell, value_name = "FORMAT")]
    pub(crate) to: Target,
    #[command(flatten)]
    pub(crate) shape: Shape,
}

/// Arguments of `groups`.
#[derive(Args)]
pub(crate) struct GroupList {
    /// Only groups that have at least one of these nodes.
    #[arg(value_name = "LIST")]
    pub(crate) lists: Vec<OsString>,
    /// Only the groups of this source.
    #[arg(short, long, value_name = "SOURCE")]
    pub(crate) source: Option<String>,
}

/// Arguments of `regroup`.
#[derive(Args)]
pub(crate) struct Regroup {
    /// Names, bracket lists, groups, @FILE, or - for standard input (the default). Several are joined.
    #[arg(value_name = "LIST")]
    pub(crate) lists: Vec<OsString>,
    /// Use the groups of this source.
    #[arg(short, long, value_name = "SOURCE")]
    pub(crate) source: Option<String>,
}

/// Arguments of `slice`.
#[derive(Args)]
pub(crate) struct Slice {
    /// The positions of the names, counted from zero: 0, 4-7, 0-3,8, 0-99/3.
    #[arg(value_name = "PLACES", allow_negative_numbers = true)]
    pub(crate) places: String,
    #[command(flatten)]
    pub(crate) lists: Lists,
}

/// Arguments of `split`, `chop` and `pick`.
#[derive(Args)]
pub(crate) struct Parts {
    /// The number of parts (split), of names in each part (chop), or of names (pick).
    #[arg(value_name = "N", value_parser = at_least_one)]
    pub(crate) number: NonZeroUsize,
    #[command(flatten)]
    pub(crate) lists: Lists,
}

/// Arguments of `position`.
#[derive(Args)]
pub(crate) struct Position {
    /// The names to find, as a list.
    #[arg(value_name = "NAMES")]
    pub(crate) names: OsString,
    /// The list to search, in any form that the map commands accept.
    #[arg(value_name = "INPUT")]
    pub(crate) words: Vec<OsString>,
}

/// Arguments of `diff`.
#[derive(Args)]
pub(crate) struct Diff {
    /// The old node map.
    #[arg(long, value_name = "MAP")]
    pub(crate) nodes: OsString,
    /// The old process map.
    #[arg(long, value_name = "MAP", requires = "new_procs")]
    pub(crate) procs: Option<OsString>,
    /// The new node map.
    #[arg(long, value_name = "MAP")]
    pub(crate) new_nodes: OsString,
    /// The new process map.
    #[arg(long, value_name = "MAP", requires = "procs")]
    pub(crate) new_procs: Option<OsString>,
    #[command(flatten)]
    pub(crate) layout: LayoutArgs,
}

/// Parses a number of 1 or more.
fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse::<usize>() {
        Ok(number) => {
            NonZeroUsize::new(number).ok_or_else(|| "expected a number of at least 1".to_owned())
        }
        Err(_) => Err(format!("expected a number from 1 to {}", usize::MAX)),
    }
}

/// The source of a map.
#[derive(Args)]
pub(crate) struct MapInput {
    /// Names, bracket lists like n[001-128,200], encoded values, @FILE, or - for standard input (the
    /// default). Several are joined.
    #[arg(value_name = "INPUT")]
    pub(crate) words: Vec<OsString>,
    /// The input is a process map: ranks and ranges separated by commas, nodes by `;`, newlines or arguments.
    #[arg(long)]
    pub(crate) procs: bool,
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix map`.

use clap::{Args, Subcommand, ValueEnum};

use super::input::MapInput;
use super::inspect::{Draw, Explain, Pair, Where, Who};
use super::sets::{Diff, Lists, Parts, Position, Slice};
use super::target::Target;

/// The commands under `pmix map`.
#[derive(Subcommand)]
pub(crate) enum MapCommand {
    /// Encode a list.
    Encode(Encode),
    /// Decode a value and print its list.
    Decode(Decode),
    /// Rewrite a map as a list, a Slurm bracket list, an encoded value or JSON.
    Convert(Convert),
    /// Count the names, or the nodes and ranks.
    Count(MapInput),
    /// Print one element.
    Nth(Nth),
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

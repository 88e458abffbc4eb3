// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix map`.

use clap::{Args, Subcommand, ValueEnum};

use super::input::MapInput;
use super::inspect::{Draw, Explain, Pair, Where, Who};
use super::sets::{Diff, Lists, Parts, Position, Slice};
use super::target::Target;

/// What to do with a map.
#[derive(Subcommand)]
pub(crate) enum MapCommand {
    /// Encode a list.
    Encode(Encode),
    /// Decode a value and list what it holds.
    Decode(Decode),
    /// Rewrite a map as a list, a Slurm bracket list, an encoded value or JSON.
    Convert(Convert),
    /// Count the names, or the nodes and ranks.
    Count(MapInput),
    /// Print one element.
    Nth(Nth),
    /// Sort names, numbers in them by value: n2 before n10.
    Sort(Lists),
    /// Keep the first of equal names.
    Unique(Lists),
    /// The names of any list.
    Union(Lists),
    /// The names of the first list that no other has.
    Minus(Lists),
    /// The names that all lists have.
    Intersection(Lists),
    /// The names that an odd number of lists have: of two, those that one alone has.
    Xor(Lists),
    /// Take names out of a list by their places.
    Slice(Slice),
    /// Cut a list into so many parts of about one length.
    Split(Parts),
    /// Cut a list into parts of so many names.
    Chop(Parts),
    /// Tell at which places of a list names stand.
    Position(Position),
    /// Tell how two pairs of maps differ: nodes added and lost, ranks moved.
    Diff(Diff),
    /// Take a value apart byte by byte.
    Explain(Explain),
    /// Compare what each scheme makes of a list.
    Size(MapInput),
    /// Check a node map and a process map for faults.
    Verify(Pair),
    /// Tell which node a rank is on.
    Where(Where),
    /// Tell which ranks are on a node.
    Who(Who),
    /// Draw nodes by ranks.
    Draw(Draw),
    /// Answer requests, one JSON object a line, from standard input.
    Batch,
}

/// Arguments of `encode`.
#[derive(Args)]
pub(crate) struct Encode {
    #[command(flatten)]
    pub(crate) input: MapInput,
    /// `auto` answers like the library; a name asks that scheme alone, even where it is off.
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(crate) scheme: String,
    /// The string form (`char *`), or the form with a type and a length.
    #[arg(long, value_enum, default_value_t = FormArg::String)]
    pub(crate) form: FormArg,
    /// How to print it.
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

/// How `encode` prints.
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
    /// How to print the list.
    #[arg(long, value_enum, default_value_t = DecodeOut::Lines)]
    pub(crate) out: DecodeOut,
}

/// How `decode` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecodeOut {
    /// One element a line.
    Lines,
    /// One line: names by commas, nodes of a process map by semicolons.
    List,
    /// A JSON array.
    Json,
}

/// Arguments of `convert`.
#[derive(Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) input: MapInput,
    /// Who wrote the bracket lists of the input.
    #[arg(long, value_enum, value_name = "WRITER", conflicts_with = "procs")]
    pub(crate) from: Option<Writer>,
    /// What to make of it.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: Target,
}

/// Who wrote a bracket list, where two read it in different orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Writer {
    /// Slurm: of three and more brackets the last counts fastest, and behind it the first.
    Slurm,
    /// ClusterShell, and this command: the rightmost bracket counts fastest.
    Clustershell,
}

/// Arguments of `nth`.
#[derive(Args)]
pub(crate) struct Nth {
    /// Counted from zero; -1 is the last.
    #[arg(value_name = "INDEX", allow_negative_numbers = true, value_parser = index)]
    pub(crate) index: i64,
    #[command(flatten)]
    pub(crate) input: MapInput,
}

/// Reads a place in a list.
fn index(text: &str) -> Result<i64, String> {
    let why = "expected a place counted from zero, or from the end with -1 as the last";
    text.parse().map_err(|_| why.to_owned())
}

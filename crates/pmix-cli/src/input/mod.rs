// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps from words, files and standard input, in any form.
//!
//! A word becomes a [`source::Source`]; a source is cut into encoded values and list text
//! ([`detect`]); list text is spread into names ([`nodes`], by `pmix-hostlist`) or ranks
//! ([`procs`]). What stays text is not parsed, what came folded is not expanded.

mod detect;
mod flux;
mod job;
mod lines;
mod nodes;
mod procs;
mod separators;
mod source;

pub(crate) use detect::{Segment, Value, segments, tagged_values};
pub(crate) use job::read_job;
pub(crate) use lines::{answer_lines, longest_line};
pub(crate) use nodes::{decode_nodes, of_text as nodes_of_text, read_nodes, text_of};
pub(crate) use procs::{decode_procs, of_text as procs_of_text, read_procs, text_of_procs};
pub(crate) use source::{Form, Source, read as read_sources, read_option, read_path};

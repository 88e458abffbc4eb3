// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwards the streams of processes: their output to the streams of the host and to those who pull it,
//! and input to them.
//!
//! Both directions are for a host with a loop around [`mio::Poll`]: they register pipes there, and are
//! told of the tokens that the poll names. Nothing waits for a reader or a writer, and what waits for a
//! reader is bounded.
//!
//! Source: PMIx Standard, chapter "Process Management", "IO forwarding".

mod delivery;
mod files;
mod kind;
mod lines;
mod output;
mod sink;
mod stdin_pipe;
mod writing;

/// The crate `mio`, with whose `Poll` the parts of this module work.
pub use mio;

pub use delivery::{Delivery, HeldStream, LineForm, OutputChunk, OutputFile, OutputStream};
pub use lines::Lines;
pub use output::OutputForwarder;
pub use stdin_pipe::StdinPipe;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forwarding of the streams of processes: output to the streams of the host and to peers that pull it, and input to
//! the processes.
//!
//! Both directions are for a host with a loop around [`mio::Poll`]. They register pipes there and handle the tokens of
//! its events. They never wait for a reader or writer, and the data pending for a reader are bounded.
//!
//! Source: PMIx Standard, chapter "Process Management", "IO forwarding".

mod delivery;
mod files;
mod kind;
mod line_ends;
mod lines;
mod output;
mod sink;
mod stdin_pipe;
mod writing;

/// The crate with the `Poll` that this module uses.
pub use mio;

pub use delivery::{Delivery, HeldStream, LineForm, OutputChunk, OutputFile, OutputStream};
pub use lines::Lines;
pub use output::OutputForwarder;
pub use stdin_pipe::StdinPipe;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The destinations and forms of process output, and the reports about it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pmix_types::{IofChannel, Proc};

/// One of the two output streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

impl OutputStream {
    /// Returns its name in the tag of a line: `stdout` or `stderr`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Output => "stdout",
            Self::Errors => "stderr",
        }
    }

    /// Returns its channel for [`iof_deliver`](pmix_server::Server::iof_deliver).
    #[must_use]
    pub const fn channel(self) -> IofChannel {
        match self {
            Self::Output => IofChannel::STDOUT_CHANNEL,
            Self::Errors => IofChannel::STDERR_CHANNEL,
        }
    }
}

/// The form in which output is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineForm {
    /// Bytes are written as they arrive.
    #[default]
    Plain,
    /// Complete lines are written at once, so that lines of different processes do not mix.
    Whole,
    /// As `Whole`, but an incomplete line is written after this time, so that a prompt becomes visible.
    WholeWithin(Duration),
    /// Complete lines, prefixed with the process and the stream: `[<nspace>,0]<stdout>: `.
    Tagged,
    /// Complete lines, prefixed with the number of the job (the part of its name after the last `@`, or all
    /// of it), the rank, the node, the process ID and the stream: `[1,0][n01:4711]<stdout>: `.
    Detailed {
        /// The process id.
        pid: i32,
    },
}

/// The destinations of an output stream.
#[derive(Debug)]
pub struct Delivery {
    /// The form in which it is written to the stream of the host; `None` if it is not written there.
    pub shown: Option<LineForm>,
    /// A file that gets all bytes without tags.
    pub file: Option<OutputFile>,
}

impl From<LineForm> for Delivery {
    fn from(form: LineForm) -> Self {
        Self {
            shown: Some(form),
            file: None,
        }
    }
}

/// A file for output. Clones share one offset in it, so streams with clones of a file do not overwrite each other.
#[derive(Clone, Debug)]
pub struct OutputFile {
    /// The path of the file in messages.
    pub path: PathBuf,
    /// The file, open for writing.
    pub file: Arc<File>,
}

/// A stream that another process holds open after its own process has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldStream {
    /// The process.
    pub source: Proc<'static>,
    /// The stream.
    pub kind: OutputStream,
    /// The number of bytes in the pipe when the launcher stopped waiting for it.
    pub num_bytes: usize,
}

/// A piece of output; without bytes it is the end of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// The process.
    pub source: Proc<'static>,
    /// The stream.
    pub kind: OutputStream,
    /// The bytes written.
    pub bytes: Vec<u8>,
}

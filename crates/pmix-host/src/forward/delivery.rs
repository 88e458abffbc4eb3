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

    /// Returns its channel, as [`iof_deliver`](pmix_server::Server::iof_deliver) takes it.
    #[must_use]
    pub const fn channel(self) -> IofChannel {
        match self {
            Self::Output => IofChannel::STDOUT_CHANNEL,
            Self::Errors => IofChannel::STDERR_CHANNEL,
        }
    }
}

/// Says how what a process writes goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineForm {
    /// Bytes go out as they come.
    #[default]
    Plain,
    /// Lines go out whole, so that no line of a process has one of another in it.
    Whole,
    /// Lines go out whole, but what has no line end for this long goes out without one, so that a prompt is seen.
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

/// Says where what a process writes to a stream goes.
#[derive(Debug)]
pub struct Delivery {
    /// The form in which it goes to the stream of the host; not there at all if `None`.
    pub shown: Option<LineForm>,
    /// A file that takes it byte by byte, without tags.
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

/// A file for what a process writes. Streams whose files are clones of one have one place in it, and lose nothing of
/// each other.
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
    /// The number of bytes that were in the pipe when it was no longer waited for.
    pub num_bytes: usize,
}

/// Holds a piece of what a process wrote; one without bytes is the end of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// The process.
    pub source: Proc<'static>,
    /// The stream.
    pub kind: OutputStream,
    /// The bytes written.
    pub bytes: Vec<u8>,
}

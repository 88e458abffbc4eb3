// SPDX-License-Identifier: MIT OR Apache-2.0
//! A launcher that waits before it starts its job, the Standard's intermediate launcher: who lets it go on, and what
//! ends the wait.

use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use pmix_server::ConnectedTool;
use pmix_types::Proc;

/// The variable by which a launcher learns that a tool has it started. It asks the server that started it for
/// `PMIX_LAUNCH_DIRECTIVES`, and waits for its release unless the value is empty, 0, false or no.
pub const PAUSE_FOR_TOOL: &str = "PMIX_LAUNCHER_PAUSE_FOR_TOOL";

/// Says how a launcher that waits before it starts its job is told to go on.
///
/// A tool that is attached to the launcher releases it by `PMIX_DEBUGGER_RELEASE`, which names the server of the
/// launcher, the launcher as the server calls it that started it, or nobody.
pub struct ToolWait {
    /// The tool that had the launcher started, if the launcher has connected with it: it asks the server of the launcher
    /// over this connection, and nobody releases the launcher when it is gone.
    pub tool: Option<ConnectedTool>,
    /// The name of the launcher at the server that started it; none if no server did.
    pub launcher: Option<Proc<'static>>,
    /// Has a byte to read when the launcher is released by way of the server that started it, and is at its end
    /// when that one is gone, so that nobody can.
    pub released: UnixStream,
    /// Is called once, when the server of the launcher is there and tools may attach to it.
    pub ready: Box<dyn FnOnce()>,
    /// Is called once, when a tool that is attached to the launcher has released it, of which the server that started
    /// the launcher learns nothing otherwise.
    pub released_here: Box<dyn FnOnce()>,
}

/// What a session knows while it waits for its release.
pub(super) struct Waiting {
    launcher: Option<Proc<'static>>,
    tool: Option<Proc<'static>>,
    released: UnixStream,
    end: Option<WaitEnd>,
    /// Whether a tool released it that is attached to the launcher.
    is_released_here: bool,
}

/// What ended the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnd {
    Released,
    /// The server that started the launcher is gone.
    ServerLost,
    /// The tool is gone with which the launcher had connected.
    ToolLost,
    /// A signal that ends programs came.
    Signal(i32),
    /// A tool aborted the job that is not there yet.
    Aborted,
}

impl Waiting {
    pub(super) fn new(
        launcher: Option<Proc<'static>>,
        tool: Option<Proc<'static>>,
        released: UnixStream,
    ) -> io::Result<Self> {
        released.set_nonblocking(true)?;
        Ok(Self {
            launcher,
            tool,
            released,
            end: None,
            is_released_here: false,
        })
    }

    /// What ended the wait, if anything has.
    pub(super) fn end(&self) -> Option<WaitEnd> {
        self.end
    }

    /// A tool that is attached to the launcher releases it.
    pub(super) fn release_here(&mut self) {
        self.is_released_here |= self.end.is_none();
        self.set(WaitEnd::Released);
    }

    /// Whether such a tool did, before anything else ended the wait.
    pub(super) fn is_released_here(&self) -> bool {
        self.is_released_here
    }

    /// What the server that started the launcher calls it.
    pub(super) fn launcher(&self) -> Option<&Proc<'static>> {
        self.launcher.as_ref()
    }

    /// Ends the wait. What came first counts, but for a signal, which ends the launcher whatever else came.
    pub(super) fn set(&mut self, end: WaitEnd) {
        if self.end.is_none() || matches!(end, WaitEnd::Signal(_)) {
            self.end = Some(end);
        }
    }

    /// A tool is gone, which may be the one that is waited for.
    pub(super) fn tool_left(&mut self, tool: &Proc<'_>) {
        if self.tool.as_ref() == Some(tool) {
            self.set(WaitEnd::ToolLost);
        }
    }

    /// Hears what comes by way of the server that started the launcher.
    pub(super) fn hear(&mut self) {
        match self.released.read(&mut [0]) {
            Ok(0) => self.set(WaitEnd::ServerLost),
            Ok(_) => self.set(WaitEnd::Released),
            // It was nothing.
            Err(_) => {}
        }
    }
}

impl AsRawFd for Waiting {
    fn as_raw_fd(&self) -> RawFd {
        self.released.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_wait_ends_by_what_comes_first_or_by_a_signal() {
        let (released, mut release) = UnixStream::pair().unwrap();
        let mut waiting = Waiting::new(None, None, released).unwrap();
        waiting.hear();
        assert_eq!(waiting.end(), None);
        release.write_all(&[1]).unwrap();
        waiting.hear();
        assert_eq!(waiting.end(), Some(WaitEnd::Released));
        drop(release);
        waiting.hear();
        assert_eq!(waiting.end(), Some(WaitEnd::Released));
        waiting.release_here();
        assert!(!waiting.is_released_here());
        waiting.set(WaitEnd::Aborted);
        assert_eq!(waiting.end(), Some(WaitEnd::Released));
        waiting.set(WaitEnd::Signal(15));
        assert_eq!(waiting.end(), Some(WaitEnd::Signal(15)));
        let (released, _release) = UnixStream::pair().unwrap();
        let mut waiting = Waiting::new(None, None, released).unwrap();
        waiting.release_here();
        assert_eq!(waiting.end(), Some(WaitEnd::Released));
        assert!(waiting.is_released_here());
        let (released, release) = UnixStream::pair().unwrap();
        let mut waiting = Waiting::new(None, None, released).unwrap();
        drop(release);
        waiting.hear();
        assert_eq!(waiting.end(), Some(WaitEnd::ServerLost));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wait of an intermediate launcher for its release.

use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use pmix_server::ConnectedTool;
use pmix_types::Proc;

/// The variable that marks an intermediate launcher. It requests `PMIX_LAUNCH_DIRECTIVES` from the server that
/// started it, and waits for its release unless the value is empty, 0, false or no.
pub const PAUSE_FOR_TOOL: &str = "PMIX_LAUNCHER_PAUSE_FOR_TOOL";

/// The ways in which a waiting launcher can be released.
///
/// A tool that is attached to the launcher releases it by the event `PMIX_DEBUGGER_RELEASE`. Its custom range names
/// the server of the launcher, or the launcher by the name that it has at the server that started the launcher, or is
/// empty.
pub struct ToolWait {
    /// The tool that had the launcher started, if the launcher has connected to it. The tool sends requests to the
    /// launcher's server over this connection. If it disconnects before the release, the wait fails.
    pub tool: Option<ConnectedTool>,
    /// The name that the launcher has at the server that started the launcher, if any.
    pub launcher: Option<Proc<'static>>,
    /// A stream that becomes readable when the launcher is released through the server that started it. Its end means
    /// that this server has exited, so that no release can follow.
    pub released: UnixStream,
    /// A callback for the time when tools can attach to the launcher's server; called once.
    pub ready: Box<dyn FnOnce()>,
    /// A callback for a release by an attached tool, of which the server that started the launcher is not notified
    /// otherwise; called at most once.
    pub released_here: Box<dyn FnOnce()>,
}

/// The state of an intermediate launcher that waits for its release.
pub(crate) struct Waiting {
    launcher: Option<Proc<'static>>,
    tool: Option<Proc<'static>>,
    released: UnixStream,
    end: Option<WaitEnd>,
    /// `true` if an attached tool released it.
    is_released_here: bool,
}

/// The end of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    Released,
    /// The server that started the launcher exited.
    ServerLost,
    /// The connected tool exited.
    ToolLost,
    /// A terminating signal arrived.
    Signal(i32),
    /// A tool aborted the job before it was started.
    Aborted,
}

impl Waiting {
    pub(crate) fn new(
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

    /// Returns the end of the wait, if it has ended.
    pub(crate) fn end(&self) -> Option<WaitEnd> {
        self.end
    }

    /// Records a release by an attached tool.
    pub(crate) fn release_here(&mut self) {
        self.is_released_here |= self.end.is_none();
        self.set(WaitEnd::Released);
    }

    /// Returns `true` if an attached tool released the launcher before the wait ended otherwise.
    pub(crate) fn is_released_here(&self) -> bool {
        self.is_released_here
    }

    /// Returns the name that the launcher has at the server that started the launcher. Its own server may use another
    /// name.
    pub(crate) fn launcher(&self) -> Option<&Proc<'static>> {
        self.launcher.as_ref()
    }

    /// Ends the wait. The first end counts, except that a signal always terminates the launcher.
    pub(crate) fn set(&mut self, end: WaitEnd) {
        if self.end.is_none() || matches!(end, WaitEnd::Signal(_)) {
            self.end = Some(end);
        }
    }

    /// Handles a tool that disconnected, which may be the connected one.
    pub(crate) fn tool_left(&mut self, tool: &Proc<'_>) {
        if self.tool.as_ref() == Some(tool) {
            self.set(WaitEnd::ToolLost);
        }
    }

    /// Reads from the stream of the server that started the launcher.
    pub(crate) fn read(&mut self) {
        match self.released.read(&mut [0]) {
            Ok(0) => self.set(WaitEnd::ServerLost),
            Ok(_) => self.set(WaitEnd::Released),
            // No data: a spurious wake-up.
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
        waiting.read();
        assert_eq!(waiting.end(), None);
        release.write_all(&[1]).unwrap();
        waiting.read();
        assert_eq!(waiting.end(), Some(WaitEnd::Released));
        drop(release);
        waiting.read();
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
        waiting.read();
        assert_eq!(waiting.end(), Some(WaitEnd::ServerLost));
    }
}

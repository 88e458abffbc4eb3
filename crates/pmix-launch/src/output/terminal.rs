// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pseudo terminals as the standard output of processes.

use std::io;
use std::os::fd::OwnedFd;

use mio::unix::pipe::Receiver;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};

/// A pseudo terminal for the output of a process.
pub(super) struct OutputTerminal {
    /// The end from which the launcher reads. A read fails with `EIO` once no process has the other end open.
    pub(super) reader: Receiver,
    /// The end of the process.
    pub(super) process: OwnedFd,
}

impl OutputTerminal {
    /// Opens a pseudo terminal that passes bytes on unchanged.
    pub(super) fn open(size: Option<Winsize>) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let process = ioctl_tiocgptpeer(&ours, flags)?;
        let mut modes = tcgetattr(&process)?;
        // The terminal of the launcher converts line ends, and files contain what a process has written.
        modes.output_modes.remove(OutputModes::OPOST);
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&process, OptionalActions::Now, &modes)?;
        if let Some(size) = size {
            tcsetwinsize(&process, size)?;
        }
        let reader = Receiver::from(ours);
        reader.set_nonblocking(true)?;
        Ok(Self { reader, process })
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pseudo terminals as the standard output of processes, and as standard input of the process that reads the keyboard.

use std::io;
use std::os::fd::OwnedFd;

use mio::unix::pipe::Receiver;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};

/// A pseudo terminal of a process.
pub(super) struct ProcessTerminal {
    /// The end from which the launcher reads. A read fails with `EIO` once no process has the other end open.
    pub(super) reader: Receiver,
    /// The end of the process.
    pub(super) process: OwnedFd,
}

impl ProcessTerminal {
    /// Opens a pseudo terminal for output, which passes bytes on unchanged.
    pub(super) fn for_output(size: Option<Winsize>) -> io::Result<Self> {
        Self::open(size, |modes| {
            // The terminal of the launcher converts line ends, and files contain what a process has written.
            modes.output_modes.remove(OutputModes::OPOST);
            modes.local_modes.remove(LocalModes::ECHO);
        })
    }

    /// Opens a pseudo terminal for output and input, with the modes of the launcher's terminal.
    ///
    /// It converts line ends, since programs such as editors evaluate these modes. The forwarder of output undoes the
    /// conversion.
    pub(super) fn for_keyboard(size: Option<Winsize>, modes: &Termios) -> io::Result<Self> {
        Self::open(size, |own| {
            own.input_modes = modes.input_modes;
            own.local_modes = modes.local_modes;
            own.special_codes = modes.special_codes.clone();
            own.output_modes = OutputModes::OPOST | OutputModes::ONLCR;
        })
    }

    fn open(size: Option<Winsize>, set: impl FnOnce(&mut Termios)) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let process = ioctl_tiocgptpeer(&ours, flags)?;
        let mut modes = tcgetattr(&process)?;
        set(&mut modes);
        tcsetattr(&process, OptionalActions::Now, &modes)?;
        if let Some(size) = size {
            tcsetwinsize(&process, size)?;
        }
        let reader = Receiver::from(ours);
        reader.set_nonblocking(true)?;
        Ok(Self { reader, process })
    }
}

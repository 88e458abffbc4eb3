// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modes of the launcher's terminal while a process has a pseudo terminal as standard input.
//!
//! The pseudo terminal edits lines, echoes and sends signals, so the launcher's terminal must do none of it and pass every
//! key on. It still converts line ends of output, so other programs can write to it as usual. Only while the program has
//! switched off the conversion in its pseudo terminal, as editors do, the launcher's terminal does not convert either.

use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr,
    tcsetattr,
};

/// The modes that the launcher changes, with the name of its terminal. The watcher gets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedModes {
    /// The path of the terminal.
    pub(crate) path: PathBuf,
    /// `c_iflag`, `c_oflag`, `c_lflag`, `VMIN` and `VTIME`.
    pub(crate) modes: [u32; 5],
}

/// The launcher's terminal, whose modes are restored when this is dropped.
pub(super) struct RawTerminal<'a> {
    terminal: BorrowedFd<'a>,
    /// The modes of the user while those of the launcher are set.
    saved: Option<Termios>,
    /// `true` if the pseudo terminal converts line ends.
    is_converted: bool,
    /// Modes of the user that the watcher does not know yet.
    news: Option<SavedModes>,
    /// The modes that the watcher knows.
    known: Option<SavedModes>,
}

impl<'a> RawTerminal<'a> {
    pub(super) fn new(terminal: BorrowedFd<'a>) -> Self {
        Self {
            terminal,
            saved: None,
            is_converted: true,
            news: None,
            known: None,
        }
    }

    /// Returns `true` if the terminal is in canonical mode and [`enter`](Self::enter) would end that mode.
    pub(super) fn would_end_editing(&self) -> bool {
        let edits = |modes: Termios| modes.local_modes.contains(LocalModes::ICANON);
        self.saved.is_none()
            && is_in_foreground(self.terminal)
            && tcgetattr(self.terminal).is_ok_and(edits)
    }

    /// Returns `true` while the modes of the launcher are set.
    pub(super) fn is_entered(&self) -> bool {
        self.saved.is_some()
    }

    /// Sets the modes of the launcher if it is in the foreground and they are not set.
    pub(super) fn enter(&mut self) {
        if self.saved.is_some() || !is_in_foreground(self.terminal) {
            return;
        }
        match tcgetattr(self.terminal) {
            Ok(modes) => {
                let saved = SavedModes::of(self.terminal, &modes);
                if let Some(saved) = saved.filter(|saved| self.known.as_ref() != Some(saved)) {
                    self.known = Some(saved.clone());
                    self.news = Some(saved);
                }
                self.set(&raw_of(&modes, self.is_converted));
                self.saved = Some(modes);
            }
            Err(e) => tracing::debug!("cannot read the modes of the terminal: {e}"),
        }
    }

    /// Restores the modes of the user. In the background, the shell has set its own modes.
    pub(super) fn leave(&mut self) {
        if let Some(saved) = self.saved.take()
            && is_in_foreground(self.terminal)
        {
            self.set(&saved);
        }
    }

    /// Forgets the modes of the launcher if the shell has set its own modes while the launcher was stopped.
    pub(super) fn check(&mut self) {
        if let (Some(saved), Ok(now)) = (&self.saved, tcgetattr(self.terminal)) {
            let raw = raw_of(saved, self.is_converted);
            if (now.input_modes, now.local_modes) != (raw.input_modes, raw.local_modes) {
                self.saved = None;
            }
        }
    }

    /// Lets the terminal convert line ends exactly while the pseudo terminal does.
    pub(super) fn convert_if(&mut self, is_converted: bool) {
        self.is_converted = is_converted;
        if let Some(saved) = &self.saved
            && is_in_foreground(self.terminal)
        {
            self.set(&raw_of(saved, is_converted));
        }
    }

    /// Returns the modes of the user, once, if the watcher does not know them.
    pub(super) fn take_news(&mut self) -> Option<SavedModes> {
        self.news.take()
    }

    fn set(&self, modes: &Termios) {
        // Keys that were typed before are kept.
        if let Err(e) = tcsetattr(self.terminal, OptionalActions::Now, modes) {
            tracing::debug!("cannot change the modes of the terminal: {e}");
        }
    }
}

impl Drop for RawTerminal<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Returns `true` if the launcher is in the foreground of its terminal. A read from the background would stop the launcher
/// (`SIGTTIN`), and so would a change of modes (`SIGTTOU`).
pub(super) fn is_in_foreground(terminal: BorrowedFd<'_>) -> bool {
    rustix::termios::tcgetpgrp(terminal) == Ok(rustix::process::getpgrp())
}

/// Returns the modes for the launcher's terminal: every key is passed on at once and unchanged.
fn raw_of(modes: &Termios, is_converted: bool) -> Termios {
    let mut raw = modes.clone();
    make_raw(&mut raw.input_modes, &mut raw.local_modes);
    if !is_converted {
        raw.output_modes.remove(OutputModes::OPOST);
    }
    raw.special_codes[SpecialCodeIndex::VMIN] = 1;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    raw
}

fn make_raw(input: &mut InputModes, local: &mut LocalModes) {
    input.remove(
        InputModes::IGNBRK
            | InputModes::BRKINT
            | InputModes::PARMRK
            | InputModes::ISTRIP
            | InputModes::INLCR
            | InputModes::IGNCR
            | InputModes::ICRNL
            | InputModes::IXON
            | InputModes::IXOFF,
    );
    local.remove(
        LocalModes::ECHO
            | LocalModes::ECHONL
            | LocalModes::ICANON
            | LocalModes::ISIG
            | LocalModes::IEXTEN,
    );
}

impl SavedModes {
    fn of(terminal: BorrowedFd<'_>, modes: &Termios) -> Option<Self> {
        let name = rustix::termios::ttyname(terminal, Vec::new()).ok()?;
        let code = |index| u32::from(modes.special_codes[index]);
        Some(Self {
            path: Path::new(OsStr::from_bytes(name.as_bytes())).to_owned(),
            modes: [
                modes.input_modes.bits(),
                modes.output_modes.bits(),
                modes.local_modes.bits(),
                code(SpecialCodeIndex::VMIN),
                code(SpecialCodeIndex::VTIME),
            ],
        })
    }

    /// Restores the modes of the user after the launcher was killed, unless another program has changed them since. The
    /// caller must block or ignore SIGTTOU.
    ///
    /// # Errors
    /// Returns an error if the terminal cannot be opened or refuses the modes.
    pub(crate) fn restore(&self) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(&self.path, flags, Mode::empty())?;
        let mut current = tcgetattr(&terminal)?;
        let [input, output, local, min, time] = self.modes;
        let saved_input = InputModes::from_bits_retain(input);
        let saved_local = LocalModes::from_bits_retain(local);
        let (mut raw_input, mut raw_local) = (saved_input, saved_local);
        make_raw(&mut raw_input, &mut raw_local);
        // The shell may have restored its own modes by this time, and may be reading a line.
        if (current.input_modes, current.local_modes) != (raw_input, raw_local) {
            return Ok(());
        }
        current.input_modes = saved_input;
        current.local_modes = saved_local;
        current.output_modes = OutputModes::from_bits_retain(output);
        current.special_codes[SpecialCodeIndex::VMIN] = u8::try_from(min).unwrap_or(1);
        current.special_codes[SpecialCodeIndex::VTIME] = u8::try_from(time).unwrap_or(0);
        Ok(tcsetattr(&terminal, OptionalActions::Now, &current)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, OwnedFd};

    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

    use super::*;

    /// Returns both sides of a terminal that is not the controlling terminal of the test.
    fn terminal() -> (OwnedFd, OwnedFd) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let side = openpt(flags).unwrap();
        grantpt(&side).unwrap();
        unlockpt(&side).unwrap();
        let terminal = ioctl_tiocgptpeer(&side, flags).unwrap();
        (side, terminal)
    }

    /// Returns the modes that the launcher changes.
    fn modes_of(terminal: &OwnedFd) -> [u32; 5] {
        let modes = tcgetattr(terminal).unwrap();
        SavedModes::of(terminal.as_fd(), &modes).unwrap().modes
    }

    #[test]
    fn the_modes_of_a_killed_launcher_are_restored_unless_others_have_changed_them() {
        let (_side, terminal) = terminal();
        let before = tcgetattr(&terminal).unwrap();
        let saved = SavedModes::of(terminal.as_fd(), &before).unwrap();
        for is_converted in [true, false] {
            let raw = raw_of(&before, is_converted);
            tcsetattr(&terminal, OptionalActions::Now, &raw).unwrap();
            assert_ne!(modes_of(&terminal), saved.modes);
            saved.restore().unwrap();
            assert_eq!(modes_of(&terminal), saved.modes);
        }
        let mut changed = raw_of(&before, true);
        changed.local_modes.insert(LocalModes::ISIG);
        tcsetattr(&terminal, OptionalActions::Now, &changed).unwrap();
        let now = modes_of(&terminal);
        saved.restore().unwrap();
        assert_eq!(modes_of(&terminal), now);
    }

    #[test]
    fn a_launcher_outside_the_foreground_changes_no_modes() {
        let (_side, terminal) = terminal();
        let before = modes_of(&terminal);
        let mut raw = RawTerminal::new(terminal.as_fd());
        raw.enter();
        raw.convert_if(false);
        assert!(raw.take_news().is_none());
        assert_eq!(modes_of(&terminal), before);
        drop(raw);
        assert_eq!(modes_of(&terminal), before);
    }
}

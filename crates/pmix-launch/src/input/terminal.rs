// SPDX-License-Identifier: MIT OR Apache-2.0
//! A terminal as the standard input of rank 0.
//!
//! Rank 0 inherits any other kind of input. A terminal cannot be inherited: rank 0 is in a background process group,
//! so the kernel would stop it (`SIGTTIN`) when it reads. The launcher reads the terminal and passes keys on: to the
//! pseudo terminal of rank 0 if it has one, otherwise lines to a pipe.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use pmix_host::forward::StdinPipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_current_process_group, kill_process_group};
use rustix::termios::{OutputModes, SpecialCodeIndex, tcgetattr, tcgetpgrp};

use super::modes::{RawTerminal, SavedModes, is_in_foreground};
use super::signal_keys::{Keys, Typed, echo_of};

/// The interval at which the launcher tests if it is in the foreground while the terminal has input. A shell need not
/// signal a running process when it brings it to the foreground.
const LOOK: Duration = Duration::from_millis(250);

/// The number of bytes for the pseudo terminal of rank 0 above which the keyboard is not read. Keys that send signals
/// come after what was pasted before, so a program that does not read still lets them through below it.
const MOST_WAITING: usize = 1 << 20;

/// The input of a terminal that is forwarded to rank 0.
pub(crate) struct TerminalInput<'a> {
    terminal: BorrowedFd<'a>,
    state: State,
    rank0: StdinPipe,
    keyboard: Option<Keyboard<'a>>,
}

/// The keyboard of a rank 0 that has a pseudo terminal as standard input.
struct Keyboard<'a> {
    raw: RawTerminal<'a>,
    keys: Keys,
    /// The process of rank 0, which leads the session of the pseudo terminal.
    leader: Pid,
    /// `true` if the pseudo terminal converted line ends when it was last asked.
    is_converted: bool,
    /// The echo of keys that were not passed on.
    echo: Vec<u8>,
}

/// The state of reading the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Open; the next event of the poll is awaited.
    Watched,
    /// Open with input or a keyboard, while another process group is in the foreground. The launcher tests again at this
    /// time.
    Background(Instant),
    /// Hung up; the session was not yet notified.
    HungUp,
    /// Closed; nothing more is read.
    Closed,
}

/// The result of polling the terminal.
enum News {
    Input,
    Nothing,
    /// The other side was closed, so every read returns at once.
    HangUp,
}

impl<'a> TerminalInput<'a> {
    /// Registers the terminal with the poll under this token.
    ///
    /// The poll reports each change once (edge-triggered). The terminal is read until it is empty and never
    /// registered again: a descriptor that stays readable or that hung up would be reported again at once, forever.
    pub(super) fn new(
        registry: &Registry,
        token: Token,
        terminal: BorrowedFd<'a>,
        rank0: StdinPipe,
    ) -> io::Result<Self> {
        let fd = terminal.as_raw_fd();
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE)?;
        Ok(Self {
            terminal,
            state: State::Watched,
            rank0,
            keyboard: None,
        })
    }

    /// Passes every key on to a pseudo terminal, whose session this process leads, and sets the modes of the launcher's
    /// terminal for that.
    pub(super) fn with_keyboard(mut self, leader: Pid) -> Self {
        self.keyboard = Some(Keyboard {
            raw: RawTerminal::new(self.terminal),
            keys: Keys::default(),
            leader,
            is_converted: true,
            echo: Vec::new(),
        });
        self.enter();
        self.state = self.unread_state(Instant::now());
        self
    }

    /// Returns the state while nothing is read. A shell that brings a running job to the foreground sends no signal, so a
    /// launcher with a keyboard looks for that.
    fn unread_state(&self, now: Instant) -> State {
        match &self.keyboard {
            Some(keyboard) if !keyboard.raw.is_entered() => State::Background(now + LOOK),
            _ => State::Watched,
        }
    }

    /// Sets the modes of the launcher for a keyboard, if it is in the foreground.
    fn enter(&mut self) {
        let raw = self.keyboard.as_ref().map(|keyboard| &keyboard.raw);
        if raw.is_some_and(RawTerminal::would_end_editing) {
            // Lines that were typed earlier are read before `enter` ends canonical mode. In noncanonical mode, the
            // terminal would return a NUL for an end of input among these lines.
            self.take_lines();
        }
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.raw.enter();
        }
    }

    /// Passes on the complete lines that can be read from a terminal in canonical mode.
    fn take_lines(&mut self) {
        let mut piece = [0; 4096];
        while matches!(news(self.terminal), News::Input)
            && !(self.rank0.is_closed() || self.is_full())
        {
            match rustix::io::read(self.terminal, &mut piece) {
                Ok(0) => self.take_end(),
                Ok(len) => self.take(&piece[..len]),
                Err(Errno::INTR) => {}
                Err(e) => {
                    tracing::debug!("cannot read the lines that were typed before: {e}");
                    return;
                }
            }
        }
    }

    /// Passes an end of input on to a pseudo terminal, as the key that means it there.
    fn take_end(&mut self) {
        if let Some(Ok(modes)) = self.rank0.fd().map(tcgetattr) {
            let key = modes.special_codes[SpecialCodeIndex::VEOF];
            self.rank0.push(vec![key], None);
        }
    }

    /// Forwards typed input to rank 0.
    pub(super) fn turn(&mut self, registry: &Registry, now: Instant) {
        self.rank0.write();
        if matches!(self.state, State::HungUp | State::Closed) {
            return;
        }
        self.state = State::Watched;
        // The launcher may have come to the foreground.
        self.enter();
        loop {
            match news(self.terminal) {
                News::Nothing => {
                    self.state = self.unread_state(now);
                    return;
                }
                News::HangUp => return self.hang_up(registry),
                // Backpressure: input that rank 0 does not read stays in the terminal. When the pipe has room again,
                // a write causes the next turn.
                News::Input if self.rank0.is_closed() || self.is_full() => return,
                News::Input if !is_in_foreground(self.terminal) => {
                    self.state = State::Background(now + LOOK);
                    return;
                }
                News::Input => {}
            }
            let mut piece = [0; 4096];
            match rustix::io::read(self.terminal, &mut piece) {
                Ok(len @ 1..) => self.take(&piece[..len]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Ctrl-D ends the input of rank 0; later input is not read.
                Ok(0) if self.keyboard.is_none() => self.rank0.end(),
                // Another program has switched on line editing again, and the next turn switches it off.
                Ok(0) => self.take_end(),
                Err(e) => {
                    tracing::debug!("cannot read the terminal: {e}");
                    return self.hang_up(registry);
                }
            }
        }
    }

    /// Returns the time for the next test of the foreground, if one is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Background(until) => Some(until),
            State::Watched | State::HungUp | State::Closed => None,
        }
    }

    /// Returns `true` once after the terminal hung up.
    pub(crate) fn take_hang_up(&mut self) -> bool {
        let hung_up = self.state == State::HungUp;
        if hung_up {
            self.state = State::Closed;
        }
        hung_up
    }

    /// Passes typed bytes on, and sends the signals of keys that are for the launcher.
    fn take(&mut self, bytes: &[u8]) {
        let fd = self.rank0.fd();
        let modes = fd.and_then(|fd| tcgetattr(fd).ok());
        let (Some(keyboard), Some(modes)) = (&mut self.keyboard, modes) else {
            return self.rank0.push(bytes.to_vec(), None);
        };
        let is_leader = fd.is_some_and(|fd| tcgetpgrp(fd) == Ok(keyboard.leader));
        for part in keyboard.keys.split(bytes, &modes, is_leader) {
            match part {
                Typed::Bytes(bytes) => self.rank0.push(bytes.to_vec(), None),
                Typed::Signal(signal, key) => {
                    keyboard
                        .echo
                        .extend(echo_of(key, &modes).into_iter().flatten());
                    // As the terminal does: the signal is for the foreground process group, which is that of the launcher.
                    if let Err(e) = kill_current_process_group(signal) {
                        tracing::warn!("cannot send the signal of a key: {e}");
                    }
                }
            }
        }
    }

    /// Returns `true` if no more input is read for the moment.
    fn is_full(&self) -> bool {
        match &self.keyboard {
            Some(_) => self.rank0.num_waiting() >= MOST_WAITING,
            None => !self.rank0.is_drained(),
        }
    }

    /// Returns `true` if the pseudo terminal of rank 0 converts line ends, if that has changed since the last call. The
    /// launcher's terminal then does the same.
    pub(crate) fn take_conversion(&mut self) -> Option<bool> {
        let keyboard = self.keyboard.as_mut()?;
        let modes = tcgetattr(self.rank0.fd()?).ok()?;
        let is_converted = (modes.output_modes).contains(OutputModes::OPOST | OutputModes::ONLCR);
        if std::mem::replace(&mut keyboard.is_converted, is_converted) == is_converted {
            return None;
        }
        keyboard.raw.convert_if(is_converted);
        Some(is_converted)
    }

    /// Returns the echo of keys that were not passed on.
    pub(crate) fn take_echo(&mut self) -> Vec<u8> {
        let keyboard = self.keyboard.as_mut();
        keyboard.map_or_else(Vec::new, |keyboard| std::mem::take(&mut keyboard.echo))
    }

    /// Returns the modes of the user, once, if the watcher does not know them.
    pub(crate) fn take_modes(&mut self) -> Option<SavedModes> {
        self.keyboard.as_mut()?.raw.take_news()
    }

    /// Restores the modes of the user before the launcher stops.
    pub(crate) fn suspend(&mut self) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.raw.leave();
        }
    }

    /// Sets the modes of the launcher after it was continued, and lets a program that controls the terminal draw its screen
    /// again.
    pub(crate) fn resume(&mut self) {
        if let Some(keyboard) = &mut self.keyboard {
            keyboard.raw.check();
        }
        self.enter();
        if let (Some(keyboard), Some(fd)) = (&self.keyboard, self.rank0.fd())
            && keyboard.keys.is_interactive()
            && let Ok(group) = tcgetpgrp(fd)
            && let Err(e) = kill_process_group(group, Signal::WINCH)
        {
            tracing::debug!("the program does not draw its screen again: {e}");
        }
    }

    /// Restores the modes of the user after the end of rank 0, and leaves further input in the terminal.
    pub(crate) fn end(&mut self, registry: &Registry) {
        self.keyboard = None;
        self.rank0.end();
        if !matches!(self.state, State::HungUp | State::Closed) {
            self.state = State::Closed;
            self.stop_polling(registry);
        }
    }

    /// Ends the input of rank 0 and stops polling the terminal.
    fn hang_up(&mut self, registry: &Registry) {
        // A pseudo terminal stays open for output. This key ends input of a program that reads lines.
        if self.keyboard.take().is_some() {
            self.take_end();
        }
        self.rank0.end();
        self.state = State::HungUp;
        self.stop_polling(registry);
    }

    fn stop_polling(&self, registry: &Registry) {
        let fd = self.terminal.as_raw_fd();
        if let Err(e) = registry.deregister(&mut SourceFd(&fd)) {
            tracing::debug!("cannot stop polling the terminal: {e}");
        }
    }
}

/// Polls a terminal without waiting.
fn news(terminal: BorrowedFd<'_>) -> News {
    let mut fds = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    let asked = loop {
        match poll(&mut fds, Some(&Timespec::default())) {
            Err(Errno::INTR) => {}
            asked => break asked,
        }
    };
    if let Err(e) = asked {
        tracing::debug!("cannot poll the terminal: {e}");
        return News::Nothing;
    }
    let told = fds[0].revents();
    match () {
        () if told.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => News::HangUp,
        () if told.contains(PollFlags::IN) => News::Input,
        () => News::Nothing,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys that send signals: which of them are for the launcher, and which are for the program of rank 0.

use rustix::process::Signal;
use rustix::termios::{LocalModes, SpecialCodeIndex, Termios};

/// The value of a special code that is switched off (`_POSIX_VDISABLE`).
const DISABLED: u8 = 0;

/// A part of what was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed<'b> {
    /// Bytes for rank 0.
    Bytes(&'b [u8]),
    /// A key by which the user signals the job.
    Signal(Signal, u8),
}

/// The state of reading keys.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// `true` if the program has read keys without line editing of the terminal.
    is_interactive: bool,
    /// `true` after the key that quotes the next one (Ctrl-V).
    is_quoted: bool,
}

impl Keys {
    /// Returns `true` if the program has read keys without line editing of the terminal.
    pub(super) const fn is_interactive(&self) -> bool {
        self.is_interactive
    }

    /// Splits typed bytes at the keys for the launcher. The modes are those of the pseudo terminal of rank 0;
    /// `is_leader` is `true` if rank 0 itself is in the foreground there.
    ///
    /// A key is for the launcher if the terminal would send its signal to rank 0, and if the program does not control the
    /// terminal. Editors and shells do: they switch off signals or line editing, or put other processes into the
    /// foreground. An interpreter switches line editing on again while it computes, so a program that has read keys once
    /// without line editing keeps all keys.
    pub(super) fn split<'b>(
        &mut self,
        bytes: &'b [u8],
        modes: &Termios,
        is_leader: bool,
    ) -> Vec<Typed<'b>> {
        self.is_interactive |= !modes.local_modes.contains(LocalModes::ICANON);
        let sends_signals = modes.local_modes.contains(LocalModes::ISIG);
        if self.is_interactive || !sends_signals || !is_leader {
            self.is_quoted = false;
            return vec![Typed::Bytes(bytes)];
        }
        let code = |index| Some(modes.special_codes[index]).filter(|code| *code != DISABLED);
        let signals = [
            (code(SpecialCodeIndex::VINTR), Signal::INT),
            (code(SpecialCodeIndex::VQUIT), Signal::QUIT),
            (code(SpecialCodeIndex::VSUSP), Signal::TSTP),
        ];
        let is_extended = modes.local_modes.contains(LocalModes::IEXTEN);
        let quote = code(SpecialCodeIndex::VLNEXT).filter(|_| is_extended);
        let mut parts = Vec::new();
        let mut begin = 0;
        for (place, byte) in bytes.iter().enumerate() {
            if std::mem::take(&mut self.is_quoted) {
                continue;
            }
            self.is_quoted = quote == Some(*byte);
            let signal = signals.iter().find(|(code, _)| *code == Some(*byte));
            if let Some((_, signal)) = signal {
                parts.extend(bytes.get(begin..place).map(Typed::Bytes));
                parts.push(Typed::Signal(*signal, *byte));
                begin = place + 1;
            }
        }
        parts.extend(bytes.get(begin..).map(Typed::Bytes));
        parts.retain(|part| *part != Typed::Bytes(b""));
        parts
    }
}

/// Returns the echo of a key, as a terminal with these modes prints it: `^C`.
pub(super) fn echo_of(key: u8, modes: &Termios) -> Option<[u8; 2]> {
    let shown = LocalModes::ECHO | LocalModes::ECHOCTL;
    (modes.local_modes.contains(shown) && key < b' ').then_some([b'^', key ^ 0x40])
}

#[cfg(test)]
mod tests {
    use rustix::pty::{OpenptFlags, openpt};
    use rustix::termios::tcgetattr;

    use super::*;

    /// Returns the modes of a new terminal.
    fn modes() -> Termios {
        let side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        tcgetattr(side).unwrap()
    }

    #[test]
    fn signals_of_a_plain_program_are_for_the_launcher() {
        let modes = modes();
        let mut keys = Keys::default();
        let parts = keys.split(b"ab\x03c\x1a\x1c", &modes, true);
        let expected = [
            Typed::Bytes(b"ab"),
            Typed::Signal(Signal::INT, 3),
            Typed::Bytes(b"c"),
            Typed::Signal(Signal::TSTP, 26),
            Typed::Signal(Signal::QUIT, 28),
        ];
        assert_eq!(parts, expected);
        // A quoted key is a character of the line, even if it comes alone.
        assert_eq!(keys.split(b"\x16", &modes, true), [Typed::Bytes(b"\x16")]);
        assert_eq!(keys.split(b"\x03", &modes, true), [Typed::Bytes(b"\x03")]);
        let expected = [Typed::Signal(Signal::INT, 3)];
        assert_eq!(keys.split(b"\x03", &modes, true), expected);
        assert_eq!(echo_of(3, &modes), Some(*b"^C"));
        assert_eq!(echo_of(b'x', &modes), None);
    }

    #[test]
    fn all_keys_are_for_a_program_that_controls_the_terminal() {
        let passed = |keys: &mut Keys, modes: &Termios, is_leader| {
            keys.split(b"\x03", modes, is_leader) == [Typed::Bytes(b"\x03")]
        };
        let cooked = modes();
        // A shell with job control has put a command into the foreground.
        let mut keys = Keys::default();
        assert!(passed(&mut keys, &cooked, false));
        assert!(!passed(&mut keys, &cooked, true));
        let mut without_signals = cooked.clone();
        without_signals.local_modes.remove(LocalModes::ISIG);
        assert!(passed(&mut keys, &without_signals, true));
        assert!(!passed(&mut keys, &cooked, true));
        let mut without_lines = cooked.clone();
        without_lines.local_modes.remove(LocalModes::ICANON);
        assert!(passed(&mut keys, &without_lines, true));
        // It computes now, and Ctrl-C interrupts the computation.
        assert!(passed(&mut keys, &cooked, true));
        let mut disabled = cooked.clone();
        disabled.special_codes[SpecialCodeIndex::VINTR] = DISABLED;
        assert_eq!(
            Keys::default().split(b"\0", &disabled, true),
            [Typed::Bytes(b"\0")]
        );
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way in which a process ended.

use std::fmt;

use rustix::process::WaitIdStatus;

/// The largest signal number.
const MOST_SIGNALS: i32 = 64;

/// The way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// An exit with this code.
    Exited(u8),
    /// A termination by a signal.
    Signalled {
        /// The number of the signal.
        signal: i32,
        /// `true` if it left a core file.
        core: bool,
    },
    /// The loss of its node, or of the link to it. Whether the process still runs is not known.
    Lost,
}

impl Ending {
    /// Returns `true` if the process exited with 0.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Exited(0))
    }

    /// Returns the exit code that a shell would report: 128 plus the number for a signal, 1 for a loss.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled { signal, .. } => of_signal(signal),
            Self::Lost => 1,
        }
    }
}

impl Ending {
    /// Returns the way in which the process ended as the predicate of a sentence.
    #[must_use]
    pub fn to_predicate(self) -> String {
        match self {
            Self::Exited(code) => format!("ended with exit code {code}"),
            Self::Signalled { signal, core } => {
                let core = if core { " (core dumped)" } else { "" };
                format!("was killed by {}{core}", signal_name(signal))
            }
            Self::Lost => "was lost with its node".to_owned(),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signalled { signal, core } => {
                let core = if core { ", core dumped" } else { "" };
                write!(f, "signal {}{core}", signal_name(signal))
            }
            Self::Lost => f.write_str("loss of its node"),
        }
    }
}

/// Returns the exit code for a signal.
pub(crate) fn of_signal(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
}

/// Returns the name of a signal, or its number if it has no name.
pub(crate) fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None => signal.to_string(),
    }
}

/// Returns the number of a signal from its name, with or without `SIG`, or from its number.
///
/// Signals without a name are not accepted.
#[must_use]
pub fn signal_number(text: &str) -> Option<i32> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    (1..=MOST_SIGNALS).find(|number| {
        let known = signal_hook::low_level::signal_name(*number);
        let known = known.and_then(|known| known.strip_prefix("SIG"));
        known.is_some_and(|known| known == name || text == number.to_string())
    })
}

impl From<&WaitIdStatus> for Ending {
    fn from(status: &WaitIdStatus) -> Self {
        if let Some(signal) = status.terminating_signal() {
            let core = status.dumped();
            return Self::Signalled { signal, core };
        }
        let code = status.exit_status().unwrap_or(0);
        // The kernel keeps only eight bits of an exit code.
        Self::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_and_a_number() {
        for text in ["TERM", "sigterm", "SIGTERM", "15"] {
            assert_eq!(signal_number(text), Some(15), "{text}");
        }
        for text in ["", "SIG", "0", "-1", "999", "NOPE"] {
            assert_eq!(signal_number(text), None, "{text}");
        }
    }

    #[test]
    fn a_signal_is_reported_like_in_a_shell() {
        let killed = Ending::Signalled {
            signal: 9,
            core: false,
        };
        assert_eq!(killed.exit_code(), 137);
        assert_eq!(killed.to_string(), "signal SIGKILL");
        let crashed = Ending::Signalled {
            signal: 11,
            core: true,
        };
        assert_eq!(crashed.to_string(), "signal SIGSEGV, core dumped");
        assert_eq!(Ending::Exited(3).exit_code(), 3);
        assert!(!Ending::Exited(3).is_success());
    }
}

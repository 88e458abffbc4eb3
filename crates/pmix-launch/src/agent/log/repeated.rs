// SPDX-License-Identifier: MIT OR Apache-2.0
//! Equal messages from many processes (`PMIX_LOG_AGG`): the first is written, the others are counted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_types::Status;

/// The period after which counted messages are reported.
const PERIOD: Duration = Duration::from_secs(5);
/// The largest number of kinds; messages of further kinds are all written.
const MOST: usize = 256;
/// The largest size of a kind in bytes; messages of a longer kind are all written.
const LONGEST: usize = 4096;

/// The identification of equal messages: `PMIX_LOG_KEY` and `PMIX_LOG_VAL`.
pub(super) type Kind = (Vec<u8>, Vec<u8>);

/// The messages that were logged since the period began.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    kinds: BTreeMap<Kind, Logged>,
    until: Option<Instant>,
}

/// The status of the first message of a kind, and the number of those after it.
#[derive(Debug)]
struct Logged {
    status: Status,
    num_more: u64,
}

impl Repeated {
    /// Counts a message if an equal one was logged before, and returns the status of that one.
    pub(super) fn count(&mut self, kind: &Kind) -> Option<Status> {
        let logged = self.kinds.get_mut(kind)?;
        logged.num_more += 1;
        Some(logged.status)
    }

    /// Records the first message of a kind with its status.
    pub(super) fn register(&mut self, kind: Kind, status: Status, now: Instant) {
        if self.kinds.len() < MOST && kind.0.len().saturating_add(kind.1.len()) <= LONGEST {
            let num_more = 0;
            self.kinds.insert(kind, Logged { status, num_more });
            self.until.get_or_insert_with(|| now + PERIOD);
        }
    }

    /// Returns the time for the next [`Self::tick`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Returns the report on counted messages if the period is over.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<String> {
        match self.until.is_some_and(|until| until <= now) {
            true => self.take(),
            false => Vec::new(),
        }
    }

    /// Returns the report on counted messages and starts a new period.
    pub(super) fn take(&mut self) -> Vec<String> {
        self.until = None;
        let kinds = std::mem::take(&mut self.kinds).into_iter();
        let counted = kinds.map(|(kind, logged)| (kind, logged.num_more));
        let counted = counted.filter(|(_, count)| *count > 0);
        let line = |((key, value), count): (Kind, u64)| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
            let (key, value) = (text(&key), text(&value));
            format!("{count} more messages like the first with {key} / {value} were suppressed")
        };
        counted.map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(value: &str) -> Kind {
        (b"help".to_vec(), value.into())
    }

    /// Returns `true` if an equal message was logged before.
    fn is_known(repeated: &mut Repeated, kind: Kind, now: Instant) -> bool {
        let is_known = repeated.count(&kind).is_some();
        if !is_known {
            repeated.register(kind, Status::SUCCESS, now);
        }
        is_known
    }

    #[test]
    fn repeated_messages_get_the_status_of_the_first() {
        let (mut repeated, now) = (Repeated::default(), Instant::now());
        assert_eq!(repeated.count(&kind("a")), None);
        repeated.register(kind("a"), Status::ERR_NOT_AVAILABLE, now);
        assert_eq!(repeated.count(&kind("a")), Some(Status::ERR_NOT_AVAILABLE));
        assert_eq!(repeated.count(&kind("b")), None);
    }

    #[test]
    fn the_first_is_written_and_the_others_are_counted() {
        let (mut repeated, now) = (Repeated::default(), Instant::now());
        let known: Vec<_> = (0..4)
            .map(|_| is_known(&mut repeated, kind("a"), now))
            .collect();
        assert_eq!(known, [false, true, true, true]);
        assert!(!is_known(&mut repeated, kind("b\n"), now));
        assert_eq!(repeated.tick(now), Vec::<String>::new());
        let said = ["3 more messages like the first with help / a were suppressed"];
        assert_eq!(repeated.deadline(), Some(now + PERIOD));
        assert_eq!(repeated.tick(now + PERIOD), said);
        assert!(repeated.deadline().is_none());
        assert!(!is_known(&mut repeated, kind("a"), now), "it is told again");
    }

    #[test]
    fn aggregation_memory_is_bounded() {
        let (mut repeated, now) = (Repeated::default(), Instant::now());
        for number in 0..1000 {
            assert!(!is_known(&mut repeated, kind(&number.to_string()), now));
        }
        assert_eq!(repeated.kinds.len(), MOST);
        assert!(!is_known(&mut repeated, kind("999"), now));
    }

    #[test]
    fn a_key_and_value_that_are_too_long_are_not_aggregated() {
        let (mut repeated, now) = (Repeated::default(), Instant::now());
        for (len, known) in [(LONGEST - "help".len(), true), (LONGEST, false)] {
            let long = "x".repeat(len);
            assert!(!is_known(&mut repeated, kind(&long), now));
            assert_eq!(is_known(&mut repeated, kind(&long), now), known, "{len}");
        }
    }
}

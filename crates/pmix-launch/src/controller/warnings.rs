// SPDX-License-Identifier: MIT OR Apache-2.0
//! The warnings about failed collectives and rejected requests. Repeated warnings are counted, so that thousands of
//! requests do not cause thousands of lines.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pmix_server::Collective;
use pmix_types::{Proc, Status};

/// The largest number of missing ranks that a warning names.
const MAX_NAMED: usize = 8;

/// The largest number of different warnings in a period; further ones are only counted.
const MAX_KINDS: usize = 32;

/// The period after which counted warnings are reported.
const PERIOD: Duration = Duration::from_secs(5);

/// The warnings of the current period: the first of a kind is written at once, repetitions are counted.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    /// The number of repetitions of each line.
    repeated: BTreeMap<String, u64>,
    /// The number of warnings beyond the limit of kinds.
    others: u64,
    /// The number of lines of reports for which standard error had no room.
    unwritten: u64,
    /// The end of the period that the first warning began.
    until: Option<Instant>,
}

impl Warnings {
    /// Warns of a failed collective and names the missing participants.
    pub(crate) fn warn(
        &mut self,
        host: &str,
        operation: Collective,
        status: Status,
        missing: &[Proc<'_>],
        now: Instant,
    ) {
        let line = format!(
            "a {operation} completed with {status}: {}",
            who(host, missing)
        );
        self.warn_of(line, now);
    }

    /// Writes a warning, or counts it if it was written before.
    pub(crate) fn warn_of(&mut self, line: String, now: Instant) {
        self.until.get_or_insert_with(|| now + PERIOD);
        if let Some(count) = self.repeated.get_mut(&line) {
            *count += 1;
        } else if self.repeated.len() < MAX_KINDS {
            tracing::warn!("{line}");
            self.repeated.insert(line, 0);
        } else {
            self.others += 1;
        }
    }

    /// Counts a line of a report for which standard error had no room.
    pub(crate) fn count_unwritten(&mut self, now: Instant) {
        self.until.get_or_insert_with(|| now + PERIOD);
        self.unwritten += 1;
    }

    /// Returns the time for the next [`Self::tick`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Reports the counted warnings if the period is over.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.write();
        }
    }

    /// Reports the counted warnings.
    pub(crate) fn write(&mut self) {
        self.until = None;
        for (line, count) in std::mem::take(&mut self.repeated) {
            if count > 0 {
                tracing::warn!("{line} (repeated {count} more times)");
            }
        }
        let others = std::mem::take(&mut self.others);
        if others > 0 {
            tracing::warn!("{others} more fences and other collectives failed");
        }
        let unwritten = std::mem::take(&mut self.unwritten);
        if unwritten > 0 {
            tracing::warn!(
                "{unwritten} lines of reports are left out, because standard error was not read"
            );
        }
    }
}

fn who(host: &str, missing: &[Proc<'_>]) -> String {
    let named = missing.iter().take(MAX_NAMED);
    let mut named: Vec<_> = named.map(|proc| proc.rank.to_string()).collect();
    if missing.len() > MAX_NAMED {
        named.push(format!("{} more", missing.len() - MAX_NAMED));
    }
    // Ranks of several jobs are rare, and the server's log names each.
    let job = missing.first().map(|first| &first.nspace);
    let job = job.filter(|job| missing.iter().all(|proc| proc.nspace == **job));
    let job = job.map_or_else(String::new, |job| format!(" of {job}"));
    match named.len() {
        0 => "no process of this node is missing".to_owned(),
        1 => format!(
            "rank {}{job} on {host} did not participate, or was lost",
            named.concat()
        ),
        _ => format!(
            "ranks {}{job} on {host} did not participate, or were lost",
            named.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Rank;

    fn warn(warnings: &mut Warnings, rank: u32, now: Instant) {
        let proc = Proc::new("job", Rank::new(rank));
        warnings.warn("n1", Collective::Fence, Status::ERR_TIMEOUT, &[proc], now);
    }

    #[test]
    fn the_first_of_a_kind_is_written_and_the_others_are_counted() {
        let mut warnings = Warnings::default();
        let now = Instant::now();
        for _ in 0..16_384 {
            warn(&mut warnings, 3, now);
        }
        assert_eq!(warnings.repeated.len(), 1);
        assert_eq!(warnings.repeated.values().sum::<u64>(), 16_383);
        assert_eq!(warnings.deadline(), Some(now + PERIOD));
        warnings.tick(now);
        assert_eq!(warnings.repeated.len(), 1);
        warnings.tick(now + PERIOD);
        assert!(warnings.repeated.is_empty() && warnings.deadline().is_none());
    }

    #[test]
    fn memory_does_not_grow_with_the_kinds_of_warnings() {
        let mut warnings = Warnings::default();
        for rank in 0..10_000 {
            warn(&mut warnings, rank, Instant::now());
        }
        assert_eq!(warnings.repeated.len(), MAX_KINDS);
        assert_eq!(warnings.others, 10_000 - MAX_KINDS as u64);
    }

    #[test]
    fn lines_without_room_are_counted_and_reported_once() {
        let mut warnings = Warnings::default();
        let now = Instant::now();
        (0..3).for_each(|_| warnings.count_unwritten(now));
        assert_eq!(
            (warnings.unwritten, warnings.deadline()),
            (3, Some(now + PERIOD))
        );
        warnings.tick(now + PERIOD);
        assert_eq!((warnings.unwritten, warnings.deadline()), (0, None));
    }

    #[test]
    fn only_some_of_many_are_named() {
        let procs: Vec<_> = (0..20)
            .map(|rank| Proc::new("j", Rank::new(rank)))
            .collect();
        assert_eq!(
            who("n1", &procs[..1]),
            "rank 0 of j on n1 did not participate, or was lost"
        );
        assert_eq!(
            who("n1", &procs),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7, 12 more of j on n1 did not participate, or were lost"
        );
    }
}

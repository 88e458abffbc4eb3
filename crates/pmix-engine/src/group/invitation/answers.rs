// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers to the loss of the leader of an invitation, and the leader that they elect.
//!
//! The first willing process that has joined becomes the leader. There is no leader if all processes that joined have
//! declined. The server of the lost leader decides, so that no two processes are elected.
//!
//! Source: the draft "PMIx Groups", "Group construct"; PMIx Standard, chapter "Process Sets and Groups".

use std::collections::HashSet;

use pmix_types::Proc;

/// The answers of the processes that may lead.
#[derive(Debug, Default)]
pub(crate) struct Election {
    answered: HashSet<Proc<'static>>,
    /// The willing processes, in the order of their answers.
    candidates: Vec<Proc<'static>>,
}

/// The outcome of the answers so far.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// This process is the leader.
    Elected(Proc<'static>),
    /// All processes have answered, and none is willing.
    NoLeader,
    /// More answers are required.
    Open,
}

impl Election {
    /// Records an answer. Returns `false` if the process had answered before: only its first answer counts.
    pub(crate) fn answer(&mut self, proc: &Proc<'static>, leads: bool) -> bool {
        let is_first = self.answered.insert(proc.clone());
        if is_first && leads {
            self.candidates.push(proc.clone());
        }
        is_first
    }

    /// Returns the number of stored names.
    pub(crate) fn len(&self) -> usize {
        self.answered.len() + self.candidates.len()
    }

    /// Returns the outcome among the processes that have joined.
    pub(crate) fn outcome(
        &self,
        joined: &HashSet<Proc<'static>>,
        is_lost: impl Fn(&Proc<'static>) -> bool,
        has_declined: impl Fn(&Proc<'static>) -> bool,
    ) -> Outcome {
        let is_in = |proc: &&Proc<'static>| !has_declined(proc) && !is_lost(proc);
        let mut candidates = self.candidates.iter().filter(is_in);
        if let Some(first) = candidates.clone().find(|proc| joined.contains(*proc)) {
            return Outcome::Elected(first.clone());
        }
        // Between servers, an offer to lead may overtake the answer to the invitation. Such a candidate keeps the
        // election open.
        let has_answered = |proc: &Proc<'static>| self.answered.contains(proc) || is_lost(proc);
        match candidates.next().is_none() && joined.iter().all(has_answered) {
            true => Outcome::NoLeader,
            false => Outcome::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    fn proc(rank: u32) -> Proc<'static> {
        Proc::new("job", Rank::new(rank))
    }

    /// Returns the outcome after answers, among ranks that joined, without lost and declined ones.
    fn outcome(answers: &[(u32, bool)], joined: &[u32], lost: &[u32], declined: &[u32]) -> Outcome {
        let mut election = Election::default();
        for (rank, leads) in answers {
            election.answer(&proc(*rank), *leads);
        }
        let joined = joined.iter().map(|rank| proc(*rank)).collect();
        let among = |ranks: &[u32], proc: &Proc<'static>| ranks.contains(&proc.rank.as_raw());
        election.outcome(
            &joined,
            |proc| among(lost, proc),
            |proc| among(declined, proc),
        )
    }

    #[test]
    fn the_first_joined_candidate_leads() {
        let answers = [(1, true), (2, false), (3, true), (4, true)];
        let joined = [1, 2, 3, 4];
        assert_eq!(
            outcome(&answers, &joined, &[], &[]),
            Outcome::Elected(proc(1))
        );
        assert_eq!(
            outcome(&answers, &joined, &[1], &[]),
            Outcome::Elected(proc(3))
        );
        assert_eq!(
            outcome(&answers, &joined, &[1], &[3]),
            Outcome::Elected(proc(4))
        );
        assert_eq!(
            outcome(&answers, &joined, &[1, 3, 4], &[]),
            Outcome::NoLeader
        );
    }

    #[test]
    fn an_election_stays_open_for_replies_and_unjoined_candidates() {
        assert_eq!(outcome(&[(1, false)], &[1, 2], &[], &[]), Outcome::Open);
        assert_eq!(
            outcome(&[(1, false)], &[1, 2], &[2], &[]),
            Outcome::NoLeader
        );
        assert_eq!(
            outcome(&[(1, false), (3, true)], &[1], &[], &[]),
            Outcome::Open
        );
        assert_eq!(
            outcome(&[(1, false), (3, true)], &[1], &[], &[3]),
            Outcome::NoLeader
        );
    }

    #[test]
    fn the_first_answer_of_a_process_counts() {
        let mut election = Election::default();
        assert!(election.answer(&proc(1), false));
        assert!(!election.answer(&proc(1), true));
        assert_eq!(election.len(), 1);
        let joined = [proc(1)].into();
        let outcome = election.outcome(&joined, |_| false, |_| false);
        assert_eq!(outcome, Outcome::NoLeader);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of the processes of all jobs, for the report: those that there are, and those that could
//! not be made.

use std::collections::BTreeSet;

use pmix_server::{Collective, GroupChange};
use pmix_types::{Proc, Rank, Text};

use crate::GroupOutcome;
use crate::host::Failed;

/// How many groups are kept; more that were not taken apart are counted alone.
const MAX_KEPT: usize = 1000;

/// The groups that were not taken apart, and those that could not be made.
#[derive(Debug, Default)]
pub(super) struct Groups {
    kept: Vec<Kept>,
    formed: u64,
}

#[derive(Debug)]
struct Kept {
    name: Text<'static>,
    members: Vec<Proc<'static>>,
    left: BTreeSet<Proc<'static>>,
    /// Those of its members that ended badly.
    lost: BTreeSet<Proc<'static>>,
    failed: Option<Failed>,
}

impl Groups {
    /// How many groups were made.
    pub(super) fn num_formed(&self) -> u64 {
        self.formed
    }

    /// Notes what became of a group.
    pub(super) fn changed(&mut self, name: Text<'static>, change: GroupChange) {
        match change {
            GroupChange::Formed(members) => {
                self.formed += 1;
                self.keep(name, members, None);
            }
            GroupChange::Left(proc) => {
                let is_in = |group: &&mut Kept| group.name == name && has(&group.members, &proc);
                // The newest one: older ones of its name failed, or they would have it still.
                if let Some(group) = self.kept.iter_mut().rev().find(is_in) {
                    group.left.insert(proc);
                }
            }
            GroupChange::TakenApart(members) => {
                self.kept
                    .retain(|group| group.name != name || group.members != members);
            }
            other => tracing::debug!(?other, %name, "a group changed"),
        }
    }

    /// Notes that a group could not be made or taken apart, if it was that.
    pub(super) fn failed(&mut self, failed: Failed) {
        let Some(name) = failed.group.clone() else {
            return;
        };
        if failed.operation == Collective::GroupDestruct {
            let is_it = |group: &&mut Kept| {
                group.name == name && failed.procs.iter().any(|proc| has(&group.members, proc))
            };
            if let Some(group) = self.kept.iter_mut().rev().find(is_it) {
                group.failed = Some(failed);
                return;
            }
        }
        let members = failed.procs.clone();
        self.keep(name, members, Some(failed));
    }

    fn keep(&mut self, name: Text<'static>, members: Vec<Proc<'static>>, failed: Option<Failed>) {
        if self.kept.len() < MAX_KEPT {
            self.kept.push(Kept {
                name,
                members,
                left: BTreeSet::new(),
                lost: BTreeSet::new(),
                failed,
            });
        }
    }

    /// Notes that processes ended badly.
    pub(super) fn lost(&mut self, procs: &[Proc<'static>]) {
        for group in &mut self.kept {
            let members = procs.iter().filter(|proc| has(&group.members, proc));
            group.lost.extend(members.cloned());
        }
    }

    /// Says what became of each.
    pub(super) fn outcomes(self) -> Vec<GroupOutcome> {
        let outcome = |group: Kept| {
            let Kept {
                name,
                members,
                left,
                lost,
                failed,
            } = group;
            let mut members = members;
            members.retain(|proc| !left.contains(proc));
            let missing: BTreeSet<_> = match &failed {
                Some(failed) => failed.missing.iter().cloned().collect(),
                None => lost.difference(&left).cloned().collect(),
            };
            GroupOutcome {
                name: String::from_utf8_lossy(name.as_bytes()).into_owned(),
                members,
                missing: missing.into_iter().collect(),
                failure: failed.map(|failed| failed.status),
            }
        };
        self.kept.into_iter().map(outcome).collect()
    }
}

fn has(members: &[Proc<'_>], proc: &Proc<'_>) -> bool {
    let is_it = |member: &Proc<'_>| {
        member.nspace == proc.nspace && (member.rank == proc.rank || member.rank == Rank::WILDCARD)
    };
    members.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use pmix_types::Status;

    use super::*;

    fn procs(ranks: &[u32]) -> Vec<Proc<'static>> {
        let proc = |rank: &u32| Proc::new("job", Rank::new(*rank));
        ranks.iter().map(proc).collect()
    }

    #[test]
    fn groups_that_were_not_taken_apart_are_told_with_who_is_missing() {
        let mut groups = Groups::default();
        for (name, members) in [("a", [0, 1, 2]), ("b", [2, 1, 3])] {
            groups.changed(name.into(), GroupChange::Formed(procs(&members)));
        }
        groups.changed("b".into(), GroupChange::Left(procs(&[1])[0].clone()));
        groups.changed("a".into(), GroupChange::TakenApart(procs(&[0, 1, 2])));
        assert_eq!(groups.num_formed(), 2);
        groups.lost(&procs(&[1, 3]));
        let told = groups.outcomes();
        let expected = GroupOutcome {
            name: "b".to_owned(),
            members: procs(&[2, 3]),
            missing: procs(&[3]),
            failure: None,
        };
        assert_eq!(told, [expected]);
    }

    #[test]
    fn a_group_that_could_not_be_made_or_taken_apart_is_told_with_who_did_not_come() {
        let mut groups = Groups::default();
        let failed = |operation| Failed {
            operation,
            group: Some("g".into()),
            procs: procs(&[0, 1]),
            status: Status::ERR_TIMEOUT,
            missing: procs(&[1]),
        };
        groups.failed(failed(Collective::GroupConstruct));
        groups.changed("g".into(), GroupChange::Formed(procs(&[0, 1])));
        groups.failed(failed(Collective::GroupDestruct));
        groups.failed(Failed {
            group: None,
            ..failed(Collective::Fence)
        });
        assert_eq!(groups.num_formed(), 1);
        let told = groups.outcomes();
        assert_eq!(told.len(), 2);
        for group in told {
            assert_eq!(group.missing, procs(&[1]));
            assert_eq!(group.failure, Some(Status::ERR_TIMEOUT));
        }
    }

    #[test]
    fn processes_of_several_jobs_with_the_same_rank_are_told_apart() {
        let of = |job: &'static str, rank| Proc::new(job, Rank::new(rank));
        let members = vec![of("a", 0), of("a", 1), of("b", 1), of("b", 2)];
        let mut groups = Groups::default();
        groups.changed("g".into(), GroupChange::Formed(members));
        groups.changed("g".into(), GroupChange::Left(of("a", 1)));
        groups.lost(&[of("b", 1), of("c", 0)]);
        let everybody = [Rank::WILDCARD].map(|rank| Proc::new("b", rank)).to_vec();
        groups.changed("all".into(), GroupChange::Formed(everybody.clone()));
        groups.lost(&[of("a", 0), of("b", 2)]);
        let told = groups.outcomes();
        assert_eq!(told[0].members, [of("a", 0), of("b", 1), of("b", 2)]);
        assert_eq!(told[0].missing, [of("a", 0), of("b", 1), of("b", 2)]);
        assert_eq!(
            (&told[1].members, &told[1].missing[..]),
            (&everybody, &[of("b", 2)][..])
        );
    }

    #[test]
    fn no_more_groups_are_kept_than_a_report_can_say() {
        let mut groups = Groups::default();
        for number in 0..3000 {
            let name = Text::from(format!("g{number}"));
            groups.changed(name, GroupChange::Formed(procs(&[0])));
        }
        assert_eq!(groups.num_formed(), 3000);
        assert_eq!(groups.outcomes().len(), MAX_KEPT);
    }
}

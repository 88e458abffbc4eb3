// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of the processes of all jobs, for the outcome: those that exist, and those whose construction failed.

use std::collections::BTreeSet;

use pmix_server::{Collective, GroupChange};
use pmix_types::{Proc, Rank, Status, Text};

use crate::GroupOutcome;
use crate::host::Failed;

/// The largest number of groups in the outcome; further ones are only counted.
const MAX_KEPT: usize = 1000;

/// The limit in bytes for these groups together. A group beyond it is only counted.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// The groups that were not destructed, and those whose construction failed.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    kept: Vec<Kept>,
    /// The bytes that the kept groups occupy.
    kept_bytes: usize,
    formed: u64,
}

#[derive(Debug)]
struct Kept {
    name: Text<'static>,
    members: Vec<Proc<'static>>,
    left: BTreeSet<Proc<'static>>,
    /// The members that failed.
    lost: BTreeSet<Proc<'static>>,
    failure: Option<Failure>,
}

/// A failed construct or destruct.
#[derive(Debug)]
struct Failure {
    status: Status,
    /// The processes that did not call.
    missing: Vec<Proc<'static>>,
}

impl Kept {
    /// Returns the approximate number of bytes of the group. Later changes to members are not counted: each of them
    /// is already counted as a member.
    fn num_bytes(&self) -> usize {
        let missing = self
            .failure
            .as_ref()
            .map_or(0, |failure| failure.missing.len());
        let num_procs = self.members.len() + missing;
        size_of::<Self>() + self.name.len() + num_procs * size_of::<Proc<'_>>()
    }
}

impl Groups {
    /// Returns the number of groups that were constructed.
    pub(crate) fn num_formed(&self) -> u64 {
        self.formed
    }

    /// Records a change of a group.
    pub(crate) fn changed(&mut self, name: Text<'static>, change: GroupChange) {
        match change {
            GroupChange::Formed(members) => {
                self.formed += 1;
                self.keep(name, members, None);
            }
            GroupChange::Left(proc) => {
                let is_in = |group: &&mut Kept| group.name == name && has(&group.members, &proc);
                // The newest group of this name. Older ones failed, otherwise the name would still be in use.
                if let Some(group) = self.kept.iter_mut().rev().find(is_in) {
                    group.left.insert(proc);
                }
            }
            GroupChange::Destructed(members) => {
                let kept_bytes = &mut self.kept_bytes;
                self.kept.retain(|group| {
                    let is_it = group.name == name && group.members == members;
                    if is_it {
                        *kept_bytes -= group.num_bytes();
                    }
                    !is_it
                });
            }
            other => tracing::debug!(?other, %name, "a group changed"),
        }
    }

    /// Records a failed construct or destruct. Other collectives are ignored.
    pub(crate) fn failed(&mut self, failed: Failed) {
        let Some(name) = failed.group else {
            return;
        };
        let failure = Failure {
            status: failed.status,
            missing: failed.missing,
        };
        if failed.operation == Collective::GroupDestruct {
            let is_it = |group: &&mut Kept| {
                group.name == name && failed.procs.iter().any(|proc| has(&group.members, proc))
            };
            if let Some(group) = self.kept.iter_mut().rev().find(is_it) {
                self.kept_bytes -= group.num_bytes();
                group.failure = Some(failure);
                self.kept_bytes += group.num_bytes();
                return;
            }
        }
        self.keep(name, failed.procs, Some(failure));
    }

    fn keep(&mut self, name: Text<'static>, members: Vec<Proc<'static>>, failure: Option<Failure>) {
        let group = Kept {
            name,
            members,
            left: BTreeSet::new(),
            lost: BTreeSet::new(),
            failure,
        };
        let kept_bytes = self.kept_bytes + group.num_bytes();
        if self.kept.len() < MAX_KEPT && kept_bytes <= MAX_KEPT_BYTES {
            self.kept_bytes = kept_bytes;
            self.kept.push(group);
        }
    }

    /// Records that processes failed.
    pub(crate) fn lost(&mut self, procs: &[Proc<'static>]) {
        for group in &mut self.kept {
            let members = procs.iter().filter(|proc| has(&group.members, proc));
            group.lost.extend(members.cloned());
        }
    }

    /// Returns the outcomes of the kept groups.
    pub(crate) fn outcomes(self) -> Vec<GroupOutcome> {
        let outcome = |group: Kept| {
            let Kept {
                name,
                members,
                left,
                lost,
                failure,
            } = group;
            let mut members = members;
            members.retain(|proc| !left.contains(proc));
            let status = failure.as_ref().map(|failure| failure.status);
            let missing: BTreeSet<_> = match failure {
                Some(failure) => failure.missing.into_iter().collect(),
                None => lost.difference(&left).cloned().collect(),
            };
            GroupOutcome {
                name: String::from_utf8_lossy(name.as_bytes()).into_owned(),
                members,
                missing: missing.into_iter().collect(),
                failure: status,
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
    fn groups_not_destructed_are_reported_with_their_missing_members() {
        let mut groups = Groups::default();
        for (name, members) in [("a", [0, 1, 2]), ("b", [2, 1, 3])] {
            groups.changed(name.into(), GroupChange::Formed(procs(&members)));
        }
        groups.changed("b".into(), GroupChange::Left(procs(&[1])[0].clone()));
        groups.changed("a".into(), GroupChange::Destructed(procs(&[0, 1, 2])));
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
    fn a_failed_construct_or_destruct_is_reported_with_its_missing_members() {
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
    fn processes_with_the_same_rank_in_several_jobs_are_distinguished() {
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
    fn the_groups_kept_are_bounded_in_bytes() {
        let mut groups = Groups::default();
        let members: Vec<_> = (0..30_000).collect();
        for number in 0..60 {
            let name = Text::from(format!("g{number}"));
            groups.changed(name, GroupChange::Formed(procs(&members)));
        }
        let most = MAX_KEPT_BYTES / (members.len() * size_of::<Proc<'_>>());
        assert_eq!(groups.kept.len(), most);
        // A destructed group makes room for others.
        for number in 0..most {
            let name = Text::from(format!("g{number}"));
            groups.changed(name, GroupChange::Destructed(procs(&members)));
        }
        assert_eq!(groups.kept_bytes, 0);
        groups.changed("last".into(), GroupChange::Formed(procs(&[0])));
        assert_eq!(groups.outcomes().len(), 1);
    }

    #[test]
    fn the_groups_kept_are_bounded_in_number() {
        let mut groups = Groups::default();
        for number in 0..3000 {
            let name = Text::from(format!("g{number}"));
            groups.changed(name, GroupChange::Formed(procs(&[0])));
        }
        assert_eq!(groups.num_formed(), 3000);
        assert_eq!(groups.outcomes().len(), MAX_KEPT);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs, their processes and scripts.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::time::Duration;

use pmix_types::{Proc, Rank, Scope, Text, Value};

use crate::client::Who;
use crate::random::Random;

/// The index of a process.
pub(crate) type ProcId = usize;

/// A job with consecutive ranks on each node.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) nspace: &'static str,
    pub(crate) per_node: Vec<u32>,
    /// The index of its first process.
    pub(crate) first: ProcId,
    /// `true` after its deregistration.
    pub(crate) is_gone: bool,
    /// `true` once it was started; others wait for a spawn.
    pub(crate) is_begun: bool,
    /// The process that spawned it, and the script of its processes.
    pub(crate) parent: Option<ProcId>,
    pub(crate) script: Option<Vec<Phase>>,
}

impl Job {
    pub(crate) fn size(&self) -> u32 {
        self.per_node.iter().sum()
    }

    /// Returns the indexes of its processes.
    pub(crate) fn procs(&self) -> Range<ProcId> {
        self.first..self.first + usize::try_from(self.size()).unwrap()
    }

    pub(crate) fn ranks_on(&self, node: usize) -> Range<u32> {
        let Some(count) = self.per_node.get(node) else {
            return 0..0;
        };
        let first = self.per_node[..node].iter().sum();
        first..first + count
    }
}

/// A process with all of its incarnations.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) job: usize,
    pub(crate) rank: u32,
    pub(crate) nspace: &'static str,
    pub(crate) node: usize,
    /// The connection of the process, while it is alive.
    pub(crate) client: Option<Who>,
    /// The next step of the script.
    pub(crate) phase: usize,
    /// The steps before that.
    pub(crate) then: Vec<Phase>,
    /// The stamp of the data that it puts.
    pub(crate) stamp: Stamp,
    /// The stamps of its sent commits.
    pub(crate) committed: Vec<Stamp>,
    /// The stamp of the last commit that its server accepted.
    pub(crate) shared: Option<Stamp>,
    /// The first incarnation whose data are valid on its node.
    pub(crate) floor: u16,
    /// The last incarnation whose loss other nodes have learned of, and the last of which no data were in transit then.
    pub(crate) heard: BTreeMap<usize, u16>,
    pub(crate) settled: BTreeMap<usize, u16>,
    /// `true` if its last incarnation was lost.
    pub(crate) was_lost: bool,
    /// The end of that incarnation.
    pub(crate) ended_at: Duration,
    /// The last admitted incarnation.
    pub(crate) admitted: u16,
    /// The time of its admission, and the number of incarnations that this server has admitted.
    pub(crate) admitted_at: Duration,
    pub(crate) num_admitted: u32,
    /// `true` while it is registered.
    pub(crate) is_registered: bool,
    /// `true` if the number of its calls is undetermined for others.
    pub(crate) is_restless: bool,
}

impl Process {
    pub(crate) fn name(&self) -> Proc<'static> {
        Proc::new(self.nspace, Rank::new(self.rank))
    }
}

/// The identity of put data: incarnation, number of the commit, and the keys used in this incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub(crate) life: u16,
    pub(crate) version: u16,
    pub(crate) keys: u16,
}

/// The keys that processes put, with their scopes.
pub(crate) const KEYS: [(&str, Scope); 4] = [
    ("card", Scope::GLOBAL),
    ("shm", Scope::LOCAL),
    ("nic", Scope::REMOTE),
    ("blob", Scope::GLOBAL),
];

impl Stamp {
    /// Returns `true` if the process puts a key in this incarnation.
    pub(crate) fn has(self, key: &str) -> bool {
        let place = KEYS.iter().position(|(known, _)| *known == key);
        place.is_some_and(|place| self.keys & (1 << place) != 0)
    }

    /// Returns a value that contains its process and stamp.
    pub(crate) fn value(self, proc: ProcId, key: &str) -> Value<'static> {
        let number = u64::try_from(proc).unwrap() << 48
            | u64::from(self.life) << 32
            | u64::from(self.version) << 16
            | u64::from(self.keys);
        match key {
            "blob" => {
                let text = format!("{number:016x}");
                Value::from(text.repeat(1 + usize::from(self.version) * 40))
            }
            _ => Value::from(number),
        }
    }

    /// Returns the process and stamp in a value.
    pub(crate) fn of(value: &Value<'_>) -> Option<(ProcId, Self)> {
        let number = match value {
            Value::Uint64(number) => *number,
            Value::String(Some(text)) => {
                let text = text.as_str()?;
                let first = text.get(..16)?;
                let is_whole = text.len().is_multiple_of(16)
                    && text.as_bytes().chunks(16).all(|c| c == first.as_bytes());
                let number = u64::from_str_radix(first, 16).ok()?;
                is_whole.then_some(number)?
            }
            _ => return None,
        };
        let part = |shift: u32| u16::try_from(number >> shift & 0xffff).unwrap();
        let stamp = Self {
            life: part(32),
            version: part(16),
            keys: part(0),
        };
        Some((usize::from(part(48)), stamp))
    }
}

/// The kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Fence,
    Connect,
    Disconnect,
    /// A construct of a group: its number among those of the same processes, or 0 if that does not matter.
    Group(usize),
    /// The destruct of that group.
    Destruct(usize),
}

/// A collective with its participants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Collective {
    pub(crate) kind: Kind,
    /// The participants in ascending order.
    pub(crate) members: Vec<ProcId>,
}

impl Collective {
    /// Returns the leader of a construct with one.
    pub(crate) fn leader(&self) -> Option<ProcId> {
        let sum: usize = self.members.iter().sum();
        let is_led = matches!(self.kind, Kind::Group(_)) && !sum.is_multiple_of(4);
        let leader = self.members.get(sum / 4 % self.members.len().max(1));
        leader.copied().filter(|_| is_led)
    }

    /// Returns the name of the group with this number.
    pub(crate) fn group(&self, round: usize) -> String {
        group_name(&self.members, round)
    }
}

/// The first number of groups with members that do not all know each other.
pub(crate) const FIRST_ADD_MEMBERS: usize = 1000;

/// Returns the name of a group; with added members, it does not depend on the processes.
pub(crate) fn group_name(members: &[ProcId], round: usize) -> String {
    if round >= FIRST_ADD_MEMBERS {
        return format!("added-{round}");
    }
    let mut hasher = DefaultHasher::new();
    members.hash(&mut hasher);
    format!("group-{:016x}-{round}", hasher.finish())
}

/// Returns the number in a name of [`group_name`].
pub(crate) fn round_of(name: &Text<'_>) -> usize {
    let (_, round) = name.as_str().unwrap().rsplit_once('-').unwrap();
    round.parse().unwrap()
}

/// A step that all processes take in the same order.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Individual actions.
    Own,
    /// A collective of some processes.
    Collective {
        collective: Collective,
        collects: bool,
        /// `true` if whole jobs are named by wildcards.
        is_short: bool,
        /// The time limit in seconds.
        timeout: Option<u32>,
        /// `true` if they continue before its end.
        is_loose: bool,
    },
    /// A construct with added members.
    AddMembers(usize),
    /// The destruct of that group.
    DestructAddMembers(usize),
    /// The destruct of the last group that these processes constructed.
    Destruct {
        /// The constructing processes.
        collective: Collective,
        /// The time limit in seconds.
        timeout: Option<u32>,
    },
}

/// Returns the script of all processes.
pub(crate) fn script(random: &mut Random, jobs: &[Job]) -> Vec<Phase> {
    let mut known: Vec<Collective> = Vec::new();
    let num_phases = 3 + random.below(8);
    let mut phases = vec![Phase::Own];
    for _ in 0..num_phases {
        if random.once_in(2) {
            phases.push(Phase::Own);
            continue;
        }
        let collective = match known.len() {
            0 => collective(random, jobs),
            _ if random.once_in(2) => collective(random, jobs),
            _ => random.pick(&known).clone(),
        };
        if collective.members.is_empty() {
            continue;
        }
        known.push(collective.clone());
        let group = matches!(collective.kind, Kind::Group(_)).then(|| collective.clone());
        phases.push(Phase::Collective {
            collective,
            collects: random.once_in(2),
            is_short: random.once_in(2),
            timeout: (!random.once_in(3)).then(|| 1 + random.below_u32(5)),
            is_loose: random.once_in(4),
        });
        if let Some(collective) = group.filter(|_| !random.once_in(3)) {
            phases.extend((0..random.below(3)).map(|_| Phase::Own));
            phases.push(Phase::Destruct {
                collective,
                timeout: (!random.once_in(3)).then(|| 1 + random.below_u32(5)),
            });
        }
    }
    phases
}

/// The modulus and the remainder of the seeds with more constructs with a leader, during which processes crash.
pub(crate) const LED_RUNS: (u64, u64) = (4, 1);

/// Adds constructs with a leader to the script of all processes.
pub(crate) fn add_led(seed: u64, jobs: &[Job], script: &mut Vec<Phase>) {
    let mut random = Random::new(seed.rotate_left(32));
    for _ in 0..2 + random.below(3) {
        let all = jobs.iter().flat_map(Job::procs);
        let members: Vec<_> = all.filter(|_| !random.once_in(4)).collect();
        let collective = Collective {
            kind: Kind::Group(0),
            members,
        };
        if collective.leader().is_none() {
            continue;
        }
        let at = 1 + random.below(script.len());
        script.insert(
            at,
            Phase::Collective {
                collective,
                collects: false,
                is_short: random.once_in(2),
                timeout: random.once_in(2).then(|| 3 + random.below_u32(4)),
                is_loose: random.once_in(4),
            },
        );
    }
}

fn collective(random: &mut Random, jobs: &[Job]) -> Collective {
    let whole = |job: &Job| job.first..job.first + usize::try_from(job.size()).unwrap();
    let own = whole(random.pick(jobs));
    let all = 0..whole(jobs.last().unwrap()).end;
    let members: Vec<_> = match random.below(4) {
        0 | 1 => own.collect(),
        2 => all.collect(),
        _ => all.filter(|_| !random.once_in(3)).collect(),
    };
    let kind = match random.below(8) {
        0 => Kind::Connect,
        1 => Kind::Disconnect,
        2 | 3 => Kind::Group(0),
        _ => Kind::Fence,
    };
    Collective { kind, members }
}

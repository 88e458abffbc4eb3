// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs, their processes, and what these have to do.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::time::Duration;

use pmix_types::{Proc, Rank, Scope, Text, Value};

use crate::client::Who;
use crate::random::Random;

/// The place of a process among all.
pub(crate) type ProcId = usize;

/// A job: consecutive ranks on each node.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) nspace: &'static str,
    pub(crate) per_node: Vec<u32>,
    /// The place of its first process among all.
    pub(crate) first: ProcId,
    /// Whether it was deregistered.
    pub(crate) is_gone: bool,
    /// Whether it was started. Others wait to be spawned.
    pub(crate) is_begun: bool,
    /// The process that had it started, and what its processes do then.
    pub(crate) parent: Option<ProcId>,
    pub(crate) script: Option<Vec<Phase>>,
}

impl Job {
    pub(crate) fn size(&self) -> u32 {
        self.per_node.iter().sum()
    }

    /// Its processes among all.
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

/// A process, whatever life it is in.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) job: usize,
    pub(crate) rank: u32,
    pub(crate) nspace: &'static str,
    pub(crate) node: usize,
    /// Its connection, while it lives.
    pub(crate) client: Option<Who>,
    /// How far it has come in the script.
    pub(crate) phase: usize,
    /// What it does before it goes on with that.
    pub(crate) then: Vec<Phase>,
    /// What it says about itself when it puts something.
    pub(crate) stamp: Stamp,
    /// What it has asked its server to share.
    pub(crate) committed: Vec<Stamp>,
    /// The last commit that its server has taken.
    pub(crate) shared: Option<Stamp>,
    /// Older lives are not to be seen on its node.
    pub(crate) floor: u16,
    /// The last life of which other nodes have heard that it is lost, and the one of which nothing
    /// was on its way to them then.
    pub(crate) heard: BTreeMap<usize, u16>,
    pub(crate) settled: BTreeMap<usize, u16>,
    /// Whether its last life ended without notice.
    pub(crate) was_lost: bool,
    /// When that life ended.
    pub(crate) ended_at: Duration,
    /// The last life that its server let in, and how many this server has.
    pub(crate) admitted: u16,
    /// When that was.
    pub(crate) admitted_at: Duration,
    pub(crate) num_admitted: u32,
    /// Whether it may connect.
    pub(crate) is_registered: bool,
    /// Whether it is not clear to others how many calls it has made.
    pub(crate) is_restless: bool,
}

impl Process {
    pub(crate) fn name(&self) -> Proc<'static> {
        Proc::new(self.nspace, Rank::new(self.rank))
    }
}

/// What a process puts: who it is, which life, the number of the commit, and which keys it uses in
/// this life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub(crate) life: u16,
    pub(crate) version: u16,
    pub(crate) keys: u16,
}

/// Keys that processes put, and for whom.
pub(crate) const KEYS: [(&str, Scope); 4] = [
    ("card", Scope::GLOBAL),
    ("shm", Scope::LOCAL),
    ("nic", Scope::REMOTE),
    ("blob", Scope::GLOBAL),
];

impl Stamp {
    /// Whether a key is among those that the process puts in this life.
    pub(crate) fn has(self, key: &str) -> bool {
        let place = KEYS.iter().position(|(known, _)| *known == key);
        place.is_some_and(|place| self.keys & (1 << place) != 0)
    }

    /// A value that says whose it is.
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

    /// What a value says.
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

/// What processes do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Fence,
    Connect,
    Disconnect,
    /// They make a group: its number among those of the same processes, or 0 where that does not
    /// matter.
    Group(usize),
    /// They destruct that group.
    Destruct(usize),
}

/// What processes do together, and which ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Collective {
    pub(crate) kind: Kind,
    /// In ascending order.
    pub(crate) members: Vec<ProcId>,
}

impl Collective {
    /// Who leads, if these make groups that one of them leads.
    pub(crate) fn leader(&self) -> Option<ProcId> {
        let sum: usize = self.members.iter().sum();
        let is_led = matches!(self.kind, Kind::Group(_)) && !sum.is_multiple_of(4);
        let leader = self.members.get(sum / 4 % self.members.len().max(1));
        leader.copied().filter(|_| is_led)
    }

    /// The name of the group of this number that these processes make.
    pub(crate) fn group(&self, round: usize) -> String {
        group_name(&self.members, round)
    }
}

/// The first number of groups whose members do not all know each other.
pub(crate) const FIRST_ADD_MEMBERS: usize = 1000;

/// The name of the group of a number that processes make; where members are added it does not say whose it is.
pub(crate) fn group_name(members: &[ProcId], round: usize) -> String {
    if round >= FIRST_ADD_MEMBERS {
        return format!("added-{round}");
    }
    let mut hasher = DefaultHasher::new();
    members.hash(&mut hasher);
    format!("group-{:016x}-{round}", hasher.finish())
}

/// The number of a group in the name that [`group_name`] made.
pub(crate) fn round_of(name: &Text<'_>) -> usize {
    let (_, round) = name.as_str().unwrap().rsplit_once('-').unwrap();
    round.parse().unwrap()
}

/// A step that all processes take in the same order.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Each does something of its own.
    Own,
    /// Some do something together.
    Collective {
        collective: Collective,
        collects: bool,
        /// Whether whole jobs are named by a wildcard.
        is_short: bool,
        /// In seconds.
        timeout: Option<u32>,
        /// Whether they go on before it has ended.
        is_loose: bool,
    },
    /// Those who are a part of the construction of a number call for it.
    AddMembers(usize),
    /// Those who are in that group destruct it.
    DestructAddMembers(usize),
    /// Those who are in a group destruct the last that they made.
    Destruct {
        /// Who made it.
        collective: Collective,
        /// In seconds.
        timeout: Option<u32>,
    },
}

/// What all processes have to do.
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

/// In which of so many runs there are more constructions that one of the members leads, and processes end in the
/// middle of them.
pub(crate) const LED_RUNS: (u64, u64) = (4, 1);

/// Adds constructions that one of the members leads to what all processes have to do.
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

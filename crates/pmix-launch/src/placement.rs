// SPDX-License-Identifier: MIT OR Apache-2.0
//! The placement of processes on processors.

use pmix_topology::{Cpuset, Level, Topology};

/// The order in which processes are mapped to the parts of a node (`PMIX_MAPBY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapBy {
    /// The available cores in order.
    Slot,
    /// The parts of a level, round-robin.
    Level(Level),
}

impl MapBy {
    /// Returns the name of the policy as `PMIX_MAPBY` has it: `BYSLOT`, `BYCORE` and so on.
    #[must_use]
    pub fn attribute(self) -> String {
        let name = match self {
            Self::Slot => "slot",
            Self::Level(level) => level.name(),
        };
        format!("BY{}", name.to_ascii_uppercase())
    }
}

/// The policy for mapping and binding processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The order in which processes are mapped.
    pub map_by: MapBy,
    /// The level of the parts to which each process is bound; `None` to leave processes unbound.
    pub bind_to: Option<Level>,
    /// The number of parts to which each process is bound; 1 unless programs have several threads.
    pub parts_each: usize,
    /// The number of processes that one part of [`map_by`](Self::map_by) gets before the next part; `None` maps them
    /// round-robin.
    pub procs_each: Option<usize>,
    /// `true` to refuse a job whose processes do not all get [`parts_each`](Self::parts_each) parts, or that has more
    /// than [`procs_each`](Self::procs_each) processes for a part. Otherwise processes share the available parts,
    /// beginning again with the first.
    pub strict: bool,
}

impl Default for Policy {
    /// Returns the policy by slot without binding: a launcher that does not own the node cannot know which of its
    /// cores are idle.
    fn default() -> Self {
        Self {
            map_by: MapBy::Slot,
            bind_to: None,
            parts_each: 1,
            procs_each: None,
            strict: false,
        }
    }
}

/// Returns the allowed processors of each part of a level that overlaps `home`.
fn parts(topology: &Topology, level: Level, home: &Cpuset, allowed: &Cpuset) -> Vec<Cpuset> {
    let around = topology.parts(level).iter();
    let around = around.filter(|part| part.intersects(home));
    let parts = around.map(|part| part.and(allowed));
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => vec![allowed.clone()],
        false => parts,
    }
}

impl Policy {
    /// Returns the parts that [`map_by`](Self::map_by) names. If these are no larger than the parts of which each
    /// process gets several, processes take parts in order, as by slot.
    fn homes(&self, topology: &Topology, allowed: &Cpuset) -> Vec<Cpuset> {
        match self.map_by {
            MapBy::Level(level) if !self.has_parts_in_a_row(level) => {
                parts(topology, level, allowed, allowed)
            }
            MapBy::Slot | MapBy::Level(_) => vec![allowed.clone()],
        }
    }

    /// Returns `true` if each process gets several parts, and these are as large as the parts of `level` or larger.
    fn has_parts_in_a_row(&self, level: Level) -> bool {
        // Levels are ordered from the widest to the narrowest.
        let is_narrow = self.bind_to.is_some_and(|bind_to| level >= bind_to);
        is_narrow && self.parts_each > 1 && self.procs_each.is_none_or(|each| each <= 1)
    }

    /// Checks that a [strict](Self::strict) policy can place this number of processes.
    ///
    /// # Errors
    /// Returns a message that names the missing parts.
    pub(crate) fn check(
        &self,
        topology: &Topology,
        allowed: &Cpuset,
        num_procs: usize,
    ) -> Result<(), String> {
        if !self.strict {
            return Ok(());
        }
        let homes = self.homes(topology, allowed);
        let num_homes = homes.len();
        let numbers = self.bind_to.map(|bind_to| {
            let num_parts = |home| parts(topology, bind_to, home, allowed).len();
            (
                bind_to.name(),
                homes.iter().map(num_parts).collect::<Vec<_>>(),
            )
        });
        let parts_each = self.parts_each;
        let fewest = numbers
            .as_ref()
            .and_then(|(part, all)| Some((part, all.iter().min()?)));
        if let Some((part, fewest)) = fewest.filter(|(_, fewest)| parts_each > **fewest) {
            let of = match self.map_by {
                MapBy::Level(level) if Some(level) != self.bind_to => {
                    format!(" of a {}", level.name())
                }
                _ => String::new(),
            };
            return Err(format!(
                "{parts_each} {part}s{of} were requested for each process, but only {fewest} are available"
            ));
        }
        let MapBy::Level(level) = self.map_by else {
            return Ok(());
        };
        if let Some(each) = self.procs_each
            && !self.has_parts_in_a_row(level)
        {
            return match num_procs > num_homes.saturating_mul(each) {
                true => Err(format!(
                    "{num_procs} processes with {each} on each {} need more than the {num_homes} that {} available",
                    level.name(),
                    if num_homes == 1 { "is" } else { "are" },
                )),
                false => Ok(()),
            };
        }
        // Processes take turns between the parts of `map_by`.
        let has_room = |(index, number): (usize, &usize)| {
            let num_there = (num_procs + num_homes - 1 - index) / num_homes;
            num_there.saturating_mul(parts_each) <= *number
        };
        match numbers {
            Some((part, numbers)) if !numbers.iter().enumerate().all(has_room) => Err(format!(
                "{num_procs} processes with {parts_each} {part}{} each need more than the {} that are available",
                if parts_each == 1 { "" } else { "s" },
                numbers.iter().sum::<usize>(),
            )),
            _ => Ok(()),
        }
    }
}

/// Returns the processors of each of `num_procs` processes, chosen from `allowed`; empty if the policy does not bind.
///
/// If there are more processes than parts, the assignment begins again with the first part.
#[must_use]
pub fn place(
    policy: Policy,
    topology: &Topology,
    allowed: &Cpuset,
    num_procs: usize,
) -> Vec<Cpuset> {
    let Some(bind_to) = policy.bind_to else {
        return Vec::new();
    };
    let homes = policy.homes(topology, allowed);
    let groups = |home| groups(&parts(topology, bind_to, home, allowed), policy.parts_each);
    let choices: Vec<_> = homes.iter().map(groups).collect();
    let procs_each = policy.procs_each.unwrap_or(1).max(1);
    (0..num_procs)
        .map(|index| {
            let (home, turn) = (index / procs_each, index % procs_each);
            let choices = &choices[home % homes.len()];
            // The number of processes that this home already has.
            let turn = home / homes.len() * procs_each + turn;
            choices[turn % choices.len()].clone()
        })
        .collect()
}

/// Groups `parts_each` parts at a time and drops the rest. Returns one group if there are too few parts.
fn groups(parts: &[Cpuset], parts_each: usize) -> Vec<Cpuset> {
    let parts_each = parts_each.clamp(1, parts.len().max(1));
    let groups = parts.chunks_exact(parts_each);
    groups
        .map(|group| group.iter().flat_map(Cpuset::iter).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(map_by: MapBy, bind_to: Level, allowed: &str, num_procs: usize) -> Vec<String> {
        let policy = Policy {
            map_by,
            bind_to: Some(bind_to),
            ..Policy::default()
        };
        let allowed = Cpuset::parse(allowed).unwrap();
        place(policy, &machine(), &allowed, num_procs)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_process_may_have_several_parts_and_a_part_several_processes() {
        let allowed = Cpuset::parse("0-7").unwrap();
        let placed = |policy: Policy, num_procs| -> Vec<String> {
            let placed = place(policy, &machine(), &allowed, num_procs);
            placed.iter().map(ToString::to_string).collect()
        };
        let two_cores = Policy {
            bind_to: Some(Level::Core),
            parts_each: 2,
            ..Policy::default()
        };
        assert_eq!(placed(two_cores, 3), ["0-3", "4-7", "0-3"]);
        let three = Policy {
            parts_each: 3,
            ..two_cores
        };
        assert_eq!(placed(three, 2), ["0-5", "0-5"]);
        let many = Policy {
            parts_each: 99,
            ..two_cores
        };
        assert_eq!(placed(many, 1), ["0-7"]);
        let two_a_package = Policy {
            map_by: MapBy::Level(Level::Package),
            bind_to: Some(Level::Core),
            procs_each: Some(2),
            ..Policy::default()
        };
        assert_eq!(placed(two_a_package, 4), ["0-1", "2-3", "4-5", "6-7"]);
        for level in [Level::Core, Level::HwThread] {
            let by_core = Policy {
                map_by: MapBy::Level(level),
                ..two_cores
            };
            assert_eq!(placed(by_core, 3), ["0-3", "4-7", "0-3"]);
        }
        let two_threads = Policy {
            map_by: MapBy::Level(Level::Core),
            bind_to: Some(Level::HwThread),
            ..two_cores
        };
        assert_eq!(placed(two_threads, 2), ["0-1", "2-3"]);
    }

    #[test]
    fn what_is_asked_for_strictly_is_had_or_refused() {
        let check = |policy: Policy, allowed: &str, num_procs| {
            let allowed = Cpuset::parse(allowed).unwrap();
            let policy = Policy {
                bind_to: Some(Level::Core),
                ..policy
            };
            assert_eq!(
                Policy {
                    strict: false,
                    ..policy
                }
                .check(&machine(), &allowed, num_procs),
                Ok(())
            );
            policy.check(&machine(), &allowed, num_procs).err()
        };
        let cores = |parts_each| Policy {
            parts_each,
            strict: true,
            ..Policy::default()
        };
        assert_eq!(check(cores(4), "0-7", 9), None);
        let refused = check(cores(5), "0-7", 1).unwrap();
        assert!(
            refused.contains("5 cores were requested for each process, but only 4 are available"),
            "{refused}"
        );
        assert!(check(cores(3), "0-3", 1).is_some());
        let ppr = |procs_each, parts_each| Policy {
            map_by: MapBy::Level(Level::Package),
            procs_each: Some(procs_each),
            ..cores(parts_each)
        };
        assert_eq!(check(ppr(2, 1), "0-7", 4), None);
        let refused = check(ppr(2, 1), "0-7", 5).unwrap();
        assert!(refused.contains("2 on each package"), "{refused}");
        let by_core = |parts_each| Policy {
            map_by: MapBy::Level(Level::Core),
            ..cores(parts_each)
        };
        assert_eq!(check(by_core(2), "0-7", 2), None);
        let refused = check(by_core(2), "0-7", 3).unwrap();
        assert!(
            refused.contains("than the 4 that are available"),
            "{refused}"
        );
        assert!(check(by_core(5), "0-7", 1).is_some());
        // A package has two cores, so two processes with one core each share none.
        let by_package = |parts_each| Policy {
            map_by: MapBy::Level(Level::Package),
            ..cores(parts_each)
        };
        assert_eq!(check(by_package(1), "0-7", 4), None);
        assert_eq!(check(by_package(2), "0-7", 2), None);
        assert_eq!(check(by_package(1), "0-3", 2), None);
        let refused = check(by_package(1), "0-7", 5).unwrap();
        assert!(
            refused.contains("5 processes with 1 core each need more than the 4 that are"),
            "{refused}"
        );
        assert!(check(by_package(2), "0-7", 3).is_some());
        assert!(check(by_package(1), "0-5", 4).is_some());
        let per_node = Policy {
            map_by: MapBy::Level(Level::Node),
            bind_to: None,
            procs_each: Some(1),
            ..cores(1)
        };
        let everything = Cpuset::parse("0-7").unwrap();
        assert_eq!(per_node.check(&machine(), &everything, 1), Ok(()));
        let refused = per_node.check(&machine(), &everything, 2).unwrap_err();
        assert!(
            refused.contains("2 processes with 1 on each node need more than the 1 that is"),
            "{refused}"
        );
        let refused = check(ppr(1, 3), "0-7", 1).unwrap();
        assert!(
            refused
                .contains("of a package were requested for each process, but only 2 are available"),
            "{refused}"
        );
    }

    /// Returns a machine with two packages of two cores with two threads each.
    fn machine() -> Topology {
        let packages = ["0-3", "4-7"].map(|list| (Level::Package, list));
        let cores = ["0-1", "2-3", "4-5", "6-7"].map(|list| (Level::Core, list));
        let parts = packages.into_iter().chain(cores);
        let parts = parts.map(|(level, list)| (level, Cpuset::parse(list).unwrap()));
        Topology::of_parts(&(0..8).collect(), parts)
    }

    #[test]
    fn slots_fill_one_core_after_the_other_and_start_again() {
        assert_eq!(
            placed(MapBy::Slot, Level::Core, "0-7", 5),
            ["0-1", "2-3", "4-5", "6-7", "0-1"]
        );
        assert_eq!(
            placed(MapBy::Slot, Level::HwThread, "0-7", 3),
            ["0", "1", "2"]
        );
    }

    #[test]
    fn packages_take_turns_and_their_cores_too() {
        assert_eq!(
            placed(MapBy::Level(Level::Package), Level::Core, "0-7", 5),
            ["0-1", "4-5", "2-3", "6-7", "0-1"]
        );
        assert_eq!(
            placed(MapBy::Level(Level::Core), Level::Package, "0-7", 3),
            ["0-3", "0-3", "4-7"]
        );
    }

    #[test]
    fn what_is_not_allowed_is_not_used() {
        assert_eq!(
            placed(MapBy::Level(Level::Core), Level::Core, "1,4-5", 3),
            ["1", "4-5", "1"]
        );
    }

    #[test]
    fn a_level_that_the_machine_does_not_have_is_everything() {
        assert_eq!(
            placed(MapBy::Level(Level::Numa), Level::Core, "0-7", 2),
            ["0-1", "2-3"]
        );
        assert_eq!(placed(MapBy::Slot, Level::Numa, "0-7", 1), ["0-7"]);
    }

    #[test]
    fn nothing_is_confined_unless_asked() {
        let allowed = Cpuset::parse("0-7").unwrap();
        assert!(place(Policy::default(), &machine(), &allowed, 4).is_empty());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The services of the controller for processes of all jobs: published data, credentials, groups, process sets.

use std::collections::HashMap;
use std::time::Instant;

use pmix_host::groups::{EndedConstruct, GroupAssembler, Processes};
use pmix_host::publish::PublishService;
use pmix_server::upcall::Group;
use pmix_server::{Completion, CredentialService};
use pmix_types::{GroupOperation, Info, IntoOwned as _, Nspace, Proc, Status, Text, Value, keys};
use rustix::process::{getegid, geteuid};

use super::groups::Groups;
use crate::{Error, Plan};

/// The index of the only server.
const HERE: usize = 0;

type Infos = Vec<Info<'static>>;

/// The services of the controller.
pub(crate) struct Services {
    published: PublishService,
    credentials: CredentialService,
    sets: DefinedSets,
    /// The groups of all jobs, for the outcome.
    groups: Groups,
    /// The group constructs whose members do not all know each other.
    assembler: GroupAssembler<Completion<Infos>>,
    /// The last context id that was assigned to a group. Each id is assigned once, beginning with 1.
    last_context: u64,
}

impl Services {
    /// Creates the services.
    ///
    /// # Errors
    /// Returns [`Error`] if there are no credentials.
    pub(crate) fn new(plan: &Plan) -> Result<Self, Error> {
        let user = (geteuid().as_raw(), getegid().as_raw());
        let credentials = CredentialService::new(&plan.params, user);
        Ok(Self {
            published: PublishService::default(),
            credentials: credentials.map_err(|e| Error::server("cannot create credentials", e))?,
            sets: DefinedSets::default(),
            groups: Groups::default(),
            assembler: GroupAssembler::default(),
            last_context: 0,
        })
    }

    /// Returns the published data.
    pub(crate) fn published(&mut self) -> &mut PublishService {
        &mut self.published
    }

    /// Returns the credentials.
    pub(crate) fn credentials(&mut self) -> &mut CredentialService {
        &mut self.credentials
    }

    /// Returns the groups of the outcome.
    pub(crate) fn groups(&mut self) -> &mut Groups {
        &mut self.groups
    }

    /// Counts a process set, which replaces one of the same name. Returns `false` if there is no room for it.
    pub(crate) fn add_set(&mut self, name: &Text<'_>, num_bytes: usize) -> bool {
        self.sets.add(name, num_bytes)
    }

    /// Completes a construct or destruct of a group. All its processes belong to jobs of the session. `number` is that of
    /// the calling node, if the session has several.
    pub(crate) fn group(
        &mut self,
        number: Option<usize>,
        call: &Group,
        processes: &impl Processes,
        done: Completion<Infos>,
    ) {
        if number.is_some() || GroupAssembler::<Completion<Infos>>::concerns(call) {
            let (number, now) = (number.unwrap_or(HERE), Instant::now());
            let ended = self.assembler.take(done, number, call, processes, now);
            return self.complete_constructs(ended);
        }
        let mut infos = Vec::new();
        if call.operation == GroupOperation::CONSTRUCT {
            let wants_context = |info: &Info<'_>| {
                info.key.is(keys::GROUP_ASSIGN_CONTEXT_ID) && info.truth().is_true()
            };
            if call.directives.iter().any(wants_context) {
                infos.push(self.next_context());
            }
        }
        done.succeed(infos);
    }

    /// Drops the data and constructs of a process that has ended.
    pub(crate) fn proc_ended(&mut self, proc: &Proc<'static>, processes: &impl Processes) {
        self.published.proc_ended(proc);
        let ended = self.assembler.proc_ended(proc, processes);
        self.complete_constructs(ended);
    }

    /// Drops the data of a job that has ended.
    pub(crate) fn job_ended(&mut self, nspace: &Nspace<'static>) {
        self.published.job_ended(nspace);
    }

    /// Ends lookups and constructs whose time limit has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.published.tick(now);
        let ended = self.assembler.handle_timeout(now);
        self.complete_constructs(ended);
    }

    /// Returns the time of the next [`Self::tick`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.published.deadline(), self.assembler.poll_timeout()];
        deadlines.into_iter().flatten().min()
    }

    /// Completes the calls of the constructs that have ended.
    fn complete_constructs(&mut self, ended: Vec<EndedConstruct<Completion<Infos>>>) {
        for one in ended {
            let outcome: Result<Infos, Status> = one.outcome.map(|mut infos| {
                if one.wants_context_id {
                    infos.push(self.next_context());
                }
                infos
            });
            for done in one.tokens {
                match &outcome {
                    Ok(infos) => done.succeed(infos.clone()),
                    Err(status) => done.fail(*status),
                }
            }
        }
    }

    /// Returns a context id that no group of this session has.
    pub(crate) fn next_context(&mut self) -> Info<'static> {
        self.last_context = self.last_context.saturating_add(1);
        Info::new(keys::GROUP_CONTEXT_ID, Value::Size(self.last_context))
    }
}

/// The process sets that requests define, with their sizes in bytes. They exist until the session ends, so their number
/// and size are bounded.
#[derive(Debug, Default)]
struct DefinedSets {
    weights: HashMap<Text<'static>, usize>,
    sum: usize,
}

impl DefinedSets {
    /// The largest number of sets.
    const MOST: usize = 4096;
    /// The largest size of all sets together, in bytes.
    const MOST_BYTES: usize = 64 << 20;

    /// Records a set, which replaces one of the same name. Returns `false` if there is no room for it.
    fn add(&mut self, name: &Text<'_>, of_members: usize) -> bool {
        let old = self.weights.get(name.as_bytes()).copied();
        let weight = of_members.saturating_add(name.len());
        let sum = self.sum.saturating_sub(old.unwrap_or(0));
        let sum = sum.saturating_add(weight);
        if sum > Self::MOST_BYTES || (old.is_none() && self.weights.len() >= Self::MOST) {
            return false;
        }
        self.sum = sum;
        self.weights.insert(name.clone().into_owned(), weight);
        true
    }
}

/// Returns the size of a member of a set in bytes.
pub(crate) fn weight(proc: &Proc<'_>) -> usize {
    size_of::<Proc<'_>>() + proc.nspace.as_bytes().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_sets_are_bounded_in_number_and_size_and_can_be_redefined() {
        let mut sets = DefinedSets::default();
        let name = |number: usize| Text::from(number.to_string());
        for number in 0..DefinedSets::MOST {
            assert!(sets.add(&name(number), 100));
        }
        assert!(!sets.add(&name(DefinedSets::MOST), 100));
        for _ in 0..1000 {
            assert!(sets.add(&name(0), 1 << 20), "in the place of the same");
        }
        assert!(!sets.add(&name(1), DefinedSets::MOST_BYTES));
        assert!(sets.add(&name(1), 1));
    }
}

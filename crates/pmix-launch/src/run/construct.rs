// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's part in group operations. All processes belong to jobs of this node, so there is no other server to
//! agree with. The members are the named processes, plus those that known members add, and the launcher assigns the
//! context id.

use std::time::Instant;

use pmix_host::groups::{EndedConstruct, GroupAssembler, Processes};
use pmix_server::upcall::Group;
use pmix_server::{Collective, Completion};
use pmix_types::{GroupOperation, Info, Nspace, Proc, Status, Value, keys};

use super::job::Jobs;
use super::session::Session;

/// The index of the only server.
const HERE: usize = 0;

impl Session<'_> {
    pub(super) fn group(&mut self, call: &Group, done: Completion<Vec<Info<'static>>>) {
        let is_new = call.operation == GroupOperation::CONSTRUCT;
        let operation = match is_new {
            true => Collective::GroupConstruct,
            false => Collective::GroupDestruct,
        };
        if !self.exist(operation, &call.procs) {
            return done.fail(Status::ERR_NOT_FOUND);
        }
        if GroupAssembler::<Completion<Vec<Info<'static>>>>::concerns(call) {
            let now = Instant::now();
            let ended = self.group_assembler.take(done, HERE, call, &self.jobs, now);
            return self.answer_constructs(ended);
        }
        let mut infos = Vec::new();
        if is_new {
            let wants_context = |info: &Info<'_>| {
                info.key.is(keys::GROUP_ASSIGN_CONTEXT_ID) && info.truth().is_true()
            };
            if call.directives.iter().any(wants_context) {
                infos.push(self.next_context());
            }
        }
        done.succeed(infos);
    }

    /// Completes the calls of the constructs that have ended.
    pub(super) fn answer_constructs(
        &mut self,
        ended: Vec<EndedConstruct<Completion<Vec<Info<'static>>>>>,
    ) {
        for one in ended {
            let outcome = one.outcome.map(|mut infos| {
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

    fn next_context(&mut self) -> Info<'static> {
        self.last_context = self.last_context.saturating_add(1);
        Info::new(keys::GROUP_CONTEXT_ID, Value::Size(self.last_context))
    }
}

impl Processes for Jobs {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        let size = self.named(nspace)?.plan.layout.num_procs();
        u32::try_from(size).ok()
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        let Some(job) = self.named(&proc.nspace) else {
            return true;
        };
        let process = job.table.with_rank(proc.rank);
        process.is_some_and(|process| process.ended.is_some())
    }

    fn num_running(&self) -> Option<usize> {
        Some(Self::num_running(self))
    }

    fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
        self.named(&proc.nspace).map(|_| HERE)
    }
}

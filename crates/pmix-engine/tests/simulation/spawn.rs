// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spawns of processes and tools, and the host that starts the jobs.

use std::time::Duration;

use pmix_client::driver::OperationId;
use pmix_engine::HostReply;
use pmix_engine::host::Spawn;
use pmix_proto::{Request, request};
use pmix_types::{App, Info, Nspace, Status, keys};

use crate::agenda::{Call, Event};
use crate::client::{What, Who};
use crate::fault::Fault;
use crate::process::{Collective, Kind, Phase, ProcId};
use crate::tool::STRANGER;
use crate::world::World;

/// The key of the unique number of a spawn.
const SPAWN: &str = "spawn";

/// A spawn and its result.
#[derive(Debug)]
pub(crate) struct Spawning {
    /// The requestor.
    pub(crate) by: Who,
    /// `true` if the output of the job is forwarded to the requestor.
    pub(crate) forwards: bool,
    /// The upcall, once it was made.
    pub(crate) call: Option<Call>,
    /// The job that the host started.
    pub(crate) job: Option<usize>,
    /// The first reply to the requestor's server.
    pub(crate) told: Option<(Status, Option<Nspace<'static>>)>,
}

impl World {
    /// Sends a spawn. Only the requestor limits its time.
    pub(crate) fn spawn(&mut self, who: Who) -> Option<OperationId> {
        // There are only a few jobs to start in a run.
        if self.oracle.spawns.len() > 8 {
            return None;
        }
        let number = self.oracle.spawns.len();
        let forwards = self.random.once_in(2);
        self.oracle.spawns.push(Spawning {
            by: who,
            forwards,
            call: None,
            job: None,
            told: None,
        });
        let number32 = u32::try_from(number).unwrap();
        let mut infos = vec![Info::new(SPAWN, number32)];
        if forwards {
            infos.push(Info::new(keys::FWD_STDOUT, true));
        }
        let app = App {
            cmd: Some("child".into()),
            maxprocs: 1,
            ..App::default()
        };
        Some(self.ask_for(
            who,
            Request::Spawn(request::Spawn {
                infos,
                apps: vec![app],
            }),
            What::Spawn(number),
            None,
        ))
    }

    /// Starts a job at once for a spawn, and replies with the faults of the plan.
    pub(crate) fn start_job(&mut self, call: Call, spawn: &Spawn) {
        let number = spawn.infos.iter().find(|info| info.key.is(SPAWN));
        let number = number.and_then(|info| info.value.to_number::<u64>().ok());
        let number = usize::try_from(number.expect("what was asked for")).unwrap();
        self.check_spawn_call(call, number, spawn);
        let spare = |job: &crate::process::Job| !job.is_begun && !job.is_gone;
        let job = self.jobs.iter().position(spare);
        // A user without a job here may not start one.
        let job = job.filter(|_| self.user_of(self.oracle.spawns[number].by) != STRANGER);
        let job = job.filter(|_| !self.is_over && !self.strikes(Fault::HostError, 6));
        let Some(job) = job else {
            return self.answer_spawn(call, HostReply::Done(Status::ERR_OUT_OF_RESOURCE));
        };
        self.oracle.spawns[number].job = Some(job);
        let parent = self.clients[self.oracle.spawns[number].by].proc;
        self.begin_job(job, parent);
        let nspace = self.jobs[job].nspace.into();
        self.answer_spawn(call, HostReply::Spawned(Status::SUCCESS, nspace));
    }

    fn answer_spawn(&mut self, call: Call, answer: HostReply) {
        let fate = self.fate();
        self.send_answer(call, answer, fate);
    }

    /// Registers a spawned job and starts its processes.
    fn begin_job(&mut self, job: usize, parent: Option<ProcId>) {
        self.jobs[job].is_begun = true;
        self.jobs[job].parent = parent;
        let own = self.jobs[job].procs();
        let mut script = vec![Phase::Own];
        if let Some(parent) = parent {
            script.push(Phase::Collective {
                collective: with_parent(parent, own.clone()),
                collects: false,
                is_short: self.random.once_in(2),
                timeout: (!self.random.once_in(4)).then(|| 1 + self.random.below_u32(4)),
                is_loose: false,
            });
        }
        script.extend((0..self.random.below(3)).map(|_| Phase::Own));
        script.push(Phase::Collective {
            collective: Collective {
                kind: Kind::Fence,
                members: own.clone().collect(),
            },
            collects: self.random.once_in(2),
            is_short: self.random.once_in(2),
            timeout: Some(1 + self.random.below_u32(4)),
            is_loose: false,
        });
        self.jobs[job].script = Some(script);
        self.register(job);
        for proc in own {
            let after = self.random.millis(1, 300);
            self.after(after, Event::Start(proc));
        }
        for _ in 0..self.random.below(4) {
            let after = self.random.millis(1, 1500);
            self.after(after, Event::Output(job));
        }
    }

    /// Lets a process of a spawned job write output.
    pub(crate) fn child_writes(&mut self, job: usize) {
        let procs = self.jobs[job].procs();
        let place = procs.start + self.random.below(procs.len());
        if !self.is_over {
            self.write_output(place);
        }
    }

    /// Handles the success of a spawn. A process then connects with its children.
    pub(crate) fn has_spawned(&mut self, who: Who, number: usize) {
        let job = self.oracle.spawns[number].job.expect("a job");
        let own = self.jobs[job].procs();
        if let Some(parent) = self.clients[who].proc {
            let connect = Phase::Collective {
                collective: with_parent(parent, own),
                collects: false,
                is_short: false,
                timeout: Some(1 + self.random.below_u32(4)),
                is_loose: self.random.once_in(2),
            };
            self.procs[parent].then.push(connect);
        }
    }

    /// Ends some of the jobs that a terminated process spawned, as some hosts do.
    pub(crate) fn parent_died(&mut self, parent: ProcId) {
        for job in 0..self.jobs.len() {
            let is_child = self.jobs[job].parent == Some(parent) && !self.jobs[job].is_gone;
            if is_child && self.random.once_in(2) {
                let after = self.random.millis(0, 300) + Duration::from_millis(1);
                self.after(after, Event::Deregister(job));
            }
        }
    }
}

/// Returns the connect of a parent and its children.
fn with_parent(parent: ProcId, children: std::ops::Range<ProcId>) -> Collective {
    let mut members: Vec<_> = children.chain([parent]).collect();
    members.sort_unstable();
    Collective {
        kind: Kind::Connect,
        members,
    }
}

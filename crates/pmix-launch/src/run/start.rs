// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starting a job.

use std::os::fd::BorrowedFd;
use std::process::Stdio;
use std::time::Instant;

use mio::{Poll, Token};
use pmix_types::Rank;

use super::Standard;
use super::job::{FORWARD, Job, KEYBOARD, SIGNALS};
use super::stop::Stop;
use crate::keyboard::Keyboard;
use crate::output::{Files, Forward, Kind};
use crate::placement::place;
use crate::process::{self, Orphans, Spawner, Started, Table};
use crate::session_dir::SessionDir;
use crate::signals::Signals;
use crate::topology::{Cpus, Level, Topology};
use crate::{Error, Output, Plan};

impl<'a> Job<'a> {
    /// Starts every process of this node.
    pub(super) fn start(plan: &'a Plan, standard: Standard<'a>) -> Result<Self, Error> {
        let bound = places(plan);
        let spawner = Spawner::new(plan, !bound.is_empty())?;
        let poll = Poll::new().map_err(|e| Error::system("cannot poll", e))?;
        let signals = Signals::take(poll.registry(), Token(SIGNALS))?;
        let here = plan.layout.here();
        let tag = (plan.output == Output::Tagged).then(|| plan.nspace.clone());
        let mut job = Self {
            plan,
            standard,
            told: Vec::new(),
            signals,
            table: Table::default(),
            orphans: Orphans::adopt(plan.adopt),
            session: SessionDir::create(&plan.tmpdir, here)?,
            forward: Forward::new(FORWARD, standard.output, standard.errors, tag),
            keyboard: None,
            stop: Stop::new(plan, Instant::now()),
            poll,
        };
        let files = match &plan.output {
            Output::Files(dir) => Some(Files::create(dir, plan.layout.num_procs())?),
            Output::Plain | Output::Tagged => None,
        };
        for (index, &rank) in here.iter().enumerate() {
            let standard = process::Standard {
                input: input_of(rank, standard.input)?,
                files: files.as_ref().map(|files| files.of(rank)).transpose()?,
            };
            let vars = job.variables(rank);
            let started = spawner.start(rank, bound.get(index), &vars, standard)?;
            job.adopt(started)?;
        }
        Ok(job)
    }

    /// What tells a process which one it is.
    fn variables(&self, rank: Rank) -> Vec<(String, String)> {
        let _ = rank;
        Vec::new()
    }

    fn adopt(&mut self, started: Started) -> Result<(), Error> {
        let rank = started.process.rank;
        self.table.push(started.process);
        let registry = self.poll.registry();
        let streams = [
            (Kind::Output, started.output),
            (Kind::Errors, started.errors),
        ];
        for (kind, pipe) in streams {
            if let Some(pipe) = pipe {
                let added = self.forward.add(registry, rank, kind, pipe);
                added.map_err(|e| Error::system(format!("cannot read from rank {rank}"), e))?;
            }
        }
        if let Some(rank0) = started.input {
            let made = Keyboard::new(registry, KEYBOARD, self.standard.input, rank0);
            let made = made.map_err(|e| Error::system("cannot read from the terminal", e))?;
            self.keyboard = Some(made);
        }
        Ok(())
    }
}

/// What a process reads. Only rank 0 reads what the launcher would, and unless that is a terminal
/// it reads it without us, no byte more than it wants.
fn input_of(rank: Rank, input: BorrowedFd<'_>) -> Result<Stdio, Error> {
    if rank.as_raw() != 0 {
        return Ok(Stdio::null());
    }
    if rustix::termios::isatty(input) {
        return Ok(Stdio::piped());
    }
    let own = input.try_clone_to_owned();
    own.map(Stdio::from)
        .map_err(|e| Error::system("cannot hand standard input on", e))
}

/// The processors of each process here, if anything confines them. The machine is only looked at
/// then.
fn places(plan: &Plan) -> Vec<Cpus> {
    if plan.policy.bind_to.is_none() {
        return Vec::new();
    }
    let topology = Topology::of_this_machine();
    let everything = || topology.parts(Level::Node).first().cloned();
    let allowed = process::allowed().or_else(everything).unwrap_or_default();
    place(plan.policy, &topology, &allowed, plan.layout.here().len())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A job that runs.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use pmix_host::cleanup::ProtectedPaths;
use pmix_host::forward::{HeldStream, OutputForwarder};
use pmix_host::publish::PublishService;
use pmix_server::Server;
use pmix_types::{Nspace, Proc};
use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGTSTP, SIGUSR1, SIGUSR2, SIGXFSZ};

use super::Standard;
use super::groups::Groups;
use super::log::Logs;
use super::missing::Missing;
use super::stop::{Interrupt, Order, Stop};
use crate::host::HostReceiver;
use crate::input::Input;
use crate::process::{Link, Orphans, Process, Table, Watcher};
use crate::session_dir::SessionDir;
use crate::signals::Signals;
use crate::{Cause, Ending, Error, Outcome, Plan, RankOutcome};

/// The token of signals.
pub(super) const SIGNALS: usize = 0;
/// The first of the two tokens of input.
pub(super) const INPUT: usize = 1;
/// The first of all the tokens of output.
pub(super) const FORWARD: usize = 3;

/// How many readiness events are taken at once.
const EVENTS: usize = 256;

/// A job that runs. Fields are dropped in this order: nothing runs any more when the directory of
/// the session goes.
pub(super) struct Job<'a> {
    pub(super) plan: &'a Plan,
    pub(super) standard: Standard<'a>,
    pub(super) table: Table,
    pub(super) watcher: Watcher,
    pub(super) orphans: Orphans,
    pub(super) server: Server,
    pub(super) session: SessionDir,
    pub(super) forward: OutputForwarder<'a>,
    pub(super) logs: Logs,
    pub(super) missing: Missing,
    pub(super) groups: Groups,
    pub(super) input: Input<'a>,
    pub(super) stop: Stop,
    /// How much readers had taken when it was last looked at because of the end.
    pub(super) written: u64,
    pub(super) messages: HostReceiver,
    pub(super) published: PublishService,
    pub(super) protected: ProtectedPaths,
    pub(super) signals: Signals,
    /// All but the sockets of the server, which waits for this poll with them.
    pub(super) poll: Poll,
}

impl Job<'_> {
    /// Waits until the job is over.
    pub(super) fn watch(&mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            self.logs.write(&mut self.forward);
            self.forward.turn(self.poll.registry());
            self.tell_output();
            if self.is_over() {
                return Ok(());
            }
            let until = self.patience();
            let mut news = self.wait_and_serve(until)?;
            // The server says once that there is news, however much.
            while news {
                match self.poll.poll(&mut events, Some(Duration::ZERO)) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    result => result.map_err(|e| Error::system("cannot poll", e))?,
                }
                let mut taken = 0;
                for event in &events {
                    taken += 1;
                    self.notice(event.token());
                }
                news = taken == EVENTS;
            }
            let now = Instant::now();
            self.published.tick(now);
            self.missing.tick(now);
            if let Some(order) = self.stop.tick(now) {
                self.obey(order);
            }
        }
    }

    fn notice(&mut self, token: Token) {
        if self.forward.handle_ready(token) {
            return;
        }
        match token.0 {
            SIGNALS => {
                for signal in self.signals.pending() {
                    self.signal(signal);
                }
            }
            _ => self.input.turn(self.poll.registry()),
        }
    }

    /// Tells the server what processes wrote, for those who pull it.
    fn tell_output(&mut self) {
        for chunk in self.forward.take_chunks() {
            let source = Proc::new(self.plan.nspace.as_str(), chunk.rank);
            let channel = chunk.kind.channel();
            let told = self.server.iof_deliver(&source, channel, chunk.bytes, &[]);
            if let Err(e) = told {
                tracing::warn!("output is not forwarded: {e}");
            }
        }
    }

    fn signal(&mut self, number: i32) {
        match number {
            SIGCHLD => self.collect(),
            SIGUSR1 => self.table.signal(Signal::USR1),
            SIGUSR2 => self.table.signal(Signal::USR2),
            SIGTSTP => {
                self.table.signal(Signal::TSTP);
                // Now we stop too, as the shell expects.
                let own = rustix::process::getpid();
                if let Err(e) = rustix::process::kill_process(own, Signal::STOP) {
                    tracing::debug!("the launcher goes on: {e}");
                }
            }
            SIGCONT => {
                self.table.signal(Signal::CONT);
                self.input.turn(self.poll.registry());
            }
            // The error of the write says more.
            SIGXFSZ => {}
            ending => self.end_by(ending),
        }
    }

    /// A signal that ends programs: handed on, and the second of a kind ends the job whatever its
    /// processes do about it.
    fn end_by(&mut self, number: i32) {
        let now = Instant::now();
        let interrupt = match self.table.num_running() {
            0 => Interrupt::Again,
            _ => self.stop.interrupted(number, now),
        };
        match (interrupt, Signal::from_named_raw(number)) {
            (Interrupt::HandOn, Some(signal)) => self.table.signal(signal),
            (Interrupt::HandOn | Interrupt::Same, _) => {}
            (Interrupt::Again, _) => {
                let order = self.stop.fail(Cause::Interrupted { signal: number }, now);
                order.into_iter().for_each(|order| self.obey(order));
            }
        }
    }

    /// Notes who ended.
    fn collect(&mut self) {
        let now = Instant::now();
        let ended = self.table.ended(now);
        // News of several ends may come as one.
        if ended.is_empty() || self.table.num_running() == 0 {
            self.orphans.reap(&self.table);
        }
        // What they said before they ended is there by now.
        self.serve();
        for index in ended {
            let Some(&Process {
                rank,
                link,
                ended: Some((ending, _)),
                ..
            }) = self.table.get(index)
            else {
                continue;
            };
            tracing::debug!("rank {rank} ended: {ending}");
            let proc = Proc::new(self.plan.nspace.clone(), rank);
            self.published.proc_ended(&proc);
            // Nobody is to wait for it; of one that is connected the server sees the end itself.
            if link != Link::Connected
                && let Err(e) = self.server.deregister_client(&proc)
            {
                tracing::debug!("rank {rank} is not deregistered: {e}");
            }
            if let Some(order) = self.stop.ended(rank, ending, link, now) {
                self.obey(order);
            }
        }
        if self.table.num_running() == 0 {
            self.stop.all_ended(now);
        }
    }

    pub(super) fn obey(&mut self, order: Order) {
        tracing::debug!("{order:?}");
        match order {
            Order::Ask => {
                self.table.signal(Signal::TERM);
                // Who is stopped cannot end.
                self.table.signal(Signal::CONT);
            }
            Order::Kill => {
                self.table.signal(Signal::KILL);
                self.orphans.kill(&self.table);
            }
            // Somebody still runs who cannot be killed at once.
            Order::Abandon | Order::Lose if self.table.num_running() > 0 => {}
            Order::Abandon => {
                warn_of_held(&self.forward.drain_and_close());
                self.orphans.abandon();
            }
            Order::Lose => {
                self.orphans.abandon();
                self.lose();
            }
        }
    }

    /// Ends without what readers did not take, unless they have begun to take it.
    fn lose(&mut self) {
        let written = self.forward.num_written();
        if !self.stop.is_impatient() && written > std::mem::replace(&mut self.written, written) {
            return self.stop.wait_for_readers(Instant::now());
        }
        let lost = self.forward.discard() + self.logs.lose();
        if lost > 0 {
            tracing::warn!("nobody read the last {lost} bytes of output: they are lost");
        }
    }

    /// Whether all have ended, what they left behind has too, and all they wrote went out.
    fn is_over(&self) -> bool {
        self.table.num_running() == 0
            && self.forward.num_open() == 0
            && self.forward.is_drained()
            && self.logs.is_empty()
            && !self.orphans.are_awaited(&self.table)
    }

    /// Until when to wait for news.
    fn patience(&mut self) -> Option<Instant> {
        if self.forward.is_busy() || self.logs.is_busy(&self.forward) || self.messages.is_waiting()
        {
            return Some(Instant::now());
        }
        let deadlines = [
            self.stop.deadline(),
            self.published.deadline(),
            self.missing.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// What became of it, when nothing of it is left.
    pub(super) fn end(mut self, began: Instant) -> Outcome {
        let ranks = self.table.iter().map(|process| of_process(process, began));
        let mut outcome = Outcome {
            nspace: self.plan.nspace.clone(),
            host: self.plan.layout.host().to_vec(),
            ranks: ranks.collect(),
            cause: self.stop.cause().cloned(),
            groups: Vec::new(),
            num_groups: 0,
            elapsed: Duration::ZERO,
            processor_time: Duration::ZERO,
        };
        let unsound = self.table.iter().filter(|process| !is_sound(process));
        let unsound: BTreeSet<_> = unsound.map(|process| process.rank).collect();
        // Nothing runs any more when files are removed.
        drop(std::mem::take(&mut self.table));
        self.watcher.end();
        self.orphans.end();
        self.dismiss();
        let groups = std::mem::take(&mut self.groups);
        outcome.num_groups = groups.num_formed();
        outcome.groups = groups.outcomes(&unsound);
        drop(self);
        outcome.elapsed = began.elapsed();
        outcome.processor_time = processor_time();
        outcome
    }

    /// Ends the server, and does what it was asked to do at the end of the job.
    fn dismiss(&mut self) {
        let nspace = Nspace::new(self.plan.nspace.as_str());
        let ended = self.server.deregister_nspace(&nspace);
        self.serve();
        self.missing.write();
        if let Err(e) = ended.and_then(|()| self.server.finalize()) {
            tracing::warn!("the server did not end as it should: {e}");
        }
    }
}

/// Says what is not waited for, as somebody holds it who left his process group and the job.
fn warn_of_held(held: &[HeldStream]) {
    const NAMED: usize = 4;
    if held.is_empty() {
        return;
    }
    let mut named: Vec<_> = held
        .iter()
        .take(NAMED)
        .map(|held| {
            let (rank, stream) = (held.rank, held.kind.name());
            format!("{stream} of rank {rank} ({} bytes)", held.num_bytes)
        })
        .collect();
    if held.len() > NAMED {
        named.push(format!("{} more", held.len() - NAMED));
    }
    tracing::warn!(
        "something that the processes left behind still holds their output and is not waited for; \
         what is there is kept, how much follows is unknown: {}",
        named.join(", ")
    );
}

fn processor_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

/// Whether a process ended as one does that the others can do without: well, and not between init and
/// finalize.
fn is_sound(process: &Process) -> bool {
    let is_well = process
        .ended
        .is_some_and(|(ending, _)| ending.exit_code() == 0);
    is_well && process.link != Link::Connected
}

fn of_process(process: &Process, began: Instant) -> RankOutcome {
    let (ending, at) = process
        .ended
        .unwrap_or((Ending::Exited(u8::MAX), process.started));
    RankOutcome {
        rank: process.rank,
        app: process.app,
        pid: process.pid.as_raw_nonzero().get(),
        cpus: process.cpus.clone(),
        started: process.started.saturating_duration_since(began),
        elapsed: at.saturating_duration_since(process.started),
        ending,
    }
}

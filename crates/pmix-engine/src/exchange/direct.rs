// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of processes of other nodes, which the host brings: one call for all who wait.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use gds_hash::Puts;
use pmix_types::{Info, IntoOwned, Key, Nspace, Proc, Scope, Status, Text, Value, keys};

use super::waiting::{Later, Waiter};
use crate::host::{Answer, DirectModex};
use crate::peers::PeerId;
use crate::{Engine, Error};

/// The processes that the host is asked about now.
#[derive(Debug, Default)]
pub(crate) struct Directs {
    asked: HashMap<Proc<'static>, Asked>,
    /// How many of them for the sake of which peer first: a host that does not answer is not asked
    /// without end.
    by_peer: HashMap<PeerId, usize>,
    /// Those that were lost once. What comes of them is not kept: it may be the last words of a life,
    /// and nobody tells this server when the next one begins.
    lost: HashSet<Proc<'static>>,
}

/// What the host is asked about a process.
#[derive(Debug)]
struct Asked {
    key: Option<Key<'static>>,
    peer: PeerId,
    /// When the client stops waiting for whose sake the host was called, if it said so: the host
    /// was told its time.
    until: Option<Instant>,
    /// Whether the process was lost since: what comes may be that of its life before.
    is_stale: bool,
}

impl Directs {
    fn add(&mut self, proc: Proc<'static>, asked: Asked) {
        *self.by_peer.entry(asked.peer).or_default() += 1;
        self.asked.insert(proc, asked);
    }

    fn take(&mut self, proc: &Proc<'static>) -> Option<Asked> {
        let asked = self.asked.remove(proc)?;
        if let Some(count) = self.by_peer.get_mut(&asked.peer) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_peer.remove(&asked.peer);
            }
        }
        Some(asked)
    }

    /// What comes of a process is not to be kept.
    pub(super) fn distrust(&mut self, proc: &Proc<'_>) {
        self.lost.insert(proc.clone().into_owned());
        let asked = self.asked.iter_mut();
        let same = |known: &Proc<'_>| known.nspace == proc.nspace && known.rank == proc.rank;
        let mut asked = asked.filter(|(known, _)| same(known));
        if let Some((_, asked)) = asked.next() {
            asked.is_stale = true;
        }
    }

    /// A job is gone.
    pub(crate) fn forget_job(&mut self, nspace: &Nspace<'_>) {
        self.lost.retain(|proc| proc.nspace != *nspace);
    }

    pub(crate) fn len(&self) -> usize {
        self.asked.len()
    }

    fn num_of(&self, peer: PeerId) -> usize {
        self.by_peer.get(&peer).copied().unwrap_or_default()
    }
}

impl Engine {
    /// Asks the host about a process, unless it is asked already.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_OUT_OF_RESOURCE` if the host has not answered too much already.
    pub(super) fn ask_about(&mut self, waiter: &Waiter) -> Result<(), Error> {
        let (question, peer) = (&waiter.question, waiter.ticket.peer());
        let proc = question.proc.clone();
        if self.directs.asked.contains_key(&proc) {
            return Ok(());
        }
        let open = self.directs.num_of(peer);
        if open >= self.config.requests_per_peer {
            let message = format!("the host is asked about {open} processes for this peer");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let mut infos = question.infos.clone();
        if let Some(key) = &question.key {
            let name = Text::new(key.as_bytes().to_vec());
            infos.push(Info::new(keys::REQUIRED_KEY, Value::String(Some(name))));
        }
        let until = waiter.until.filter(|_| question.timeout.is_some());
        let asked = Asked {
            key: question.key.clone(),
            peer,
            until: until.map(|(at, _)| at),
            is_stale: false,
        };
        self.directs.add(proc.clone(), asked);
        let call = DirectModex {
            proc: proc.clone(),
            infos,
        };
        self.ask_for_all(call, move |engine, answer| {
            engine.host_brought(&proc, answer);
        });
        Ok(())
    }

    /// The host answered about a process.
    fn host_brought(&mut self, proc: &Proc<'static>, answer: Answer) {
        let Some(Asked {
            key,
            until,
            is_stale,
            ..
        }) = self.directs.take(proc)
        else {
            return;
        };
        if is_stale {
            // Whoever still waits asks again.
            return self.settle_all(self.waiting.of_proc(proc));
        }
        let status = answer.status();
        let data = match answer {
            Answer::Data(Ok(data)) => data,
            // Some hosts register the job instead and bring nothing else.
            _ => Vec::new(),
        };
        let brought = match status.is_success() {
            true => self.keep(proc, &data),
            false => Err(Error::new(status, "the host brought no data")),
        };
        for id in self.waiting.of_proc(proc) {
            let Some(mut waiter) = self.take_waiter(id) else {
                continue;
            };
            waiter.was_asked |= key.is_none() || waiter.question.key == key;
            match &brought {
                Ok(Some(puts)) => self.answer_from(waiter, puts),
                Ok(None) => self.settle(waiter),
                // The time of another client was up. With its own the host is asked again.
                Err(error) if error.status() == Status::ERR_TIMEOUT && waiter.outlasts(until) => {
                    let later = waiter.later;
                    self.park(waiter, later);
                }
                Err(error) => self.host_failed(waiter, error),
            }
        }
    }

    /// Stores what the host brought; it is handed back if it is not to be kept, or if there is no job
    /// to keep it with.
    fn keep(&mut self, proc: &Proc<'static>, data: &[u8]) -> Result<Option<Puts>, Error> {
        let wire = self.wire(&self.config.modex_form());
        let is_kept = !self.directs.lost.contains(proc);
        if is_kept && self.store.job(&proc.nspace).is_some() {
            if proc.rank.is_valid() {
                self.store.change_puts(&proc.nspace, |puts| {
                    puts.absorb_direct(&wire, proc.rank, data)
                })?;
            }
            return Ok(None);
        }
        let mut puts = Puts::default();
        puts.absorb_direct(&wire, proc.rank, data)?;
        Ok(Some(puts))
    }

    /// Answers from data of a job that is not registered.
    fn answer_from(&mut self, waiter: Waiter, puts: &Puts) {
        let proc = &waiter.question.proc;
        let has = match waiter.question.text() {
            Some(key) => (puts.get(proc.rank, Scope::REMOTE, key, &[])).is_ok(),
            None => puts.has_rank(proc.rank),
        };
        if !has {
            return self.settle(waiter);
        }
        let packed = self.put_by(&waiter.ticket, &waiter.question, puts, Scope::REMOTE, &[]);
        self.reply_packed(waiter.ticket, packed);
    }

    /// The host has nothing. Who waits for a job that is not registered goes on waiting for it.
    fn host_failed(&mut self, waiter: Waiter, error: &Error) {
        if waiter.later == Later::Job {
            return self.settle(waiter);
        }
        match error.status() {
            Status::ERR_NOT_SUPPORTED => {
                let error = Error::not_found("the host brings no data of other nodes");
                self.reply_error(waiter.ticket, &error);
            }
            _ => self.reply_error(waiter.ticket, error),
        }
    }
}

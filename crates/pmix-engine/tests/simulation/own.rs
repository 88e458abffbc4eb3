// SPDX-License-Identifier: MIT OR Apache-2.0
//! The individual actions of a process.

use std::time::Duration;

use pmix_client::driver::OperationId;
use pmix_proto::{Request, request};
use pmix_types::{DataRange, Info, IofChannel, Key, Proc, Query, Rank, Status, Value, keys};

use crate::client::{What, Who};
use crate::oracle::events::{NUMBER, names_it};
use crate::process::{KEYS, ProcId};
use crate::world::World;

/// The event that processes raise.
pub(crate) const EVENT: Status = Status::from_raw(-3000);

impl World {
    /// Performs an individual action. Returns the operation that the process waits for.
    pub(crate) fn do_own(&mut self, who: Who, place: ProcId) -> Option<OperationId> {
        let soon = Some(Duration::ZERO);
        let tag = match self
            .random
            .below(if self.tools.is_empty() { 34 } else { 35 })
        {
            0..=5 => self.commit(who, place),
            6..=12 => self.get(who),
            13 => self.publish(who, place),
            14 | 15 => self.lookup(who),
            16 => {
                let environmental = Status::EVENT_SYS_OTHER;
                let codes = [EVENT, Status::ERR_LOST_CONNECTION, environmental];
                let codes = codes[..1 + self.random.below(3)].to_vec();
                let is_named = names_it(&codes);
                self.clients[who].wants_events |= is_named;
                let what = What::Listen(is_named);
                self.ask_for(
                    who,
                    Request::RegisterEvents(request::RegisterEvents {
                        codes: codes.to_vec(),
                        infos: vec![],
                    }),
                    what,
                    soon,
                )
            }
            17 => {
                self.num_events += 1;
                let number = self.num_events;
                let infos = [Info::new(NUMBER, number)];
                let what = What::Report(number);
                self.ask_for(
                    who,
                    Request::Notify(request::Notify {
                        status: EVENT,
                        range: DataRange::GLOBAL,
                        infos: infos.to_vec(),
                    }),
                    what,
                    soon,
                )
            }
            18 => self.request(who, &Request::JobInfo, What::Any, soon),
            20..=27 => return self.do_rare(who, place),
            28 => return self.leave_group(who, place),
            29..=33 => return self.do_invite(who, place),
            34 => return self.spawn(who),
            _ => {
                let queries = vec![Query {
                    keys: vec![keys::QUERY_NAMESPACES.into()],
                    qualifiers: vec![],
                }];
                self.ask_for(
                    who,
                    Request::Query(request::Query { queries }),
                    What::Any,
                    soon,
                )
            }
        };
        Some(tag)
    }

    /// Performs a rare action: output, monitors, cleanups, other jobs as a whole.
    fn do_rare(&mut self, who: Who, place: ProcId) -> Option<OperationId> {
        let soon = Some(Duration::ZERO);
        let own = Proc::new(self.procs[place].nspace, Rank::WILDCARD);
        let id = match self.random.below(8) {
            0 | 1 => {
                let channels = IofChannel::STDOUT_CHANNEL;
                let number = self.random.below(3) as u64;
                let pull = Request::IofPull(request::IofPull {
                    procs: vec![own],
                    infos: vec![],
                    channels,
                    local_id: number,
                });
                self.ask_for(who, pull, What::Any, soon)
            }
            2 => {
                let number = self.random.below(4) as u64;
                self.ask_for(
                    who,
                    Request::IofDeregister(request::IofDeregister {
                        remote_id: number,
                        infos: vec![],
                    }),
                    What::Any,
                    soon,
                )
            }
            3 | 4 => {
                self.write_output(place);
                return None;
            }
            5 => {
                let monitor = match self.random.once_in(3) {
                    true => Info::new(keys::MONITOR_CANCEL, Value::String(None)),
                    false => Info::new(keys::MONITOR_HEARTBEAT, true),
                };
                let seconds = 1 + self.random.below_u32(3);
                let infos = vec![Info::new(keys::MONITOR_HEARTBEAT_TIME, seconds)];
                let alert = Status::MONITOR_HEARTBEAT_ALERT;
                self.ask_for(
                    who,
                    Request::Monitor(request::Monitor {
                        monitor,
                        error: alert,
                        infos,
                    }),
                    What::Any,
                    soon,
                )
            }
            6 => {
                let path = format!("/tmp/{}", self.random.below(3));
                let targets = match self.random.once_in(2) {
                    true => vec![],
                    false => vec![self.procs[place].name()],
                };
                let infos = vec![Info::new(keys::REGISTER_CLEANUP, path)];
                self.ask_for(
                    who,
                    Request::JobControl(request::JobControl { targets, infos }),
                    What::Any,
                    soon,
                )
            }
            _ => {
                let get = Request::Get(request::Get {
                    nspace: self.random.pick(&self.jobs).nspace.into(),
                    rank: Rank::WILDCARD,
                    infos: vec![Info::new(keys::IMMEDIATE, true)],
                    key: None,
                });
                self.request(who, &get, What::Any, soon)
            }
        };
        Some(id)
    }

    /// Delivers output of a process to the server of its node.
    pub(crate) fn write_output(&mut self, place: ProcId) {
        if self.jobs[self.procs[place].job].is_gone {
            return;
        }
        let (source, node) = (self.procs[place].name(), self.procs[place].node);
        self.num_packets += 1;
        let number = self.num_packets.to_ne_bytes();
        let data = number.repeat(1 + self.random.below(25));
        self.hand_in_time(node);
        let engine = &mut self.nodes[node].engine;
        let channel = IofChannel::STDOUT_CHANNEL;
        engine
            .iof_deliver(&source, channel, data.clone(), &[])
            .unwrap();
        self.drain(node);
        self.check_output_heard(node, place, &data);
    }

    /// Publishes a value under a key of this incarnation.
    fn publish(&mut self, who: Who, place: ProcId) -> OperationId {
        let stamp = self.procs[place].stamp;
        let value = stamp.value(place, "card");
        let infos = [
            Info::new(board_key(place, stamp.life), value),
            Info::new(keys::RANGE, DataRange::GLOBAL),
        ];
        let soon = Some(Duration::ZERO);
        self.ask_for(
            who,
            Request::Publish(request::Publish {
                infos: infos.to_vec(),
                uid: 0,
            }),
            What::Any,
            soon,
        )
    }

    /// Returns a process of a started job.
    fn any_proc(&mut self) -> ProcId {
        let procs = 0..self.procs.len();
        let begun: Vec<_> = procs
            .filter(|place| self.jobs[self.procs[*place].job].is_begun)
            .collect();
        *self.random.pick(&begun)
    }

    fn lookup(&mut self, who: Who) -> OperationId {
        let of = self.any_proc();
        let mut infos = vec![
            Info::new(keys::RANGE, DataRange::GLOBAL),
            Info::new(keys::TIMEOUT, 2_i32),
        ];
        if self.random.once_in(2) {
            infos.push(Info::new(keys::WAIT, 0_i32));
        }
        let key = board_key(of, self.procs[of].stamp.life);
        let own = Some(Duration::from_secs(2));
        self.ask_for(
            who,
            Request::Lookup(request::Lookup {
                keys: vec![key.into()],
                infos: infos.to_vec(),
                uid: 0,
            }),
            What::Lookup(of),
            own,
        )
    }

    fn commit(&mut self, who: Who, place: ProcId) -> OperationId {
        let proc = &mut self.procs[place];
        if !self.is_steady || proc.stamp.version == 0 {
            proc.stamp.version += 1;
        }
        let stamp = proc.stamp;
        proc.committed.push(stamp);
        let core = self.clients[who].core.as_mut().unwrap();
        for (key, scope) in KEYS {
            if stamp.has(key) {
                let info = Info::new(key, stamp.value(place, key));
                core.put(scope, info).unwrap();
            }
        }
        let (what, soon) = (What::Commit(stamp), Some(Duration::ZERO));
        self.ask(who, what, soon, |core, end| core.commit(end))
    }

    /// Sends a get from another node for data of a process.
    pub(crate) fn be_curious(&mut self, of: ProcId) {
        let node = self.procs[of].node;
        let clients = self.clients.iter().enumerate();
        let live = clients.filter(|(_, client)| client.is_live() && client.node != node);
        let live = live.filter(|(_, client)| client.proc.is_some() && client.has_begun);
        let live: Vec<_> = live.map(|(who, _)| who).collect();
        if !live.is_empty() && !self.is_over {
            let who = *self.random.pick(&live);
            self.get_of(who, of);
        }
    }

    pub(crate) fn get(&mut self, who: Who) -> OperationId {
        let of = self.any_proc();
        self.get_of(who, of)
    }

    fn get_of(&mut self, who: Who, of: ProcId) -> OperationId {
        let (mut key, _) = *self.random.pick(&KEYS);
        if self.random.once_in(12) {
            key = "nobody's";
        }
        let mut infos = Vec::new();
        let mut limit = None;
        if self.random.once_in(5) {
            infos.push(Info::new(keys::IMMEDIATE, true));
            limit = Some(Duration::ZERO);
        } else if !self.random.once_in(5) {
            let seconds = 1 + self.random.below_u32(4);
            infos.push(Info::new(keys::TIMEOUT, seconds));
            limit = Some(Duration::from_secs(seconds.into()));
        }
        let proc = &self.procs[of];
        let name = proc.name();
        let floor = self
            .floor(who, of)
            .filter(|_| limit != Some(Duration::ZERO));
        let first_life = self.first_life(who, of);
        let stated = limit.filter(|limit| *limit > Duration::ZERO);
        self.say(|| format!("connection {who} wants {key} of process {of} within {limit:?}"));
        let what = |floor, lives| What::Get(of, key, stated, floor, first_life, lives);
        if self.random.once_in(2) {
            let mut floor = floor;
            if self.random.once_in(4) {
                // Data of a fence are not requested.
                floor = None;
                infos.push(Info::new(keys::GET_REFRESH_CACHE, true));
            }
            return self.ask(who, what(floor, None), limit, |core, end| {
                core.get(&name, key, &infos, end)
            });
        }
        // This get bypasses the client's cache.
        let mut lives = None;
        if self.random.once_in(3) {
            infos.push(Info::new(request::PREFETCH, 1_u32 << 16));
        } else {
            let all = 0..self.procs.len();
            lives = Some(all.map(|of| self.first_life(who, of)).collect());
        }
        let get = request::Get {
            nspace: name.nspace,
            rank: name.rank,
            infos,
            key: Some(Key::new(key)),
        };
        self.request(who, &Request::Get(get), what(floor, lives), limit)
    }
}

/// Returns the key under which an incarnation of a process publishes.
fn board_key(proc: ProcId, life: u16) -> String {
    format!("at.{life}.{proc}")
}

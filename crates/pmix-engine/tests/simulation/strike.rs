// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults that occur at a time.

use std::time::Duration;

use pmix_proto::{Request, Tag};

use crate::agenda::Event;
use crate::client::{Packet, What, Who, hello};
use crate::fault::Fault;
use crate::node::Node;
use crate::process::ProcId;
use crate::world::World;

impl World {
    /// Performs a fault, if it has a target.
    pub(crate) fn strike(&mut self, fault: Fault) {
        if self.is_over {
            return;
        }
        let has_struck = match fault {
            Fault::CrashServer => self.crash_server(),
            Fault::Stranger => self.stranger(),
            Fault::Mute => self.mute(),
            Fault::Deregister => {
                let job = self.random.below(self.jobs.len());
                self.jobs[job].is_begun && self.deregister(job)
            }
            Fault::Dismiss => self.dismiss(),
            Fault::Jump => self.jump(),
            Fault::Duplicate => self.duplicate(),
            Fault::ToolCrash => self.crash_tool(),
            Fault::ToolClaim => self.claim(),
            _ => self.strike_somebody(fault),
        };
        if has_struck {
            self.tally.count(fault);
            self.say(|| format!("FAULT {fault}"));
        }
    }

    fn strike_somebody(&mut self, fault: Fault) -> bool {
        let clients = self.clients.iter().enumerate();
        let may_be_tool = matches!(fault, Fault::Drop | Fault::Slow);
        let live = clients.filter(|(_, client)| {
            client.is_live() && (client.proc.is_some() || may_be_tool && client.tool.is_some())
        });
        let live = live.filter(|(_, client)| client.has_begun);
        let live: Vec<_> = live.map(|(who, _)| who).collect();
        if live.is_empty() {
            return false;
        }
        let who = *self.random.pick(&live);
        match fault {
            Fault::Drop => self.cut_off(who, true),
            Fault::Crash => self.cut_off(who, false),
            Fault::Quit => {
                let place = self.clients[who].proc.unwrap();
                self.procs[place].phase = self.script_of(place).len();
            }
            Fault::Garbage => self.garbage(who),
            Fault::Slow => {
                if self.clients[who].held.is_some() {
                    return false;
                }
                self.clients[who].held = Some(0);
                let after = self.random.millis(500, 4000);
                self.after(after, Event::Wake(who));
                for _ in 0..self.random.below(30) {
                    self.request(who, &Request::JobInfo, What::Any, None);
                }
            }
            Fault::HitAndRun => {
                let place = self.clients[who].proc.unwrap();
                self.do_own(who, place);
                self.step(who);
                self.leave(who);
            }
            _ => self.flood(who),
        }
        true
    }

    /// Cuts a connection, because of a crash of its process or by itself.
    pub(crate) fn cut_off(&mut self, who: Who, is_broken: bool) {
        self.say(|| format!("connection {who} is cut off"));
        let packets = &mut self.clients[who].up.packets;
        let kept = self.random.below(packets.len() + 1);
        packets.truncate(kept);
        if let Some(Packet::Bytes(_, bytes)) = packets.back_mut() {
            bytes.truncate(1 + self.random.below(bytes.len()));
        }
        if is_broken {
            let packets = &mut self.clients[who].down.packets;
            let kept = self.random.below(packets.len() + 1);
            packets.truncate(kept);
            self.send_close(who, false);
            self.send_close(who, true);
        } else {
            self.leave(who);
        }
    }

    fn garbage(&mut self, who: Who) {
        self.clients[who].is_spoiled = true;
        let place = self.clients[who].proc.unwrap();
        self.procs[place].is_restless = true;
        let mut bytes = vec![0; 1 + self.random.below(60)];
        self.spoil(&mut bytes);
        self.send(who, bytes, true);
    }

    /// Changes some bytes, and possibly their number.
    pub(crate) fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.random.below(8) {
            if !bytes.is_empty() {
                let place = self.random.below(bytes.len());
                bytes[place] = self.random.next().to_le_bytes()[0];
            }
        }
        if self.random.once_in(3) {
            let len = self.random.below(bytes.len() + 1);
            bytes.truncate(len);
        }
    }

    fn stranger(&mut self) -> bool {
        let node = self.random.below(self.nodes.len());
        let who = self.open(node);
        let place = self.random.below(self.procs.len());
        let name = self.procs[place].name();
        let mut bytes = hello(name).encode().unwrap();
        // One byte of the name is always wrong, so that the hello is not that of the process.
        for byte in bytes.iter_mut().skip(16) {
            *byte = byte.wrapping_add(1);
        }
        self.spoil(&mut bytes);
        self.send(who, bytes, true);
        self.after(Duration::from_secs(10), Event::Deadline(who, Tag::HELLO));
        true
    }

    fn mute(&mut self) -> bool {
        let node = self.random.below(self.nodes.len());
        for _ in 0..=self.random.below(4) {
            let who = self.open(node);
            self.after(Duration::from_secs(10), Event::Deadline(who, Tag::HELLO));
        }
        true
    }

    fn duplicate(&mut self) -> bool {
        let procs = self.procs.iter().enumerate();
        let live = procs.filter(|(_, proc)| proc.client.is_some());
        let live: Vec<_> = live.map(|(place, _)| place).collect();
        if live.is_empty() {
            return false;
        }
        let place = *self.random.pick(&live);
        let who = self.connect(place);
        self.clients[who].claims = Some(place);
        self.say(|| format!("connection {who} claims to be process {place}"));
        true
    }

    fn flood(&mut self, who: Who) {
        let place = self.clients[who].proc.unwrap();
        self.procs[place].is_restless = true;
        for _ in 0..self.random.below(30) {
            match self.random.once_in(3) {
                true => self.request(who, &Request::JobInfo, What::Any, Some(Duration::ZERO)),
                false => self.get(who),
            };
        }
    }

    /// Replaces a server that crashes with all its connections.
    fn crash_server(&mut self) -> bool {
        let place = self.random.below(self.nodes.len());
        self.say(|| format!("the server of node {place} ends"));
        let mut who: Vec<_> = self.nodes[place]
            .peers
            .drain()
            .map(|(_, who)| who)
            .collect();
        who.sort_unstable();
        for who in who {
            self.clients[who].is_known = false;
            self.send_close(who, false);
        }
        let ahead = self.nodes[place].ahead;
        let life = self.nodes[place].life + 1;
        self.nodes[place] = Node::new(place, life, &self.config);
        self.nodes[place].ahead = ahead;
        for proc in self.procs.iter_mut().filter(|proc| proc.node == place) {
            proc.shared = None;
            proc.was_lost = false;
            proc.floor = proc.stamp.life;
            proc.num_admitted = 0;
            proc.is_restless = true;
            proc.is_registered = true;
        }
        for job in self.jobs.iter().filter(|job| job.is_begun && !job.is_gone) {
            self.nodes[place].register(place, job, true);
        }
        self.drain(place);
        self.host_lost(place);
        true
    }

    /// Deregisters a job on all nodes.
    pub(crate) fn deregister(&mut self, job: usize) -> bool {
        if std::mem::replace(&mut self.jobs[job].is_gone, true) || !self.jobs[job].is_begun {
            return false;
        }
        let nspace = self.jobs[job].nspace;
        self.say(|| format!("job {nspace} is deregistered"));
        for place in 0..self.nodes.len() {
            self.hand_in_time(place);
            let engine = &mut self.nodes[place].engine;
            let is_here = self.jobs[job].ranks_on(place).next().is_some();
            let done = engine.deregister_nspace(&nspace.into());
            assert_eq!(done.is_ok(), is_here, "{done:?}");
            self.nodes[place].forget_shared(&nspace.into());
            self.drain(place);
        }
        if !self.constructs.is_empty() {
            for proc in self.jobs[job].procs() {
                self.proc_ended(proc);
            }
        }
        let stopped = self.host.board.job_ended(&nspace.into());
        for call in stopped {
            let after = Duration::from_millis(1);
            self.after(
                after,
                Event::HostReply(call, pmix_engine::HostReply::DROPPED),
            );
        }
        true
    }

    /// Deregisters a process.
    fn dismiss(&mut self) -> bool {
        let place = self.random.below(self.procs.len());
        let proc = &mut self.procs[place];
        let job = &self.jobs[proc.job];
        if job.is_gone || !job.is_begun || !proc.is_registered {
            return false;
        }
        proc.is_restless = true;
        proc.is_registered = false;
        let (node, name) = (proc.node, proc.name());
        self.say(|| format!("process {place} is deregistered"));
        self.hand_in_time(node);
        let engine = &mut self.nodes[node].engine;
        engine.deregister_client(&name).unwrap();
        self.drain(node);
        // The server forgets the data and the incarnations of a deregistered process: after a new registration, it
        // counts incarnations from 1 again.
        self.procs[place].num_admitted = 0;
        self.procs[place].was_lost = true;
        if self.random.once_in(2) {
            self.register_again(place);
        }
        true
    }

    /// Registers a process again.
    pub(crate) fn register_again(&mut self, place: ProcId) {
        let proc = &mut self.procs[place];
        proc.is_registered = true;
        let (node, rank) = (proc.node, proc.rank);
        let job = proc.job;
        self.hand_in_time(node);
        let job = &self.jobs[job];
        self.nodes[node].register_client(job, rank);
        self.drain(node);
    }

    fn jump(&mut self) -> bool {
        let node = self.random.below(self.nodes.len());
        self.nodes[node].ahead += self.random.millis(500, 20_000);
        self.nodes[node].alarm = None;
        self.oracle.jumped.insert(node);
        let now = self.node_time(node);
        self.nodes[node].engine.handle_timeout(now);
        self.drain(node);
        true
    }
}

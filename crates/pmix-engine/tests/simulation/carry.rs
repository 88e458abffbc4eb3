// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes in transit between clients and servers.

use std::time::Duration;

use crate::agenda::Event;
use crate::client::{Packet, Who};
use crate::fault::Fault;
use crate::world::World;

impl World {
    /// Sends bytes, whole or in pieces.
    pub(crate) fn send(&mut self, who: Who, bytes: Vec<u8>, is_up: bool) {
        let mut rest = &bytes[..];
        if bytes.len() > 1 && self.strikes(Fault::Cut, 6) {
            for _ in 0..self.random.below(4) {
                let (piece, tail) = rest.split_at(self.random.below(rest.len()));
                if !piece.is_empty() {
                    self.put(who, Some(piece), is_up);
                }
                rest = tail;
            }
        }
        self.put(who, Some(rest), is_up);
    }

    pub(crate) fn send_close(&mut self, who: Who, is_up: bool) {
        self.put(who, None, is_up);
    }

    fn put(&mut self, who: Who, bytes: Option<&[u8]>, is_up: bool) {
        let latency = match self.plan.has(Fault::Reorder) {
            true => self.random.millis(0, 40),
            false => Duration::from_millis(1),
        };
        let latency = match self.strikes(Fault::Delay, 40) {
            true => self.random.millis(300, 3000),
            false => latency,
        };
        self.num_packets += 1;
        let packet = match bytes {
            Some(bytes) => Packet::Bytes(self.num_packets, bytes.to_vec()),
            None => Packet::Close,
        };
        let at = self.now + latency;
        let client = &mut self.clients[who];
        let link = if is_up {
            &mut client.up
        } else {
            &mut client.down
        };
        link.last = link.last.max(at);
        link.packets.push_back(packet);
        let event = if is_up {
            Event::Up(who)
        } else {
            Event::Down(who)
        };
        let at = link.last;
        self.agenda.add(at, event);
    }

    pub(crate) fn arrive_up(&mut self, who: Who) {
        let client = &mut self.clients[who];
        let Some(packet) = client.up.packets.pop_front() else {
            return;
        };
        if !client.is_known {
            return;
        }
        let (node, peer) = (client.node, client.peer);
        let now = self.node_time(node);
        match packet {
            Packet::Bytes(number, bytes) => {
                let last = self.nodes[node].last_arrived;
                self.nodes[node].last_arrived = last.max(number);
                if number < last && self.plan.has(Fault::Reorder) {
                    self.tally.count(Fault::Reorder);
                }
                self.note(&[1, who as u64, bytes.len() as u64]);
                self.nodes[node].engine.queue_input(peer, &bytes);
            }
            Packet::Close => {
                self.say(|| format!("node {node} sees the end of connection {who}"));
                self.clients[who].is_known = false;
                self.nodes[node].engine.handle_closed(peer, now);
                self.drain_closed(node, who);
                return;
            }
        }
        self.drain(node);
    }

    /// Drops the bytes sent to a connection before the server noticed its end.
    fn drain_closed(&mut self, node: usize, who: Who) {
        let peer = self.clients[who].peer;
        self.nodes[node].peers.remove(&peer);
        self.drain(node);
        self.check_tool_closed(who);
    }

    pub(crate) fn arrive_down(&mut self, who: Who) {
        let client = &mut self.clients[who];
        if let Some(held) = &mut client.held {
            *held += 1;
            return;
        }
        let Some(packet) = client.down.packets.pop_front() else {
            return;
        };
        let (node, peer) = (client.node, client.peer);
        match packet {
            Packet::Bytes(_, bytes) => {
                if self.clients[who].is_known {
                    let engine = &mut self.nodes[node].engine;
                    engine.handle_written(peer, bytes.len());
                    self.drain(node);
                }
                if self.clients[who].is_open {
                    self.note(&[2, who as u64, bytes.len() as u64]);
                    let bytes = self.lie(who, bytes);
                    self.hear(who, &bytes);
                }
            }
            Packet::Close => {
                if self.clients[who].is_open {
                    self.clients[who].is_open = false;
                    self.lose(who);
                    self.life_over(who);
                }
            }
        }
    }

    /// Returns the bytes that arrive at a client, possibly corrupted.
    fn lie(&mut self, who: Who, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.strikes(Fault::Lie, 30) {
            return bytes;
        }
        self.clients[who].is_lied_to = true;
        if let Some(place) = self.clients[who].proc {
            self.procs[place].is_restless = true;
        }
        match self.random.once_in(4) {
            true => bytes.extend_from_within(..),
            false => self.spoil(&mut bytes),
        }
        bytes
    }

    pub(crate) fn wake(&mut self, who: Who) {
        let held = self.clients[who].held.take();
        for _ in 0..held.unwrap_or(0) {
            self.after(Duration::ZERO, Event::Down(who));
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that wait for a process that will not return are notified soon.

use std::time::Duration;

use crate::agenda::Event;
use crate::client::{Asked, What, Who};
use crate::fault::Fault;
use crate::process::ProcId;
use crate::world::World;

impl World {
    /// Schedules the checks after the reply to a finalize.
    pub(super) fn expect_news_of_leaving(&mut self, who: Who) {
        if let Some(place) = self.clients[who].proc {
            let return_time = self.config.return_time.unwrap_or(Duration::MAX);
            self.expect_bad_news(self.clients[who].node, place, return_time);
        }
    }

    /// Schedules the checks after a process has left its node for good, which fences there learn after `after`.
    pub(super) fn expect_bad_news(&mut self, node: usize, lost: ProcId, after: Duration) {
        // A process that does not understand the reply to its finalize remains.
        let faults = [Fault::Again, Fault::Duplicate, Fault::Dismiss, Fault::Lie];
        if self.has_any(&faults) {
            return;
        }
        let (mut waiting, mut undecided) = (Vec::new(), Vec::new());
        for (who, client) in self.clients.iter().enumerate() {
            let is_here = client.node == node;
            for (tag, asked) in &client.asked {
                let is_led = self.led_construct(&asked.what).is_some();
                if is_here && is_led && self.waits_for_decision(who, asked, lost) {
                    undecided.push((who, *tag));
                } else if is_here && !is_led && self.waits_in_vain(asked, lost) {
                    waiting.push((who, *tag, after + Duration::from_secs(4)));
                } else if let Some(time) = self.asks_in_vain(asked, lost, client.node) {
                    waiting.push((who, *tag, time));
                }
            }
        }
        for (who, tag, time) in waiting {
            self.after(time, Event::Deadline(who, tag));
        }
        for (who, tag) in undecided {
            self.expect_decision(who, tag, lost, after);
        }
    }

    pub(super) fn has_any(&self, faults: &[Fault]) -> bool {
        faults.iter().any(|fault| self.plan.has(*fault))
    }

    /// Returns `true` if a process waits for another in a construct with a leader.
    fn waits_for_decision(&self, who: Who, asked: &Asked, lost: ProcId) -> bool {
        let What::AddMembers(number) = asked.what else {
            return self.waits_in_vain(asked, lost);
        };
        let construct = &self.constructs[number];
        // The leader is not asked about members that may be missing, or added ones.
        let leads = |place: &ProcId| construct.leaders().contains(place);
        let is_asked = leads(&lost) && self.clients[who].proc.as_ref().is_some_and(leads);
        let is_asked = is_asked && !construct.may_lack_members();
        let has_come = self.oracle.constructs[number].has_called(lost);
        is_asked && !has_come && asked.answer.is_none()
    }

    fn waits_in_vain(&self, asked: &Asked, lost: ProcId) -> bool {
        let What::Collective(collective, place) = &asked.what else {
            return false;
        };
        let calls = self.oracle.calls.get(&(collective.clone(), lost));
        let came = calls.is_some_and(|calls| calls > place);
        let mut members = collective.members.iter();
        let is_restless = members.any(|member| self.procs[*member].is_restless);
        let has_left = self.oracle.has_left(collective, *place, lost);
        let has_left = has_left || self.destruct_notifies(collective, *place);
        collective.members.contains(&lost) && !came && !has_left && !is_restless
    }

    /// Returns the time limit of a get for a lost process: it returns earlier data, or fails.
    fn asks_in_vain(&self, asked: &Asked, lost: ProcId, node: usize) -> Option<Duration> {
        let is_unclear = [Fault::LateJob, Fault::CrashServer, Fault::HostSilent];
        let is_asked = matches!(asked.what, What::Get(of, ..) if of == lost);
        let proc = &self.procs[lost];
        // A server waits for the registration of an unknown job.
        let is_known = self.jobs[proc.job].ranks_on(node).next().is_some();
        if !is_asked || !is_known || self.has_any(&is_unclear) {
            return None;
        }
        let key_time = self.config.key_time;
        Some(match proc.node == node {
            true => key_time + Duration::from_secs(1),
            false => self.deadline(key_time),
        })
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One construction: who leads it, whom the leaders add, and who has called.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use pmix_types::{Info, IntoOwned as _, Nspace, Proc, Rank, Status, Text, Value, keys};

use super::part::{Leaders, Part, procs_of};
use super::{EndedConstruction, Processes, final_order};
use crate::host::Group;
use crate::infos::{is_set, value};

/// One construction.
#[derive(Debug)]
pub(super) struct One<T> {
    pub(super) name: Text<'static>,
    /// The user whose processes began it, if their servers say it.
    user: Option<u32>,
    leaders: Leaders,
    /// What the leaders said, and those whom they add.
    led: Vec<Part<T>>,
    came: Vec<Part<T>>,
    /// The leaders that are named one by one, or call for themselves.
    leads: HashSet<Proc<'static>>,
    /// The jobs that lead as a whole, and how many processes each has, if it exists.
    jobs: HashMap<Nspace<'static>, Option<u32>>,
    /// Those whom the leaders add, and who are no leaders.
    added: HashSet<Proc<'static>>,
    /// Those of them who have not called.
    lacking: HashSet<Proc<'static>>,
    /// Whose end concerns this or did, whole jobs by their wildcards; and how many of them were said.
    concerned_by: Vec<Proc<'static>>,
    num_said: usize,
    /// Those of them, and those of the leaders who call for themselves, who have called.
    called: HashSet<Proc<'static>>,
    /// Those of them who have ended since: they are members, and may be started again and call in their own place.
    lost: HashSet<Proc<'static>>,
    /// The jobs of the leaders that have called for themselves.
    own_jobs: HashSet<Nspace<'static>>,
    /// How many calls of leaders there were.
    num_led: u64,
    /// The servers that have not called for the leaders that are listed, and how many of these they have that
    /// have not ended.
    awaited: HashMap<usize, usize>,
    /// The servers that have called for them.
    have_called: HashSet<usize>,
    /// The leaders that ended while their servers had not called.
    gone: HashSet<Proc<'static>>,
    /// How many leaders are listed, and those of them that have ended.
    num_listed: usize,
    ended: HashSet<Proc<'static>>,
    order: Option<Vec<Proc<'static>>>,
    /// Whether it is formed without those who end before they call.
    pub(super) may_lack_members: bool,
    /// Whether one of the members leads, so that servers call for those that are lost when that one has decided.
    is_led: bool,
    pub(super) until: Option<Instant>,
    pub(super) failed: Option<Status>,
}

impl<T> One<T> {
    /// Begins one with the first call of a leader, or of a server for its leaders. Those of other servers that
    /// have ended will not call: it fails, unless it is found to do without them.
    pub(super) fn new(
        name: Text<'static>,
        leaders: Leaders,
        part: &Part<T>,
        server: usize,
        processes: &impl Processes,
    ) -> Self {
        let mut one = Self::begun(name, leaders, part.user);
        let Leaders::Listed(procs) = &one.leaders else {
            return one;
        };
        for proc in procs {
            let of = |rank| Proc::new(proc.nspace.clone(), Rank::new(rank));
            let ranks = match proc.rank {
                Rank::WILDCARD => 0..processes.job_size(&proc.nspace).unwrap_or(0),
                rank => rank.as_raw()..rank.as_raw().saturating_add(1),
            };
            for proc in ranks.map(of) {
                // A process that no server has is not waited for.
                let Some(at) = processes.server_of(&proc) else {
                    continue;
                };
                let has_ended = processes.has_ended(&proc);
                one.num_listed += 1;
                if has_ended {
                    one.ended.insert(proc.clone());
                }
                match at != server && has_ended {
                    true => _ = one.gone.insert(proc),
                    false => *one.awaited.entry(at).or_default() += 1,
                }
            }
        }
        one.concerned_by.clone_from(procs);
        // Who calls is one of them, whatever the host knows.
        one.awaited.entry(server).or_default();
        one
    }

    fn begun(name: Text<'static>, leaders: Leaders, user: Option<u32>) -> Self {
        Self {
            name,
            user,
            leaders,
            led: Vec::new(),
            came: Vec::new(),
            leads: HashSet::new(),
            jobs: HashMap::new(),
            added: HashSet::new(),
            lacking: HashSet::new(),
            concerned_by: Vec::new(),
            num_said: 0,
            called: HashSet::new(),
            lost: HashSet::new(),
            own_jobs: HashSet::new(),
            num_led: 0,
            awaited: HashMap::new(),
            have_called: HashSet::new(),
            gone: HashSet::new(),
            num_listed: 0,
            ended: HashSet::new(),
            order: None,
            may_lack_members: false,
            is_led: false,
            until: None,
            failed: None,
        }
    }

    /// It ends when the shortest time is over.
    pub(super) fn limit(&mut self, until: Option<Instant>) {
        self.until = [self.until, until].into_iter().flatten().min();
    }

    /// Whether the call of a leader is a part of this, which has its name. Where leaders are counted, those of other
    /// users are no part of it, and those of other jobs only if they say the same number.
    pub(super) fn takes(&self, server: usize, leaders: &Leaders, part: &Part<T>) -> bool {
        match (&self.leaders, leaders) {
            (Leaders::Listed(own), Leaders::Listed(other)) => {
                self.awaited.contains_key(&server) && own == other
            }
            (Leaders::Counted(count), Leaders::Counted(other)) => {
                let proc = part.proc.as_ref();
                let has_called = proc.is_some_and(|proc| self.has_called(proc));
                let is_back = proc.is_some_and(|proc| self.lost.contains(proc));
                // One of these jobs that says another number belongs to it, and ends it.
                let is_own = proc.is_some_and(|proc| self.own_jobs.contains(&proc.nspace));
                let is_open = (!has_called && self.num_led < *count) || is_back;
                is_open && self.may_have(part) && (count == other || is_own)
            }
            _ => false,
        }
    }

    /// A leader calls, or a server for its leaders. It fails as it failed on that server; with
    /// `PMIX_ERR_BAD_PARAM` for another number of leaders or order of the members than others gave, with
    /// `PMIX_ERR_NOT_FOUND` if a job that is added does not exist, with `PMIX_ERR_LOST_CONNECTION` if one that
    /// is added has ended, and with `PMIX_ERR_NO_PERMISSIONS` if those who are listed are of several users.
    pub(super) fn lead(
        &mut self,
        part: Part<T>,
        server: usize,
        call: &Group,
        leaders: &Leaders,
        processes: &impl Processes,
    ) {
        let infos = &call.directives;
        self.led_once(&part);
        self.awaited.remove(&server);
        self.have_called.insert(server);
        self.led_by(&part, processes);
        if !self.may_have(&part) {
            self.fails(Status::ERR_NO_PERMISSIONS);
        }
        self.user = self.user.or(part.user);
        self.led.push(part);
        let number = |leaders: &Leaders| match leaders {
            Leaders::Counted(count) => Some(*count),
            Leaders::Listed(_) => None,
        };
        if number(leaders) != number(&self.leaders) || number(leaders) == Some(0) {
            self.fails(Status::ERR_BAD_PARAM);
        }
        if let Some(Value::Status(status)) = value(infos, keys::LOCAL_COLLECTIVE_STATUS)
            && !status.is_success()
        {
            self.fails(*status);
        }
        if let Some(order) = final_order(infos) {
            let order = Proc::owned_list(order);
            if self.order.as_ref().is_some_and(|known| *known != order) {
                self.fails(Status::ERR_BAD_PARAM);
            }
            self.order = Some(order);
        }
        let do_without = [keys::GROUP_OPTIONAL, keys::GROUP_NOTIFY_TERMINATION];
        self.may_lack_members |= do_without.iter().any(|key| is_set(infos, key));
        if is_set(infos, keys::GROUP_LEADER) {
            self.wait_for_decisions(processes);
        }
        if !self.may_lack_members && !self.gone.is_empty() {
            self.fails(Status::ERR_LOST_CONNECTION);
        }
        self.add_all(infos, processes);
    }

    /// Counts the call of a leader, unless it has ended since an earlier one and calls again.
    fn led_once(&mut self, part: &Part<T>) {
        let is_known = |proc: &Proc<'static>| self.leads.contains(proc);
        let has_led = part.proc.as_ref().is_some_and(is_known);
        if !(self.called_by(part) && has_led) {
            self.num_led = self.num_led.saturating_add(1);
        }
    }

    /// One of the members leads: the servers of those that are gone call when it has decided what follows.
    fn wait_for_decisions(&mut self, processes: &impl Processes) {
        self.is_led = true;
        for proc in self.gone.drain() {
            if let Some(server) = processes.server_of(&proc)
                && !self.have_called.contains(&server)
            {
                self.awaited.entry(server).or_default();
            }
        }
    }

    /// Whom a leader adds.
    fn add_all(&mut self, infos: &[Info<'_>], processes: &impl Processes) {
        for proc in procs_of(infos, keys::GROUP_ADD_MEMBERS).unwrap_or_default() {
            let Some(size) = processes.job_size(&proc.nspace) else {
                self.fails(Status::ERR_NOT_FOUND);
                continue;
            };
            let ranks = match proc.rank {
                Rank::WILDCARD => 0..size,
                rank => rank.as_raw()..rank.as_raw().saturating_add(1),
            };
            let nspace = proc.nspace.to_shared();
            if self.jobs.contains_key(&nspace) {
                continue;
            }
            for rank in ranks {
                let proc = Proc::new(nspace.clone(), Rank::new(rank));
                match self.called.contains(&proc) || !processes.has_ended(&proc) {
                    _ if self.leads.contains(&proc) => {}
                    true => self.adds(proc),
                    false if self.may_lack_members => {}
                    false => self.fails(Status::ERR_LOST_CONNECTION),
                }
            }
        }
    }

    /// One is added.
    fn adds(&mut self, proc: Proc<'static>) {
        if self.added.insert(proc.clone()) && !self.called.contains(&proc) {
            self.concerned_by.push(proc.clone());
            self.lacking.insert(proc);
        }
    }

    /// Takes note of the leaders that a call names: they are not among those who are added.
    fn led_by(&mut self, part: &Part<T>, processes: &impl Processes) {
        if let Some(proc) = &part.proc
            && !self.own_jobs.contains(&proc.nspace)
        {
            self.own_jobs.insert(proc.nspace.clone());
        }
        for proc in part.listed.iter().chain(&part.proc) {
            if proc.rank != Rank::WILDCARD {
                self.added.remove(proc);
                self.lacking.remove(proc);
                self.leads.insert(proc.clone());
            } else if !self.jobs.contains_key(&proc.nspace) {
                self.added.retain(|added| added.nspace != proc.nspace);
                self.lacking.retain(|added| added.nspace != proc.nspace);
                let size = processes.job_size(&proc.nspace);
                self.jobs.insert(proc.nspace.clone(), size);
            }
        }
    }

    /// It ends without success; the first reason counts.
    fn fails(&mut self, status: Status) {
        self.failed.get_or_insert(status);
    }

    /// A list with whole jobs written out, as far as their sizes are known.
    fn each(&self, list: Vec<Proc<'static>>) -> Vec<Proc<'static>> {
        let each = |proc: Proc<'static>| match self.jobs.get(&proc.nspace) {
            Some(Some(size)) if proc.rank == Rank::WILDCARD => {
                let of = |rank| Proc::new(proc.nspace.clone(), Rank::new(rank));
                (0..*size).map(of).collect()
            }
            _ => vec![proc],
        };
        list.into_iter().flat_map(each).collect()
    }

    /// Whether one that calls for itself is among those whom the leaders add, and has not called.
    pub(super) fn wants(&self, part: &Part<T>) -> bool {
        self.may_have(part) && self.lacks(part)
    }

    /// Whether a call is of the user of this, as far as their servers say whose they are: one that calls for processes
    /// that are lost does not.
    fn may_have(&self, part: &Part<T>) -> bool {
        let users = self.user.zip(part.user);
        users.is_none_or(|(own, other)| own == other)
    }

    fn lacks(&self, part: &Part<T>) -> bool {
        let is_back = |proc: &Proc<'static>| self.lost.contains(proc) && self.added.contains(proc);
        let is_lacking = |proc: &Proc<'static>| self.lacking.contains(proc) || is_back(proc);
        part.proc.as_ref().is_some_and(is_lacking)
    }

    /// Fails this construct with `PMIX_ERR_NO_PERMISSIONS` if it adds a process that calls and is of another user.
    /// Returns whether that is so.
    pub(super) fn refuse_other_user(&mut self, part: &Part<T>) -> bool {
        let is_refused = !self.may_have(part) && self.lacks(part);
        if let Some(proc) = part.proc.as_ref().filter(|_| is_refused) {
            self.lacking.remove(proc);
            self.added.remove(proc);
            self.fails(Status::ERR_NO_PERMISSIONS);
        }
        is_refused
    }

    /// One that is added calls.
    pub(super) fn add(&mut self, part: Part<T>) {
        self.called_by(&part);
        self.came.push(part);
    }

    /// Takes note of who calls for itself. Returns whether it calls in its own place, as it has ended since an earlier
    /// call.
    fn called_by(&mut self, part: &Part<T>) -> bool {
        let Some(proc) = &part.proc else {
            return false;
        };
        self.lacking.remove(proc);
        if self.called.insert(proc.clone()) && !self.added.contains(proc) {
            self.concerned_by.push(proc.clone());
        }
        let is_back = self.lost.remove(proc);
        if is_back {
            let parts = self.led.iter_mut().chain(&mut self.came);
            let own = parts.filter(|part| part.proc.as_ref() == Some(proc));
            own.for_each(Part::is_replaced);
        }
        is_back
    }

    /// Whether one has called for itself, and has not ended since.
    pub(super) fn has_called(&self, proc: &Proc<'static>) -> bool {
        self.called.contains(proc) && !self.lost.contains(proc)
    }

    /// Those who have called for themselves, and have not ended since.
    pub(super) fn called(&self) -> impl Iterator<Item = &Proc<'static>> {
        self.called.iter().filter(|proc| !self.lost.contains(proc))
    }

    /// Returns whose end concerns this, which was not said yet.
    pub(super) fn say_concerned(&mut self) -> Vec<Proc<'static>> {
        let said = std::mem::replace(&mut self.num_said, self.concerned_by.len());
        self.concerned_by.get(said..).unwrap_or_default().to_vec()
    }

    /// The processes whose end may concern this or did, whole jobs by their wildcards.
    pub(super) fn concerned_by(&self) -> &[Proc<'static>] {
        &self.concerned_by
    }

    /// A process has ended. Tells whether it was waited for, which it is no longer.
    pub(super) fn lose(&mut self, proc: &Proc<'_>, processes: &impl Processes) -> bool {
        let proc = proc.clone().into_owned();
        if self.lacking.remove(&proc) {
            self.added.remove(&proc);
            return true;
        }
        // Who was told how it ended calls for another.
        if self.failed.is_none() && self.called.contains(&proc) {
            self.lost.insert(proc.clone());
        }
        let Leaders::Listed(_) = &self.leaders else {
            return false;
        };
        let leads = self.leads.contains(&proc) || self.jobs.contains_key(&proc.nspace);
        let Some(server) = processes.server_of(&proc).filter(|_| leads) else {
            return false;
        };
        self.ended.insert(proc.clone());
        if self.is_led {
            return self.is_abandoned();
        }
        let Some(left) = self.awaited.get_mut(&server) else {
            return false;
        };
        if !self.gone.insert(proc) {
            return false;
        }
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.awaited.remove(&server);
        }
        true
    }

    /// Whether the call of a server is waited for.
    pub(super) fn awaits(&self, server: usize) -> bool {
        self.awaited.contains_key(&server)
    }

    /// A server has ended: it does not call.
    pub(super) fn lose_server(&mut self, server: usize) {
        self.awaited.remove(&server);
    }

    /// A server calls for its leaders, or a leader for itself, which is told how it ended, as are those whom they
    /// add.
    pub(super) fn led_late(
        &mut self,
        server: usize,
        part: Part<T>,
        call: &Group,
        processes: &impl Processes,
    ) {
        self.led_once(&part);
        self.awaited.remove(&server);
        self.have_called.insert(server);
        self.led.push(part);
        self.add_all(&call.directives, processes);
    }

    /// Whether leaders are waited for of whom it is not known who they are.
    pub(super) fn waits_for_unknown(&self) -> bool {
        matches!(self.leaders, Leaders::Counted(count) if self.num_led < count)
    }

    /// Whether such leaders are waited for, and of so many processes that have not ended none is left that has
    /// not called.
    pub(super) fn is_deserted(&self, num_running: usize, processes: &impl Processes) -> bool {
        self.waits_for_unknown() && num_running <= self.called.len() && {
            let called = self.called();
            called.filter(|proc| !processes.has_ended(proc)).count() >= num_running
        }
    }

    /// Whether one of the members led it, and all who are listed have ended: a server may have called for one that had
    /// ended on the other servers before.
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_led && self.num_listed > 0 && self.ended.len() >= self.num_listed
    }

    /// Whether all have called.
    pub(super) fn is_complete(&self) -> bool {
        let is_led = match self.leaders {
            Leaders::Listed(_) => self.awaited.is_empty(),
            Leaders::Counted(count) => self.num_led >= count,
        };
        is_led && self.lacking.is_empty()
    }

    pub(super) fn take_tokens(&mut self) -> Vec<T> {
        self.lost.clear();
        let parts = std::mem::take(&mut self.led).into_iter();
        let parts = parts.chain(std::mem::take(&mut self.came));
        parts.map(|part| part.token).collect()
    }

    /// All have called.
    pub(super) fn succeed(mut self) -> EndedConstruction<T> {
        let mut members = self.in_order();
        if !self.gone.is_empty() {
            members = self.each(members);
            members.retain(|proc| !self.gone.contains(proc));
        }
        let mut added: Vec<_> = self.added.drain().collect();
        added.sort_unstable();
        members.extend(added);
        if let Some(order) = &self.order {
            members = ordered(self.each(members), order);
        }
        let mut infos = vec![Info::new(keys::GROUP_MEMBERSHIP, members)];
        let parts = || self.led.iter().chain(&self.came);
        infos.extend(parts().flat_map(|part| part.shared.clone()));
        if parts().any(|part| part.notifies) {
            infos.push(Info::new(keys::GROUP_NOTIFY_TERMINATION, true));
        }
        let wants_context_id = parts().any(|part| part.wants_context_id);
        EndedConstruction {
            wants_context_id,
            tokens: self.take_tokens(),
            outcome: Ok(infos),
        }
    }

    /// The leaders: as all of them list them, without whom any server does without, or else by their names.
    fn in_order(&self) -> Vec<Proc<'static>> {
        match &self.leaders {
            Leaders::Listed(procs) => {
                let mut lists = self.led.iter().map(|part| &part.listed);
                let first = lists.next().unwrap_or(procs);
                if lists.clone().all(|list| list == first) {
                    return first.clone();
                }
                // A server that does without one names the others one by one, where another may name whole jobs.
                let mut both: HashSet<_> = self.each(first.clone()).into_iter().collect();
                for list in lists {
                    let named: HashSet<_> = self.each(list.clone()).into_iter().collect();
                    both.retain(|proc| named.contains(proc));
                }
                let mut both: Vec<_> = both.into_iter().collect();
                both.sort_unstable();
                both
            }
            Leaders::Counted(_) => {
                let procs = self.led.iter().filter_map(|part| part.proc.clone());
                let mut procs: Vec<_> = procs.collect();
                procs.sort_unstable();
                procs
            }
        }
    }
}

/// Members in the order that another list gives.
pub(super) fn ordered(members: Vec<Proc<'static>>, order: &[Proc<'static>]) -> Vec<Proc<'static>> {
    let mut places: HashMap<(&Nspace<'_>, Rank), usize> = HashMap::new();
    for (place, proc) in order.iter().enumerate() {
        places.entry((&proc.nspace, proc.rank)).or_insert(place);
    }
    let place = |proc: &Proc<'static>| {
        let named = |rank| places.get(&(&proc.nspace, rank)).copied();
        match named(proc.rank) {
            Some(place) => (place, Rank::new(0)),
            None => match named(Rank::WILDCARD) {
                Some(place) => (place, proc.rank),
                None => (usize::MAX, Rank::new(0)),
            },
        }
    };
    let mut placed: Vec<_> = members
        .into_iter()
        .map(|proc| (place(&proc), proc))
        .collect();
    // A stable sort leaves those who are not named as they are.
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, proc)| proc).collect()
}

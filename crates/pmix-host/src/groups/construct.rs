// SPDX-License-Identifier: MIT OR Apache-2.0
//! One construct: its leaders, the processes that they add, and the calls so far.

mod outcome;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use pmix_engine::Procs;
use pmix_engine::infos::{is_set, value};
use pmix_server::upcall::Group;
use pmix_types::{Info, IntoOwned as _, Nspace, Proc, Rank, Status, Text, Value, keys, memory};

use super::Processes;
use super::call::{ConstructCall, Leaders, procs_of};

/// The limits of the processes that leaders add to open constructs. A leader can add a whole job with one entry, whose
/// processes take [`BYTES_OF_ADDED`] each until the construct ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddLimits {
    /// The number of processes added to one construct.
    pub(super) of_one: usize,
    /// The number of processes added to all constructs.
    pub(super) of_all: usize,
}

impl Default for AddLimits {
    fn default() -> Self {
        Self {
            of_one: 1 << 18,
            of_all: 1 << 20,
        }
    }
}

impl AddLimits {
    /// Returns the limits for a construct to which `num_added` of the `all_added` processes were added.
    pub(super) const fn for_one(self, num_added: usize, all_added: usize) -> Self {
        let others = all_added.saturating_sub(num_added);
        Self {
            of_one: self.of_one,
            of_all: self.of_all.saturating_sub(others),
        }
    }
}

/// The memory of an added process in bytes: its entries in four sets and a list.
const BYTES_OF_ADDED: usize = 300;

/// The memory of a refused process in bytes, in a set of ranks.
const BYTES_OF_REFUSED: usize = 16;

/// The memory of a job with refused processes in bytes, without its name.
const BYTES_OF_REFUSED_JOB: usize = 192;

/// One construct.
#[derive(Debug)]
pub(super) struct GroupConstruct<T> {
    pub(super) name: Text<'static>,
    /// The user of the processes that began it, if their servers give it.
    user: Option<u32>,
    leaders: Leaders,
    /// The calls of leaders.
    leader_calls: Vec<ConstructCall<T>>,
    /// The calls of added processes.
    participant_calls: Vec<ConstructCall<T>>,
    /// The leaders that are named one by one, or call for themselves.
    leads: HashSet<Proc<'static>>,
    /// The jobs that lead as a whole, with the number of their processes if the job exists.
    jobs: HashMap<Nspace<'static>, Option<u32>>,
    /// The processes that leaders add, leaders excluded.
    added: HashSet<Proc<'static>>,
    /// The number of processes ever added, which takes no account of those that have ended or lead.
    num_added: usize,
    /// The added processes that have not called.
    missing: HashSet<Proc<'static>>,
    /// The processes of lists that were refused, because a construct has a limit. The processes get the failure when they
    /// call.
    refused: Procs,
    /// Their memory in bytes, an estimate.
    refused_bytes: usize,
    /// The processes whose end affects this construct (jobs as `PMIX_RANK_WILDCARD`); the first `num_reported` were
    /// already returned.
    concerned_by: Vec<Proc<'static>>,
    num_reported: usize,
    /// The added processes, and the leaders calling for themselves, that have called.
    called: HashSet<Proc<'static>>,
    /// The processes among `called` that have ended since. They stay members; a restarted process may call in its own
    /// place.
    lost: HashSet<Proc<'static>>,
    /// The jobs of the leaders that have called for themselves.
    own_jobs: HashSet<Nspace<'static>>,
    /// The number of leader calls.
    num_led: u64,
    /// The servers that have not called for the listed leaders, with the number of these that have not ended.
    awaited: HashMap<usize, usize>,
    /// The servers that have called for the listed leaders.
    have_called: HashSet<usize>,
    /// The leaders that ended before their server called.
    lost_leaders: HashSet<Proc<'static>>,
    /// The number of listed leaders, and the listed leaders that have ended.
    num_listed: usize,
    ended: HashSet<Proc<'static>>,
    order: Option<Vec<Proc<'static>>>,
    /// `true` if the group is formed without processes that end before they call.
    pub(super) may_lack_members: bool,
    /// `true` if one of the members leads, so that servers call for lost processes when the leader has decided.
    is_led: bool,
    /// The end of the shortest `PMIX_TIMEOUT` of the callers.
    pub(super) until: Option<Instant>,
    pub(super) failed: Option<Status>,
}

impl<T> GroupConstruct<T> {
    /// Creates a construct for the first call of a leader, or of a server for its leaders. Ended leaders of other
    /// servers will not call. They fail the construct unless a call allows missing members.
    pub(super) fn new(
        name: Text<'static>,
        leaders: Leaders,
        call: &ConstructCall<T>,
        server: usize,
        processes: &impl Processes,
    ) -> Self {
        let mut construct = Self::begun(name, leaders, call.user);
        let Leaders::Listed(procs) = &construct.leaders else {
            return construct;
        };
        for proc in procs {
            let of = |rank| Proc::new(proc.nspace.clone(), Rank::new(rank));
            let ranks = match proc.rank {
                Rank::WILDCARD => 0..processes.job_size(&proc.nspace).unwrap_or(0),
                rank => rank.as_raw()..rank.as_raw().saturating_add(1),
            };
            for proc in ranks.map(of) {
                // No server would call for a process that is at none.
                let Some(at) = processes.server_of(&proc) else {
                    continue;
                };
                let has_ended = processes.has_ended(&proc);
                construct.num_listed += 1;
                if has_ended {
                    construct.ended.insert(proc.clone());
                }
                match at != server && has_ended {
                    true => _ = construct.lost_leaders.insert(proc),
                    false => *construct.awaited.entry(at).or_default() += 1,
                }
            }
        }
        construct.concerned_by.clone_from(procs);
        // The calling server takes part, also if the host knows no leader of it.
        construct.awaited.entry(server).or_default();
        construct
    }

    fn begun(name: Text<'static>, leaders: Leaders, user: Option<u32>) -> Self {
        Self {
            name,
            user,
            leaders,
            leader_calls: Vec::new(),
            participant_calls: Vec::new(),
            leads: HashSet::new(),
            jobs: HashMap::new(),
            added: HashSet::new(),
            num_added: 0,
            missing: HashSet::new(),
            refused: Procs::default(),
            refused_bytes: 0,
            concerned_by: Vec::new(),
            num_reported: 0,
            called: HashSet::new(),
            lost: HashSet::new(),
            own_jobs: HashSet::new(),
            num_led: 0,
            awaited: HashMap::new(),
            have_called: HashSet::new(),
            lost_leaders: HashSet::new(),
            num_listed: 0,
            ended: HashSet::new(),
            order: None,
            may_lack_members: false,
            is_led: false,
            until: None,
            failed: None,
        }
    }

    /// Shortens the time that the construct waits.
    fn limit(&mut self, until: Option<Instant>) {
        self.until = [self.until, until].into_iter().flatten().min();
    }

    /// Returns `true` if the call of a leader with this name belongs to this construct. If leaders are counted, calls
    /// of other users do not belong to it, and calls of other jobs only if they give the same number.
    pub(super) fn takes(&self, server: usize, leaders: &Leaders, call: &ConstructCall<T>) -> bool {
        match (&self.leaders, leaders) {
            (Leaders::Listed(own), Leaders::Listed(other)) => {
                self.awaited.contains_key(&server) && own == other
            }
            (Leaders::Counted(count), Leaders::Counted(other)) => {
                let proc = call.proc.as_ref();
                let has_called = proc.is_some_and(|proc| self.has_called(proc));
                let is_back = proc.is_some_and(|proc| self.lost.contains(proc));
                // A leader of these jobs with another number belongs to the construct, and fails it.
                let is_own = proc.is_some_and(|proc| self.own_jobs.contains(&proc.nspace));
                let is_open = (!has_called && self.num_led < *count) || is_back;
                is_open && self.accepts_user(call) && (count == other || is_own)
            }
            _ => false,
        }
    }

    /// Adds the call of a leader, or of a server for its leaders. It may fail the construct:
    ///
    /// - with the status with which it failed on that server;
    /// - with `PMIX_ERR_BAD_PARAM` for another number of leaders or order of members than before;
    /// - with `PMIX_ERR_NOT_FOUND` for an added job that does not exist;
    /// - with `PMIX_ERR_LOST_CONNECTION` for an added process that has ended;
    /// - with `PMIX_ERR_OUT_OF_RESOURCE` for more added processes than `room`;
    /// - with `PMIX_ERR_NO_PERMISSIONS` for listed leaders of several users.
    pub(super) fn add_leader_call(
        &mut self,
        call: ConstructCall<T>,
        server: usize,
        group: &Group,
        leaders: &Leaders,
        room: AddLimits,
        processes: &impl Processes,
    ) {
        let infos = &group.directives;
        self.limit(call.until);
        self.count_leader_call(&call);
        self.awaited.remove(&server);
        self.have_called.insert(server);
        self.register_leaders(&call, processes);
        if !self.accepts_user(&call) {
            self.fail_with(Status::ERR_NO_PERMISSIONS);
        }
        // A server that calls only for lost processes gives no user.
        self.user = self.user.or(call.user);
        self.leader_calls.push(call);
        let number = |leaders: &Leaders| match leaders {
            Leaders::Counted(count) => Some(*count),
            Leaders::Listed(_) => None,
        };
        // 0 is the number of a process that waits to be added, not of a leader.
        if number(leaders) != number(&self.leaders) || number(leaders) == Some(0) {
            self.fail_with(Status::ERR_BAD_PARAM);
        }
        if let Some(Value::Status(status)) = value(infos, keys::LOCAL_COLLECTIVE_STATUS)
            && !status.is_success()
        {
            self.fail_with(*status);
        }
        if let Some(order) = procs_of(infos, keys::GROUP_FINAL_MEMBERSHIP_ORDER) {
            let order = Proc::owned_list(order);
            if self.order.as_ref().is_some_and(|known| *known != order) {
                self.fail_with(Status::ERR_BAD_PARAM);
            }
            self.order = Some(order);
        }
        let do_without = [keys::GROUP_OPTIONAL, keys::GROUP_NOTIFY_TERMINATION];
        self.may_lack_members |= do_without.iter().any(|key| is_set(infos, key));
        if is_set(infos, keys::GROUP_LEADER) {
            self.wait_for_decisions(processes);
        }
        if !self.may_lack_members && !self.lost_leaders.is_empty() {
            self.fail_with(Status::ERR_LOST_CONNECTION);
        }
        // The directives above decide if an added process may have ended.
        self.add_all(infos, room, processes);
    }

    /// Counts the call of a leader, unless it has ended since an earlier one and calls again.
    fn count_leader_call(&mut self, call: &ConstructCall<T>) {
        let is_known = |proc: &Proc<'static>| self.leads.contains(proc);
        let has_led = call.proc.as_ref().is_some_and(is_known);
        if !(self.record_caller(call) && has_led) {
            self.num_led = self.num_led.saturating_add(1);
        }
    }

    /// Waits for the servers of the lost leaders, which call when the leading member has decided.
    fn wait_for_decisions(&mut self, processes: &impl Processes) {
        self.is_led = true;
        for proc in self.lost_leaders.drain() {
            if let Some(server) = processes.server_of(&proc)
                && !self.have_called.contains(&server)
            {
                self.awaited.entry(server).or_default();
            }
        }
    }

    /// Returns the number of processes ever added.
    pub(super) const fn num_added(&self) -> usize {
        self.num_added
    }

    /// Adds the processes that a leader names.
    fn add_all(&mut self, infos: &[Info<'_>], room: AddLimits, processes: &impl Processes) {
        let listed = procs_of(infos, keys::GROUP_ADD_MEMBERS).unwrap_or_default();
        let size = |proc: &Proc<'_>| match proc.rank {
            Rank::WILDCARD => processes.job_size(&proc.nspace).unwrap_or(0).into(),
            _ => 1,
        };
        let num: u64 = listed.iter().map(size).sum();
        // The list is counted before the first of its processes is added: a repeated job would also take time.
        let num = usize::try_from(num).unwrap_or(usize::MAX);
        if num > room.of_one {
            return self.refuse(listed, Status::ERR_OUT_OF_RESOURCE);
        }
        if let Err(error) = memory::check(num.saturating_mul(BYTES_OF_ADDED)) {
            return self.refuse(listed, error.status());
        }
        for proc in listed {
            let Some(size) = processes.job_size(&proc.nspace) else {
                self.fail_with(Status::ERR_NOT_FOUND);
                continue;
            };
            let ranks = match proc.rank {
                Rank::WILDCARD => 0..size,
                rank => rank.as_raw()..rank.as_raw().saturating_add(1),
            };
            let nspace = proc.nspace.to_shared();
            // All processes of this job are leaders.
            if self.jobs.contains_key(&nspace) {
                continue;
            }
            for rank in ranks {
                let proc = Proc::new(nspace.clone(), Rank::new(rank));
                // A process that has called stays a member, even if it has ended since.
                match self.called.contains(&proc) || !processes.has_ended(&proc) {
                    _ if self.leads.contains(&proc) => {}
                    true if self.has_room_for(&proc, room) => self.add_member(proc),
                    true => return self.refuse(listed, Status::ERR_OUT_OF_RESOURCE),
                    false if self.may_lack_members => {}
                    false => self.fail_with(Status::ERR_LOST_CONNECTION),
                }
            }
        }
    }

    /// Fails the construct, whose leader names more processes than may be added. The named processes are not told apart,
    /// so that a whole job takes one entry.
    fn refuse(&mut self, listed: &[Proc<'_>], status: Status) {
        self.fail_with(status);
        let of_run = |run: &[Proc<'_>]| {
            let name = run.first().map_or(0, |proc| proc.nspace.as_bytes().len());
            BYTES_OF_REFUSED_JOB + name + run.len() * BYTES_OF_REFUSED
        };
        let runs = listed.chunk_by(|a, b| a.nspace == b.nspace);
        let bytes = runs.map(of_run).fold(0, usize::saturating_add);
        if memory::check(bytes).is_ok() {
            self.refused.extend(listed);
            self.refused_bytes = self.refused_bytes.saturating_add(bytes);
        }
    }

    /// Returns the memory of the refused processes in bytes, an estimate.
    pub(super) const fn refused_bytes(&self) -> usize {
        self.refused_bytes
    }

    /// Returns `true` if a process was added or can be added.
    fn has_room_for(&self, proc: &Proc<'static>, room: AddLimits) -> bool {
        self.num_added < room.of_one.min(room.of_all) || self.added.contains(proc)
    }

    /// Adds a process, and awaits its call unless it has called.
    fn add_member(&mut self, proc: Proc<'static>) {
        if !self.added.insert(proc.clone()) {
            return;
        }
        self.num_added += 1;
        if !self.called.contains(&proc) {
            self.concerned_by.push(proc.clone());
            self.missing.insert(proc);
        }
    }

    /// Registers the leaders that a call names, and removes them from the added processes.
    fn register_leaders(&mut self, call: &ConstructCall<T>, processes: &impl Processes) {
        if let Some(proc) = &call.proc
            && !self.own_jobs.contains(&proc.nspace)
        {
            self.own_jobs.insert(proc.nspace.clone());
        }
        for proc in call.listed.iter().chain(&call.proc) {
            if proc.rank != Rank::WILDCARD {
                // Another leader may have added this one before its call arrived.
                self.added.remove(proc);
                self.missing.remove(proc);
                self.leads.insert(proc.clone());
            } else if !self.jobs.contains_key(&proc.nspace) {
                self.added.retain(|added| added.nspace != proc.nspace);
                self.missing.retain(|added| added.nspace != proc.nspace);
                let size = processes.job_size(&proc.nspace);
                self.jobs.insert(proc.nspace.clone(), size);
            }
        }
    }

    /// Fails the construct; the first status stays.
    fn fail_with(&mut self, status: Status) {
        self.failed.get_or_insert(status);
    }

    /// Returns `true` if the caller is a process of this user that was added, or refused, and has not called.
    pub(super) fn awaits_participant(&self, call: &ConstructCall<T>) -> bool {
        let is_refused =
            |proc: &Proc<'static>| self.refused.has(proc) && !self.called.contains(proc);
        let is_awaited = self.is_missing(call) || call.proc.as_ref().is_some_and(is_refused);
        is_awaited && self.accepts_user(call)
    }

    /// Returns `true` unless a call is known to be of another user. A server that calls for lost processes gives no
    /// user.
    fn accepts_user(&self, call: &ConstructCall<T>) -> bool {
        let users = self.user.zip(call.user);
        users.is_none_or(|(own, other)| own == other)
    }

    fn is_missing(&self, call: &ConstructCall<T>) -> bool {
        let is_back = |proc: &Proc<'static>| self.lost.contains(proc) && self.added.contains(proc);
        let is_absent = |proc: &Proc<'static>| self.missing.contains(proc) || is_back(proc);
        call.proc.as_ref().is_some_and(is_absent)
    }

    /// Fails this construct with `PMIX_ERR_NO_PERMISSIONS` if it adds a process that calls and is of another user.
    /// Returns `true` if it did.
    pub(super) fn refuse_other_user(&mut self, call: &ConstructCall<T>) -> bool {
        let is_refused = !self.accepts_user(call) && self.is_missing(call);
        if let Some(proc) = call.proc.as_ref().filter(|_| is_refused) {
            self.missing.remove(proc);
            self.added.remove(proc);
            self.fail_with(Status::ERR_NO_PERMISSIONS);
        }
        is_refused
    }

    /// Adds the call of an added process.
    pub(super) fn add_participant(&mut self, call: ConstructCall<T>) {
        self.limit(call.until);
        self.record_caller(&call);
        self.participant_calls.push(call);
    }

    /// Records the process that calls for itself. Returns `true` if the call replaces an earlier one of a process that
    /// has ended since.
    fn record_caller(&mut self, call: &ConstructCall<T>) -> bool {
        let Some(proc) = &call.proc else {
            return false;
        };
        self.missing.remove(proc);
        if self.called.insert(proc.clone()) && !self.added.contains(proc) {
            self.concerned_by.push(proc.clone());
        }
        let is_back = self.lost.remove(proc);
        if is_back {
            let calls = self
                .leader_calls
                .iter_mut()
                .chain(&mut self.participant_calls);
            let own = calls.filter(|call| call.proc.as_ref() == Some(proc));
            own.for_each(ConstructCall::replace);
        }
        is_back
    }

    /// Returns `true` if a process has called for itself and has not ended since.
    pub(super) fn has_called(&self, proc: &Proc<'static>) -> bool {
        self.called.contains(proc) && !self.lost.contains(proc)
    }

    /// Returns the processes that have called for themselves and have not ended since.
    pub(super) fn called(&self) -> impl Iterator<Item = &Proc<'static>> {
        self.called.iter().filter(|proc| !self.lost.contains(proc))
    }

    /// Returns the processes whose end affects this construct and that were not returned before.
    pub(super) fn take_new_concerned(&mut self) -> Vec<Proc<'static>> {
        let num_reported = std::mem::replace(&mut self.num_reported, self.concerned_by.len());
        self.concerned_by
            .get(num_reported..)
            .unwrap_or_default()
            .to_vec()
    }

    /// Returns all processes whose end affects or affected this construct, whole jobs by their wildcards.
    pub(super) fn concerned_by(&self) -> &[Proc<'static>] {
        &self.concerned_by
    }

    /// Records that a process has ended. Returns `true` if its call was awaited; it no longer is.
    pub(super) fn handle_proc_ended(
        &mut self,
        proc: &Proc<'_>,
        processes: &impl Processes,
    ) -> bool {
        let proc = proc.clone().into_owned();
        if self.missing.remove(&proc) {
            self.added.remove(&proc);
            return true;
        }
        // After a failure was answered, a new call of this process is for another construct.
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
        if !self.lost_leaders.insert(proc) {
            return false;
        }
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.awaited.remove(&server);
        }
        true
    }

    /// Returns `true` if the call of a server is awaited.
    pub(super) fn awaits(&self, server: usize) -> bool {
        self.awaited.contains_key(&server)
    }

    /// Stops waiting for a server that has ended.
    pub(super) fn handle_server_ended(&mut self, server: usize) {
        self.awaited.remove(&server);
    }

    /// Adds the call of a leader to a failed construct, so that it and the processes that it adds are answered.
    pub(super) fn add_late_leader_call(
        &mut self,
        server: usize,
        call: ConstructCall<T>,
        group: &Group,
        room: AddLimits,
        processes: &impl Processes,
    ) {
        self.count_leader_call(&call);
        self.awaited.remove(&server);
        self.have_called.insert(server);
        self.leader_calls.push(call);
        self.add_all(&group.directives, room, processes);
    }

    /// Returns `true` if leaders are awaited of which only the number is known.
    pub(super) fn waits_for_unknown(&self) -> bool {
        matches!(self.leaders, Leaders::Counted(count) if self.num_led < count)
    }

    /// Returns `true` if unknown leaders are awaited, but all of the `num_running` processes have called.
    pub(super) fn is_deserted(&self, num_running: usize, processes: &impl Processes) -> bool {
        // The count of callers settles most cases without a search for ended ones.
        self.waits_for_unknown() && num_running <= self.called.len() && {
            let called = self.called();
            called.filter(|proc| !processes.has_ended(proc)).count() >= num_running
        }
    }

    /// Returns `true` if a member led the construct and all listed leaders have ended. A server may have called for a
    /// process that had already ended for the other servers.
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_led && self.num_listed > 0 && self.ended.len() >= self.num_listed
    }

    /// Returns `true` if no call is awaited.
    pub(super) fn is_complete(&self) -> bool {
        let is_led = match self.leaders {
            Leaders::Listed(_) => self.awaited.is_empty(),
            Leaders::Counted(count) => self.num_led >= count,
        };
        is_led && self.missing.is_empty() && self.refused.is_empty()
    }

    pub(super) fn take_tokens(&mut self) -> Vec<T> {
        // No open call is left that a restarted process could replace.
        self.lost.clear();
        let calls = std::mem::take(&mut self.leader_calls).into_iter();
        let calls = calls.chain(std::mem::take(&mut self.participant_calls));
        calls.map(|call| call.token).collect()
    }
}

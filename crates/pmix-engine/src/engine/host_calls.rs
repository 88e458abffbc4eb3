// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls that the host makes: registration, events, output, direct modex.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", the function that each method
//! names.

use std::time::Instant;

use gds_hash::Registration;
use pmix_types::{
    DataRange, Info, IntoOwned, IofChannel, Nspace, Proc, Scope, Status, Text, Value,
};

use super::Engine;
use crate::events::{EventSource, Notification};
use crate::host::{Credentials, HostObject};
use crate::ids::ClientId;
use crate::registry::Client;
use crate::{DirectModexId, Error};

impl Engine {
    /// Registers a job, or updates it, with the number of its local processes (PMIx Standard,
    /// `PMIx_server_register_nspace`). Requests that wait for the job go on, as do those that wait for
    /// another job of the session which is described in it.
    ///
    /// # Errors
    ///
    /// As [`gds_hash::Store::register_nspace`]; nothing has changed then.
    pub fn register_nspace<'i>(
        &mut self,
        nspace: &Nspace<'_>,
        num_local_procs: u32,
        registration: impl Into<Registration<'i>>,
    ) -> Result<(), Error> {
        let registration = registration.into();
        let with_registered = self.cx.resources.with_registered(registration.infos());
        let registration = match &with_registered {
            Some(infos) => registration.with_infos(infos),
            None => registration,
        };
        let warnings = (self.cx.store).register_nspace(nspace, num_local_procs, registration)?;
        for warning in warnings {
            tracing::warn!("job {nspace}: {warning}");
        }
        let nspace = nspace.clone().into_owned();
        let registered = self.cx.store.job(&nspace);
        let num_procs = registered.map_or(0, |known| known.job().num_ranks());
        (self.cx.registry).add_job(nspace.clone(), num_local_procs, num_procs);
        let described = self.cx.store.described_by(&nspace);
        for known in std::iter::once(nspace).chain(described) {
            self.job_is_known(&known);
        }
        self.close_refused();
        Ok(())
    }

    /// The information of a job has come, or has changed.
    pub(super) fn job_is_known(&mut self, nspace: &Nspace<'static>) {
        self.cx.share_infos(nspace);
        self.subsystems.exchange.job_registered(nspace);
        self.subsystems.job_changed(&mut self.cx, nspace);
    }

    /// Removes a job and closes the connections of its processes. What waits for it ends with
    /// `PMIX_ERR_NOT_FOUND`.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if it is not registered.
    pub fn deregister_nspace(&mut self, nspace: &Nspace<'_>) -> Result<(), Error> {
        let described = self.cx.store.described_by(nspace);
        let stored = self.cx.store.deregister_nspace(nspace);
        if self.cx.registry.job(nspace).is_none() {
            stored?;
        }
        for (id, client) in self.cx.registry.remove_job(nspace) {
            self.client_removed(id, client);
        }
        self.subsystems.control.cleanup_job(&mut self.cx, nspace);
        for peer in self.subsystems.finalizing.not_waiting(&self.cx, nspace) {
            self.close(peer);
        }
        self.subsystems
            .job_gone(&mut self.cx, &nspace.clone().into_owned());
        for other in described {
            if self.cx.store.job(&other).is_none() && self.cx.registry.job(&other).is_none() {
                self.subsystems.job_gone(&mut self.cx, &other);
            }
        }
        self.close_refused();
        Ok(())
    }

    /// Returns what is known of a process or its job: what the host registered, and what the process
    /// put for others of this node or was brought here by a fence. Nobody is asked.
    ///
    /// # Errors
    ///
    /// As [`gds_hash::Store::get`], and `PMIX_ERR_NOT_FOUND` if the process put no such value.
    pub fn get(
        &self,
        proc: &Proc<'_>,
        key: &str,
        qualifiers: &[Info<'_>],
    ) -> Result<Value<'static>, Error> {
        let request = gds_hash::Request::new(proc.rank, key).with(qualifiers);
        let stated = match self.cx.store.get(&proc.nspace, &request) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if !proc.rank.is_valid()
            && let Some((_, value)) = self.cx.resources.find(key, qualifiers)
        {
            return Ok(value.into_owned());
        }
        let job = self.cx.store.job(&proc.nspace).ok_or(stated)?;
        let puts = job.modex_store();
        let put = puts.get(proc.rank, Scope::LOCAL, key, qualifiers)?;
        Ok(put.into_owned())
    }

    /// Returns the names of the registered jobs in ascending order.
    #[must_use]
    pub fn nspaces(&self) -> Vec<Nspace<'static>> {
        let mut nspaces = self.cx.store.nspaces();
        nspaces.sort_unstable();
        nspaces
    }

    /// Returns all that is known of a process or a job; nobody is asked.
    ///
    /// # Errors
    ///
    /// As [`gds_hash::Store::known`].
    pub fn known(
        &self,
        proc: &Proc<'_>,
        qualifiers: &[Info<'_>],
    ) -> Result<Vec<Info<'static>>, Error> {
        Ok(self.cx.store.known(proc, qualifiers)?)
    }

    /// Registers a local process. Only a peer that proves this user and group may connect as it
    /// (`PMIx_server_register_client`). Registering one that was lost says that it is to come
    /// again.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if the name is none or the rank names no process.
    pub fn register_client(
        &mut self,
        proc: &Proc<'_>,
        user: Credentials,
        object: HostObject,
    ) -> Result<(), Error> {
        let user = (user.uid, user.gid);
        let was_complete = self.cx.registry.is_complete(&proc.nspace);
        self.cx.registry.add_client(proc, user, object)?;
        // A process of its name that was removed may have put something, and this one has not.
        self.cx.shared.puts_changed(proc);
        let proc = proc.clone().into_owned();
        // What waits for all of them waits until the last is there.
        match was_complete == self.cx.registry.is_complete(&proc.nspace) {
            true => self.subsystems.client_changed(&mut self.cx, &proc),
            false => self.subsystems.job_changed(&mut self.cx, &proc.nspace),
        }
        self.close_refused();
        Ok(())
    }

    /// Removes a local process and closes its connections; what it put stays as long as its job
    /// does. Collectives that wait for it end.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if it is not registered.
    pub fn deregister_client(&mut self, proc: &Proc<'_>) -> Result<(), Error> {
        let (id, client) = self.cx.registry.remove_client(proc)?;
        self.client_removed(id, client);
        self.subsystems.control.cleanup_proc(&mut self.cx, proc);
        // All others are as they were, and as many are known.
        let proc = proc.clone().into_owned();
        self.subsystems.client_changed(&mut self.cx, &proc);
        self.close_refused();
        Ok(())
    }

    /// The host lets processes go on that it had stopped itself, as a debugger asks by `PMIX_DEBUGGER_RELEASE`. The
    /// releases that came so far are not told to them when they stop again and register for the code.
    pub fn debugger_released(&mut self, procs: &[Proc<'_>]) {
        self.subsystems.events.released(procs);
    }

    /// Defines a process set (`PMIx_server_define_process_set`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` without a name or members.
    pub fn define_process_set(
        &mut self,
        name: &Text<'_>,
        members: &[Proc<'_>],
    ) -> Result<(), Error> {
        self.subsystems
            .events
            .define_set(&mut self.cx, name, members)?;
        self.close_refused();
        Ok(())
    }

    /// Deletes a process set (`PMIx_server_delete_process_set`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if there is none.
    pub fn delete_process_set(&mut self, name: &Text<'_>) -> Result<(), Error> {
        self.subsystems.events.delete_set(&mut self.cx, name)?;
        self.close_refused();
        Ok(())
    }

    /// Takes an event that the host reports (PMIx Standard, `PMIx_Notify_event` of a server). Local
    /// processes in its range that are registered for it are told now, others when they register.
    /// It is not sent back to the host.
    ///
    /// [`EventSource`] says whether the source has seen the event; a bare process is [`EventSource::Reporter`]. Tools hear
    /// of jobs that they may read. If the event is the loss of a process of another node, what that one put is asked of
    /// its node again. An event about an observed process is only delivered.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` for a range that does not exist, and if `PMIX_RANGE_CUSTOM` and
    /// `PMIX_EVENT_CUSTOM_RANGE` do not come together.
    pub fn notify<'p>(
        &mut self,
        status: Status,
        source: impl Into<EventSource<'p>>,
        range: DataRange,
        infos: &[Info<'_>],
        now: Instant,
    ) -> Result<(), Error> {
        let source = source.into();
        self.cx.now = Some(now);
        let notification = Notification::of_host(status, source, range, infos)?;
        let owners = self.cx.owners(notification.jobs());
        let notification = notification.about_jobs_of(owners);
        match source {
            EventSource::Reporter(source) => self.handle_report(notification, source, infos),
            EventSource::Observed(_) => self.subsystems.events.raise(&mut self.cx, notification),
        }
        self.close_refused();
        Ok(())
    }

    /// Delivers an event that its source reported, once the collectives, groups and data that depend on it were changed.
    fn handle_report(&mut self, notification: Notification, source: &Proc<'_>, infos: &[Info<'_>]) {
        let status = notification.status;
        let collectives = &mut self.subsystems.collectives;
        if collectives.handle_remote_decision(&mut self.cx, source, status, infos) {
            self.subsystems.process_group_outcomes(&mut self.cx);
            return;
        }
        let groups = &mut self.subsystems.groups;
        let follow = groups.learn_from_host(&mut self.cx, status, source, infos);
        let lost = notification.lost_procs();
        self.subsystems.lost_elsewhere(&mut self.cx, &lost);
        self.subsystems.process_group_outcomes(&mut self.cx);
        if let Some(follow) = follow {
            self.subsystems.ask_for_other(&mut self.cx, &notification);
            self.subsystems.events.raise(&mut self.cx, notification);
            self.subsystems.raise_all(&mut self.cx, follow);
        }
    }

    /// Takes output of a process that the host delivers (PMIx Standard, `PMIx_server_IOF_deliver`).
    /// It is sent to the peers that pull it; if there are none, some of it is kept until there is
    /// one. Empty output ends the stream.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if the channel is none, or that of input.
    pub fn iof_deliver(
        &mut self,
        source: &Proc<'_>,
        channel: IofChannel,
        data: Vec<u8>,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        let cx = &mut self.cx;
        self.subsystems
            .forwarding
            .handle_output(cx, source, channel, data, infos)?;
        self.close_refused();
        Ok(())
    }

    /// Takes a direct modex request of the host for a local process, for another node
    /// (`PMIx_server_dmodex_request`). An [`EngineEvent::DirectModex`](crate::EngineEvent) brings
    /// the data when the process has committed, with the key that `pmix.req.key` names if one is
    /// named, or the reason why they do not come. With [`Rank::WILDCARD`](pmix_types::Rank) it
    /// brings the job info.
    ///
    /// `pmix.timeout` says how many seconds to wait.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if the job is not registered or the process is not on this node.
    pub fn dmodex_request(
        &mut self,
        proc: &Proc<'_>,
        infos: &[Info<'_>],
        now: Instant,
    ) -> Result<DirectModexId, Error> {
        self.cx.now = Some(now);
        self.subsystems
            .exchange
            .dmodex_request(&mut self.cx, proc, infos)
    }

    /// A process is registered no longer.
    fn client_removed(&mut self, id: ClientId, client: Client) {
        for peer in client.peers.iter().copied() {
            tracing::debug!(%peer, "closing the connection: its process is deregistered");
            self.close(peer);
        }
        self.subsystems.client_removed(&mut self.cx, id, &client);
    }
}

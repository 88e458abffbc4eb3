// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that the host calls: registration, events, output, direct modex.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", the function that each method names.

use std::time::Instant;

use gds_hash::Registration;
use pmix_types::{
    DataRange, Info, IntoOwned, IofChannel, Nspace, Proc, Scope, Status, Text, Value, keys,
};

use super::Engine;
use crate::events::{EventSource, Notification};
use crate::host::{Credentials, HostObject};
use crate::ids::ClientId;
use crate::registry::{Client, ClientState};
use crate::{DirectModexId, Error};

impl Engine {
    /// Registers or updates a job with the number of its local processes (PMIx Standard,
    /// `PMIx_server_register_nspace`). Retries the requests that wait for the job, or for another job of the session
    /// that this registration describes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gds_hash::Store::register_nspace`]; the store is unchanged then.
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
        // A registration may describe other jobs of its session, whose requests wait as well.
        for known in std::iter::once(nspace).chain(described) {
            self.job_is_known(&known);
        }
        self.close_refused();
        Ok(())
    }

    /// Shares the new or updated information of a job and retries the requests that wait for it.
    pub(super) fn job_is_known(&mut self, nspace: &Nspace<'static>) {
        self.cx.share_infos(nspace);
        self.subsystems.exchange.job_registered(nspace);
        self.subsystems.job_changed(&mut self.cx, nspace);
    }

    /// Removes a job and closes the connections of its processes. Requests that wait for the job end with
    /// `PMIX_ERR_NOT_FOUND`.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the job is not registered.
    pub fn deregister_nspace(&mut self, nspace: &Nspace<'_>) -> Result<(), Error> {
        // The descriptions of other jobs of the session are removed with the job, so they are read first.
        let described = self.cx.store.described_by(nspace);
        let stored = self.cx.store.deregister_nspace(nspace);
        // Some hosts register clients before their job, so the registry may know a job that the store does not.
        if self.cx.registry.job(nspace).is_none() {
            stored?;
        }
        for (id, client) in self.cx.registry.remove_job(nspace) {
            self.client_removed(id, client);
        }
        self.subsystems.control.cleanup_job(&mut self.cx, nspace);
        // Finalizing processes still wait for the reply that lets them exit.
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

    /// Returns a value of a process or its job: a value that the host registered, that the process put for this node,
    /// or that a fence delivered. Sends no request to the host or to other nodes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gds_hash::Store::get`], and `PMIX_ERR_NOT_FOUND` if the process did not put the key.
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

    /// Returns all information about a process or a job, without a request to the host.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gds_hash::Store::known`].
    pub fn known(
        &self,
        proc: &Proc<'_>,
        qualifiers: &[Info<'_>],
    ) -> Result<Vec<Info<'static>>, Error> {
        Ok(self.cx.store.known(proc, qualifiers)?)
    }

    /// Checks that a process may be registered as a client of this server. Without this check before
    /// [`register_client`](Self::register_client), a mistake of the host shows when the process connects, or never.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the job is not registered or does not have the rank; `PMIX_ERR_BAD_PARAM` if the
    /// maps place the process on another node; `PMIX_ERR_EXISTS` if the process is registered and has not connected
    /// since. A process that has connected may be registered again for a restart, even if the server has not noticed
    /// its end yet.
    pub fn check_client(&self, proc: &Proc<'_>) -> Result<(), Error> {
        let Proc { nspace, rank } = proc;
        let Some(registered) = self.cx.store.job(nspace) else {
            let message = format!("job {nspace} is not registered: register it before its clients");
            return Err(Error::not_found(message));
        };
        let job = registered.job();
        let stated = job.get(&gds_hash::Request::new(
            pmix_types::Rank::WILDCARD,
            keys::JOB_SIZE,
        ));
        let size = stated.ok().and_then(|size| size.to_number::<u64>().ok());
        let is_known = match job.num_ranks() {
            // Without maps, the ranks are 0 to the job size - 1.
            0 => size.is_none_or(|size| u64::from(rank.as_raw()) < size) || job.has_rank(*rank),
            _ => job.has_rank(*rank),
        };
        if rank.is_valid() && !is_known {
            let size =
                size.map_or_else(String::new, |size| format!(", which has {size} processes"));
            let message = format!("rank {rank} is not in job {nspace}{size}");
            return Err(Error::not_found(message));
        }
        if let Some(node) = job.other_node(*rank) {
            let (node, own) = (node.escape_ascii(), self.cx.store.local_node().name());
            let own = own.escape_ascii();
            let message = format!(
                "rank {rank} of job {nspace} is on node {node}, but this server is on node {own}"
            );
            return Err(Error::bad(message));
        }
        let client = self.cx.registry.client_of(proc);
        if client.is_some_and(|client| client.state == ClientState::Expected) {
            let message = format!("rank {rank} of job {nspace} is already registered");
            return Err(Error::new(Status::ERR_EXISTS, message));
        }
        Ok(())
    }

    /// Registers a local process (`PMIx_server_register_client`). Only a peer with a credential of this user and group
    /// may connect under its name. Registering a lost process again announces its restart.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if the name is invalid or the rank is not that of a single process.
    pub fn register_client(
        &mut self,
        proc: &Proc<'_>,
        user: Credentials,
        object: HostObject,
    ) -> Result<(), Error> {
        let user = (user.uid, user.gid);
        let was_complete = self.cx.registry.is_complete(&proc.nspace);
        self.cx.registry.add_client(proc, user, object)?;
        // A deregistered process of this name may have shared data, which do not belong to the new process.
        self.cx.shared.puts_changed(proc);
        let proc = proc.clone().into_owned();
        // Requests that need all local clients proceed only once the last one is registered.
        match was_complete == self.cx.registry.is_complete(&proc.nspace) {
            true => self.subsystems.client_changed(&mut self.cx, &proc),
            false => self.subsystems.job_changed(&mut self.cx, &proc.nspace),
        }
        self.close_refused();
        Ok(())
    }

    /// Records the process id of a registered local process that the host has started. Processes get it as
    /// `PMIX_PROC_PID`, unless the job info has this key.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the process is not registered.
    pub fn client_started(&mut self, proc: &Proc<'_>, pid: i32) -> Result<(), Error> {
        let job = self.cx.registry.job_mut(&proc.nspace);
        let job = job.filter(|job| job.clients.contains_key(&proc.rank));
        let job = job.ok_or_else(|| {
            let Proc { nspace, rank } = proc;
            Error::new(
                Status::ERR_NOT_FOUND,
                format!("rank {rank} of job {nspace} is not registered"),
            )
        })?;
        job.pids.insert(proc.rank, pid);
        Ok(())
    }

    /// Deregisters a local process and closes its connections. Its data remain until its job is deregistered.
    /// Collectives that wait for it end.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the process is not registered.
    pub fn deregister_client(&mut self, proc: &Proc<'_>) -> Result<(), Error> {
        let (id, client) = self.cx.registry.remove_client(proc)?;
        self.client_removed(id, client);
        self.subsystems.control.cleanup_proc(&mut self.cx, proc);
        // The other clients and the expected number of clients are unchanged.
        let proc = proc.clone().into_owned();
        self.subsystems.client_changed(&mut self.cx, &proc);
        self.close_refused();
        Ok(())
    }

    /// Reports that the host itself has released processes it had stopped, as a debugger requests by
    /// `PMIX_DEBUGGER_RELEASE`. Release events cached so far are not delivered to these processes when they stop again
    /// and register for the code.
    pub fn debugger_released(&mut self, procs: &[Proc<'_>]) {
        self.subsystems.events.released(procs);
    }

    /// Defines a process set (`PMIx_server_define_process_set`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` without a name or without members.
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
    /// Returns `PMIX_ERR_NOT_FOUND` if the set is not defined.
    pub fn delete_process_set(&mut self, name: &Text<'_>) -> Result<(), Error> {
        self.subsystems.events.delete_set(&mut self.cx, name)?;
        self.close_refused();
        Ok(())
    }

    /// Processes an event reported by the host (PMIx Standard, `PMIx_Notify_event` of a server). Delivers it to the
    /// registered local processes in its range now and to others when they register. It is not returned to the host.
    ///
    /// [`EventSource`] distinguishes an event reported by its source from an event that the host observed; a bare
    /// process is an [`EventSource::Reporter`]. Tools receive events of jobs that they may read. If the event reports
    /// the loss of a process on another node, the data of that process are requested from its node again. An event
    /// about an observed process is only delivered.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for an unknown range, or if only one of `PMIX_RANGE_CUSTOM` and
    /// `PMIX_EVENT_CUSTOM_RANGE` is given.
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
        // Tools of other users must not receive events about these jobs.
        let owners = self.cx.owners(notification.jobs());
        let notification = notification.about_jobs_of(owners);
        match source {
            EventSource::Reporter(source) => self.handle_report(notification, source, infos),
            EventSource::Observed(_) => self.subsystems.events.raise(&mut self.cx, notification),
        }
        self.close_refused();
        Ok(())
    }

    /// Updates the collectives, groups and data that depend on an event, then delivers it. A process that receives the
    /// event finds the updated state.
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
        // Without `follow`, the local processes have already received the event.
        if let Some(follow) = follow {
            // The server of the lost process waits for the leader, which cannot answer without a handler.
            self.subsystems.ask_for_other(&mut self.cx, &notification);
            self.subsystems.events.raise(&mut self.cx, notification);
            self.subsystems.raise_all(&mut self.cx, follow);
        }
    }

    /// Forwards output of a process that the host delivers (PMIx Standard, `PMIx_server_IOF_deliver`) to the peers that
    /// pull it. Without such peers, a limited amount is kept for the first one. Empty output ends the stream.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if the channel is unknown or that of input.
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

    /// Starts a direct modex request of the host for a local process, on behalf of another node
    /// (`PMIx_server_dmodex_request`). An [`EngineEvent::DirectModex`](crate::EngineEvent) returns the data once the
    /// process has committed them, or the error. `pmix.req.key` names a key to wait for, and `pmix.timeout` limits the
    /// wait in seconds. With [`Rank::WILDCARD`](pmix_types::Rank) the event returns the job info.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the job is not registered or the process is not on this node.
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

    /// Closes the connections of a deregistered process and ends the operations that wait for it.
    fn client_removed(&mut self, id: ClientId, client: Client) {
        for peer in client.peers.iter().copied() {
            tracing::debug!(%peer, "closing the connection: its process is deregistered");
            self.close(peer);
        }
        self.subsystems.client_removed(&mut self.cx, id, &client);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host says about jobs and their processes.

use gds_hash::Registration;
use pmix_types::{IntoOwned, Nspace, Proc, Status, Text};

use crate::host::HostObject;
use crate::ids::ClientId;
use crate::registry::Client;
use crate::timer::Timer;
use crate::{Engine, Error};

impl Engine {
    /// Registers a job, or updates it, with how many of its processes are on this node (PMIx
    /// Standard, `PMIx_server_register_nspace`). Requests that wait for the job go on.
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
        (self.cx.store).register_nspace(nspace, num_local_procs, registration)?;
        let nspace = nspace.clone().into_owned();
        self.cx.registry.add_job(nspace.clone(), num_local_procs);
        self.job_info_cache.forget(&nspace);
        self.job_changed(&nspace);
        self.close_refused();
        Ok(())
    }

    /// Forgets a job and closes the connections of its processes. What waits for it ends with
    /// `PMIX_ERR_NOT_FOUND`.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if it is not registered.
    pub fn deregister_nspace(&mut self, nspace: &Nspace<'_>) -> Result<(), Error> {
        let stored = self.cx.store.deregister_nspace(nspace);
        if self.cx.registry.job(nspace).is_none() {
            stored?;
        }
        for (id, client) in self.cx.registry.remove_job(nspace) {
            self.client_removed(id, client);
        }
        self.cleanup_job(nspace);
        self.close_finalized(nspace);
        self.job_gone(&nspace.clone().into_owned());
        self.close_refused();
        Ok(())
    }

    /// Registers a process of this node: only who shows to have this user and group may connect
    /// as it (`PMIx_server_register_client`). Registering one that was lost says that it is to
    /// come again.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if the name is none or the rank names no process.
    pub fn register_client(
        &mut self,
        proc: &Proc<'_>,
        uid: u32,
        gid: u32,
        object: HostObject,
    ) -> Result<(), Error> {
        self.cx.registry.add_client(proc, (uid, gid), object)?;
        let nspace = proc.nspace.clone().into_owned();
        self.job_changed(&nspace);
        self.close_refused();
        Ok(())
    }

    /// Forgets a process of this node and closes its connections; what it put stays as long as its
    /// job does. Collectives that wait for it end.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if it is not registered.
    pub fn deregister_client(&mut self, proc: &Proc<'_>) -> Result<(), Error> {
        let (rank, nspace) = (proc.rank, &proc.nspace);
        let Some((id, client)) = self.cx.registry.remove_client(proc) else {
            let message = format!("rank {rank} of {nspace} is not registered");
            return Err(Error::not_found(message));
        };
        self.client_removed(id, client);
        self.cleanup_proc(proc);
        self.job_changed(&nspace.clone().into_owned());
        self.close_refused();
        Ok(())
    }

    /// Gives a name to processes (`PMIx_server_define_process_set`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` without a name or members.
    pub fn define_process_set(
        &mut self,
        name: &Text<'_>,
        members: &[Proc<'_>],
    ) -> Result<(), Error> {
        let owned = members.to_vec().into_owned();
        self.cx
            .process_sets
            .define(name.clone().into_owned(), owned)?;
        self.tell_of_set(Status::PROCESS_SET_DEFINE, name, Some(members));
        self.close_refused();
        Ok(())
    }

    /// Forgets the name of processes (`PMIx_server_delete_process_set`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if there is none.
    pub fn delete_process_set(&mut self, name: &Text<'_>) -> Result<(), Error> {
        self.cx.process_sets.delete(name)?;
        self.tell_of_set(Status::PROCESS_SET_DELETE, name, None);
        self.close_refused();
        Ok(())
    }

    /// A process is registered no longer.
    fn client_removed(&mut self, id: ClientId, client: Client) {
        for peer in client.peers {
            tracing::debug!(%peer, "its process is deregistered");
            self.close(peer);
        }
        if let Some(until) = client.until {
            self.cx.timers.cancel(until, Timer::Return(id));
        }
        self.lost_to_collectives(id, &client.proc);
    }

    /// Closes what is left of connections of a job that have been told that they may leave.
    fn close_finalized(&mut self, nspace: &Nspace<'_>) {
        let members = self.cx.peers.members();
        let left = members.filter(|(peer, member)| {
            member.proc.nspace == *nspace && !self.finalizing.contains_key(peer)
        });
        let left: Vec<_> = left.map(|(peer, _)| peer).collect();
        left.into_iter().for_each(|peer| self.close(peer));
    }

    /// A job or its local processes are registered by now.
    fn job_changed(&mut self, nspace: &Nspace<'static>) {
        self.retry_gets_of_job(nspace);
        self.retry_inbound_of_job(nspace);
        self.collectives_of_job(nspace);
    }

    /// A job is gone.
    fn job_gone(&mut self, nspace: &Nspace<'static>) {
        self.fail_gets_of_job(nspace);
        self.outbound_dmodex.forget_job(nspace);
        self.retry_inbound_of_job(nspace);
        self.collectives_of_job(nspace);
        self.cx.peers.forget_job(nspace);
        self.events_job_gone(nspace);
        self.iof_job_gone(nspace);
        self.cleanup_job(nspace);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the host that concern no single job, and the flow control of input.
//!
//! Source: OpenPMIx, the function that each method names.

use pmix_types::{Info, IofChannel, Nspace, Proc, Status};

use super::Engine;
use crate::Error;

impl Engine {
    /// Registers infos for all jobs that are registered or updated later (`PMIx_server_register_resources`). The
    /// processes of these jobs get them as job info, with precedence over the values of the job itself. For earlier
    /// jobs, gets and queries of tools find them if the job has no such value. An info replaces an earlier one of the
    /// same key; arrays that describe nodes are kept separately for each node.
    ///
    /// `PMIX_GROUP_JOB_INFO` contains the result of [`collect_job_info`](Self::collect_job_info) from another node. The
    /// jobs in it are known here until they are deregistered. Jobs that the host registered itself do not change.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_SUPPORTED` for other infos about groups, which belong to group construction;
    /// `PMIX_ERR_BAD_PARAM` for job information of a wrong type; the decoding error for damaged job information.
    pub fn register_resources(&mut self, infos: &[Info<'_>]) -> Result<(), Error> {
        let mut outcome = Ok(());
        for packed in self.cx.resources.register(infos)? {
            let codec = self.cx.codec(&self.cx.config.modex_form());
            // A registration of the host takes precedence over the information of another node.
            let has_own = |nspace: &Nspace<'_>| self.cx.registry.job(nspace).is_some();
            let absorbed = self.cx.store.absorb_collected(&codec, packed, has_own);
            for (nspace, refused) in absorbed.unwrap_or_else(|error| {
                // The values above are registered already, so the other jobs are read as well.
                outcome = Err(error.into());
                Vec::new()
            }) {
                for error in refused {
                    tracing::warn!(%nspace, "ignoring a part of the job info from another node: {error}");
                }
                self.job_is_known(&nspace);
            }
        }
        self.close_refused();
        outcome
    }

    /// Removes the values that were registered under the keys of the infos (`PMIx_server_deregister_resources`). An
    /// array with `PMIX_HOSTNAME` or `PMIX_NODEID` selects the description of that node. Jobs registered in between
    /// keep the values. An unknown key is not an error.
    pub fn deregister_resources(&mut self, infos: &[Info<'_>]) {
        self.cx.resources.deregister(infos);
    }

    /// Registers a session and its description (`PMIx_server_register_session`), and retries the requests of its jobs
    /// that wait for a value. Jobs that name the session get this description in place of their own.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gds_hash::Store::register_session`].
    pub fn register_session(&mut self, id: u32, infos: &[Info<'_>]) -> Result<(), Error> {
        for nspace in self.cx.store.register_session(id, infos)? {
            self.job_is_known(&nspace);
        }
        self.close_refused();
        Ok(())
    }

    /// Removes a session (`PMIx_server_deregister_session`). Its jobs stay registered and keep the description.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the session is not registered.
    pub fn deregister_session(&mut self, id: u32) -> Result<(), Error> {
        Ok(self.cx.store.deregister_session(id)?)
    }

    /// Stores the inventory of nodes (`PMIx_server_deliver_inventory`): each `PMIX_NODE_INFO_ARRAY` with a
    /// `PMIX_HOSTNAME`. It replaces earlier values of the node under the same keys. A get or query that names the node
    /// by `PMIX_HOSTNAME` uses it if the job has no value. Other infos are ignored.
    pub fn deliver_inventory(&mut self, infos: &[Info<'_>]) {
        let num_nodes = self.cx.resources.deliver(infos);
        tracing::debug!(num_nodes, "an inventory was delivered");
    }

    /// Packs the information about the jobs of the given processes, each job once, for
    /// [`register_resources`](Self::register_resources) on another node (`PMIx_server_collect_job_info`). Unknown jobs
    /// are left out.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` without processes.
    pub fn collect_job_info(&self, procs: &[Proc<'_>]) -> Result<Vec<u8>, Error> {
        if procs.is_empty() {
            return Err(Error::bad("expected at least one process"));
        }
        let form = self.cx.config.modex_form();
        let mut seen = std::collections::HashSet::new();
        let names = procs.iter().map(|proc| &proc.nspace);
        let names = names.filter(|nspace| seen.insert(nspace.as_bytes()));
        let codec = self.cx.codec(&form);
        Ok((self.cx.store).collect_job_info(&codec, form.release, names)?)
    }

    /// Suspends or resumes the input of a process (`PMIx_server_IOF_flow_control`). While it is suspended, pushed input
    /// is neither passed to the host nor acknowledged, so the process waits and no input is lost. A wildcard rank or an
    /// empty nspace selects all matching processes, and `None` all connected ones. A process that is not connected is
    /// not an error. A host that replies to a push with `PMIX_ERR_IOF_XOFF` has accepted the input and suspends the
    /// process.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_SUPPORTED` if the channels do not include input: a process that writes output cannot be
    /// stopped by the server.
    pub fn iof_flow_control(
        &mut self,
        source: Option<&Proc<'_>>,
        channels: IofChannel,
        suspends: bool,
    ) -> Result<(), Error> {
        if !channels.contains(IofChannel::STDIN_CHANNEL) {
            let why = format!("only standard input can be suspended, not {channels}");
            return Err(Error::new(Status::ERR_NOT_SUPPORTED, why));
        }
        let forwarding = &mut self.subsystems.forwarding;
        forwarding.control_input(&mut self.cx, source, suspends);
        self.close_refused();
        Ok(())
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of the host that are about no job in particular, and those that stop input.
//!
//! Source: OpenPMIx, the function that each method names.

use pmix_types::{Info, IofChannel, Nspace, Proc, Status};

use super::Engine;
use crate::Error;

impl Engine {
    /// Registers infos for all jobs that are registered from now on, or updated
    /// (`PMIx_server_register_resources`): they are told to the processes of each as job info, and outrank what
    /// the host says of the job itself. Gets of jobs that are known already, and queries of tools, find them, too,
    /// where nothing is stated of the job. An info replaces that of its key; arrays that describe nodes stand side by
    /// side, one for each node.
    ///
    /// `PMIX_GROUP_JOB_INFO` has what [`collect_job_info`](Self::collect_job_info) packed on another node: the jobs in
    /// it are known here from now on, until they are deregistered. Those that the host registered itself stay as
    /// they are.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_SUPPORTED` for other infos about groups, which are taken where groups are formed;
    /// `PMIX_ERR_BAD_PARAM` for job information of another type, and what is wrong with it where it is damaged.
    pub fn register_resources(&mut self, infos: &[Info<'_>]) -> Result<(), Error> {
        let mut outcome = Ok(());
        for packed in self.cx.resources.register(infos)? {
            let codec = self.cx.codec(&self.cx.config.modex_form());
            let has_own = |nspace: &Nspace<'_>| self.cx.registry.job(nspace).is_some();
            let told = self.cx.store.absorb_collected(&codec, packed, has_own);
            for (nspace, refused) in told.unwrap_or_else(|error| {
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

    /// Forgets what was registered under the keys of the infos (`PMIx_server_deregister_resources`); an array that
    /// has `PMIX_HOSTNAME` or `PMIX_NODEID` stands for what describes that node. Jobs that were told keep it. A key
    /// that nothing was registered under is no error.
    pub fn deregister_resources(&mut self, infos: &[Info<'_>]) {
        self.cx.resources.deregister(infos);
    }

    /// Takes what nodes are made of (`PMIx_server_deliver_inventory`): each `PMIX_NODE_INFO_ARRAY` that names its node
    /// by `PMIX_HOSTNAME`. What was known of the node under the same keys is replaced. A get or query that names
    /// the node by `PMIX_HOSTNAME` is answered from it where the job says nothing. Other infos are left aside.
    pub fn deliver_inventory(&mut self, infos: &[Info<'_>]) {
        let num_nodes = self.cx.resources.deliver(infos);
        tracing::debug!(num_nodes, "an inventory was delivered");
    }

    /// Packs what is known of the jobs of processes, each job once, for
    /// [`register_resources`](Self::register_resources) on another node (`PMIx_server_collect_job_info`). Jobs that are
    /// not known are left out.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` without processes.
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

    /// Suspends the input of a process, or resumes it (`PMIx_server_IOF_flow_control`): while it is suspended, what
    /// the process pushes is not handed to the host and not answered, so it waits and nothing is lost. A wildcard rank
    /// or an empty nspace stands for all of them, as does no process for all that are connected now. A process
    /// that is not connected is no error. A host that answers a push with `PMIX_ERR_IOF_XOFF` has taken it and
    /// suspends the process.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_SUPPORTED` if the channels are without that of input: who writes output does not stop for a
    /// server.
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

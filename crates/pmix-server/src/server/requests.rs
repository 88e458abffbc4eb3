// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls by which a host registers jobs and processes, and makes requests for other servers.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", the function that each method
//! names.

use std::ffi::OsString;

use pmix_engine::{Credentials, Engine, EventSource, HostObject, Registration, Stats, Waits};
use pmix_types::{DataRange, Info, IofChannel, Nspace, Proc, Status, Text, Value, keys};

use super::resources;
use crate::fork::setup_envars;
use crate::{Error, Server};

impl Server {
    /// Registers a job, or updates it, with the number of its local processes
    /// (`PMIx_server_register_nspace`). Jobs without local processes are registered too, if local processes
    /// may communicate with them. A host with folded maps adds them to the infos with
    /// [`Registration::with_maps`].
    ///
    /// # What a job needs
    ///
    /// | passed by the host | without it |
    /// | --- | --- |
    /// | `PMIX_NODE_MAP` and `PMIX_PROC_MAP`, or folded maps | nothing is derived, and MPI libraries do not start |
    /// | `PMIX_UNIV_SIZE`, the maximum number of processes of the session | Open MPI uses the size of the job |
    /// | `PMIX_JOBID`, a readable name | not found |
    /// | `PMIX_NSDIR`, `PMIX_PROCDIR`, `PMIX_TMPDIR`: directories | each library creates its own in its temporary one |
    ///
    /// The size of the job, local and node ranks, peers of each node, node ids, host names, the number of
    /// applications and further job info follow from the maps (`docs/architecture.md`, "The path of one
    /// registration"). Explicit values take precedence over derived ones.
    ///
    /// Open MPI 5 and MPICH find the server through the environment that [`setup_fork`](Self::setup_fork)
    /// returns. Open MPI 4.1 does so only if it detects a launcher that it supports: a process without
    /// `JSM_JSRUN_PORT` (any value) becomes a singleton. `setup_fork` adds the variable if
    /// [`open_mpi_4`](crate::Builder::open_mpi_4) is set.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running. Returns `PMIX_ERR_BAD_PARAM`, without any change, for an
    /// invalid map or info. Unless [`refuse_contradictions`](crate::Builder::refuse_contradictions) is off, this
    /// includes contradictions: a `PMIX_JOB_SIZE` that is not a number or differs from the process map, or a node that
    /// is twice in the node map. A job without maps is accepted with a warning in the log.
    pub fn register_nspace<'i>(
        &self,
        nspace: &Nspace<'_>,
        num_local_procs: u32,
        registration: impl Into<Registration<'i>>,
    ) -> Result<(), Error> {
        let handle = &self.0.handle;
        let refuses = self.0.modes.refuses_contradictions;
        let registration = registration.into().refuse_contradictions(refuses);
        let with_topology = self.with_topology(registration.infos());
        let registration = match &with_topology {
            Some(infos) => registration.with_infos(infos),
            None => registration,
        };
        handle
            .request(|engine, _| engine.register_nspace(nspace, num_local_procs, registration))?;
        // Only processes of this node can map the memory.
        if num_local_procs > 0 {
            self.0.fork.shared.open(nspace);
        }
        Ok(())
    }

    /// Adds the topology of this node to the infos of a job. Returns `None` if it is not shared or the host passes one.
    fn with_topology<'i>(&self, infos: &[Info<'i>]) -> Option<Vec<Info<'i>>> {
        let shared = self.0.modes.shared_topology.as_ref()?;
        // The host may describe the node differently for one job, for example with fewer processors.
        if infos.iter().any(|info| info.key.is(keys::HWLOC_XML_V2)) {
            return None;
        }
        let mut infos = infos.to_vec();
        let shared = Value::String(Some(shared.clone()));
        infos.push(Info::new(keys::HWLOC_XML_V2, shared));
        Some(infos)
    }

    /// Deregisters a job, and drops its processes and their data (`PMIx_server_deregister_nspace`). Connections of its
    /// processes are closed, and processes that have not connected are rejected from now on.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_NOT_FOUND` if the job is not registered.
    pub fn deregister_nspace(&self, nspace: &Nspace<'_>) -> Result<(), Error> {
        self.0.fork.local_support.forget(nspace);
        let (handle, shared) = (&self.0.handle, &self.0.fork.shared);
        // A callback for a process of this job must not get the connection of a later job with the same name.
        handle.drop_requested(|proc| proc.nspace == *nspace);
        handle.request(|engine, _| {
            let removed = engine.deregister_nspace(nspace);
            // The engine is locked, so another thread cannot register a job of that name in between and lose its table.
            shared.close(nspace);
            removed
        })
    }

    /// Returns the names of the jobs that are registered here, in ascending order.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running.
    pub fn nspaces(&self) -> Result<Vec<Nspace<'static>>, Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| Ok::<_, Error>(engine.nspaces()))
    }

    /// Registers a local process before it is started. Only a peer of this user and group can connect as this
    /// process (`PMIx_server_register_client`). The object is passed to every upcall about the process. A
    /// process that has connected must be registered again before it is restarted.
    ///
    /// # Errors
    /// Returns
    ///
    /// - `PMIX_ERR_INIT` if the server is not running;
    /// - `PMIX_ERR_NOT_FOUND` if its job is not registered or does not have the rank;
    /// - `PMIX_ERR_BAD_PARAM` if the rank is not that of a process, or if the process map places it on another node of
    ///   the node map;
    /// - `PMIX_ERR_EXISTS` if it is already registered and has not connected since.
    ///
    /// Without [`refuse_contradictions`](crate::Builder::refuse_contradictions) only a rank that is not that of a
    /// process is rejected.
    pub fn register_client(
        &self,
        proc: &Proc<'_>,
        user: Credentials,
        object: HostObject,
    ) -> Result<(), Error> {
        let handle = &self.0.handle;
        let checks = self.0.modes.refuses_contradictions;
        handle.request(|engine, _| {
            if checks {
                engine.check_client(proc)?;
            }
            engine.register_client(proc, user, object)
        })
    }

    /// Records the process id of a registered local process after its start. Processes get it as `PMIX_PROC_PID`, unless
    /// the job info has this key.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_NOT_FOUND` if the process is not registered.
    pub fn client_started(&self, proc: &Proc<'_>, pid: i32) -> Result<(), Error> {
        self.0
            .handle
            .request(|engine, _| engine.client_started(proc, pid))
    }

    /// Deregisters a local process (`PMIx_server_deregister_client`).
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_NOT_FOUND` if the process is not registered.
    pub fn deregister_client(&self, proc: &Proc<'_>) -> Result<(), Error> {
        self.0
            .handle
            .request(|engine, _| engine.deregister_client(proc))
    }

    /// Returns the environment variables to set for a process before it is started
    /// (`PMIx_server_setup_fork`), for clients of every release from 2.0 on. The process inherits
    /// all others.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running.
    pub fn setup_fork(&self, proc: &Proc<'_>) -> Result<Vec<(OsString, OsString)>, Error> {
        // The request only checks that the server is running.
        self.0.handle.request(|_, _| Ok::<_, Error>(()))?;
        Ok(self.0.fork.environment(proc))
    }

    /// Returns the variables as [`setup_fork`](Self::setup_fork), for a host that prepares a process in a forked child.
    /// It takes no lock, since another thread may have held it at the fork, and it does not check that the server is
    /// running.
    #[must_use]
    pub fn environment_after_fork(&self, proc: &Proc<'_>) -> Vec<(OsString, OsString)> {
        self.0.fork.environment(proc)
    }

    /// Returns the infos for the nodes of an application (`PMIx_server_setup_application`). With
    /// `PMIX_SETUP_APP_ENVARS` or `PMIX_SETUP_APP_ALL` these are MCA parameters of this environment and variables of
    /// its programming model. The host passes them to [`setup_local_support`](Self::setup_local_support) of the servers
    /// there.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_NOT_SUPPORTED` for a required directive that
    /// is not supported.
    pub fn setup_application(
        &self,
        _nspace: &Nspace<'_>,
        infos: &[Info<'_>],
    ) -> Result<Vec<Info<'static>>, Error> {
        self.0.handle.request(|_, _| Ok::<_, Error>(()))?;
        resources::check("PMIx_server_setup_application", infos)?;
        Ok(setup_envars(&self.0.fork.environment, infos))
    }

    /// Stores the result of [`setup_application`](Self::setup_application) on another node, for processes of the job
    /// that are started here later (`PMIx_server_setup_local_support`).
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, `PMIX_ERR_BAD_PARAM` for a variable without a name, and
    /// `PMIX_ERR_NOT_SUPPORTED` for one to be unset and for a required info that is not a variable.
    pub fn setup_local_support(
        &self,
        nspace: &Nspace<'_>,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        resources::check("PMIx_server_setup_local_support", infos)?;
        let support = &self.0.fork.local_support;
        self.0.handle.request(|_, _| support.set(nspace, infos))
    }

    /// Reports that the host continues processes that it had stopped itself, as a debugger requests with
    /// `PMIX_DEBUGGER_RELEASE`. The host calls it before it continues them. Earlier releases are not delivered to the
    /// processes when they stop again and register for the code.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running.
    pub fn debugger_released(&self, procs: &[Proc<'_>]) -> Result<(), Error> {
        self.0.handle.request(|engine, _| {
            engine.debugger_released(procs);
            Ok::<_, Error>(())
        })
    }

    /// Describes the collectives and gets of processes of a job, or of any job, that have not completed: which processes
    /// have called, and which are missing.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running.
    pub fn waits(&self, job: Option<&Nspace<'_>>) -> Result<Waits, Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| Ok::<_, Error>(engine.waits(job)))
    }

    /// Counts what the server holds now: connections, requests, and bytes that wait. The time is proportional to the number
    /// of connections.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running.
    pub fn stats(&self) -> Result<Stats, Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| Ok::<_, Error>(engine.stats()))
    }

    /// Defines a process set (`PMIx_server_define_process_set`).
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_BAD_PARAM` without a name or members.
    pub fn define_process_set(&self, name: &Text<'_>, members: &[Proc<'_>]) -> Result<(), Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| engine.define_process_set(name, members))
    }

    /// Deletes a process set (`PMIx_server_delete_process_set`).
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_NOT_FOUND` if there is no such set.
    pub fn delete_process_set(&self, name: &Text<'_>) -> Result<(), Error> {
        self.0
            .handle
            .request(|engine, _| engine.delete_process_set(name))
    }

    /// Requests the data of a local process for the server of another node (`PMIx_server_dmodex_request`). The callback
    /// is called like a method of the host when the process has committed. If the server ends before, the callback is
    /// dropped.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_NOT_FOUND` for an unregistered job or a
    /// process of another node. The callback is dropped then.
    pub fn dmodex_request(
        &self,
        proc: &Proc<'_>,
        infos: &[Info<'_>],
        callback: impl FnOnce(Result<Vec<u8>, Status>) + Send + 'static,
    ) -> Result<(), Error> {
        let request = |engine: &mut Engine, now| engine.dmodex_request(proc, infos, now);
        self.0.handle.request_modex(request, Box::new(callback))
    }

    /// Delivers output of a process to the peers that pull it; empty data mark the end of the stream
    /// (`PMIx_server_IOF_deliver`).
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_BAD_PARAM` for a channel that is not output.
    pub fn iof_deliver(
        &self,
        source: &Proc<'_>,
        channel: IofChannel,
        data: Vec<u8>,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| engine.iof_deliver(source, channel, data, infos))
    }

    /// Notifies the clients and tools in a range that registered for an event (`PMIx_Notify_event`, called by a
    /// server). A bare process as the source is [`EventSource::Reporter`], to which the event is not delivered.
    ///
    /// A host of several nodes reports a lost process in this way to the servers of the other nodes: with
    /// `PMIX_ERR_LOST_CONNECTION`, `PMIX_ERR_PROC_ABORTED`, `PMIX_ERR_PROC_ABORTED_BY_SIG`,
    /// `PMIX_ERR_PROC_KILLED_BY_CMD`, `PMIX_ERR_PROC_TERM_WO_SYNC` or `PMIX_ERR_EXIT_NONZERO_TERM`, and the process as
    /// `PMIX_EVENT_AFFECTED_PROC` or as the source. A server then drops the data of the process. No fence ends: the
    /// server of the process reports the failure in its contribution.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, or an error for an invalid range or directive.
    pub fn notify<'p>(
        &self,
        status: Status,
        source: impl Into<EventSource<'p>>,
        range: DataRange,
        infos: &[Info<'_>],
    ) -> Result<(), Error> {
        let source = source.into();
        let handle = &self.0.handle;
        handle.request(|engine, now| engine.notify(status, source, range, infos, now))
    }
}

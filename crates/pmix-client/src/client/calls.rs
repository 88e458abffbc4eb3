// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls that wait for one reply, in the order of the chapters of the PMIx Standard.

use pmix_proto::Request;
use pmix_types::{
    AllocDirective, App, Cpuset, DataRange, DeviceDistance, Info, IofChannel, Key, Nspace, Pdata,
    Proc, Query, ResourceBlockDirective, ResourceUnit, Status, Text, Topology, Value,
};

use super::Client;
use crate::ask::{Ask, Found, value};
use crate::call::{Begin, Call};
use crate::core::{Answer, Core, Waiting};
use crate::{Answers, Error};

impl Client {
    /// Waits until all participants have entered the fence (`PMIx_Fence`). Without participants the fence is of the
    /// whole own job. With `PMIX_COLLECT_DATA`, the committed data of each participant are available to all of them
    /// afterwards.
    ///
    /// # Errors
    ///
    /// The call returns the status of a failed fence.
    pub fn fence<'a>(
        &'a self,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        Call::new(self.shared(), Ask::fence(procs.into(), infos.into()))
    }

    /// Gets the value of a key (`PMIx_Get`).
    ///
    /// Reserved keys (`pmix.…`) are about a process, its node, its application, its session or, with
    /// [`Rank::WILDCARD`](pmix_types::Rank::WILDCARD), its job. The server sent most of them at init. Other keys were
    /// put by the process; if it has not committed yet, the get waits. The reply has all data of the process that this
    /// client may see, and the client caches them. The server is asked again only for a key that is not in the cache.
    ///
    /// This function searches the local data, so that [`Call::known`] returns their value or error.
    ///
    /// Directives:
    ///
    /// - `pmix.optional`: sends no request, except once for the job info if this client reads shared memory and did not
    ///   request it at init.
    /// - `pmix.immediate`: does not wait for the process to commit.
    /// - `pmix.timeout`: the time limit of the server in seconds.
    /// - `pmix.get.refresh`: requests the data again.
    ///
    /// Other infos select a node, application or session, or qualify the value.
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_ERR_NOT_FOUND` if there is no such value, and `PMIX_ERR_OUT_OF_RESOURCE` if it is a
    /// compressed string longer than [`Settings::max_string_bytes`](crate::Settings::max_string_bytes).
    pub fn get<'k>(
        &self,
        proc: &Proc<'_>,
        key: impl Into<Key<'k>>,
        infos: &[Info<'_>],
    ) -> Call<'_, Value<'static>> {
        let begin = match self.0.find(proc, &key.into(), infos) {
            Found::Known(known) => Begin::Known(known.map(Answer::Value)),
            Found::AskServer(ask) => Begin::Request(ask.request, ask.waiting),
        };
        Call::of(self.shared(), begin, value)
    }

    /// Gets the value of a key of the own job (`PMIx_Get` with
    /// [`Rank::WILDCARD`](pmix_types::Rank::WILDCARD)).
    ///
    /// # Errors
    ///
    /// The call returns the errors of [`get`](Self::get).
    pub fn get_of_job<'k>(&self, key: impl Into<Key<'k>>) -> Call<'_, Value<'static>> {
        self.get(&self.job(), key, &[])
    }

    /// Publishes data (`PMIx_Publish`). `pmix.range` and `pmix.persist` among the infos set the processes that can look
    /// them up and their lifetime.
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_ERR_DUPLICATE_KEY` if a key is published in the range already.
    pub fn publish<'a>(&'a self, infos: impl Into<Vec<Info<'a>>>) -> Call<'a> {
        Call::new(self.shared(), Ask::publish(infos.into()))
    }

    /// Looks up the data published under keys (`PMIx_Lookup`). The status is `PMIX_SUCCESS`, or
    /// `PMIX_ERR_PARTIAL_SUCCESS` if some keys have no data. These are left out.
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_ERR_NOT_FOUND` if none of the keys has data.
    pub fn lookup<'a, K: Into<Key<'a>>>(
        &'a self,
        keys: impl IntoIterator<Item = K>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, (Status, Vec<Pdata<'static>>)> {
        let keys = keys.into_iter().map(Into::into).collect();
        Call::new(self.shared(), Ask::lookup(keys, infos.into()))
    }

    /// Removes the data that this process published under keys (`PMIx_Unpublish`).
    pub fn unpublish<'a, K: Into<Key<'a>>>(
        &'a self,
        keys: impl IntoIterator<Item = K>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        let keys = keys.into_iter().map(Into::into).collect();
        Call::new(self.shared(), Ask::unpublish(keys, infos.into()))
    }

    /// Requests that the host terminate `procs`, or all processes of the own job if there are none (`PMIx_Abort`).
    /// `status` becomes the exit code of the job.
    pub fn abort<'a>(
        &'a self,
        status: i32,
        message: impl Into<Option<&'a str>>,
        procs: impl Into<Vec<Proc<'a>>>,
    ) -> Call<'a> {
        let (status, message) = (Status::from_raw(status), message.into().map(Text::from));
        Call::new(self.shared(), Ask::abort(status, message, procs.into()))
    }

    /// Starts a job (`PMIx_Spawn`). The result is its nspace.
    ///
    /// # Errors
    ///
    /// The call returns the status of the host if it does not start the job.
    pub fn spawn<'a>(
        &'a self,
        infos: impl Into<Vec<Info<'a>>>,
        apps: impl Into<Vec<App<'a>>>,
    ) -> Call<'a, Nspace<'static>> {
        Call::new(self.shared(), Ask::spawn(infos.into(), apps.into()))
    }

    /// Connects processes (`PMIx_Connect`). Each participant must call it and gets the job info of the other jobs.
    pub fn connect<'a>(
        &'a self,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        Call::new(self.shared(), Ask::connect(procs.into(), infos.into()))
    }

    /// Ends a [`connect`](Self::connect) (`PMIx_Disconnect`). Each participant must call it.
    pub fn disconnect<'a>(
        &'a self,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        Call::new(self.shared(), Ask::disconnect(procs.into(), infos.into()))
    }

    /// Queries information about the system (`PMIx_Query_info`).
    ///
    /// # Errors
    ///
    /// The call fails only if no reply arrives; the status of the reply is part of the result. So do all calls that
    /// return [`Answers`].
    pub fn query<'a>(&'a self, queries: impl Into<Vec<Query<'a>>>) -> Call<'a, Answers> {
        Call::new(self.shared(), Ask::query(queries.into()))
    }

    /// Logs data at the host (`PMIx_Log`).
    pub fn log<'a>(
        &'a self,
        data: impl Into<Vec<Info<'a>>>,
        directives: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        Call::new(self.shared(), Ask::log(data.into(), directives.into()))
    }

    /// Requests that the host change an allocation (`PMIx_Allocation_request`).
    pub fn allocate<'a>(
        &'a self,
        directive: AllocDirective,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        Call::new(self.shared(), Ask::allocate(directive, infos.into()))
    }

    /// Requests that the host define, change or delete a named block of resources (`PMIx_Resource_block`).
    pub fn resource_block<'a>(
        &'a self,
        directive: ResourceBlockDirective,
        block: impl Into<Text<'a>>,
        units: impl Into<Vec<ResourceUnit>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        let ask = Ask::resource_block(directive, block.into(), units.into(), infos.into());
        Call::new(self.shared(), ask)
    }

    /// Controls processes (`PMIx_Job_control`): terminates, signals or checkpoints them, or registers files for
    /// removal. Without targets it concerns the own job.
    pub fn job_control<'a>(
        &'a self,
        targets: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        Call::new(
            self.shared(),
            Ask::job_control(targets.into(), infos.into()),
        )
    }

    /// Controls a session, or all sessions if the number is `u32::MAX` (`PMIx_Session_control`).
    pub fn session_control<'a>(
        &'a self,
        session: u32,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        Call::new(self.shared(), Ask::session_control(session, infos.into()))
    }

    /// Requests monitoring of processes or files (`PMIx_Process_monitor`). `error` is the status of the event that
    /// reports a failure.
    pub fn monitor<'a>(
        &'a self,
        monitor: Info<'a>,
        error: Status,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        Call::new(self.shared(), Ask::monitor(monitor, error, infos.into()))
    }

    /// Sends a heartbeat (`PMIx_Heartbeat`), for a server that monitors this process. The message has no reply.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_UNREACH` if the connection is lost, or `PMIX_ERR_TIMEOUT` if the server does not read the
    /// message within [`Settings::time_limit`](crate::Settings::time_limit).
    pub fn heartbeat(&self) -> Result<(), Error> {
        self.0.send_unanswered("a heartbeat", Core::heartbeat)
    }

    /// Gets a credential of this process from the host (`PMIx_Get_credential`), with infos about it.
    pub fn credential<'a>(
        &'a self,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, (Vec<u8>, Vec<Info<'static>>)> {
        Call::new(self.shared(), Ask::credential(infos.into()))
    }

    /// Validates a credential (`PMIx_Validate_credential`).
    pub fn validate<'a>(
        &'a self,
        credential: impl Into<Vec<u8>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        Call::new(
            self.shared(),
            Ask::validate(credential.into(), infos.into()),
        )
    }

    /// Registers for events with these codes, or for all events if there are none (`PMIx_Register_event_handler`). The
    /// events go to the [listener](Self::set_listener), or without one to [`next_event`](Self::next_event).
    pub fn register_events<'a>(
        &'a self,
        codes: impl Into<Vec<Status>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        Call::new(
            self.shared(),
            Ask::register_events(codes.into(), infos.into()),
        )
    }

    /// Deregisters from events (`PMIx_Deregister_event_handler`). The message has no reply.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`heartbeat`](Self::heartbeat).
    pub fn deregister_events(&self, codes: &[Status]) -> Result<(), Error> {
        self.0.send_unanswered("the end of a registration", |core| {
            core.deregister_events(codes)
        })
    }

    /// Notifies the processes in `range` of an event (`PMIx_Notify_event`).
    pub fn notify<'a>(
        &'a self,
        status: Status,
        range: DataRange,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        Call::new(self.shared(), Ask::notify(status, range, infos.into()))
    }

    /// Requests the output of processes (`PMIx_IOF_pull`). It goes to the [listener](Self::set_listener) as
    /// [`ClientEvent::Output`](crate::ClientEvent::Output) with `local_id`. The result is the number for
    /// [`iof_deregister`](Self::iof_deregister).
    pub fn iof_pull<'a>(
        &'a self,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
        channels: IofChannel,
        local_id: u64,
    ) -> Call<'a, u64> {
        let pull = Ask::iof_pull(procs.into(), infos.into(), channels, local_id);
        Call::new(self.shared(), pull)
    }

    /// Deregisters a pull of output by the number in its reply (`PMIx_IOF_deregister`).
    pub fn iof_deregister<'a>(
        &'a self,
        remote_id: u64,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        Call::new(self.shared(), Ask::iof_deregister(remote_id, infos.into()))
    }

    /// Forwards input to processes; `None` closes their input (`PMIx_IOF_push`).
    pub fn iof_push<'a>(
        &'a self,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
        data: Option<Vec<u8>>,
    ) -> Call<'a> {
        Call::new(
            self.shared(),
            Ask::iof_push(procs.into(), infos.into(), data),
        )
    }

    /// Requests the description of a fabric from the host (`PMIx_Fabric_register`). The infos of the answer include its
    /// index.
    pub fn fabric_register<'a>(&'a self, infos: impl Into<Vec<Info<'a>>>) -> Call<'a, Answers> {
        Call::new(self.shared(), Ask::fabric_register(infos.into()))
    }

    /// Requests the current description of a fabric by the index from its registration (`PMIx_Fabric_update`).
    pub fn fabric_update(&self, index: u64) -> Call<'_, Answers> {
        Call::new(self.shared(), Ask::fabric_update(index))
    }

    /// Requests the distances from processors to devices of the node, for a process that cannot compute them itself
    /// (`PMIx_Compute_distances`). [`Ask::device_distances`] describes the arguments.
    pub fn device_distances<'a>(
        &'a self,
        topology: Topology<'a>,
        cpuset: Cpuset<'a>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Vec<DeviceDistance<'static>>> {
        let ask = Ask::device_distances(topology, cpuset, infos.into());
        Call::new(self.shared(), ask)
    }

    /// Sends any other request. The result is the payload of the reply, which the types in [`pmix_proto::reply`]
    /// decode.
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_ERR_BAD_PARAM` for a request that has no reply.
    pub fn request<'a>(&'a self, request: Request<'a>) -> Call<'a, Vec<u8>> {
        let waiting = Waiting::Payload(request.command());
        Call::of(
            self.shared(),
            Begin::Request(request, waiting),
            |answer| match answer {
                Answer::Payload(payload) => Some(payload),
                _ => None,
            },
        )
    }
}

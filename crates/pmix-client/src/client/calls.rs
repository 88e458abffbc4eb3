// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls that wait for one reply, in the order of the chapters of the PMIx Standard.

use std::time::{SystemTime, UNIX_EPOCH};

use pmix_proto::{Request, request};
use pmix_types::{
    AllocDirective, App, Cpuset, DataRange, DeviceDistance, Info, IofChannel, Key, Nspace, Pdata,
    Proc, Query, ResourceBlockDirective, ResourceUnit, Status, Text, Topology, Value,
};

use super::Client;
use crate::call::Call;
use crate::core::{Core, FromAnswer, RequestCall, Waiting};
use crate::known::Found;
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
        self.call(Request::Fence(request::Fence {
            procs: procs.into(),
            infos: infos.into(),
        }))
    }

    /// Gets the value of a key (`PMIx_Get`).
    ///
    /// Reserved keys (`pmix.…`) are about a process, its node, its application, its session or, with
    /// [`Rank::WILDCARD`](pmix_types::Rank::WILDCARD), its job. The server sent most of them at init. Other keys were
    /// put by the process; if it has not committed yet, the get waits. The reply has all data of the process that this
    /// client may see, and the client caches them. The client requests again only a key that is not in the cache.
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
        // The search is part of this function and not of the wait, so that `Call::known` has its result.
        match self.0.find(proc, &key.into(), infos) {
            Found::Known(known) => Call::ready(self.shared(), known),
            Found::AskServer(call) => Call::of_request(self.shared(), call),
        }
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
        self.call(Request::Publish(request::Publish {
            uid: uid(),
            infos: infos.into(),
        }))
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
        self.call(Request::Lookup(request::Lookup {
            uid: uid(),
            keys: keys.into_iter().map(Into::into).collect(),
            infos: infos.into(),
        }))
    }

    /// Removes the data that this process published under keys (`PMIx_Unpublish`).
    pub fn unpublish<'a, K: Into<Key<'a>>>(
        &'a self,
        keys: impl IntoIterator<Item = K>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        self.call(Request::Unpublish(request::Unpublish {
            uid: uid(),
            keys: keys.into_iter().map(Into::into).collect(),
            infos: infos.into(),
        }))
    }

    /// Requests that the host terminate `procs`, or all processes of the own job if there are none (`PMIx_Abort`).
    /// `status` becomes the exit code of the job.
    pub fn abort<'a>(
        &'a self,
        status: i32,
        message: impl Into<Option<&'a str>>,
        procs: impl Into<Vec<Proc<'a>>>,
    ) -> Call<'a> {
        self.call(Request::Abort(request::Abort {
            status: Status::from_raw(status),
            message: message.into().map(Text::from),
            procs: procs.into(),
        }))
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
        self.call(Request::Spawn(request::Spawn {
            infos: infos.into(),
            apps: apps.into(),
        }))
    }

    /// Connects processes (`PMIx_Connect`). Each participant must call it and gets the job info of the other jobs.
    pub fn connect<'a>(
        &'a self,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        self.call(Request::Connect(request::Connect {
            procs: procs.into(),
            infos: infos.into(),
            shared: Vec::new(),
        }))
    }

    /// Ends a [`connect`](Self::connect) (`PMIx_Disconnect`). Each participant must call it.
    pub fn disconnect<'a>(
        &'a self,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        self.call(Request::Disconnect(request::Disconnect {
            procs: procs.into(),
            infos: infos.into(),
        }))
    }

    /// Queries information about the system (`PMIx_Query_info`).
    ///
    /// # Errors
    ///
    /// The call fails only if no reply arrives; the status of the reply is part of the result. So do all calls that
    /// return [`Answers`].
    pub fn query<'a>(&'a self, queries: impl Into<Vec<Query<'a>>>) -> Call<'a, Answers> {
        self.call(Request::Query(request::Query {
            queries: queries.into(),
        }))
    }

    /// Logs data at the host (`PMIx_Log`).
    pub fn log<'a>(
        &'a self,
        data: impl Into<Vec<Info<'a>>>,
        directives: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        // The request has the time of the call, since the host may log it later.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(0);
        self.call(Request::Log(request::Log {
            time,
            data: data.into(),
            directives: directives.into(),
        }))
    }

    /// Requests that the host change an allocation (`PMIx_Allocation_request`).
    pub fn allocate<'a>(
        &'a self,
        directive: AllocDirective,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        self.call(Request::Allocate(request::Allocate {
            directive,
            infos: infos.into(),
        }))
    }

    /// Requests that the host define, change or delete a named block of resources (`PMIx_Resource_block`).
    pub fn resource_block<'a>(
        &'a self,
        directive: ResourceBlockDirective,
        block: impl Into<Text<'a>>,
        units: impl Into<Vec<ResourceUnit>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        self.call(Request::ResourceBlock(request::ResourceBlock {
            directive,
            block: Some(block.into()),
            units: units.into(),
            infos: infos.into(),
        }))
    }

    /// Controls processes (`PMIx_Job_control`): terminates, signals or checkpoints them, or registers files for
    /// removal. Without targets it concerns the own job.
    pub fn job_control<'a>(
        &'a self,
        targets: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        self.call(Request::JobControl(request::JobControl {
            targets: targets.into(),
            infos: infos.into(),
        }))
    }

    /// Controls a session, or all sessions if the number is `u32::MAX` (`PMIx_Session_control`).
    pub fn session_control<'a>(
        &'a self,
        session: u32,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        self.call(Request::SessionControl(request::SessionControl {
            session,
            infos: infos.into(),
        }))
    }

    /// Requests monitoring of processes or files (`PMIx_Process_monitor`). `error` is the status of the event that
    /// reports a failure.
    pub fn monitor<'a>(
        &'a self,
        monitor: Info<'a>,
        error: Status,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        self.call(Request::Monitor(request::Monitor {
            monitor,
            error,
            infos: infos.into(),
        }))
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
    pub fn get_credential<'a>(
        &'a self,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, (Vec<u8>, Vec<Info<'static>>)> {
        self.call(Request::GetCredential(request::GetCredential {
            infos: infos.into(),
        }))
    }

    /// Validates a credential (`PMIx_Validate_credential`).
    pub fn validate_credential<'a>(
        &'a self,
        credential: impl Into<Vec<u8>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Answers> {
        self.call(Request::ValidateCredential(request::ValidateCredential {
            credential: credential.into().into(),
            infos: infos.into(),
        }))
    }

    /// Registers for events with these codes, or for all events if there are none (`PMIx_Register_event_handler`). The
    /// events go to the [listener](Self::set_listener), or without one to [`next_event`](Self::next_event).
    pub fn register_events<'a>(
        &'a self,
        codes: impl Into<Vec<Status>>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        self.call(Request::RegisterEvents(request::RegisterEvents {
            codes: codes.into(),
            infos: infos.into(),
        }))
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
        self.call(Request::Notify(request::Notify {
            status,
            range,
            infos: infos.into(),
        }))
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
        self.call(Request::IofPull(request::IofPull {
            procs: procs.into(),
            infos: infos.into(),
            channels,
            local_id,
        }))
    }

    /// Deregisters a pull of output by the number in its reply (`PMIx_IOF_deregister`).
    pub fn iof_deregister<'a>(
        &'a self,
        remote_id: u64,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a> {
        self.call(Request::IofDeregister(request::IofDeregister {
            infos: infos.into(),
            remote_id,
        }))
    }

    /// Forwards input to processes; `None` closes their input (`PMIx_IOF_push`).
    pub fn iof_push<'a>(
        &'a self,
        procs: impl Into<Vec<Proc<'a>>>,
        infos: impl Into<Vec<Info<'a>>>,
        data: Option<Vec<u8>>,
    ) -> Call<'a> {
        self.call(Request::IofPush(request::IofPush {
            procs: procs.into(),
            infos: infos.into(),
            data: data.map(Into::into),
        }))
    }

    /// Requests the description of a fabric from the host (`PMIx_Fabric_register`). The infos of the answer include its
    /// index.
    pub fn fabric_register<'a>(&'a self, infos: impl Into<Vec<Info<'a>>>) -> Call<'a, Answers> {
        self.call(Request::FabricRegister(request::FabricRegister {
            infos: infos.into(),
        }))
    }

    /// Requests the current description of a fabric by the index from its registration (`PMIx_Fabric_update`).
    pub fn fabric_update(&self, index: u64) -> Call<'_, Answers> {
        self.call(Request::FabricUpdate(request::FabricUpdate { index }))
    }

    /// Requests the distances from processors to devices of the node, for a process that cannot compute them itself
    /// (`PMIx_Compute_distances`).
    ///
    /// `cpuset` lists the processors, for example `0,2-3`. `infos` select devices by `PMIX_DEVICE_TYPE` and
    /// `PMIX_DEVICE_ID`. `topology` is the topology as this process knows it. Servers of OpenPMIx compute the distances
    /// from it; a server of this project uses its own.
    pub fn compute_distances<'a>(
        &'a self,
        topology: Topology<'a>,
        cpuset: Cpuset<'a>,
        infos: impl Into<Vec<Info<'a>>>,
    ) -> Call<'a, Vec<DeviceDistance<'static>>> {
        self.call(Request::DeviceDistances(request::DeviceDistances {
            topology,
            cpuset,
            infos: infos.into(),
        }))
    }

    /// Sends any other request. The result is the payload of the reply, which the types in [`pmix_proto::reply`]
    /// decode.
    ///
    /// # Errors
    ///
    /// The call returns `PMIX_ERR_BAD_PARAM` for a request that has no reply.
    pub fn request<'a>(&'a self, request: Request<'a>) -> Call<'a, Vec<u8>> {
        let waiting = Waiting::Payload(request.command());
        // The caller decodes the reply, so the operation keeps the payload as it is.
        let call = RequestCall { request, waiting };
        Call::of_request(self.shared(), Box::new(call))
    }

    /// Makes the call of a request. Its type of result selects the content of the [`Answer`](crate::driver::Answer).
    pub(crate) fn call<'a, T: FromAnswer>(&'a self, request: Request<'a>) -> Call<'a, T> {
        Call::of_request(self.shared(), Box::new(request.into()))
    }
}

/// Returns the user whose published data the server distinguishes.
fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

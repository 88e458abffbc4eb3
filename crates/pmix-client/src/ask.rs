// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of a client, each with what is waited for.
//!
//! Source: PMIx Standard, the chapter of the function that each method names.

use std::time::{SystemTime, UNIX_EPOCH};

use pmix_proto::{Request, request};
use pmix_types::{
    AllocDirective, App, Cpuset, DataRange, DeviceDistance, Info, IntoOwned as _, IofChannel, Key,
    Nspace, Pdata, Proc, Query, ResourceBlockDirective, ResourceUnit, Status, Text, Topology,
    Value,
};

use crate::core::{Answer, Waiting};
use crate::group::invitation;
use crate::{Error, Group};

/// A request and the operation that waits for its reply, for [`Core::ask`](crate::driver::Core::ask) or
/// [`driver::call`](crate::driver::call). The methods of [`Client`](crate::Client) make one each.
#[must_use = "a request does nothing until a core or a client sends it"]
pub struct Ask<'a, T = ()> {
    pub(crate) request: Request<'a>,
    pub(crate) waiting: Waiting,
    pub(crate) take: Take<T>,
}

/// The function that extracts a result from an answer of the expected kind.
pub(crate) type Take<T> = fn(Answer) -> Option<T>;

/// A status and infos; a partial success has infos as well.
pub type Answers = (Status, Vec<Info<'static>>);

/// Returns the value of the answer to a get.
pub(crate) fn value(answer: Answer) -> Option<Value<'static>> {
    match answer {
        Answer::Value(value) => Some(value),
        _ => None,
    }
}

/// Returns the result of an [`Ask`] from the answer of its operation.
pub(crate) fn taken<T>(take: Take<T>, answer: Result<Answer, Error>) -> Result<T, Error> {
    let unexpected = || Error::new(Status::ERR_COMM_FAILURE, "a reply of an unexpected type");
    take(answer?).ok_or_else(unexpected)
}

impl<'a> Ask<'a, ()> {
    pub(crate) fn done(request: Request<'a>) -> Self {
        let waiting = Waiting::Done(request.command());
        Self::of(request, waiting)
    }

    fn of(request: Request<'a>, waiting: Waiting) -> Self {
        Self {
            request,
            waiting,
            take: |answer| (answer == Answer::Done).then_some(()),
        }
    }

    /// Requests a fence; the reply arrives when all participants have entered it (`PMIx_Fence`). Without participants
    /// the fence is of the whole own job.
    pub fn fence(procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::Fence(request::Fence { procs, infos }))
    }

    /// Forwards input to processes; `None` closes their input (`PMIx_IOF_push`).
    pub fn iof_push(procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>, data: Option<Vec<u8>>) -> Self {
        let data = data.map(Into::into);
        Self::done(Request::IofPush(request::IofPush { procs, infos, data }))
    }

    /// Deregisters a pull of output by the number in its reply (`PMIx_IOF_deregister`).
    pub fn iof_deregister(remote_id: u64, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::IofDeregister(request::IofDeregister {
            infos,
            remote_id,
        }))
    }

    /// Requests that the host terminate processes (`PMIx_Abort`).
    pub fn abort(status: Status, message: Option<Text<'a>>, procs: Vec<Proc<'a>>) -> Self {
        Self::done(Request::Abort(request::Abort {
            status,
            message,
            procs,
        }))
    }

    /// Connects processes (`PMIx_Connect`).
    pub fn connect(procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        let request = Request::Connect(request::Connect {
            procs,
            infos,
            shared: Vec::new(),
        });
        Self::of(request, Waiting::Jobs)
    }

    /// Disconnects processes (`PMIx_Disconnect`).
    pub fn disconnect(procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::Disconnect(request::Disconnect { procs, infos }))
    }

    /// Publishes data (`PMIx_Publish`).
    pub fn publish(infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::Publish(request::Publish { uid: uid(), infos }))
    }

    /// Removes published data (`PMIx_Unpublish`).
    pub fn unpublish(keys: Vec<Key<'a>>, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::Unpublish(request::Unpublish {
            uid: uid(),
            keys,
            infos,
        }))
    }

    /// Notifies other processes of an event (`PMIx_Notify_event`).
    pub fn notify(status: Status, range: DataRange, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::Notify(request::Notify {
            status,
            range,
            infos,
        }))
    }

    /// Registers for events (`PMIx_Register_event_handler`).
    pub fn register_events(codes: Vec<Status>, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::RegisterEvents(request::RegisterEvents {
            codes,
            infos,
        }))
    }

    /// Requests that the host log data (`PMIx_Log`).
    pub fn log(data: Vec<Info<'a>>, directives: Vec<Info<'a>>) -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let time = i64::try_from(since.as_secs()).unwrap_or(0);
        Self::done(Request::Log(request::Log {
            time,
            data,
            directives,
        }))
    }

    /// Requests that the host define, change or delete a named block of resources (`PMIx_Resource_block`).
    pub fn resource_block(
        directive: ResourceBlockDirective,
        block: Text<'a>,
        units: Vec<ResourceUnit>,
        infos: Vec<Info<'a>>,
    ) -> Self {
        Self::done(Request::ResourceBlock(request::ResourceBlock {
            directive,
            block: Some(block),
            units,
            infos,
        }))
    }

    /// Leaves a group (`PMIx_Group_leave`).
    pub fn group_leave(group: Text<'a>, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::GroupLeave(request::GroupLeave {
            group: Some(group),
            infos,
        }))
    }

    /// Declines the invitation of a leader to a group (`PMIx_Group_join`).
    pub fn group_decline(group: &Text<'a>, leader: &Proc<'a>) -> Self {
        let (group, leader) = (group.clone().into_owned(), leader.clone().into_owned());
        let declined = invitation(Status::GROUP_INVITE_DECLINED, &group, &leader);
        Self::done(Request::Notify(declined))
    }

    /// Destructs a group (`PMIx_Group_destruct`). Without processes these are its members, as far as they are known.
    pub fn group_destruct(group: Text<'a>, procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        let group = Some(group);
        Self::done(Request::GroupDestruct(request::GroupDestruct {
            group,
            procs,
            infos,
        }))
    }
}

/// The outcome of a search in the local data.
pub(crate) enum Found {
    /// The value, or the error of a get that needs no server.
    Known(Result<Value<'static>, Error>),
    /// The request to send to the server.
    AskServer(Box<Ask<'static, Value<'static>>>),
}

impl Found {
    /// Returns the request for a value and the operation that waits for its reply.
    pub(crate) fn asking(request: Request<'static>, waiting: Waiting) -> Self {
        Self::AskServer(Box::new(Ask {
            request,
            waiting,
            take: value,
        }))
    }
}

impl<'a> Ask<'a, (Status, Vec<Pdata<'static>>)> {
    /// Looks up published data by keys (`PMIx_Lookup`). The status is `PMIX_SUCCESS`, or `PMIX_ERR_PARTIAL_SUCCESS` if
    /// some keys have no data. If none has data, the operation fails with `PMIX_ERR_NOT_FOUND`.
    pub fn lookup(keys: Vec<Key<'a>>, infos: Vec<Info<'a>>) -> Self {
        let request = Request::Lookup(request::Lookup {
            uid: uid(),
            keys,
            infos,
        });
        Self {
            request,
            waiting: Waiting::Found,
            take: |answer| match answer {
                Answer::Found(status, found) => Some((status, found)),
                _ => None,
            },
        }
    }
}

impl<'a> Ask<'a, u64> {
    /// Requests the output of processes (`PMIx_IOF_pull`). It arrives as
    /// [`ClientEvent::Output`](crate::ClientEvent::Output) with `local_id`. The answer is the number for
    /// [`iof_deregister`](Ask::iof_deregister).
    pub fn iof_pull(
        procs: Vec<Proc<'a>>,
        infos: Vec<Info<'a>>,
        channels: IofChannel,
        local_id: u64,
    ) -> Self {
        let request = Request::IofPull(request::IofPull {
            procs,
            infos,
            channels,
            local_id,
        });
        Self {
            request,
            waiting: Waiting::Pulled,
            take: |answer| match answer {
                Answer::Pulled(id) => Some(id),
                _ => None,
            },
        }
    }
}

impl<'a> Ask<'a, Vec<DeviceDistance<'static>>> {
    /// Requests the distances from processors to devices of the node, for a process that cannot compute them itself
    /// (`PMIx_Compute_distances`).
    ///
    /// `cpuset` lists the processors, for example `0,2-3`. `infos` select devices by `PMIX_DEVICE_TYPE` and
    /// `PMIX_DEVICE_ID`. `topology` is the topology as this process knows it. Servers of OpenPMIx compute the distances
    /// from it; a server of this project uses its own.
    pub fn device_distances(
        topology: Topology<'a>,
        cpuset: Cpuset<'a>,
        infos: Vec<Info<'a>>,
    ) -> Self {
        let request = Request::DeviceDistances(request::DeviceDistances {
            topology,
            cpuset,
            infos,
        });
        Self {
            request,
            waiting: Waiting::Distances,
            take: |answer| match answer {
                Answer::Distances(distances) => Some(distances),
                _ => None,
            },
        }
    }
}

impl<'a> Ask<'a, Nspace<'static>> {
    /// Requests that the host start a job (`PMIx_Spawn`).
    pub fn spawn(infos: Vec<Info<'a>>, apps: Vec<App<'a>>) -> Self {
        let request = Request::Spawn(request::Spawn { infos, apps });
        Self {
            request,
            waiting: Waiting::Job,
            take: |answer| match answer {
                Answer::Job(job) => Some(job),
                _ => None,
            },
        }
    }
}

impl<'a> Ask<'a, Answers> {
    fn infos(request: Request<'a>) -> Self {
        let waiting = Waiting::Infos(request.command());
        Self {
            request,
            waiting,
            take: |answer| match answer {
                Answer::Infos(status, infos) => Some((status, infos)),
                _ => None,
            },
        }
    }

    /// Queries information about the system (`PMIx_Query_info`).
    pub fn query(queries: Vec<Query<'a>>) -> Self {
        Self::infos(Request::Query(request::Query { queries }))
    }

    /// Requests the description of a fabric from the host (`PMIx_Fabric_register`). The infos of the answer include its
    /// index.
    pub fn fabric_register(infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::FabricRegister(request::FabricRegister { infos }))
    }

    /// Requests the current description of a fabric by the index from its registration (`PMIx_Fabric_update`).
    pub fn fabric_update(index: u64) -> Self {
        Self::infos(Request::FabricUpdate(request::FabricUpdate { index }))
    }

    /// Requests that the host control a session, or all sessions if the number is `u32::MAX` (`PMIx_Session_control`).
    pub fn session_control(session: u32, infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::SessionControl(request::SessionControl {
            session,
            infos,
        }))
    }

    /// Requests that the host change an allocation (`PMIx_Allocation_request`).
    pub fn allocate(directive: AllocDirective, infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::Allocate(request::Allocate { directive, infos }))
    }

    /// Requests control of processes (`PMIx_Job_control`).
    pub fn job_control(targets: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::JobControl(request::JobControl { targets, infos }))
    }

    /// Requests monitoring of processes (`PMIx_Process_monitor`).
    pub fn monitor(monitor: Info<'a>, error: Status, infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::Monitor(request::Monitor {
            monitor,
            error,
            infos,
        }))
    }

    /// Requests that the host validate a credential (`PMIx_Validate_credential`).
    pub fn validate(credential: Vec<u8>, infos: Vec<Info<'a>>) -> Self {
        let credential = credential.into();
        Self::infos(Request::ValidateCredential(request::ValidateCredential {
            credential,
            infos,
        }))
    }
}

impl<'a> Ask<'a, Group> {
    /// Constructs a group (`PMIx_Group_construct`).
    pub fn group_construct(group: Text<'a>, procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        let name = group.clone().into_owned();
        let group = Some(group);
        let request = Request::GroupConstruct(request::GroupConstruct {
            group,
            procs,
            infos,
        });
        Self {
            request,
            waiting: Waiting::Constructed(name),
            take: |answer| match answer {
                Answer::Group(group) => Some(group),
                _ => None,
            },
        }
    }
}

impl<'a> Ask<'a, (Vec<u8>, Vec<Info<'static>>)> {
    /// Requests a credential of this process from the host (`PMIx_Get_credential`).
    pub fn credential(infos: Vec<Info<'a>>) -> Self {
        let request = Request::GetCredential(request::GetCredential { infos });
        Self {
            request,
            waiting: Waiting::Credential,
            take: |answer| match answer {
                Answer::Credential(bytes, infos) => Some((bytes, infos)),
                _ => None,
            },
        }
    }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

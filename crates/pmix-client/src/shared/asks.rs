// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of a client, each with what reads its reply.
//!
//! Source: PMIx Standard, the chapter of the function that each method names.

use std::time::{SystemTime, UNIX_EPOCH};

use pmix_proto::reply::{Credential, Done, Found, Infos, JobInfo, Objects, Pulled, Spawned};
use pmix_proto::{PeerForm, Request, reply, request};
use pmix_types::{
    AllocDirective, App, DataRange, Info, IntoOwned as _, IofChannel, Key, Nspace, Pdata, Proc,
    Query, ResourceBlockDirective, ResourceUnit, Status, Text, Value,
};

use super::{Shared, missing};
use crate::get::{absorb, ask_for_more, request_of};
use crate::group::invitation;
use crate::{Error, Group};

/// How the payload of a reply is read.
pub(super) type Read<T> = Box<dyn FnOnce(&Shared, &[u8]) -> Result<T, Error> + Send>;

/// Holds a request and what reads its reply, to be given to
/// [`SharedClient::wait`](super::SharedClient::wait) or [`start`](super::SharedClient::start).
#[must_use = "nothing is asked before it is waited for or started"]
pub struct Ask<'a, T = ()> {
    pub(super) request: Request<'a>,
    pub(super) read: Read<T>,
}

/// Holds a status and infos; a partial success has infos too.
pub type Answers = (Status, Vec<Info<'static>>);

impl<'a> Ask<'a, ()> {
    pub(super) fn done(request: Request<'a>) -> Self {
        let command = request.command();
        let read = move |shared: &Shared, payload: &[u8]| {
            let status = Done::decode(form(shared), None, payload)?.status;
            match status {
                // What a server did at once is done.
                Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(()),
                _ => Err(Error::answered(status, command)),
            }
        };
        Self {
            request,
            read: Box::new(read),
        }
    }

    /// Asks for the job info of the own job.
    pub(super) fn job_info() -> Self {
        let read = |shared: &Shared, payload: &[u8]| {
            let info = JobInfo::decode(form(shared), None, payload)?;
            shared.cache.absorb_job_info(&info)
        };
        Self {
            request: Request::JobInfo,
            read: Box::new(read),
        }
    }

    /// Joins a fence; the reply comes when all participants have arrived (`PMIx_Fence`).
    pub fn fence(procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::Fence(request::Fence { procs, infos }))
    }

    /// Sends input to processes; no data are the end of it (`PMIx_IOF_push`).
    pub fn iof_push(procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>, data: Option<Vec<u8>>) -> Self {
        let data = data.map(Into::into);
        Self::done(Request::IofPush(request::IofPush { procs, infos, data }))
    }

    /// Ends a pull of output by the number that it was answered with (`PMIx_IOF_deregister`).
    pub fn iof_deregister(remote_id: u64, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::IofDeregister(request::IofDeregister {
            infos,
            remote_id,
        }))
    }

    /// Asks the host to end processes (`PMIx_Abort`).
    pub fn abort(status: Status, message: Option<Text<'a>>, procs: Vec<Proc<'a>>) -> Self {
        Self::done(Request::Abort(request::Abort {
            status,
            message,
            procs,
        }))
    }

    /// Joins a connect (`PMIx_Connect`).
    pub fn connect(procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        let request = Request::Connect(request::Connect { procs, infos });
        let command = request.command();
        let read = move |shared: &Shared, payload: &[u8]| {
            let objects = Objects::decode(form(shared), None, payload)?;
            match objects.status.is_success() {
                true => shared.cache.absorb_jobs(&objects),
                false => Err(Error::answered(objects.status, command)),
            }
        };
        Self {
            request,
            read: Box::new(read),
        }
    }

    /// Joins a disconnect (`PMIx_Disconnect`).
    pub fn disconnect(procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::Disconnect(request::Disconnect { procs, infos }))
    }

    /// Publishes data (`PMIx_Publish`).
    pub fn publish(infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::Publish(request::Publish { uid: uid(), infos }))
    }

    /// Withdraws published data (`PMIx_Unpublish`).
    pub fn unpublish(keys: Vec<Key<'a>>, infos: Vec<Info<'a>>) -> Self {
        Self::done(Request::Unpublish(request::Unpublish {
            uid: uid(),
            keys,
            infos,
        }))
    }

    /// Reports an event to others (`PMIx_Notify_event`).
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

    /// Asks the host to log data (`PMIx_Log`).
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

    /// Asks the host to define, change or delete a named block of resources (`PMIx_Resource_block`).
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

    /// Joins the destruction of a group (`PMIx_Group_destruct`). Servers of 5.0 want its members, which
    /// [`SharedClient::group_destruct`](super::SharedClient::group_destruct) knows.
    pub fn group_destruct(group: Text<'a>, procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        let group = Some(group);
        Self::done(Request::GroupDestruct(request::GroupDestruct {
            group,
            procs,
            infos,
        }))
    }
}

impl Ask<'_, Value<'static>> {
    /// All that there is of a process, and this of it.
    pub(super) fn get(shared: &Shared, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Self {
        let mut get = request_of(proc, key, infos);
        let portion = ask_for_more(&mut get, &shared.prefetch, &shared.settings.proc);
        let request = Request::Get(get);
        let (proc, key) = (proc.clone().into_owned(), key.to_owned());
        let infos = infos.to_vec().into_owned();
        let read = move |shared: &Shared, payload: &[u8]| {
            let objects = Objects::decode(form(shared), None, payload)?;
            if !objects.status.is_success() {
                let what = format!("{key} of {} rank {}", proc.nspace, proc.rank);
                return Err(Error::answered(objects.status, what));
            }
            absorb(&shared.cache, &shared.prefetch, &proc, portion, &objects)?;
            let found = shared.find(&proc, &key, &infos);
            let found = found.ok_or_else(|| missing(&proc, &key))?;
            shared.whole(&key, found)
        };
        Self {
            request,
            read: Box::new(read),
        }
    }
}

impl<'a> Ask<'a, Vec<Pdata<'static>>> {
    /// Asks for published data by its keys (`PMIx_Lookup`).
    pub fn lookup(keys: Vec<Key<'a>>, infos: Vec<Info<'a>>) -> Self {
        let request = Request::Lookup(request::Lookup {
            uid: uid(),
            keys,
            infos,
        });
        let command = request.command();
        let read = move |shared: &Shared, payload: &[u8]| {
            let found = Found::decode(form(shared), None, payload)?;
            match found.status.is_success() {
                true => Ok(found.data.unwrap_or_default().into_owned()),
                false => Err(Error::answered(found.status, command)),
            }
        };
        Self {
            request,
            read: Box::new(read),
        }
    }
}

impl<'a> Ask<'a, u64> {
    /// Asks for output of processes (`PMIx_IOF_pull`), which then comes as
    /// [`ClientEvent::Output`](super::ClientEvent::Output) under the number given here. The answer
    /// is the number that ends it.
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
        let command = request.command();
        let read = move |shared: &Shared, payload: &[u8]| {
            let pulled = Pulled::decode(form(shared), None, payload)?;
            match pulled.remote_id {
                Some(id) if pulled.status.is_success() => Ok(id),
                _ => Err(Error::answered(pulled.status, command)),
            }
        };
        Self {
            request,
            read: Box::new(read),
        }
    }
}

impl<'a> Ask<'a, Nspace<'static>> {
    /// Asks the host to start a job (`PMIx_Spawn`).
    pub fn spawn(infos: Vec<Info<'a>>, apps: Vec<App<'a>>) -> Self {
        let request = Request::Spawn(request::Spawn { infos, apps });
        let command = request.command();
        let read = move |shared: &Shared, payload: &[u8]| {
            let spawned = Spawned::decode(form(shared), None, payload)?;
            match spawned.nspace {
                Some(nspace) if spawned.status.is_success() => Ok(nspace.into_owned()),
                _ => Err(Error::answered(spawned.status, command)),
            }
        };
        Self {
            request,
            read: Box::new(read),
        }
    }
}

impl<'a> Ask<'a, Answers> {
    fn infos(request: Request<'a>) -> Self {
        let read = move |shared: &Shared, payload: &[u8]| {
            let infos = Infos::decode(form(shared), None, payload)?;
            Ok((infos.status, infos.infos.unwrap_or_default().into_owned()))
        };
        Self {
            request,
            read: Box::new(read),
        }
    }

    /// Asks for information about the system (`PMIx_Query_info`).
    pub fn query(queries: Vec<Query<'a>>) -> Self {
        Self::infos(Request::Query(request::Query { queries }))
    }

    /// Asks the host for a description of a fabric (`PMIx_Fabric_register`); its index is among the
    /// answers.
    pub fn fabric_register(infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::FabricRegister(request::FabricRegister { infos }))
    }

    /// Asks the host how a fabric is now, by the index that its registration was answered with
    /// (`PMIx_Fabric_update`).
    pub fn fabric_update(index: u64) -> Self {
        Self::infos(Request::FabricUpdate(request::FabricUpdate { index }))
    }

    /// Asks the host to control a session; all sessions if the number is `u32::MAX`
    /// (`PMIx_Session_control`).
    pub fn session_control(session: u32, infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::SessionControl(request::SessionControl {
            session,
            infos,
        }))
    }

    /// Asks the host to change an allocation (`PMIx_Allocation_request`).
    pub fn allocate(directive: AllocDirective, infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::Allocate(request::Allocate { directive, infos }))
    }

    /// Asks for control of processes (`PMIx_Job_control`).
    pub fn job_control(targets: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::JobControl(request::JobControl { targets, infos }))
    }

    /// Asks for monitoring of processes (`PMIx_Process_monitor`).
    pub fn monitor(monitor: Info<'a>, error: Status, infos: Vec<Info<'a>>) -> Self {
        Self::infos(Request::Monitor(request::Monitor {
            monitor,
            error,
            infos,
        }))
    }

    /// Asks the host whether a credential is valid (`PMIx_Validate_credential`).
    pub fn validate(credential: Vec<u8>, infos: Vec<Info<'a>>) -> Self {
        let credential = credential.into();
        Self::infos(Request::ValidateCredential(request::ValidateCredential {
            credential,
            infos,
        }))
    }
}

impl<'a> Ask<'a, Group> {
    /// Joins the construction of a group (`PMIx_Group_construct`).
    pub fn group_construct(group: Text<'a>, procs: Vec<Proc<'a>>, infos: Vec<Info<'a>>) -> Self {
        let name = group.clone().into_owned();
        let group = Some(group);
        let request = Request::GroupConstruct(request::GroupConstruct {
            group,
            procs,
            infos,
        });
        let command = request.command();
        let read = move |shared: &Shared, payload: &[u8]| {
            let made = reply::Group::decode(form(shared), None, payload)?;
            let group = Group::constructed(name, made, command)?;
            shared.groups.learn(&group);
            Ok(group)
        };
        Self {
            request,
            read: Box::new(read),
        }
    }
}

impl<'a> Ask<'a, (Vec<u8>, Vec<Info<'static>>)> {
    /// Asks the host for a credential of this process (`PMIx_Get_credential`).
    pub fn credential(infos: Vec<Info<'a>>) -> Self {
        let request = Request::GetCredential(request::GetCredential { infos });
        let command = request.command();
        let read = move |shared: &Shared, payload: &[u8]| {
            let made = Credential::decode(form(shared), None, payload)?;
            match made.credential {
                Some(bytes) if made.status.is_success() => Ok((
                    bytes.into_owned(),
                    made.infos.unwrap_or_default().into_owned(),
                )),
                _ => Err(Error::answered(made.status, command)),
            }
        };
        Self {
            request,
            read: Box::new(read),
        }
    }
}

fn form(shared: &Shared) -> &PeerForm {
    shared.channel.form()
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients: processes that the host registered.

use std::collections::HashSet;

use pmix_proto::{Hello, PeerForm, shared};
use pmix_types::{Info, IntoOwned, Proc, Status, keys};

use super::Admission;
use super::identity::Identity;
use crate::cx::Cx;
use crate::host::{ClientConnected, HostReply};
use crate::ids::ClientId;
use crate::peers::{Member, PeerId};
use crate::pending::Pending;
use crate::registry::{Client, ClientState};
use crate::timer::Timer;
use crate::{ClonePolicy, Error};

impl Admission {
    /// Admits a registered process with a matching identity.
    pub(super) fn admit_client(
        &mut self,
        cx: &mut Cx,
        peer: PeerId,
        hello: &Hello<'_>,
        form: PeerForm,
        identity: Identity,
        id: ClientId,
    ) -> Result<(), Error> {
        let second = cx.config.clone_policy;
        let Some(client) = cx.registry.client_mut(id) else {
            return Err(super::unregistered(hello));
        };
        let (uid, gid) = client.user;
        check_user(&client.proc, &identity, uid)?;
        identity.check("its registration", None, Some(gid))?;
        let is_first = client.state != ClientState::Connected;
        if !is_first && second == ClonePolicy::Refuse {
            let proc = &client.proc;
            let (rank, nspace) = (proc.rank, &proc.nspace);
            return Err(Error::new(
                Status::ERR_DUPLICATE_KEY,
                format!("rank {rank} of {nspace} is already connected"),
            ));
        }
        // Each connection has a share of the server, and the descriptors are those of all processes.
        let most = cx.config.programs_per_process;
        if !is_first && client.peers.len() >= most {
            let proc = &client.proc;
            return Err(Error::new(
                Status::ERR_OUT_OF_RESOURCE,
                format!(
                    "rank {} of {} has {most} connected programs, the limit",
                    proc.rank, proc.nspace
                ),
            ));
        }
        // The process has returned, so collectives continue to wait for its calls.
        let until = client.until.take();
        let lost = client.connect(peer);
        let member = member(client, id, hello, form);
        let (proc, object) = (client.proc.clone(), client.object);
        // The process may ask for its process id before the host has recorded it.
        let stated = hello.infos.iter().find(|info| info.key.is(keys::PROC_PID));
        if let Some(pid) = stated.and_then(pid_of)
            && let Some(job) = cx.registry.job_mut(&proc.nspace)
        {
            job.pids.entry(proc.rank).or_insert(pid);
        }
        if let Some(until) = until {
            cx.timers.cancel(until, Timer::Return(id));
        }
        // Data of a lost incarnation are kept until the next one begins, which must not inherit them.
        if lost {
            cx.forget_puts(&proc);
        }
        if reads_shared(hello) {
            cx.share_job(&proc.nspace);
        }
        self.admit(cx, peer, member);
        // The welcome does not wait for the host, which may reply late or never. Its refusal disconnects the client
        // later.
        let infos = hello.infos.clone().into_owned();
        let call = ClientConnected {
            proc,
            object,
            infos,
        };
        cx.call_host(call, Pending::ClientConnected(peer));
        Ok(())
    }

    /// Handles the host's reply about a client, which was admitted without waiting for it. A host without an
    /// implementation admits every client; a client that the host rejects is disconnected.
    pub(crate) fn handle_client_reply(cx: &mut Cx, peer: PeerId, reply: &HostReply) {
        let status = reply.status();
        if !status.is_success()
            && !matches!(reply, HostReply::NotSupported)
            // A host that drops its completion has not decided against the client.
            && *reply != HostReply::DROPPED
        {
            cx.refuse(peer, Error::new(status, "the host rejected the client"));
        }
    }
}

/// Returns the process id in an info.
fn pid_of(info: &Info<'_>) -> Option<i32> {
    i32::try_from(info.value.to_number::<i64>().ok()?).ok()
}

/// Checks that a process of the user for which the client was registered has connected.
fn check_user(proc: &Proc<'_>, identity: &Identity, expected: u32) -> Result<(), Error> {
    match identity.uid {
        Some(came) if came != expected => {
            let (rank, nspace) = (proc.rank, &proc.nspace);
            Err(Error::denied(format!(
                "rank {rank} of {nspace} is a process of user {expected}, but a process of user {came} connected as it"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns `true` if a client reads the memory shared by this server.
fn reads_shared(hello: &Hello<'_>) -> bool {
    let mut modules = hello.gds.as_bytes().split(|byte| *byte == b',');
    modules.any(|name| name == shared::MODULE.as_bytes())
}

fn member(client: &Client, id: ClientId, hello: &Hello<'_>, form: PeerForm) -> Member {
    Member {
        proc: client.proc.clone(),
        form,
        role: hello.role,
        user: client.user,
        client: Some(id),
        incarnation: client.incarnation,
        is_finalized: false,
        has_job_info: false,
        has_ignored_fields: false,
        knows: HashSet::new(),
        has_refreshed: false,
    }
}

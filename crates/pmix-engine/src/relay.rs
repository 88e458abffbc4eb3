// SPDX-License-Identifier: MIT OR Apache-2.0
//! Relays requests that the host serves: each upcall names the requestor, and its answer is the reply.

use std::sync::Arc;

use pmix_proto::{Request, reply, request};
use pmix_types::{
    FabricOperation, Info, IntoOwned, IofChannel, Key, Measure, Nspace, Pdata, Proc, Status, Text,
    Value, keys,
};

use crate::Error;
use crate::cx::Cx;
use crate::host::{
    Abort, Alloc, DeviceDistances, Fabric, GetCredential, HostReply, Log, Lookup, Publish,
    ResourceBlock, SessionControl, Spawn, Unpublish, ValidateCredential,
};
use crate::infos::with_user;
use crate::peers::Ticket;
use crate::pending::Pending;

/// The process that made a request, and its user and group.
type Requestor = (Proc<'static>, (u32, u32));

/// Returns the process that made a request. Ends the request if its peer has disconnected.
fn requestor(cx: &mut Cx, ticket: Ticket) -> Option<(Ticket, Requestor)> {
    match cx.member(&ticket) {
        Ok(member) => {
            let requestor = (member.proc.clone(), member.user);
            Some((ticket, requestor))
        }
        Err(error) => {
            cx.reply_error(ticket, &error);
            None
        }
    }
}

/// Passes a request to the host that no subsystem of the engine serves.
pub(crate) fn relay(cx: &mut Cx, ticket: Ticket, request: Request<'_>) {
    match request {
        Request::Abort(request) => abort(cx, ticket, &request),
        Request::Publish(request) => publish(cx, ticket, &request),
        Request::Lookup(request) => lookup(cx, ticket, &request),
        Request::Unpublish(request) => unpublish(cx, ticket, &request),
        Request::Spawn(request) => spawn(cx, ticket, &request),
        Request::Log(request) => log(cx, ticket, &request),
        Request::Allocate(request) => allocate(cx, ticket, &request),
        Request::GetCredential(request) => get_credential(cx, ticket, &request),
        Request::ValidateCredential(request) => validate_credential(cx, ticket, &request),
        Request::FabricRegister(request) => register_fabric(cx, ticket, &request),
        Request::FabricUpdate(request) => update_fabric(cx, ticket, &request),
        Request::SessionControl(request) => control_session(cx, ticket, &request),
        Request::ResourceBlock(request) => resource_block(cx, ticket, &request),
        Request::DeviceDistances(request) => device_distances(cx, ticket, &request),
        _ => cx.reply_status(ticket, Status::ERR_NOT_SUPPORTED),
    }
}

/// Replies to a request with the infos of the host.
pub(crate) fn reply_infos(cx: &mut Cx, ticket: Ticket, reply: HostReply) {
    let status = reply.status();
    let infos = match reply {
        HostReply::Infos(_, infos) => infos,
        _ => Vec::new(),
    };
    cx.reply_infos(ticket, status, infos);
}

fn spawn(cx: &mut Cx, ticket: Ticket, request: &request::Spawn<'_>) {
    let Some((ticket, (proc, user))) = requestor(cx, ticket) else {
        return;
    };
    // The engine forwards the output itself, but the name of the job is known only after the host has replied.
    let channels = forwarded(&request.infos);
    let call = Spawn {
        proc,
        infos: with_user(&request.infos, user),
        apps: request.apps.clone().into_owned(),
    };
    cx.call_host(call, Pending::Spawn(ticket, channels));
}

/// Replies to a spawn. Returns the job if it was started.
pub(crate) fn spawned(cx: &mut Cx, ticket: Ticket, reply: HostReply) -> Option<Nspace<'static>> {
    let peer = ticket.peer();
    let status = reply.status();
    let nspace = match reply {
        HostReply::Spawned(_, nspace) if status.is_success() => nspace,
        _ => {
            cx.reply_status(ticket, refusal(status));
            return None;
        }
    };
    let Some(form) = cx.form(peer) else {
        cx.reply_status(ticket, status);
        return None;
    };
    let reply = reply::Spawned {
        status,
        nspace: Some(nspace.clone()),
    };
    let packed = reply.encode(&form, Some(cx.framer()));
    cx.reply_packed(ticket, packed);
    Some(nspace)
}

fn log(cx: &mut Cx, ticket: Ticket, request: &request::Log<'_>) {
    let Some((ticket, (proc, user))) = requestor(cx, ticket) else {
        return;
    };
    let mut directives = with_user(&request.directives, user);
    directives.push(Info::new(keys::LOG_SOURCE, proc.clone()));
    if request.time > 0 {
        let time = Value::Time(request.time);
        directives.push(Info::new(keys::LOG_TIMESTAMP, time));
    }
    let call = Log {
        proc,
        data: request.data.clone().into_owned(),
        directives,
    };
    cx.call_host(call, Pending::Status(ticket));
}

fn allocate(cx: &mut Cx, ticket: Ticket, request: &request::Allocate<'_>) {
    if let Some((ticket, (proc, user))) = requestor(cx, ticket) {
        let call = Alloc {
            proc,
            directive: request.directive,
            infos: with_user(&request.infos, user),
        };
        cx.call_host(call, Pending::Infos(ticket));
    }
}

fn get_credential(cx: &mut Cx, ticket: Ticket, request: &request::GetCredential<'_>) {
    let Some((ticket, (proc, user))) = requestor(cx, ticket) else {
        return;
    };
    let directives = with_user(&request.infos, user);
    let call = GetCredential { proc, directives };
    cx.call_host(call, Pending::Credential(ticket));
}

/// Replies to a request with the credential of the host.
pub(crate) fn reply_credential(cx: &mut Cx, ticket: Ticket, reply: HostReply) {
    let status = reply.status();
    let Some(form) = cx.form(ticket.peer()) else {
        return cx.reply_status(ticket, status);
    };
    let HostReply::Credential(Ok(credential), infos) = reply else {
        return cx.reply_status(ticket, refusal(status));
    };
    let reply = reply::Credential {
        status,
        credential: Some(credential.into()),
        infos: Some(infos),
    };
    let packed = reply.encode(&form, Some(cx.framer()));
    cx.reply_packed(ticket, packed);
}

fn validate_credential(cx: &mut Cx, ticket: Ticket, request: &request::ValidateCredential<'_>) {
    if let Some((ticket, (proc, user))) = requestor(cx, ticket) {
        let call = ValidateCredential {
            proc,
            credential: request.credential.to_vec(),
            directives: with_user(&request.infos, user),
        };
        cx.call_host(call, Pending::Infos(ticket));
    }
}

fn register_fabric(cx: &mut Cx, ticket: Ticket, request: &request::FabricRegister<'_>) {
    let operation = FabricOperation::REQUEST_INFO;
    fabric(cx, ticket, operation, &request.infos);
}

fn update_fabric(cx: &mut Cx, ticket: Ticket, request: &request::FabricUpdate) {
    let index = pmix_types::Value::Size(request.index);
    let infos = [Info::new(keys::FABRIC_INDEX, index)];
    fabric(cx, ticket, FabricOperation::UPDATE_INFO, &infos);
}

fn fabric(cx: &mut Cx, ticket: Ticket, operation: FabricOperation, infos: &[Info<'_>]) {
    if let Some((ticket, (proc, user))) = requestor(cx, ticket) {
        let call = Fabric {
            proc,
            operation,
            directives: with_user(infos, user),
        };
        cx.call_host(call, Pending::Infos(ticket));
    }
}

fn control_session(cx: &mut Cx, ticket: Ticket, request: &request::SessionControl<'_>) {
    if let Some((ticket, (proc, user))) = requestor(cx, ticket) {
        let call = SessionControl {
            proc,
            session: request.session,
            directives: with_user(&request.infos, user),
        };
        cx.call_host(call, Pending::Infos(ticket));
    }
}

fn device_distances(cx: &mut Cx, ticket: Ticket, request: &request::DeviceDistances<'_>) {
    if let Some((ticket, (proc, user))) = requestor(cx, ticket) {
        let named = request.cpuset.bitmap.clone().map(IntoOwned::into_owned);
        // The server cannot see the binding of another process, so the host's registration counts.
        let cpus = named.or_else(|| bound(cx, &proc));
        let call = DeviceDistances {
            proc,
            cpus,
            infos: with_user(&request.infos, user),
        };
        cx.call_host(call, Pending::Distances(ticket));
    }
}

/// Returns the CPU binding that the host registered for a process.
fn bound(cx: &Cx, proc: &Proc<'_>) -> Option<Text<'static>> {
    let request = gds_hash::Request::new(proc.rank, keys::CPUSET);
    match cx.store.get(&proc.nspace, &request) {
        Ok(Value::String(list)) => list,
        _ => None,
    }
}

/// Replies to a request with the distances of devices.
pub(crate) fn reply_distances(cx: &mut Cx, ticket: Ticket, reply: HostReply) {
    let status = reply.status();
    let Some(form) = cx.form(ticket.peer()) else {
        return cx.reply_status(ticket, status);
    };
    let HostReply::Distances(Ok(distances)) = reply else {
        return cx.reply_status(ticket, refusal(status));
    };
    let reply = reply::Distances {
        status,
        distances: Some(distances),
    };
    let packed = reply.encode(&form, Some(cx.framer()));
    cx.reply_packed(ticket, packed);
}

fn resource_block(cx: &mut Cx, ticket: Ticket, request: &request::ResourceBlock<'_>) {
    if let Some((ticket, (proc, user))) = requestor(cx, ticket) {
        let call = ResourceBlock {
            proc,
            directive: request.directive,
            block: request.block.clone().unwrap_or_default().into_owned(),
            units: request.units.clone(),
            directives: with_user(&request.infos, user),
        };
        cx.call_host(call, Pending::Status(ticket));
    }
}

/// Publishes data of a process. The user in its infos is replaced by the verified one.
fn publish(cx: &mut Cx, ticket: Ticket, request: &request::Publish<'_>) {
    match cx.member(&ticket) {
        Err(error) => cx.reply_error(ticket, &error),
        Ok(member) => {
            let call = Publish {
                proc: member.proc.clone(),
                infos: with_user(&request.infos, member.user),
            };
            cx.call_host(call, Pending::Status(ticket));
        }
    }
}

/// Looks up published data.
fn lookup(cx: &mut Cx, ticket: Ticket, request: &request::Lookup<'_>) {
    let member = match cx.member(&ticket) {
        Ok(member) => member,
        Err(error) => return cx.reply_error(ticket, &error),
    };
    let call = Lookup {
        proc: member.proc.clone(),
        keys: texts(&request.keys),
        infos: with_user(&request.infos, member.user),
    };
    cx.call_host(call, Pending::Lookup(ticket));
}

/// Replies to a lookup. A partial success includes the data that were found.
///
/// DEVIATION: OpenPMIx sends only the status with a partial success, and its clients do not read further;
/// `published_data_is_found_until_unpublished`.
pub(crate) fn looked_up(cx: &mut Cx, ticket: Ticket, reply: HostReply) {
    let status = reply.status();
    let Some(form) = cx.form(ticket.peer()) else {
        return cx.reply_status(ticket, status);
    };
    let found = match reply {
        HostReply::Found(_, data) => data,
        // A host that returns success without data has found nothing.
        _ if status.is_success() => {
            return cx.reply_status(ticket, Status::ERR_NOT_FOUND);
        }
        _ => Vec::new(),
    };
    if !status.is_success() && status != Status::ERR_PARTIAL_SUCCESS {
        return cx.reply_status(ticket, status);
    }
    let packed = check_found(&found).and_then(|()| {
        Ok(reply::Found::encode_shared(
            status,
            &found,
            &form,
            Some(cx.framer()),
        )?)
    });
    cx.reply_packed(ticket, packed);
}

/// The greatest size of the data that a lookup finds, in bytes. A lookup of 100 bytes can name a value of 60 MiB several
/// times. Clients of this project disconnect from a server that sends more.
const MOST_FOUND: usize = 512 << 20;

/// Checks that the data of a lookup fit into a reply.
///
/// # Errors
///
/// Returns `PMIX_ERR_OUT_OF_RESOURCE` if they do not.
fn check_found(found: &[Arc<Pdata<'_>>]) -> Result<(), Error> {
    let bytes = found.iter().map(|data| data.measure(Measure::All));
    let bytes = bytes.fold(0, usize::saturating_add);
    match bytes <= MOST_FOUND {
        true => Ok(()),
        false => Err(Error::new(
            Status::ERR_OUT_OF_RESOURCE,
            format!(
                "the lookup found {bytes} bytes, and a reply has at most {MOST_FOUND}: look up fewer keys at a time"
            ),
        )),
    }
}

/// Removes published data of a process.
fn unpublish(cx: &mut Cx, ticket: Ticket, request: &request::Unpublish<'_>) {
    match cx.member(&ticket) {
        Err(error) => cx.reply_error(ticket, &error),
        Ok(member) => {
            let call = Unpublish {
                proc: member.proc.clone(),
                keys: texts(&request.keys),
                infos: with_user(&request.infos, member.user),
            };
            cx.call_host(call, Pending::Status(ticket));
        }
    }
}

/// Passes an abort request to the host.
fn abort(cx: &mut Cx, ticket: Ticket, request: &request::Abort<'_>) {
    let Ok(member) = cx.member(&ticket) else {
        return cx.reply_status(ticket, Status::ERR_LOST_CONNECTION);
    };
    let (proc, client) = (member.proc.clone(), member.client);
    let call = Abort {
        proc,
        object: cx.host_object(client),
        status: request.status,
        message: request.message.clone().into_owned(),
        targets: Proc::owned_list(&request.procs),
    };
    cx.call_host(call, Pending::Status(ticket));
}

/// Returns the failure status for a reply without data, which a host may send with a success status.
const fn refusal(status: Status) -> Status {
    match status.is_success() {
        true => Status::ERR_NOT_FOUND,
        false => status,
    }
}

/// Returns the output channels that a spawn asks to forward to its requestor.
fn forwarded(infos: &[Info<'_>]) -> IofChannel {
    let mut channels = IofChannel::NO_CHANNELS;
    for info in infos {
        let channel = match info.key.as_text().as_str() {
            Some(keys::FWD_STDOUT) => IofChannel::STDOUT_CHANNEL,
            Some(keys::FWD_STDERR) => IofChannel::STDERR_CHANNEL,
            Some(keys::FWD_STDDIAG) => IofChannel::STDDIAG_CHANNEL,
            _ => continue,
        };
        if info.truth().is_true() {
            channels |= channel;
        }
    }
    channels
}

fn texts(keys: &[Key<'_>]) -> Vec<Text<'static>> {
    let text = |key: &Key<'_>| key.as_text().clone().into_owned();
    keys.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_data_are_bounded_before_they_are_packed() {
        let value = Value::ByteObject(vec![0; 60 << 20].into());
        let shared = Arc::new(Pdata {
            value,
            ..Pdata::default()
        });
        assert!(check_found(&vec![Arc::clone(&shared); 8]).is_ok());
        let refused = check_found(&vec![shared; 100]).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_OUT_OF_RESOURCE);
    }
}

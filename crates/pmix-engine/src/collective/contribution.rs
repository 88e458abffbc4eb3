// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contribution of each server to a fence.
//!
//! The host returns one contribution of each server, in the form of [`crate::Config::fence_form`] with one additional
//! flag:
//!
//! | part | call | content |
//! | --- | --- | --- |
//! | contribution | `PMIX_BYTE_OBJECT` | the two following; in the numbered form, the contents of the second |
//! | compressed | `PMIX_BOOL` | true if the next object is compressed |
//! | data | `PMIX_BYTE_OBJECT` | a flag and its data |
//! | flag | `PMIX_BYTE` | as in the datastore; 128: the fence failed on this server |
//! | status | `PMIX_STATUS` | with flag 128: the failure |
//!
//! Frozen: append only. If several servers failed, the lowest status applies, so that all servers get the same result
//! in any order of the contributions. A server of OpenPMIx refuses the flag in a fence that collects data, and ignores
//! it in others.

use std::collections::BTreeMap;

use bfrops::{Decoder, Encoder, wire_type};
use gds_hash::{Modex, ModexForm, Participant};
use pmix_proto::PeerForm;
use pmix_types::{Bytes, Key, Proc, Scope, Status, memory};

use super::participants::{Participants, Ranks};
use super::tracker::Tracker;
use crate::Error;
use crate::cx::Cx;
use crate::exchange::notify_removed;

/// The flag of a server on which the fence failed.
const FAILED: u8 = 128;
/// The flag of a fence without data.
const NOTHING: u8 = 0;

/// Returns the contribution of this server.
pub(super) fn contribution(cx: &Cx, tracker: &Tracker) -> Result<Vec<u8>, Error> {
    let (form, fence_form) = (cx.config.modex_form(), cx.config.fence_form);
    let wire = cx.codec(&form);
    if !tracker.collects {
        return Ok(Modex::without_data(&wire, fence_form)?);
    }
    let clients = tracker.slots.keys();
    let clients = clients.filter_map(|id| cx.registry.client(*id));
    let procs: Vec<Proc<'_>> = clients.map(|client| client.proc.clone()).collect();
    // The clients of a job are consecutive.
    let mut puts = Vec::new();
    for same in procs.chunk_by(|a, b| a.nspace == b.nspace) {
        let job = same.first().and_then(|proc| cx.store.job(&proc.nspace));
        let job =
            job.ok_or_else(|| Error::not_found("the job of a participant was deregistered"))?;
        puts.push((same, job.modex_store()));
    }
    let procs = puts.iter();
    let procs = procs.flat_map(|(same, puts)| same.iter().map(|proc| (proc.clone(), &**puts)));
    let procs: Vec<_> = procs.collect();
    let members = modex_members(cx, &tracker.key.1);
    Ok(Modex::contribution(&wire, fence_form, &members, &procs)?)
}

/// Stores the contributions of the servers of other nodes.
pub(super) fn absorb_contributions(
    cx: &mut Cx,
    tracker: &Tracker,
    bytes: &[u8],
) -> Result<(), Error> {
    let (form, fence_form) = (cx.config.modex_form(), cx.config.fence_form);
    let data = with_data(&form, fence_form, bytes)?;
    if data.is_empty() {
        return Ok(());
    }
    let wire = cx.codec(&form);
    let members = modex_members(cx, &tracker.key.1);
    let mut modex = Modex::parse(&wire, fence_form, &members, &data)?;
    // The data of local processes are stored already, and may be newer.
    modex.retain(|nspace, rank| {
        let mut stale = tracker.stale.iter();
        let is_stale = stale.any(|proc| proc.nspace == *nspace && proc.rank == rank);
        !is_stale && cx.registry.find(nspace, rank).is_none()
    });
    let mut removed: BTreeMap<Proc<'static>, Vec<Key<'static>>> = BTreeMap::new();
    cx.store.absorb(&modex, |nspace, rank, key| {
        let of_proc = removed.entry(Proc::new(nspace.clone(), rank));
        of_proc.or_default().push(key.clone());
    });
    for (proc, keys) in removed {
        notify_removed(cx, &proc, Scope::DEL_REMOTE, &keys, None);
    }
    for (nspace, rank) in modex.procs() {
        // The shared entry still has the data of an earlier fence.
        cx.shared.puts_changed(&Proc::new(nspace.clone(), rank));
    }
    Ok(())
}

/// Returns the participants in the order and the form of the datastore.
fn modex_members<'m>(cx: &Cx, members: &'m Participants) -> Vec<Participant<'m>> {
    let jobs = members.jobs();
    let size = |nspace, ranks: &Ranks| {
        let last = ranks.listed().and_then(<[_]>::last);
        let listed = last.map(|last| last.as_raw().saturating_add(1));
        // A bound that is too low would reject valid data, so a job of unknown size has none.
        cx.job_size(nspace).or(listed).unwrap_or(u32::MAX)
    };
    jobs.map(|(nspace, ranks)| Participant {
        nspace: nspace.clone(),
        num_procs: size(nspace, ranks),
    })
    .collect()
}

/// Returns the contribution of a server on which a fence failed.
pub(super) fn failure(
    form: &PeerForm,
    fence_form: ModexForm,
    status: Status,
) -> Result<Vec<u8>, Error> {
    let mut data = Vec::new();
    let mut encoder = Encoder::new(form.layout, &mut data);
    encoder.one::<wire_type::Byte>(&FAILED)?;
    encoder.one::<wire_type::Status>(&status)?;
    let inner = match fence_form {
        ModexForm::Numbered => data,
        ModexForm::Named => {
            let mut inner = Vec::new();
            let mut encoder = Encoder::new(form.layout, &mut inner);
            encoder.one::<wire_type::Bool>(&false)?;
            encoder.one::<wire_type::ByteObject>(&Bytes::Owned(data))?;
            inner
        }
    };
    let mut out = Vec::new();
    let mut encoder = Encoder::new(form.layout, &mut out);
    encoder.one::<wire_type::ByteObject>(&Bytes::Owned(inner))?;
    Ok(out)
}

/// Returns the concatenated contributions with data.
///
/// # Errors
///
/// Returns the status of a server on which the fence failed, or the error of the decoder for damaged bytes.
fn with_data(form: &PeerForm, fence_form: ModexForm, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut data = Vec::new();
    let mut failed: Option<Status> = None;
    let mut decoder = Decoder::new(form.layout, bytes).with_limits(crate::exchange::LIMITS);
    while !decoder.is_empty() {
        let before = decoder.rest();
        let object = decoder.one::<wire_type::ByteObject>()?;
        match read_contribution(form, fence_form, &object)? {
            Contribution::Nothing => {}
            Contribution::Data => {
                let len = before.len() - decoder.rest().len();
                memory::append(&mut data, before.get(..len).unwrap_or_default())?;
            }
            // The host returns contributions in any order, but all servers must report the same status.
            Contribution::Failed(status) => failed = Some(failed.map_or(status, |f| f.min(status))),
        }
    }
    match failed {
        Some(status) => Err(Error::new(status, "the fence failed on another server")),
        None => Ok(data),
    }
}

/// The contribution of one server.
enum Contribution {
    Nothing,
    Data,
    Failed(Status),
}

/// Decodes the contribution of one server.
fn read_contribution(
    form: &PeerForm,
    fence_form: ModexForm,
    object: &[u8],
) -> Result<Contribution, Error> {
    if object.is_empty() {
        return Ok(Contribution::Nothing);
    }
    let mut decoder = Decoder::new(form.layout, object);
    if fence_form == ModexForm::Numbered {
        return flagged(&mut decoder);
    }
    if decoder.one::<wire_type::Bool>()? {
        return Ok(Contribution::Data);
    }
    let data = decoder.one::<wire_type::ByteObject>()?;
    flagged(&mut Decoder::new(form.layout, &data))
}

/// Decodes a flag and its data.
fn flagged(decoder: &mut Decoder<'_>) -> Result<Contribution, Error> {
    Ok(match decoder.one::<wire_type::Byte>()? {
        NOTHING => Contribution::Nothing,
        FAILED => match decoder.one::<wire_type::Status>()? {
            // Without a failure status, this node would succeed and the others fail.
            status if status.is_success() => Contribution::Failed(Status::ERROR),
            status => Contribution::Failed(status),
        },
        _ => Contribution::Data,
    })
}

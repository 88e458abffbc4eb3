// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies: the messages with the tag of a request.
//!
//! Every reply except [`JobInfo`] begins with a status. The fields after it are present on success
//! and optional otherwise, so they are `Option`s. A server that does not support a request sends
//! [`status`] alone, with `PMIX_ERR_NOT_SUPPORTED`.
//!
//! | request | reply |
//! | --- | --- |
//! | REQ, GDS_FALLBACK | [`JobInfo`] |
//! | GETNB, CONNECT | [`Objects`] |
//! | REFRESH_CACHE, REQ_SYSINFO | [`Kvals`] |
//! | LOOKUP | [`Found`] |
//! | SPAWN | [`Spawned`] |
//! | QUERY, ALLOC, JOB_CONTROL, MONITOR, VALIDATE_CRED, FABRIC_REGISTER, FABRIC_UPDATE, SESSION_CTRL | [`Infos`] |
//! | GET_CREDENTIAL | [`Credential`] |
//! | IOF_PULL | [`Pulled`] |
//! | GROUP_CONSTRUCT | [`Group`] |
//! | DEVICE_DISTANCES | [`Distances`] |
//! | RESOLVE_PEERS | [`Peers`] |
//! | RESOLVE_NODE | [`Nodes`] |
//! | all others | [`Done`], the status alone |
//! | DEREGEVENTS | none |
//!
//! Source: OpenPMIx; `docs/protocol.md` lists every reply.

mod answer;
mod any;
mod group;
mod objects;

use pmix_types::Status;

use crate::codec::Writer;
use crate::{Error, PeerForm, wire_type};

pub(crate) use objects::jobs_outline;

pub use answer::{Credential, Distances, Done, Found, Infos, Nodes, Peers, Pulled, Spawned};
pub use any::Reply;
pub use group::Group;
pub use objects::{JobInfo, Kvals, Object, ObjectIter, Objects, pack_job_object, pack_kvals};

/// Packs a reply with a status alone. It answers most requests on success, and every request on
/// failure.
///
/// # Errors
///
/// None in practice: every module packs a status.
pub fn status(form: &PeerForm, status: Status) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(form, None);
    writer.one::<wire_type::Status>(&status)?;
    Ok(writer.finish())
}

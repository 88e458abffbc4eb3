// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notifications of removed keys.
//!
//! A client keeps the values that it has read. When a process removes a key that it had put, the server informs the
//! clients of its node that may have read it, on [`Tag::DELETED`], before the reply to the commit and before the release
//! of a fence. These are the clients of the same job, and those that have received data of the job. A client that has
//! left such a fence requests the key again, and learns that it does not exist.
//!
//! Source: OpenPMIx 7, whose clients since 7.0 receive these messages.

use std::sync::Arc;

use pmix_proto::{Deleted, Header, PeerForm, Tag};
use pmix_types::{Key, Proc, Scope};

use crate::Error;
use crate::cx::Cx;
use crate::peers::{Member, PeerId};

/// The first release whose clients receive the notifications.
const SINCE: u32 = 7;

/// Informs the clients of this node that may have read them that a process has removed keys. The process itself, at
/// `except`, knows.
pub(crate) fn notify_removed(
    cx: &mut Cx,
    proc: &Proc<'static>,
    scope: Scope,
    keys: &[Key<'static>],
    except: Option<PeerId>,
) {
    if keys.is_empty() {
        return;
    }
    let members = cx.peers.members();
    let may_have_read = |member: &Member| {
        let is_of_job = member.proc.nspace == proc.nspace;
        is_of_job || member.knows.contains(&proc.nspace) || member.has_refreshed
    };
    let clients = members.filter(|(id, member)| {
        let is_client = member.client.is_some() && member.form.major >= SINCE;
        is_client && Some(*id) != except && may_have_read(member)
    });
    let mut clients: Vec<_> = clients.map(|(id, member)| (id, member.form)).collect();
    // The order of the table is random, and a simulation must repeat.
    clients.sort_by_key(|(id, _)| *id);
    let mut packed: Vec<(PeerForm, Arc<Vec<u8>>)> = Vec::new();
    for (peer, form) in clients {
        let known = { packed.iter() }.find(|(known, _)| known.layout == form.layout);
        let frames = match known {
            Some((_, frames)) => Arc::clone(frames),
            None => match pack(cx, &form, proc, scope, keys) {
                Ok(frames) => {
                    let frames = Arc::new(frames);
                    packed.push((form, Arc::clone(&frames)));
                    frames
                }
                Err(error) => {
                    tracing::error!(%error, "cannot pack the notification of removed keys");
                    continue;
                }
            },
        };
        cx.send_frames(peer, frames);
    }
}

/// Returns a frame for each key. All clients with this layout share them, so many keys cost each
/// client one entry of its queue.
fn pack(
    cx: &Cx,
    form: &PeerForm,
    proc: &Proc<'static>,
    scope: Scope,
    keys: &[Key<'static>],
) -> Result<Vec<u8>, Error> {
    let mut frames = Vec::new();
    for key in keys {
        let deleted = Deleted {
            proc: proc.clone(),
            scope,
            key: key.clone(),
        };
        let payload = deleted.encode(form, Some(cx.framer()))?;
        let len = u32::try_from(payload.len()).map_err(|_| Error::bad("a key of 4 GiB"))?;
        let header = Header::new(0, Tag::DELETED, len).encode();
        pmix_types::memory::append(&mut frames, &header)?;
        pmix_types::memory::append(&mut frames, &payload)?;
    }
    Ok(frames)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The context id of a group that is formed by invitation (`PMIX_GROUP_ASSIGN_CONTEXT_ID`). Hosts assign one only in a
//! construct. So the leader constructs a temporary group of the same name with itself as the only member, and destructs
//! it before it announces the group:
//!
//! ```text
//! all have accepted ── construct of the leader alone ── its context id ── destruct ── CONSTRUCT_COMPLETE, with the id
//! ```

use pmix_types::Status;

use super::{Kind, OpId, Operations};
use crate::Error;

impl Operations {
    /// Sets the context id of an invitation; `None` if the host assigns none.
    pub(crate) fn assigned(&mut self, op: OpId, assigned: Result<Option<u64>, Error>) {
        let Some(open) = self.open.get_mut(&op) else {
            return;
        };
        let (name, Kind::Invite(invite)) = (&open.name, &mut open.kind) else {
            return;
        };
        match assigned {
            Ok(None) if invite.needs_context_id() => {
                let message =
                    format!("the host did not assign a context ID, which {name} requires");
                self.abort(op, Error::new(Status::ERR_NOT_SUPPORTED, message));
            }
            Ok(id) => {
                invite.assign(id);
                self.complete_if_answered(op);
            }
            Err(error) => self.abort(op, error),
        }
    }
}

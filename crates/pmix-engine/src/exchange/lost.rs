// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of processes of other nodes that are lost: the next incarnation of such a process has others.

use pmix_types::{Proc, Status};

use crate::Engine;

impl Engine {
    /// The host says what became of processes of other nodes. What was brought of those that are
    /// lost, or is on its way, is asked for again when it is wanted: the node of a process knows
    /// whether there is another incarnation of it.
    pub(crate) fn forget_lost(&mut self, status: Status, procs: &[Proc<'_>]) {
        if !is_loss(status) {
            return;
        }
        for proc in procs {
            if proc.rank.is_valid() && !self.cx.registry.was_here(proc) {
                self.cx.forget_puts(proc);
                self.outbound_dmodex.mark_stale(proc);
                self.collectives.mark_stale(proc);
            }
        }
    }
}

/// Whether an event says that a process ended without notice.
fn is_loss(status: Status) -> bool {
    matches!(
        status,
        Status::ERR_LOST_CONNECTION
            | Status::ERR_PROC_ABORTED
            | Status::ERR_PROC_ABORTED_BY_SIG
            | Status::ERR_PROC_KILLED_BY_CMD
            | Status::ERR_PROC_TERM_WO_SYNC
            | Status::ERR_EXIT_NONZERO_TERM
    )
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debugger daemons: a job of their own, spawned after the job that they debug or together with it.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", "Co-Location of Debugger Daemons" and "Co-Spawn of Debugger
//! Daemons".

use pmix_types::{Proc, Status};

use super::request::{Refusal, Request};
use super::session::Session;

impl Session<'_> {
    /// Sets the number of processes if the job consists of debugger daemons, and returns their target. All processes
    /// run on this node, so each daemon is co-located with its target.
    pub(super) fn place_daemons(
        &self,
        request: &mut Request,
    ) -> Result<Option<Proc<'static>>, Refusal> {
        if !request.debug.is_of_daemons() {
            return Ok(None);
        }
        let target = request.debug.target().map_err(Refusal::bad)?;
        let meant = self.jobs.named(&target.nspace).map_or(0, |job| {
            let ranks = job.table.iter().map(|process| process.rank);
            ranks.filter(|rank| target.rank.matches(*rank)).count()
        });
        let Some(meant @ 1..) = u32::try_from(meant).ok() else {
            let Proc { nspace, rank } = target;
            let why = format!("the debugger target rank {rank} of {nspace} does not exist");
            return Err(Refusal::new(Status::ERR_NOT_FOUND, why));
        };
        let target = target.clone();
        let num = request.debug.num_daemons(meant).map_err(Refusal::bad)?;
        for app in &mut request.apps {
            match (num, app.num_procs) {
                (Some(num), _) => app.num_procs = num,
                (None, 0) => app.num_procs = meant,
                (None, _) => {}
            }
        }
        Ok(Some(target))
    }
}

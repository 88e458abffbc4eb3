// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processors of a child: those that the thread has that starts it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Error;
use pmix_topology::Cpuset;

/// The processors that this thread may run on; none if the system does not tell.
pub(crate) fn allowed() -> Option<Cpuset> {
    let set = sched_getaffinity(None).ok()?;
    let most = u32::try_from(CpuSet::MAX_CPU).ok()?;
    let cpus: Cpuset = (0..most).filter(|&cpu| set.is_set(cpu as usize)).collect();
    (!cpus.is_empty()).then_some(cpus)
}

/// This thread, confined in turns to what each child is to have; set free again when dropped.
///
/// A child inherits the processors of the thread that starts it, so it never runs anywhere else,
/// not even before its first instruction.
pub(super) struct CpuAffinity {
    before: CpuSet,
}

impl CpuAffinity {
    pub(super) fn begin() -> Result<Self, Error> {
        let before = sched_getaffinity(None);
        let before =
            before.map_err(|e| Error::system("cannot determine the allowed processors", e))?;
        Ok(Self { before })
    }

    /// The next children run on these processors.
    pub(super) fn confine(&self, cpus: &Cpuset) -> Result<(), Error> {
        let mut set = CpuSet::new();
        for cpu in cpus.iter() {
            let cpu = cpu as usize;
            if cpu >= CpuSet::MAX_CPU {
                let most = CpuSet::MAX_CPU;
                let message =
                    format!("processor {cpu} is out of range: only {most} processors can be bound");
                return Err(Error::request(message));
            }
            set.set(cpu);
        }
        sched_setaffinity(None, &set)
            .map_err(|e| Error::system(format!("cannot bind to the processors {cpus}"), e))
    }
}

impl Drop for CpuAffinity {
    fn drop(&mut self) {
        if let Err(e) = sched_setaffinity(None, &self.before) {
            tracing::warn!("the launcher stays bound to its processors: {e}");
        }
    }
}

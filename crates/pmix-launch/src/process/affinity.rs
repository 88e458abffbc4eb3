// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processors of children, which inherit them from the thread that starts them.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Error;
use pmix_topology::Cpuset;

/// Returns the processors that this thread may run on, or `None` if the system does not report them.
pub(crate) fn allowed() -> Option<Cpuset> {
    let set = sched_getaffinity(None).ok()?;
    let most = u32::try_from(CpuSet::MAX_CPU).ok()?;
    let cpus: Cpuset = (0..most).filter(|&cpu| set.is_set(cpu as usize)).collect();
    (!cpus.is_empty()).then_some(cpus)
}

/// The binding of this thread while it starts children; dropping it restores the binding from before.
///
/// A child inherits the processors of the thread that starts it. It is therefore bound before its first instruction.
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

    /// Binds the children that are started next to these processors.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What clients are told of their job, and the data that processes put for each other.
//!
//! | request | answer |
//! | --- | --- |
//! | REQ | the job information, built once for all clients of a release; of large jobs only what they do not ask for later |
//! | GETNB of a reserved key | what the job information says, at once: it never comes later |
//! | GETNB of what a local process put | held until the process commits |
//! | GETNB of what a remote process put | what a fence brought, else one direct modex for all who wait |
//! | GETNB about a job that is not registered | held until it is, and the host is asked meanwhile |

mod answer;
mod by_proc;
mod commit;
mod get;
mod get_request;
mod inbound;
mod job_info;
mod job_info_cache;
mod level;
mod outbound;
mod pending;
mod resolve;

use bfrops::Limits;

pub(crate) use answer::enclosed;
use inbound::InboundDmodex;
use job_info_cache::JobInfoCache;
use outbound::OutboundDmodex;
use pending::PendingGets;

/// Serves job information and the data that processes exchange: REQ, COMMIT, GETNB, direct modex.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Gets that wait for data.
    gets: PendingGets,
    /// Direct modex calls that the host has not answered.
    outbound: OutboundDmodex,
    /// Direct modex requests of the host that wait for local processes.
    inbound: InboundDmodex,
    /// Job information of whole jobs, packed as replies to gets.
    job_infos: JobInfoCache,
}

impl Exchange {
    /// How many gets wait.
    pub(crate) fn num_gets(&self) -> usize {
        self.gets.len()
    }

    /// How many direct modex requests of the host wait.
    pub(crate) fn num_inbound(&self) -> usize {
        self.inbound.len()
    }

    /// How many direct modex calls the host has not answered.
    pub(crate) fn num_outbound(&self) -> usize {
        self.outbound.len()
    }
}

/// What bytes of another server may cost: in proportion to them, as the datastore has it.
pub(crate) const LIMITS: Limits = Limits {
    depth: 64,
    memory_factor: 64,
    memory_base: 63 * 1024,
};

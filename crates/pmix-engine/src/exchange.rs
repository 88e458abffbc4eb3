// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job info for clients, and the data that processes put for each other.
//!
//! | request | answer |
//! | --- | --- |
//! | REQ | the job information, built once for all clients of a release; of large jobs only what they do not ask for later |
//! | GETNB of a reserved key | what the job information says, at once: it never comes later |
//! | GETNB of what a local process put | held until the process commits |
//! | GETNB of what a remote process put | what a fence brought, else one direct modex for all who wait |
//! | GETNB that asks for a prefetch | the same, and what other processes put behind it |
//! | GETNB of a client that cannot ask for one | the same, if nobody has changed what it put |
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
mod portions;
mod prefetch;
mod resolve;
mod state;
mod unasked;

use bfrops::Limits;

pub(crate) use state::Exchange;

/// What bytes of another server may cost: in proportion to them, as the datastore has it.
pub(crate) const LIMITS: Limits = Limits {
    depth: 64,
    memory_factor: 64,
    memory_base: 63 * 1024,
};

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job info for clients, and the data that processes put for each other.
//!
//! | request | reply |
//! | --- | --- |
//! | REQ | the job info, built once for all clients of a release; for large jobs without the values that clients request later |
//! | GETNB of a reserved key | the value in the job info, at once: it is never registered later |
//! | GETNB of data of a local process | after the commit of the process |
//! | GETNB of data of a remote process | data of a fence, else of one direct modex for all waiting gets |
//! | GETNB with a prefetch | the requested data, followed by data of other processes |
//! | GETNB of a client without prefetch | the same, if no process has replaced its data |
//! | GETNB about an unregistered job | after its registration, which the host is asked for |

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
mod removed;
mod resolve;
mod state;
mod unasked;
mod unfinished;
mod waits;

use bfrops::Limits;

pub(crate) use removed::notify_removed;
pub(crate) use state::Exchange;

/// The limits for decoding bytes of another server: the memory is proportional to the bytes, as in the datastore.
pub(crate) const LIMITS: Limits = Limits {
    depth: 64,
    memory_factor: 64,
    memory_base: 63 * 1024,
};

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of other processes as a pull delivers it (`PMIx_IOF_pull`): whole lines with a tag, or bytes that are
//! buffered for fewer calls.
//!
//! A program reads the [`Directives`] before it sends the request ([`Client::iof_pull`](crate::Client::iof_pull)), and
//! passes the output that it receives ([`ClientEvent::Output`](crate::ClientEvent::Output)) to the [`Streams`] of the
//! pull.
//!
//! Source: PMIx Standard, chapter "Tools and Debuggers", `PMIx_IOF_pull`; OpenPMIx, the keys `pmix.iof...`.

mod directives;
mod lines;
mod streams;

pub use directives::{Abilities, Directives};
pub use streams::{Output, Streams};

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A publish and lookup service, for hosts that have none of their own.
//!
//! Processes publish data under keys, and others who do not know them look the keys up. A
//! host hands the upcalls `Publish`, `Lookup` and `Unpublish` to a [`PubSub`] and tells it when
//! processes, jobs and sessions end. There is no clock inside: time is an argument, and a lookup
//! that waits ends when something fitting is published, when its time is over
//! ([`PubSub::handle_timeout`]) or when its process ends.
//!
//! Source: PMIx Standard, chapter "Publish/Lookup operations". Where it leaves a choice: data
//! without permissions may be read by the user who published them; of several data under one key
//! the oldest is found.

mod caller;
mod directives;
mod lookup;
mod pending_lookup;
mod pubsub;
#[cfg(test)]
mod tests;

pub use caller::Caller;
pub use pending_lookup::LookupResult;
pub use pubsub::{PubSub, PubSubLimits};

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the things that an engine holds. A name is never used twice.
//!
//! Source: none outside.

/// Names a local process that the host registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClientId(pub(crate) u64);

/// Names a fence, connect or disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TrackerId(pub(crate) u64);

/// Names a call of a collective that came before its participants were known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EarlyId(pub(crate) u64);

/// Names a get that waits for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GetId(pub(crate) u64);

/// Names an invitation to a group that waits for a new leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ElectionId(pub(crate) u64);

/// Names a direct modex request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirectModexId(pub(crate) u64);

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identifiers of objects in an engine. An identifier is never reused.
//!
//! Source: this project.

/// The identifier of a registered local process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClientId(pub(crate) u64);

/// The identifier of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TrackerId(pub(crate) u64);

/// The identifier of a call of a collective that arrived before its participants were known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EarlyId(pub(crate) u64);

/// The identifier of a get that waits for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GetId(pub(crate) u64);

/// The identifier of an invitation to a group that waits for a new leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ElectionId(pub(crate) u64);

/// The identifier of an invitation to a group that this server runs for its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct InvitationId(pub(crate) u64);

/// The identifier of a direct modex request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirectModexId(pub(crate) u64);

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: processes that share a name.
//!
//! ```text
//! construct ── all members have called ── the host ── known ── destruct ── all have called ── the host ── forgotten
//! invite, join (events between clients) ── CONSTRUCT_COMPLETE of the leader ──┘ └── leave ── one member less
//! ```
//!
//! - Constructs and destructs are collectives like a fence: [`Collectives`](crate::collective::Collectives) gathers
//!   the members, calls the host and answers all alike. It reports each end as a
//!   [`GroupOutcome`](crate::collective::GroupOutcome), which is applied here.
//! - A group is known by its name to its members only: other processes may use the same name for a group of their own.
//! - In the requests of a member the name means the members, with their ranks in the group or the wildcard
//!   ([`Groups::translate`]). Upcalls name processes only.
//! - A group is removed when it is destructed, or when no process of this node is left in it.

mod construct;
mod election;
mod index;
mod invitation;
mod known;
mod learn;
mod members;
mod membership;
mod names;
mod presence;
mod serve;

pub(crate) use construct::{announcement, leader_question, undecided};
pub(crate) use known::Groups;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: processes that have a name in common.
//!
//! ```text
//! construct ── all members have called ── the host ── known ── destruct ── all have called ── the host ── forgotten
//! invite, join (events between clients) ── CONSTRUCT_COMPLETE of the leader ──┘ └── leave ── one member less
//! ```
//!
//! - Construction and destruction are collectives like a fence: [`Collectives`](crate::collective::Collectives)
//!   gathers the members, calls the host and ends them all alike. What the end means for the group
//!   is said by [`GroupOutcome`](crate::collective::GroupOutcome) and done here.
//! - A group is known by its name to its members alone: other processes may use the same name for
//!   a group of their own.
//! - A name stands for the members in the requests of a member, with their ranks in the group or
//!   the wildcard ([`Groups::translate`]); the host is only told of processes.
//! - A group is forgotten when it is destructed, or when no local process is left in it.

mod construct;
mod election;
mod index;
mod invitation;
mod known;
mod learn;
mod members;
mod membership;
mod names;
mod serve;

pub(crate) use construct::{announcement, leader_question, undecided};
pub(crate) use known::Groups;

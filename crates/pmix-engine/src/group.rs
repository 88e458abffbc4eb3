// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: processes with a common name.
//!
//! ```text
//! construct ── all members have called ── the host ── known ── destruct ── all have called ── the host ── forgotten
//! invite, join (events between clients) ── CONSTRUCT_COMPLETE of the leader ──┘ └── leave ── one member less
//! ```
//!
//! - Constructs and destructs are collectives like a fence: [`Collectives`](crate::collective::Collectives) collects
//!   the calls of the members, calls the host and sends the same reply to all. It reports each end as a
//!   [`GroupOutcome`](crate::collective::GroupOutcome), which is applied here.
//! - A group name is valid for the members only: other processes may use the same name for another group.
//! - In requests of a member, the name selects the members by their group ranks or the wildcard
//!   ([`Groups::translate`]). Upcalls contain process names only.
//! - A group is removed when it is destructed, or when it has no member on this node any more.

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

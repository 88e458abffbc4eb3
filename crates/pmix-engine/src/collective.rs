// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes do together: fences, connects, disconnects, constructions and destructions of groups.
//!
//! A [`Tracker`](tracker::Tracker) is one of them, with the local processes that take part in it:
//!
//! ```text
//! gathering ── all local participants are there ── hosting ── the host answers ── ended
//!     └──────── time is up, or one of them is lost ──────────────────────────────── ended
//! ```
//!
//! - Trackers of the same participants (and, of groups, the same name) follow each other: the n-th
//!   call of a process belongs to the n-th tracker, however far the others have come.
//! - One that ended without success stays until its last participants have come and were told the
//!   same, so that nobody's next call is taken for the one that failed.
//! - A fence whose participants are all local ends without the host. Any collective with
//!   participants on other nodes is told to the host even if it failed here, so that the servers
//!   there end it too: a fence with the failure in place of data, others with a status.
//! - Calls that come before all local processes of a job are registered wait for that; see `early`.
//! - A process that has finalised may come again, so it is waited for until the host deregisters
//!   it, but not longer than [`Config::return_time`](crate::Config::return_time).
//! - A construct that one of the members leads does not end with the loss of a participant before a decision is taken;
//!   see `construct`.
//! - When a member leaves a group, a fence, connect or disconnect of the group may begin again without it, and a destruct
//!   goes on; see `left`.
//! - A participant that goes away before the host was called ends it for all; one that goes
//!   later has taken part. A process that comes back is another incarnation: what it calls belongs to
//!   trackers that do not know it as lost.

mod arrive;
mod construct;
mod contribution;
mod early;
mod end;
mod group_call;
mod group_members;
mod kind;
mod left;
mod ordered_upcalls;
mod participants;
mod table;
mod tracker;

pub(crate) use construct::{Announcement, LeaderQuestion};
pub(crate) use group_call::{
    EndedGroup, GroupCall, GroupOutcome, MemberLeft, MembershipChange, NoneLeft, is_gathered,
    listed,
};
pub(crate) use group_members::{each, in_wanted_order, members_now, present};
pub use kind::Collective;
pub(crate) use participants::Participants;
pub(crate) use table::Collectives;

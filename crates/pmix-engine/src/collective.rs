// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collectives: fences, connects, disconnects, constructs and destructs of groups.
//!
//! A [`Tracker`](tracker::Tracker) is one collective, with the processes of this node that take part in it:
//!
//! ```text
//! gathering ── all local participants are there ── hosting ── the host answers ── ended
//!     └──────── time is up, or one of them is lost ──────────────────────────────── ended
//! ```
//!
//! - Trackers of the same participants (and, for groups, the same name) form a queue: the n-th call of a process
//!   belongs to the n-th tracker, independent of the calls of the others.
//! - A tracker that failed stays until its last participants have called and got the same status. Their calls are
//!   therefore not taken for the next collective.
//! - A fence whose participants are all of this node ends without the host. Any other collective is reported to the
//!   host also if it failed here, so that the other servers end it too: a fence with the failure in place of its data,
//!   others with a status.
//! - Calls that come before all processes of a job on this node are registered wait for that; see `early`.
//! - A process that has finalized may connect again. It is awaited until the host deregisters it, but not longer than
//!   [`Config::return_time`](crate::Config::return_time).
//! - A construct that one of the members leads does not end with the loss of a participant before a decision is taken;
//!   see `construct`.
//! - When a member leaves a group, a fence, connect or disconnect of the group may begin again without it, and a
//!   destruct continues; see `left`.
//! - A participant that is lost before the host is called ends the collective for all; a later loss does not matter. A
//!   process that connects again is another incarnation: its calls belong to trackers that do not record it as lost.

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

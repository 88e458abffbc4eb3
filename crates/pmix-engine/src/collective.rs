// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collectives: fences, connects, disconnects, constructs and destructs of groups.
//!
//! A [`Tracker`](tracker::Tracker) is one collective, with its participants on this node:
//!
//! | state | stored as | event | next state |
//! | --- | --- | --- | --- |
//! | none | | a call before all local processes of a job are registered | early |
//! | early | `EarlyCall` | the last of them is registered | gathering |
//! | none | | the first call | gathering |
//! | none | | all local members of a group have left or are lost | at the host, with the destruct of the group |
//! | gathering | `Phase::Gathering` | a call, and others are missing | gathering, until the earliest time limit of any caller |
//! | gathering | | the last missing call | at the host, with the contribution of this node |
//! | gathering, of local participants only | | the last missing call of a fence, or of a group with `PMIX_GROUP_LOCAL_ONLY` | ended with success, without an upcall |
//! | gathering | | a participant is or was lost; the time limit; a call that is refused | failed, with an upcall for the other servers |
//! | gathering, tolerant | | a participant is lost or leaves the group | gathering without it, or at the host |
//! | at the host | `Phase::Hosting` | the host replies with success, and its data are valid | ended with success |
//! | at the host, of local participants only | | the host does not support a connect or disconnect | ended with success |
//! | at the host | | the host replies with an error or invalid data; the time limit | failed |
//! | at the host | | a participant is lost | at the host |
//! | failed | `Phase::Failed` | a late call | failed: the caller receives the same status |
//! | failed | | no participant is missing any more, or the job has too many failed collectives | removed |
//!
//! - Trackers of the same participants (and, for groups, the same name) form a queue: the n-th call of a process
//!   belongs to the n-th tracker, independent of the calls of the others.
//! - A failed tracker remains for late callers, because their calls would otherwise join the next collective.
//! - A fence with local participants only ends without the host. Any other collective is reported to the host even if
//!   it failed here, so that the other servers end it too: a fence with the failure in place of its data, others with a
//!   status.
//! - Calls that arrive before all local processes of a job are registered wait for the registration; see `early`.
//! - A finalized process may initialize again. Collectives wait for it until the host deregisters it, but not longer
//!   than [`Config::return_time`](crate::Config::return_time).
//! - A construct with a leader does not end with the loss of a participant before the leader has decided; see
//!   `construct`.
//! - When a member leaves a group, a fence, connect or disconnect of the group may begin again without it, and a
//!   destruct continues; see `left`.
//! - A participant that is lost before the host is called ends the collective for all; a later loss does not. A
//!   restarted process is another incarnation: its calls belong to trackers that do not record it as lost.

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
mod waits;

pub(crate) use construct::{Announcement, LeaderQuestion};
pub(crate) use group_call::{
    DesertedGroup, EndedGroup, GroupCall, GroupOutcome, MemberLeft, MembershipChange, is_gathered,
    listed,
};
pub(crate) use group_members::{count, each, in_wanted_order, members_now, present};
pub use kind::Collective;
pub(crate) use participants::Participants;
pub(crate) use table::Collectives;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups: processes with a common name.
//!
//! | state | event | next state |
//! | --- | --- | --- |
//! | none | a construct with a member on this node has ended with success | known |
//! | none | `CONSTRUCT_COMPLETE` of the leader of an invitation, from a process or from the host | known, if a member is on this node |
//! | known | another reply of the host to the same construct | known |
//! | known | a member leaves | known without it: `GROUP_LEFT` to the others |
//! | known | a member is lost | known without it: `GROUP_MEMBER_FAILED` to the others with `PMIX_GROUP_NOTIFY_TERMINATION` |
//! | known | the last member on this node leaves or is lost | deserted, with the destruct for the servers of other nodes |
//! | known | a destruct has ended with success | none |
//! | known | a destruct has failed | known, without the callers that received the status |
//! | known | the job of the last member on this node is deregistered | none |
//! | deserted | a late reply to the construct, and all callers are lost | deserted |
//! | deserted | displaced by later ones | none |
//!
//! A known group is a `KnownGroup`; `Groups::deserted` has the deserted ones. The states of an invitation are in
//! `invitation`, those of a construct in `collective`.
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
mod hosted;
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

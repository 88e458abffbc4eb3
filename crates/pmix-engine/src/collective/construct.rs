// SPDX-License-Identifier: MIT OR Apache-2.0
//! Group constructs with a leader (`PMIX_GROUP_LEADER`). A loss does not end such a construct at once: the server of
//! the lost process asks the leader, while the host and the other servers wait for its call. It knows the leader from
//! the leader's server; see `announcement`. A process without a handler for the event is not asked.
//!
//! | state | stored as | event | next state |
//! | --- | --- | --- | --- |
//! | gathering | `Phase::Gathering`, `Leader::Leads` | all local participants have called | at the host |
//! | gathering | | another participant is lost | asking: `INVITE_FAILED` to the leader |
//! | gathering, asking | | the local leader is lost | electing: `LEADER_FAILED` to all |
//! | gathering, asking | | the server of the leader reports its loss | electing elsewhere |
//! | held back | `Leadership::is_held_back` | a local call, or the time limit | gathering, or asking |
//! | asking | `Leadership::undecided` | `PMIX_GROUP_OPTIONAL`, `PMIX_GROUP_ADD_MEMBERS` of the leader | gathering, without the lost process |
//! | asking | | another reply of the leader, or the time limit | ended: `PMIX_ERR_LOST_CONNECTION` |
//! | electing | `Leader::Electing` | the first caller that leads | gathering, or asking: `LEADER_SELECTED` to all |
//! | electing | | all callers have declined, or the time limit | ended: `PMIX_GROUP_LEADER_FAILED` |
//! | electing elsewhere | `Leader::ElectingElsewhere` | `LEADER_SELECTED` of the other server | gathering, asking or ended |
//! | asking, electing | | `CONSTRUCT_ABORT` of the leader, or of a caller | ended |
//! | at the host | `Phase::Hosting` | the host replies | ended |
//! | at the host | | the local leader is lost | electing, for the servers that still gather |
//! | ended | `Phase::Failed` | the last participant has called and received the status | removed |
//!
//! `loss` handles every loss and both elections, `question` asks, `decision` processes the replies.
//!
//! Source: the draft "PMIx Groups", "Group construct"; PMIx Standard, chapter "Process Sets and Groups".

mod announcement;
mod decision;
mod leadership;
mod loss;
mod question;
mod recent;

pub(crate) use leadership::{Announcement, LeaderQuestion};
pub(super) use leadership::{EarlyAnnouncements, Leadership, LedByName, RecentlyEnded};

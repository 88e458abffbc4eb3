// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events about constructs with a leader.

use pmix_types::{DataRange, Info, IntoOwned as _, Status, Value, keys};

use super::election::chosen;
use super::membership::event;
use crate::collective::{Announcement, LeaderQuestion};
use crate::cx::Cx;
use crate::events::Notification;
use crate::host::NotifyEvent;
use crate::infos::value;

/// Returns the event of a question or decision. The source of an invitation is the leader.
pub(crate) fn leader_question(cx: &Cx, question: LeaderQuestion) -> Option<Notification> {
    let LeaderQuestion {
        status,
        name,
        to,
        about,
        more,
        ..
    } = question;
    let mut event = event(cx, status, &name, to, &about)?;
    if status == Status::GROUP_INVITED {
        event.source = about;
    }
    event.infos.extend(more);
    Some(event)
}

/// Returns the event that announces a leader to the servers of other nodes.
pub(crate) fn announcement(announcement: Announcement) -> NotifyEvent {
    NotifyEvent {
        status: Status::GROUP_LEADER_SELECTED,
        source: announcement.leader.clone(),
        range: DataRange::CUSTOM,
        infos: announcement.into_infos(),
    }
}

/// Returns the reply for a leader of this node without a handler for the question of another server: no decision.
pub(crate) fn undecided(cx: &Cx, question: &Notification) -> Option<NotifyEvent> {
    let leader =
        chosen(&question.infos).filter(|_| question.status == Status::GROUP_INVITE_FAILED)?;
    let about = value(&question.infos, keys::EVENT_AFFECTED_PROC)?
        .clone()
        .into_owned();
    let name = value(&question.infos, keys::GROUP_ID)?.clone().into_owned();
    let Value::Proc(lost) = &about else {
        return None;
    };
    // Only the server of the leader knows the leader's handlers.
    cx.registry.find(&leader.nspace, leader.rank)?;
    let to = vec![lost.clone()];
    Some(NotifyEvent {
        status: question.status,
        source: leader,
        range: DataRange::CUSTOM,
        infos: vec![
            Info::new(keys::EVENT_NON_DEFAULT, true),
            Info::new(keys::EVENT_DO_NOT_CACHE, true),
            Info::new(keys::EVENT_CUSTOM_RANGE, to),
            Info::new(keys::GROUP_ID, name),
            Info::new(keys::EVENT_AFFECTED_PROC, about),
        ],
    })
}

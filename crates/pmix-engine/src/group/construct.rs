// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events about constructions of groups that one of the members leads.

use pmix_types::{DataRange, Info, IntoOwned as _, Status, Value, keys};

use super::election::chosen;
use super::membership::event;
use crate::collective::{Announcement, LeaderQuestion};
use crate::cx::Cx;
use crate::events::Notification;
use crate::host::NotifyEvent;
use crate::infos::value;

/// The event about a construction that is led. Who is invited hears of it from who leads.
pub(crate) fn leader_question(cx: &Cx, told: LeaderQuestion) -> Option<Notification> {
    let LeaderQuestion {
        status,
        name,
        to,
        about,
        more,
        ..
    } = told;
    let mut event = event(cx, status, &name, to, &about)?;
    if status == Status::GROUP_INVITED {
        event.source = about;
    }
    event.infos.extend(more);
    Some(event)
}

/// What the host carries to the servers of other nodes about who leads a construction.
pub(crate) fn announcement(said: Announcement) -> NotifyEvent {
    NotifyEvent {
        status: Status::GROUP_LEADER_SELECTED,
        source: said.leader.clone(),
        range: DataRange::CUSTOM,
        infos: said.into_infos(),
    }
}

/// What is said in the place of a leader of this node that another server asks about a process that is lost: that
/// nothing is decided.
pub(crate) fn undecided(cx: &Cx, asked: &Notification) -> Option<NotifyEvent> {
    let leader = chosen(&asked.infos).filter(|_| asked.status == Status::GROUP_INVITE_FAILED)?;
    let about = value(&asked.infos, keys::EVENT_AFFECTED_PROC)?
        .clone()
        .into_owned();
    let name = value(&asked.infos, keys::GROUP_ID)?.clone().into_owned();
    let Value::Proc(lost) = &about else {
        return None;
    };
    cx.registry.find(&leader.nspace, leader.rank)?;
    let to = vec![lost.clone()];
    Some(NotifyEvent {
        status: asked.status,
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps of tests of constructs of a group of four with a leader.

use pmix_proto::{Request, Tag, reply, request};
use pmix_types::{DataRange, Info, Proc, Rank, Status, keys};

use crate::group::{construct, heard, listen};
use crate::world::{Who, World};

pub(crate) const LEADER_GONE: Option<Status> = Some(Status::GROUP_LEADER_FAILED);
pub(crate) const LOST: Option<Status> = Some(Status::ERR_LOST_CONNECTION);
pub(crate) const ABORTED: Option<Status> = Some(Status::GROUP_CONSTRUCT_ABORT);

pub(crate) fn leads() -> Vec<Info<'static>> {
    vec![Info::new(keys::GROUP_LEADER, true)]
}

/// Creates a report about a lost process.
pub(crate) fn about(status: Status, lost: u32, more: &[Info<'static>]) -> Request<'static> {
    let lost = Proc::new("job", Rank::new(lost));
    let mut infos = vec![
        Info::new(keys::EVENT_CUSTOM_RANGE, vec![lost.clone()]),
        Info::new(keys::EVENT_NON_DEFAULT, true),
        Info::new(keys::GROUP_ID, "g"),
        Info::new(keys::EVENT_AFFECTED_PROC, lost),
    ];
    infos.extend_from_slice(more);
    Request::Notify(request::Notify {
        status,
        range: DataRange::CUSTOM,
        infos,
    })
}

pub(crate) fn without(lost: u32) -> Request<'static> {
    let optional = Info::new(keys::GROUP_OPTIONAL, true);
    about(Status::GROUP_INVITE_FAILED, lost, &[optional])
}

/// Calls for a group of four; the first caller leads.
pub(crate) fn called(world: &mut World, all: &[Who], ranks: &[usize]) -> Vec<Tag> {
    let codes = [
        Status::GROUP_INVITE_FAILED,
        Status::GROUP_LEADER_FAILED,
        Status::GROUP_LEADER_SELECTED,
        Status::GROUP_MEMBERSHIP_UPDATE,
        Status::GROUP_INVITED,
    ];
    listen(world, all, &codes);
    called_unheard(world, all, ranks)
}

/// Calls for a group of four without event handlers for losses.
pub(crate) fn called_unheard(world: &mut World, all: &[Who], ranks: &[usize]) -> Vec<Tag> {
    let tags = ranks.iter().enumerate().map(|(place, rank)| {
        let infos = if place == 0 { leads() } else { vec![] };
        world.ask(all[*rank], &of_four(infos))
    });
    let tags = tags.collect();
    world.run();
    tags
}

/// Creates a call for that group.
pub(crate) fn of_four(infos: Vec<Info<'static>>) -> Request<'static> {
    construct("g", &[0, 1, 2, 3], infos)
}

/// Calls for the group without leading.
pub(crate) fn call(world: &mut World, who: Who) -> Tag {
    let tag = world.ask(who, &of_four(vec![]));
    world.run();
    tag
}

/// Loses the process of a rank and informs the host.
pub(crate) fn lose(world: &mut World, all: &[Who], rank: u32) {
    world.kill(all[usize::try_from(rank).unwrap()]);
    world.end_proc("job", rank);
}

/// Checks that all callers received these members.
pub(crate) fn check_members(
    world: &World,
    all: &[Who],
    asked: impl IntoIterator<Item = (usize, Tag)>,
    expected: &[u32],
) {
    for (rank, tag) in asked {
        assert_eq!(members(world, all[rank], tag), expected, "rank {rank}");
    }
}

/// Checks that no node holds a collective.
pub(crate) fn check_over(world: &World) {
    for node in &world.nodes {
        let stats = node.engine.stats();
        assert_eq!((stats.num_collectives, stats.num_under_way), (0, 0));
    }
}

pub(crate) fn of(all: &[Who], ranks: &[usize]) -> Vec<Who> {
    ranks.iter().map(|rank| all[*rank]).collect()
}

pub(crate) fn members(world: &World, who: Who, tag: Tag) -> Vec<u32> {
    let client = &world.clients[who];
    let response = client.reply(tag).expect("no reply");
    let group = reply::Group::decode(client.session.form(), None, &response.payload).unwrap();
    let members = group.members.iter();
    members.map(|proc| proc.rank.as_raw()).collect()
}

pub(crate) fn codes(world: &World, who: Who) -> Vec<(Status, Option<u32>)> {
    let heard = heard(world, who).into_iter();
    heard
        .map(|(status, _, about)| (status, about.map(Rank::as_raw)))
        .collect()
}

// SPDX-License-Identifier: MIT OR Apache-2.0

use std::time::Duration;

use pmix_server::upcall::{Abort, Connect, Fence, Group, HostObject, Lookup, Publish};
use pmix_types::{DataRange, Text};

use super::*;
use crate::collectives::NodeShare;
use crate::groups::Processes;

/// A job with two processes on each of three nodes, and the lost nodes.
#[derive(Default)]
struct Job {
    lost: Vec<usize>,
}

impl Processes for Job {
    fn job_size(&self, nspace: &Nspace<'_>) -> Option<u32> {
        (*nspace == "job").then_some(6)
    }

    fn has_ended(&self, proc: &Proc<'_>) -> bool {
        self.server_of(proc).is_none_or(|node| self.is_lost(node))
    }

    fn server_of(&self, proc: &Proc<'_>) -> Option<usize> {
        let is_it = proc.nspace == "job" && proc.rank.as_raw() < 6;
        usize::try_from(proc.rank.as_raw() / 2)
            .ok()
            .filter(|_| is_it)
    }
}

impl Nodes for Job {
    fn nodes_of_job(&self, nspace: &Nspace<'_>) -> Vec<NodeShare> {
        let num_nodes = if *nspace == "job" { 3 } else { 0 };
        let share = |node| NodeShare::new(node, if self.is_lost(node) { 0 } else { 2 });
        (0..num_nodes).map(share).collect()
    }

    fn is_lost(&self, node: usize) -> bool {
        self.lost.contains(&node)
    }
}

fn proc(rank: u32) -> Proc<'static> {
    Proc::new("job", Rank::new(rank))
}

fn all() -> Vec<Proc<'static>> {
    vec![Proc::new("job", Rank::WILDCARD)]
}

/// The services and the state of their job. A token is the number of a node and that of its call.
struct Tested {
    services: ControllerServices<(usize, u32)>,
    job: Job,
    now: Instant,
}

type Action = ServiceAction<(usize, u32)>;

impl Tested {
    fn new() -> Self {
        Self {
            services: ControllerServices::new(3),
            job: Job::default(),
            now: Instant::now(),
        }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.services.next_action()).collect()
    }

    /// Passes an upcall that the services serve, and returns the actions that follow.
    fn take(&mut self, token: (usize, u32), upcall: impl Into<Upcall>) -> Vec<Action> {
        let own = self
            .services
            .take(token, token.0, upcall, &self.job, self.now);
        assert!(own.is_none(), "{own:?}");
        self.actions()
    }

    fn lose(&mut self, node: usize, ranks: [u32; 2]) -> Vec<Action> {
        self.job.lost.push(node);
        self.services.node_lost(node, ranks.map(proc), &self.job);
        self.actions()
    }
}

fn reply(token: (usize, u32), reply: HostReply) -> Action {
    ServiceAction::Reply { token, reply }
}

fn done(token: (usize, u32), status: Status) -> Action {
    reply(token, HostReply::Done(status))
}

fn fence(infos: Vec<Info<'static>>, data: &[u8]) -> Fence {
    Fence::new(all(), infos, data.to_vec())
}

#[test]
fn collectives_of_all_nodes_get_one_reply() {
    let mut tested = Tested::new();
    assert_eq!(tested.take((2, 1), fence(vec![], b"c")), []);
    assert_eq!(tested.take((0, 1), fence(vec![], b"a")), []);
    let replies = tested.take((1, 1), fence(vec![], b"b"));
    let expected = [0, 1, 2].map(|node| reply((node, 1), HostReply::Data(Ok(b"abc".to_vec()))));
    assert_eq!(replies, expected);

    let stranger = vec![Proc::new("other", Rank::new(0))];
    let refused = tested.take((0, 2), Connect::new(stranger, vec![], None));
    assert_eq!(refused, [done((0, 2), Status::ERR_NOT_FOUND)]);
}

#[test]
fn a_required_directive_that_is_not_supported_fails_the_collective_for_all() {
    let mut tested = Tested::new();
    let required = || vec![Info::new("own", 1_u32).required()];
    assert_eq!(tested.take((0, 1), fence(vec![], b"a")), []);
    assert_eq!(tested.take((1, 1), fence(required(), b"b")), []);
    let replies = tested.take((2, 1), fence(vec![], b"c"));
    let failed = HostReply::Data(Err(Status::ERR_NOT_SUPPORTED));
    assert_eq!(
        replies,
        [0, 1, 2].map(|node| reply((node, 1), failed.clone()))
    );

    let construct = |infos| Group::new(GroupOperation::CONSTRUCT, "g".into(), all(), infos);
    let first = tested.take((0, 2), construct(vec![]));
    let second = tested.take((1, 2), construct(required()));
    let third = tested.take((2, 2), construct(vec![]));
    let replies = [first, second, third].concat();
    let failed = [0, 1, 2].map(|node| done((node, 2), Status::ERR_NOT_SUPPORTED));
    assert_eq!(replies.len(), 3, "{replies:?}");
    assert!(
        failed.iter().all(|one| replies.contains(one)),
        "{replies:?}"
    );

    let publish = Publish::new(proc(0), vec![Info::new("own", 1_u32), required().remove(0)]);
    assert_eq!(
        tested.take((0, 3), publish),
        [reply((0, 3), HostReply::NotSupported)]
    );
}

#[test]
fn each_constructed_group_gets_its_context_id() {
    let mut tested = Tested::new();
    for context in 1..3_usize {
        let assign = || vec![Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)];
        let construct = |name: &'static str| {
            Group::new(GroupOperation::CONSTRUCT, name.into(), all(), assign())
        };
        let name = if context == 1 { "one" } else { "two" };
        assert_eq!(tested.take((1, 1), construct(name)), []);
        assert_eq!(tested.take((0, 1), construct(name)), []);
        let replies = tested.take((2, 1), construct(name));
        assert_eq!(replies.len(), 3);
        let id = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context as u64));
        for action in replies {
            let ServiceAction::Reply {
                reply: HostReply::Infos(Status::SUCCESS, infos),
                ..
            } = action
            else {
                panic!("{action:?}");
            };
            assert!(infos.contains(&id), "{infos:?}");
        }
    }
    // The server of a leader requests one for a group that is formed by invitation.
    let request = vec![Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)];
    let request = JobControl::new(proc(0), vec![], request);
    let id = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(3));
    let infos = HostReply::Infos(Status::SUCCESS, vec![id]);
    assert_eq!(tested.take((0, 9), request), [reply((0, 9), infos)]);
}

#[test]
fn a_direct_modex_reaches_the_node_of_its_process() {
    let mut tested = Tested::new();
    let of = |rank| DirectModex::new(Proc::new("job", rank), vec![Info::new("key", 1_u32)]);
    let modex = |node, rank| ServiceAction::Modex {
        node,
        request: of(rank),
        token: (0, 1),
    };
    let rank = Rank::new(5);
    assert_eq!(tested.take((0, 1), of(rank)), [modex(2, rank)]);
    // Each node of the job has its job info.
    let wildcard = Rank::WILDCARD;
    assert_eq!(tested.take((0, 1), of(wildcard)), [modex(0, wildcard)]);
    tested.lose(0, [0, 1]);
    assert_eq!(tested.take((0, 1), of(wildcard)), [modex(1, wildcard)]);
    let lost = done((1, 2), Status::ERR_LOST_CONNECTION);
    assert_eq!(tested.take((1, 2), of(Rank::new(1))), [lost]);
    let unknown = done((1, 3), Status::ERR_NOT_FOUND);
    assert_eq!(tested.take((1, 3), of(Rank::new(6))), [unknown]);
}

#[test]
fn events_reach_the_other_nodes() {
    let mut tested = Tested::new();
    let event = |range| NotifyEvent::new(Status::ERR_TIMEOUT, proc(2), range, vec![]);
    let to = |node| ServiceAction::Notify {
        node,
        event: event(DataRange::GLOBAL),
    };
    let known = done((1, 1), Status::SUCCESS);
    let relayed = tested.take((1, 1), event(DataRange::GLOBAL));
    assert_eq!(relayed, [known, to(0), to(2)]);
    let local = tested.take((1, 1), event(DataRange::LOCAL));
    assert_eq!(local, [done((1, 1), Status::SUCCESS)]);
    tested
        .services
        .notify(&event(DataRange::GLOBAL), &tested.job);
    assert_eq!(tested.actions(), [to(0), to(1), to(2)]);
    tested.lose(2, [4, 5]);
    let known = done((1, 2), Status::SUCCESS);
    assert_eq!(
        tested.take((1, 2), event(DataRange::GLOBAL)),
        [known, to(0)]
    );
}

#[test]
fn a_lookup_waits_for_the_publish_of_another_node() {
    let mut tested = Tested::new();
    let lookup = |rank| {
        let wait = Info::new(keys::WAIT, 0_i32);
        Lookup::new(proc(rank), vec![Text::from("port")], vec![wait])
    };
    assert_eq!(tested.take((0, 1), lookup(0)), []);
    // The end of a process drops its lookup, and the server of its node forgets the request.
    assert_eq!(tested.take((1, 1), lookup(2)), []);
    tested.services.proc_ended(&proc(2), &tested.job);
    let dropped = [done((1, 1), Status::ERR_LOST_CONNECTION)];
    assert_eq!(tested.actions(), dropped);
    let port = Publish::new(proc(5), vec![Info::new("port", 4711_u32)]);
    let replies = tested.take((2, 1), port);
    let [published, ServiceAction::Reply { token, reply }] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert_eq!(*published, done((2, 1), Status::SUCCESS));
    assert_eq!((*token, reply.status()), ((0, 1), Status::SUCCESS));
}

#[test]
fn a_lost_node_is_an_event_before_the_calls_that_wait_for_it_fail() {
    let mut tested = Tested::new();
    assert_eq!(tested.take((0, 1), fence(vec![], b"a")), []);
    assert_eq!(tested.take((1, 1), fence(vec![], b"b")), []);
    let actions = tested.lose(2, [4, 5]);
    let mut events = Vec::new();
    for event in relay::lost_events([4, 5].map(proc)) {
        for node in [0, 1] {
            let event = event.clone();
            events.push(ServiceAction::Notify { node, event });
        }
    }
    let failed = HostReply::Data(Err(Status::ERR_LOST_CONNECTION));
    events.extend([0, 1].map(|node| reply((node, 1), failed.clone())));
    assert_eq!(actions, events);
    // Later ones fail at once.
    let later = tested.take((0, 2), fence(vec![], b"a"));
    assert_eq!(later, [reply((0, 2), failed)]);
}

#[test]
fn time_limits_end_calls() {
    let mut tested = Tested::new();
    assert_eq!(tested.services.deadline(), None);
    let limit = || vec![Info::new(keys::TIMEOUT, 3_i32)];
    assert_eq!(tested.take((0, 1), fence(limit(), b"a")), []);
    let until = tested.now + Duration::from_secs(3);
    assert_eq!(tested.services.deadline(), Some(until));
    tested.services.tick(until);
    let late = HostReply::Data(Err(Status::ERR_TIMEOUT));
    assert_eq!(tested.actions(), [reply((0, 1), late)]);
    assert_eq!(tested.services.deadline(), None);
}

#[test]
fn upcalls_that_only_the_host_can_serve_are_returned() {
    let mut tested = Tested::new();
    let abort = Abort::new(proc(0), HostObject(0), Status::ERROR, None, vec![]);
    let Tested { services, job, now } = &mut tested;
    let own = services.take((0, 1), 0, abort.clone(), job, *now);
    assert_eq!(own, Some(((0, 1), abort.into())));
    assert_eq!(services.next_action(), None);
}

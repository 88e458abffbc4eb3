// SPDX-License-Identifier: MIT OR Apache-2.0
//! A core against a minimal server that replies correctly, late, never or with damaged data.

mod commit;
mod groups;
mod session;
mod tool;

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use bfrops::{Encoder, wire_type};
use pmix_proto::{Command, Event, Header, Inbox, Output, Role, Welcome, request};
use pmix_types::{DataArray, DataRange, Info, IofChannel, Kval, Query, Text, Value, keys};

use super::*;
use crate::Uri;
use crate::group::Decision;

/// Returns the request of a fence of the own job.
fn fence_of_job() -> Request<'static> {
    Request::Fence(request::Fence::default())
}

/// A core, and its requests without a reply so far.
struct Side {
    core: Core,
    inbox: Inbox,
    asked: Vec<(Tag, Command)>,
    now: Instant,
}

const SECOND: Duration = Duration::from_secs(1);

impl Side {
    fn new(end: Option<Duration>) -> Self {
        Self::with(end, |_| ())
    }

    fn with(end: Option<Duration>, set: impl FnOnce(&mut Settings)) -> Self {
        let uri: Uri = "server.0;tcp4://127.0.0.1:1".parse().unwrap();
        let mut settings = Settings::new(Proc::new("job", Rank::new(0)), uri);
        set(&mut settings);
        settings.max_prefetch_bytes = 1 << 16;
        settings.max_reply_bytes = 1 << 16;
        let hello = Hello {
            psec: "none".into(),
            credential: &[],
            role: settings.role,
            ids: None,
            proc: (settings.role == Role::CLIENT).then(|| settings.proc.clone()),
            version: "5.0.11".into(),
            module: settings.layout.module.name().into(),
            buffer: settings.layout.buffer,
            gds: "hash".into(),
            infos: vec![],
        };
        let now = Instant::now();
        let mut core = Core::new(settings, &hello, end.map(|end| now + end)).unwrap();
        let mut inbox = Inbox::of_server(pmix_proto::MAX_REQUEST_BYTES);
        inbox.push(&core.poll_transmit().unwrap());
        assert!(inbox.next_frame().unwrap().is_some());
        Self {
            core,
            inbox,
            asked: Vec::new(),
            now,
        }
    }

    /// Returns a core after init.
    fn begun() -> Self {
        Self::new(None).begin()
    }

    /// Returns a core after init, with a server of the given OpenPMIx release.
    fn begun_under(version: &str) -> Self {
        let under = |settings: &mut Settings| {
            settings.server_version = Some(version.to_owned());
            settings.resolves_groups = !version.starts_with('4');
        };
        Self::with(None, under).begin()
    }

    fn begin(self) -> Self {
        let mut side = self;
        let welcome = Welcome::Index { index: 5 }.encode().unwrap();
        side.core.handle_input(&welcome, side.now);
        assert_eq!(side.asked(), [Command::REQ]);
        let mut info = Vec::new();
        let mut encoder = Encoder::new(side.core.form().layout, &mut info);
        let nspace = Some("job".into());
        encoder.one::<wire_type::String>(&nspace).unwrap();
        side.reply(Command::REQ, &info);
        assert_eq!(
            side.core.poll_completed(),
            Some((Core::INIT, Ok(Answer::Done)))
        );
        side
    }

    /// Returns the commands without a reply so far.
    fn asked(&mut self) -> Vec<Command> {
        while let Some(bytes) = self.core.poll_transmit() {
            self.inbox.push(&bytes);
            while let Some(frame) = self.inbox.next_frame().unwrap() {
                let request = Request::decode(self.core.form(), None, &frame.payload).unwrap();
                self.asked.push((frame.header.tag, request.command()));
            }
        }
        self.asked.iter().map(|(_, command)| *command).collect()
    }

    /// Replies to the first request with a command.
    fn reply(&mut self, command: Command, payload: &[u8]) {
        self.asked();
        let place = self.asked.iter().position(|(_, asked)| *asked == command);
        let (tag, _) = self.asked.remove(place.expect("it was asked"));
        self.send(tag, payload);
    }

    fn succeed(&mut self, command: Command) {
        let status = pmix_proto::reply::status(self.core.form(), Status::SUCCESS).unwrap();
        self.reply(command, &status);
    }

    fn send(&mut self, tag: Tag, payload: &[u8]) {
        let header = Header::new(0, tag, u32::try_from(payload.len()).unwrap());
        let bytes = [&header.encode()[..], payload].concat();
        self.core.handle_input(&bytes, self.now);
    }

    fn event(&mut self, status: Status, infos: Vec<Info<'static>>) {
        let event = Event {
            status,
            source: peer(1),
            infos,
            range: Some(DataRange::CUSTOM),
        };
        let event = event.encode(self.core.form(), None).unwrap();
        self.send(Tag::EVENT, &event);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.core.handle_timeout(self.now);
    }

    /// Returns the operations that have completed since the last call, with their status.
    fn ended(&mut self) -> Vec<(OperationId, Status)> {
        let ended = std::iter::from_fn(|| self.core.poll_completed());
        let status = |outcome: Result<Answer, Error>| match outcome {
            Ok(_) => Status::SUCCESS,
            Err(error) => error.status(),
        };
        ended.map(|(id, outcome)| (id, status(outcome))).collect()
    }

    fn end(&self) -> Option<Instant> {
        Some(self.now + SECOND)
    }
}

fn peer(rank: u32) -> Proc<'static> {
    Proc::new("job", Rank::new(rank))
}

/// Returns the reply to a get with a number for each of some processes.
fn brought(form: &PeerForm, of: &[(u32, u32)]) -> Vec<u8> {
    let mut objects = Vec::new();
    for (rank, number) in of {
        let kval = Kval {
            key: "card".into(),
            value: Value::Uint32(*number),
        };
        let kvals = pmix_proto::reply::pack_kvals(form, None, &[kval]).unwrap();
        let object = pmix_proto::reply::Object {
            of: peer(*rank),
            kvals: &kvals,
        };
        objects.extend(object.encode(form).unwrap());
    }
    let reply = pmix_proto::reply::Objects {
        status: Status::SUCCESS,
        objects: &objects,
    };
    reply.encode(form, None).unwrap()
}

#[test]
fn replies_complete_their_operations_in_any_order() {
    let mut side = Side::begun();
    let fence = side.core.call(fence_of_job(), None).unwrap();
    let get = side.core.get(&peer(1), "card", &[], None).unwrap();
    let form = *side.core.form();
    side.reply(Command::GETNB, &brought(&form, &[(1, 7)]));
    side.succeed(Command::FENCENB);
    let first = side.core.poll_completed();
    assert_eq!(first, Some((get, Ok(Answer::Value(Value::Uint32(7))))));
    assert_eq!(side.ended(), [(fence, Status::SUCCESS)]);
    assert_eq!(side.core.stats(), CoreStats::default());
}

#[test]
fn a_late_or_cancelled_operation_completes_once_and_its_reply_is_dropped() {
    let mut side = Side::begun();
    let end = side.end();
    let late = side.core.call(fence_of_job(), end).unwrap();
    assert_eq!(side.core.poll_timeout(), end);
    side.pass(SECOND / 2);
    assert_eq!(side.ended(), []);
    side.pass(SECOND / 2);
    assert_eq!(side.ended(), [(late, Status::ERR_TIMEOUT)]);
    let cancelled = side.core.finalize(None).unwrap();
    side.core.cancel(cancelled, side.now);
    assert_eq!(side.ended(), [(cancelled, Status::ERR_NOT_AVAILABLE)]);
    side.succeed(Command::FENCENB);
    side.succeed(Command::FINALIZE);
    side.core.cancel(late, side.now);
    assert_eq!(side.ended(), []);
    assert_eq!(side.core.stats(), CoreStats::default());
}

#[test]
fn a_lost_server_completes_all_operations_and_refuses_new_ones() {
    let mut side = Side::begun();
    let end = side.end();
    let fence = side.core.call(fence_of_job(), end).unwrap();
    let join = side
        .core
        .join("g".into(), Some(&peer(1)), &[], end, side.now)
        .unwrap();
    side.core.handle_closed(ErrorKind::ConnectionReset.into());
    let lost = Status::ERR_UNREACH;
    let mut ended = side.ended();
    ended.sort_by_key(|(id, _)| *id);
    assert_eq!(ended, [(fence, lost), (join, lost)]);
    let again = side.core.call(fence_of_job(), None).unwrap_err();
    assert_eq!(again.status(), lost);
    assert_eq!(side.core.stats(), CoreStats::default());
    assert_eq!(side.core.poll_timeout(), None);
}

#[test]
fn init_fails_on_a_timeout_a_refusal_and_a_malformed_reply() {
    let mut late = Side::new(Some(SECOND));
    late.pass(SECOND);
    assert_eq!(late.ended(), [(Core::INIT, Status::ERR_TIMEOUT)]);
    let mut refused = Side::new(None);
    let status = Status::ERR_NOT_SUPPORTED.as_raw().to_be_bytes();
    refused.core.handle_input(&status, refused.now);
    assert_eq!(refused.ended(), [(Core::INIT, Status::ERR_NOT_SUPPORTED)]);
    let mut puzzled = Side::new(None);
    let welcome = Welcome::Index { index: 5 }.encode().unwrap();
    puzzled.core.handle_input(&welcome, puzzled.now);
    puzzled.reply(Command::REQ, &[1, 2, 3]);
    let ended = puzzled.ended();
    assert_eq!(ended.len(), 1);
    assert_ne!(ended[0].1, Status::SUCCESS);
    for side in [&mut late, &mut refused, &mut puzzled] {
        assert!(side.core.lost().is_some());
        assert!(side.core.call(fence_of_job(), None).is_err());
        assert_eq!(side.core.stats(), CoreStats::default());
    }
}

#[test]
fn prefetched_data_are_dropped_at_the_next_message_of_the_server() {
    for is_event in [true, false] {
        let mut side = Side::begun();
        let form = *side.core.form();
        side.core.get(&peer(1), "card", &[], None).unwrap();
        side.reply(Command::GETNB, &brought(&form, &[(1, 7), (2, 8), (3, 9)]));
        assert!(side.core.known(&peer(2), "card", &[]).is_some());
        assert_eq!(side.core.stats().num_prefetched, 1);
        match is_event {
            true => side.event(Status::ERR_LOST_CONNECTION, vec![]),
            false => {
                side.core.call(fence_of_job(), None).unwrap();
                side.succeed(Command::FENCENB);
            }
        }
        assert!(side.core.known(&peer(3), "card", &[]).is_none());
        // Requested data stay in the cache.
        assert!(side.core.known(&peer(1), "card", &[]).is_some());
    }
}

#[test]
fn a_join_registers_for_events_first_and_may_decide_on_a_lost_leader() {
    let mut side = Side::begun();
    let end = side.end();
    let join = side
        .core
        .join("g".into(), Some(&peer(1)), &[], end, side.now)
        .unwrap();
    assert_eq!(side.asked(), [Command::REGEVENTS]);
    side.succeed(Command::REGEVENTS);
    assert_eq!(side.asked(), [Command::NOTIFY]);
    side.succeed(Command::NOTIFY);
    let group = Info::new(keys::GROUP_ID, "g");
    let gone = Info::new(keys::EVENT_AFFECTED_PROC, peer(1));
    side.event(Status::GROUP_LEADER_FAILED, vec![group.clone(), gone]);
    assert_eq!(side.ended(), []);
    let (question, event) = side.core.poll_question().unwrap();
    assert_eq!(event.status, Status::GROUP_LEADER_FAILED);
    let abort = Some(Decision::Abort);
    side.core.decide(&question, abort, side.now).unwrap();
    // The core reports the decision to the server of the leader.
    assert_eq!(side.asked(), [Command::NOTIFY]);
    side.succeed(Command::NOTIFY);
    assert_eq!(side.ended(), [(join, Status::GROUP_CONSTRUCT_ABORT)]);
    assert_eq!(side.core.poll_event(), None);
    // The leader formed the group before it was lost, so this process leaves it.
    let members = Info::new(keys::GROUP_MEMBERSHIP, Value::from(vec![peer(0), peer(1)]));
    side.event(Status::GROUP_CONSTRUCT_COMPLETE, vec![group, members]);
    assert_eq!(side.asked(), [Command::GROUP_LEAVE]);
    assert!(side.core.poll_event().is_some());
}

#[test]
fn a_join_that_times_out_notifies_its_leader() {
    let mut side = Side::begun();
    let end = side.end();
    let early = side
        .core
        .join("a".into(), Some(&peer(1)), &[], end, side.now)
        .unwrap();
    side.pass(SECOND);
    // Nothing was sent for the operation.
    assert_eq!(side.ended(), [(early, Status::ERR_TIMEOUT)]);
    assert_eq!(side.asked(), [Command::REGEVENTS]);
    side.succeed(Command::REGEVENTS);
    assert_eq!(side.asked(), []);
    let end = side.end();
    let late = side
        .core
        .join("b".into(), Some(&peer(1)), &[], end, side.now)
        .unwrap();
    side.succeed(Command::NOTIFY);
    side.pass(SECOND);
    assert_eq!(side.ended(), [(late, Status::ERR_TIMEOUT)]);
    assert_eq!(side.asked(), [Command::NOTIFY]);
    assert_eq!(side.core.stats(), CoreStats::default());
}

#[test]
fn only_a_request_with_a_reply_is_waited_for() {
    let mut side = Side::begun();
    let no_reply = Request::DeregisterEvents(request::DeregisterEvents::default());
    let error = side.core.request(&no_reply, None).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    let error = side.core.call(no_reply, None).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    assert_eq!(side.core.stats(), CoreStats::default());
}

#[test]
fn forwarded_output_keeps_its_order_among_events_and_is_bounded() {
    let mut side = Side::begun();
    let data = vec![7; 1 << 15];
    let output = Output {
        local_id: 5,
        source: peer(1),
        channel: IofChannel::STDOUT_CHANNEL,
        infos: vec![],
        data: (&data[..]).into(),
    };
    let output = output.encode(side.core.form(), None).unwrap();
    side.event(Status::ERR_PROC_ABORTED, vec![]);
    side.send(Tag::OUTPUT, &output);
    side.event(Status::ERR_PROC_ABORTED, vec![]);
    let stats = side.core.stats();
    assert_eq!((stats.num_events, stats.num_outputs), (2, 1));
    let first = side.core.poll_unsolicited();
    assert!(matches!(first, Some(Unsolicited::Event(_))), "{first:?}");
    match side.core.poll_unsolicited() {
        Some(Unsolicited::Output(came)) => assert_eq!((came.local_id, came.data), (5, data)),
        other => panic!("{other:?} in place of output"),
    }
    assert!(side.core.poll_output().is_none());
    assert!(side.core.poll_event().is_some());
    assert_eq!(side.core.stats(), CoreStats::default());
    // 64 MiB are queued, and no more.
    let most = (64 << 20) / output.len();
    for _ in 0..=most {
        side.send(Tag::OUTPUT, &output);
    }
    let held = side.core.stats();
    assert!((most - 20..=most).contains(&held.num_outputs), "{held:?}");
    let lost = most + 1 - held.num_outputs;
    assert_eq!(side.core.num_lost_events(), lost as u64);
    // There is additional room for events.
    side.event(Status::EVENT_JOB_END, vec![]);
    assert_eq!(side.core.num_lost_events(), lost as u64);
    assert_eq!(
        side.core.poll_event().unwrap().status,
        Status::EVENT_JOB_END
    );
}

#[test]
fn a_reply_is_decoded_by_its_request() {
    let mut side = Side::begun();
    let query = Query {
        keys: vec![keys::QUERY_NAMESPACES.into()],
        qualifiers: vec![],
    };
    let query = side
        .core
        .call(
            Request::Query(request::Query {
                queries: vec![query],
            }),
            None,
        )
        .unwrap();
    let pull = Request::IofPull(request::IofPull {
        procs: vec![peer(1)],
        infos: vec![],
        channels: IofChannel::STDOUT_CHANNEL,
        local_id: 5,
    });
    let pull = side.core.call(pull, None).unwrap();
    let form = *side.core.form();
    let pulled = pmix_proto::reply::Pulled {
        status: Status::SUCCESS,
        remote_id: Some(9),
    };
    side.reply(Command::IOF_PULL, &pulled.encode(&form, None).unwrap());
    let told = pmix_proto::reply::Infos {
        status: Status::QUERY_PARTIAL_SUCCESS,
        infos: Some(vec![Info::new("a", true)]),
    };
    side.reply(Command::QUERY, &told.encode(&form, None).unwrap());
    assert_eq!(
        side.core.poll_completed(),
        Some((pull, Ok(Answer::Pulled(9))))
    );
    let infos = vec![Info::new("a", true)];
    let told = Answer::Infos(Status::QUERY_PARTIAL_SUCCESS, infos);
    assert_eq!(side.core.poll_completed(), Some((query, Ok(told))));
    assert_eq!(side.core.stats(), CoreStats::default());
}

#[test]
fn aborted_joins_and_joins_without_event_registration_complete() {
    let mut side = Side::begun();
    let join = |side: &mut Side, name: &str| {
        let (now, leader) = (side.now, peer(1));
        let joined = side
            .core
            .join(Text::from(name).into_owned(), Some(&leader), &[], None, now);
        joined.unwrap()
    };
    let [first, second, third] = ["a", "b", "c"].map(|name| join(&mut side, name));
    side.core.abort_group(&"b".into(), side.now);
    assert_eq!(side.ended(), [(second, Status::GROUP_CONSTRUCT_ABORT)]);
    let status = Status::ERR_OUT_OF_RESOURCE;
    let refused = pmix_proto::reply::status(side.core.form(), status).unwrap();
    side.reply(Command::REGEVENTS, &refused);
    assert_eq!(side.ended(), [(first, status), (third, status)]);
    // Nothing was sent for the operations.
    assert_eq!(side.asked(), []);
    let fourth = join(&mut side, "d");
    side.succeed(Command::REGEVENTS);
    side.succeed(Command::NOTIFY);
    side.core.abort_group(&"d".into(), side.now);
    assert_eq!(side.ended(), [(fourth, Status::GROUP_CONSTRUCT_ABORT)]);
    assert_eq!(side.asked(), [Command::NOTIFY]);
}

#[test]
fn a_fence_without_processes_is_a_fence_of_the_own_job() {
    let mut side = Side::begun();
    side.asked();
    side.core.call(fence_of_job(), None).unwrap();
    let sent = side.core.poll_transmit().unwrap();
    let request = Request::Fence(pmix_proto::request::Fence {
        procs: vec![side.core.job()],
        infos: vec![],
    });
    let payload = request.encode(side.core.form(), None).unwrap();
    assert!(sent.ends_with(&payload), "{sent:?}");
}

#[test]
fn a_server_that_knows_no_blocks_of_resources_is_not_asked_for_one() {
    let mut side = Side::begun();
    side.asked();
    let directive = pmix_types::ResourceBlockDirective::DEFINE;
    let block = Request::ResourceBlock(request::ResourceBlock {
        directive,
        block: Some("spare".into()),
        units: vec![],
        infos: vec![],
    });
    let error = side.core.call(block, None).unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    assert!(error.to_string().contains("PMIx_Resource_block"), "{error}");
    assert!(side.core.poll_transmit().is_none());
}

#[test]
fn a_removed_key_is_requested_again() {
    let mut side = Side::begun();
    let form = *side.core.form();
    side.core.get(&peer(1), "card", &[], None).unwrap();
    side.reply(Command::GETNB, &brought(&form, &[(1, 7)]));
    side.ended();
    let again = side.core.get(&peer(1), "card", &[], None).unwrap();
    assert_eq!(side.ended(), [(again, Status::SUCCESS)], "it is cached");
    let deleted = |rank, key: &'static str| pmix_proto::Deleted {
        proc: peer(rank),
        scope: pmix_types::Scope::DEL_LOCAL,
        key: key.into(),
    };
    for (rank, key) in [(2, "card"), (1, "other"), (1, "card")] {
        let message = deleted(rank, key).encode(&form, None).unwrap();
        assert_eq!(side.asked(), []);
        side.send(Tag::DELETED, &message);
    }
    let gone = side.core.get(&peer(1), "card", &[], None).unwrap();
    assert_eq!(side.ended(), []);
    assert_eq!(side.asked(), [Command::GETNB]);
    let status = pmix_proto::reply::status(&form, Status::ERR_NOT_FOUND).unwrap();
    side.reply(Command::GETNB, &status);
    assert_eq!(side.ended(), [(gone, Status::ERR_NOT_FOUND)]);
    assert_eq!(side.core.stats(), CoreStats::default());
}

#[test]
fn a_push_completes_when_the_server_accepts_input_again() {
    let mut side = Side::begun();
    let form = *side.core.form();
    let push = |side: &mut Side, end| {
        let push = request::IofPush {
            procs: vec![peer(1)],
            infos: vec![],
            data: Some(b"input".into()),
        };
        side.core.call(Request::IofPush(push), end).unwrap()
    };
    let flow = |side: &mut Side, stop| {
        let flow = pmix_proto::Flow {
            source: Proc::new("", Rank::WILDCARD),
            channel: IofChannel::STDIN_CHANNEL,
            stop,
            infos: vec![],
        };
        let flow = flow.encode(&form, None).unwrap();
        side.send(Tag::FLOW, &flow);
    };
    let status = |status| pmix_proto::reply::status(&form, status).unwrap();
    // The server accepts the input and stops its source.
    let first = push(&mut side, None);
    side.reply(Command::IOF_PUSH, &status(Status::ERR_IOF_XOFF));
    assert_eq!(side.ended(), []);
    flow(&mut side, false);
    assert_eq!(side.ended(), [(first, Status::SUCCESS)]);
    // The stop arrives before the reply. Other operations and failures do not wait.
    flow(&mut side, true);
    let end = side.end();
    let (kept, late, failed) = (
        push(&mut side, None),
        push(&mut side, end),
        push(&mut side, None),
    );
    side.succeed(Command::IOF_PUSH);
    side.succeed(Command::IOF_PUSH);
    side.reply(Command::IOF_PUSH, &status(Status::ERR_BAD_PARAM));
    assert_eq!(side.ended(), [(failed, Status::ERR_BAD_PARAM)]);
    let fence = side.core.call(fence_of_job(), None).unwrap();
    side.succeed(Command::FENCENB);
    assert_eq!(side.ended(), [(fence, Status::SUCCESS)]);
    side.pass(SECOND);
    assert_eq!(side.ended(), [(late, Status::ERR_TIMEOUT)]);
    flow(&mut side, false);
    assert_eq!(side.ended(), [(kept, Status::SUCCESS)]);
    assert_eq!(side.core.stats(), CoreStats::default());
    // A lost server ends a push that waits.
    flow(&mut side, true);
    let lost = push(&mut side, None);
    side.succeed(Command::IOF_PUSH);
    side.core.handle_closed(ErrorKind::ConnectionReset.into());
    assert_eq!(side.ended(), [(lost, Status::ERR_UNREACH)]);
}

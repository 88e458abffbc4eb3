// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job control, registered cleanups, and monitors.

use std::time::Duration;

use pmix_engine::{Cleanup, Config, EngineEvent, HostReply, Upcall};
use pmix_proto::{Hello, Request, reply, request};
use pmix_types::{Info, IntoOwned, Nspace, Proc, Rank, Status, Text, Value, keys};

use crate::ledger::{Ledger, codes, events, tool};
use crate::world::{UID, Who, World, hello};

pub(crate) fn proc(rank: u32) -> Proc<'static> {
    Proc::new("job", Rank::new(rank))
}

fn control(targets: Vec<Proc<'static>>, infos: Vec<Info<'static>>) -> Request<'static> {
    Request::JobControl(request::JobControl { targets, infos })
}

fn cleanup(path: &'static str) -> Vec<Info<'static>> {
    vec![Info::new(keys::REGISTER_CLEANUP, path)]
}

fn monitor(
    key: &'static str,
    value: Value<'static>,
    infos: Vec<Info<'static>>,
) -> Request<'static> {
    Request::Monitor(request::Monitor {
        monitor: Info::new(key, value),
        error: Status::MONITOR_HEARTBEAT_ALERT,
        infos,
    })
}

fn job(num_procs: u32) -> (World, Vec<Who>) {
    let mut world = World::new(1);
    world.job("job", &[num_procs]);
    let all = world.join_all("job", &[num_procs]);
    (world, all)
}

/// Connects the only process of a job, of a release that has every command.
pub(crate) fn newest() -> (World, Who) {
    let mut world = World::new(1);
    world.job("job", &[1]);
    let who = world.connect(
        0,
        &Hello {
            version: "7.0.0".into(),
            module: "v61".into(),
            ..hello("job", 0)
        },
    );
    world.run();
    (world, who)
}

/// Removes and returns the cleanups that the driver received.
fn cleanups(world: &mut World) -> Vec<(Proc<'static>, Vec<String>)> {
    let outcomes = std::mem::take(&mut world.nodes[0].events).into_iter();
    let cleanup = |event| match event {
        EngineEvent::Cleanup {
            target,
            user,
            cleanup: Cleanup { files, .. },
        } => {
            assert_eq!(user, (UID, UID), "the host gets the user of the requester");
            Some((target, files.iter().map(Text::to_string).collect()))
        }
        _ => None,
    };
    outcomes.filter_map(cleanup).collect()
}

/// Returns the status and the infos of a reply.
pub(crate) fn infos(
    world: &mut World,
    who: Who,
    request: &Request<'_>,
) -> (Status, Vec<Info<'static>>) {
    let tag = world.ask(who, request);
    world.run();
    let client = &world.clients[who];
    let response = client.reply(tag).expect("no reply");
    let form = client.session.form();
    let reply = reply::Infos::decode(form, None, &response.payload).unwrap();
    (reply.status, reply.infos.unwrap_or_default().into_owned())
}

#[test]
fn cleanups_are_stored_and_returned_at_the_end() {
    let (mut world, all) = job(3);
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    let asked = [
        (0, vec![proc(0)], "/t/own"),
        (1, vec![proc(2)], "/t/other"),
        (1, vec![], "/t/job"),
        (2, vec![Proc::new("job", Rank::WILDCARD)], "/t/all"),
    ];
    for (who, targets, path) in asked {
        let status = world.status_of(all[who], &control(targets, cleanup(path)));
        assert_eq!(status, Some(Status::SUCCESS), "{path}");
    }
    assert_eq!(ledger.take("JobControl"), [], "the host need not know");
    assert_eq!(cleanups(&mut world), []);
    world.kill(all[0]);
    assert_eq!(cleanups(&mut world), [(proc(0), vec!["/t/own".into()])]);
    let status = world.status_of(all[2], &Request::Finalize);
    assert_eq!(status, Some(Status::SUCCESS));
    world.kill(all[2]);
    assert_eq!(
        cleanups(&mut world),
        [],
        "a finalized process has not terminated"
    );
    let engine = &mut world.nodes[0].engine;
    engine.deregister_client(&proc(2)).unwrap();
    world.run();
    assert_eq!(cleanups(&mut world), [(proc(2), vec!["/t/other".into()])]);
    let engine = &mut world.nodes[0].engine;
    engine.deregister_nspace(&Nspace::new("job")).unwrap();
    world.run();
    let whole = Proc::new("job", Rank::WILDCARD);
    let both = vec!["/t/job".into(), "/t/all".into()];
    assert_eq!(cleanups(&mut world), [(whole, both)]);
}

#[test]
fn a_registered_cleanup_is_reported_once() {
    let (mut world, all) = job(2);
    let registered = |world: &mut World, infos: Vec<Info<'static>>| {
        let status = world.status_of(all[0], &control(vec![proc(0), proc(1)], infos));
        assert_eq!(status, Some(Status::SUCCESS));
        let events = std::mem::take(&mut world.nodes[0].events).into_iter();
        let told = events.filter_map(|event| match event {
            EngineEvent::CleanupRegistered { cleanup, .. } => Some(cleanup),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let files = |told: Vec<Cleanup>| told.into_iter().map(|new| new.files).collect::<Vec<_>>();
    let told = files(registered(&mut world, cleanup("/t/a,/t/a")));
    assert_eq!(told, [["/t/a"].map(Text::from), ["/t/a"].map(Text::from)]);
    assert_eq!(registered(&mut world, cleanup("/t/a")), []);
    let told = files(registered(&mut world, cleanup("/t/a,/t/b")));
    assert_eq!(told[1], ["/t/b"].map(Text::from));
    // A directory is reported again when more of it is to be removed.
    for (recursive, num_told) in [(false, 2), (false, 0), (true, 2), (false, 0)] {
        let flag = Info::new(keys::CLEANUP_RECURSIVE, recursive);
        let infos = vec![Info::new(keys::REGISTER_CLEANUP_DIR, "/t/d"), flag];
        let told = registered(&mut world, infos);
        assert_eq!(told.len(), num_told, "{told:?}");
        assert!(
            told.iter()
                .all(|new| new.directories[0].recursive == recursive)
        );
    }
}

#[test]
fn cleanups_of_a_tool_are_returned_when_it_disconnects() {
    let mut world = World::new(1);
    let who = tool(&mut world, 0);
    let status = world.status_of(who, &control(vec![], cleanup("/t/tool")));
    assert_eq!(status, Some(Status::SUCCESS));
    assert_eq!(
        world.status_of(who, &Request::Finalize),
        Some(Status::SUCCESS)
    );
    world.kill(who);
    let cleanups = cleanups(&mut world);
    assert_eq!(cleanups.len(), 1);
    assert_eq!(cleanups[0].0.rank, Rank::WILDCARD);
}

#[test]
fn cleanups_for_other_users_and_nodes_are_refused() {
    let mut world = World::new(2);
    world.job("job", &[1, 1]);
    world.job_of("foreign", &[1], 7);
    let who = world.join(0, "job", 0);
    let foreign = Proc::new("foreign", Rank::WILDCARD);
    let unknown = Proc::new("unknown", Rank::WILDCARD);
    let cases = [
        (foreign, "/t/x", Status::ERR_NO_PERMISSIONS),
        (unknown, "/t/x", Status::ERR_NOT_FOUND),
        (proc(1), "/t/x", Status::ERR_NOT_FOUND),
        (proc(0), "t/x", Status::ERR_BAD_PARAM),
        (proc(0), "/t/../x", Status::ERR_BAD_PARAM),
    ];
    for (target, path, expected) in cases {
        let request = control(vec![target.clone()], cleanup(path));
        let status = world.status_of(who, &request);
        assert_eq!(status, Some(expected), "{target:?} {path}");
    }
    world.kill(who);
    assert_eq!(cleanups(&mut world), []);
}

#[test]
fn other_job_controls_are_forwarded_to_the_host() {
    let (mut world, all) = job(1);
    let told = vec![Info::new("said", 7_u32)];
    let answer = HostReply::Infos(Status::SUCCESS, told.clone());
    let ledger = Ledger::answering(&mut world, answer);
    let asked = [cleanup("/t/x"), vec![Info::new(keys::JOB_CTRL_PAUSE, true)]].concat();
    let request = control(vec![], asked);
    assert_eq!(infos(&mut world, all[0], &request), (Status::SUCCESS, told));
    let Upcall::JobControl(call) = ledger.one("JobControl") else {
        panic!();
    };
    assert_eq!((call.proc, call.targets), (proc(0), vec![]));
    let done: Vec<_> = call.directives.iter().map(Info::was_processed).collect();
    assert_eq!(
        done,
        [true, false, false, false],
        "the user of the requester follows the directives"
    );
    Ledger::answering(&mut world, HostReply::NotSupported);
    let refused = infos(&mut world, all[0], &request);
    assert_eq!(refused, (Status::ERR_NOT_SUPPORTED, vec![]));
}

#[test]
fn missed_heartbeats_are_reported_to_the_job_and_the_process() {
    let alert = Status::MONITOR_HEARTBEAT_ALERT;
    let (mut world, all) = job(2);
    for who in &all {
        let codes = vec![alert];
        let register = request::RegisterEvents {
            codes,
            infos: vec![],
        };
        world.status_of(*who, &Request::RegisterEvents(register));
    }
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    let promise = monitor(
        keys::MONITOR_HEARTBEAT,
        Value::Pointer(()),
        vec![
            Info::new(keys::MONITOR_ID, "MONITOR1"),
            Info::new(keys::MONITOR_HEARTBEAT_TIME, 5_u32),
            Info::new(keys::MONITOR_HEARTBEAT_DROPS, 1_u32),
        ],
    );
    assert_eq!(world.status_of(all[0], &promise), Some(Status::SUCCESS));
    assert_eq!(ledger.take("Monitor"), [], "it is watched here");
    for _ in 0..5 {
        world.advance(Duration::from_secs(9));
        world.clients[all[0]].session.heartbeat().unwrap();
        world.run();
    }
    assert_eq!(codes(&mut world, all[1]), []);
    world.advance(Duration::from_secs(10));
    for who in &all {
        let told = events(&mut world, *who);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].status, &told[0].source), (alert, &proc(0)));
        let affected = Info::new(keys::EVENT_AFFECTED_PROC, proc(0));
        assert!(told[0].infos.contains(&affected));
        assert!(
            told[0]
                .infos
                .contains(&Info::new(keys::MONITOR_ID, "MONITOR1"))
        );
    }
    assert_eq!(ledger.take("NotifyEvent").len(), 1);
    world.advance(Duration::from_secs(100));
    assert_eq!(
        codes(&mut world, all[1]),
        [],
        "the missed heartbeat is reported once"
    );
    let beat = monitor(keys::SEND_HEARTBEAT, Value::Undef, vec![]);
    assert_eq!(world.status_of(all[0], &beat), Some(Status::SUCCESS));
    world.advance(Duration::from_secs(10));
    assert_eq!(
        codes(&mut world, all[1]).len(),
        1,
        "it is reported again after a heartbeat"
    );
    let cancel = |id| monitor(keys::MONITOR_CANCEL, Value::from(id), vec![]);
    assert_eq!(
        world.status_of(all[0], &cancel("MONITOR2")),
        Some(Status::ERR_NOT_SUPPORTED),
        "other monitors are forwarded to the host"
    );
    assert_eq!(
        world.status_of(all[0], &cancel("MONITOR1")),
        Some(Status::SUCCESS)
    );
    world.clients[all[0]].session.heartbeat().unwrap();
    world.advance(Duration::from_secs(100));
    assert_eq!(codes(&mut world, all[1]), []);
    assert_eq!(world.nodes[0].engine.poll_timeout(), None);
}

#[test]
fn an_alert_with_a_code_of_the_server_is_refused() {
    let (mut world, all) = job(1);
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    let with = |key, error| {
        let monitor = Info::new(key, "/file");
        let infos = vec![Info::new(keys::MONITOR_HEARTBEAT_TIME, 5_u32)];
        Request::Monitor(request::Monitor {
            monitor,
            error,
            infos,
        })
    };
    for alert in [
        Status::EVENT_JOB_END,
        Status::ERR_JOB_ABORTED,
        Status::EVENT_PROC_TERMINATED,
        Status::ERR_PROC_RESTART,
        Status::GROUP_MEMBER_FAILED,
        Status::ERR_LOST_CONNECTION_TO_SERVER,
        Status::DEBUGGER_RELEASE,
        Status::EVENT_NODE_DOWN,
    ] {
        for key in [keys::MONITOR_FILE, keys::MONITOR_HEARTBEAT] {
            let refused = world.status_of(all[0], &with(key, alert));
            assert_eq!(refused, Some(Status::ERR_BAD_PARAM), "{alert}");
        }
    }
    assert_eq!(ledger.take("Monitor"), []);
    // A code of the program, and a standard code for its subject.
    for alert in [Status::from_raw(-3001), Status::MONITOR_FILE_ALERT] {
        let asked = world.status_of(all[0], &with(keys::MONITOR_FILE, alert));
        assert_eq!(asked, Some(Status::ERR_NOT_SUPPORTED), "the host is asked");
        let own = world.status_of(all[0], &with(keys::MONITOR_HEARTBEAT, alert));
        assert_eq!(own, Some(Status::SUCCESS));
    }
    // A cancellation raises no event.
    let cancel = with(keys::MONITOR_CANCEL, Status::EVENT_JOB_END);
    assert_eq!(
        world.status_of(all[0], &cancel),
        Some(Status::ERR_NOT_SUPPORTED)
    );
}

#[test]
fn cancelling_all_monitors_includes_those_of_the_host() {
    let (mut world, all) = job(1);
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    let time = vec![Info::new(keys::MONITOR_HEARTBEAT_TIME, 5_u32)];
    let promise = monitor(keys::MONITOR_HEARTBEAT, Value::Undef, time);
    assert_eq!(world.status_of(all[0], &promise), Some(Status::SUCCESS));
    let cancel = monitor(keys::MONITOR_CANCEL, Value::String(None), vec![]);
    assert_eq!(world.status_of(all[0], &cancel), Some(Status::SUCCESS));
    assert_eq!(world.nodes[0].engine.poll_timeout(), None);
    assert_eq!(ledger.take("Monitor").len(), 1);
}

#[test]
fn monitors_of_an_exited_process_are_removed() {
    let (mut world, all) = job(1);
    let time = vec![Info::new(keys::MONITOR_HEARTBEAT_TIME, 5_u32)];
    let promise = monitor(keys::MONITOR_HEARTBEAT, Value::Undef, time);
    assert_eq!(world.status_of(all[0], &promise), Some(Status::SUCCESS));
    assert!(world.nodes[0].engine.poll_timeout().is_some());
    world.kill(all[0]);
    assert_eq!(world.nodes[0].engine.poll_timeout(), None);
}

#[test]
fn other_monitors_are_forwarded_to_the_host() {
    let (mut world, all) = job(1);
    let ledger = Ledger::answering(&mut world, HostReply::NotSupported);
    let file = monitor(keys::MONITOR_FILE, Value::from("/t/x"), vec![]);
    let status = world.status_of(all[0], &file);
    assert_eq!(status, Some(Status::ERR_NOT_SUPPORTED));
    let Upcall::Monitor(call) = ledger.one("Monitor") else {
        panic!();
    };
    assert_eq!(call.monitor, Info::new(keys::MONITOR_FILE, "/t/x"));
    assert_eq!(call.error, Status::MONITOR_HEARTBEAT_ALERT);
    let timeless = monitor(keys::MONITOR_HEARTBEAT, Value::Undef, vec![]);
    let status = world.status_of(all[0], &timeless);
    assert_eq!(status, Some(Status::ERR_BAD_PARAM));
}

#[test]
fn heartbeats_without_a_local_monitor_are_forwarded_to_the_host() {
    let mut config = Config::default();
    config.watches_heartbeats = false;
    let mut world = World::with(1, &config);
    world.job("job", &[1]);
    let all = world.join_all("job", &[1]);
    let ledger = Ledger::answering(&mut world, HostReply::Infos(Status::SUCCESS, vec![]));
    let time = vec![Info::new(keys::MONITOR_HEARTBEAT_TIME, 5_u32)];
    for (key, infos) in [
        (keys::MONITOR_HEARTBEAT, time),
        (keys::SEND_HEARTBEAT, vec![]),
    ] {
        let request = monitor(key, Value::Undef, infos);
        assert_eq!(world.status_of(all[0], &request), Some(Status::SUCCESS));
        let Upcall::Monitor(call) = ledger.one("Monitor") else {
            panic!();
        };
        assert_eq!(call.monitor, Info::new(key, Value::Undef));
    }
    assert_eq!(world.nodes[0].engine.poll_timeout(), None);
}

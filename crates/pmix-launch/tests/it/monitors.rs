// SPDX-License-Identifier: MIT OR Apache-2.0
//! Monitors of processes, and queries of resource usage.

use std::path::PathBuf;
use std::time::Duration;

use pmix_client::Client;
use pmix_proto::{Event, Request, reply, request};
use pmix_types::{DataArray, Info, IntoOwned, Proc, Query, Rank, Status, Value, keys};

use crate::actors::{peer, rank, wait_for_all};
use crate::stage::{play, play_with};

/// A limit that is longer than everything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(50);

#[test]
fn a_stalled_file_is_reported_to_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("steps");
    std::fs::write(&file, "1").unwrap();
    let played = play_with("watch", 2, &[("PLACE", &file)]);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let said = format!(
        "told to 0: m1 of 0 at {path}\ntold to 1: m1 of 0 at {path}\n",
        path = file.display()
    );
    assert_eq!(played.output, said);
}

#[test]
fn resource_usage_of_processes_and_node_is_reported_once_and_periodically() {
    let played = play("used", 2);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let ranks = played.outcome.ranks.iter();
    let expected: Vec<_> = ranks.map(|r| format!("{} {}", r.rank, r.pid)).collect();
    let told: Vec<_> = played.output.lines().collect();
    assert_eq!(told, expected);
}

type Told = (Status, Vec<Info<'static>>);

fn ask(
    client: &mut Client,
    key: &'static str,
    value: Value<'static>,
    infos: Vec<Info<'static>>,
) -> Told {
    let monitor = request::Monitor {
        monitor: Info::new(key, value),
        error: Status::SUCCESS,
        infos,
    };
    answer(client, Request::Monitor(monitor))
}

fn query(client: &mut Client, key: &'static str, qualifiers: Vec<Info<'static>>) -> Told {
    let query = Query {
        keys: vec![key.into()],
        qualifiers,
    };
    let queries = vec![query];
    answer(client, Request::Query(request::Query { queries }))
}

fn answer(client: &mut Client, request: Request<'_>) -> Told {
    let payload = client.request(request).wait().unwrap();
    let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
    let infos = answer.infos.unwrap_or_default();
    (
        answer.status,
        infos.into_iter().map(IntoOwned::into_owned).collect(),
    )
}

fn event(client: &mut Client) -> Event<'static> {
    client
        .next_event(LIMIT)
        .unwrap()
        .expect("an event comes in time")
}

fn value<'i>(infos: &'i [Info<'static>], key: &str) -> Option<&'i Value<'static>> {
    let info = infos.iter().find(|info| info.key.is(key));
    info.map(|info| &info.value)
}

/// Rank 0 monitors a file that no process writes, and both ranks receive the event.
#[allow(
    clippy::disallowed_methods,
    reason = "the environment has the path of the file"
)]
pub(crate) fn watch(mut client: Client) {
    let file = PathBuf::from(std::env::var_os("PLACE").unwrap());
    client
        .register_events([Status::MONITOR_FILE_ALERT], &[])
        .wait()
        .unwrap();
    wait_for_all(&mut client);
    let path = || Value::from(file.to_str().unwrap().to_owned());
    if rank(&client) == 0 {
        let every = |seconds: u32| Info::new(keys::MONITOR_FILE_CHECK_TIME, seconds);
        for (path, infos, refused) in [
            (path(), vec![], Status::ERR_BAD_PARAM),
            (path(), vec![every(0)], Status::ERR_BAD_PARAM),
            (Value::from("steps"), vec![every(1)], Status::ERR_BAD_PARAM),
            (Value::Bool(true), vec![every(1)], Status::ERR_BAD_PARAM),
            (
                path(),
                vec![every(1), Info::new(keys::MONITOR_FILE_DROPS, "x")],
                Status::ERR_BAD_PARAM,
            ),
        ] {
            let told = ask(&mut client, keys::MONITOR_FILE, path, infos);
            assert_eq!(told, (refused, vec![]));
        }
        let infos = vec![
            every(1),
            Info::new(keys::MONITOR_FILE_SIZE, true),
            Info::new(keys::MONITOR_ID, "m1"),
        ];
        let told = ask(&mut client, keys::MONITOR_FILE, path(), infos);
        assert_eq!(told, (Status::SUCCESS, vec![]));
    }
    let event = event(&mut client);
    let Some(Value::String(Some(id))) = value(&event.infos, keys::MONITOR_ID) else {
        panic!("{event:?}");
    };
    let Some(Value::Proc(whose)) = value(&event.infos, keys::EVENT_AFFECTED_PROC) else {
        panic!("{event:?}");
    };
    assert_eq!(event.status, Status::MONITOR_FILE_ALERT);
    assert_eq!(event.source, *whose, "the process that is monitored");
    assert_eq!(value(&event.infos, keys::MONITOR_FILE), Some(&path()));
    println!(
        "told to {}: {id} of {} at {}",
        rank(&client),
        whose.rank,
        file.display()
    );
    // A process can cancel only its own monitor, and only once.
    let mut cancel =
        |name: &'static str| ask(&mut client, keys::MONITOR_CANCEL, name.into(), vec![]).0;
    let cancelled = [cancel("m1"), cancel("m1")];
    match rank(&client) {
        0 => assert_eq!(cancelled, [Status::SUCCESS, Status::ERR_NOT_FOUND]),
        _ => assert_eq!(cancelled, [Status::ERR_NOT_FOUND; 2]),
    }
    client.finalize().unwrap();
}

/// Rank 0 requests all usage, once and every second. Both ranks print their process ids.
pub(crate) fn used(mut client: Client) {
    client
        .register_events([Status::MONITOR_RESUSAGE_UPDATE], &[])
        .wait()
        .unwrap();
    wait_for_all(&mut client);
    if rank(&client) == 0 {
        by_monitor(&mut client);
        by_query(&mut client);
        again_and_again(&mut client);
    }
    wait_for_all(&mut client);
    if rank(&client) == 1 {
        // Only the requester receives usage events.
        assert!(client.next_event(Duration::ZERO).unwrap().is_none());
    }
    println!("{} {}", rank(&client), std::process::id());
    client.finalize().unwrap();
}

fn by_monitor(client: &mut Client) {
    let (status, infos) = ask(
        client,
        keys::MONITOR_PROC_RESOURCE_USAGE,
        Value::Undef,
        vec![],
    );
    assert_eq!((status, infos.len()), (Status::SUCCESS, 2));
    let own = infos
        .first()
        .and_then(|info| info.value.as_infos().ok())
        .unwrap();
    let own: Vec<_> = own.iter().map(|info| info.clone().into_owned()).collect();
    assert_eq!(
        value(&own, keys::PROCID),
        Some(&Value::Proc(peer(client, 0)))
    );
    let pid = i32::try_from(std::process::id()).unwrap();
    assert_eq!(value(&own, keys::PROC_PID), Some(&Value::Pid(pid)));
    assert_eq!(value(&own, keys::HOSTNAME), Some(&Value::from("here")));
    for key in [
        keys::PROC_RSS,
        keys::PROC_PSS,
        keys::PROC_VSIZE,
        keys::PROC_PEAK_VSIZE,
    ] {
        let Some(Value::Float(megabytes)) = value(&own, key) else {
            panic!("{key}: {own:?}");
        };
        assert!(*megabytes > 0.0, "{key}");
    }
    // Names one process, and requests the type of releases 4.2 and 5.0, which clients that know it can use.
    let one = |rank| Value::from(vec![peer(client, rank)]);
    let (one, stranger) = (one(1), one(7));
    let only = |procs| vec![Info::new(keys::MONITOR_TARGET_PROCS, procs)];
    let array = |array| Value::DataArray(array);
    let typed = array(DataArray::ProcStats(vec![]));
    let (status, infos) = ask(client, keys::MONITOR_PROC_RESOURCE_USAGE, typed, only(one));
    assert_eq!(status, Status::SUCCESS);
    let Value::DataArray(DataArray::ProcStats(stats)) = &infos[0].value else {
        panic!("{infos:?}");
    };
    assert_eq!((stats.len(), &stats[0].proc), (1, &peer(client, 1)));
    assert!(stats[0].rss > 0.0 && stats[0].pid > 0);
    let told = ask(
        client,
        keys::MONITOR_PROC_RESOURCE_USAGE,
        Value::Undef,
        only(stranger),
    );
    assert_eq!(told, (Status::ERR_NOT_FOUND, vec![]));
    let typed = array(DataArray::NodeStats(vec![]));
    let (_, infos) = ask(client, keys::MONITOR_NODE_RESOURCE_USAGE, typed, vec![]);
    let Value::DataArray(DataArray::NodeStats(nodes)) = &infos[0].value else {
        panic!("{infos:?}");
    };
    assert!(nodes[0].total_mem > 0.0 && nodes[0].node == Some("here".into()));
    let elsewhere = DataArray::String(vec![Some("there".into())]);
    let elsewhere = vec![Info::new(keys::MONITOR_TARGET_NODES, array(elsewhere))];
    let (status, _) = ask(
        client,
        keys::MONITOR_NODE_RESOURCE_USAGE,
        Value::Undef,
        elsewhere,
    );
    assert_eq!(status, Status::ERR_NOT_FOUND);
    let lo = DataArray::String(vec![Some("lo".into())]);
    let lo = vec![Info::new(keys::MONITOR_TARGET_NETS, array(lo))];
    let (status, infos) = ask(client, keys::MONITOR_NET_RESOURCE_USAGE, Value::Undef, lo);
    assert_eq!((status, infos.len()), (Status::SUCCESS, 1));
    let wrong = vec![Info::new(keys::MONITOR_TARGET_NETS, true)];
    let (status, _) = ask(
        client,
        keys::MONITOR_NET_RESOURCE_USAGE,
        Value::Undef,
        wrong,
    );
    assert_eq!(status, Status::ERR_BAD_PARAM);
    let (status, _) = ask(client, "pmix.monitor.moon", Value::Undef, vec![]);
    assert_eq!(status, Status::ERR_NOT_SUPPORTED);
}

fn by_query(client: &mut Client) {
    let whom = |rank: u32| {
        vec![
            Info::new(keys::NSPACE, "used@1"),
            Info::new(keys::RANK, Rank::new(rank)),
            Info::new(keys::PROC_RSS, true),
        ]
    };
    let (status, infos) = query(client, keys::QUERY_PROC_RESOURCE_USAGE, whom(1));
    assert_eq!((status, infos.len()), (Status::SUCCESS, 1), "{infos:?}");
    assert!(infos[0].key.is(keys::QUERY_PROC_RESOURCE_USAGE));
    let procs = infos[0].value.as_infos().unwrap();
    let figures = procs[0].value.as_infos().unwrap();
    assert_eq!((procs.len(), figures.len()), (1, 4), "{figures:?}");
    let (status, infos) = query(client, keys::QUERY_NODE_RESOURCE_USAGE, vec![]);
    assert_eq!((status, infos.len()), (Status::SUCCESS, 1));
    let (status, infos) = query(client, keys::QUERY_MEMORY_USAGE, vec![]);
    assert_eq!(status, Status::SUCCESS);
    let told = infos[0].value.as_infos().unwrap();
    let keys: Vec<_> = told.iter().map(|info| info.key.to_string()).collect();
    let expected = [
        keys::HOSTNAME,
        keys::DAEMON_MEMORY,
        keys::CLIENT_AVG_MEMORY,
        keys::PROC_RESOURCE_USAGE,
        keys::PROC_RESOURCE_USAGE,
    ];
    assert_eq!(keys, expected);
    let average = vec![Info::new(keys::QUERY_REPORT_AVG, true)];
    let (_, infos) = query(client, keys::QUERY_MEMORY_USAGE, average);
    assert_eq!(infos[0].value.as_infos().unwrap().len(), 3);
    // The number of rows in a reply is bounded.
    let many = (0..2100).map(|_| Query {
        keys: vec![keys::QUERY_PROC_RESOURCE_USAGE.into()],
        qualifiers: vec![
            Info::new(keys::NSPACE, "used@1"),
            Info::new(keys::PROC_RSS, true),
        ],
    });
    let queries = many.collect();
    let (status, infos) = answer(client, Request::Query(request::Query { queries }));
    assert_eq!((status, infos.len()), (Status::ERR_PARTIAL_SUCCESS, 2048));
    let nobody = vec![Info::new(keys::NSPACE, "nobody")];
    let told = query(client, keys::QUERY_PROC_RESOURCE_USAGE, nobody);
    assert_eq!(told, (Status::ERR_NOT_FOUND, vec![]));
}

fn again_and_again(client: &mut Client) {
    let infos = |name: &'static str| {
        vec![
            Info::new(keys::MONITOR_RESOURCE_RATE, 1_u32),
            Info::new(keys::MONITOR_ID, name),
            Info::new(
                keys::MONITOR_TARGET_PROCS,
                Value::from(vec![Proc::new("used@1", Rank::WILDCARD)]),
            ),
        ]
    };
    let rss = || Value::DataArray(DataArray::Info(vec![Info::new(keys::PROC_RSS, true)]));
    let (status, first) = ask(
        client,
        keys::MONITOR_PROC_RESOURCE_USAGE,
        rss(),
        infos("u1"),
    );
    assert_eq!((status, first.len()), (Status::SUCCESS, 2));
    let event = event(client);
    assert_eq!(event.status, Status::MONITOR_RESUSAGE_UPDATE);
    assert_eq!(
        value(&event.infos, keys::MONITOR_ID),
        Some(&Value::from("u1"))
    );
    let told = event
        .infos
        .iter()
        .filter(|info| info.key.is(keys::PROC_RESOURCE_USAGE));
    assert_eq!(told.count(), 2);
    // The number of monitors is bounded.
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(
            ask(
                client,
                keys::MONITOR_PROC_RESOURCE_USAGE,
                rss(),
                infos("more"),
            )
            .0,
        );
    }
    assert_eq!(statuses.pop(), Some(Status::ERR_OUT_OF_RESOURCE));
    assert!(
        statuses.iter().all(|status| status.is_success()),
        "{statuses:?}"
    );
    let all = ask(client, keys::MONITOR_CANCEL, Value::String(None), vec![]);
    assert_eq!(all.0, Status::SUCCESS);
    let again = ask(client, keys::MONITOR_CANCEL, "u1".into(), vec![]);
    assert_eq!(again.0, Status::ERR_NOT_FOUND);
}

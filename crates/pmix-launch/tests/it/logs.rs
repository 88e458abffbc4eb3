// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log requests of processes: channels, forms, and missing channels.

use std::os::unix::net::UnixDatagram;

use pmix_client::Client;
use pmix_proto::{Request, reply, request};
use pmix_types::{Info, Status, Value, keys};

use crate::actors::{rank, wait_for_all};
use crate::stage::play_plan;

#[test]
fn each_channel_takes_what_is_for_it_and_those_that_are_missing_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("log");
    let daemon = UnixDatagram::bind(&socket).unwrap();
    let played = play_plan("channels", 1, &[], |plan| plan.syslog = socket);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    daemon.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2048];
    let mut received = Vec::new();
    while let Ok(len) = daemon.recv(&mut buffer) {
        received.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
    }
    let front = format!("pmix-run[{}]: channels@1,0: ", std::process::id());
    let expected = [
        format!("<9>{front}to syslog"),
        format!("<14>{front}to both"),
        format!("<9>{front}once"),
    ];
    assert_eq!(received, expected);
    let said = "[Thu Jan  1 00:00:07 1970][stdout] with a stamp\nto both\n";
    assert_eq!(played.output, said);
    assert_eq!(played.errors, "as text\n");
}

#[test]
fn where_no_daemon_logs_that_is_the_answer() {
    let played = play_plan("no_daemon", 1, &[], |_| {});
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(played.output, "once\n");
}

#[test]
fn messages_that_are_alike_are_written_once() {
    let played = play_plan("alike", 4, &[], |_| {});
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(
        played.output,
        "alike\nnot alike\nnot alike\nnot alike\nnot alike\n"
    );
}

fn log(client: &mut Client, data: Vec<Info<'static>>, directives: Vec<Info<'static>>) -> Status {
    let request = request::Log {
        time: 7,
        data,
        directives,
    };
    let payload = client.request(Request::Log(request)).wait().unwrap();
    reply::Done::decode(client.form(), None, &payload)
        .unwrap()
        .status
}

pub(crate) fn channels(mut client: Client) {
    let to = |key: &'static str, text: &'static str| Info::new(key, text);
    let yes = |key: &'static str| Info::new(key, true);
    let (partial, unsupported) = (Status::ERR_PARTIAL_SUCCESS, Status::ERR_NOT_SUPPORTED);
    let bytes = Value::ByteObject(b"as text\n"[..].into());
    for (data, directives, status) in [
        (
            vec![to(keys::LOG_SYSLOG, "to syslog\n")],
            vec![],
            Status::SUCCESS,
        ),
        (
            vec![
                to(keys::LOG_STDOUT, "to both\n"),
                to(keys::LOG_LOCAL_SYSLOG, "to both"),
            ],
            vec![Info::new(keys::LOG_SYSLOG_PRI, 6)],
            Status::SUCCESS,
        ),
        (
            vec![
                to(keys::LOG_EMAIL, "x"),
                to(keys::LOG_GLOBAL_SYSLOG, "once"),
                to(keys::LOG_STDOUT, "x"),
            ],
            vec![yes(keys::LOG_ONCE)],
            Status::SUCCESS,
        ),
        (
            vec![
                to(keys::LOG_STDOUT, "with a stamp\n"),
                to(keys::LOG_JOB_RECORD, "x"),
            ],
            vec![yes(keys::LOG_TIMESTAMP_OUTPUT), yes(keys::LOG_TAG_OUTPUT)],
            partial,
        ),
        (
            vec![
                Info::new(keys::LOG_STDERR, bytes),
                Info::new(keys::LOG_STDOUT, 7),
            ],
            vec![],
            partial,
        ),
        (vec![to(keys::LOG_EMAIL, "x")], vec![], unsupported),
        (
            vec![to(keys::LOG_GLOBAL_DATASTORE, "x")],
            vec![],
            unsupported,
        ),
        (vec![to(keys::LOG_MSG, "x")], vec![], unsupported),
        (vec![to("text", "x")], vec![], unsupported),
        (
            vec![Info::new(keys::LOG_STDOUT, 7)],
            vec![],
            Status::ERR_BAD_PARAM,
        ),
        (
            vec![to(keys::LOG_SYSLOG, "x")],
            vec![Info::new(keys::LOG_SYSLOG_PRI, 1000)],
            Status::ERR_BAD_PARAM,
        ),
    ] {
        let said = format!("{data:?}");
        assert_eq!(log(&mut client, data, directives), status, "{said}");
    }
    client.finalize().unwrap();
}

pub(crate) fn no_daemon(mut client: Client) {
    let data = || {
        vec![
            Info::new(keys::LOG_SYSLOG, "x"),
            Info::new(keys::LOG_STDOUT, "once\n"),
        ]
    };
    let alone = vec![Info::new(keys::LOG_SYSLOG, "x")];
    assert_eq!(log(&mut client, alone, vec![]), Status::ERR_NOT_AVAILABLE);
    let once = vec![Info::new(keys::LOG_ONCE, true)];
    assert_eq!(log(&mut client, data(), once), Status::SUCCESS);
    client.finalize().unwrap();
}

pub(crate) fn alike(mut client: Client) {
    let alike = vec![
        Info::new(keys::LOG_AGG, true),
        Info::new(keys::LOG_KEY, "help-mpi.txt"),
        Info::new(keys::LOG_VAL, "no-device"),
    ];
    let text = vec![Info::new(keys::LOG_STDOUT, "alike\n")];
    assert_eq!(log(&mut client, text, alike.clone()), Status::SUCCESS);
    let apart = [&alike[1..], &[Info::new(keys::LOG_AGG, false)]].concat();
    let text = vec![Info::new(keys::LOG_STDOUT, "not alike\n")];
    assert_eq!(log(&mut client, text, apart), Status::SUCCESS);
    // Messages equal to one that reached no channel must not succeed.
    let lost = vec![
        Info::new(keys::LOG_AGG, true),
        Info::new(keys::LOG_KEY, "help-mpi.txt"),
        Info::new(keys::LOG_VAL, "no-mail"),
    ];
    for _ in 0..2 {
        let mail = vec![Info::new(keys::LOG_EMAIL, "x")];
        let status = log(&mut client, mail, lost.clone());
        assert_eq!(status, Status::ERR_NOT_SUPPORTED);
    }
    wait_for_all(&mut client);
    assert!(rank(&client) < 4);
    client.finalize().unwrap();
}

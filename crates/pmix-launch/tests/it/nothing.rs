// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that name nothing, or only absent objects. The reply of server and launcher is data or an error, never a
//! success without data.

use pmix_client::{Client, Error};
use pmix_types::{
    AllocDirective, App, Info, IofChannel, Nspace, Proc, Query, Rank, Status, Value, keys,
};

use crate::stage::play_plan;

/// The outcome of a call that returns data: their number, or the status of the error.
type Brought = Result<usize, Status>;

fn status_of(error: &Error) -> Status {
    error.status()
}

/// Returns the outcome of a reply with infos.
fn infos(answer: Result<(Status, Vec<Info<'static>>), Error>) -> Brought {
    match answer {
        Ok((Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS, found)) => Ok(found.len()),
        Ok((status, _)) => Err(status),
        Err(error) => Err(status_of(&error)),
    }
}

/// Returns the outcome of a reply without data of its own: a success counts as one without data.
fn done(answer: Result<(), Error>) -> Brought {
    answer.map(|()| 0).map_err(|error| status_of(&error))
}

fn query(key: &'static str, qualifiers: Vec<Info<'static>>) -> Query<'static> {
    Query {
        keys: vec![key.into()],
        qualifiers,
    }
}

/// Sends each request and returns its outcome.
fn requests(client: &Client) -> Vec<(&'static str, Brought)> {
    let absent = || Proc::new("absent", Rank::new(0));
    let beyond = || Proc::new(client.proc().nspace.clone(), Rank::new(4711));
    let of_absent = || vec![Info::new(keys::NSPACE, "absent")];
    let ask = |queries| infos(client.query(queries).wait());
    let lookup = |names: Vec<&'static str>| {
        let found = client.lookup(names, vec![]).wait();
        found
            .map(|(_, found)| found.len())
            .map_err(|error| status_of(&error))
    };
    let get = |proc: &Proc<'_>, key: &'static str| {
        let found = client
            .get(proc, key, &[Info::new(keys::OPTIONAL, true)])
            .wait();
        found.map(size_of_value).map_err(|error| status_of(&error))
    };
    let app = App {
        cmd: Some("/bin/true".into()),
        maxprocs: 0,
        ..App::default()
    };
    let nodes = client.resolve_nodes(&Nspace::new("absent"));
    let peers = client.resolve_peers(&Nspace::new("absent"), None);
    vec![
        ("a lookup of no key", lookup(vec![])),
        ("a lookup of an absent key", lookup(vec!["absent"])),
        (
            "a publication of nothing",
            done(client.publish(vec![]).wait()),
        ),
        ("no query", ask(vec![])),
        ("a query without keys", ask(vec![Query::default()])),
        (
            "a query of an unknown key",
            ask(vec![query("absent", vec![])]),
        ),
        (
            "the processes of an absent job",
            ask(vec![query(keys::QUERY_PROC_TABLE, of_absent())]),
        ),
        (
            "the local processes of an absent job",
            ask(vec![query(keys::QUERY_LOCAL_PROC_TABLE, of_absent())]),
        ),
        (
            "the state of an absent job",
            ask(vec![query(keys::QUERY_JOB_STATUS, of_absent())]),
        ),
        (
            "the use of an absent job",
            ask(vec![query(keys::QUERY_PROC_RESOURCE_USAGE, of_absent())]),
        ),
        (
            "the members of an absent set",
            ask(vec![query(
                keys::QUERY_PSET_MEMBERSHIP,
                vec![Info::new(keys::PSET_NAME, "absent")],
            )]),
        ),
        (
            "job control without a directive",
            infos(client.job_control(vec![], vec![]).wait()),
        ),
        (
            "job control of an absent job",
            infos(
                client
                    .job_control(vec![absent()], vec![Info::new(keys::JOB_CTRL_PAUSE, true)])
                    .wait(),
            ),
        ),
        (
            "job control of a rank that does not exist",
            infos(
                client
                    .job_control(vec![beyond()], vec![Info::new(keys::JOB_CTRL_PAUSE, true)])
                    .wait(),
            ),
        ),
        ("a log of nothing", done(client.log(vec![], vec![]).wait())),
        (
            "a monitor of an absent process",
            infos(
                client
                    .monitor(
                        Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, true),
                        Status::SUCCESS,
                        vec![Info::new(keys::MONITOR_TARGET_PROCS, vec![absent()])],
                    )
                    .wait(),
            ),
        ),
        (
            "the end of an absent monitor",
            infos(
                client
                    .monitor(
                        Info::new(keys::MONITOR_CANCEL, "absent"),
                        Status::SUCCESS,
                        vec![],
                    )
                    .wait(),
            ),
        ),
        (
            "a pull of an absent job",
            client
                .iof_pull(vec![absent()], vec![], IofChannel::STDOUT_CHANNEL, 1)
                .wait()
                .map(|_| 0)
                .map_err(|error| status_of(&error)),
        ),
        (
            "a pull of a rank that does not exist",
            client
                .iof_pull(vec![beyond()], vec![], IofChannel::STDOUT_CHANNEL, 2)
                .wait()
                .map(|_| 0)
                .map_err(|error| status_of(&error)),
        ),
        (
            "the end of an absent pull",
            done(client.iof_deregister(4711, vec![]).wait()),
        ),
        (
            "input for an absent job",
            done(
                client
                    .iof_push(vec![absent()], vec![], Some(b"x".to_vec()))
                    .wait(),
            ),
        ),
        (
            "a spawn of nothing",
            client
                .spawn(vec![], vec![])
                .wait()
                .map(|_| 0)
                .map_err(|error| status_of(&error)),
        ),
        (
            "a spawn of no process",
            client
                .spawn(vec![], vec![app])
                .wait()
                .map(|_| 0)
                .map_err(|error| status_of(&error)),
        ),
        (
            "an allocation of nothing",
            infos(client.allocate(AllocDirective::NEW, vec![]).wait()),
        ),
        (
            "session control without a directive",
            infos(client.session_control(0, vec![]).wait()),
        ),
        (
            "an empty credential",
            infos(client.validate_credential(vec![], vec![]).wait()),
        ),
        (
            "the nodes of an absent job",
            nodes
                .map(|found| found.len())
                .map_err(|error| status_of(&error)),
        ),
        (
            "the peers of an absent job",
            peers
                .map(|found| found.len())
                .map_err(|error| status_of(&error)),
        ),
        ("a key of an absent job", get(&absent(), keys::JOB_SIZE)),
        (
            "the application of a rank that does not exist",
            get(&beyond(), keys::APPNUM),
        ),
        (
            "the leave of an absent group",
            done(client.group_leave("absent", vec![]).wait()),
        ),
        (
            "the destruct of an absent group",
            done(client.group_destruct("absent", []).wait()),
        ),
    ]
}

/// Returns the size of a value; an array without elements and an empty text count as nothing.
fn size_of_value(value: Value<'static>) -> usize {
    match value {
        Value::DataArray(array) => array.len(),
        Value::String(text) => text.map_or(0, |text| text.as_bytes().len()),
        Value::Undef => 0,
        _ => 1,
    }
}

/// Sends the requests and prints those that succeeded without data.
pub(crate) fn asks_for_nothing(client: Client) {
    let all = requests(&client);
    for (what, brought) in &all {
        println!("{what}: {brought:?}");
    }
    let empty = all.iter().filter(|(_, brought)| *brought == Ok(0));
    println!("{} of {} succeeded with nothing", empty.count(), all.len());
    client.finalize().unwrap();
}

#[test]
fn no_request_succeeds_with_nothing() {
    let played = play_plan("asks_for_nothing", 1, &[], |plan| plan.forward_io = true);
    assert!(played.outcome.cause.is_none(), "{}", played.errors);
    let mut lines = played.output.lines();
    let summary = lines.find_map(|line| line.strip_suffix(" succeeded with nothing"));
    assert!(
        summary.is_some_and(|summary| summary.starts_with("0 of ")),
        "{}\n{}",
        played.output,
        played.errors
    );
}

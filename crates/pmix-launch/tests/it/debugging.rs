// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that are debugged, and the debugger daemons.
#![allow(
    clippy::disallowed_methods,
    reason = "the environment selects what it requests"
)]

use std::time::Duration;

use pmix_client::{Client, Settings};
use pmix_proto::{Request, reply, request};
use pmix_types::{App, DataArray, DataRange, Info, Proc, Rank, Status, Text, Value, keys};

use crate::actors::connected;
use crate::asking::ask;
use crate::stage::{play, play_with};

const LIMIT: Duration = Duration::from_secs(50);

#[test]
fn debugger_daemons_get_their_target_job_and_release_its_stopped_rank() {
    let played = play("debug", 1);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    // By default there is one daemon for each process.
    let ready = "daemon of debug@2 with 2 processes: [1] ready at pmix-init\n".repeat(2);
    let expected = format!("PMIX_SUCCESS debug@2\n{ready}debug@2 0 runs\ndebug@2 1 runs\n");
    assert_eq!(played.output, expected, "{}", played.errors);
}

#[test]
fn debugger_daemons_without_a_target_are_refused() {
    for (how, status) in [
        ("nothing", "PMIX_ERR_BAD_PARAM"),
        ("absent", "PMIX_ERR_NOT_FOUND"),
        ("both", "PMIX_ERR_BAD_PARAM"),
    ] {
        let played = play_with("debug", 1, &[("HOW", how.as_ref())]);
        assert_eq!(played.output, format!("{status} -\n"), "{how}");
        assert_eq!(played.outcome.num_spawned, 0, "{how}");
    }
}

/// Plays the part of a process of one of these jobs.
pub(crate) fn act(settings: Settings, part: Option<&str>) {
    match part {
        None => debug(connected(settings)),
        Some("daemon") => daemon(connected(settings)),
        Some(_) => {
            let client = connected(settings);
            println!("{} {} runs", client.proc().nspace, client.proc().rank);
            client.finalize().unwrap();
        }
    }
}

/// Spawns a job that is debugged, or daemons without a valid target.
fn debug(client: Client) {
    let daemons = [Info::new(keys::DEBUGGER_DAEMONS, true)];
    let target = Info::new(keys::DEBUG_TARGET, Proc::new("absent@1", Rank::new(0)));
    let each = [keys::DEBUG_DAEMONS_PER_NODE, keys::DEBUG_DAEMONS_PER_PROC];
    let apps = match std::env::var("HOW").as_deref() {
        Ok("nothing") => vec![app("daemon", 1, &daemons)],
        Ok("absent") => vec![app("daemon", 1, &[&daemons[..], &[target]].concat())],
        Ok(_) => {
            let own = Info::new(keys::DEBUG_JOB, client.proc().nspace.to_string());
            let each = each.map(|key| Info::new(key, 1u16));
            vec![app("daemon", 1, &[&daemons[..], &[own], &each].concat())]
        }
        Err(_) => {
            let stops = Info::new(keys::DEBUG_STOP_IN_INIT, Value::Rank(Rank::new(1)));
            vec![app("debugged", 2, &[stops]), app("daemon", 0, &daemons)]
        }
    };
    let spawn = request::Spawn {
        infos: Vec::new(),
        apps,
    };
    let payload = client.request(Request::Spawn(spawn)).wait().unwrap();
    let answer = reply::Spawned::decode(client.form(), None, &payload).unwrap();
    let nspace = answer
        .nspace
        .map_or_else(|| "-".to_owned(), |name| name.to_string());
    println!("PMIX_{} {nspace}", answer.status.name().unwrap());
    client.finalize().unwrap();
}

fn app(part: &str, maxprocs: i32, infos: &[Info<'static>]) -> App<'static> {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap().to_owned();
    let words = ["--exact", "actors::actor", "--ignored", "--nocapture"];
    let argv = std::iter::once(program.clone()).chain(words.map(str::to_owned));
    App {
        cmd: Some(program.into()),
        argv: argv.map(Text::from).collect(),
        env: vec!["ACT=debug".into(), format!("PART={part}").into()],
        maxprocs,
        info: infos.to_vec(),
        ..App::default()
    }
}

/// Waits until the processes of its target are ready, and releases them as the example of OpenPMIx does.
fn daemon(mut client: Client) {
    let Value::Proc(target) = client.get_of_job(keys::DEBUG_TARGET).wait().unwrap() else {
        panic!("no target");
    };
    let job = target.nspace.to_string();
    let told = client.get_of_job(keys::DEBUG_JOB).wait().unwrap();
    assert_eq!(told, Value::from(job.clone()));
    let of_job = vec![Info::new(keys::NSPACE, job.clone())];
    let (_, found) = ask(&mut client, &[keys::QUERY_LOCAL_PROC_TABLE], of_job);
    let Value::DataArray(DataArray::ProcInfo(table)) = &found[0].value else {
        panic!("{found:?}");
    };
    // A job that one daemon releases may have ended before another daemon queries it.
    crate::actors::wait_for_all(&mut client);
    client
        .register_events([Status::READY_FOR_DEBUG], &[])
        .wait()
        .unwrap();
    let event = client.next_event(LIMIT).unwrap().expect("all are ready");
    let value = |key: &str| {
        event
            .infos
            .iter()
            .find(|info| info.key.is(key))
            .map(|info| &info.value)
    };
    let Some(Value::DataArray(DataArray::Proc(procs))) = value(keys::EVENT_AFFECTED_PROCS) else {
        panic!("{event:?}");
    };
    let ranks: Vec<_> = procs.iter().map(|proc| proc.rank.as_raw()).collect();
    let Some(Value::String(Some(breakpoint))) = value(keys::BREAKPOINT) else {
        panic!("{event:?}");
    };
    println!(
        "daemon of {job} with {} processes: {ranks:?} ready at {breakpoint}",
        table.len()
    );
    // The server keeps the event of a job for late registrations only while the job exists, so all daemons receive it
    // before one of them releases the job.
    crate::actors::wait_for_all(&mut client);
    let who = [Info::new(keys::EVENT_CUSTOM_RANGE, target)];
    client
        .notify(Status::DEBUGGER_RELEASE, DataRange::LOCAL, &who)
        .wait()
        .unwrap();
    client.finalize().unwrap();
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries of a process about its job, its launcher and its node, and session control.

use pmix_client::Client;
use pmix_proto::{Request, reply, request};
use pmix_types::{
    AllocDirective, DataArray, Info, IntoOwned as _, Proc, ProcState, Query, Rank, Status, Value,
    keys,
};

use crate::actors::{peer, wait_for_all};
use crate::stage::{play, play_plan};

/// Sends one query and returns the reply.
pub(crate) fn ask(
    client: &mut Client,
    names: &[&'static str],
    qualifiers: Vec<Info<'static>>,
) -> (Status, Vec<Info<'static>>) {
    let keys = names.iter().map(|key| (*key).into()).collect();
    ask_all(client, vec![Query { keys, qualifiers }])
}

fn ask_all(client: &mut Client, queries: Vec<Query<'static>>) -> (Status, Vec<Info<'static>>) {
    let payload = client
        .request(Request::Query(request::Query { queries }))
        .wait();
    let payload = payload.unwrap();
    let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
    (answer.status, answer.infos.unwrap_or_default().into_owned())
}

/// Returns the value of one key, which must exist.
fn value(client: &mut Client, key: &'static str) -> Value<'static> {
    let (status, mut infos) = ask(client, &[key], Vec::new());
    assert_eq!((status, infos.len()), (Status::SUCCESS, 1), "{key}");
    infos.remove(0).value
}

fn infos(value: &Value<'static>) -> Vec<Info<'static>> {
    value.as_infos().unwrap().to_vec()
}

/// Queries everything that the launcher supports, and keys that it does not support.
pub(crate) fn asks(mut client: Client) {
    wait_for_all(&mut client);
    if client.proc().rank.as_raw() == 0 {
        about_jobs(&mut client);
        about_the_node(&mut client);
        about_support(&mut client);
        what_is_refused(&mut client);
    }
    wait_for_all(&mut client);
    client.finalize().unwrap();
}

fn about_jobs(client: &mut Client) {
    let status = value(client, keys::QUERY_JOB_STATUS);
    assert_eq!(status, Value::Status(Status::SUCCESS));
    let other = vec![Info::new(keys::PROCID, peer(client, 1))];
    let (_, state) = ask(client, &[keys::PROC_STATE_STATUS], other);
    assert_eq!(state[0].value, Value::ProcState(ProcState::CONNECTED));
    // A table is sent once, whichever ranks the queries name.
    let of_rank = |rank| Query {
        keys: vec![keys::QUERY_PROC_TABLE.into()],
        qualifiers: vec![Info::new(keys::RANK, Value::Rank(Rank::new(rank)))],
    };
    let (_, tables) = ask_all(client, vec![of_rank(0), of_rank(1)]);
    assert_eq!(tables.len(), 1);
    let left: u32 = value(client, keys::TIME_REMAINING).to_number().unwrap();
    assert!(left <= 60);
    let host = || vec![Info::new(keys::HOSTNAME, "here")];
    for qualifiers in [Vec::new(), host(), vec![Info::new(keys::NODEID, 0u32)]] {
        let (_, table) = ask(client, &[keys::QUERY_LOCAL_PROC_TABLE], qualifiers);
        let Value::DataArray(DataArray::ProcInfo(rows)) = &table[0].value else {
            panic!("{table:?}");
        };
        let numbers: Vec<_> = rows.iter().map(|row| row.pid).collect();
        assert_eq!(rows[0].pid.unsigned_abs(), std::process::id());
        assert!(numbers.len() == 2 && numbers[1] > 0, "{numbers:?}");
    }
    let sessions = value(client, keys::SESSION_ID);
    let launcher = sessions.to_number::<u32>().unwrap();
    assert_eq!(launcher, std::os::unix::process::parent_id());
    let started = value(client, keys::SERVER_START_TIME);
    assert!(matches!(started, Value::String(Some(_))), "{started:?}");
}

fn about_the_node(client: &mut Client) {
    // The processes of this test are not bound.
    let own = client.proc().clone();
    for key in [keys::CPUSET, keys::LOCALITY_STRING] {
        assert_eq!(
            client.get(&own, key, &[]).wait(),
            Ok(Value::String(None)),
            "{key}"
        );
    }
    let nodes = infos(&value(client, keys::QUERY_ALLOCATION));
    assert!(nodes.len() == 1 && nodes[0].key.is(keys::NODE_INFO));
    let node = infos(&nodes[0].value);
    assert_eq!(node[0], Info::new(keys::HOSTNAME, "here"));
    let slots = value(client, keys::QUERY_AVAILABLE_SLOTS);
    assert_eq!(slots, Value::Uint32(16));
}

fn about_support(client: &mut Client) {
    for (key, word) in [
        (keys::QUERY_SPAWN_SUPPORT, keys::MAPBY),
        (keys::QUERY_STABLE_ABI_VERSION, pmix_types::ABI_VERSION),
    ] {
        let Value::String(Some(list)) = value(client, key) else {
            panic!("{key}");
        };
        let list = list.to_str_lossy().into_owned();
        assert!(list.split(',').any(|one| one == word), "{word} in {list}");
    }
    // The key is answered even if no directive is supported.
    value(client, keys::QUERY_DEBUG_SUPPORT);
    let level = vec![Info::new(
        keys::HOST_ATTRIBUTES,
        "PMIx_Job_control,PMIx_Spawn",
    )];
    let (status, support) = ask(client, &[keys::QUERY_ATTRIBUTE_SUPPORT], level);
    assert_eq!((status, support.len()), (Status::SUCCESS, 1));
    let functions = infos(&support[0].value);
    let names: Vec<_> = functions.iter().map(|info| info.key.to_string()).collect();
    assert_eq!(names, ["PMIx_Job_control", "PMIx_Spawn"]);
    let Value::DataArray(DataArray::Regattr(attributes)) = &functions[0].value else {
        panic!("{functions:?}");
    };
    let kills = |one: &pmix_types::Regattr<'_>| one.string == keys::JOB_CTRL_KILL;
    assert!(attributes.iter().any(kills));
    let functions = vec![Info::new(keys::HOST_FUNCTIONS, true)];
    let (status, _) = ask(client, &[keys::QUERY_ATTRIBUTE_SUPPORT], functions);
    assert_eq!(status, Status::SUCCESS);
    let many = |number| {
        let query = Query {
            keys: vec![keys::QUERY_ATTRIBUTE_SUPPORT.into()],
            qualifiers: vec![Info::new(keys::HOST_FUNCTIONS, true)],
        };
        vec![query; number]
    };
    assert_eq!(ask_all(client, many(64)).0, Status::SUCCESS);
    let refused = ask_all(client, many(65));
    assert_eq!(refused, (Status::ERR_OUT_OF_RESOURCE, Vec::new()));
}

fn what_is_refused(client: &mut Client) {
    for key in [
        keys::QUERY_QUEUE_LIST,
        keys::QUERY_QUEUE_STATUS,
        keys::QUERY_ALLOC_STATUS,
        keys::QUERY_AUTHORIZATIONS,
    ] {
        let refused = ask(client, &[key], Vec::new());
        assert_eq!(refused, (Status::ERR_NOT_SUPPORTED, Vec::new()), "{key}");
    }
    let some = [keys::QUERY_QUEUE_LIST, keys::QUERY_NAMESPACES];
    let (status, found) = ask(client, &some, Vec::new());
    assert_eq!((status, found.len()), (Status::ERR_PARTIAL_SUCCESS, 1));
    let unknown = ask(client, &["example.unknown"], Vec::new());
    assert_eq!(unknown, (Status::ERR_NOT_FOUND, Vec::new()));
    let absent = Proc::new(client.proc().nspace.clone(), Rank::new(4711));
    for (parent, expected) in [
        (Value::from("rank 0"), Status::ERR_BAD_PARAM),
        (Value::Proc(absent), Status::ERR_NOT_FOUND),
        (
            Value::Proc(Proc::new("nobody", Rank::new(0))),
            Status::ERR_NOT_FOUND,
        ),
        (Value::Proc(client.proc().clone()), Status::SUCCESS),
    ] {
        let infos = vec![Info::new(keys::PARENT_ID, parent)];
        let status = crate::directed::start(client, &["/bin/true"], 1, &[], infos);
        assert_eq!(status, expected);
    }
    let named = vec![Info::new(keys::ALLOC_ID, "17")];
    let (status, _) = ask(client, &[keys::QUERY_ALLOCATION], named);
    assert_eq!(status, Status::ERR_NOT_FOUND);
}

/// Terminates the session, after other requests were refused.
pub(crate) fn ends_the_session(mut client: Client) {
    wait_for_all(&mut client);
    if client.proc().rank.as_raw() == 1 {
        loop {
            std::thread::park();
        }
    }
    let control = |session, key: &'static str| {
        let name = Info::new(keys::SESSION_CTRL_ID, "mine");
        let infos = vec![Info::new(key, true), name.clone()];
        let request = request::SessionControl { session, infos };
        let payload = client
            .request(Request::SessionControl(request))
            .wait()
            .unwrap();
        let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
        if answer.status.is_success() {
            assert_eq!(answer.infos, Some(vec![name]), "the name of the request");
        }
        answer.status
    };
    let own = std::os::unix::process::parent_id();
    let preempted = control(own, keys::SESSION_PREEMPT);
    assert_eq!(preempted, Status::ERR_NOT_SUPPORTED);
    let other = control(own + 1, keys::SESSION_TERMINATE);
    assert_eq!(other, Status::ERR_NOT_FOUND);
    assert_eq!(control(own, keys::SESSION_RESUME), Status::SUCCESS);
    println!("asked");
    // The signal may arrive before the reply.
    control(u32::MAX, keys::SESSION_TERMINATE);
}

#[test]
fn queries_are_answered_or_refused_by_their_names() {
    let played = play("asks", 2);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

#[test]
fn a_process_ends_the_session_that_it_is_in_and_no_other() {
    let played = play_plan("ends_the_session", 2, &[], |plan| plan.keep_going = true);
    assert!(
        played.output.contains("asked"),
        "{}{}",
        played.output,
        played.errors
    );
    let cause = played.outcome.cause.as_ref().map(ToString::to_string);
    let cause = cause.unwrap_or_default();
    let is_named = cause.starts_with("rank 0 (") && cause.contains(", pid ");
    assert!(
        is_named && cause.ends_with(" on here) terminated the session"),
        "{cause}"
    );
    assert_eq!(played.outcome.exit_code(), 143);
}

/// Requests an allocation in every possible way. The test program `allocated` checks the launcher's messages.
pub(crate) fn allocates(client: Client) {
    for directive in [
        AllocDirective::NEW,
        AllocDirective::EXTEND,
        AllocDirective::RELEASE,
        AllocDirective::REAQUIRE,
    ] {
        let infos = vec![Info::new(keys::ALLOC_NUM_NODES, 1_u64)];
        let asked = request::Allocate { directive, infos };
        let payload = client.request(Request::Allocate(asked)).wait().unwrap();
        let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
        assert_eq!(answer.status, Status::ERR_NOT_SUPPORTED, "{directive}");
    }
    client.finalize().unwrap();
}

#[test]
fn an_allocation_is_refused() {
    let played = play("allocates", 1);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
}

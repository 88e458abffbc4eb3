// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of requests by an independent tool to `pmix run`: each query key, and each request that is
//! not about one job.

use std::thread;

use pmix_tool::Tool;
use pmix_types::{
    AllocDirective, DataArray, Info, Proc, Query, Rank, ResourceBlockDirective, Status, Value, keys,
};

use crate::command::{Running, finish};

const NAME: &str = "asked@1";

/// Starts a job of two applications with two processes and one process. The first two processes
/// form a process set. Then attaches the tool.
fn job() -> (Running, Tool) {
    let named = ["--node-name", "n1", "--nspace", NAME, "--keep-going"];
    let wait = ["sh", "-c", "echo up; exec sleep 1000"];
    let first = [&named[..], &["--pset", "workers=0-1", "-n", "2"], &wait].concat();
    let mut running = Running::start(&[&first[..], &[":", "-n", "1"], &wait].concat());
    for _ in 0..3 {
        assert_eq!(running.line(), "up");
    }
    let (tool, _) = running.attach();
    (running, tool)
}

fn ask(tool: &Tool, key: &str, qualifiers: &[Info<'static>]) -> (Status, Vec<Info<'static>>) {
    let query = Query {
        keys: vec![key.into()],
        qualifiers: qualifiers.to_vec(),
    };
    match tool.query([query]).wait() {
        Ok(answer) => answer,
        Err(error) => (error.status(), Vec::new()),
    }
}

/// Returns the value of a key that the server must know.
fn value(tool: &Tool, key: &'static str, qualifiers: &[Info<'static>]) -> Value<'static> {
    let (status, found) = ask(tool, key, qualifiers);
    assert_eq!(status, Status::SUCCESS, "{key}");
    let info = found.into_iter().next();
    info.unwrap_or_else(|| panic!("{key} has a value")).value
}

/// Returns a number, or the number of elements of a list.
fn number(tool: &Tool, key: &'static str, qualifiers: &[Info<'static>]) -> u64 {
    let value = value(tool, key, qualifiers);
    let count = |count: usize| u64::try_from(count).unwrap();
    match &value {
        Value::DataArray(DataArray::ProcInfo(rows)) => count(rows.len()),
        Value::DataArray(DataArray::Proc(procs)) => count(procs.len()),
        Value::DataArray(DataArray::Info(infos)) => count(infos.len()),
        Value::String(Some(list)) => count(list.to_str_lossy().split(',').count()),
        other => other.to_number().unwrap_or_else(|e| panic!("{key}: {e}")),
    }
}

#[test]
fn each_key_is_answered_to_a_tool_or_refused_by_its_name() {
    let (running, tool) = job();
    let of_job = Info::new(keys::NSPACE, NAME);
    let of_first = Info::new(keys::PROCID, Proc::new(NAME, Rank::new(0)));
    let here = Info::new(keys::NODEID, 0_u32);
    let of_app = [
        of_job.clone(),
        Info::new(keys::APP_INFO, true),
        Info::new(keys::APPNUM, 1_u32),
    ];
    let one = std::slice::from_ref::<Info<'static>>;
    for (key, qualifiers, expected) in [
        (keys::QUERY_NAMESPACES, &[][..], 1),
        (keys::QUERY_NAMESPACE_INFO, one(&of_job), 1),
        (keys::QUERY_PROC_TABLE, one(&of_job), 3),
        (keys::QUERY_LOCAL_PROC_TABLE, one(&of_job), 3),
        (
            keys::QUERY_LOCAL_PROC_TABLE,
            &[of_job.clone(), here.clone(), here.clone()],
            3,
        ),
        (keys::LOCAL_PROCS, &[of_job.clone(), here.clone()], 3),
        (keys::LOCAL_PEERS, &[of_job.clone(), here.clone()], 3),
        (keys::JOB_SIZE, one(&of_job), 3),
        (keys::JOB_NUM_APPS, one(&of_job), 2),
        (keys::APP_SIZE, &of_app, 1),
        (keys::NODE_SIZE, &[of_job.clone(), here.clone()], 3),
        (keys::APPNUM, one(&of_first), 0),
        (keys::SESSION_ID, &[], u64::from(running.child.id())),
        (keys::QUERY_NUM_PSETS, &[], 1),
        (keys::QUERY_PSET_NAMES, &[], 1),
        (
            keys::QUERY_PSET_MEMBERSHIP,
            &[Info::new(keys::PSET_NAME, "workers")],
            2,
        ),
        (keys::QUERY_NUM_GROUPS, &[], 0),
        (keys::QUERY_ALLOCATION, &[], 1),
    ] {
        let found = number(&tool, key, qualifiers);
        assert_eq!(found, expected, "{key} {qualifiers:?}");
    }
    // The processes have not called PMIx_Init.
    let state = value(
        &tool,
        keys::PROC_STATE_STATUS,
        std::slice::from_ref(&of_first),
    );
    assert!(matches!(state, Value::ProcState(_)), "{state:?}");
    let status = value(&tool, keys::QUERY_JOB_STATUS, std::slice::from_ref(&of_job));
    assert_eq!(status, Value::Status(Status::SUCCESS));
    for key in [
        keys::QUERY_SPAWN_SUPPORT,
        keys::QUERY_DEBUG_SUPPORT,
        keys::QUERY_STABLE_ABI_VERSION,
        keys::QUERY_PROVISIONAL_ABI_VERSION,
        keys::QUERY_SUPPORTED_KEYS,
        keys::SERVER_START_TIME,
    ] {
        let found = value(&tool, key, &[]);
        assert!(matches!(found, Value::String(Some(_))), "{key}: {found:?}");
    }
    for (level, function) in [
        (keys::CLIENT_ATTRIBUTES, "PMIx_Get"),
        (keys::SERVER_ATTRIBUTES, "PMIx_Query_info"),
        (keys::HOST_ATTRIBUTES, "PMIx_Job_control"),
        (keys::TOOL_ATTRIBUTES, "PMIx_tool_init"),
    ] {
        let of_function = [Info::new(level, function)];
        let found = value(&tool, keys::QUERY_ATTRIBUTE_SUPPORT, &of_function);
        let functions = found.as_infos().unwrap();
        assert!(functions[0].key.is(function), "{functions:?}");
    }
    for key in [
        keys::QUERY_QUEUE_LIST,
        keys::QUERY_QUEUE_STATUS,
        keys::QUERY_ALLOC_STATUS,
        keys::QUERY_AUTHORIZATIONS,
    ] {
        let (status, found) = ask(&tool, key, &[]);
        assert_eq!(
            (status, found.len()),
            (Status::ERR_NOT_SUPPORTED, 0),
            "{key}"
        );
    }
    // The keys of the server and those of the launcher.
    let list = |of: &[Info<'static>]| match value(&tool, keys::QUERY_SUPPORTED_KEYS, of) {
        Value::String(Some(list)) => list.to_string(),
        other => panic!("{other:?}"),
    };
    let all = list(&[]);
    let listed: Vec<_> = all.split(',').collect();
    for key in [
        keys::QUERY_NAMESPACES,
        keys::PROC_STATE_STATUS,
        keys::TIME_REMAINING,
        keys::QUERY_PROC_RESOURCE_USAGE,
    ] {
        assert_eq!(listed.iter().filter(|one| **one == key).count(), 1, "{key}");
    }
    assert!(!listed.contains(&keys::QUERY_QUEUE_LIST));
    let own = list(&[Info::new(keys::QUERY_LOCAL_ONLY, true)]);
    assert!(own.contains(keys::QUERY_NAMESPACES) && !own.contains(keys::TIME_REMAINING));
    let of_key = [Info::new(keys::QUERY_SUPPORTED_QUALIFIERS, true)];
    for key in &listed {
        let (status, found) = ask(&tool, key, &of_key);
        assert_eq!((status, found.len()), (Status::SUCCESS, 1), "{key}");
        assert!(
            found[0].key.is(key) && matches!(found[0].value, Value::String(Some(_))),
            "{key}"
        );
    }
    for (key, list) in [
        (keys::QUERY_PSET_MEMBERSHIP, "pmix.pset.nm"),
        (keys::TIME_REMAINING, "pmix.nspace,pmix.procid"),
        (keys::QUERY_NAMESPACES, ""),
    ] {
        assert_eq!(value(&tool, key, &of_key), Value::from(list), "{key}");
    }
    let of_data = value(&tool, keys::JOB_SIZE, &of_key);
    assert!(
        format!("{of_data:?}").contains(keys::QUERY_REFRESH_CACHE),
        "{of_data:?}"
    );
    assert_eq!(ask(&tool, "no.such.key", &of_key).0, Status::ERR_NOT_FOUND);
    let refresh = [of_job, Info::new(keys::QUERY_REFRESH_CACHE, true)];
    assert_eq!(number(&tool, keys::JOB_SIZE, &refresh), 3);
    let absent = [Info::new(keys::NSPACE, "absent@1")];
    for key in [
        keys::QUERY_PROC_TABLE,
        keys::QUERY_JOB_STATUS,
        keys::JOB_SIZE,
    ] {
        assert_eq!(ask(&tool, key, &absent).0, Status::ERR_NOT_FOUND, "{key}");
    }
    tool.finalize().unwrap();
    running.signal("TERM");
    assert_eq!(running.end().0, Some(143));
}

#[test]
fn requests_of_a_tool_to_its_launcher_are_served_or_rejected() {
    let (mut running, tool) = job();
    let refused = |status: Status, what: Result<Status, pmix_client::Error>| {
        let answer = what.unwrap_or_else(|error| error.status());
        assert_eq!(answer, status);
    };
    for directive in [
        AllocDirective::NEW,
        AllocDirective::EXTEND,
        AllocDirective::RELEASE,
        AllocDirective::REAQUIRE,
    ] {
        let nodes = vec![Info::new(keys::ALLOC_NUM_NODES, 1_u64)];
        let asked = tool.allocate(directive, nodes).wait();
        refused(Status::ERR_NOT_SUPPORTED, asked.map(|(status, _)| status));
    }
    let define = ResourceBlockDirective::DEFINE;
    let asked = tool.resource_block(define, "block", [], []).wait();
    refused(Status::ERR_NOT_SUPPORTED, asked.map(|()| Status::SUCCESS));
    let own = running.child.id();
    let session = |number, key: &'static str| {
        let asked = tool
            .session_control(number, vec![Info::new(key, true)])
            .wait();
        asked.map(|(status, _)| status)
    };
    refused(
        Status::ERR_NOT_SUPPORTED,
        session(own, keys::SESSION_PREEMPT),
    );
    refused(
        Status::ERR_NOT_FOUND,
        session(own + 1, keys::SESSION_TERMINATE),
    );
    let said = Info::new(keys::LOG_STDOUT, "logged by a tool\n");
    tool.log(vec![said], Vec::new()).wait().unwrap();
    assert_eq!(running.line(), "logged by a tool");
    let node = Info::new(keys::MONITOR_NODE_RESOURCE_USAGE, true);
    let used = tool.monitor(node, Status::SUCCESS, Vec::new()).wait();
    let (status, used) = used.unwrap();
    assert_eq!((status, used.is_empty()), (Status::SUCCESS, false));
    refused(Status::SUCCESS, session(own, keys::SESSION_TERMINATE));
    drop(tool);
    assert_eq!(running.end().0, Some(143));
}

fn publishing_job() -> Running {
    let mut running = Running::start(&[
        "-n",
        "1",
        "--node-name",
        "n1",
        "sh",
        "-c",
        "echo up; sleep 60",
    ]);
    assert_eq!(running.line(), "up");
    running
}

fn end(running: Running) {
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn published_data_is_found_by_other_tools() {
    let running = publishing_job();
    let outcome = running.tool(&["publish", "ocean=tcp://n01:5555", "ice=a=b"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let found = running.tool(&["lookup", "ice", "ocean"]);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""));
    assert_eq!(found.text(), "ice: a=b\nocean: tcp://n01:5555");
    let json = running.tool(&["--json", "lookup", "ocean"]).json();
    assert_eq!(json["value"]["data"], "tcp://n01:5555");
    assert_eq!(json["value"]["type"], "PMIX_STRING");
    assert!(
        json["publisher"]["nspace"]
            .as_str()
            .unwrap()
            .contains(".tool.")
    );
    // Published and missing keys.
    let outcome = running.tool(&["lookup", "land", "ice"]);
    assert_eq!((outcome.code, outcome.text().as_str()), (1, "ice: a=b"));
    assert!(outcome.stderr.contains("\"land\""), "{}", outcome.stderr);
    let outcome = running.tool(&["--json", "lookup", "land"]);
    assert_eq!(
        (outcome.code, &outcome.json()["status"]),
        (1, &(-46).into())
    );
    let once = running.tool(&["publish", "--keep", "first-read", "once=1"]);
    assert_eq!(once.code, 0);
    assert_eq!(running.tool(&["lookup", "once"]).text(), "once: 1");
    assert_eq!(running.tool(&["lookup", "once"]).code, 1);
    for word in ["ocean", "=x"] {
        let outcome = running.tool(&["publish", word]);
        assert_eq!(outcome.code, 2);
        assert!(outcome.stderr.contains("KEY=TEXT"), "{}", outcome.stderr);
    }
    let long = |len: usize| "k".repeat(len);
    let longest = format!("{}=", long(511));
    assert_eq!(running.tool(&["publish", &longest]).code, 0);
    let found = running.tool(&["lookup", &long(511)]);
    assert_eq!((found.code, found.text()), (0, format!("{}: ", long(511))));
    for (args, why) in [
        (
            ["publish", &format!("{}=x", long(512))],
            "at most 511 bytes",
        ),
        (["lookup", &long(512)], "at most 511 bytes"),
        (["lookup", ""], "at least one byte"),
        // The directive is for publish only.
        (
            ["publish", "pmix.timeout=1"],
            "reserved for keys of the PMIx Standard",
        ),
    ] {
        let outcome = running.tool(&args);
        assert_eq!(outcome.code, 2, "{args:?}");
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    }
    end(running);
}

#[test]
fn a_lookup_waits_for_data_until_its_timeout() {
    let running = publishing_job();
    let waits = running.tool_command(&["lookup", "--wait", "60", "late"]);
    let waiting = thread::spawn(move || finish(waits, b""));
    // The lookup must find the key in either order.
    assert_eq!(running.tool(&["publish", "late=here"]).code, 0);
    let found = waiting.join().unwrap();
    assert_eq!((found.code, found.text().as_str()), (0, "late: here"));
    let never = running.tool(&["--json", "lookup", "--wait", "0.1", "never"]);
    assert_eq!((never.code, &never.json()["status"]), (1, &(-24).into()));
    end(running);
}

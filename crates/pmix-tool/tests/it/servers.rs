// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools with servers in this process.

use std::time::Duration;

use pmix_server::{NoHost, Server};
use pmix_tool::{FoundServer, Search, Target, Tool};
use pmix_types::{Info, Proc, Query, Rank, Status, Text, Value, keys};
use tempfile::TempDir;

/// The time limit of each reply, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns a server with one job of two processes, and its directory.
fn server(name: &'static str) -> (Server, TempDir) {
    let top = tempfile::tempdir().unwrap();
    let server = Server::builder()
        .host(NoHost)
        .hostname("n01")
        .nspace(name)
        .server_tmpdir(top.path())
        .system_tmpdir(top.path())
        .tool_support(true)
        .build()
        .unwrap();
    server.start().unwrap();
    let infos = [
        Info::new(keys::NODE_MAP, "n01"),
        Info::new(keys::PROC_MAP, "0-1"),
    ];
    let job = format!("{name}.job");
    server.register_nspace(&job.into(), 2, &infos).unwrap();
    (server, top)
}

/// Returns the name with which a tool attaches.
fn own() -> Proc<'static> {
    Proc::new("a.tool", Rank::new(3))
}

fn found(top: &TempDir) -> FoundServer {
    let search = Search::from_env().host("n01").server_dir(top.path());
    search.target(Target::Session).find().unwrap()
}

fn names(tool: &Tool) -> String {
    let query = Query {
        keys: vec![Text::from(keys::QUERY_NAMESPACES)],
        qualifiers: vec![],
    };
    let (status, infos) = tool.query(vec![query]).wait().unwrap();
    assert_eq!(status, Status::SUCCESS);
    match &infos[0].value {
        Value::String(Some(names)) => names.to_str_lossy().into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tool_attaches_asks_and_detaches() {
    let (server, top) = server("first");
    let mut tool = Tool::new().time_limit(LIMIT);
    assert!(!tool.is_connected());
    assert_eq!(
        tool.query(Vec::new()).wait().unwrap_err().status(),
        Status::ERR_UNREACH
    );
    let name = tool.attach(&found(&top), |_| {}).unwrap();
    assert_eq!(name, *server.proc());
    assert!(tool.is_connected());
    assert_eq!(names(&tool), "first.job");
    let again = tool.attach(&found(&top), |_| {}).unwrap_err();
    assert_eq!(again.status(), Status::ERR_EXISTS);
    tool.finalize().unwrap();
    server.finalize().unwrap();
}

#[test]
fn a_tool_with_two_servers_asks_the_primary_one() {
    let ((one, first), (two, second)) = (server("one"), server("two"));
    let mut tool = Tool::new().time_limit(LIMIT);
    let one_name = tool.attach(&found(&first), |_| {}).unwrap();
    let own = tool.proc().cloned();
    let two_name = tool.attach(&found(&second), |_| {}).unwrap();
    assert_eq!(tool.proc().cloned(), own);
    assert_eq!(tool.servers(), [one_name.clone(), two_name.clone()]);
    assert_eq!(names(&tool), "one.job");
    tool.set_server(&two_name).unwrap();
    assert_eq!(tool.servers(), [two_name.clone(), one_name.clone()]);
    assert_eq!(names(&tool), "two.job");
    tool.detach(&two_name).unwrap();
    assert_eq!(names(&tool), "one.job");
    for gone in [tool.set_server(&two_name), tool.detach(&two_name)] {
        assert_eq!(gone.unwrap_err().status(), Status::ERR_NOT_FOUND);
    }
    tool.finalize().unwrap();
    one.finalize().unwrap();
    two.finalize().unwrap();
}

#[test]
fn the_loss_of_a_server_is_reported_and_another_becomes_primary() {
    let ((one, first), (two, second)) = (server("lost"), server("next"));
    let mut tool = Tool::new().time_limit(LIMIT);
    let (sender, news) = std::sync::mpsc::channel();
    tool.attach(&found(&first), move |event| {
        sender.send(event).unwrap_or_default()
    })
    .unwrap();
    one.finalize().unwrap();
    drop(one);
    let event = news.recv_timeout(LIMIT).unwrap();
    assert_eq!(event, pmix_tool::ClientEvent::Lost);
    assert!(!tool.is_connected());
    assert!(tool.servers().is_empty());
    assert_eq!(
        tool.query(Vec::new()).wait().unwrap_err().status(),
        Status::ERR_UNREACH
    );
    let name = tool.proc().cloned();
    tool.attach(&found(&second), |_| {}).unwrap();
    assert_eq!(tool.proc().cloned(), name, "a tool keeps its name");
    assert_eq!(names(&tool), "next.job");
    tool.finalize().unwrap();
    two.finalize().unwrap();
}

#[test]
fn a_secondary_server_that_is_lost_leaves_the_primary_one() {
    let ((one, first), (two, second)) = (server("brief"), server("main"));
    let (three, third) = server("more");
    let mut tool = Tool::new().time_limit(LIMIT).name(own());
    let (sender, news) = std::sync::mpsc::channel();
    tool.attach(&found(&first), move |event| {
        sender.send(event).unwrap_or_default()
    })
    .unwrap();
    let main = tool.attach(&found(&second), |_| {}).unwrap();
    tool.set_server(&main).unwrap();
    one.finalize().unwrap();
    drop(one);
    news.recv_timeout(LIMIT).unwrap();
    let more = tool.attach(&found(&third), |_| {}).unwrap();
    assert_eq!(tool.servers(), [main, more]);
    assert_eq!(names(&tool), "main.job");
    assert_eq!(tool.proc(), Some(&own()));
    tool.finalize().unwrap();
    two.finalize().unwrap();
    three.finalize().unwrap();
}

#[test]
fn a_server_that_a_tool_leaves_is_not_lost() {
    let (server, top) = server("left");
    let mut tool = Tool::new().time_limit(LIMIT);
    let (sender, news) = std::sync::mpsc::channel();
    let name = tool.attach(&found(&top), move |event| {
        sender.send(event).unwrap_or_default()
    });
    tool.detach(&name.unwrap()).unwrap();
    assert!(
        news.recv().is_err(),
        "the listener was dropped without an event"
    );
    server.finalize().unwrap();
}

#[test]
fn a_tool_knows_itself_without_a_server() {
    let tool = Tool::new();
    let query = |key: &'static str, qualifiers| Query {
        keys: vec![Text::from(key)],
        qualifiers,
    };
    let level = vec![Info::new(keys::TOOL_ATTRIBUTES, "PMIx_tool_init")];
    let queries = vec![
        query(keys::QUERY_STABLE_ABI_VERSION, vec![]),
        query(keys::QUERY_ATTRIBUTE_SUPPORT, level),
    ];
    let (status, infos) = tool.query(queries).wait().unwrap();
    assert_eq!((status, infos.len()), (Status::SUCCESS, 2));
    assert_eq!(infos[0].value, Value::from(pmix_types::ABI_VERSION));
    let functions = infos[1].value.as_infos().unwrap();
    assert_eq!(functions[0].key.to_string(), "PMIx_tool_init");
    let asked = vec![query(keys::JOB_SIZE, vec![])];
    let refused = tool.query(asked).wait().unwrap_err();
    assert_eq!(refused.status(), Status::ERR_UNREACH);
}

#[test]
fn the_servers_of_a_node_are_the_running_ones() {
    let (one, top) = server("one");
    let search = Search::from_env().host("n01").server_dir(top.path());
    let told = |search: &Search| {
        let value = pmix_tool::available_servers(search);
        value.as_infos().unwrap().to_vec()
    };
    let servers = told(&search);
    assert_eq!(servers.len(), 1);
    assert!(servers[0].key.is(keys::SERVER_INFO_ARRAY));
    let about = servers[0].value.as_infos().unwrap();
    let pid = i32::try_from(std::process::id()).unwrap();
    for info in [
        Info::new(keys::SERVER_NSPACE, "one"),
        Info::new(keys::SERVER_RANK, Value::Rank(Rank::new(0))),
        Info::new(keys::SERVER_URI, one.uri().to_owned()),
        Info::new(keys::SERVER_PIDINFO, Value::Pid(pid)),
    ] {
        assert!(about.contains(&info), "{info:?} in {about:?}");
    }
    one.finalize().unwrap();
    assert_eq!(told(&search), []);
}

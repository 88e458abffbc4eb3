// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tool with a server of its own, to which a launcher connects that the tool started. The tool sends its requests
//! over that connection to the launcher's server.

use std::ffi::OsString;
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use pmix_client::driver::ToolConnection;
use pmix_client::{Settings, Uri};
use pmix_mca::Environment;
use pmix_proto::{PeerForm, Role};
use pmix_server::{ConnectedTool, Credentials, HostObject, NoHost, Server};
use pmix_tool::{Attachment, ClientEvent, Tool};
use pmix_types::{Info, Proc, Query, Rank, Status, Value, keys};
use rustix::process::{getegid, geteuid};

/// The time limit of each step, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(30);

fn server(name: &'static str) -> Server {
    let server = Server::builder().host(NoHost).hostname("n01").nspace(name);
    let server = server.build().unwrap();
    server.start().unwrap();
    server
}

fn register(server: &Server, job: &'static str, more: &[Info<'static>]) {
    let maps = [
        Info::new(keys::NODE_MAP, "n01"),
        Info::new(keys::PROC_MAP, "0"),
    ];
    let infos = [&maps[..], more].concat();
    server.register_nspace(&job.into(), 1, &infos).unwrap();
}

/// Returns the tool's server with the launcher as its job, and the environment of the launcher.
fn tool_server() -> (Server, Vec<(OsString, OsString)>) {
    let server = server("tool");
    register(&server, "launcher", &[Info::new("example.wish", "red")]);
    let launcher = launcher();
    let user = Credentials::new(geteuid().as_raw(), getegid().as_raw());
    server
        .register_client(&launcher, user, HostObject(0))
        .unwrap();
    let mut vars = server.setup_fork(&launcher).unwrap();
    vars.push(("PMIX_LAUNCHER_RNDZ_URI".into(), server.uri().into()));
    (server, vars)
}

fn launcher() -> Proc<'static> {
    Proc::new("launcher", Rank::new(0))
}

/// Connects like a launcher with these variables.
fn connect(vars: Vec<(OsString, OsString)>) -> ToolConnection {
    let environment = Environment {
        vars,
        cwd: "/".into(),
        home: None,
        system: "/etc".into(),
    };
    let settings = Settings::of_launcher(&environment).unwrap().unwrap();
    ToolConnection::open(settings).unwrap()
}

/// Returns the launcher's server, which treats the connection as that of a tool.
fn launched(made: ToolConnection) -> Server {
    let server = server("launched");
    register(&server, "launched.job", &[]);
    let tool = ConnectedTool {
        name: made.tool,
        form: made.form,
        stream: made.stream,
        unread: made.unread,
    };
    server.add_tool(tool).unwrap();
    server
}

/// Returns the settings of the tool for its launcher.
fn settings(server: &Server, stream: &TcpStream, form: PeerForm) -> Settings {
    let uri = Uri {
        server: launcher(),
        address: stream.peer_addr().unwrap(),
    };
    let mut settings = Settings::new(server.proc().clone(), uri);
    settings.role = Role::TOOL_WITH_ID;
    settings.layout = form.layout;
    settings
}

fn jobs(tool: &Tool) -> Value<'static> {
    let query = Query {
        keys: vec![keys::QUERY_NAMESPACES.into()],
        qualifiers: vec![],
    };
    let (status, mut infos) = tool.query(vec![query]).wait().unwrap();
    assert_eq!(status, Status::SUCCESS);
    infos.remove(0).value
}

#[test]
fn requests_go_over_the_connection_that_the_launcher_made() {
    let (own, vars) = tool_server();
    let (sender, taken) = mpsc::channel();
    own.take_connection(&launcher(), move |stream, form| {
        sender.send((stream, form)).unwrap();
    });
    let made = connect(vars);
    assert_eq!(made.tool, *own.proc());
    assert_eq!(made.job_info("example.wish"), Some(Value::from("red")));
    let (stream, form) = taken.recv_timeout(LIMIT).unwrap();
    let launched = launched(made);
    let (sender, events) = mpsc::channel();
    let attached = Attachment::of_launcher(settings(&own, &stream, form), stream, move |event| {
        sender.send(event).unwrap();
    });
    let mut tool = Tool::new().time_limit(LIMIT);
    assert!(tool.add(attached.unwrap()).is_ok());
    assert_eq!(
        (tool.proc(), tool.servers()),
        (Some(own.proc()), vec![launcher()])
    );
    assert_eq!(jobs(&tool), Value::from("launched.job"));
    launched.finalize().unwrap();
    assert_eq!(events.recv_timeout(LIMIT).unwrap(), ClientEvent::Lost);
    assert!(!tool.is_connected());
    own.finalize().unwrap();
}

#[test]
fn a_connection_that_waits_for_nothing_already_is_taken_at_once() {
    let (own, vars) = tool_server();
    let made = connect(vars);
    assert_eq!(made.job_info("example.wish"), Some(Value::from("red")));
    let (sender, taken) = mpsc::channel();
    own.take_connection(&launcher(), move |stream, _| sender.send(stream).unwrap());
    assert!(taken.recv_timeout(LIMIT).is_ok());
    own.finalize().unwrap();
}

#[test]
fn the_callback_for_a_connection_that_is_not_made_is_dropped() {
    let (own, _) = tool_server();
    let wanted = |proc: &Proc<'_>| {
        let (sender, taken) = mpsc::channel();
        own.take_connection(proc, move |stream, _| sender.send(stream).unwrap());
        taken
    };
    let other = Proc::new("other", Rank::new(0));
    let (launcher, other) = (wanted(&launcher()), wanted(&other));
    own.deregister_nspace(&"launcher".into()).unwrap();
    assert!(launcher.recv_timeout(LIMIT).is_err());
    own.finalize().unwrap();
    assert!(other.recv_timeout(LIMIT).is_err());
}

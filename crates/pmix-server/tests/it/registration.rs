// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unusual registrations: rejected with a reason, or accepted where the host requests that.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use pmix_proto::{Hello, Role, Welcome};
use pmix_server::upcall::{HostReply, ToolConnected, Upcall};
use pmix_server::{Completion, Credentials, Error, Host, HostObject, Server};
use pmix_types::{Info, Proc, Rank, Status, keys};

use super::peer::{JOB, Peer, builder, closed, me};
use crate::peer;

fn started(checks: bool) -> Server {
    let server = builder().refuse_contradictions(checks).build().unwrap();
    server.start().unwrap();
    server
}

/// Registers ranks 0 and 1 of a job on this node, and 2 and 3 on another node.
fn two_nodes(server: &Server) {
    let maps = [
        Info::new(keys::NODE_MAP, "n00,n01"),
        Info::new(keys::PROC_MAP, "0,1;2,3"),
    ];
    server.register_nspace(&JOB.into(), 2, &maps).unwrap();
}

fn client(server: &Server, job: &'static str, rank: u32) -> Result<(), Error> {
    let (uid, gid) = me();
    let proc = Proc::new(job, Rank::new(rank));
    server.register_client(&proc, Credentials::new(uid, gid), HostObject(0))
}

#[track_caller]
fn refused(result: Result<(), Error>, status: Status, words: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.status(), status, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_singleton_is_registered_when_its_server_starts() {
    let named = [Info::new(keys::SINGLETON, format!("{JOB}.0"))];
    for checks in [true, false] {
        let builder = builder().refuse_contradictions(checks);
        let server = builder.attributes(&named).unwrap().build().unwrap();
        server.start().unwrap();
        assert_eq!(server.nspaces().unwrap(), [pmix_types::Nspace::from(JOB)]);
        Peer::client(&server, 1).err().unwrap();
        let _connected = Peer::client(&server, 0).unwrap();
        // The host describes the job later.
        let size = [
            Info::new(keys::JOB_SIZE, 1_u32),
            Info::new(keys::UNIV_SIZE, 8_u32),
        ];
        server.register_nspace(&JOB.into(), 1, &size).unwrap();
        client(&server, JOB, 0).unwrap();
    }
}

#[test]
fn a_client_that_its_job_does_not_have_here_is_refused() {
    let server = started(true);
    refused(
        client(&server, JOB, 0),
        Status::ERR_NOT_FOUND,
        &[JOB, "not registered"],
    );
    two_nodes(&server);
    client(&server, JOB, 0).unwrap();
    refused(
        client(&server, "other", 0),
        Status::ERR_NOT_FOUND,
        &["other"],
    );
    refused(
        client(&server, JOB, 4),
        Status::ERR_NOT_FOUND,
        &["rank 4", JOB],
    );
    refused(
        client(&server, JOB, 2),
        Status::ERR_BAD_PARAM,
        &["rank 2", "n01", "n00"],
    );
    refused(
        client(&server, JOB, 0),
        Status::ERR_EXISTS,
        &["rank 0", "already"],
    );
    let wildcard = Rank::WILDCARD.as_raw();
    refused(client(&server, JOB, wildcard), Status::ERR_BAD_PARAM, &[]);
    // A process that has connected can be restarted, and a deregistered one can be registered again.
    client(&server, JOB, 1).unwrap();
    let _connected = Peer::client(&server, 1).unwrap();
    client(&server, JOB, 1).unwrap();
    server
        .deregister_client(&Proc::new(JOB, Rank::new(0)))
        .unwrap();
    client(&server, JOB, 0).unwrap();
}

#[test]
fn the_clients_of_a_job_that_is_deregistered_go_with_it() {
    let server = started(true);
    two_nodes(&server);
    client(&server, JOB, 0).unwrap();
    client(&server, JOB, 1).unwrap();
    let connected = Peer::client(&server, 0).unwrap();
    server.deregister_nspace(&JOB.into()).unwrap();
    // The connected process is disconnected, and the other one is rejected.
    closed(connected.into_stream());
    assert!(Peer::client(&server, 1).is_err());
    for rank in [0, 1] {
        let proc = Proc::new(JOB, Rank::new(rank));
        let gone = server.deregister_client(&proc);
        refused(gone, Status::ERR_NOT_FOUND, &[]);
        let again = client(&server, JOB, rank);
        refused(again, Status::ERR_NOT_FOUND, &[JOB, "not registered"]);
    }
    refused(
        server.deregister_nspace(&JOB.into()),
        Status::ERR_NOT_FOUND,
        &[],
    );
    // A new job can use the name again.
    two_nodes(&server);
    client(&server, JOB, 0).unwrap();
    let _connected = Peer::client(&server, 0).unwrap();
}

#[test]
fn clients_of_a_job_without_maps_are_those_of_its_size() {
    let server = started(true);
    server.register_nspace(&"none".into(), 1, &[]).unwrap();
    client(&server, "none", 17).unwrap();
    let size = [Info::new(keys::JOB_SIZE, 2_u32)];
    server.register_nspace(&"sized".into(), 2, &size).unwrap();
    client(&server, "sized", 1).unwrap();
    refused(
        client(&server, "sized", 2),
        Status::ERR_NOT_FOUND,
        &["rank 2", "2 processes"],
    );
}

#[test]
fn a_job_that_contradicts_itself_is_refused_and_nothing_changes() {
    let server = started(true);
    let register = |infos: &[Info<'_>]| server.register_nspace(&JOB.into(), 2, infos);
    let maps = |nodes: &'static str, procs: &'static str| {
        [
            Info::new(keys::NODE_MAP, nodes),
            Info::new(keys::PROC_MAP, procs),
        ]
    };
    let [nodes, procs] = maps("n00", "0-3");
    let size = Info::new(keys::JOB_SIZE, 9_u32);
    let bad = Status::ERR_BAD_PARAM;
    let words = ["pmix.job.size", "9 processes", "4"];
    refused(register(&[nodes.clone(), procs.clone(), size]), bad, &words);
    let text = Info::new(keys::JOB_SIZE, "4");
    let words = ["pmix.job.size", "STRING"];
    refused(register(&[nodes, procs, text]), bad, &words);
    let words = ["pmix.nmap", "n00", "0 and 2"];
    refused(register(&maps("n00,n01,n00", "0;1;2")), bad, &words);
    refused(client(&server, JOB, 0), Status::ERR_NOT_FOUND, &[]);
    register(&maps("n00,n01", "0;1")).unwrap();
}

#[test]
fn a_host_that_wants_no_checks_registers_as_with_openpmix() {
    let server = started(false);
    for _ in 0..2 {
        client(&server, JOB, 7).unwrap();
    }
    let infos = [
        Info::new(keys::NODE_MAP, "n00,n00"),
        Info::new(keys::PROC_MAP, "0;1"),
        Info::new(keys::JOB_SIZE, 9_u32),
    ];
    server.register_nspace(&JOB.into(), 1, &infos).unwrap();
    client(&server, JOB, 2).unwrap();
}

/// The reaction of a host to a tool that connects.
#[derive(Clone, Copy, Debug)]
enum Habit {
    Name,
    Later,
    Drop,
    Panic,
}

struct Tools {
    habit: Mutex<Habit>,
    later: Mutex<Sender<Completion<Proc<'static>>>>,
}

impl Host for Tools {
    fn tool_connected(&self, _: ToolConnected, done: Completion<Proc<'static>>) {
        let habit = *self.habit.lock().unwrap();
        match habit {
            Habit::Name => done.succeed(Proc::new("tool@at.once", Rank::new(0))),
            Habit::Later => self.later.lock().unwrap().send(done).unwrap(),
            Habit::Drop => drop(done),
            Habit::Panic => panic!("the host is broken"),
        }
    }
}

fn host() -> (std::sync::Arc<Tools>, Receiver<Completion<Proc<'static>>>) {
    let (sender, receiver) = channel();
    let host = Tools {
        habit: Mutex::new(Habit::Name),
        later: Mutex::new(sender),
    };
    (std::sync::Arc::new(host), receiver)
}

fn connect(server: &pmix_server::Server) -> std::io::Result<Welcome<'static>> {
    let credential = peer::credential(peer::me());
    let hello: Hello<'_> = peer::hello(Role::TOOL, None, &credential);
    Peer::with(peer::address(server), &hello).map(|tool| tool.welcome())
}

fn name(welcome: &Welcome<'_>) -> String {
    match welcome {
        Welcome::Assigned { proc, .. } => proc.nspace.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_may_come_at_once_later_or_not() {
    let (host, later) = host();
    let server = peer::serve(
        peer::builder()
            .tool_support(true)
            .server_tmpdir(tempfile::tempdir().unwrap().path())
            .shared_host(host.clone()),
        1,
    );
    assert_eq!(name(&connect(&server).unwrap()), "tool@at.once");
    for habit in [Habit::Panic, Habit::Drop] {
        *host.habit.lock().unwrap() = habit;
        assert!(connect(&server).is_err(), "{habit:?}");
    }
    *host.habit.lock().unwrap() = Habit::Later;
    let handle = server.clone();
    let tool = std::thread::spawn(move || connect(&handle).unwrap());
    let done = later.recv().unwrap();
    // Other peers are served while one waits for the host.
    assert!(Peer::client(&server, 0).is_ok());
    done.succeed(Proc::new("tool@later", Rank::new(0)));
    assert_eq!(name(&tool.join().unwrap()), "tool@later");
    *host.habit.lock().unwrap() = Habit::Name;
    assert!(connect(&server).is_ok());
}

#[test]
fn another_process_of_the_host_may_decide() {
    let (host, later) = host();
    *host.habit.lock().unwrap() = Habit::Later;
    let server = peer::serve(peer::builder().tool_support(true).shared_host(host), 1);
    let decide = |answer: Option<HostReply>| {
        let handle = server.clone();
        let tool = std::thread::spawn(move || connect(&handle));
        let done = later.recv().unwrap().untyped();
        match answer {
            Some(answer) => done.complete(HostReply::unpack(&answer.pack().unwrap()).unwrap()),
            None => drop(done),
        }
        tool.join().unwrap()
    };
    let tool = Proc::new("tool@elsewhere", Rank::new(0));
    let welcome = decide(Some(HostReply::Tool(Ok(tool)))).unwrap();
    assert_eq!(name(&welcome), "tool@elsewhere");
    assert!(decide(Some(HostReply::Done(Status::ERR_NO_PERMISSIONS))).is_err());
    assert!(decide(None).is_err());
    let call = Upcall::from(ToolConnected::new(vec![]));
    assert_eq!(Upcall::unpack(&call.pack().unwrap()).unwrap(), call);
}

#[test]
fn an_answer_after_the_end_goes_nowhere() {
    let (host, later) = host();
    *host.habit.lock().unwrap() = Habit::Later;
    let server = peer::serve(peer::builder().shared_host(host), 1);
    let handle = server.clone();
    let tool = std::thread::spawn(move || connect(&handle).is_err());
    let done = later.recv().unwrap();
    server.finalize().unwrap();
    assert!(tool.join().unwrap());
    done.fail(Status::ERR_NOT_FOUND);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the host that complete at once, later, never, or by a panic.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use pmix_proto::{Hello, Role, Welcome};
use pmix_server::upcall::{HostReply, ToolConnected, Upcall};
use pmix_server::{Completion, Host};
use pmix_types::{Proc, Rank, Status};

use super::peer::{self, Peer};

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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small host that runs a parallel program: one job, all of it on this node.
//!
//!     cargo run -p pmix --example minimal_host -- 4 ./a.out ARGS
//!
//! It registers a job and its processes, starts them with the environment that the server returns, waits for
//! them and exits with the first exit code that is not 0. An abort of one process terminates all of them.
//! Published data and cleanup after the end of processes are handled by `pmix::host`. `pmix run` does the
//! rest of what a launcher does.

use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use pmix::host::cleanup::{self, ProtectedPaths};
use pmix::host::publish::PublishService;
use pmix::prelude::*;
use pmix::server::upcall::{Abort, Lookup, Publish, Unpublish};
use pmix::server::{Cleanup, Error};
use pmix::types::Pdata;
use rustix::process::{Pid, PidfdFlags, Signal, getegid, geteuid, pidfd_open, pidfd_send_signal};

const JOB: &str = "job@1";

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let num_procs = args.next().and_then(|n| n.to_str()?.parse().ok());
    let (Some(num_procs), Some(program)) = (num_procs, args.next()) else {
        eprintln!("usage: minimal_host NUMBER PROGRAM [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(args);
    match run(num_procs, &mut command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("minimal_host: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Messages for the main thread from the server and from the threads that wait for processes.
enum Message {
    Abort(Abort, Completion<()>),
    Publish(Publish, Completion<()>),
    Lookup(Lookup, Completion<Vec<Pdata<'static>>>),
    Unpublish(Unpublish, Completion<()>),
    Cleanup(u32, Cleanup),
    Ended(Rank, std::io::Result<ExitStatus>),
}

/// Hands to the main thread what the server asks; all else is answered "not supported".
struct MessageHost(Sender<Message>);

impl MessageHost {
    fn send(&self, message: Message) {
        // When the main thread has ended, the completion in the message answers by being dropped.
        let _ = self.0.send(message);
    }
}

impl Host for MessageHost {
    fn abort(&self, call: Abort, done: Completion<()>) {
        self.send(Message::Abort(call, done));
    }

    fn publish(&self, call: Publish, done: Completion<()>) {
        self.send(Message::Publish(call, done));
    }

    fn lookup(&self, call: Lookup, done: Completion<Vec<Pdata<'static>>>) {
        self.send(Message::Lookup(call, done));
    }

    fn unpublish(&self, call: Unpublish, done: Completion<()>) {
        self.send(Message::Unpublish(call, done));
    }

    fn server_event(&self, event: ServerEvent) {
        if let ServerEvent::Cleanup { user, cleanup, .. } = event {
            self.send(Message::Cleanup(user.0, cleanup));
        }
    }
}

fn run(num_procs: u32, command: &mut Command) -> Result<u8, Box<dyn std::error::Error>> {
    let (sender, messages) = channel();
    let server = Server::builder()
        .host(MessageHost(sender.clone()))
        .hostname("localhost")
        .open_mpi_4(true)
        .build()?;
    server.start()?;
    register(&server, num_procs)?;
    let mut processes = Vec::new();
    for rank in (0..num_procs).map(Rank::new) {
        let variables = server.setup_fork(&Proc::new(JOB, rank))?;
        let mut child = command.envs(variables).spawn()?;
        processes.push(pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?);
        let sender = sender.clone();
        thread::spawn(move || sender.send(Message::Ended(rank, child.wait())));
    }
    drop(sender);
    let code = serve(&messages, &processes)?;
    server.deregister_nspace(&JOB.into())?;
    server.finalize()?;
    // Cleanup at the end of the job, and of the processes that ended last.
    for message in messages.try_iter() {
        if let Message::Cleanup(uid, cleanup) = message {
            remove(uid, &cleanup);
        }
    }
    Ok(code)
}

/// Says which job there is and which processes of it are here: all of them. What follows from the
/// two maps, such as the size of the job, need not be said.
fn register(server: &Server, num_procs: u32) -> Result<(), Error> {
    let ranks: Vec<_> = (0..num_procs).map(|rank| rank.to_string()).collect();
    let infos = [
        Info::new(keys::NODE_MAP, "localhost"),
        Info::new(keys::PROC_MAP, ranks.join(",")),
        Info::new(keys::JOBID, JOB),
        Info::new(keys::UNIV_SIZE, num_procs),
    ];
    server.register_nspace(&JOB.into(), num_procs, &infos)?;
    let user = Credentials {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
    };
    for rank in 0..num_procs {
        let proc = Proc::new(JOB, Rank::new(rank));
        server.register_client(&proc, user, HostObject(rank.into()))?;
    }
    Ok(())
}

/// Answers what processes ask until all of them have ended. Returns the first exit code that is not
/// 0; 1 for a process that a signal ended.
fn serve(messages: &Receiver<Message>, processes: &[OwnedFd]) -> std::io::Result<u8> {
    let mut published = PublishService::default();
    let (mut num_running, mut first) = (processes.len(), 0);
    while num_running > 0 {
        let message = match published.deadline() {
            None => messages.recv().ok(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                match messages.recv_timeout(left) {
                    Ok(message) => Some(message),
                    Err(RecvTimeoutError::Timeout) => {
                        published.tick(Instant::now());
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => None,
                }
            }
        };
        match message {
            None => break,
            Some(Message::Abort(call, done)) => {
                first = u8::try_from(call.status.as_raw()).unwrap_or(1);
                for process in processes {
                    // A process that has already ended is not an error.
                    let _ = pidfd_send_signal(process, Signal::KILL);
                }
                done.succeed(());
            }
            Some(Message::Publish(call, done)) => published.publish(&call, done),
            Some(Message::Lookup(call, done)) => published.lookup(&call, done),
            Some(Message::Unpublish(call, done)) => published.unpublish(&call, done),
            Some(Message::Cleanup(uid, cleanup)) => remove(uid, &cleanup),
            Some(Message::Ended(rank, status)) => {
                num_running -= 1;
                published.proc_ended(&Proc::new(JOB, rank));
                let code = status?.code();
                let code = code.map_or(1, |code| u8::try_from(code).unwrap_or(1));
                first = if first == 0 { code } else { first };
            }
        }
    }
    Ok(first)
}

/// Removes what a process wanted to be removed, but not the directory in which this host works.
fn remove(uid: u32, cleanup: &Cleanup) {
    let protected = ProtectedPaths::new([".".into()]);
    for error in cleanup::remove(cleanup, uid, &protected) {
        eprintln!("minimal_host: {error}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host with a loop of its own that serves a job on two nodes, which are both on this machine.
//!
//!     cargo build -p pmix --examples
//!     target/debug/examples/two_nodes 4 target/debug/examples/busy_client
//!
//! Each node has a server, and the first half of the ranks runs on the first. The host drives both
//! servers in one thread, which waits for their descriptors and for the processes. What one server
//! asks of the other it carries over: the contributions of a fence, and the data of single processes
//! (direct modex). Between real nodes it would send them over a network. A library that names its shared
//! memory by node and local rank, such as Open MPI 4.1, takes the two nodes for one.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitCode};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use pmix::host::cleanup::{self, ProtectedPaths};
use pmix::host::publish::PublishService;
use pmix::prelude::*;
use pmix::server::Cleanup;
use pmix::server::upcall::{Abort, DirectModex, Fence, Lookup, Publish, Unpublish};
use pmix::types::Pdata;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getegid, geteuid, pidfd_open};

type Fault = Box<dyn std::error::Error>;

const JOB: &str = "job@1";
const NODES: [&str; 2] = ["n00", "n01"];

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let num_procs = args.next().and_then(|n| n.to_str()?.parse().ok());
    let (Some(num_procs @ 2..), Some(program)) = (num_procs, args.next()) else {
        eprintln!("usage: two_nodes NUMBER PROGRAM [ARGUMENT]...");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(args);
    match run(num_procs, &mut command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("two_nodes: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A request of a server to the host.
enum Call {
    Abort(Abort, Completion<()>),
    Fence(Fence, Completion<Vec<u8>>),
    DirectModex(DirectModex, Completion<Vec<u8>>),
    Publish(Publish, Completion<()>),
    Lookup(Lookup, Completion<Vec<Pdata<'static>>>),
    Unpublish(Unpublish, Completion<()>),
    Cleanup(u32, Cleanup),
}

/// The host as one of its servers knows it: it keeps the calls until the server has been driven.
struct NodeHost {
    node: usize,
    calls: Sender<(usize, Call)>,
}

impl NodeHost {
    fn send(&self, call: Call) {
        // When the loop has ended, the completion in the call answers by being dropped.
        let _ = self.calls.send((self.node, call));
    }
}

impl Host for NodeHost {
    fn abort(&self, call: Abort, done: Completion<()>) {
        self.send(Call::Abort(call, done));
    }

    fn fence(&self, call: Fence, done: Completion<Vec<u8>>) {
        self.send(Call::Fence(call, done));
    }

    fn direct_modex(&self, call: DirectModex, done: Completion<Vec<u8>>) {
        self.send(Call::DirectModex(call, done));
    }

    fn publish(&self, call: Publish, done: Completion<()>) {
        self.send(Call::Publish(call, done));
    }

    fn lookup(&self, call: Lookup, done: Completion<Vec<Pdata<'static>>>) {
        self.send(Call::Lookup(call, done));
    }

    fn unpublish(&self, call: Unpublish, done: Completion<()>) {
        self.send(Call::Unpublish(call, done));
    }

    fn server_event(&self, event: ServerEvent) {
        if let ServerEvent::Cleanup { user, cleanup, .. } = event {
            self.send(Call::Cleanup(user.0, cleanup));
        }
    }
}

/// A fence that the server of one node has brought, and that of the other has not.
struct PendingFence {
    node: usize,
    call: Fence,
    done: Completion<Vec<u8>>,
}

/// A process that runs, with a descriptor that is readable when it has ended.
struct Process {
    rank: Rank,
    child: Child,
    fd: OwnedFd,
}

struct Job {
    servers: Vec<Server>,
    calls: Receiver<(usize, Call)>,
    fences: Vec<PendingFence>,
    published: PublishService,
    processes: Vec<Process>,
    /// The first exit code that is not 0; 1 for a process that a signal ended.
    code: u8,
}

fn run(num_procs: u32, command: &mut Command) -> Result<u8, Fault> {
    let (sender, calls) = channel();
    let mut servers = Vec::new();
    for (node, name) in NODES.into_iter().enumerate() {
        let calls = sender.clone();
        let builder = Server::builder().host(NodeHost { node, calls });
        let builder = builder.nspace(format!("host.{name}")).hostname(name);
        // Two servers of one process on one machine: no tool could tell them apart.
        let builder = builder.tool_support(false).rendezvous_required(false);
        servers.push(builder.external_progress(true).build()?);
    }
    let mut job = Job {
        servers,
        calls,
        fences: Vec::new(),
        published: PublishService::default(),
        processes: Vec::new(),
        code: 0,
    };
    job.start(num_procs, command)?;
    job.serve()?;
    for server in &job.servers {
        server.deregister_nspace(&JOB.into())?;
        server.finalize()?;
    }
    job.answer_calls()?;
    Ok(job.code)
}

impl Job {
    /// Registers the job with both servers, each process with that of its node, and starts them.
    fn start(&mut self, num_procs: u32, command: &mut Command) -> Result<(), Fault> {
        let half = num_procs / 2;
        let nodes = NodeList::parse_text(NODES.join(",").as_bytes(), &Limits::default())?;
        let ranks = format!("0-{};{half}-{}", half - 1, num_procs - 1);
        let procs = ProcMap::parse_text(ranks.as_bytes(), &Limits::default())?;
        let infos = [Info::new(keys::UNIV_SIZE, num_procs)];
        let user = Credentials::new(geteuid().as_raw(), getegid().as_raw());
        for (server, here) in self.servers.iter().zip([0..half, half..num_procs]) {
            let job = Registration::new(&infos).with_maps(nodes.clone(), procs.clone());
            let num_here = here.end - here.start;
            server.register_nspace(&JOB.into(), num_here, job)?;
            for rank in here {
                let proc = Proc::new(JOB, Rank::new(rank));
                server.register_client(&proc, user, HostObject(rank.into()))?;
                let child = command.envs(server.setup_fork(&proc)?).spawn()?;
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let pid = pid.ok_or("a process id that is no process id")?;
                let fd = pidfd_open(pid, PidfdFlags::empty())?;
                let rank = proc.rank;
                self.processes.push(Process { rank, child, fd });
            }
        }
        Ok(())
    }

    /// Drives both servers until all processes have ended.
    fn serve(&mut self) -> Result<(), Fault> {
        loop {
            let now = Instant::now();
            let mut next = self.published.deadline();
            for server in &self.servers {
                next = [next, server.drive(now)?].into_iter().flatten().min();
            }
            if self.answer_calls()? {
                continue;
            }
            self.published.tick(now);
            for (rank, code) in self.ended()? {
                self.published.proc_ended(&Proc::new(JOB, rank));
                self.code = if self.code == 0 { code } else { self.code };
            }
            if self.processes.is_empty() {
                return Ok(());
            }
            self.wait(next)?;
        }
    }

    /// Waits for a server or a process, or until a time.
    fn wait(&self, until: Option<Instant>) -> Result<(), Fault> {
        let servers = self.servers.iter().map(Server::as_fd);
        let processes = self.processes.iter().map(|process| process.fd.as_fd());
        let mut fds: Vec<_> = servers
            .chain(processes)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(Timespec::try_from).transpose()?;
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The ranks and exit codes of processes that have ended since the last time.
    fn ended(&mut self) -> std::io::Result<Vec<(Rank, u8)>> {
        let mut ended = Vec::new();
        for process in &mut self.processes {
            if let Some(status) = process.child.try_wait()? {
                let code = status
                    .code()
                    .map_or(1, |code| u8::try_from(code).unwrap_or(1));
                ended.push((process.rank, code));
            }
        }
        let runs = |process: &Process| ended.iter().all(|(rank, _)| *rank != process.rank);
        self.processes.retain(runs);
        Ok(ended)
    }

    /// Answers what the servers have asked, and returns whether that was anything.
    fn answer_calls(&mut self) -> Result<bool, Fault> {
        let mut any = false;
        while let Ok((node, call)) = self.calls.try_recv() {
            any = true;
            match call {
                Call::Abort(call, done) => {
                    self.code = u8::try_from(call.status.as_raw()).unwrap_or(1);
                    for process in &mut self.processes {
                        process.child.kill()?;
                    }
                    done.succeed(());
                }
                Call::Fence(call, done) => self.fence(node, call, done),
                Call::DirectModex(call, done) => {
                    // The completion may be called by the other server when the data are there.
                    let answer = move |result| done.complete(result);
                    self.servers[1 - node].dmodex_request(&call.proc, &call.infos, answer)?;
                }
                Call::Publish(call, done) => self.published.publish(&call, done),
                Call::Lookup(call, done) => self.published.lookup(&call, done),
                Call::Unpublish(call, done) => self.published.unpublish(&call, done),
                Call::Cleanup(uid, cleanup) => {
                    let protected = ProtectedPaths::new([".".into()]);
                    for error in cleanup::remove(&cleanup, uid, &protected) {
                        eprintln!("two_nodes: {error}");
                    }
                }
            }
        }
        Ok(any)
    }

    /// Completes a fence when both servers have brought it: each gets the contributions of both. Fences
    /// of the same participants come from each server in the same order.
    fn fence(&mut self, node: usize, call: Fence, done: Completion<Vec<u8>>) {
        let is_other = |other: &PendingFence| other.node != node && other.call.procs == call.procs;
        let Some(index) = self.fences.iter().position(is_other) else {
            return self.fences.push(PendingFence { node, call, done });
        };
        let other = self.fences.remove(index);
        let all = [other.call.data, call.data].concat();
        other.done.succeed(all.clone());
        done.succeed(all);
    }
}

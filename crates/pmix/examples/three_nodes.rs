// SPDX-License-Identifier: MIT OR Apache-2.0
//! A resource manager of three nodes: a controller, and a process on each node, connected by TCP.
//!
//!     cargo build -p pmix --examples
//!     target/debug/examples/three_nodes 2 target/debug/examples/busy_client
//!
//! This starts two processes on each node. All nodes are on this machine: the controller starts this program again for
//! each of them, where a real one uses ssh or daemons. The links use any ordered, reliable stream, so another transport
//! replaces `accept` and the type of the streams. A library that names its shared memory by node and local rank, such
//! as Open MPI 4.1, takes the three nodes for one.
//! `docs/nodes.md` has the duties of such a host. `three_nodes_tokio.rs` is the same host in an async runtime.

use std::ffi::{OsStr, OsString};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use pmix::host::cleanup::{self, ProtectedPaths};
use pmix::host::controller::{ControllerLinks, NodeMessage};
use pmix::host::link::Link;
use pmix::host::node::NodeLink;
use pmix::prelude::*;
use pmix::server::socket_owner;
use pmix::server::upcall::{HostReply, Upcall};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getegid, geteuid, pidfd_open};

type Fault = Box<dyn std::error::Error>;

const JOB: &str = "job@1";
const NODES: [&str; 3] = ["n00", "n01", "n02"];

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = match &args[..] {
        [role, address, node, job @ ..] if role == "node" => serve_node(address, node, job),
        [num_here, _, ..] => control(num_here, &args),
        _ => Err("usage: three_nodes NUMBER_PER_NODE PROGRAM [ARGUMENT]...".into()),
    };
    let code = code.unwrap_or_else(|error| {
        eprintln!("three_nodes: {error}");
        1
    });
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn number(arg: &OsStr) -> Result<u32, Fault> {
    Ok(arg.to_str().ok_or("not a number")?.parse::<u16>()?.into())
}

/// Returns the ranks of each node, as a process map.
fn proc_map(num_here: u32) -> Result<ProcMap, Fault> {
    let last = num_here.checked_sub(1).ok_or("no processes")?;
    let ranks = [0, 1, 2].map(|node| format!("{}-{}", node * num_here, node * num_here + last));
    let text = ranks.join(";");
    Ok(ProcMap::parse_text(text.as_bytes(), &Limits::default())?)
}

/// Makes a connection one that is never waited for.
fn prepared(stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Returns the condition to wait for on the connection of a link.
fn interest<T>(link: &Link<T>) -> PollFlags {
    match link.output() {
        [] => PollFlags::IN,
        _ => PollFlags::IN | PollFlags::OUT,
    }
}

/// Waits for one of the descriptors, or until a time.
fn wait(fds: &mut [PollFd<'_>], until: Option<Instant>) -> Result<(), Fault> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.map(Timespec::try_from).transpose()?;
    match poll(fds, left.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A process of a node, with a descriptor that is readable when it has ended.
struct Process {
    proc: Proc<'static>,
    child: Child,
    fd: OwnedFd,
}

impl Drop for Process {
    fn drop(&mut self) {
        // Neither fails for a process of this host, also if it has ended.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Serves a node until the controller ends the link. `job` is the number of processes here, the program, its arguments.
fn serve_node(address: &OsStr, node: &OsStr, job: &[OsString]) -> Result<i32, Fault> {
    let mut stream = prepared(TcpStream::connect(address.to_str().ok_or("no address")?)?)?;
    let node = number(node)?;
    let name = NODES[node as usize];
    let server = Server::builder().nspace(format!("host.{name}"));
    // All servers are on one machine, where no tool could tell them apart.
    let server = server.hostname(name).tool_support(false);
    let mut link = NodeLink::build(server.rendezvous_required(false), remove_files)?;
    let mut processes = start(link.server(), node, job)?;
    while link.link().transfer(&mut stream).unwrap_or(false) {
        while link.poll_message()?.is_some() {
            // The only message of this host's own form: the whole job is aborted.
            processes
                .iter_mut()
                .try_for_each(|process| process.child.kill())?;
        }
        let has_ended = |process: &mut Process| matches!(process.child.try_wait(), Ok(Some(_)));
        for mut process in processes.extract_if(.., has_ended) {
            // A signal has no code.
            let code = process.child.wait()?.code().unwrap_or(1);
            link.proc_ended(&process.proc, code, Instant::now())?;
        }
        let next = link.drive(Instant::now())?;
        let mut fds = vec![PollFd::new(&stream, interest(link.link()))];
        fds.push(PollFd::new(link.server(), PollFlags::IN));
        fds.extend(
            processes
                .iter()
                .map(|process| PollFd::new(&process.fd, PollFlags::IN)),
        );
        wait(&mut fds, next)?;
    }
    drop(processes);
    link.server().deregister_nspace(&JOB.into())?;
    link.server().finalize()?;
    Ok(0)
}

/// Registers the whole job, and the processes of this node, which it starts.
fn start(server: &Server, node: u32, job: &[OsString]) -> Result<Vec<Process>, Fault> {
    let num_here = number(&job[0])?;
    let nodes = NodeList::parse_text(NODES.join(",").as_bytes(), &Limits::default())?;
    let infos = [Info::new(keys::UNIV_SIZE, 3 * num_here)];
    let registration = Registration::new(&infos).with_maps(nodes, proc_map(num_here)?);
    server.register_nspace(&JOB.into(), num_here, registration)?;
    let user = Credentials::new(geteuid().as_raw(), getegid().as_raw());
    let mut processes = Vec::new();
    for rank in node * num_here..(node + 1) * num_here {
        let proc = Proc::new(JOB, Rank::new(rank));
        server.register_client(&proc, user, HostObject(rank.into()))?;
        let mut command = Command::new(&job[1]);
        let child = command
            .args(&job[2..])
            .envs(server.setup_fork(&proc)?)
            .spawn()?;
        let fd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        processes.push(Process { proc, child, fd });
    }
    Ok(processes)
}

/// Removes the files that a process or job registered, after its end.
fn remove_files(event: ServerEvent) {
    if let ServerEvent::Cleanup { user, cleanup, .. } = event {
        for error in cleanup::remove(&cleanup, user.0, &ProtectedPaths::new([".".into()])) {
            eprintln!("three_nodes: {error}");
        }
    }
}

/// Starts the nodes and serves them until all processes have ended. Returns the first exit code that is not 0.
fn control(num_here: &OsStr, args: &[OsString]) -> Result<i32, Fault> {
    let mut links = ControllerLinks::new(NODES.len());
    links.add_job(JOB.into(), proc_map(number(num_here)?)?, vec![0, 1, 2])?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let (mut nodes, mut streams, mut code) = (Vec::new(), Vec::new(), 0);
    for node in ["0", "1", "2"] {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["node", &address, node]).args(args);
        nodes.push(command.spawn()?);
        streams.push(accept(&listener)?);
    }
    while links.num_running() > 0 {
        let mut fds = Vec::new();
        for (node, stream) in streams.iter().enumerate() {
            let link = links.link(node);
            fds.extend(link.map(|link| PollFd::new(stream, interest(link))));
        }
        wait(&mut fds, links.deadline())?;
        for (node, stream) in streams.iter_mut().enumerate() {
            let ended = serve(&mut links, node, stream).unwrap_or_else(|error| {
                eprintln!("three_nodes: {} is lost: {error}", NODES[node]);
                links.node_lost(node);
                // A node that still runs sees the end of its link, and ends.
                let _ = stream.shutdown(Shutdown::Both);
                1
            });
            code = if code == 0 { ended } else { code };
        }
        links.tick(Instant::now());
    }
    // A node ends when its link does.
    drop(streams);
    nodes
        .iter_mut()
        .try_for_each(|node| node.wait().map(drop))?;
    Ok(code)
}

/// Waits for the connection of a node. Only this user may be a node; between machines, both ends need a secret.
fn accept(listener: &TcpListener) -> Result<TcpStream, Fault> {
    let until = Instant::now() + Duration::from_secs(60);
    listener.set_nonblocking(true)?;
    while Instant::now() < until {
        wait(&mut [PollFd::new(listener, PollFlags::IN)], Some(until))?;
        if let Ok((stream, _)) = listener.accept()
            && socket_owner(&stream)?.ok_or("a node has ended")? == geteuid().as_raw()
        {
            return Ok(prepared(stream)?);
        }
    }
    Err("a node does not connect".into())
}

/// Serves a node without waiting. Returns the first exit code that is not 0.
fn serve(links: &mut ControllerLinks, node: usize, stream: &mut TcpStream) -> Result<i32, Fault> {
    let Some(link) = links.link(node) else {
        return Ok(0);
    };
    let (is_open, mut code) = (link.transfer(stream)?, 0);
    while let Some(message) = links.poll_message(node, Instant::now())? {
        match message {
            NodeMessage::Upcall(call, Upcall::Abort(abort)) => {
                code = abort.status.as_raw();
                for node in 0..NODES.len() {
                    links.link(node).map_or(Ok(()), |link| link.send(b"kill"))?;
                }
                links.reply(call, &HostReply::Done(Status::SUCCESS));
            }
            NodeMessage::Upcall(call, _) => links.reply(call, &HostReply::NotSupported),
            NodeMessage::Ended(_, ended) if code == 0 => code = ended,
            _ => {}
        }
    }
    is_open
        .then_some(code)
        .ok_or_else(|| "its link has ended".into())
}

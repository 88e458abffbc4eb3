// SPDX-License-Identifier: MIT OR Apache-2.0
//! A resource manager of three nodes under tokio: a controller, and a process on each node, connected by TCP.
//!
//!     cargo build -p pmix --examples
//!     target/debug/examples/three_nodes_tokio 2 target/debug/examples/busy_client
//!
//! This starts two processes on each node. All nodes are on this machine: the controller starts this program again for
//! each of them, where a real one uses ssh or daemons. `three_nodes.rs` is the same host with a loop of its own, and
//! `docs/nodes.md` has the duties of such a host.

use std::ffi::{OsStr, OsString};
use std::future::poll_fn;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pmix::host::cleanup::{self, ProtectedPaths};
use pmix::host::controller::{ControllerLinks, NodeMessage};
use pmix::host::link::Link;
use pmix::host::node::NodeLink;
use pmix::prelude::*;
use pmix::server::socket_owner;
use pmix::server::upcall::{HostReply, Upcall};
use rustix::process::{getegid, geteuid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

type Fault = Box<dyn std::error::Error>;
/// The processes of a node. Each task ends with the exit code of its process.
type Processes = JoinSet<std::io::Result<(Proc<'static>, i32)>>;

const JOB: &str = "job@1";
const NODES: [&str; 3] = ["n00", "n01", "n02"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = match &args[..] {
        [role, address, node, job @ ..] if role == "node" => serve_node(address, node, job).await,
        [num_here, _, ..] => control(num_here, &args).await,
        _ => Err("usage: three_nodes_tokio NUMBER_PER_NODE PROGRAM [ARGUMENT]...".into()),
    };
    let code = code.unwrap_or_else(|error| {
        eprintln!("three_nodes_tokio: {error}");
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

/// Receives and sends on a connection without waiting. Returns `false` after its end.
fn transfer<T>(link: &mut Link<T>, stream: &TcpStream) -> std::io::Result<bool> {
    let is_open = link.receive(|bytes| stream.try_read(bytes))?;
    if is_open {
        link.flush(|bytes| stream.try_write(bytes))?;
    }
    Ok(is_open)
}

/// Waits for input of a connection, or for room if its link has output.
fn poll_ready<T>(link: &Link<T>, stream: &TcpStream, cx: &mut Context<'_>) -> Poll<()> {
    if !link.output().is_empty() && stream.poll_write_ready(cx).is_ready() {
        return Poll::Ready(());
    }
    stream.poll_read_ready(cx).map(drop)
}

/// Serves a node until the controller ends the link. `job` is the number of processes here, the program, its arguments.
async fn serve_node(address: &OsStr, node: &OsStr, job: &[OsString]) -> Result<i32, Fault> {
    let stream = TcpStream::connect(address.to_str().ok_or("no address")?).await?;
    stream.set_nodelay(true)?;
    let node = number(node)?;
    let name = NODES[node as usize];
    let server = Server::builder().nspace(format!("host.{name}"));
    // All servers are on one machine, where no tool could tell them apart.
    let server = server.hostname(name).tool_support(false);
    let mut link = NodeLink::build(server.rendezvous_required(false), remove_files)?;
    let fd = link.server().as_fd().try_clone_to_owned()?;
    // The newer function is unsafe, because a descriptor may be closed while it is registered. This one is owned.
    #[allow(deprecated)]
    let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
    let (aborts, _) = watch::channel(false);
    let mut processes = start(link.server(), node, job, &aborts)?;
    while transfer(link.link(), &stream).unwrap_or(false) {
        while link.poll_message()?.is_some() {
            // The only message of this host's own form: the whole job is aborted.
            aborts.send_replace(true);
        }
        let next = link.drive(Instant::now())?;
        tokio::select! {
            ready = fd.readable() => ready?.clear_ready(),
            () = poll_fn(|cx| poll_ready(link.link(), &stream, cx)) => {}
            Some(ended) = processes.join_next() => {
                let (proc, code) = ended??;
                link.proc_ended(&proc, code, Instant::now())?;
            }
            () = sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => {}
        }
    }
    aborts.send_replace(true);
    while processes.join_next().await.is_some() {}
    link.server().deregister_nspace(&JOB.into())?;
    link.server().finalize()?;
    Ok(0)
}

/// Registers the whole job, and the processes of this node, which it starts.
fn start(
    server: &Server,
    node: u32,
    job: &[OsString],
    aborts: &watch::Sender<bool>,
) -> Result<Processes, Fault> {
    let num_here = number(&job[0])?;
    let nodes = NodeList::parse_text(NODES.join(",").as_bytes(), &Limits::default())?;
    let infos = [Info::new(keys::UNIV_SIZE, 3 * num_here)];
    let registration = Registration::new(&infos).with_maps(nodes, proc_map(num_here)?);
    server.register_nspace(&JOB.into(), num_here, registration)?;
    let user = Credentials::new(geteuid().as_raw(), getegid().as_raw());
    let mut processes = Processes::new();
    for rank in node * num_here..(node + 1) * num_here {
        let proc = Proc::new(JOB, Rank::new(rank));
        server.register_client(&proc, user, HostObject(rank.into()))?;
        let mut command = Command::new(&job[1]);
        command.args(&job[2..]).envs(server.setup_fork(&proc)?);
        let (mut child, mut aborts) = (command.kill_on_drop(true).spawn()?, aborts.subscribe());
        processes.spawn(async move {
            tokio::select! {
                _ = child.wait() => {}
                _ = aborts.wait_for(|aborts| *aborts) => child.start_kill()?,
            }
            // A signal has no code.
            Ok((proc, child.wait().await?.code().unwrap_or(1)))
        });
    }
    Ok(processes)
}

/// Removes the files that a process or job registered, after its end.
fn remove_files(event: ServerEvent) {
    if let ServerEvent::Cleanup { user, cleanup, .. } = event {
        for error in cleanup::remove(&cleanup, user.0, &ProtectedPaths::new([".".into()])) {
            eprintln!("three_nodes_tokio: {error}");
        }
    }
}

/// Starts the nodes and serves them until all processes have ended. Returns the first exit code that is not 0.
async fn control(num_here: &OsStr, args: &[OsString]) -> Result<i32, Fault> {
    let mut links = ControllerLinks::new(NODES.len());
    links.add_job(JOB.into(), proc_map(number(num_here)?)?, vec![0, 1, 2])?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let (mut nodes, mut streams, mut code) = (Vec::new(), Vec::new(), 0);
    for node in ["0", "1", "2"] {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["node", &address, node]).args(args);
        nodes.push(command.spawn()?);
        let stream = timeout(Duration::from_secs(60), accept(&listener)).await;
        streams.push(Some(stream.map_err(|_| "a node does not connect")??));
    }
    while links.num_running() > 0 {
        let deadline = links.deadline();
        let any_ready = poll_fn(|cx| {
            let streams = streams.iter().enumerate();
            let mut polls = streams.filter_map(|(node, stream)| {
                Some(poll_ready(links.link(node)?, stream.as_ref()?, cx))
            });
            polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
        });
        tokio::select! {
            () = any_ready => {}
            () = sleep_until(deadline.unwrap_or_else(Instant::now).into()), if deadline.is_some() => {}
        }
        for (node, stream) in streams.iter_mut().enumerate() {
            let ended = serve(&mut links, node, stream).unwrap_or_else(|error| {
                eprintln!("three_nodes_tokio: {} is lost: {error}", NODES[node]);
                links.node_lost(node);
                // A node that still runs sees the end of its link, and ends.
                *stream = None;
                1
            });
            code = if code == 0 { ended } else { code };
        }
        links.tick(Instant::now());
    }
    // A node ends when its link does.
    drop(streams);
    for mut node in nodes {
        node.wait().await?;
    }
    Ok(code)
}

/// Waits for the connection of a node. Only this user may be a node; between machines, both ends need a secret.
async fn accept(listener: &TcpListener) -> Result<TcpStream, Fault> {
    loop {
        let stream = listener.accept().await?.0.into_std()?;
        if socket_owner(&stream)?.ok_or("a node has ended")? == geteuid().as_raw() {
            stream.set_nodelay(true)?;
            return Ok(TcpStream::from_std(stream)?);
        }
    }
}

/// Serves a node without waiting. Returns the first exit code that is not 0.
fn serve(
    links: &mut ControllerLinks,
    node: usize,
    stream: &Option<TcpStream>,
) -> Result<i32, Fault> {
    let (Some(stream), Some(link)) = (stream, links.link(node)) else {
        return Ok(0);
    };
    let (is_open, mut code) = (transfer(link, stream)?, 0);
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

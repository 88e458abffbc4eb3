// SPDX-License-Identifier: MIT OR Apache-2.0
//! The servers of two nodes and the links of a controller, in this process and without a transport.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use pmix_client::{Client, Settings};
use pmix_host::controller::{ControllerLinks, NodeMessage};
use pmix_host::link::Link;
use pmix_host::node::NodeLink;
use pmix_map::{Limits, NodeList, ProcMap};
use pmix_mca::Environment;
use pmix_server::upcall::Upcall;
use pmix_server::{Credentials, HostObject, Registration, Server};
use pmix_types::{Info, Proc, Rank, Scope, Status, Value, keys};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{getegid, geteuid};

const JOB: &str = "job@1";
const NODES: [&str; 2] = ["n00", "n01"];

/// The time limit of each step, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

fn proc(rank: u32) -> Proc<'static> {
    Proc::new(JOB, Rank::new(rank))
}

/// The servers of two nodes with a process each, and the controller.
struct Host {
    controller: ControllerLinks,
    nodes: Vec<NodeLink>,
    settings: Vec<Settings>,
    _folder: tempfile::TempDir,
}

impl Host {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let procs = || ProcMap::parse_text(b"0;1", &Limits::default()).unwrap();
        let mut controller = ControllerLinks::new(2);
        controller.add_job(JOB.into(), procs(), vec![0, 1]).unwrap();
        let (mut nodes, mut settings) = (Vec::new(), Vec::new());
        for (rank, name) in (0..).zip(NODES) {
            let own = folder.path().join(name);
            std::fs::create_dir(&own).unwrap();
            let server = Server::builder()
                .nspace(format!("host.{name}"))
                .hostname(name);
            let server = server.server_tmpdir(&own).system_tmpdir(&own);
            let node = NodeLink::build(server, |_| ()).unwrap();
            let names = NodeList::parse_text(NODES.join(",").as_bytes(), &Limits::default());
            let job = Registration::new(&[]).with_maps(names.unwrap(), procs());
            node.server().register_nspace(&JOB.into(), 1, job).unwrap();
            let user = Credentials::new(geteuid().as_raw(), getegid().as_raw());
            node.server()
                .register_client(&proc(rank), user, HostObject(0))
                .unwrap();
            let mut of_process = Settings::of(&Environment {
                vars: node.server().setup_fork(&proc(rank)).unwrap(),
                cwd: own.clone(),
                home: None,
                system: PathBuf::from(&own),
            })
            .unwrap();
            of_process.time_limit = Some(LIMIT);
            settings.push(of_process);
            nodes.push(node);
        }
        Self {
            controller,
            nodes,
            settings,
            _folder: folder,
        }
    }

    /// Passes the output of each end of each link to the other end. Returns the messages for the host.
    fn pass(&mut self) -> Vec<NodeMessage> {
        let mut messages = Vec::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let link = self.controller.link(number).unwrap();
            carry(node.link(), link);
            while let Some(message) = self
                .controller
                .poll_message(number, Instant::now())
                .unwrap()
            {
                messages.push(message);
            }
        }
        for (number, node) in self.nodes.iter_mut().enumerate() {
            carry(self.controller.link(number).unwrap(), node.link());
            assert_eq!(node.poll_message().unwrap(), None);
        }
        messages
    }

    /// Serves until the receiver gets a message. Returns it, and the messages for the host.
    fn serve_until<T>(&mut self, done: &Receiver<T>) -> (T, Vec<NodeMessage>) {
        let (until, mut messages) = (Instant::now() + LIMIT, Vec::new());
        loop {
            assert!(Instant::now() < until, "nothing after {LIMIT:?}");
            for node in &mut self.nodes {
                node.drive(Instant::now()).unwrap();
            }
            messages.extend(self.pass());
            if let Ok(done) = done.try_recv() {
                return (done, messages);
            }
            // The receiver has no descriptor to wait for.
            let soon = Timespec::try_from(Duration::from_millis(10)).unwrap();
            let nodes = self.nodes.iter();
            let fds = nodes.map(|node| PollFd::new(node.server(), PollFlags::IN));
            poll(&mut fds.collect::<Vec<_>>(), Some(&soon)).unwrap();
        }
    }
}

fn carry<A, B>(from: &mut Link<A>, to: &mut Link<B>) {
    to.handle_input(from.output());
    from.handle_written(usize::MAX);
}

#[test]
fn processes_of_two_nodes_exchange_data_through_the_links() {
    let mut host = Host::start();
    let (sender, done) = channel();
    let processes: Vec<_> = (0..2)
        .zip(host.settings.drain(..))
        .map(|(rank, settings)| {
            let sender = sender.clone();
            thread::spawn(move || {
                let client = Client::init(settings).unwrap();
                client.put(Scope::GLOBAL, "card", rank).unwrap();
                client.commit().unwrap();
                // Without the data, so that the get is a direct modex.
                client.fence([], []).wait().unwrap();
                let card = client.get(&proc(1 - rank), "card", &[]).wait().unwrap();
                client
                    .publish([Info::new(format!("port.{rank}"), rank)])
                    .wait()
                    .unwrap();
                let wait = Info::new(keys::WAIT, 0_i32);
                let key = format!("port.{}", 1 - rank);
                let (_, found) = client.lookup([key], [wait]).wait().unwrap();
                client.fence([], []).wait().unwrap();
                client.finalize().unwrap();
                sender.send((rank, card, found[0].value.clone())).unwrap();
            })
        })
        .collect();
    for _ in 0..2 {
        let ((rank, card, port), messages) = host.serve_until(&done);
        let other = Value::from(1 - rank);
        assert_eq!((&card, &port), (&other, &other));
        assert!(messages.is_empty(), "{messages:?}");
    }
    processes
        .into_iter()
        .for_each(|process| process.join().unwrap());
    let now = Instant::now();
    for rank in [0, 1] {
        host.nodes[rank as usize]
            .proc_ended(&proc(rank), 0, now)
            .unwrap();
    }
    let ended = [0, 1].map(|rank| NodeMessage::Ended(proc(rank), 0));
    assert_eq!(host.pass(), ended);
    assert_eq!(host.controller.num_running(), 0);
}

#[test]
fn the_calls_of_a_process_reach_the_controller_before_its_end() {
    let mut host = Host::start();
    let settings = host.settings.remove(0);
    let (ready, is_ready) = channel();
    let (go, gone) = channel();
    let process = thread::spawn(move || {
        let client = Client::init(settings).unwrap();
        ready.send(()).unwrap();
        gone.recv().unwrap();
        // The process ends without waiting for the reply.
        client.abort(9, "no more", &[]).start(|_| ()).unwrap();
    });
    host.serve_until(&is_ready);
    // No node is driven while the process calls and ends.
    go.send(()).unwrap();
    process.join().unwrap();
    host.nodes[0]
        .proc_ended(&proc(0), 9, Instant::now())
        .unwrap();
    let messages = host.pass();
    let [
        NodeMessage::Upcall(_, Upcall::Abort(abort)),
        NodeMessage::Ended(ended, 9),
    ] = &messages[..]
    else {
        panic!("{messages:?}");
    };
    assert_eq!((&abort.proc, ended), (&proc(0), &proc(0)));
    assert_eq!(abort.status, Status::from_raw(9));
}

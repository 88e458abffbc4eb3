// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life of a server from its start to its end.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gds_hash::{Codec, ModexStore};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use pmix_mca::Environment;
use pmix_proto::{Request, request};
use pmix_server::upcall::ClientConnected;
use pmix_server::{Builder, Completion, Error, Host, HostObject, Server, ServerEvent};
use pmix_types::{DataRange, Info, IofChannel, Nspace, Proc, Rank, Scope, Status, keys};

use super::peer::{self, JOB, Peer};

/// Makes every call of a host; each has no effect if it is accepted.
fn every_request(server: &Server) -> Vec<Result<(), Error>> {
    let (job, proc) = (Nspace::from("none"), Proc::new("none", Rank::new(0)));
    vec![
        server.register_nspace(&job, 0, &[]),
        server.deregister_nspace(&job),
        server.register_client(&proc, pmix_server::Credentials::new(0, 0), HostObject(0)),
        server.deregister_client(&proc),
        server.setup_fork(&proc).map(drop),
        server.setup_application(&job, &[]).map(drop),
        server.setup_local_support(&job, &[]),
        server.define_process_set(&"set".into(), std::slice::from_ref(&proc)),
        server.delete_process_set(&"set".into()),
        server.dmodex_request(&proc, &[], drop),
        server.iof_deliver(&proc, IofChannel::STDOUT_CHANNEL, Vec::new(), &[]),
        server.notify(Status::ERROR, &proc, DataRange::LOCAL, &[]),
    ]
}

#[test]
fn requests_before_the_start_and_after_the_end_are_answered_not_initialised() {
    let server = peer::builder().build().unwrap();
    let uninitialised = |results: Vec<Result<(), Error>>| {
        results
            .iter()
            .all(|r| matches!(r, Err(e) if e.status() == Status::ERR_INIT))
    };
    assert!(uninitialised(every_request(&server)));
    server.start().unwrap();
    assert!(every_request(&server).iter().filter(|r| r.is_ok()).count() >= 5);
    assert_eq!(server.start().unwrap_err().status(), Status::ERR_INIT);
    server.finalize().unwrap();
    assert!(uninitialised(every_request(&server)));
    assert_eq!(server.finalize().unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(server.start().unwrap_err().status(), Status::ERR_INIT);
    assert_eq!(
        server.drive(Instant::now()).unwrap_err().status(),
        Status::ERR_INIT
    );
}

#[test]
fn maps_need_no_server_that_runs() {
    let server = peer::builder().build().unwrap();
    let regex = server.generate_regex(b"n01,n02,n03").unwrap();
    let ppn = server.generate_ppn(b"0,1;2,3;4,5").unwrap();
    assert!(!regex.is_empty() && !ppn.is_empty());
    let regex2 = server.generate_regex2(b"n01,n02,n03").unwrap();
    assert_eq!(
        server.parse_regex2(regex2.as_view()).unwrap(),
        b"n01,n02,n03"
    );
}

#[test]
fn data_of_a_process_is_sent_to_a_requesting_server() {
    let server = peer::serve(peer::builder(), 2);
    let mut client = Peer::client(&server, 1).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let ask = |rank: u32| {
        let sender = sender.clone();
        let proc = Proc::new(JOB, Rank::new(rank));
        let told = move |result| sender.send((rank, result)).unwrap();
        server.dmodex_request(&proc, &[], told)
    };
    ask(1).unwrap();
    assert!(receiver.try_recv().is_err(), "it has put nothing yet");
    let mut puts = ModexStore::default();
    let info = Info::new("card", "ib0");
    puts.put(Rank::new(1), Scope::REMOTE, info).unwrap();
    let wire = Codec::new(client.form().layout);
    let blocks = puts.commit_message(&wire, Rank::new(1)).unwrap();
    let commit = Request::Commit(request::Commit { blocks: &blocks });
    assert_eq!(client.ask_status(&commit).unwrap(), Status::SUCCESS);
    let (rank, data) = receiver.recv().unwrap();
    assert_eq!(rank, 1);
    assert!(data.unwrap().windows(3).any(|bytes| bytes == b"ib0"));
    assert_eq!(ask(7).unwrap_err().status(), Status::ERR_NOT_FOUND);
}

#[test]
fn all_known_values_are_returned_without_a_key() {
    let server = peer::serve(peer::builder(), 2);
    let mut client = Peer::client(&server, 1).unwrap();
    let known = |nspace: &'static str, rank| {
        let infos = server.get_all(&Proc::new(nspace, rank), &[]);
        let name = |info: Info<'_>| info.key.as_text().to_str_lossy().into_owned();
        infos.map(|infos| infos.into_iter().map(name).collect::<Vec<_>>())
    };
    let mut puts = ModexStore::default();
    for (scope, key) in [(Scope::LOCAL, "card"), (Scope::REMOTE, "far")] {
        puts.put(Rank::new(1), scope, Info::new(key, "ib0"))
            .unwrap();
    }
    let wire = Codec::new(client.form().layout);
    let blocks = puts.commit_message(&wire, Rank::new(1)).unwrap();
    let commit = Request::Commit(request::Commit { blocks: &blocks });
    assert_eq!(client.ask_status(&commit).unwrap(), Status::SUCCESS);
    let of_proc = known(JOB, Rank::new(1)).unwrap();
    let has = |key: &str| of_proc.iter().any(|known| known == key);
    assert!(has("card") && has(keys::LOCAL_RANK), "{of_proc:?}");
    assert!(!has("far") && !has(keys::JOB_SIZE), "{of_proc:?}");
    let of_job = known(JOB, Rank::WILDCARD).unwrap();
    assert!(of_job.iter().any(|key| key == keys::JOB_SIZE), "{of_job:?}");
    for (nspace, rank) in [(JOB, 7), ("nobody", 0)] {
        let error = known(nspace, Rank::new(rank)).unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_FOUND);
    }
}

#[test]
fn connections_end_with_the_server() {
    let server = peer::serve(peer::builder(), 1);
    let client = Peer::client(&server, 0).unwrap().into_stream();
    let address = peer::address(&server);
    server.finalize().unwrap();
    assert_eq!(peer::closed(client), b"");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn the_last_handle_ends_the_server() {
    let server = peer::serve(peer::builder(), 1);
    let client = Peer::client(&server, 0).unwrap().into_stream();
    drop(server.clone());
    drop(server);
    assert_eq!(peer::closed(client), b"");
}

#[test]
fn rendezvous_files_come_and_go_with_the_server() {
    let top = tempfile::tempdir().unwrap();
    let open = |name: &'static str| {
        let builder = peer::builder().nspace(name).system_tmpdir(top.path());
        builder
            .server_tmpdir(top.path())
            .system_support(true)
            .build()
    };
    let server = open("first").unwrap();
    let file = top.path().join("pmix.sys.n00");
    assert_eq!(server.rendezvous_files(), std::slice::from_ref(&file));
    let text = fs::read_to_string(&file).unwrap();
    let uri = text.lines().next().unwrap();
    assert_eq!(uri, server.uri());
    assert!(uri.starts_with("first.0;tcp4://127.0.0.1:"), "{uri}");
    let second = open("second").unwrap_err();
    assert!(second.to_string().contains(uri), "{second}");
    server.finalize().unwrap();
    assert!(!file.exists());
}

#[test]
fn a_server_serves_without_its_files_if_they_are_not_required() {
    let builder = || {
        let builder = peer::builder().system_tmpdir("/proc/nowhere");
        builder.system_support(true)
    };
    let error = builder().build().unwrap_err();
    assert!(error.to_string().contains("/proc/nowhere"), "{error}");
    let server = peer::serve(builder().rendezvous_required(false), 1);
    assert!(Peer::client(&server, 0).is_ok());
    assert!(server.rendezvous_files().is_empty());
}

/// Returns a builder whose environment is this single variable.
fn in_environment(path: &Path) -> Builder {
    let name = "PMIX_LAUNCHER_RENDEZVOUS_FILE".into();
    peer::builder().environment(Environment {
        vars: vec![(name, path.into())],
        cwd: "/".into(),
        home: None,
        system: "/nonexistent".into(),
    })
}

#[test]
fn a_server_writes_the_requested_rendezvous_file() {
    let top = tempfile::tempdir().unwrap();
    let (named, inherited) = (top.path().join("deep/named"), top.path().join("inherited"));
    let first = in_environment(&inherited).build().unwrap();
    assert_eq!(first.rendezvous_files(), std::slice::from_ref(&inherited));
    let text = fs::read_to_string(&inherited).unwrap();
    assert_eq!(text.lines().next(), Some(first.uri()));
    // An explicit file takes precedence over the environment, and a failure to write it is an error.
    let builder = in_environment(&inherited).rendezvous_required(false);
    let second = builder.rendezvous_file(&named).build().unwrap();
    assert_eq!(second.rendezvous_files(), std::slice::from_ref(&named));
    let third = peer::builder().rendezvous_required(false);
    let error = third.rendezvous_file(&named).build().unwrap_err();
    assert_eq!(error.status(), Status::ERR_EXISTS);
    assert!(error.to_string().contains(second.uri()), "{error}");
    first.finalize().unwrap();
    second.finalize().unwrap();
    assert!(!inherited.exists() && !named.exists());
}

#[test]
fn a_file_that_the_environment_names_may_be_another_servers() {
    let top = tempfile::tempdir().unwrap();
    let file = top.path().join("file");
    let first = in_environment(&file).build().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let second = in_environment(&file).build().unwrap();
    assert!(second.rendezvous_files().is_empty());
    second.finalize().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    first.finalize().unwrap();
    let error = in_environment(Path::new("/proc/nowhere/file")).build();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("/proc/nowhere"), "{error}");
}

#[test]
fn the_address_is_reported_to_a_file() {
    let top = tempfile::tempdir().unwrap();
    let file = top.path().join("uri");
    let server = peer::builder()
        .report_uri(file.to_str().unwrap())
        .build()
        .unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().next(), Some(server.uri()));
}

#[test]
fn names_that_would_break_the_address_or_a_path_are_refused() {
    for name in ["", "a;b", "a/b", "a\nb", "a b"] {
        let error = peer::builder().nspace(name.to_owned()).build().unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{name:?}");
    }
    for host in ["", "../n00"] {
        assert!(peer::builder().hostname(host).build().is_err(), "{host:?}");
    }
}

/// Drives a server until `done`, like a host with an event loop: only when the descriptor is readable or the
/// returned time is reached.
fn drive_until(server: &Server, done: impl Fn() -> bool) {
    let fd = server.as_fd().as_raw_fd();
    let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(1));
    let registry = poll.registry();
    registry
        .register(&mut SourceFd(&fd), Token(0), Interest::READABLE)
        .unwrap();
    let mut next = Some(Instant::now());
    while !done() {
        let now = Instant::now();
        if events.is_empty() && next.is_none_or(|next| next > now) {
            let soon = Duration::from_millis(5);
            poll.poll(&mut events, Some(soon)).unwrap();
            continue;
        }
        next = server.drive(now).unwrap();
        events.clear();
        // Remaining input causes another event.
        let again = poll
            .registry()
            .reregister(&mut SourceFd(&fd), Token(0), Interest::READABLE);
        again.unwrap();
    }
}

#[test]
fn a_host_may_drive_its_server_itself() {
    let server = peer::builder().external_progress(true).build().unwrap();
    peer::register(&server, JOB, 1, peer::me());
    assert_eq!(server.start().unwrap_err().status(), Status::ERR_INIT);
    let handle = server.clone();
    let client = std::thread::spawn(move || {
        let mut client = Peer::client(&handle, 0).unwrap();
        client
            .ask_status(&Request::Unknown(pmix_proto::Command(99)))
            .unwrap()
    });
    drive_until(&server, || client.is_finished());
    assert_eq!(client.join().unwrap(), Status::ERR_NOT_SUPPORTED);
    server.finalize().unwrap();
    assert!(server.drive(Instant::now()).is_err());
}

#[test]
fn a_host_may_leave_its_waiting_to_the_server() {
    let server = peer::builder().external_progress(true).build().unwrap();
    peer::register(&server, JOB, 1, peer::me());
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    server.watch(ours.as_fd()).unwrap();
    assert!(server.watch(theirs.as_fd()).is_err());
    let soon = || Some(Instant::now() + Duration::from_millis(1));
    assert!(!server.turn(soon()).unwrap());

    let handle = server.clone();
    let client = std::thread::spawn(move || {
        let mut client = Peer::client(&handle, 0).unwrap();
        let status = client.ask_status(&Request::Unknown(pmix_proto::Command(99)));
        theirs.write_all(b"x").unwrap();
        (status.unwrap(), theirs)
    });
    // Only new input ends the wait: from the client, and later on the host's descriptor.
    while !server.turn(None).unwrap() {}
    let (status, mut theirs) = client.join().unwrap();
    assert_eq!(status, Status::ERR_NOT_SUPPORTED);
    assert!(!server.turn(soon()).unwrap(), "it is reported once");

    // An event during a turn is reported in the next turn.
    theirs.write_all(b"x").unwrap();
    server.drive(Instant::now()).unwrap();
    assert!(server.turn(None).unwrap());

    let handle = server.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let waits = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        while handle.turn(None).is_ok() {}
    });
    until_it_waits(told.recv().unwrap());
    server.finalize().unwrap();
    waits.join().unwrap();
}

#[test]
fn pending_output_is_sent_before_the_server_ends() {
    // More bytes than the kernel buffers for a connection that is not read.
    const LEN: usize = 1 << 20;
    const NUM: usize = 24;
    for external in [false, true] {
        let server = peer::builder().external_progress(external).build().unwrap();
        if !external {
            server.start().unwrap();
        }
        peer::register(&server, JOB, 1, peer::me());
        let handle = server.clone();
        let client = std::thread::spawn(move || {
            let mut client = Peer::client(&handle, 0).unwrap();
            let register = Request::RegisterEvents(request::RegisterEvents {
                codes: vec![],
                infos: vec![],
            });
            assert_eq!(client.ask_status(&register).unwrap(), Status::SUCCESS);
            client.into_stream()
        });
        if external {
            drive_until(&server, || client.is_finished());
        }
        let stream = client.join().unwrap();
        let infos = [Info::new("text", "x".repeat(LEN))];
        let source = server.proc().clone();
        for _ in 0..NUM {
            let told = server.notify(Status::ERROR, &source, DataRange::LOCAL, &infos);
            told.unwrap();
        }
        let reader = std::thread::spawn(move || peer::closed(stream).len());
        server.finalize().unwrap();
        let len = reader.join().unwrap();
        assert!(len > NUM * LEN, "{len} bytes, external: {external}");
    }
}

/// Returns once the kernel reports that a thread of this process sleeps.
fn until_it_waits(thread: rustix::thread::Pid) {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    let until = Instant::now() + Duration::from_secs(60);
    // The state follows the name, which is in parentheses.
    while !std::fs::read_to_string(&path).unwrap().contains(") S ") {
        assert!(Instant::now() < until, "the thread has not begun to wait");
        std::thread::yield_now();
    }
}

#[test]
fn an_end_that_comes_with_the_last_bytes_is_noticed() {
    let server = peer::builder().external_progress(true).build().unwrap();
    peer::register(&server, JOB, 1, peer::me());
    let handle = server.clone();
    let client = std::thread::spawn(move || Peer::client(&handle, 0).unwrap());
    drive_until(&server, || client.is_finished());
    let mut client = client.join().unwrap();
    // The server is not driven until both the request and the shutdown have arrived.
    let unknown = Request::Unknown(pmix_proto::Command(99));
    client.send(&unknown).unwrap();
    let stream = client.into_stream();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = std::thread::spawn(move || peer::closed(stream));
    drive_until(&server, || answer.is_finished());
    // Earlier messages of the peer do not matter: it has shut down its sending side.
    answer.join().unwrap();
}

/// A host that records its events.
#[derive(Default)]
struct Listener(Mutex<Vec<ServerEvent>>);

impl Host for Listener {
    fn server_event(&self, event: ServerEvent) {
        self.0.lock().unwrap().push(event);
    }
}

#[test]
fn events_before_the_end_are_delivered_without_a_driver() {
    let host = Arc::new(Listener::default());
    let builder = peer::builder().shared_host(Arc::clone(&host) as Arc<dyn Host>);
    let server = builder.external_progress(true).build().unwrap();
    peer::register(&server, JOB, 1, peer::me());
    let handle = server.clone();
    let client = std::thread::spawn(move || {
        let mut client = Peer::client(&handle, 0).unwrap();
        let infos = vec![Info::new(keys::REGISTER_CLEANUP, "/no/such/file")];
        let targets = Vec::new();
        let request = request::JobControl { targets, infos };
        client.ask_status(&Request::JobControl(request)).unwrap()
    });
    drive_until(&server, || client.is_finished());
    assert_eq!(client.join().unwrap(), Status::SUCCESS);
    server.deregister_nspace(&JOB.into()).unwrap();
    server.finalize().unwrap();
    let told = host.0.lock().unwrap();
    let is_cleanup = |notice: &&ServerEvent| matches!(notice, ServerEvent::Cleanup { .. });
    assert_eq!(told.iter().filter(is_cleanup).count(), 1, "{told:?}");
}

/// A host that calls its server from within a call.
#[derive(Default)]
struct Reentrant {
    server: Mutex<Option<Server>>,
    seen: Mutex<Vec<Result<(), Status>>>,
}

impl Host for Reentrant {
    fn client_connected(&self, call: ClientConnected, done: Completion<()>) {
        let server = self.server.lock().unwrap().clone().unwrap();
        let infos = [
            Info::new(keys::NODE_MAP, "n00"),
            Info::new(keys::PROC_MAP, "0"),
        ];
        let registered = server.register_nspace(&"spawned".into(), 1, &infos);
        self.seen
            .lock()
            .unwrap()
            .push(registered.map_err(|e| e.status()));
        if call.proc.rank == Rank::new(1) {
            self.seen
                .lock()
                .unwrap()
                .push(server.finalize().map_err(|e| e.status()));
        }
        done.succeed(());
    }
}

#[test]
fn a_host_may_call_its_server_from_a_call_and_end_it() {
    let host = Arc::new(Reentrant::default());
    let server = peer::serve(peer::builder().shared_host(host.clone()), 2);
    *host.server.lock().unwrap() = Some(server.clone());
    let first = Peer::client(&server, 0).unwrap();
    let second = Peer::client(&server, 1);
    assert_eq!(peer::closed(first.into_stream()), b"");
    drop(second);
    assert_eq!(*host.seen.lock().unwrap(), [Ok(()), Ok(()), Ok(())]);
    *host.server.lock().unwrap() = None;
}

#[test]
fn connections_that_break_as_the_server_ends_do_not_hold_it_up() {
    for _ in 0..20 {
        let server = peer::serve(peer::builder(), 8);
        let clients: Vec<_> = (0..8).map(|r| Peer::client(&server, r).unwrap()).collect();
        let asked = clients.into_iter().map(|mut client| {
            // The reply will not be read.
            client.send(&Request::JobInfo).unwrap();
        });
        let left = asked.count();
        server.finalize().unwrap();
        assert_eq!(left, 8);
    }
}

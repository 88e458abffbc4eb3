// SPDX-License-Identifier: MIT OR Apache-2.0
//! The publish and lookup service with a real server and clients in this process.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pmix_client::{Client, Error, Settings};
use pmix_host::publish::PublishService;
use pmix_mca::Environment;
use pmix_server::upcall::{Lookup, Publish, Unpublish};
use pmix_server::{Completion, Credentials, Host, HostObject, Server};
use pmix_types::{Info, Pdata, Proc, Rank, Status, Value, keys};
use rustix::process::{getegid, geteuid};

const JOB: &str = "job@1";

/// Time limit for replies to a client.
const LIMIT: Duration = Duration::from_secs(60);

/// A host with this service only.
#[derive(Clone, Default)]
struct ServiceHost(Arc<Mutex<PublishService>>);

impl ServiceHost {
    fn with<T>(&self, act: impl FnOnce(&mut PublishService) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Host for ServiceHost {
    fn publish(&self, call: Publish, done: Completion<()>) {
        self.with(|service| service.publish(&call, done));
    }

    fn lookup(&self, call: Lookup, done: Completion<Vec<Pdata<'static>>>) {
        self.with(|service| service.lookup(&call, done));
    }

    fn unpublish(&self, call: Unpublish, done: Completion<()>) {
        self.with(|service| service.unpublish(&call, done));
    }
}

struct Job {
    host: ServiceHost,
    server: Server,
    _folder: tempfile::TempDir,
}

impl Job {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = ServiceHost::default();
        let builder = Server::builder().host(host.clone()).hostname("n00");
        let builder = builder
            .server_tmpdir(folder.path())
            .system_tmpdir(folder.path());
        let server = builder.build().unwrap();
        server.start().unwrap();
        let maps = [
            Info::new(keys::NODE_MAP, "n00"),
            Info::new(keys::PROC_MAP, "0,1"),
        ];
        server.register_nspace(&JOB.into(), 2, &maps).unwrap();
        let user = Credentials::new(geteuid().as_raw(), getegid().as_raw());
        for rank in [0, 1] {
            let proc = Proc::new(JOB, Rank::new(rank));
            server.register_client(&proc, user, HostObject(0)).unwrap();
        }
        Self {
            host,
            server,
            _folder: folder,
        }
    }

    fn client(&self, rank: u32) -> Client {
        let proc = Proc::new(JOB, Rank::new(rank));
        let environment = Environment {
            vars: self.server.setup_fork(&proc).unwrap(),
            cwd: PathBuf::new(),
            home: None,
            system: PathBuf::new(),
        };
        let mut settings = Settings::of(&environment).unwrap();
        settings.time_limit = Some(LIMIT);
        Client::init(settings).unwrap()
    }
}

/// Starts a lookup of one key in a thread, which waits.
fn lookup_in_thread(
    client: Client,
    infos: Vec<Info<'static>>,
) -> std::thread::JoinHandle<Result<Vec<Pdata<'static>>, Error>> {
    std::thread::spawn(move || Ok(client.lookup(["port"], infos).wait()?.1))
}

/// Waits until the service has a lookup that can time out.
fn deadline(host: &ServiceHost) -> Instant {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(deadline) = host.with(|service| service.deadline()) {
            return deadline;
        }
        assert!(Instant::now() < end, "no lookup came");
        std::thread::yield_now();
    }
}

#[test]
fn a_lookup_waits_for_data_and_unpublished_data_is_not_found() {
    let job = Job::start();
    let found = lookup_in_thread(job.client(1), vec![Info::new(keys::WAIT, 0_i32)]);
    let publisher = job.client(0);
    publisher
        .publish(&[Info::new("port", "17")])
        .wait()
        .unwrap();
    let found = found.join().unwrap().unwrap();
    assert_eq!(found[0].value, Value::from("17"));
    assert_eq!(found[0].proc, Proc::new(JOB, Rank::new(0)));
    let again = publisher
        .publish(&[Info::new("port", "18")])
        .wait()
        .unwrap_err();
    assert_eq!(again.status(), Status::ERR_DUPLICATE_KEY);
    // A lookup of several keys returns the published ones.
    let some = publisher.lookup(["port", "nothing"], &[]).wait().unwrap();
    assert_eq!(some.1.len(), 1);
    assert_eq!(some.1[0].value, Value::from("17"));
    publisher.unpublish(["port"], &[]).wait().unwrap();
    let gone = publisher.lookup(["port"], &[]).wait().unwrap_err();
    assert_eq!(gone.status(), Status::ERR_NOT_FOUND);
}

#[test]
fn a_lookup_ends_at_its_deadline_and_with_its_process() {
    let job = Job::start();
    let wait = || {
        vec![
            Info::new(keys::WAIT, 0_i32),
            Info::new(keys::TIMEOUT, 3600_i32),
        ]
    };
    let late = lookup_in_thread(job.client(0), wait());
    let deadline = deadline(&job.host);
    assert!(deadline > Instant::now());
    job.host.with(|service| service.tick(deadline));
    let late = late.join().unwrap().unwrap_err();
    assert_eq!(late.status(), Status::ERR_TIMEOUT);
    assert_eq!(job.host.with(|service| service.deadline()), None);

    let orphan = lookup_in_thread(job.client(1), wait());
    self::deadline(&job.host);
    job.host
        .with(|service| service.proc_ended(&Proc::new(JOB, Rank::new(1))));
    let orphan = orphan.join().unwrap().unwrap_err();
    assert_eq!(orphan.status(), Status::ERR_LOST_CONNECTION);
}

#[test]
fn published_data_is_removed_with_its_job_unless_it_persists() {
    let job = Job::start();
    let publisher = job.client(0);
    publisher
        .publish(&[Info::new("port", "17")])
        .wait()
        .unwrap();
    let stay = pmix_types::Persistence::SESSION;
    let kept = [Info::new("card", "ib0"), Info::new(keys::PERSISTENCE, stay)];
    publisher.publish(&kept).wait().unwrap();
    job.host.with(|service| service.job_ended(&JOB.into()));
    let gone = publisher.lookup(["port"], &[]).wait().unwrap_err();
    assert_eq!(gone.status(), Status::ERR_NOT_FOUND);
    assert_eq!(publisher.lookup(["card"], &[]).wait().unwrap().1.len(), 1);
}

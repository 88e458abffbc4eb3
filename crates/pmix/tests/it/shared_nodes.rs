// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients of a job on two nodes whose servers a host connects: values read in shared memory equal those received by
//! messages.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use pmix::client::Client;
use pmix::params::Environment;
use pmix::prelude::*;
use pmix::server::upcall::{DirectModex, Fence};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const JOB: &str = "job@1";
const NODES: [&str; 2] = ["n00", "n01"];

/// Number of processes on each node.
const HERE: u32 = 3;
const SIZE: u32 = 2 * HERE;

/// The time limit of each call, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

/// A fence that the server of one node has called, and that of the other has not yet.
type PendingFence = (usize, Fence, Completion<Vec<u8>>);

/// The state shared by the hosts of both servers.
#[derive(Default)]
struct Network {
    servers: [OnceLock<Server>; 2],
    fences: Mutex<Vec<PendingFence>>,
}

/// The host of one node.
struct NodeHost {
    node: usize,
    network: Arc<Network>,
}

impl Host for NodeHost {
    fn fence(&self, call: Fence, done: Completion<Vec<u8>>) {
        let fences = &self.network.fences;
        let mut fences = fences.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other =
            |(node, other, _): &PendingFence| *node != self.node && other.procs == call.procs;
        let Some(index) = fences.iter().position(is_other) else {
            return fences.push((self.node, call, done));
        };
        let (_, other, others) = fences.remove(index);
        let all = [other.data, call.data].concat();
        others.succeed(all.clone());
        done.succeed(all);
    }

    fn direct_modex(&self, call: DirectModex, done: Completion<Vec<u8>>) {
        if let Some(other) = self.network.servers[1 - self.node].get() {
            let answer = move |result| done.complete(result);
            let asked = other.dmodex_request(&call.proc, &call.infos, answer);
            asked.expect("the other server serves");
        }
    }
}

/// Two servers and a client for each rank; `shares` enables shared memory.
struct Job {
    network: Arc<Network>,
    clients: Vec<Client>,
}

impl Job {
    fn start(folder: &Path, shares: bool) -> Result<Self> {
        let network = Arc::new(Network::default());
        let mut clients = Vec::new();
        for (node, name) in NODES.into_iter().enumerate() {
            let home = folder.join(name);
            std::fs::create_dir_all(&home)?;
            let network = Arc::clone(&network);
            let builder = Server::builder().host(NodeHost {
                node,
                network: Arc::clone(&network),
            });
            let builder = builder.nspace(format!("host.{name}")).hostname(name);
            let builder = builder.server_tmpdir(&home).system_tmpdir(&home);
            let server = builder.share_data(shares).build()?;
            server.start()?;
            clients.extend(register(&server, node, &home)?);
            assert!(network.servers[node].set(server).is_ok());
        }
        let is_shared = |settings: &Settings| settings.shared_data.is_some();
        assert!(clients.iter().all(|client| is_shared(client) == shares));
        let join = |settings: Settings| Client::init(settings);
        let clients = clients.into_iter().map(join);
        let clients = clients.collect::<std::result::Result<_, _>>()?;
        Ok(Self { network, clients })
    }

    fn fence(&self, collects: bool) -> Result<()> {
        thread::scope(|scope| {
            let fence = move |client: &Client| {
                let infos = vec![Info::new(keys::COLLECT_DATA, collects)];
                client.fence(Vec::new(), infos).wait()
            };
            let clients = self.clients.iter();
            let fences: Vec<_> = clients
                .map(|client| scope.spawn(move || fence(client)))
                .collect();
            for fence in fences {
                fence.join().map_err(|_| "a fence panicked")??;
            }
            Ok(())
        })
    }

    fn put_all(&self, round: u32) -> Result<()> {
        for (rank, client) in (0..).zip(&self.clients) {
            client.put(Scope::GLOBAL, "t.global", 100 * round + rank)?;
            client.put(Scope::REMOTE, "t.remote", 200 * round + rank)?;
            client.put(Scope::LOCAL, "t.local", 300 * round + rank)?;
            client.commit()?;
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        thread::scope(|scope| {
            let clients = self.clients.iter();
            let ends: Vec<_> = clients
                .map(|client| scope.spawn(|| client.finalize()))
                .collect();
            for end in ends {
                end.join().map_err(|_| "an end panicked")??;
            }
            Result::Ok(())
        })?;
        for server in self.network.servers.iter().filter_map(OnceLock::get) {
            server.finalize()?;
        }
        Ok(())
    }
}

/// Registers the job with the server of a node, and returns the settings of its local processes.
fn register(server: &Server, node: usize, home: &Path) -> Result<Vec<Settings>> {
    let limits = Limits::default();
    let nodes = NodeList::parse_text(NODES.join(",").as_bytes(), &limits)?;
    let ranks = format!("0-{};{HERE}-{}", HERE - 1, SIZE - 1);
    let procs = ProcMap::parse_text(ranks.as_bytes(), &limits)?;
    let infos = [Info::new(keys::UNIV_SIZE, SIZE)];
    let job = Registration::new(&infos).with_maps(nodes, procs);
    server.register_nspace(&JOB.into(), HERE, job)?;
    let first = HERE * u32::try_from(node)?;
    connect(server, first..first + HERE, home)
}

/// Registers processes, and returns their settings.
fn connect(
    server: &Server,
    ranks: impl Iterator<Item = u32>,
    home: &Path,
) -> Result<Vec<Settings>> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let user = Credentials::new(uid.as_raw(), gid.as_raw());
    let settings = ranks.map(|rank| -> Result<Settings> {
        let proc = Proc::new(JOB, Rank::new(rank));
        server.register_client(&proc, user, HostObject(0))?;
        let mut settings = Settings::of(&Environment {
            vars: server.setup_fork(&proc)?,
            cwd: home.into(),
            home: None,
            system: home.into(),
        })?;
        settings.time_limit = Some(LIMIT);
        Ok(settings)
    });
    settings.collect()
}

type Answer = std::result::Result<Value<'static>, Status>;

fn get(client: &Client, rank: Rank, key: &'static str, infos: &[Info<'_>]) -> Answer {
    let of = Proc::new(JOB, rank);
    let value = client.get(&of, key, infos).wait();
    value.map_err(|error| error.status())
}

/// Reserved keys of the job, of a node and of a process.
const RESERVED: [&str; 18] = [
    keys::JOB_SIZE,
    keys::UNIV_SIZE,
    keys::MAX_PROCS,
    keys::NUM_NODES,
    keys::NODE_LIST,
    keys::NODE_SIZE,
    keys::LOCAL_SIZE,
    keys::LOCAL_PEERS,
    keys::LOCAL_PROCS,
    keys::LOCALLDR,
    keys::HOSTNAME,
    keys::NODEID,
    keys::LOCAL_RANK,
    keys::NODE_RANK,
    keys::GLOBAL_RANK,
    keys::APP_RANK,
    keys::APPNUM,
    keys::RANK,
];

/// Returns the results of all gets of a client, first of the put keys or first of the reserved keys.
fn answers(client: &Client, puts_first: bool) -> Vec<(Rank, &'static str, Answer)> {
    let ranks = (0..SIZE).map(Rank::new).chain([Rank::WILDCARD]);
    let of_puts = |rank| {
        // Ignore values cached in an earlier round.
        let anew = [
            Info::new(keys::IMMEDIATE, true),
            Info::new(keys::GET_REFRESH_CACHE, true),
        ];
        ["t.global", "t.remote", "t.local", "t.never"]
            .map(|key| (rank, key, get(client, rank, key, &anew)))
    };
    let reserved = |rank| RESERVED.map(|key| (rank, key, get(client, rank, key, &[])));
    let mut all = Vec::new();
    for rank in ranks {
        if puts_first && rank.is_valid() {
            all.extend(of_puts(rank));
        }
        all.extend(reserved(rank));
        if !puts_first && rank.is_valid() {
            all.extend(of_puts(rank));
        }
    }
    all.sort_by_key(|(rank, key, _)| (*rank, *key));
    all
}

/// Returns all results of all clients of a job: after a collecting fence, after data were put again, and after another
/// fence.
fn run(shares: bool, puts_first: bool) -> Result<Vec<(Rank, &'static str, Answer)>> {
    let folder = tempfile::tempdir()?;
    let job = Job::start(folder.path(), shares)?;
    let mut all = Vec::new();
    for round in 1..3 {
        job.put_all(round)?;
        job.fence(true)?;
        for client in &job.clients {
            all.extend(answers(client, puts_first));
        }
    }
    job.end()?;
    Ok(all)
}

#[test]
fn shared_memory_and_messages_answer_the_same() -> Result<()> {
    for puts_first in [true, false] {
        let expected = run(false, puts_first)?;
        let found = run(true, puts_first)?;
        assert_eq!(found.len(), expected.len());
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let asker = at / (expected_per_client());
            assert_eq!(
                found, expected,
                "rank {asker} asks, puts first: {puts_first}"
            );
        }
    }
    Ok(())
}

#[test]
fn what_a_fence_brought_from_the_other_node_is_read_without_asking() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = Job::start(folder.path(), true)?;
    let look = |client: &Client, rank: u32, key| {
        let ask_nobody = [Info::new(keys::OPTIONAL, true)];
        get(client, Rank::new(rank), key, &ask_nobody).ok()
    };
    for round in 1..4 {
        job.put_all(round)?;
        job.fence(true)?;
        for (asker, client) in (0..SIZE).zip(&job.clients) {
            for rank in (0..SIZE).filter(|rank| *rank != asker) {
                let number = Some(Value::Uint32(100 * round + rank));
                assert_eq!(look(client, rank, "t.global"), number);
                let is_far = asker / HERE != rank / HERE;
                let far = Some(Value::Uint32(200 * round + rank));
                assert_eq!(look(client, rank, "t.remote"), far.filter(|_| is_far));
                let near = Some(Value::Uint32(300 * round + rank));
                assert_eq!(look(client, rank, "t.local"), near.filter(|_| !is_far));
            }
        }
    }
    job.end()
}

/// Returns the results of gets for a job on four nodes of which only this one has a server, as started by
/// `pmix run --nodes`.
fn described(shares: bool, whole: &str, places: &str) -> Result<Vec<Answer>> {
    let folder = tempfile::tempdir()?;
    let params = [("whole", whole), ("places", places)];
    let vars =
        params.map(|(name, value)| (format!("PMIX_MCA_gds_hash_{name}").into(), value.into()));
    let environment = Environment {
        vars: vars.to_vec(),
        cwd: folder.path().into(),
        home: None,
        system: folder.path().into(),
    };
    let builder = Server::builder().host(NoHost).hostname("n2");
    let builder = builder.environment(environment).share_data(shares);
    let builder = builder
        .server_tmpdir(folder.path())
        .system_tmpdir(folder.path());
    let server = builder.build()?;
    server.start()?;
    let limits = Limits::default();
    let nodes = NodeList::parse_text(b"n1,n2,n3,n4", &limits)?;
    let procs = ProcMap::parse_text(b"0,4;1,5;2,6;3,7", &limits)?;
    let job = Registration::new(&[]).with_maps(nodes, procs);
    server.register_nspace(&JOB.into(), 2, job)?;
    let settings = connect(&server, [1, 5].into_iter(), folder.path())?;
    assert!(
        settings
            .iter()
            .all(|settings| settings.shared_data.is_some() == shares)
    );
    let join = |settings| Client::init(settings);
    let clients: std::result::Result<Vec<_>, _> = settings.into_iter().map(join).collect();
    let mut all = Vec::new();
    for client in clients? {
        for rank in (0..8).map(Rank::new).chain([Rank::WILDCARD]) {
            for key in RESERVED {
                all.push(get(&client, rank, key, &[]));
                let of_node = [Info::new(keys::HOSTNAME, "n3")];
                all.push(get(&client, Rank::WILDCARD, key, &of_node));
            }
        }
        client.finalize()?;
    }
    server.finalize()?;
    Ok(all)
}

#[test]
fn of_nodes_that_are_only_described_the_same_is_answered() -> Result<()> {
    let expected = described(false, "1024", "131072")?;
    // The host of each process by its name.
    let hosts = expected
        .iter()
        .filter(|answer| **answer == Ok(Value::from("n4")));
    assert!(hosts.count() >= 4);
    for (whole, places) in [("1024", "131072"), ("1", "131072"), ("1", "1")] {
        let by_messages = described(false, whole, places)?;
        let found = described(true, whole, places)?;
        assert_eq!(
            (found.len(), by_messages.len()),
            (expected.len(), expected.len())
        );
        for (at, found) in found.iter().enumerate() {
            let (key, rank) = (
                RESERVED[at / 2 % RESERVED.len()],
                at / 2 / RESERVED.len() % 9,
            );
            let what = format!("{key} of {rank}, answer {at}, {whole}, {places}");
            assert_eq!(*found, by_messages[at], "{what}");
            // The job info of a large job omits values of nodes; the included values must be correct.
            let is_told = *found != Err(Status::ERR_NOT_FOUND);
            assert!(is_told || places == "1" || *found == expected[at], "{what}");
            assert!(*found == expected[at] || !is_told, "{what}: {found:?}");
        }
    }
    Ok(())
}

fn expected_per_client() -> usize {
    RESERVED.len() * (SIZE as usize + 1) + 4 * SIZE as usize
}

#[test]
fn a_process_of_another_node_is_where_it_is_after_its_data_were_asked_for() -> Result<()> {
    for shares in [false, true] {
        let folder = tempfile::tempdir()?;
        let job = Job::start(folder.path(), shares)?;
        job.put_all(1)?;
        // Without a fence: the data arrive by a message, before any job info.
        for (rank, client) in (0..SIZE).zip(&job.clients) {
            let other = Rank::new((rank + HERE) % SIZE);
            let put = get(client, other, "t.global", &[]);
            assert_eq!(put, Ok(Value::Uint32(100 + other.as_raw())), "{shares}");
            let node = usize::from(rank < HERE);
            let host = get(client, other, keys::HOSTNAME, &[]);
            assert_eq!(host, Ok(Value::from(NODES[node])), "{shares}");
            let id = get(client, other, keys::NODEID, &[]);
            assert_eq!(id, Ok(Value::Uint32(u32::try_from(node)?)), "{shares}");
        }
        job.end()?;
    }
    Ok(())
}

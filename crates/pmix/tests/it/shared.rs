// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that read job info and data in shared memory of their server, and clients without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pmix::client::Client;
use pmix::params::Environment;
use pmix::prelude::*;
use pmix::server::{PeerId, WireObserver};

use crate::served::{JOB, Result, serve, serve_with};

const SIZE: u32 = 3;

fn join(settings: Vec<Settings>) -> Result<Vec<Client>> {
    let join = |settings: Settings| Client::init(settings);
    let clients = settings.into_iter().map(join);
    Ok(clients.collect::<std::result::Result<_, _>>()?)
}

fn put(client: &Client, scope: Scope, key: &'static str, number: u32) -> Result<()> {
    client.put(scope, key, number)?;
    Ok(client.commit()?)
}

/// Fences all clients, with or without their data.
fn fence(clients: &[Client], collects: bool) -> Result<()> {
    thread::scope(|scope| {
        let fence = move |client: &Client| {
            let infos = vec![Info::new(keys::COLLECT_DATA, collects)];
            client.fence(Vec::new(), infos).wait()
        };
        let fences: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(move || fence(client)))
            .collect();
        for fence in fences {
            fence.join().map_err(|_| "a fence panicked")??;
        }
        Ok(())
    })
}

fn get(client: &Client, rank: u32, key: &'static str) -> Option<Value<'static>> {
    let of = Proc::new(JOB, Rank::new(rank));
    client.get(&of, key, &[]).wait().ok()
}

/// Gets a value from the server, regardless of the cache.
fn get_anew(client: &Client, rank: u32, key: &'static str) -> Option<Value<'static>> {
    let of = Proc::new(JOB, Rank::new(rank));
    let refresh = [Info::new(keys::GET_REFRESH_CACHE, true)];
    client.get(&of, key, &refresh).wait().ok()
}

fn leave(clients: Vec<Client>, server: &Server) -> Result<()> {
    for client in clients {
        client.finalize()?;
    }
    Ok(server.finalize()?)
}

/// Gets a value without a request to the server.
fn look(client: &Client, rank: u32, key: &'static str) -> Option<Value<'static>> {
    let of = Proc::new(JOB, Rank::new(rank));
    let ask_nobody = [Info::new(keys::OPTIONAL, true)];
    client.get(&of, key, &ask_nobody).wait().ok()
}

#[test]
fn data_collected_by_a_fence_are_read_without_a_request() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    assert!(
        settings
            .iter()
            .all(|settings| settings.shared_data.is_some())
    );
    let clients = join(settings)?;
    for (rank, client) in (0..).zip(&clients) {
        put(client, Scope::GLOBAL, "card", 10 + rank)?;
        put(client, Scope::REMOTE, "far", 20 + rank)?;
    }
    assert_eq!(look(&clients[0], 1, "card"), None);
    fence(&clients, true)?;
    for client in &clients {
        for rank in 0..SIZE {
            assert_eq!(look(client, rank, "card"), Some(Value::Uint32(10 + rank)));
        }
    }
    // Values with remote scope are not visible on this node.
    assert_eq!(look(&clients[0], 1, "far"), None);
    leave(clients, &server)
}

#[test]
fn locally_stored_values_take_precedence_over_shared_data() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let clients = join(settings)?;
    put(&clients[1], Scope::GLOBAL, "card", 11)?;
    let peer = Proc::new(JOB, Rank::new(1));
    clients[0].store(&peer, "card", 70_u32)?;
    clients[0].store(&peer, keys::HOSTNAME, "elsewhere")?;
    fence(&clients, true)?;
    let mine = |key| look(&clients[0], 1, key);
    assert_eq!(mine("card"), Some(Value::Uint32(70)));
    assert_eq!(mine(keys::HOSTNAME), Some(Value::from("elsewhere")));
    // A refreshing get drops the cached data of others, and nothing else.
    assert_eq!(get_anew(&clients[0], 1, "card"), Some(Value::Uint32(70)));
    assert_eq!(look(&clients[2], 1, "card"), Some(Value::Uint32(11)));
    leave(clients, &server)
}

/// Counts the messages that a server sends.
#[derive(Clone, Default)]
struct Sent(Arc<AtomicUsize>);

impl Sent {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl WireObserver for Sent {
    fn received(&mut self, _: PeerId, _: &[u8]) {}

    fn sent(&mut self, _: PeerId, _: &[u8], _: &[u8]) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn closed(&mut self, _: PeerId) {}
}

#[test]
fn job_info_and_collected_data_are_read_without_a_message() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let sent = Sent::default();
    let observer = sent.clone();
    let (server, settings) = serve_with(folder.path(), SIZE, |builder| {
        builder.wire_observer(Box::new(observer))
    })?;
    let clients = join(settings)?;
    let size = usize::try_from(SIZE)?;
    // Only the welcomes have been sent.
    assert_eq!(sent.count(), size);
    for client in &clients {
        let job = |key: &'static str| client.get(&client.job(), key, &[]).wait();
        assert_eq!(job(keys::JOB_SIZE)?, Value::Uint32(SIZE));
        assert_eq!(job(keys::LOCAL_PEERS)?, Value::from("0,1,2"));
        assert_eq!(job(keys::HOSTNAME)?, Value::from("n00"));
        for rank in 0..SIZE {
            let local_rank = Value::Uint16(u16::try_from(rank)?);
            assert_eq!(get(client, rank, keys::LOCAL_RANK), Some(local_rank));
            assert_eq!(get(client, rank, keys::JOB_SIZE), Some(Value::Uint32(SIZE)));
            assert_eq!(get(client, rank, keys::HOSTNAME), Some(Value::from("n00")));
        }
    }
    assert_eq!(sent.count(), size);
    put(&clients[1], Scope::LOCAL, "card", 1)?;
    fence(&clients, true)?;
    let after_fence = sent.count();
    for client in &clients {
        assert_eq!(get(client, 1, "card"), Some(Value::Uint32(1)));
    }
    assert_eq!(sent.count(), after_fence);
    // A missing key is requested: first the job info, once, then the key.
    assert_eq!(get(&clients[0], 0, "pmix.not.there"), None);
    assert_eq!(sent.count(), after_fence + 2);
    assert_eq!(look(&clients[0], 0, "pmix.not.there"), None);
    assert_eq!(sent.count(), after_fence + 2);
    leave(clients, &server)
}

#[test]
fn a_value_put_again_is_never_read_with_its_old_value() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let clients = join(settings)?;
    for round in 0..50 {
        put(&clients[1], Scope::GLOBAL, "card", 2 * round)?;
        // Committed data are visible to all at once, with or without a fence.
        assert_eq!(
            get_anew(&clients[2], 1, "card"),
            Some(Value::Uint32(2 * round))
        );
        fence(&clients, true)?;
        assert_eq!(look(&clients[0], 1, "card"), Some(Value::Uint32(2 * round)));
        put(&clients[1], Scope::GLOBAL, "card", 2 * round + 1)?;
        // A client without earlier requests has no stale data, and shared data is never stale.
        assert_eq!(look(&clients[0], 1, "card"), None);
        let collects = round % 2 == 0;
        fence(&clients, collects)?;
        let expected = Some(Value::Uint32(2 * round + 1));
        assert_eq!(
            look(&clients[0], 1, "card"),
            expected.clone().filter(|_| collects)
        );
        assert_eq!(get_anew(&clients[2], 1, "card"), expected);
        clients[1].put(Scope::DEL_GLOBAL, "card", 0_u32)?;
        clients[1].commit()?;
    }
    leave(clients, &server)
}

#[test]
fn a_committed_key_is_removed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let clients = join(settings)?;
    for key in ["gone", "moved"] {
        put(&clients[1], Scope::GLOBAL, key, 1)?;
    }
    assert_eq!(get_anew(&clients[0], 1, "gone"), Some(Value::Uint32(1)));
    clients[1].put(Scope::DEL_GLOBAL, "gone", Value::Undef)?;
    put(&clients[1], Scope::REMOTE, "moved", 2)?;
    fence(&clients, true)?;
    let of = Proc::new(JOB, Rank::new(1));
    let status = |key: &'static str| {
        let at_once = [keys::GET_REFRESH_CACHE, keys::IMMEDIATE].map(|key| Info::new(key, true));
        let found = clients[0].get(&of, key, &at_once);
        found
            .wait()
            .map_or_else(|error| error.status(), |_| Status::SUCCESS)
    };
    assert_eq!(status("gone"), Status::ERR_NOT_FOUND);
    assert_eq!(status("moved"), Status::ERR_EXISTS_OUTSIDE_SCOPE);
    leave(clients, &server)
}

#[test]
fn data_of_a_process_that_was_lost_are_not_read() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let again = settings[1].clone();
    let mut clients = join(settings)?;
    put(&clients[1], Scope::GLOBAL, "card", 1)?;
    fence(&clients, true)?;
    assert_eq!(look(&clients[0], 1, "card"), Some(Value::Uint32(1)));
    drop(clients.remove(1));
    let mut anew = None;
    while anew.is_none() {
        // The server rejects the process as a duplicate until it has noticed the disconnect.
        anew = Client::init(again.clone()).ok();
    }
    let anew = anew.ok_or("no client")?;
    assert_eq!(look(&clients[0], 1, "card"), None);
    assert_eq!(look(&anew, 1, "card"), None);
    clients.insert(1, anew);
    put(&clients[1], Scope::GLOBAL, "card", 2)?;
    fence(&clients, true)?;
    assert_eq!(look(&clients[0], 1, "card"), Some(Value::Uint32(2)));
    leave(clients, &server)
}

/// Checks that the processes of a job get the same values, for any fault of the shared memory.
fn exchange(settings: Vec<Settings>, server: &Server) -> Result<()> {
    let clients = join(settings)?;
    for (rank, client) in (0..).zip(&clients) {
        put(client, Scope::GLOBAL, "card", 10 + rank)?;
        client.put(Scope::LOCAL, "long", vec![7_u8; 50_000])?;
        client.commit()?;
    }
    for round in 0..2 {
        fence(&clients, true)?;
        for client in &clients {
            let job = |key: &'static str| client.get(&client.job(), key, &[]).wait();
            assert_eq!(job(keys::JOB_SIZE)?, Value::Uint32(SIZE));
            assert_eq!(
                job("pmix.not.there").map_err(|e| e.status()),
                Err(Status::ERR_NOT_FOUND)
            );
            for rank in 0..SIZE {
                let card = Some(Value::Uint32(10 + rank + round));
                assert_eq!(get_anew(client, rank, "card"), card);
                assert_eq!(
                    get(client, rank, "long"),
                    Some(Value::from(vec![7_u8; 50_000]))
                );
                let local_rank = Value::Uint16(u16::try_from(rank)?);
                assert_eq!(get(client, rank, keys::LOCAL_RANK), Some(local_rank));
            }
        }
        for (rank, client) in (0..).zip(&clients) {
            put(client, Scope::GLOBAL, "card", 11 + rank)?;
        }
    }
    leave(clients, server)
}

#[test]
fn unusable_shared_data_are_replaced_by_messages() -> Result<()> {
    // A function that changes the address of the table.
    type Change = fn(&str) -> Option<String>;
    let changes: [(&str, Change); 7] = [
        ("shared", |at| Some(at.to_owned())),
        ("not told", |_| None),
        ("no address", |_| Some("no address".to_owned())),
        ("no such process", |at| {
            let (_, rest) = at.split_once('.')?;
            Some(format!("{}.{rest}", u32::MAX))
        }),
        ("another process", |at| {
            let (_, rest) = at.split_once('.')?;
            Some(format!("{}.{rest}", std::os::unix::process::parent_id()))
        }),
        ("another descriptor", |at| {
            let (pid, rest) = at.split_once('.')?;
            let (_, token) = rest.split_once('.')?;
            Some(format!("{pid}.0.{token}"))
        }),
        ("another token", |at| {
            let (rest, token) = at.rsplit_once('.')?;
            let token: String = token.chars().rev().collect();
            Some(format!("{rest}.{token}"))
        }),
    ];
    for (what, change) in changes {
        let folder = tempfile::tempdir()?;
        let (server, mut settings) = serve(folder.path(), SIZE)?;
        // One process uses shared memory, the others do not.
        for settings in settings.iter_mut().skip(1) {
            settings.shared_data = settings.shared_data.as_deref().and_then(change);
        }
        exchange(settings, &server).map_err(|error| format!("{what}: {error}"))?;
    }
    Ok(())
}

#[test]
fn a_server_with_little_or_no_shared_memory_replies_the_same() -> Result<()> {
    for bytes in ["0", "1", "100000", "-1"] {
        let folder = tempfile::tempdir()?;
        let environment = Environment {
            vars: vec![("PMIX_MCA_gds_hash_shared_bytes".into(), bytes.into())],
            cwd: folder.path().into(),
            home: None,
            system: folder.path().into(),
        };
        let (server, settings) = serve_with(folder.path(), SIZE, |builder| {
            builder.environment(environment)
        })?;
        let is_shared = settings
            .iter()
            .all(|settings| settings.shared_data.is_some());
        assert_eq!(is_shared, bytes != "0", "{bytes}");
        exchange(settings, &server).map_err(|error| format!("{bytes}: {error}"))?;
    }
    Ok(())
}

#[test]
fn no_shared_data_of_a_deregistered_job_are_read() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let clients = join(settings)?;
    put(&clients[1], Scope::GLOBAL, "card", 1)?;
    fence(&clients, true)?;
    assert_eq!(look(&clients[0], 1, "card"), Some(Value::Uint32(1)));
    server.deregister_nspace(&JOB.into())?;
    assert_eq!(look(&clients[0], 1, "card"), None);
    drop(clients);
    Ok(server.finalize()?)
}

/// A user that is not the server's.
const OTHER: u32 = 65534;

/// Runs in a process of another user, which [`a_process_of_another_user_sends_messages`] starts.
#[test]
#[ignore = "a process of another user runs it"]
fn as_another_user() -> Result<()> {
    assert_eq!(rustix::process::geteuid().as_raw(), OTHER);
    let settings = Settings::from_env()?;
    assert!(settings.shared_data.is_some());
    let clients = join(vec![settings])?;
    let client = &clients[0];
    assert_eq!(
        client.get(&client.job(), keys::JOB_SIZE, &[]).wait()?,
        Value::Uint32(SIZE)
    );
    put(client, Scope::GLOBAL, "card", 10)?;
    fence(&clients, true)?;
    assert_eq!(look(client, 1, "card"), None);
    for rank in 0..SIZE {
        assert_eq!(get(client, rank, "card"), Some(Value::Uint32(10 + rank)));
    }
    Ok(client.finalize()?)
}

#[test]
#[ignore = "needs root"]
fn a_process_of_another_user_sends_messages() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt as _;

    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755))?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let proc = Proc::new(JOB, Rank::new(0));
    server.deregister_client(&proc)?;
    server.register_client(&proc, Credentials::new(OTHER, OTHER), HostObject(0))?;
    // The other user may have no access to the folder of this program.
    let program = folder.path().join("client");
    std::fs::copy(std::env::current_exe()?, &program)?;
    let mut command = std::process::Command::new(&program);
    command.args(["--exact", "shared::as_another_user", "--ignored"]);
    command
        .envs(server.setup_fork(&proc)?)
        .uid(OTHER)
        .gid(OTHER);
    command
        .current_dir("/")
        .stdout(std::process::Stdio::piped());
    let child = command.spawn()?;
    let clients = join(settings[1..].to_vec())?;
    for (rank, client) in (1..).zip(&clients) {
        put(client, Scope::GLOBAL, "card", 10 + rank)?;
    }
    fence(&clients, true)?;
    for client in &clients {
        for rank in 0..SIZE {
            assert_eq!(look(client, rank, "card"), Some(Value::Uint32(10 + rank)));
        }
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    leave(clients, &server)
}

#[test]
fn a_find_never_blocks() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, settings) = serve(folder.path(), SIZE)?;
    let clients = join(settings)?;
    let client = &clients[0];
    let (job, key) = (client.job(), "pmix.not.there");
    let optional = [Info::new(keys::OPTIONAL, true)];
    // The get needs the job info, which init has not requested.
    assert_eq!(client.get(&job, key, &optional).known(), None);
    let none = client
        .get(&job, key, &optional)
        .wait()
        .map_err(|error| error.status());
    assert_eq!(none, Err(Status::ERR_NOT_FOUND));
    // The job info is already known, so no request is sent.
    let found = client.get(&job, key, &optional).known();
    assert!(matches!(found, Some(Err(_))));
    let found = client.get(&job, keys::JOB_SIZE, &[]).known();
    assert!(matches!(found, Some(Ok(Value::Uint32(SIZE)))));
    leave(clients, &server)
}

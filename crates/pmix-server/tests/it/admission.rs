// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission of clients and tools.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pmix_mca::{Params, Source};
use pmix_proto::{Hello, Request, Role};
use pmix_server::NoHost;
use pmix_types::{Proc, Rank, Status};

use super::peer::{self, JOB, Peer};

/// A user ID without a user.
const STRANGER: (u32, u32) = (54_321, 54_321);

fn refused(server: &pmix_server::Server, hello: &Hello<'_>) -> bool {
    let mut stream = TcpStream::connect(peer::address(server)).unwrap();
    stream.write_all(&hello.encode().unwrap()).unwrap();
    peer::closed(stream).is_empty()
}

fn client(nspace: &'static str, rank: u32) -> Option<Proc<'static>> {
    Some(Proc::new(nspace, Rank::new(rank)))
}

#[test]
fn clients_are_let_in_over_both_families() {
    for no_ipv4 in [false, true] {
        let server = peer::serve(peer::builder().tcp_disable_ipv4(no_ipv4), 4);
        assert_eq!(peer::address(&server).is_ipv6(), no_ipv4);
        let mut clients: Vec<_> = (0..4).map(|r| Peer::client(&server, r).unwrap()).collect();
        for client in &mut clients {
            let status = client.ask_status(&Request::Unknown(pmix_proto::Command(99)));
            assert_eq!(status.unwrap(), Status::ERR_NOT_SUPPORTED);
        }
    }
}

#[test]
fn unknown_processes_and_wrong_credentials_are_refused_without_a_word() {
    let server = peer::serve(peer::builder(), 2);
    let (uid, gid) = peer::me();
    let good = peer::credential((uid, gid));
    let group = peer::credential((uid, gid + 1));
    for (proc, credential) in [
        (client("job@2", 0), &good[..]),
        (client(JOB, 2), &good),
        (client(JOB, 0), &group),
        (client(JOB, 0), &good[..7]),
    ] {
        let hello = peer::hello(Role::CLIENT, proc, credential);
        assert!(refused(&server, &hello), "{hello:?}");
    }
    let none = Hello {
        psec: "none".into(),
        ..peer::hello(Role::CLIENT, client(JOB, 0), &[])
    };
    assert!(refused(&server, &none));
    assert!(Peer::client(&server, 0).is_ok());
}

// Planted: the numbers in the credential of a process in a user namespace are compared with those outside.
#[test]
fn the_owner_of_the_socket_is_accepted_with_the_numbers_of_a_user_namespace() {
    let server = peer::serve(peer::builder(), 1);
    let inside = peer::credential(STRANGER);
    let hello = peer::hello(Role::CLIENT, client(JOB, 0), &inside);
    assert!(Peer::with(peer::address(&server), &hello).is_ok());
}

#[test]
fn a_lie_about_the_user_is_caught_by_the_owner_of_the_socket() {
    let server = peer::serve(peer::builder(), 1);
    peer::register(&server, "job@2", 1, STRANGER);
    // The credential matches the registration, but the socket belongs to this user.
    let credential = peer::credential(STRANGER);
    assert!(refused(
        &server,
        &peer::hello(Role::CLIENT, client("job@2", 0), &credential)
    ));
}

#[test]
fn nothing_is_checked_where_none_is_configured() {
    let params = pmix_mca::Params::builder().set("psec", "none", pmix_mca::Source::Api);
    let builder = peer::builder().params(params.build().unwrap());
    let server = peer::serve(builder, 1);
    let environment = server.setup_fork(&Proc::new(JOB, Rank::new(0))).unwrap();
    assert!(environment.contains(&("PMIX_SECURITY_MODE".into(), "none".into())));
    let hello = Hello {
        psec: "none".into(),
        ..peer::hello(Role::CLIENT, client(JOB, 0), &[])
    };
    assert!(Peer::with(peer::address(&server), &hello).is_ok());
}

/// Runs a shell of another user that connects, sends its input and prints the reply.
fn stranger(server: &pmix_server::Server, hello: &[u8]) -> Vec<u8> {
    let address = peer::address(server);
    let script = "exec 3<>/dev/tcp/$0/$1; cat >&3; head -c 8 <&3";
    let mut shell = Command::new("bash");
    shell.args([
        "-c",
        script,
        &address.ip().to_string(),
        &address.port().to_string(),
    ]);
    shell.uid(STRANGER.0).gid(STRANGER.1).current_dir("/");
    shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = shell.spawn().expect("root can be another user");
    child.stdin.take().unwrap().write_all(hello).unwrap();
    child.wait_with_output().unwrap().stdout
}

#[test]
#[ignore = "needs root"]
fn another_user_gets_in_as_itself_alone() {
    let server = peer::serve(peer::builder().host(NoHost), 1);
    peer::register(&server, "job@2", 1, STRANGER);
    let mine = peer::credential(peer::me());
    let lie = peer::hello(Role::CLIENT, client(JOB, 0), &mine);
    let answer = stranger(&server, &lie.encode().unwrap());
    assert_eq!(answer, b"");
    let own = peer::credential(STRANGER);
    let truth = peer::hello(Role::CLIENT, client("job@2", 0), &own);
    let answer = stranger(&server, &truth.encode().unwrap());
    assert_eq!(answer[..4], [0; 4]);
}

// Credentials of MUNGE, with a daemon of the test. `cargo xtask test` runs this if MUNGE is installed, and counts it
// as skipped otherwise.

/// A daemon that is killed on drop.
struct Daemon {
    process: Child,
    directory: tempfile::TempDir,
}

impl Daemon {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let key: Vec<u8> = (0..=u8::MAX).cycle().take(1024).collect();
        let mut command = Command::new("munged");
        std::fs::write(at("key"), key).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(at("key"), private).unwrap();
        for (option, file) in [
            ("key-file", "key"),
            ("socket", "socket"),
            ("pid-file", "pid"),
        ] {
            command.arg(format!("--{option}={}", at(file).display()));
        }
        command.arg(format!("--seed-file={}", at("seed").display()));
        // `--force` overrides the daemon's check of its directory, which only one user can access.
        command.args(["--foreground", "--force", "--num-threads=1"]);
        let spawned = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = spawned.expect("munged runs");
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("work thread") {
            line.clear();
            let read = log.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "munged ended: {:?}", process.wait());
        }
        // Read the log to its end, so that the daemon does not block on a full pipe.
        std::thread::spawn(move || log.read_to_end(&mut Vec::new()));
        Self { process, directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Returns a credential as clients send it, with its NUL.
    fn credential(&self) -> Vec<u8> {
        let mut munge = Command::new("munge");
        munge
            .arg("-n")
            .arg(format!("--socket={}", self.socket().display()));
        let mut credential = munge.output().unwrap().stdout;
        credential.truncate(credential.trim_ascii_end().len());
        credential.push(0);
        credential
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn params(socket: &Path) -> Params {
    let socket = socket.to_str().unwrap();
    let params = Params::builder().set("psec", "munge,native", Source::Api);
    params
        .set("psec_munge_socket", socket, Source::Api)
        .build()
        .unwrap()
}

#[test]
#[ignore = "needs munged"]
fn a_credential_of_munge_is_good_once() {
    let daemon = Daemon::start();
    let server = peer::serve(peer::builder().params(params(&daemon.socket())), 1);
    let environment = server.setup_fork(&Proc::new(JOB, Rank::new(0))).unwrap();
    assert!(environment.contains(&("PMIX_SECURITY_MODE".into(), "munge,native".into())));
    let connect = |credential: &[u8]| {
        let client = Some(Proc::new(JOB, Rank::new(0)));
        let hello = peer::hello(Role::CLIENT, client, credential);
        let munge = Hello {
            psec: "munge".into(),
            ..hello
        };
        Peer::with(peer::address(&server), &munge)
    };
    let credential = daemon.credential();
    drop(connect(&credential).unwrap());
    assert!(connect(&credential).is_err(), "it was used before");
    assert!(connect(b"MUNGE:AAAA:\0").is_err());
    assert!(connect(b"").is_err());
    assert!(connect(&daemon.credential()).is_ok());
    assert!(
        Peer::client(&server, 0).is_ok(),
        "native is accepted as well"
    );
    let fresh = daemon.credential();
    drop(daemon);
    assert!(connect(&fresh).is_err(), "no daemon is running");
}

#[test]
#[ignore = "needs munged"]
fn a_munge_credential_is_accepted_once() {
    let daemon = Daemon::start();
    let library = std::ffi::OsStr::new("libmunge.so.2");
    let mut munge = pmix_mca::Munge::open(library, Some(&daemon.socket())).unwrap();
    let credential = munge.encode().unwrap();
    assert!(credential.starts_with(b"MUNGE:") && credential.ends_with(b"\0"));
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    assert_eq!(munge.decode(&credential).unwrap(), own);
    let again = munge.decode(&credential).unwrap_err();
    assert_eq!(again.status(), pmix_types::Status::ERR_INVALID_CRED);
    let mut silent = pmix_mca::Munge::open(library, Some(Path::new("/no-such/socket"))).unwrap();
    assert!(silent.encode().unwrap_err().to_string().contains("munge:"));
}

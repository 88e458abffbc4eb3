// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission of clients and tools.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

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
    let user = peer::credential(STRANGER);
    let group = peer::credential((uid, gid + 1));
    for (proc, credential) in [
        (client("job@2", 0), &good[..]),
        (client(JOB, 2), &good),
        (client(JOB, 0), &user),
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

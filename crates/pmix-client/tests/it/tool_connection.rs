// SPDX-License-Identifier: MIT OR Apache-2.0
//! A launcher that connects to a misbehaving tool.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use pmix_client::driver::ToolConnection;
use pmix_client::{Settings, Uri};
use pmix_proto::{Header, Role, Tag, Welcome};
use pmix_types::{Proc, Rank, Status};

/// Returns the status of a launcher whose tool answers the hello with some bytes. Then the tool closes the connection
/// or stays silent.
fn status(answer: &[u8], closes: bool) -> Status {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = Proc::new("tool", Rank::new(0));
    let mut settings = Settings::new(Proc::new("tool:1", Rank::new(0)), Uri { server, address });
    settings.role = Role::STARTED_LAUNCHER;
    settings.time_limit = Some(Duration::from_millis(match closes {
        true => 30_000,
        false => 50,
    }));
    let answer = answer.to_vec();
    let tool = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = [0; 16];
        stream.read_exact(&mut hello).unwrap();
        // The launcher may have closed the connection already.
        let _ = stream.write_all(&answer);
        if !closes {
            drain(stream);
        }
    });
    let Err(error) = ToolConnection::open(settings) else {
        panic!("there is no job info");
    };
    tool.join().unwrap();
    error.status()
}

fn drain(mut stream: TcpStream) {
    while stream.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {}
}

#[test]
fn a_tool_that_does_not_answer_is_given_up() {
    let server = Proc::new("tool", Rank::new(0));
    let welcome = Welcome::Server { server }.encode().unwrap();
    let with = |more: &[u8]| [&welcome[..], more].concat();
    let refused = Status::ERR_NO_PERMISSIONS.as_raw().to_be_bytes();
    let long = Header::new(0, Tag(101), u32::MAX).encode();
    let event = [&Header::new(0, Tag::EVENT, 2).encode()[..], b"no"].concat();
    for (answer, closes, expected) in [
        (Vec::new(), false, Status::ERR_TIMEOUT),
        (welcome.clone(), false, Status::ERR_TIMEOUT),
        (with(&event), false, Status::ERR_TIMEOUT),
        (welcome[..40].to_vec(), false, Status::ERR_TIMEOUT),
        (refused.to_vec(), false, Status::ERR_NO_PERMISSIONS),
        (b"HTTP".to_vec(), false, Status::ERR_COMM_FAILURE),
        (with(&long), false, Status::ERR_OUT_OF_RESOURCE),
    ] {
        assert_eq!(status(&answer, closes), expected, "{answer:?}");
    }
    assert_eq!(status(&[], true), Status::ERR_UNREACH);
}

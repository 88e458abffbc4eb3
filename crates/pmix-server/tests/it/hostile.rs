// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers that violate the protocol, and their effect on other peers.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use pmix_proto::{Header, Request, Tag};
use pmix_server::ClonePolicy;
use pmix_types::Status;

use super::peer::{self, Peer};

fn works(client: &mut Peer) -> bool {
    let status = client.ask_status(&Request::Unknown(pmix_proto::Command(99)));
    status.is_ok_and(|status| status == Status::ERR_NOT_SUPPORTED)
}

#[test]
fn garbage_is_hung_up_on_and_others_go_on() {
    let server = peer::serve(peer::builder(), 1);
    let mut client = Peer::client(&server, 0).unwrap();
    let garbage: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0xff; 64],
        &[0; 4096],
        // A header that claims more than a hello may have.
        &[
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0,
        ],
        // An empty hello.
        &[
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(peer::address(&server)).unwrap();
        stream.write_all(bytes).unwrap();
        assert_eq!(peer::closed(stream), b"", "{bytes:?}");
        assert!(works(&mut client));
    }
}

#[test]
fn garbage_after_the_welcome_ends_the_connection() {
    let server = peer::serve(peer::builder(), 2);
    let mut good = Peer::client(&server, 0).unwrap();
    let mut bad = Peer::client(&server, 1).unwrap().into_stream();
    bad.write_all(&[0xff; 64]).unwrap();
    peer::closed(bad);
    assert!(works(&mut good));
}

#[test]
fn connections_that_say_nothing_are_dropped_in_time() {
    let builder = peer::builder().config(|config| {
        config.handshake_time = Duration::from_millis(50);
    });
    let server = peer::serve(builder, 1);
    let mut idle: Vec<_> = (0..64)
        .map(|_| TcpStream::connect(peer::address(&server)).unwrap())
        .collect();
    idle[0].write_all(&[0xff]).unwrap();
    idle[1].shutdown(Shutdown::Write).unwrap();
    let mut client = Peer::client(&server, 0).unwrap();
    for stream in idle {
        assert_eq!(peer::closed(stream), b"");
    }
    assert!(works(&mut client));
}

#[test]
fn the_number_of_silent_connections_of_a_user_is_limited() {
    let builder = peer::builder().config(|config| config.handshakes_per_user = 4);
    let server = peer::serve(builder, 1);
    let connect = || TcpStream::connect(peer::address(&server)).unwrap();
    let mut idle: Vec<_> = (0..12).map(|_| connect()).collect();
    // The server closes the oldest ones to make room.
    for stream in idle.drain(..8) {
        assert_eq!(peer::closed(stream), b"");
    }
    assert!(works(&mut Peer::client(&server, 0).unwrap()));
}

#[test]
fn a_peer_that_does_not_read_does_not_block_others() {
    let builder = peer::builder().config(|config| {
        config.clone_policy = ClonePolicy::Refuse;
        config.requests_per_peer = usize::MAX;
    });
    let server = peer::serve(builder, 2);
    let mut good = Peer::client(&server, 0).unwrap();
    let slow = Peer::client(&server, 1).unwrap();
    let request = Request::Unknown(pmix_proto::Command(99));
    let payload = request.encode(slow.form(), None).unwrap();
    let len = u32::try_from(payload.len()).unwrap();
    let header = Header::new(0, Tag::FIRST_REQUEST, len).encode();
    let many = [&header[..], &payload].concat().repeat(4096);
    let mut stream = slow.into_stream();
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    // Send until the server reads no more, as its replies are not read.
    let mut sent = 0;
    while stream.write_all(&many).is_ok() {
        sent += many.len();
        assert!(sent < 64 << 20, "the server takes everything");
        assert!(works(&mut good));
    }
    assert!(works(&mut good));
}

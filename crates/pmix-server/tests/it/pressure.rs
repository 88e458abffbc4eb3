// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers with many or large requests: the effect on other peers, and the results.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gds_hash::{Codec, ModexStore};
use pmix_proto::{Command, Header, Request, Tag, request};
use pmix_server::{ClonePolicy, PeerId, Server, WireObserver};
use pmix_types::{Info, Key, Nspace, Rank, Scope, Status};

use super::peer::{self, JOB, Peer};

/// Packs a value of a process for a commit.
fn value(peer: &Peer, rank: u32, len: usize) -> Vec<u8> {
    let mut puts = ModexStore::default();
    let info = Info::new("card", vec![7_u8; len]);
    puts.put(Rank::new(rank), Scope::GLOBAL, info).unwrap();
    let codec = Codec::new(peer.form().layout);
    puts.commit_message(&codec, Rank::new(rank)).unwrap()
}

fn get(rank: u32) -> Request<'static> {
    Request::Get(request::Get {
        nspace: Nspace::from(JOB),
        rank: Rank::new(rank),
        infos: Vec::new(),
        key: Some(Key::from("card")),
    })
}

#[test]
fn one_process_asks_for_more_at_once_than_may_wait_for_it() {
    const RANKS: u32 = 81;
    const LEN: usize = 1 << 20;
    let builder = peer::builder().config(|config| config.queued_bytes_per_peer = 8 << 20);
    let server = peer::serve(builder, RANKS);
    let mut reader = Peer::client(&server, 0).unwrap();
    // All gets wait, and complete before the first reply is read.
    let asked: Vec<_> = (1..RANKS)
        .map(|rank| reader.send(&get(rank)).unwrap())
        .collect();
    for rank in 1..RANKS {
        let mut writer = Peer::client(&server, rank).unwrap();
        let blocks = value(&writer, rank, LEN);
        let commit = Request::Commit(request::Commit { blocks: &blocks });
        assert_eq!(writer.ask_status(&commit).unwrap(), Status::SUCCESS);
    }
    let mut missing = asked;
    while !missing.is_empty() {
        let reply = reader.reply().unwrap();
        assert!(reply.payload.len() > LEN, "{} bytes", reply.payload.len());
        missing.retain(|tag| *tag != reply.tag);
    }
}

/// An observer that records the recipient of each message.
struct Sent(Arc<Mutex<Vec<PeerId>>>);

impl WireObserver for Sent {
    fn received(&mut self, _: PeerId, _: &[u8]) {}

    fn sent(&mut self, peer: PeerId, _: &[u8], _: &[u8]) {
        self.0.lock().unwrap().push(peer);
    }

    fn closed(&mut self, _: PeerId) {}
}

/// Returns a server driven by the test, the recipients of its messages, and two connected processes.
fn driven() -> (Server, Arc<Mutex<Vec<PeerId>>>, Peer, Peer) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let observer = Sent(Arc::clone(&sent));
    let builder = peer::builder().external_progress(true);
    let builder = builder.wire_observer(Box::new(observer));
    let server = builder.build().unwrap();
    peer::register(&server, JOB, 2, peer::me());
    let handle = server.clone();
    let connected = std::thread::spawn(move || {
        let connect = |rank| Peer::client(&handle, rank).unwrap();
        (connect(0), connect(1))
    });
    while !connected.is_finished() {
        server.drive(Instant::now()).unwrap();
    }
    let (busy, good) = connected.join().unwrap();
    sent.lock().unwrap().clear();
    (server, sent, busy, good)
}

#[test]
fn peers_with_many_requests_take_turns_with_others() {
    let (server, sent, mut busy, mut good) = driven();
    // All requests have arrived before the server reads one.
    let request = Request::Unknown(Command(99));
    let payload = request.encode(busy.form(), None).unwrap();
    busy.send_many(&payload, 1_000).unwrap();
    good.send(&request).unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while sent.lock().unwrap().len() < 1_001 {
        assert!(Instant::now() < patience, "it does not answer");
        server.drive(Instant::now()).unwrap();
    }
    let sent = sent.lock().unwrap();
    let (first, last) = (sent[0], sent[1_000]);
    let busy = if first == sent[2] { first } else { last };
    let good = sent.iter().position(|peer| *peer != busy).unwrap();
    assert!(good < 3, "{good} answers were sent before");
}

// Planted: one peer with many messages keeps the server's turn for 10 ms.
#[test]
fn new_requests_do_not_wait_for_many_earlier_replies() {
    const MANY: u32 = 1_000;
    let (server, sent, mut busy, mut good) = driven();
    let request = Request::Unknown(Command(99));
    let payload = request.encode(busy.form(), None).unwrap();
    busy.send_many(&payload, MANY).unwrap();
    let num_sent = || sent.lock().unwrap().len();
    let patience = Instant::now() + Duration::from_secs(20);
    while num_sent() == 0 {
        assert!(Instant::now() < patience, "it does not answer");
        server.drive(Instant::now()).unwrap();
    }
    // The server takes one message of each peer in turn, and a few more.
    let first = num_sent();
    assert!(first <= 66, "{first} answers before others are read again");
    let busy = sent.lock().unwrap()[0];
    for _ in 0..3 {
        good.send(&request).unwrap();
        let asked = num_sent();
        let is_answered = || {
            sent.lock().unwrap()[asked..]
                .iter()
                .any(|peer| *peer != busy)
        };
        while !is_answered() {
            assert!(Instant::now() < patience, "it does not answer");
            server.drive(Instant::now()).unwrap();
        }
        good.reply().unwrap();
    }
    let before = num_sent();
    assert!(before < 1_000, "all of {before} were answered before");
}

#[test]
fn a_peer_rests_after_a_message_that_took_long() {
    const REQUESTS: u32 = 10;
    let (server, sent, mut busy, _good) = driven();
    // The log is slow, so each request that fails takes longer than the share of a peer.
    let slow = || {
        std::thread::sleep(Duration::from_millis(6));
        std::io::sink()
    };
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
    let _slow = tracing::subscriber::set_default(log.with_writer(slow).finish());
    // A request that ends too early fails, and the log says so.
    let mut payload = get(1).encode(busy.form(), None).unwrap();
    payload.truncate(payload.len() / 2);
    busy.send_many(&payload, REQUESTS).unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    let num_sent = || sent.lock().unwrap().len();
    let mut rests = 0;
    while num_sent() < REQUESTS as usize {
        assert!(Instant::now() < patience, "it does not answer");
        let before = num_sent();
        let next = server.drive(Instant::now()).unwrap();
        // A time limit of the engine is further away.
        let soon = Instant::now() + Duration::from_millis(6);
        let is_planned = next.is_some_and(|next| next < soon);
        rests += usize::from(is_planned && before > 0 && num_sent() == before);
    }
    assert!(rests > 0, "each message followed at once");
}

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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients with hostile servers and peers: memory stays bounded and time limits hold.
//!
//! This is a test program of its own, since its allocator counts the memory of every thread.

#[path = "../../bfrops/tests/meter/growth.rs"]
mod growth;
#[path = "../../bfrops/tests/meter/mod.rs"]
mod meter;

#[path = "hostile/shared.rs"]
mod shared;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bfrops::{Encoder, wire_type};
use pmix_client::{Client, Settings, Uri};
use pmix_proto::{Event, Frame, Header, Hello, Inbox, PeerForm, Tag, Welcome, reply};
use pmix_types::{Kval, Proc, Rank, Scope, Status, Value, keys};

#[global_allocator]
static METER: meter::Meter = meter::Meter;

/// A limit beyond every answer of these tests, so that a faulty test ends.
const LIMIT: Duration = Duration::from_secs(30);

/// The server's end of a connection after the handshake.
struct Peer {
    stream: TcpStream,
    inbox: Inbox,
    form: PeerForm,
}

impl Peer {
    fn welcome(mut stream: TcpStream, told: &[Kval<'_>]) -> Self {
        let mut inbox = Inbox::of_server(1 << 26);
        let hello = next(&mut stream, &mut inbox).expect("a hello");
        let form = Hello::decode(&hello.payload).unwrap().form().unwrap();
        let welcome = Welcome::Index { index: 5 }.encode().unwrap();
        stream.write_all(&welcome).unwrap();
        let mut peer = Self {
            stream,
            inbox,
            form,
        };
        let asked = peer.next().expect("a question about the job");
        peer.send(asked.header.tag, &job_info(&peer.form, told));
        peer
    }

    /// Returns the next request, or `None` once the client has closed the connection.
    fn next(&mut self) -> Option<Frame> {
        next(&mut self.stream, &mut self.inbox)
    }

    fn send(&mut self, tag: Tag, payload: &[u8]) {
        let len = u32::try_from(payload.len()).unwrap();
        let header = Header::new(0, tag, len).encode();
        self.stream
            .write_all(&[&header[..], payload].concat())
            .unwrap();
    }

    fn succeed(&mut self, tag: Tag) {
        let status = reply::status(&self.form, Status::SUCCESS).unwrap();
        self.send(tag, &status);
    }
}

fn next(stream: &mut TcpStream, inbox: &mut Inbox) -> Option<Frame> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(frame) = inbox.next_frame().unwrap() {
            return Some(frame);
        }
        let len = stream.read(&mut buffer).unwrap_or(0);
        if len == 0 {
            return None;
        }
        inbox.push(&buffer[..len]);
    }
}

fn job_info(form: &PeerForm, told: &[Kval<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(form.layout, &mut out);
    encoder
        .one::<wire_type::String>(&Some("job".into()))
        .unwrap();
    let size = Kval {
        key: keys::JOB_SIZE.into(),
        value: Value::Uint32(2),
    };
    encoder.one::<wire_type::Kval>(&size).unwrap();
    for kval in told {
        encoder.one::<wire_type::Kval>(kval).unwrap();
    }
    out
}

/// Starts a server that accepts one client and then calls `behave`.
fn server(behave: impl FnOnce(Peer) + Send + 'static) -> (Settings, JoinHandle<()>) {
    server_of(Vec::new(), behave)
}

/// Starts a server that also sends this job info.
fn server_of(
    told: Vec<Kval<'static>>,
    behave: impl FnOnce(Peer) + Send + 'static,
) -> (Settings, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        behave(Peer::welcome(stream, &told));
    });
    let uri = Uri {
        server: Proc::new("server", Rank::new(0)),
        address,
    };
    let mut settings = Settings::new(Proc::new("job", Rank::new(0)), uri);
    settings.time_limit = Some(LIMIT);
    (settings, thread)
}

#[test]
fn endless_events_fill_a_bounded_queue_and_the_rest_is_counted() {
    const SENT: u64 = 30_000;
    let (settings, server) = server(|mut peer| {
        let fence = peer.next().unwrap();
        let event = Event {
            status: Status::ERR_PROC_ABORTED,
            source: Proc::new("job", Rank::new(1)),
            infos: Vec::new(),
            range: None,
        };
        let event = event.encode(&peer.form, None).unwrap();
        for _ in 0..SENT {
            peer.send(Tag::EVENT, &event);
        }
        peer.succeed(fence.header.tag);
        while peer.next().is_some() {}
    });
    let client = Client::init(settings).unwrap();
    let (fence, cost) = meter::of(|| client.fence([], []).wait());
    assert_eq!(fence, Ok(()));
    assert!(cost.peak < 4 << 20, "{} bytes for events", cost.peak);
    let mut kept = 0;
    while client
        .next_event(Duration::from_millis(1))
        .unwrap()
        .is_some()
    {
        kept += 1;
    }
    assert_eq!(kept + client.num_lost_events(), SENT);
    assert_eq!(kept, 4096);
    drop(client);
    server.join().unwrap();
}

// Planted: a client ignores its time limit while events arrive.
#[test]
fn endless_events_do_not_extend_the_time_limit() {
    let (mut settings, server) = server(|mut peer| {
        let mut frames = Vec::new();
        for _ in 0..100 {
            frames.extend(Header::new(0, Tag::EVENT, 0).encode());
        }
        // A client that ignores its time limit loses the server in the end.
        let begun = Instant::now();
        while begun.elapsed() < LIMIT && peer.stream.write_all(&frames).is_ok() {}
    });
    settings.time_limit = Some(Duration::from_millis(200));
    let client = Client::init(settings).unwrap();
    let error = client.fence([], []).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_TIMEOUT);
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_server_that_reads_nothing_does_not_block_the_client() {
    let (over, ends) = std::sync::mpsc::channel::<()>();
    let (mut settings, server) = server(move |peer| {
        let _ = ends.recv();
        drop(peer);
    });
    settings.time_limit = Some(Duration::from_millis(200));
    let client = Client::init(settings).unwrap();
    let large = "x".repeat(16 << 20);
    client.put(Scope::GLOBAL, "large", large).unwrap();
    for _ in 0..2 {
        let error = client.commit().unwrap_err();
        assert_eq!(error.status(), Status::ERR_TIMEOUT);
    }
    let error = client.heartbeat().unwrap_err();
    assert_eq!(error.status(), Status::ERR_TIMEOUT);
    drop(over);
    server.join().unwrap();
}

#[test]
fn a_slow_server_gets_whole_frames_once_it_reads() {
    let (reads, wait) = std::sync::mpsc::channel::<()>();
    let (mut settings, server) = server(move |mut peer| {
        wait.recv().unwrap();
        let commit = peer.next().unwrap();
        assert!(commit.payload.len() > 32 << 20);
        // The client has stopped waiting for this reply.
        peer.succeed(commit.header.tag);
        drop(commit);
        while let Some(fence) = peer.next() {
            peer.succeed(fence.header.tag);
        }
    });
    settings.time_limit = Some(Duration::from_millis(200));
    let client = Client::init(settings).unwrap();
    let large = "x".repeat(32 << 20);
    client.put(Scope::LOCAL, "large", large).unwrap();
    let error = client.commit().unwrap_err();
    assert_eq!(error.status(), Status::ERR_TIMEOUT);
    reads.send(()).unwrap();
    // The rest of the commit is sent first, in as many attempts as it takes.
    let passed = (0..100).any(|_| client.fence([], []).wait().is_ok());
    assert!(passed);
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_reply_over_the_limit_is_refused_by_its_header() {
    let (mut settings, server) = server(|mut peer| {
        let fence = peer.next().unwrap();
        let header = Header::new(0, fence.header.tag, 1 << 30).encode();
        peer.stream.write_all(&header).unwrap();
        while peer.next().is_some() {}
    });
    settings.max_reply_bytes = 1 << 20;
    let client = Client::init(settings).unwrap();
    let error = client.fence([], []).wait().unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    assert!(error.message().contains("1048576"), "{error}");
    drop(client);
    server.join().unwrap();
}

/// Returns the reply to a get with a compressed string, as any process can put it.
fn compressed(form: &PeerForm, claimed: u32, stream: &[u8]) -> Vec<u8> {
    let proc = Proc::new("job", Rank::new(1));
    let mut object = Vec::new();
    let mut encoder = Encoder::new(form.layout, &mut object);
    encoder.one::<wire_type::Proc>(&proc).unwrap();
    let bytes = [&claimed.to_ne_bytes()[..], stream].concat();
    let text = Kval {
        key: "text".into(),
        value: Value::CompressedString(bytes.into()),
    };
    encoder.one::<wire_type::Kval>(&text).unwrap();
    let mut out = reply::status(form, Status::SUCCESS).unwrap();
    let mut encoder = Encoder::new(form.layout, &mut out);
    encoder
        .one::<wire_type::ByteObject>(&object.into())
        .unwrap();
    out
}

// Planted: a client inflates a string to any length.
#[test]
fn a_compressed_string_is_inflated_only_up_to_the_limit() {
    let text = vec![b'x'; 8 << 20];
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&text).unwrap();
    let stream = encoder.finish().unwrap();
    // The correct length, which is too long, and false lengths.
    for (claimed, status) in [
        (8 << 20, Some(Status::ERR_OUT_OF_RESOURCE)),
        ((8 << 20) + 1, Some(Status::ERR_OUT_OF_RESOURCE)),
        (1 << 19, None),
        (u32::MAX, None),
    ] {
        let stream = stream.clone();
        let (mut settings, server) = server(move |mut peer| {
            let get = peer.next().unwrap();
            peer.send(get.header.tag, &compressed(&peer.form, claimed, &stream));
            while peer.next().is_some() {}
        });
        settings.max_string_bytes = 1 << 20;
        let client = Client::init(settings).unwrap();
        let peer = Proc::new("job", Rank::new(1));
        let (value, cost) = meter::of(|| client.get(&peer, "text", &[]).wait());
        match (value, status) {
            (Err(error), status) => assert_eq!(Some(error.status()), status, "{error}"),
            (Ok(Value::CompressedString(_)), None) => {}
            (value, _) => panic!("{value:?}"),
        }
        assert!(cost.peak < 2 << 20, "{} bytes for {claimed}", cost.peak);
        drop(client);
        server.join().unwrap();
    }
}

#[test]
fn a_compressed_string_of_4_mb_that_inflates_to_4_gb_stays_within_the_limit() {
    // Parts of 16 MiB without an end of the stream.
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![b'x'; 8 << 20]).unwrap();
    encoder.flush().unwrap();
    let head = encoder.get_ref().len();
    encoder.write_all(&vec![b'x'; 16 << 20]).unwrap();
    encoder.flush().unwrap();
    let part = encoder.get_ref()[head..].to_vec();
    let mut stream = encoder.get_ref()[..head].to_vec();
    (0..255).for_each(|_| stream.extend(&part));
    assert!(stream.len() < 5 << 20, "{} bytes", stream.len());
    for claimed in [u32::MAX, 1_000_000] {
        let stream = stream.clone();
        let (settings, server) = server(move |mut peer| {
            let get = peer.next().unwrap();
            peer.send(get.header.tag, &compressed(&peer.form, claimed, &stream));
            while peer.next().is_some() {}
        });
        let most = settings.max_string_bytes;
        let client = Client::init(settings).unwrap();
        let peer = Proc::new("job", Rank::new(1));
        let (value, cost) = meter::of(|| client.get(&peer, "text", &[]).wait());
        match value {
            Err(error) => assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE, "{error}"),
            Ok(value) => assert!(matches!(value, Value::CompressedString(_)), "{claimed}"),
        }
        let allowed = usize::try_from(claimed).unwrap().min(most) + (24 << 20);
        assert!(cost.peak < allowed, "{} bytes for {claimed}", cost.peak);
        drop(client);
        server.join().unwrap();
    }
}

fn kval(key: impl Into<pmix_types::Key<'static>>, value: Value<'static>) -> Kval<'static> {
    Kval {
        key: key.into(),
        value,
    }
}

/// Returns the job info of a process: its rank and the number of its application.
fn blob(rank: u32) -> Kval<'static> {
    let mut bytes = Vec::new();
    // The layout of this client.
    let layout = bfrops::Layout::new(bfrops::Module::V41);
    let mut encoder = Encoder::new(layout, &mut bytes);
    encoder.one::<wire_type::Rank>(&Rank::new(rank)).unwrap();
    let own = kval(keys::APPNUM, Value::Uint32(rank));
    encoder.one::<wire_type::Kval>(&own).unwrap();
    kval(keys::PROC_BLOB, Value::ByteObject(bytes.into()))
}

/// The largest growth of the cost of each part when the size grows sixteenfold.
const MOST: f64 = 1.5;

/// Fails unless the cost of init is proportional to the size of the job info. The cost is the number and size of
/// allocations of this thread, and its time.
fn init_is_linear(what: &str, first: usize, told: impl Fn(usize) -> Vec<Kval<'static>>) {
    let cost = |size: usize| {
        let told = told(size);
        let ((), cost) = meter::of(|| init(told));
        let each = |number: usize| f64::from(u32::try_from(number).unwrap());
        [cost.calls, cost.peak].map(|number| each(number) / each(size))
    };
    let (small, large) = (cost(first), cost(16 * first));
    for (small, large) in small.into_iter().zip(large) {
        assert!(
            large <= small * MOST + 1.0,
            "{what}: {small:.2} for each of {first}, {large:.2} for each of 16 times as many"
        );
    }
    growth::is_linear(what, first, &told, |told| init(std::mem::take(told)));
}

/// Connects to a server that sends this job info. Only the cost of this thread counts.
fn init(told: Vec<Kval<'static>>) {
    let (settings, server) = server_of(told, |mut peer| while peer.next().is_some() {});
    drop(Client::init(settings).unwrap());
    server.join().unwrap();
}

#[test]
fn the_cost_of_job_information_is_proportional_to_its_size() {
    // The client must be able to read the blobs.
    let (settings, server) = server_of(vec![blob(0), blob(1)], drop);
    let client = Client::init(settings).unwrap();
    let value = client
        .get(&Proc::new("job", Rank::new(1)), keys::APPNUM, &[])
        .wait();
    assert_eq!(value, Ok(Value::Uint32(1)));
    drop(client);
    server.join().unwrap();
    init_is_linear("blobs of processes", 200, |size| {
        (0..u32::try_from(size).unwrap()).map(blob).collect()
    });
    init_is_linear("blobs of one process", 200, |size| {
        (0..size).map(|_| blob(1)).collect()
    });
    init_is_linear("plain keys of the job", 500, |size| {
        let key = |at| kval(format!("key{at}"), Value::Uint32(7));
        (0..size).map(key).collect()
    });
}

#[test]
fn maps_of_134_million_processes_use_less_than_4_mib() {
    let ranks = "0-134217727";
    for map in [
        ranks.to_owned(),
        format!("pmix[{ranks}]"),
        format!("raw:{ranks}"),
    ] {
        let told = vec![
            kval(keys::NODE_MAP, Value::from("n0")),
            kval(keys::PROC_MAP, Value::from(map.clone())),
        ];
        let (settings, server) = server_of(told, |mut peer| while peer.next().is_some() {});
        let (client, cost) = meter::of(|| Client::init(settings));
        assert!(client.is_ok(), "{map}: {:?}", client.err());
        assert!(cost.peak < 4 << 20, "{map}: {} bytes", cost.peak);
        drop(client);
        server.join().unwrap();
    }
}

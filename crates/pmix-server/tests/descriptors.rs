// SPDX-License-Identifier: MIT OR Apache-2.0
//! A separate program, as its limit of descriptors applies to the whole process.
//!
//! A server whose process has no descriptors left.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmix_server::{Host, Server, ServerEvent};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use tracing_subscriber::fmt::MakeWriter;

/// The number of clients, and of those for which descriptors are left.
const CLIENTS: usize = 24;
const ROOM: usize = 6;

/// The log of the server.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn count(&self, text: &str) -> usize {
        let bytes = self.0.lock().unwrap();
        String::from_utf8_lossy(&bytes).matches(text).count()
    }
}

/// A counter of rejected connections.
#[derive(Default)]
struct Refused(AtomicUsize);

impl Host for Refused {
    fn server_event(&self, event: ServerEvent) {
        if let ServerEvent::Refused { reason } = event {
            assert!(
                reason
                    .to_string()
                    .contains("did not complete the handshake in time"),
                "{reason}"
            );
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Returns the lowest unused descriptor.
fn next_descriptor() -> u64 {
    use std::os::fd::AsRawFd;
    let probe = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    probe.as_raw_fd().try_into().unwrap()
}

/// Waits until the server disconnects.
fn hung_up(socket: Socket) -> bool {
    let mut stream = TcpStream::from(socket);
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_))
}

#[test]
fn connections_wait_until_others_are_closed_and_nothing_spins() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let host = Arc::new(Refused::default());
    let builder = Server::builder()
        .shared_host(host.clone())
        .config(|config| {
            config.handshake_time = Duration::from_millis(300);
        });
    let server = builder.params(pmix_mca::Params::default()).build().unwrap();
    let (_, address) = server.uri().split_once("://").unwrap();
    let address: std::net::SocketAddr = address.parse().unwrap();
    let new = || Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    let clients: Vec<_> = (0..CLIENTS).map(|_| new()).collect();
    let before = getrlimit(Resource::Nofile);
    let limit = next_descriptor() + u64::try_from(ROOM).unwrap();
    let lower = Rlimit {
        current: Some(limit),
        ..before
    };
    setrlimit(Resource::Nofile, lower).unwrap();
    // The kernel completes these connections, whether or not the server accepts them.
    for client in &clients {
        client.connect(&address.into()).unwrap();
    }
    server.start().unwrap();
    // Accepted connections that send nothing are closed, which makes room for the next ones.
    for client in clients {
        assert!(hung_up(client));
    }
    setrlimit(Resource::Nofile, before).unwrap();
    server.finalize().unwrap();
    let refused = host.0.load(Ordering::SeqCst);
    assert_eq!(refused, CLIENTS, "all were accepted in the end");
    // One warning for the whole shortage, and another one if it ended for a moment.
    let waits = log.count("new connections wait");
    assert!((1..4).contains(&waits), "{waits}");
    // The first messages of a flood are logged in full.
    let written = log.count("a connection was rejected");
    assert!((1..CLIENTS).contains(&written), "{written}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections that send nothing, or almost nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use bfrops::{Layout, Module};
use pmix_client::Uri;
use pmix_proto::Role;
use pmix_types::{Proc, Rank};
use xtask::install;

use super::server::me;
use super::wait::{Times, shown, until};
use super::{Field, Verdict, good, raw};
use crate::raw::Peer;
use crate::server::Server;

/// The number of connections that send nothing or one byte per second.
const SILENT: usize = 256;

/// The limit of the time to connect for 99 of 100 well-behaved clients.
const MOST: Duration = Duration::from_millis(50);

/// The time by which a connection may outlive the configured limit.
const GRACE: Duration = Duration::from_secs(1);

/// The number of tries, as other load of the machine affects the times.
const TRIES: usize = 3;

/// Opens silent connections: they are closed in time and delay no other client.
pub(super) fn dropped(field: &Field) -> Result<Verdict, String> {
    let mut last = Err(String::new());
    for number in 1..=TRIES {
        last = once(field);
        match &last {
            Err(why) if number < TRIES => println!("        try {number} of {TRIES}: {why}"),
            _ => break,
        }
    }
    last
}

fn once(field: &Field) -> Result<Verdict, String> {
    // The full form uses the default time limit, which needs no argument.
    let (args, limit): (&[&str], _) = match field.short {
        false => (&[], Duration::from_secs(5)),
        true => (&["1000"], Duration::from_secs(1)),
    };
    let mut server = field.server("silent", args)?;
    server.job("good", 1)?;
    // Read the figures after the registration: each job has a descriptor for its shared data.
    let before = server.figures()?;
    let begun = Instant::now();
    let mut idle = connect(&server.uri)?;
    let over = AtomicBool::new(false);
    let (lasted, clients) = thread::scope(|scope| {
        let clients = scope.spawn(|| connecting(&server.uri, &over));
        let lasted = drip_until_closed(&mut idle, begun, limit);
        sleep(Duration::from_millis(50));
        over.store(true, Ordering::SeqCst);
        (lasted, clients.join().map_err(|_| "panicked".to_owned()))
    });
    let (lasted, mut times) = (lasted?, clients??);
    let after = server.settle(before.descriptors)?;
    server.end()?;
    let p99 = times.percentile(99);
    let figures = format!(
        "{SILENT} dropped {} to {} after they connected, limit {}; {} good clients connected, \
         p99 {}, worst {}; descriptors {} and {}",
        shown(lasted.0),
        shown(lasted.1),
        shown(limit),
        times.len(),
        shown(p99),
        shown(times.worst()),
        before.descriptors,
        after.descriptors,
    );
    match p99 < MOST && lasted.1 < limit + GRACE {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// Checks that the number of unregistered connections of one user is limited, and that well-behaved clients of that
/// user can still connect.
pub(super) fn limited(field: &Field) -> Result<Verdict, String> {
    const KEPT: usize = 64;
    let mut server = field.server("limited", &["60000", &KEPT.to_string()])?;
    server.job("good", 1)?;
    let base = server.figures()?.descriptors;
    let mut idle = connect(&server.uri)?;
    for stream in &idle {
        stream.set_nonblocking(true).map_err(|e| e.to_string())?;
    }
    let closed = until(GRACE * 5, || {
        idle.retain_mut(|stream| !is_closed(stream));
        (idle.len() <= KEPT).then(|| SILENT - idle.len())
    });
    let kept = server.settle(base + KEPT)?.descriptors - base;
    let client = good::connect(&server.uri, "good", 0);
    client
        .and_then(|c| c.finalize())
        .map_err(|e| e.to_string())?;
    drop(idle);
    server.settle(base)?;
    server.end()?;
    match closed {
        Some(closed) if kept == KEPT => Ok(Verdict::Held(format!(
            "of {SILENT} of one user {closed} were closed at once, {kept} kept"
        ))),
        _ => Err(format!(
            "of {SILENT} of one user {kept} were kept, not {KEPT}"
        )),
    }
}

fn connect(uri: &Uri) -> Result<Vec<TcpStream>, String> {
    let idle = (0..SILENT).map(|_| raw::connect(uri.address));
    idle.collect::<Result<_, _>>().map_err(|e| e.to_string())
}

/// Sends a byte of a well-formed hello on every second connection now and then, until all are closed. Returns how long
/// the first and the last one were open.
fn drip_until_closed(
    idle: &mut Vec<TcpStream>,
    begun: Instant,
    limit: Duration,
) -> Result<(Duration, Duration), String> {
    let proc = Proc::new("good", Rank::new(0));
    let credential = raw::credential(me());
    let layout = Layout::new(Module::V41);
    let hello = raw::hello(Role::CLIENT, Some(proc), &credential, layout);
    let hello = hello.encode().map_err(|e| e.to_string())?;
    // A blocking read or write on one connection would delay all others.
    for stream in idle.iter() {
        stream.set_nonblocking(true).map_err(|e| e.to_string())?;
    }
    // A few bytes within the time limit must not extend it.
    let pause = limit / 5;
    let (mut first, mut said) = (None, 0);
    let all_closed = until(limit + GRACE * 5, || {
        if begun.elapsed() > pause * u32::try_from(said).unwrap_or(u32::MAX) {
            let byte = hello.get(said..=said).unwrap_or_default();
            said += 1;
            for stream in idle.iter_mut().step_by(2) {
                // The write fails on a connection that the server has closed.
                let _ = stream.write(byte);
            }
        }
        let before = idle.len();
        idle.retain_mut(|stream| !is_closed(stream));
        if idle.len() < before {
            first.get_or_insert_with(|| begun.elapsed());
        }
        idle.is_empty().then_some(())
    });
    match all_closed {
        Some(()) => Ok((first.unwrap_or_default(), begun.elapsed())),
        None => Err(format!("{} silent connections stay open", idle.len())),
    }
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Connects one client after another, and returns the time that each needed to receive its job info.
fn connecting(uri: &Uri, over: &AtomicBool) -> Result<Times, String> {
    let mut times = Times::default();
    while !over.load(Ordering::SeqCst) {
        let begun = Instant::now();
        let client = good::connect(uri, "good", 0).map_err(|e| e.to_string())?;
        times.push(begun.elapsed());
        client.finalize().map_err(|e| e.to_string())?;
        sleep(Duration::from_millis(2));
    }
    Ok(times)
}

/// The number of peers whose credentials need the daemon.
const PEERS: u32 = 8;

/// The limit of a fence meanwhile, which allows for a busy machine. A server that blocked on the daemon would need the
/// 5 s of a handshake.
const LONGEST: Duration = Duration::from_secs(1);

/// Runs fences while peers connect whose credentials the daemon never validates.
pub(super) fn hangs(field: &Field) -> Result<Verdict, String> {
    install::packages(&["munge"]);
    let directory = field.directory("munge")?;
    let socket = directory.join("socket");
    // Connections wait in the queue of the listener, which never accepts.
    let _listener =
        UnixListener::bind(&socket).map_err(|e| format!("{}: {e}", socket.display()))?;
    let sessions = field.directory("munge-server")?;
    let mut command = Command::new(&field.program);
    command
        .arg(&sessions)
        .env("PMIX_MCA_psec", "munge,native")
        .env("PMIX_MCA_psec_munge_socket", &socket);
    let mut server = match Server::start_by(command, &sessions) {
        // Without the library the server cannot use the module and does not start.
        Err(why) if why.contains("libmunge") => {
            return Ok(Verdict::Skipped("no libmunge".to_owned()));
        }
        started => started?,
    };
    server.job("good", 1)?;
    server.job("munged", PEERS)?;
    let client = good::connect(&server.uri, "good", 0).map_err(|e| e.to_string())?;
    let address = server.uri.address;
    let come = move || {
        let one = |rank| {
            let layout = Layout::new(Module::V41);
            let proc = Proc::new("munged", Rank::new(rank));
            // A well-formed credential, which only the daemon can reject.
            let credential = b"MUNGE:AwQFAAA=:\0";
            let mut hello = raw::hello(Role::CLIENT, Some(proc), credential, layout);
            hello.psec = "munge".into();
            Peer::with(address, &hello).is_err()
        };
        std::thread::scope(|scope| {
            let peers: Vec<_> = (0..PEERS)
                .map(|rank| scope.spawn(move || one(rank)))
                .collect();
            let refused = peers.into_iter().filter_map(|peer| peer.join().ok());
            refused.filter(|refused| *refused).count()
        })
    };
    let peers = std::thread::spawn(come);
    let mut fences = Times::default();
    while !peers.is_finished() {
        let begun = Instant::now();
        client.fence([], []).wait().map_err(|e| e.to_string())?;
        fences.push(begun.elapsed());
    }
    let refused = peers.join().map_err(|_| "the peers panicked")?;
    client.finalize().map_err(|e| e.to_string())?;
    let said = server.log();
    let figures = format!(
        "{refused} of {PEERS} refused, longest of {} fences {}",
        fences.len(),
        shown(fences.worst())
    );
    let named = said.contains("the security module munge has not verified its credential in time");
    server.end()?;
    match refused == PEERS as usize && named && fences.worst() < LONGEST {
        true => Ok(Verdict::Held(figures)),
        false => Err(format!("{figures}; {said}")),
    }
}

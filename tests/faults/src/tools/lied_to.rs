// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server that lies to a tool, or does not reply.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use pmix_proto::{Hello, Inbox, PeerForm, Welcome};
use pmix_types::{Proc, Rank, Status};

use super::asking::{LIMIT, PATIENCE};
use crate::lied_to::{lies, next};
use crate::wait::{shown, until};
use crate::{Field, Verdict, peer};

/// The time by which a tool may exceed its time limits on a busy machine.
const GRACE: Duration = Duration::from_secs(10);

/// The limit of a tool's memory, in KiB.
const MOST: u64 = 128 << 10;

/// The behavior of a server toward a tool.
#[derive(Clone, Copy)]
enum Lie {
    /// Does not reply to the hello.
    NoWelcome,
    /// Replies to the hello with random bytes.
    Nonsense,
    /// Does not reply to the query.
    Silence,
    /// Announces a reply of 4 GiB.
    Huge,
    /// Replies to the query with a malformed reply.
    Damaged,
    /// Sends events without end.
    Events,
    /// Closes the connection in the middle of the reply.
    Closes,
}

const LIES: &[(&str, Lie, &[Status])] = &[
    ("no welcome", Lie::NoWelcome, &[Status::ERR_TIMEOUT]),
    ("nonsense for a welcome", Lie::Nonsense, &[]),
    ("silence", Lie::Silence, &[Status::ERR_TIMEOUT]),
    ("a huge answer", Lie::Huge, &[]),
    ("a damaged answer", Lie::Damaged, &[]),
    ("endless events", Lie::Events, &[Status::ERR_TIMEOUT]),
    ("half an answer", Lie::Closes, &[]),
];

/// Tells each lie to a tool.
pub(crate) fn lied_to(_: &Field) -> Result<Verdict, String> {
    let (mut most, mut longest) = (0, Duration::ZERO);
    for (what, lie, statuses) in LIES {
        let (status, peak, took) = tell(*lie).map_err(|why| format!("{what}: {why}"))?;
        let is_expected = statuses.is_empty() || statuses.contains(&status);
        if status.is_success() || !is_expected {
            return Err(format!("{what}: the tool ends with {status}"));
        }
        // Attaching and querying have a time limit each.
        if took > 2 * LIMIT + GRACE || peak > MOST {
            return Err(format!("{what}: {} and {peak} KiB", shown(took)));
        }
        (most, longest) = (most.max(peak), longest.max(took));
    }
    let (num, most) = (LIES.len(), most >> 10);
    Ok(Verdict::Held(format!(
        "{num} lies: {most} MiB at the most, the longest {}",
        shown(longest)
    )))
}

fn tell(lie: Lie) -> Result<(Status, u64, Duration), String> {
    let fault = |e: std::io::Error| e.to_string();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    let uri = format!("server.0;tcp4://{address}");
    let mut command = peer::command(&["tool-lied-to", &uri]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn().map_err(fault)?;
    let ended = thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&listener, lie));
        let ended = until(PATIENCE, || child.try_wait().ok().flatten());
        if ended.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Unblock the accept of the server thread if the tool never connected.
        drop(TcpStream::connect(address));
        let served = serving.join();
        served.unwrap_or_else(|_| Err("the server panicked".to_owned()))?;
        ended.ok_or_else(|| "the tool does not end".to_owned())
    });
    let took = begun.elapsed();
    let status = ended?;
    let mut said = String::new();
    let mut output = child.stdout.take().ok_or("no output")?;
    output.read_to_string(&mut said).map_err(fault)?;
    let mut words = said.split_whitespace();
    let raw = words.next().and_then(|word| word.parse().ok());
    let peak = words.next().and_then(|word| word.parse().ok());
    match (raw, peak) {
        (Some(raw), Some(peak)) => Ok((Status::from_raw(raw), peak, took)),
        _ => Err(format!("the tool ended with {status} and said {said:?}")),
    }
}

fn serve(listener: &TcpListener, lie: Lie) -> Result<(), String> {
    let fault = |e: std::io::Error| e.to_string();
    let (mut stream, _) = listener.accept().map_err(fault)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fault)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(fault)?;
    let mut inbox = Inbox::of_server(1 << 20);
    let hello = next(&mut stream, &mut inbox).ok_or("no hello")?;
    match lie {
        Lie::NoWelcome => {
            // Wait until the tool disconnects.
            while next(&mut stream, &mut inbox).is_some() {}
            return Ok(());
        }
        Lie::Nonsense => {
            let _ = stream.write_all(&[0xff; 600]);
            return Ok(());
        }
        _ => {}
    }
    let hello = Hello::decode(&hello.payload).map_err(|e| e.to_string())?;
    let form = hello.form().map_err(|e| e.to_string())?;
    let welcome = Welcome::Assigned {
        proc: Proc::new("a-tool", Rank::new(0)),
        server: Proc::new("server", Rank::new(0)),
    };
    let welcome = welcome.encode().map_err(|e| e.to_string())?;
    stream.write_all(&welcome).map_err(fault)?;
    // The query comes first: a tool requests nothing about its own job until it looks up a key there.
    if let Some(asked) = next(&mut stream, &mut inbox) {
        // The tool may disconnect after the lie.
        let _ = answer(&mut stream, &form, lie, asked.header.tag);
        if !matches!(lie, Lie::Closes) {
            while next(&mut stream, &mut inbox).is_some() {}
        }
    }
    Ok(())
}

fn answer(
    stream: &mut TcpStream,
    form: &PeerForm,
    lie: Lie,
    tag: pmix_proto::Tag,
) -> Result<(), String> {
    let fault = |e: std::io::Error| e.to_string();
    match lie {
        Lie::Huge => stream
            .write_all(&lies::head(tag, u32::MAX))
            .map_err(fault)?,
        Lie::Damaged => stream
            .write_all(&lies::frame(tag, &[0xff; 64]))
            .map_err(fault)?,
        Lie::Closes => {
            stream.write_all(&lies::head(tag, 100)).map_err(fault)?;
            stream.write_all(&[0; 10]).map_err(fault)?;
        }
        Lie::Events => {
            let event = lies::event(form, "a-tool")?;
            let events: Vec<u8> = (0..100).flat_map(|_| event.iter().copied()).collect();
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE {
                stream.write_all(&events).map_err(fault)?;
            }
        }
        Lie::NoWelcome | Lie::Nonsense | Lie::Silence => {}
    }
    Ok(())
}

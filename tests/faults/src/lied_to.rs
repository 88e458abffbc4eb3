// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients whose server sends false data of the largest size that a client accepts. The server lies
//! about the job, replies to a get with a lie, or forwards the lie of a peer.
//!
//! Each client is a process of its own, so that the kernel reports its memory. Each false reply goes to a client of our
//! client library and to a C program that uses the C library.

pub(super) mod lies;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pmix_proto::{Frame, Hello, Inbox, PeerForm, Welcome};
use pmix_types::Status;
use xtask::{library, process};

use super::wait::{shown, until};
use super::{Field, Verdict, peer};
use lies::{Answer, Lie};

/// The time limit of a client, and of its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time by which a client may exceed its time limit on a busy machine.
const GRACE: Duration = Duration::from_secs(10);

/// The job of the clients.
const JOB: &str = "job";

/// The report of a client at its end.
struct Told {
    begun: Status,
    got: Status,
    /// The peak memory of the client, in KiB.
    peak: u64,
    took: Duration,
}

/// Tells each lie to each client.
pub(super) fn run(field: &Field) -> Result<Verdict, String> {
    let program = compile(field)?;
    let mut most = (0, "");
    let mut longest = (Duration::ZERO, "");
    let lies = lies::all(field.count(1, 4))?;
    for lie in &lies {
        let limit = lie.time_limit().as_millis().to_string();
        let ours = peer::command(&["lied-to", &limit]);
        let theirs = || {
            let mut command = Command::new(&program);
            command.env("LD_LIBRARY_PATH", program.parent().unwrap_or(&program));
            command
        };
        for (library, command) in [
            ("Rust", Some(ours)),
            ("C", (!lie.takes_the_time_limit()).then(theirs)),
        ] {
            let Some(command) = command else { continue };
            let told = tell(lie, command).map_err(|e| format!("{} ({library}): {e}", lie.name))?;
            lie.check(&told)
                .map_err(|e| format!("{} ({library}): {e}", lie.name))?;
            if told.peak > most.0 {
                most = (told.peak, lie.name);
            }
            if told.took > longest.0 && !lie.takes_the_time_limit() {
                longest = (told.took, lie.name);
            }
        }
    }
    Ok(Verdict::Held(format!(
        "{} lies: {} MiB at the most ({}), the longest {} ({})",
        lies.len(),
        most.0 >> 10,
        most.1,
        shown(longest.0),
        longest.1,
    )))
}

/// Compiles the C client into a folder with the library.
fn compile(field: &Field) -> Result<PathBuf, String> {
    let profile = if field.short { "dev" } else { "dist" };
    let library = library::build(profile)?.join("libpmix_capi.so");
    let folder = field.directory("lied-to")?;
    for name in ["libpmix.so", "libpmix.so.2"] {
        let link = std::os::unix::fs::symlink(&library, folder.join(name));
        link.map_err(|e| format!("{name}: {e}"))?;
    }
    let program = folder.join("lied_to");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile
        .arg("-I")
        .arg(process::root().join("include"))
        .arg(process::root().join("tests/capi/lied_to.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&folder)
        .arg("-lpmix");
    process::run(&mut compile)?;
    Ok(program)
}

/// Starts a server that tells the lie, runs a client against it and returns the client's report.
fn tell(lie: &Lie, mut client: Command) -> Result<Told, String> {
    let fault = |e: std::io::Error| e.to_string();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    client
        .env("PMIX_NAMESPACE", JOB)
        .env("PMIX_RANK", "0")
        .env("PMIX_SERVER_URI41", format!("server.0;tcp4://{address}"))
        .env("PMIX_SECURITY_MODE", "native")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let begun = Instant::now();
    let mut child = client.spawn().map_err(fault)?;
    let ended = thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&listener, lie));
        let ended = until(PATIENCE, || child.try_wait().ok().flatten());
        if ended.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Unblock the accept of the server thread if the client never connected.
        drop(TcpStream::connect(address));
        let served = serving.join();
        let served = served.unwrap_or_else(|_| Err("the server panicked".to_owned()));
        match ended {
            Some(status) if status.success() => served.map(|()| status),
            Some(status) => Err(format!("the client ended with {status}")),
            None => Err("the client does not end".to_owned()),
        }
    });
    let took = begun.elapsed();
    ended?;
    let mut said = String::new();
    let mut output = child.stdout.take().ok_or("no output")?;
    output.read_to_string(&mut said).map_err(fault)?;
    let words: Vec<i64> = said
        .split_whitespace()
        .filter_map(|w| w.parse().ok())
        .collect();
    let [begun, got, peak] = *words else {
        return Err(format!("the client says {said:?}"));
    };
    let status = |word: i64| i32::try_from(word).map(Status::from_raw);
    Ok(Told {
        begun: status(begun).map_err(|e| e.to_string())?,
        got: status(got).map_err(|e| e.to_string())?,
        peak: u64::try_from(peak).map_err(|e| e.to_string())?,
        took,
    })
}

/// Welcomes one client, sends the job info of the lie and replies to the first get with its answer. Every other request
/// succeeds.
fn serve(listener: &TcpListener, lie: &Lie) -> Result<(), String> {
    let fault = |e: std::io::Error| e.to_string();
    let (mut stream, _) = listener.accept().map_err(fault)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fault)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(fault)?;
    let mut inbox = Inbox::of_server(1 << 20);
    let hello = next(&mut stream, &mut inbox).ok_or("no hello")?;
    let hello = Hello::decode(&hello.payload).map_err(|e| e.to_string())?;
    let form = hello.form().map_err(|e| e.to_string())?;
    let welcome = Welcome::Index { index: 5 }.encode();
    let welcome = welcome.map_err(|e| e.to_string())?;
    stream.write_all(&welcome).map_err(fault)?;
    let asked = next(&mut stream, &mut inbox).ok_or("no question about the job")?;
    let job = lies::frame(asked.header.tag, &lies::job_info(&form, JOB, &lie.told)?);
    stream.write_all(&job).map_err(fault)?;
    let mut has_answered = false;
    while let Some(frame) = next(&mut stream, &mut inbox) {
        // The client may disconnect after the lie.
        match has_answered {
            false => answer(&mut stream, &form, &frame, &lie.answer)?,
            true => {
                let done = lies::success(&form)?;
                let _ = stream.write_all(&lies::frame(frame.header.tag, &done));
            }
        }
        has_answered = true;
    }
    Ok(())
}

fn answer(
    stream: &mut TcpStream,
    form: &PeerForm,
    asked: &Frame,
    answer: &Answer,
) -> Result<(), String> {
    let tag = asked.header.tag;
    match answer {
        Answer::Silence => {}
        Answer::Object(value) => {
            let payload = lies::object(form, JOB, value)?;
            let _ = stream.write_all(&lies::frame(tag, &payload));
        }
        Answer::Huge(len) => {
            let _ = stream.write_all(&lies::head(tag, *len));
        }
        Answer::Events { count, and_then } => {
            let event = lies::event(form, JOB)?;
            let events: Vec<u8> = (0..100).flat_map(|_| event.iter().copied()).collect();
            let begun = Instant::now();
            let mut sent = 0;
            while count.is_none_or(|count| sent < count)
                && begun.elapsed() < PATIENCE
                && stream.write_all(&events).is_ok()
            {
                sent += 100;
            }
            if let Some(value) = and_then {
                let payload = lies::object(form, JOB, value)?;
                let _ = stream.write_all(&lies::frame(tag, &payload));
            }
        }
    }
    Ok(())
}

/// Returns the next frame, or `None` once the client has disconnected.
pub(super) fn next(stream: &mut TcpStream, inbox: &mut Inbox) -> Option<Frame> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(frame) = inbox.next_frame().ok()? {
            return Some(frame);
        }
        let len = stream.read(&mut buffer).unwrap_or(0);
        if len == 0 {
            return None;
        }
        inbox.push(buffer.get(..len)?);
    }
}

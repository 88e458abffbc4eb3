// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server that lies to `pmix ps` and `pmix top`.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pmix_proto::{Hello, Inbox, PeerForm, Request, Welcome, reply};
use pmix_types::{DataArray, Info, Proc, ProcInfo, Rank, Status, Value, keys};

use super::asking::PATIENCE;
use crate::launcher::build;
use crate::lied_to::{lies, next};
use crate::server::Figures;
use crate::wait::{shown, until};
use crate::{Field, Verdict};

/// The time limit of each request of the command.
const LIMIT: Duration = Duration::from_millis(500);

/// The limit of the command's time. It sends several requests, and the machine may be busy.
const MOST_TIME: Duration = Duration::from_secs(20);

/// The limit of the command's memory, in KiB.
const MOST: u64 = 512 << 10;

/// The behavior of a server toward a command that lists jobs and processes.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Lists more jobs than a server can have.
    ManyJobs,
    /// Lists many jobs with many processes each.
    ManyTables,
    /// Lists many jobs and delays each reply as long as the time limit allows.
    Slow,
    /// Sends events without end after the replies.
    Events,
    /// Replies to everything but the finalize request.
    NoFarewell,
}

const LIES: &[(&str, Lie)] = &[
    ("many jobs", Lie::ManyJobs),
    ("many tables", Lie::ManyTables),
    ("late answers", Lie::Slow),
    ("events without end", Lie::Events),
    ("no farewell", Lie::NoFarewell),
];

/// Tells each lie to both commands.
pub(crate) fn listing_lied_to(field: &Field) -> Result<Verdict, String> {
    let pmix = build(field)?;
    let (mut most, mut longest) = (0, Duration::ZERO);
    let commands = [&["ps"][..], &["top", "--count", "2", "--interval", "0.2"]];
    for (what, lie) in LIES {
        for words in commands {
            let told = tell(&pmix, words, *lie);
            let (peak, took) = told.map_err(|why| format!("{what}, {words:?}: {why}"))?;
            if took > MOST_TIME || peak > MOST {
                return Err(format!("{what}, {words:?}: {} and {peak} KiB", shown(took)));
            }
            (most, longest) = (most.max(peak), longest.max(took));
        }
    }
    Ok(Verdict::Held(format!(
        "{} lies to {} commands: {} MiB at the most, the longest {}",
        LIES.len(),
        commands.len(),
        most >> 10,
        shown(longest)
    )))
}

/// Tells a lie to a command. Returns the peak memory in KiB, and the time that the command took.
fn tell(pmix: &std::path::Path, words: &[&str], lie: Lie) -> Result<(u64, Duration), String> {
    let fault = |e: std::io::Error| e.to_string();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    let mut command = Command::new(pmix);
    command
        .args(words)
        .args(["--uri", &format!("server.0;tcp4://{address}")])
        .args(["--timeout", &LIMIT.as_secs_f64().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().map_err(fault)?;
    let mut peak = 0;
    let ended = thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&listener, lie));
        let ended = until(PATIENCE, || {
            if let Ok(figures) = Figures::of(child.id()) {
                peak = peak.max(figures.peak);
            }
            child.try_wait().ok().flatten()
        });
        let _ = child.kill();
        let _ = child.wait();
        // Unblock the accept of the server thread if the command never connected.
        drop(TcpStream::connect(address));
        let served = serving.join();
        served.unwrap_or_else(|_| Err("the server panicked".to_owned()))?;
        ended.ok_or_else(|| format!("it does not end, and has {peak} KiB"))
    });
    ended.map(|_| (peak, begun.elapsed()))
}

fn serve(listener: &TcpListener, lie: Lie) -> Result<(), String> {
    let fault = |e: std::io::Error| e.to_string();
    let (mut stream, _) = listener.accept().map_err(fault)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fault)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(fault)?;
    let mut inbox = Inbox::of_server(1 << 24);
    let Some(hello) = next(&mut stream, &mut inbox) else {
        return Err("no hello".to_owned());
    };
    let hello = Hello::decode(&hello.payload).map_err(|e| e.to_string())?;
    let form = hello.form().map_err(|e| e.to_string())?;
    let welcome = Welcome::Assigned {
        proc: Proc::new("a-tool", Rank::new(0)),
        server: Proc::new("server", Rank::new(0)),
    };
    let welcome = welcome.encode().map_err(|e| e.to_string())?;
    stream.write_all(&welcome).map_err(fault)?;
    let event = lies::event(&form, "a-tool")?;
    while let Some(asked) = next(&mut stream, &mut inbox) {
        let request = Request::decode(&form, None, &asked.payload).map_err(|e| e.to_string())?;
        let Some(payload) = answer(&form, lie, &request)? else {
            continue;
        };
        // The command may disconnect after the lie.
        if stream
            .write_all(&lies::frame(asked.header.tag, &payload))
            .is_err()
        {
            return Ok(());
        }
        if matches!(lie, Lie::Events) {
            stream.set_nonblocking(false).map_err(fault)?;
            let events: Vec<u8> = (0..1000).flat_map(|_| event.iter().copied()).collect();
            let mut flood = stream.try_clone().map_err(fault)?;
            thread::spawn(move || while flood.write_all(&events).is_ok() {});
            // Do not reply any more: a reply could land in the middle of an event of the other thread.
            while next(&mut stream, &mut inbox).is_some() {}
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the payload of a reply, or `None` if there is no reply.
fn answer(form: &PeerForm, lie: Lie, request: &Request<'_>) -> Result<Option<Vec<u8>>, String> {
    let infos = match request {
        Request::Query(query) => {
            if matches!(lie, Lie::Slow) {
                thread::sleep(LIMIT * 9 / 10);
            }
            let keys = query.queries.iter().flat_map(|query| &query.keys);
            keys.filter_map(|key| Some(Info::new(key.clone(), about(lie, key.as_bytes())?)))
                .collect()
        }
        Request::Finalize if matches!(lie, Lie::NoFarewell) => return Ok(None),
        _ => {
            let done = reply::Done {
                status: Status::SUCCESS,
            };
            return done.encode(form, None).map(Some).map_err(|e| e.to_string());
        }
    };
    let reply = reply::Infos {
        status: Status::SUCCESS,
        infos: Some(infos),
    };
    reply
        .encode(form, None)
        .map(Some)
        .map_err(|e| e.to_string())
}

/// Returns the value of a key, if the server has one.
fn about(lie: Lie, key: &[u8]) -> Option<Value<'static>> {
    if key == keys::QUERY_NAMESPACES.as_bytes() {
        let names = match lie {
            Lie::ManyJobs => "a,".repeat(4 << 20),
            Lie::ManyTables | Lie::Slow => {
                (0..10_000).map(|number| format!("job{number},")).collect()
            }
            Lie::Events | Lie::NoFarewell => "job".to_owned(),
        };
        return Some(Value::from(names));
    }
    if key == keys::QUERY_PROC_TABLE.as_bytes() {
        let number = if matches!(lie, Lie::ManyTables) {
            100_000
        } else {
            1
        };
        let row = |rank| ProcInfo {
            proc: Proc::new("job", Rank::new(rank)),
            hostname: Some("n".repeat(64).into()),
            executable_name: Some("p".repeat(64).into()),
            ..ProcInfo::default()
        };
        let rows = (0..number).map(row).collect();
        return Some(Value::DataArray(DataArray::ProcInfo(rows)));
    }
    None
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers that are killed: clients learn of it at once in every call, and the next server removes the files of the
//! last.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use pmix_client::{Client, Error, Uri};
use pmix_proto::{Request, request};
use pmix_types::{Info, Proc, Rank, Scope, Status, keys};

use super::points;
use crate::server::{Server, files, me};
use crate::wait::{Times, shown};
use crate::{Field, Verdict, good};

const JOB: &str = "orphans";

/// The number of clients. The job has one more process, which never connects.
const CLIENTS: u32 = 4;

/// The time within which every client must have a result.
const DEADLINE: Duration = Duration::from_secs(1);

type Act = fn(&Uri, &mut Client) -> Result<(), Error>;

/// An action of the clients during which their server is killed.
struct Point {
    name: &'static str,
    /// `true` if the server is stopped first, so that it reads nothing of the action.
    is_stopped: bool,
    act: Act,
}

const fn point(name: &'static str, act: Act) -> Point {
    let is_stopped = false;
    Point {
        name,
        is_stopped,
        act,
    }
}

const fn stopped(name: &'static str, act: Act) -> Point {
    let is_stopped = true;
    Point {
        name,
        is_stopped,
        act,
    }
}

const POINTS: &[Point] = &[
    point("fence", |_, client| client.fence([], []).wait()),
    point("fence-collecting", |_, client| {
        client
            .fence([], [Info::new(keys::COLLECT_DATA, true)])
            .wait()
    }),
    point("get", |_, client| get(client, 4)),
    point("direct-modex", |_, client| get(client, 5)),
    point("publish", |_, client| ask(client, points::publish)),
    point("lookup", |_, client| ask(client, points::lookup)),
    point("spawn", |_, client| ask(client, points::spawn)),
    point("connect", |_, client| {
        let procs = vec![points::all(JOB)];
        let infos = Vec::new();
        let connect = Request::Connect(request::Connect {
            procs,
            infos,
            shared: Vec::new(),
        });
        client.request(connect).wait().map(drop)
    }),
    stopped("commit", |_, client| {
        client.put(Scope::GLOBAL, "card", "x")?;
        client.commit()
    }),
    stopped("notify", |_, client| ask(client, points::notify)),
    stopped("abort", |_, client| ask(client, points::abort)),
    // A new connection completes in the kernel, and then waits for the server's reply.
    stopped("init", |uri, _| good::connect(uri, JOB, 4).map(drop)),
];

fn get(client: &mut Client, rank: u32) -> Result<(), Error> {
    let peer = Proc::new(JOB, Rank::new(rank));
    client.get(&peer, "card", &[]).wait().map(drop)
}

fn ask(client: &mut Client, request: fn(&str) -> Request<'static>) -> Result<(), Error> {
    client.request(request(JOB)).wait().map(drop)
}

/// Kills a server at every point, repeatedly.
pub(crate) fn run(field: &Field) -> Result<Verdict, String> {
    let directory = field.directory("server-killed")?;
    let rounds = field.count(5, 1);
    let mut times = Times::default();
    let mut there = None;
    for point in POINTS {
        for number in 0..rounds {
            let fault = |why| format!("{}, round {number}: {why}", point.name);
            let mut server = Server::start(&field.program, &directory, &[]).map_err(fault)?;
            let num_files = files(&directory).len();
            if *there.get_or_insert(num_files) != num_files {
                return Err(fault(format!("{num_files} files, before {there:?}")));
            }
            times.extend(round(&mut server, point).map_err(fault)?);
        }
    }
    // A last server starts beside the files that the killed ones left; its orderly end must leave none.
    Server::start(&field.program, &directory, &[])?.end()?;
    let worst = times.worst();
    let figures = format!(
        "{} points x {rounds}: {} clients told that the server is lost, worst after {}; no file left",
        POINTS.len(),
        times.len(),
        shown(worst),
    );
    match worst < DEADLINE {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

/// Kills one server and returns how long each client needed to notice.
fn round(server: &mut Server, point: &Point) -> Result<Times, String> {
    let (uid, gid) = me();
    server.tell(&format!("job {JOB} 6 5 {uid} {gid}"))?;
    server.tell("hold")?;
    let uri = server.uri.clone();
    let in_place = Barrier::new(CLIENTS as usize + 1);
    let mut stopped = Ok(());
    let ended: Vec<Result<_, String>> = thread::scope(|scope| {
        let client = |rank| {
            let (uri, in_place) = (&uri, &in_place);
            scope.spawn(move || life(uri, rank, in_place, point.act))
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        in_place.wait();
        if point.is_stopped {
            stopped = server.stop();
        }
        in_place.wait();
        // Give the clients time to send their requests before the server is killed.
        thread::sleep(Duration::from_millis(20));
        let killed = Instant::now();
        server.kill();
        let ended = clients.into_iter().map(|client| {
            let ended = client.join().map_err(|_| "panicked".to_owned())?;
            ended.map(|at| at.saturating_duration_since(killed))
        });
        ended.collect()
    });
    stopped?;
    let mut times = Times::default();
    for time in ended {
        times.push(time?);
    }
    Ok(times)
}

/// Connects, acts at the barrier and returns the time at which the action failed, as it must.
fn life(uri: &Uri, rank: u32, in_place: &Barrier, act: Act) -> Result<Instant, String> {
    let client = good::connect(uri, JOB, rank);
    in_place.wait();
    in_place.wait();
    let mut client = client.map_err(|e| e.to_string())?;
    match act(uri, &mut client) {
        Err(error) if error.status() == Status::ERR_UNREACH => Ok(Instant::now()),
        Err(error) => Err(format!(
            "a call of a client failed with {error} ({})",
            error.status()
        )),
        Ok(()) => Err("a call of a client succeeded after the server was killed".to_owned()),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers that run as processes of their own: as another user, or to be killed.
//!
//! This program is that process: `pmix-faults peer WHAT ARGUMENTS`.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bfrops::{Layout, Module};
use pmix_client::{Client, Settings, Uri};
use pmix_proto::{Request, Role, Tag, reply, request};
use pmix_types::{Info, IofChannel, Key, Proc, Query, Rank, Status, keys};

use super::greedy::kinds;
use super::killed::points::Point;
use super::launcher;
use super::malformed;
use super::raw::{self, Peer};
use super::server::{Figures, me};
use super::tools::asking;
use super::wait::FairClock;
use xtask::process;

/// Returns a command that runs this program as such a peer.
pub(super) fn command(what: &[&str]) -> Command {
    // Another user may have no access to the directory of this program.
    let mut command = Command::new("/proc/self/exe");
    command.arg("peer").args(what);
    command
}

/// Runs a peer as another user and returns its output.
///
/// # Errors
/// Returns a message if the peer fails.
pub(super) fn of_user(uid: u32, what: &[&str]) -> Result<String, String> {
    let mut command = command(what);
    command.uid(uid).gid(uid).current_dir("/");
    let said = process::output(&mut command)?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// Runs the peer that the arguments name.
///
/// # Errors
/// Returns the message of the peer.
pub(super) fn main(args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["enter", uri, job, rank, uid, gid] => {
            let user = (number(uid)?, number(gid)?);
            let came_in = enter(&address(uri)?, job, number(rank)?, user).is_ok();
            println!("{}", if came_in { "in" } else { "out" });
        }
        ["read", uri, job, of] => {
            let status = read(&address(uri)?, job, of)?;
            println!("{}", status.as_raw());
        }
        ["reach", point, uri, job] => {
            let point = Point::named(point).ok_or("no such point")?;
            let _stream = point.reach(&address(uri)?, job)?;
            println!("here");
            // The parent kills this process.
            sleep(Duration::from_secs(60));
        }
        ["own-fences", time, path] => own_fences(number(time)?, Path::new(path))?,
        ["failing-fences", count] => failing_fences(number(count)?)?,
        ["registers", path, told] => registers(path, Path::new(told))?,
        ["log-flood"] => log_flood()?,
        ["lied-to", limit] => lied_to(number(limit)?)?,
        ["tool", uri, job] => asking::look(&address(uri)?, job)?,
        ["tool-lied-to", uri] => asking::ask(&address(uri)?)?,
        ["unknown-names"] => unknown_names()?,
        ["pulls", pulls, names, pulled, done] => {
            self::pulls(
                number(pulls)?,
                number(names)?,
                Path::new(pulled),
                Path::new(done),
            )?;
        }
        ["inside", count, seed, done] => {
            malformed::attack_server(number(count)?, number(seed)?.into(), Path::new(done))?;
        }
        ["blocks", kind, num_files, place] => {
            let (client, num_files) = (of_launcher()?, number(num_files)?);
            launcher::blocks(client, kind, num_files, Path::new(place))?;
        }
        ["asks-for-memory", ready, go] => {
            launcher::asks_for_memory(of_launcher()?, Path::new(ready), Path::new(go))?;
        }
        ["fills", num_files] => launcher::fills(of_launcher()?, number(num_files)?)?,
        ["cleans", path] => launcher::cleans(path)?,
        ["attack", attackers, share] => attack(number(attackers)?, number(share)?)?,
        _ => return Err(format!("{args:?} is nothing that a peer does")),
    }
    Ok(())
}

/// Fences alone for this time as a process of a launcher. Writes the duration of the longest fence
/// in microseconds, measured by a clock that does not count other load of the machine. Then stays
/// connected.
fn own_fences(milliseconds: u32, path: &Path) -> Result<(), String> {
    let client = of_launcher()?;
    let own = [client.proc().clone()];
    let launcher = std::os::unix::process::parent_id();
    let mut longest = Duration::ZERO;
    let (start, time) = (Instant::now(), Duration::from_millis(milliseconds.into()));
    while longest.is_zero() || start.elapsed() < time {
        let mut clock = FairClock::start(&[launcher, std::process::id()]);
        let fence = client.fence(&own, []).wait();
        fence.map_err(|e| e.to_string())?;
        longest = longest.max(clock.elapsed());
    }
    // Rename the complete file, so that the process that waits for it never reads a part.
    let told = path.with_extension("new");
    fs::write(&told, longest.as_micros().to_string()).map_err(|e| e.to_string())?;
    fs::rename(&told, path).map_err(|e| e.to_string())?;
    loop {
        sleep(Duration::from_secs(60));
    }
}

/// Fences `count` times with rank 1, which has exited without finalizing.
fn failing_fences(count: u32) -> Result<(), String> {
    let client = of_launcher()?;
    let job = client.proc().nspace.clone();
    let both = [0, 1].map(|rank| Proc::new(job.clone(), Rank::new(rank)));
    for _ in 0..count {
        if client.fence(&both, []).wait().is_ok() {
            return Err("a fence with a process that has ended went well".to_owned());
        }
    }
    client.finalize().map_err(|e| e.to_string())
}

/// Returns the server of a process that a launcher started.
fn server_of(settings: &Settings) -> Result<&Uri, String> {
    let server = settings.server.as_ref();
    server.ok_or_else(|| "no server".to_owned())
}

/// Registers a file for removal at the end of this process, confirms it by creating another file, and stays.
fn registers(path: &str, told: &Path) -> Result<(), String> {
    let settings = Settings::from_env().map_err(|e| e.to_string())?;
    let client = Client::init(settings).map_err(|e| e.to_string())?;
    let infos = vec![Info::new(keys::REGISTER_CLEANUP, path.to_owned())];
    let asked = client.job_control(Vec::new(), infos).wait();
    asked.map_err(|e| e.to_string())?;
    // The launcher replies to this query itself. It has passed the earlier registration to its helper process by then.
    let query = Query {
        keys: vec![keys::QUERY_NAMESPACES.into()],
        qualifiers: Vec::new(),
    };
    let answered = client.query(vec![query]).wait();
    answered.map_err(|e| e.to_string())?;
    fs::write(told, "").map_err(|e| e.to_string())?;
    // The parent kills this process.
    sleep(Duration::from_secs(1000));
    Ok(())
}

/// Logs without end and ignores the replies.
fn log_flood() -> Result<(), String> {
    let settings = Settings::from_env().map_err(|e| e.to_string())?;
    let rank = settings.proc.rank.as_raw();
    let job = settings.proc.nspace.to_string();
    let mut peer = enter(server_of(&settings)?, &job, rank, me())?;
    let log = Request::Log(request::Log {
        time: 0,
        data: vec![Info::new(keys::LOG_STDOUT, "x".repeat(64 << 10))],
        directives: Vec::new(),
    });
    // Read the replies, as the server stops reading from a peer that does not.
    let mut answers = peer.stream.try_clone().map_err(|e| e.to_string())?;
    std::thread::spawn(move || std::io::copy(&mut answers, &mut std::io::sink()));
    let mut tag = 100;
    loop {
        let bytes = peer.request(Tag(tag), &log)?;
        tag = if tag == 1 << 20 { 100 } else { tag + 1 };
        if peer.stream.write_all(&bytes).is_err() {
            return Err("the launcher hung up".to_owned());
        }
    }
}

/// Runs a client of our client library against a lying server, with a time limit. `tests/capi/lied_to.c` is its C form.
fn lied_to(milliseconds: u32) -> Result<(), String> {
    let mut settings = Settings::from_env().map_err(|e| e.to_string())?;
    settings.time_limit = Some(Duration::from_millis(milliseconds.into()));
    let of_rank_1 = Proc::new(settings.proc.nspace.clone(), Rank::new(1));
    let (begun, got) = match Client::init(settings) {
        Err(error) => (error.status(), Status::ERR_INIT),
        Ok(client) => match client.get(&of_rank_1, "text", &[]).wait() {
            Err(error) => (Status::SUCCESS, error.status()),
            Ok(_) => (Status::SUCCESS, Status::SUCCESS),
        },
    };
    let peak = Figures::of(std::process::id())?.peak;
    println!("{} {} {peak}", begun.as_raw(), got.as_raw());
    Ok(())
}

/// Fences and connects with a rank that its job does not have, and with a job that does not exist. Prints the status of
/// each call on a line.
fn unknown_names() -> Result<(), String> {
    let client = of_launcher()?;
    let own = client.proc().clone();
    let beyond = Proc::new(own.nspace.clone(), Rank::new(4_000));
    let stranger = Proc::new("absent", Rank::new(0));
    for other in [beyond, stranger] {
        let both = [own.clone(), other.clone()];
        let fenced = client.fence(both.clone(), []).wait();
        let connected = client.connect(&both, &[]).wait();
        for (call, result) in [("fence", fenced), ("connect", connected)] {
            match result {
                Ok(()) => println!("{call} with {other:?}: success"),
                Err(error) => println!("{call} with {other:?}: {}", error.status()),
            }
        }
    }
    // The connection must still work after the failed calls.
    client.fence([], []).wait().map_err(|e| e.to_string())?;
    client.finalize().map_err(|e| e.to_string())
}

/// Pulls the output of `names` processes `pulls` times, then creates a file and reads until the other file exists.
fn pulls(pulls: u32, names: u32, pulled: &Path, done: &Path) -> Result<(), String> {
    let client = of_launcher()?;
    let job = client.proc().nspace.clone();
    let procs: Vec<_> = (0..names)
        .map(|rank| Proc::new(job.clone(), Rank::new(rank)))
        .collect();
    for number in 0..pulls {
        let pull = Request::IofPull(request::IofPull {
            procs: procs.clone(),
            infos: Vec::new(),
            channels: IofChannel::STDOUT_CHANNEL,
            local_id: (number + 1).into(),
        });
        client.request(pull).wait().map_err(|e| e.to_string())?;
    }
    fs::write(pulled, "").map_err(|e| e.to_string())?;
    while !done.exists() {
        let next = client.next_event(Duration::from_millis(10));
        next.map_err(|e| e.to_string())?;
    }
    client.finalize().map_err(|e| e.to_string())
}

/// Sends every kind of request in the names of the first ranks of a job, without end. Each rank has
/// its own connection and thread.
fn attack(attackers: u32, share: u32) -> Result<(), String> {
    let settings = Settings::from_env().map_err(|e| e.to_string())?;
    let share = usize::try_from(share).unwrap_or(1);
    let job = settings.proc.nspace.to_string();
    let server = server_of(&settings)?;
    let form = enter(server, &job, 0, me())?.form;
    let mut kinds = kinds::all(&form, share)?;
    // An abort would end the job.
    kinds.retain(|kind| kind.name != "abort of names");
    let (kinds, job) = (&kinds, &job);
    std::thread::scope(|scope| {
        for rank in 0..attackers {
            let first = usize::try_from(rank).unwrap_or(0) * 3;
            scope.spawn(move || {
                for kind in kinds.iter().cycle().skip(first) {
                    // Reconnect: the server disconnects attackers for some of the requests.
                    let Ok(mut peer) = enter(server, job, rank, me()) else {
                        sleep(Duration::from_millis(1));
                        continue;
                    };
                    let _ = peer.stream.write_all(&kind.bytes);
                    let _ = peer.ping();
                }
            });
        }
    });
    Ok(())
}

/// Returns a client of the launcher that started this process.
fn of_launcher() -> Result<Client, String> {
    let settings = Settings::from_env();
    settings.and_then(Client::init).map_err(|e| e.to_string())
}

pub(super) fn number(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

pub(super) fn address(word: &str) -> Result<Uri, String> {
    word.parse().map_err(|e: pmix_client::Error| e.to_string())
}

/// Formats the address of a server as an argument.
pub(super) fn argument(uri: &Uri) -> String {
    let (family, address) = match uri.address.is_ipv4() {
        true => ("tcp4", uri.address),
        false => ("tcp6", uri.address),
    };
    format!(
        "{}.{};{family}://{address}",
        uri.server.nspace, uri.server.rank
    )
}

/// Connects as a process with the credential of this user.
///
/// # Errors
/// Returns a message if the server refuses the connection.
pub(super) fn enter(uri: &Uri, job: &str, rank: u32, user: (u32, u32)) -> Result<Peer, String> {
    let credential = raw::credential(user);
    let proc = Proc::new(job.to_owned(), Rank::new(rank));
    let layout = Layout::new(Module::V41);
    let hello = raw::hello(Role::CLIENT, Some(proc), &credential, layout);
    Peer::with(uri.address, &hello)
}

/// Gets data that a process of another job put.
fn read(uri: &Uri, job: &str, of: &str) -> Result<Status, String> {
    const TAG: Tag = Tag(101);
    let mut peer = enter(uri, job, 0, me())?;
    let get = Request::Get(request::Get {
        nspace: of.to_owned().into(),
        rank: Rank::new(0),
        infos: Vec::new(),
        key: Some(Key::from("card")),
    });
    let bytes = peer.request(TAG, &get)?;
    std::io::Write::write_all(&mut peer.stream, &bytes).map_err(|e| e.to_string())?;
    let payload = peer.reply(TAG)?.ok_or("the server hung up")?;
    let done = reply::Done::decode(&peer.form, None, &payload);
    done.map(|done| done.status).map_err(|e| e.to_string())
}

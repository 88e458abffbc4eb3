// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers in processes of their own: of other users, or to be killed.
//!
//! This program is that process too: `pmix-faults peer WHAT ARGUMENTS`.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use bfrops::{Layout, Module};
use pmix_client::Uri;
use pmix_proto::{Request, Role, Tag, reply, request};
use pmix_types::{Key, Proc, Rank, Status};

use super::killed::points::Point;
use super::raw::{self, Peer};
use super::server::me;
use xtask::process;

/// A process that does one of the things below.
pub(super) fn command(what: &[&str]) -> Command {
    // The way to this program may be closed to other users.
    let mut command = Command::new("/proc/self/exe");
    command.arg("peer").args(what);
    command
}

/// Lets another user do something: what it says.
///
/// # Errors
/// It cannot.
pub(super) fn of_user(uid: u32, what: &[&str]) -> Result<String, String> {
    let mut command = command(what);
    command.uid(uid).gid(uid).current_dir("/");
    let said = process::output(&mut command)?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// What such a process does.
///
/// # Errors
/// It cannot.
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
            // Until it is killed.
            sleep(Duration::from_secs(60));
        }
        _ => return Err(format!("{args:?} is nothing that a peer does")),
    }
    Ok(())
}

pub(super) fn number(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

pub(super) fn address(word: &str) -> Result<Uri, String> {
    word.parse().map_err(|e: pmix_client::Error| e.to_string())
}

/// The address of a server as an argument.
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

/// Connects as a process that says that it is this user.
///
/// # Errors
/// It is not let in.
pub(super) fn enter(uri: &Uri, job: &str, rank: u32, user: (u32, u32)) -> Result<Peer, String> {
    let credential = raw::credential(user);
    let proc = Proc::new(job.to_owned(), Rank::new(rank));
    let layout = Layout::new(Module::V41);
    let hello = raw::hello(Role::CLIENT, Some(proc), &credential, layout);
    Peer::with(uri.address, &hello)
}

/// Asks as a process of one job for what one of another put.
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

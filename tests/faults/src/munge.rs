// SPDX-License-Identifier: MIT OR Apache-2.0
//! A MUNGE daemon that accepts requests and never replies.

use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use bfrops::{Layout, Module};
use pmix_client::Fence;
use pmix_proto::Role;
use pmix_types::{Proc, Rank};
use xtask::install;

use super::raw::{self, Peer};
use super::server::Server;
use super::wait::{Times, shown};
use super::{Field, Verdict, good};

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
    let mut client = good::connect(&server.uri, "good", 0).map_err(|e| e.to_string())?;
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
        client.fence(&Fence::new()).map_err(|e| e.to_string())?;
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

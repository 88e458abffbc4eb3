// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spawned jobs on the nodes of a session: those that a request names, those that it adds, and those with free slots.
#![allow(
    clippy::disallowed_methods,
    reason = "the environment selects what the processes do"
)]

use std::path::Path;

use pmix_client::Client;
use pmix_types::{App, Info, Proc, Rank, Scope, Value, keys};

use crate::actors::rank;
use crate::several::play_there;
use crate::stage::Played;

/// Spawns `NUM` processes of this act as rank 0, with the directives in `ASKED`. Parent and children connect, get each
/// other's data, and disconnect.
pub(crate) fn spread(client: Client) {
    client
        .put(Scope::GLOBAL, "card", 100 + rank(&client))
        .unwrap();
    client.commit().unwrap();
    if let Ok(Value::Proc(parent)) = client.get_of_job(keys::PARENT_ID).wait() {
        let node = std::env::var("PMIX_HOSTNAME").unwrap();
        println!("child {} on {node}", rank(&client));
        let own = Proc::new(client.proc().nspace.clone(), Rank::WILDCARD);
        meet(&client, [parent.clone(), own], &[parent]);
        return leave(client);
    }
    if rank(&client) != 0 {
        return leave_together(client);
    }
    let asked = std::env::var("ASKED").unwrap();
    let infos = asked.split_whitespace().map(|word| {
        let (key, value) = word.split_once('=').unwrap();
        Info::new(key.to_owned(), Value::from(value.to_owned()))
    });
    let num: u32 = std::env::var("NUM").unwrap().parse().unwrap();
    let argv: Vec<_> = std::env::args().map(Into::into).collect();
    let app = App {
        cmd: argv.first().cloned(),
        argv,
        env: vec![format!("ACT={}", std::env::var("ACT").unwrap()).into()],
        maxprocs: i32::try_from(num).unwrap(),
        ..App::default()
    };
    match client.spawn(infos.collect::<Vec<_>>(), vec![app]).wait() {
        Ok(child) => {
            let children = (0..num).map(|rank| Proc::new(child.clone(), Rank::new(rank)));
            let all = Proc::new(child.clone(), Rank::WILDCARD);
            let both = [client.proc().clone(), all];
            meet(&client, both, &children.collect::<Vec<_>>());
        }
        Err(error) => println!("refused: {}", error.status()),
    }
    leave_together(client);
}

/// Connects processes, gets the data of some, and disconnects.
fn meet(client: &Client, both: [Proc<'static>; 2], others: &[Proc<'static>]) {
    client.connect(both.to_vec(), Vec::new()).wait().unwrap();
    for other in others {
        let card = client.get(other, "card", &[]).wait().unwrap();
        assert_eq!(card, Value::from(100 + other.rank.as_raw()));
        // The maps of their job are known on this node.
        let host = client.get(other, keys::HOSTNAME, &[]).wait();
        assert!(host.is_ok(), "{host:?}");
        // Open MPI reads the list of a job that has no process on this node, and expects at least one.
        let job = Proc::new(other.nspace.clone(), Rank::WILDCARD);
        let is_optional = Info::new(keys::OPTIONAL, true);
        let peers = client.get(&job, keys::LOCAL_PEERS, &[is_optional]).wait();
        assert_ne!(peers.ok(), Some(Value::from("")));
    }
    client.disconnect(both.to_vec(), []).wait().unwrap();
}

/// Leaves after the spawn, so that this process keeps its slot until then.
fn leave_together(client: Client) {
    client.fence([], []).wait().unwrap();
    leave(client);
}

fn leave(client: Client) {
    client.finalize().unwrap();
}

/// Plays the act with one process on each of two nodes with two slots.
fn played(asked: &str, num: &str, ranks: (&str, u32)) -> Played {
    let vars = [("ASKED", Path::new(asked)), ("NUM", Path::new(num))];
    let played = play_there("spread", ranks, ":", &vars, |plan| plan.max_spawned = 64);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    played
}

/// Returns the nodes of the children in the order of their ranks.
fn nodes(played: &Played) -> String {
    let mut lines: Vec<_> = played.output.lines().collect();
    lines.sort_unstable();
    let nodes = lines.iter().filter_map(|line| line.split(" on ").nth(1));
    nodes.collect::<Vec<_>>().join(",")
}

#[test]
fn spawned_processes_use_free_slots_or_named_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hosts");
    std::fs::write(&file, "here slots=2\n").unwrap();
    let hostfile = format!("{}={}", keys::HOSTFILE, file.display());
    let by_node = format!("{}=node {}=there:3,here:3", keys::MAPBY, keys::HOST);
    for (asked, num, expected) in [
        ("", "2", "there,here"),
        (&format!("{}=here", keys::HOST), "1", "here"),
        (&format!("{}=there:2", keys::HOST), "2", "there,there"),
        (&hostfile, "2", "here,here"),
        (&by_node, "3", "there,here,there"),
    ] {
        let played = played(asked, num, ("0;1", 2));
        assert_eq!(nodes(&played), expected, "{asked}: {}", played.errors);
        assert_eq!(played.outcome.num_spawned, 1);
    }
}

#[test]
fn nodes_are_added_to_a_session_and_get_an_agent() {
    let asked = format!("{}=new:2", keys::ADD_HOST);
    let added = played(&asked, "4", ("0;1", 2));
    assert_eq!(nodes(&added), "there,here,new,new", "{}", added.errors);
    // No agent runs before.
    let alone = played("", "3", (";0", 1));
    assert_eq!(nodes(&alone), "there,there,here", "{}", alone.errors);
}

#[test]
fn spawns_beyond_the_nodes_of_the_session_are_refused() {
    let of_host = format!("{}=other", keys::HOST);
    for (asked, num) in [("", "3"), (&of_host, "1")] {
        let played = played(asked, num, ("0;1", 2));
        let refused = "refused: PMIX_ERR_JOB_FAILED_TO_MAP";
        assert!(played.output.contains(refused), "{}", played.output);
    }
}

#[test]
fn a_node_that_cannot_be_added_fails_its_job_alone() {
    let asked = format!("{0}=new {1}=new", keys::ADD_HOST, keys::HOST);
    let vars = [("ASKED", Path::new(&asked)), ("NUM", Path::new("1"))];
    let prelude = "test \"$node\" = new && { echo no route >&2; exit 1; }";
    let played = play_there("spread", ("0;1", 2), prelude, &vars, |_| {});
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let refused = "refused: PMIX_ERR_JOB_FAILED_TO_LAUNCH";
    assert!(
        played.output.contains(refused),
        "{} {}",
        played.output,
        played.errors
    );
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls for which the process has no memory.

use std::path::Path;
use std::process::Command;

use pmix_server::{HostObject, Server};
use pmix_types::{Info, Proc, Rank, keys};

use crate::build::{Linked, is_under_tool, must};
use crate::programs::{program, serve_first_with, user_of};

/// The processes of the job, each on a node of its own, as in `shortage_job.c`.
const NODES: u32 = 20_000;

/// Returns a server of a job of many nodes, whose rank 0 runs on this node.
fn serve_many(folder: &Path) -> Server {
    let server = Server::builder()
        .hostname("localhost")
        .build()
        .expect("a server");
    server.start().expect("the server starts");
    let node = |rank: u32| match rank {
        0 => "localhost".to_owned(),
        _ => format!("n{:x}rack{}", rank.wrapping_mul(2_654_435_761), rank % 7),
    };
    let nodes: Vec<_> = (0..NODES).map(node).collect();
    let ranks: Vec<_> = (0..NODES).map(|rank| rank.to_string()).collect();
    let infos = [
        Info::new(keys::NODE_MAP, nodes.join(",")),
        Info::new(keys::PROC_MAP, ranks.join(";")),
    ];
    server
        .register_nspace(&"job@1".into(), 1, &infos)
        .expect("a job");
    let proc = Proc::new("job@1", Rank::new(0));
    server
        .register_client(&proc, user_of(folder), HostObject(0))
        .expect("a client");
    server
}

#[test]
fn a_call_that_there_is_no_memory_for_is_refused() {
    // A tool takes memory of its own, and ends a process that asks for too much.
    if is_under_tool() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program("shortage.c", folder.path(), Linked::Shared);
    let large = Info::new("app.large", "x".repeat(4 << 20));
    let (server, environment) = serve_first_with(1, folder.path(), vec![large]);
    let mut command = Command::new(program);
    command
        .envs(environment)
        .env("LD_LIBRARY_PATH", folder.path());
    assert_eq!(must(&mut command), "shortage: ok\n");
    server.finalize().expect("the server ends");
}

#[test]
fn a_job_that_there_is_no_memory_for_is_refused() {
    // As above.
    if is_under_tool() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = program("shortage_job.c", folder.path(), Linked::Shared);
    let server = serve_many(folder.path());
    let environment = server
        .setup_fork(&Proc::new("job@1", Rank::new(0)))
        .expect("an environment");
    let mut command = Command::new(program);
    command
        .envs(environment)
        .env("LD_LIBRARY_PATH", folder.path());
    assert_eq!(must(&mut command), "shortage_job: ok\n");
    server.finalize().expect("the server ends");
}

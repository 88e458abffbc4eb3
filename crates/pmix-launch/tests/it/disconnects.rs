// SPDX-License-Identifier: MIT OR Apache-2.0
//! The failure of a job that was connected with the job that spawned it.
#![allow(
    clippy::disallowed_methods,
    reason = "the environment selects what the processes do"
)]

use std::path::Path;
use std::time::Duration;

use pmix_client::Client;
use pmix_types::{Info, Nspace, Proc, Rank, Status, Value, keys};

use crate::directed::{started, tell_until_end};
use crate::stage::{Played, play_with};

/// Spawns a job of this program, connects with it, calls as `CALL` says, and continues after its failure.
pub(crate) fn parent(mut client: Client) {
    let codes = [Status::EVENT_JOB_END];
    client.register_events(codes, &[]).wait().unwrap();
    let program = std::env::current_exe().unwrap().display().to_string();
    let argv = [
        &program,
        "--exact",
        "actors::actor",
        "--ignored",
        "--nocapture",
    ];
    let call_of_child = format!("CALL={}", std::env::var("CALL").unwrap());
    let env = ["ACT=connected_child", call_of_child.leak()];
    let (_, child) = started(&mut client, &argv, 1, &env, Vec::new());
    call(&client, client.proc().clone(), child.unwrap());
    tell_until_end(&mut client);
    println!("the parent continues");
    client.finalize().unwrap();
}

/// Connects with the parent, calls as it does, and fails.
pub(crate) fn child(client: &Client) {
    let parent = client.get_of_job(keys::PARENT_ID).wait().unwrap();
    let Value::Proc(parent) = parent else {
        panic!("no parent: {parent:?}");
    };
    call(client, parent, client.proc().nspace.clone());
    std::process::exit(9);
}

/// Connects a parent with its child, and makes the call that `CALL` names.
fn call(client: &Client, parent: Proc<'static>, child: Nspace<'static>) {
    let both = vec![parent, Proc::new(child, Rank::new(0))];
    client.connect(both.clone(), Vec::new()).wait().unwrap();
    match std::env::var("CALL").unwrap().as_str() {
        "fence" => client.fence(both, []).wait(),
        "fence with data" => {
            let collects = Info::new(keys::COLLECT_DATA, true);
            client.fence(both, [collects]).wait()
        }
        "disconnect" => client.disconnect(both, []).wait(),
        _ => return,
    }
    .unwrap();
}

/// Returns the outcome of a parent whose child fails after a call of both.
fn after(call: &str) -> Played {
    let played = play_with("connected_parent", 1, &[("CALL", Path::new(call))]);
    assert_eq!(played.outcome.exit_code(), 9, "{call}: {}", played.errors);
    assert!(played.outcome.elapsed < Duration::from_secs(40), "{call}");
    played
}

// MPI_Comm_disconnect of Open MPI 4.1 and 5.0 calls a fence of all processes of both jobs, without data, and no
// PMIx_Disconnect.
#[test]
fn a_fence_of_the_connected_processes_disconnects_their_jobs() {
    for call in ["fence", "disconnect"] {
        let played = after(call);
        let ending = played.outcome.ranks[0].ending;
        assert!(ending.is_success(), "{call}: {ending:?}");
        let output = &played.output;
        assert!(output.contains("the parent continues"), "{call}: {output}");
    }
}

#[test]
fn a_connected_job_ends_the_job_that_spawned_it_when_it_fails() {
    for call in ["nothing", "fence with data"] {
        let played = after(call);
        let ending = played.outcome.ranks[0].ending;
        assert!(!ending.is_success(), "{call}: {ending:?}");
    }
}

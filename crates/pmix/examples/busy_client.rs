// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that gives its host work: direct modex, publish and lookup, cleanup.
//!
//!     cargo build -p pmix --examples
//!     target/debug/examples/three_nodes 2 target/debug/examples/busy_client /tmp
//!
//! Each process makes a file in the folder that is named and leaves its removal to the host.

use std::error::Error;

use pmix::client::{Answers, Client};
use pmix::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::init(Settings::from_env()?)?;
    let own = client.proc().clone();
    let size = client.get(&client.job(), keys::JOB_SIZE, &[]).wait()?;
    let Value::Uint32(size) = size else {
        return Err("the size of the job is no uint32".into());
    };
    let next = Proc::new(
        own.nspace.clone(),
        Rank::new((own.rank.as_raw() + 1) % size),
    );

    // Nothing is collected, so that the server asks its host for data of another node.
    client.put(Scope::GLOBAL, "busy.card", format!("ib{}", own.rank))?;
    client.commit()?;
    client.fence(Vec::new(), Vec::new()).wait()?;
    let card = client.get(&next, "busy.card", &[]).wait()?;

    let key = |rank: Rank| format!("busy.port.{rank}");
    let port = Info::new(key(own.rank), 1000 + own.rank.as_raw());
    client.publish(vec![port]).wait()?;
    let wait = Info::new(keys::WAIT, 0_i32);
    let (_, found) = client.lookup([key(next.rank)], [wait]).wait()?;
    let port = found.first().map(|found| &found.value);
    println!(
        "rank {}: rank {} has {card:?} and {port:?}",
        own.rank, next.rank
    );

    if let Some(folder) = std::env::args().nth(1) {
        let file = format!("{folder}/busy.{}", own.rank);
        std::fs::write(&file, "")?;
        let infos = vec![Info::new(keys::REGISTER_CLEANUP, file)];
        let _: Answers = client.job_control(Vec::new(), infos).wait()?;
    }
    Ok(client.finalize()?)
}

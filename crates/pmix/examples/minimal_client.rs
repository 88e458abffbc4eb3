// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process of a job: it puts its process id and reads that of the next rank.
//!
//!     cargo build -p pmix --examples
//!     target/debug/examples/minimal_host 3 target/debug/examples/minimal_client
//!
//! `pmix run -n 3 target/debug/examples/minimal_client` and any other host that speaks PMIx do as well.

use pmix::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?;
    let own = client.proc().clone();
    let Value::Uint32(size) = client.get_of_job(keys::JOB_SIZE).wait()? else {
        return Err("the size of the job is no uint32".into());
    };
    client.put(Scope::GLOBAL, "example.pid", std::process::id())?;
    client.commit()?;
    client
        .fence([], [Info::new(keys::COLLECT_DATA, true)])
        .wait()?;
    let next = Rank::new((own.rank.as_raw() + 1) % size);
    let pid = client
        .get(&Proc::new(own.nspace, next), "example.pid", &[])
        .wait()?;
    println!(
        "rank {} of {size}: rank {next} is process {pid:?}",
        own.rank
    );
    Ok(client.finalize()?)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that waits for the server in an async runtime, tokio: the client starts no thread, and a
//! task of the program drives it.
//!
//!     cargo build -p pmix --examples
//!     target/debug/examples/minimal_host 3 target/debug/examples/tokio_client

use std::error::Error;
use std::os::fd::AsFd;
use std::time::Instant;

use pmix::client::{Ask, Error as PmixError, SharedClient};
use pmix::prelude::*;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// Drives a client for as long as the program runs.
async fn drive(client: SharedClient) -> std::io::Result<()> {
    let fd = client.as_fd().try_clone_to_owned()?;
    // What replaces it is unsafe, for descriptors that are closed while they are registered; this one is
    // owned by what registers it.
    #[allow(deprecated)]
    let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
    loop {
        let wake = client.drive(Instant::now());
        let timer = async {
            match wake {
                Some(wake) => tokio::time::sleep_until(wake.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ready = fd.readable() => ready?.clear_ready(),
            () = timer => {}
        }
    }
}

/// Asks, and waits for the answer.
async fn ask<T: Send + 'static>(
    client: &SharedClient,
    ask: Ask<'_, T>,
) -> Result<T, Box<dyn Error>> {
    let (answer, answered) = oneshot::channel::<Result<T, PmixError>>();
    client.start(ask, move |answered| drop(answer.send(answered)))?;
    Ok(answered.await??)
}

async fn run() -> Result<(), Box<dyn Error>> {
    let client = SharedClient::init_driven(Settings::from_env()?, |event| eprintln!("{event:?}"))?;
    tokio::task::spawn_local(drive(client.clone()));
    let own = client.proc().clone();
    let size = client.get(&client.job(), &keys::JOB_SIZE.into(), &[])?;
    let Value::Uint32(size) = size else {
        return Err("the size of the job is no uint32".into());
    };
    let next = Proc::new(own.nspace, Rank::new((own.rank.as_raw() + 1) % size));
    let pid = Info::new("example.pid", std::process::id());
    client.put(Scope::GLOBAL, pid)?;
    client.commit()?;
    let collect = vec![Info::new(keys::COLLECT_DATA, true)];
    // Other tasks of the program go on meanwhile.
    ask(&client, Ask::fence(Vec::new(), collect)).await?;
    let pid = client.get(&next, &"example.pid".into(), &[])?;
    let (own, next) = (own.rank, next.rank);
    println!("rank {own} of {size}: rank {next} is process {pid:?}");
    Ok(client.finalize()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, run())
}

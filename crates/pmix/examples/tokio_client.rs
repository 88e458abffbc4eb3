// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process that waits for the server in an async runtime, tokio: the client starts no thread, and a
//! task of the program drives it.
//!
//!     cargo build -p pmix --examples
//!     target/debug/examples/minimal_host 3 target/debug/examples/tokio_client

use std::error::Error;
use std::os::fd::AsFd;
use std::time::Instant;

use pmix::client::driver::Driver;
use pmix::client::{Call, Error as PmixError};
use pmix::prelude::*;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// Drives a client for as long as the program runs.
async fn drive(driver: Driver) -> std::io::Result<()> {
    let fd = driver.as_fd().try_clone_to_owned()?;
    // The replacement of this function is unsafe, because a descriptor may be closed while it is registered. This one
    // is owned by its registration.
    #[allow(deprecated)]
    let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
    loop {
        let wake = driver.drive(Instant::now());
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

/// Makes a call and waits for its result.
async fn made<T: Send + 'static>(call: Call<'_, T>) -> Result<T, Box<dyn Error>> {
    let (sender, receiver) = oneshot::channel::<Result<T, PmixError>>();
    call.start(move |result| drop(sender.send(result)))?;
    Ok(receiver.await??)
}

async fn run() -> Result<(), Box<dyn Error>> {
    let driver = Driver::init(Settings::from_env()?)?;
    let client = driver.client();
    client.set_listener(|event| eprintln!("{event:?}"));
    tokio::task::spawn_local(drive(driver.clone()));
    let own = client.proc().clone();
    let size = client.get(&client.job(), keys::JOB_SIZE, &[]).wait()?;
    let Value::Uint32(size) = size else {
        return Err("the size of the job is no uint32".into());
    };
    let next = Proc::new(own.nspace, Rank::new((own.rank.as_raw() + 1) % size));
    client.put(Scope::GLOBAL, "example.pid", std::process::id())?;
    client.commit()?;
    let collect = Info::new(keys::COLLECT_DATA, true);
    // Other tasks of the program run meanwhile.
    made(client.fence([], [collect])).await?;
    let pid = made(client.get(&next, "example.pid", &[])).await?;
    let (own, next) = (own.rank, next.rank);
    println!("rank {own} of {size}: rank {next} is process {pid:?}");
    Ok(client.finalize()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, run())
}

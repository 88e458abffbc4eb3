// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process whose own loop waits for the server, by poll(2): the client starts no thread.
//!
//!     cargo build -p pmix --examples
//!     target/debug/examples/minimal_host 3 target/debug/examples/loop_client
//!
//! `tokio_client.rs` does the same under an async runtime.

use std::error::Error;
use std::sync::mpsc;
use std::time::Instant;

use pmix::client::driver::Driver;
use pmix::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The next step of the program.
enum Step {
    Fenced,
    Read(Value<'static>),
}

fn main() -> Result<(), Box<dyn Error>> {
    let driver = Driver::init(Settings::from_env()?)?;
    let client = driver.client();
    client.set_listener(|event| eprintln!("{event:?}"));
    let own = client.proc().clone();
    let size = client.get(&client.job(), keys::JOB_SIZE, &[]).wait()?;
    let Value::Uint32(size) = size else {
        return Err("the size of the job is no uint32".into());
    };
    let next = Proc::new(own.nspace, Rank::new((own.rank.as_raw() + 1) % size));
    client.put(Scope::GLOBAL, "example.pid", std::process::id())?;
    client.commit()?;

    // Each callback reports the end of its step; the loop below begins the next one.
    let (done, steps) = mpsc::channel();
    let collect = Info::new(keys::COLLECT_DATA, true);
    let fenced = done.clone();
    client.fence([], [collect]).start(move |ended| {
        let _ = fenced.send(ended.map(|()| Step::Fenced));
    })?;
    loop {
        let wake = driver.drive(Instant::now());
        match steps.try_recv().ok().transpose()? {
            None => {
                let left = wake.map(|wake| wake.saturating_duration_since(Instant::now()));
                let left = left.map(Timespec::try_from).transpose()?;
                // The descriptors of the program itself go into the same poll.
                poll(&mut [PollFd::new(&driver, PollFlags::IN)], left.as_ref())?;
            }
            Some(Step::Fenced) => {
                let read = done.clone();
                client.get(&next, "example.pid", &[]).start(move |value| {
                    let _ = read.send(value.map(Step::Read));
                })?;
            }
            Some(Step::Read(pid)) => {
                let (own, next) = (own.rank, next.rank);
                println!("rank {own} of {size}: rank {next} is process {pid:?}");
                return Ok(client.finalize()?);
            }
        }
    }
}

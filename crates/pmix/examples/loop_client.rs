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

use pmix::client::{Ask, Found, SharedClient};
use pmix::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The next step of the program.
enum Step {
    Fenced,
    Read(Value<'static>),
}

fn main() -> Result<(), Box<dyn Error>> {
    let client = SharedClient::init_driven(Settings::from_env()?, |event| eprintln!("{event:?}"))?;
    let own = client.proc().clone();
    let size = client.get(&client.job(), &keys::JOB_SIZE.into(), &[])?;
    let Value::Uint32(size) = size else {
        return Err("the size of the job is no uint32".into());
    };
    let next = Proc::new(own.nspace, Rank::new((own.rank.as_raw() + 1) % size));
    let pid = Info::new("example.pid", std::process::id());
    client.put(Scope::GLOBAL, pid)?;
    client.commit()?;

    // Each callback says what is done; the loop below decides what is next.
    let (done, steps) = mpsc::channel();
    let collect = vec![Info::new(keys::COLLECT_DATA, true)];
    let fenced = done.clone();
    client.start(Ask::fence(Vec::new(), collect), move |ended| {
        let _ = fenced.send(ended.map(|()| Step::Fenced));
    })?;
    loop {
        let wake = client.drive(Instant::now());
        match steps.try_recv().ok().transpose()? {
            None => {
                let left = wake.map(|wake| wake.saturating_duration_since(Instant::now()));
                let left = left.map(Timespec::try_from).transpose()?;
                // Other descriptors of the program stand beside this one.
                poll(&mut [PollFd::new(&client, PollFlags::IN)], left.as_ref())?;
            }
            Some(Step::Fenced) => match client.find(&next, &"example.pid".into(), &[]) {
                Found::Known(known) => done.send(known.map(Step::Read))?,
                Found::AskServer(ask) => {
                    let read = done.clone();
                    client.start(*ask, move |value| {
                        let _ = read.send(value.map(Step::Read));
                    })?;
                }
            },
            Some(Step::Read(pid)) => {
                let (own, next) = (own.rank, next.rank);
                println!("rank {own} of {size}: rank {next} is process {pid:?}");
                return Ok(client.finalize()?);
            }
        }
    }
}

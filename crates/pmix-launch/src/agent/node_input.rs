// SPDX-License-Identifier: MIT OR Apache-2.0
//! The standard input of the launcher for a process of another node.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::process::getpgrp;

/// The standard input of the launcher on its way to a process of another node.
pub(super) struct NodeInput {
    /// The number of the node.
    pub(super) place: usize,
    /// The bytes that a thread has read; none for the end.
    pub(super) bytes: Receiver<Vec<u8>>,
    /// The number of bytes that were sent and not read by the process.
    pub(super) num_open: u64,
}

/// The interval at which a launcher in the background looks for the terminal.
const IN_BACKGROUND: Duration = Duration::from_millis(250);

/// The largest number of bytes of input on the way.
pub(super) const MOST_INPUT: u64 = 256 << 10;

impl NodeInput {
    /// Starts the thread that reads the input. It may wait for ever, so nothing waits for it.
    pub(super) fn start(
        place: usize,
        own: OwnedFd,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> io::Result<Self> {
        let (sender, bytes) = sync_channel(1);
        let mut own = File::from(own);
        let read = move || {
            let mut piece = vec![0; 64 << 10];
            loop {
                // A read from the terminal in the background would stop the launcher.
                while rustix::termios::tcgetpgrp(&own).is_ok_and(|group| group != getpgrp()) {
                    thread::sleep(IN_BACKGROUND);
                }
                let len = match own.read(&mut piece) {
                    Ok(len) => len,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) => {
                        tracing::debug!("cannot read standard input: {e}");
                        0
                    }
                };
                let read = piece.get(..len).unwrap_or_default().to_vec();
                if sender.send(read).is_err() || len == 0 {
                    return wake();
                }
                wake();
            }
        };
        thread::Builder::new()
            .name("pmix-input".into())
            .spawn(read)?;
        Ok(Self {
            place,
            bytes,
            num_open: 0,
        })
    }
}

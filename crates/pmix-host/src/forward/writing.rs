// SPDX-License-Identifier: MIT OR Apache-2.0
//! A write of bytes to a file by a helper thread, in pieces that show the progress of the disk.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::helpers::{Cancel, Helpers, Task, TaskState};

/// The number of bytes of one write; also a slow disk completes one of them in a short time.
const PIECE: usize = 64 << 10;

/// A write that a thread does, or that waits for a thread.
pub(super) struct Writing {
    len: usize,
    state: Arc<WriteState>,
    task: Task<io::Result<()>>,
}

/// The progress of a write.
#[derive(Default)]
struct WriteState {
    has_begun: AtomicBool,
    num_written: AtomicUsize,
}

impl Writing {
    /// Queues a write for a thread. It increments `progress` when it begins and after each piece.
    ///
    /// # Errors
    /// Returns the bytes and the reason if no thread accepts them now.
    pub(super) fn begin(
        helpers: &Helpers,
        file: &Arc<File>,
        bytes: Vec<u8>,
        progress: &Arc<AtomicU64>,
    ) -> Result<Self, (Vec<u8>, crate::Error)> {
        let len = bytes.len();
        let state = Arc::<WriteState>::default();
        // If the work is rejected, it is dropped, but the bytes are still needed.
        let bytes = Arc::new(bytes);
        let (own, file) = (Arc::clone(&bytes), Arc::clone(file));
        let (progress, begun) = (Arc::clone(progress), Arc::clone(&state));
        let begun = helpers.run(move |cancel| begun.write(&file, &own, &progress, cancel));
        match begun {
            Ok(task) => Ok(Self { len, state, task }),
            Err(error) => Err((Arc::unwrap_or_clone(bytes), error)),
        }
    }

    /// Returns the number of bytes that the write holds until it has ended.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of bytes that are not yet written.
    pub(super) fn num_left(&self) -> usize {
        let num_written = self.state.num_written.load(Ordering::Relaxed);
        self.len.saturating_sub(num_written)
    }

    /// Returns `true` once a thread has begun to write.
    pub(super) fn has_begun(&self) -> bool {
        self.state.has_begun.load(Ordering::Relaxed)
    }

    /// Returns the state of the write, with its result once it has ended.
    pub(super) fn poll(&mut self) -> TaskState<io::Result<()>> {
        self.task.poll()
    }
}

impl WriteState {
    fn write(
        &self,
        mut file: &File,
        bytes: &[u8],
        progress: &AtomicU64,
        cancel: &Cancel,
    ) -> io::Result<()> {
        self.has_begun.store(true, Ordering::Relaxed);
        progress.fetch_add(1, Ordering::Relaxed);
        for piece in bytes.chunks(PIECE) {
            // The host has abandoned the file.
            if cancel.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            file.write_all(piece)?;
            self.num_written.fetch_add(piece.len(), Ordering::Relaxed);
            progress.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input for a process of another node: the standard input of the launcher, or data that peers push.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use pmix_server::Completion;
use pmix_types::Status;
use rustix::process::getpgrp;

/// The input that is forwarded to a process on another node.
pub(super) struct NodeInput {
    /// The number of the node.
    pub(super) place: usize,
    source: Source,
    /// The number of bytes that were sent and not read by the process.
    num_open: u64,
}

enum Source {
    /// The standard input of the launcher: the bytes that a thread has read; none for the end.
    Own(Receiver<Vec<u8>>),
    /// The data that peers push (`PMIx_IOF_push`), until the end of the input.
    Pushed(VecDeque<Push>),
    /// Nothing: the input or its reader has ended.
    Ended,
}

/// Pushed data that was not sent.
struct Push {
    bytes: Vec<u8>,
    ends: bool,
    done: Completion<()>,
}

/// The interval at which a launcher in the background looks for the terminal.
const IN_BACKGROUND: Duration = Duration::from_millis(250);

/// The maximum number of bytes that were sent and not read by the process.
const MOST_INPUT: u64 = 256 << 10;

impl NodeInput {
    /// Starts the thread that reads the input. A read may block forever, so nothing waits for the thread.
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
        Ok(Self::of(place, Source::Own(bytes)))
    }

    /// Creates the input that peers push.
    pub(super) fn pushed(place: usize) -> Self {
        Self::of(place, Source::Pushed(VecDeque::new()))
    }

    fn of(place: usize, source: Source) -> Self {
        Self {
            place,
            source,
            num_open: 0,
        }
    }

    /// Accepts pushed data, and the end of the input if `ends` is `true`. The push completes when the data are sent.
    pub(super) fn push(&mut self, bytes: Vec<u8>, ends: bool, done: Completion<()>) {
        match &mut self.source {
            Source::Pushed(pushes) => pushes.push_back(Push { bytes, ends, done }),
            Source::Own(_) => done.not_supported(),
            Source::Ended => done.fail(Status::ERR_IOF_COMPLETE),
        }
    }

    /// Returns the next piece to send; an empty one is the end of the input.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        if self.num_open >= MOST_INPUT {
            return None;
        }
        let piece = match &mut self.source {
            Source::Own(bytes) => bytes.try_recv().ok()?,
            Source::Ended => return None,
            Source::Pushed(pushes) => {
                let first = pushes.front_mut()?;
                let bytes = std::mem::take(&mut first.bytes);
                let is_last = bytes.is_empty() && first.ends;
                if !first.ends || is_last {
                    // The data were sent before the end.
                    let push = pushes.pop_front()?;
                    push.done.succeed(());
                }
                if is_last {
                    self.end();
                } else if bytes.is_empty() {
                    return self.next();
                }
                bytes
            }
        };
        self.num_open += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        Some(piece)
    }

    /// Records that the process has read bytes.
    pub(super) fn taken(&mut self, num_bytes: u64) {
        self.num_open = self.num_open.saturating_sub(num_bytes);
    }

    /// Records the end of the input, or of its reader. Data that were not sent are lost.
    pub(super) fn end(&mut self) {
        if let Source::Pushed(pushes) = std::mem::replace(&mut self.source, Source::Ended) {
            for push in pushes {
                push.done.fail(Status::ERR_IOF_COMPLETE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use pmix_server::upcall::HostReply;

    use super::*;

    #[test]
    fn pushed_data_are_sent_within_the_window_and_complete_in_order() {
        let (sender, ended) = channel();
        let done = || {
            let sender = sender.clone();
            Completion::<()>::from_fn(move |reply| {
                let is_done = reply == HostReply::Done(Status::SUCCESS);
                sender.send(is_done).unwrap();
            })
        };
        let mut input = NodeInput::pushed(0);
        let most = usize::try_from(MOST_INPUT).unwrap();
        input.push(vec![1; most], false, done());
        input.push(vec![2], true, done());
        assert_eq!(input.next().map(|piece| piece.len()), Some(most));
        assert_eq!((input.next(), ended.try_iter().count()), (None, 1));
        input.taken(MOST_INPUT);
        assert_eq!(input.next(), Some(vec![2]));
        assert_eq!(ended.try_iter().count(), 0);
        assert_eq!((input.next(), input.next()), (Some(vec![]), None));
        input.push(vec![3], false, done());
        assert_eq!(ended.try_iter().collect::<Vec<_>>(), [true, false]);
    }
}

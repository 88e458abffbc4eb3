// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frames of a link: messages as pieces of a stream of bytes, without a socket.
//!
//! | part | form |
//! | --- | --- |
//! | length of the message | four bytes, the lowest first |
//! | message | its bytes |
//!
//! ```
//! use pmix_host::frames::{Frames, begin_frame};
//!
//! const MAX_BYTES: usize = 1 << 20;
//! let mut output = Vec::new();
//! let frame = begin_frame(&mut output);
//! output.extend_from_slice(b"hello");
//! frame.end(&mut output, MAX_BYTES)?;
//!
//! let mut frames = Frames::new(MAX_BYTES);
//! frames.handle_input(&output);
//! assert_eq!(frames.next_frame()?, Some(&b"hello"[..]));
//! assert_eq!(frames.next_frame()?, None);
//! # Ok::<(), pmix_host::Error>(())
//! ```
//!
//! Source: this project.

use pmix_types::Status;

use crate::Error;

/// The number of bytes of the length of a message.
const LEN_BYTES: usize = 4;

/// The bytes of a stream that were received but not yet used.
#[derive(Clone, Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    /// The number of bytes of `bytes` that were used.
    used: usize,
    max_bytes: usize,
}

impl Frames {
    /// Creates the frames of a stream whose messages have at most this number of bytes.
    #[must_use]
    pub const fn new(max_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            used: 0,
            max_bytes,
        }
    }

    /// Adds received bytes. The caller takes all complete messages before it adds more, so that at most one message waits
    /// for its rest.
    pub fn handle_input(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the bytes that were not used, for text that precedes the first frame.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        self.bytes.get(self.used..).unwrap_or_default()
    }

    /// Skips bytes of [`unread`](Self::unread).
    pub fn skip(&mut self, num_bytes: usize) {
        self.used = self.used.saturating_add(num_bytes).min(self.bytes.len());
    }

    /// Returns the next message, or `None` if it has not arrived as a whole.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a message beyond the limit. The stream is not usable any more.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, Error> {
        let Some((len, rest)) = self.unread().split_first_chunk::<LEN_BYTES>() else {
            return Ok(None);
        };
        let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
        if len > self.max_bytes {
            let most = self.max_bytes;
            let message = format!("a message of {len} bytes was announced, at most {most}");
            return Err(Error::bad(message));
        }
        if rest.len() < len {
            return Ok(None);
        }
        let start = self.used + LEN_BYTES;
        self.used = start + len;
        Ok(self.bytes.get(start..self.used))
    }
}

/// A frame whose message is being written.
#[derive(Debug)]
#[must_use = "the frame has no length until it ends"]
pub struct FrameStart {
    start: usize,
}

/// Begins a frame at the end of `output`. The caller appends the message, then calls [`FrameStart::end`].
pub fn begin_frame(output: &mut Vec<u8>) -> FrameStart {
    let start = output.len();
    output.extend_from_slice(&[0; LEN_BYTES]);
    FrameStart { start }
}

impl FrameStart {
    /// Ends the frame.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` for a message beyond the limit of bytes, and removes the frame.
    pub fn end(self, output: &mut Vec<u8>, max_bytes: usize) -> Result<(), Error> {
        let message = self.start + LEN_BYTES;
        let len = output.len().saturating_sub(message);
        match u32::try_from(len) {
            Ok(number) if len <= max_bytes => {
                if let Some(place) = output.get_mut(self.start..message) {
                    place.copy_from_slice(&number.to_le_bytes());
                }
                Ok(())
            }
            _ => {
                output.truncate(self.start);
                let message = format!("a message of {len} bytes exceeds {max_bytes} bytes");
                Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(message: &[u8]) -> Vec<u8> {
        let mut output = b"before".to_vec();
        let start = begin_frame(&mut output);
        output.extend_from_slice(message);
        start.end(&mut output, 1000).unwrap();
        output.split_off(6)
    }

    #[test]
    fn messages_survive_any_division_of_their_bytes() {
        let messages = [&b"one"[..], b"", &[0xff; 1000]];
        let bytes = messages.map(frame).concat();
        for step in [1, 2, 3, 5, 7, bytes.len()] {
            let (mut frames, mut taken) = (Frames::new(1000), Vec::new());
            for piece in bytes.chunks(step) {
                frames.handle_input(piece);
                while let Some(message) = frames.next_frame().unwrap() {
                    taken.push(message.to_vec());
                }
            }
            assert_eq!(taken, messages, "in steps of {step}");
            assert!(frames.unread().is_empty());
        }
    }

    #[test]
    fn a_message_beyond_the_limit_is_refused_at_both_ends() {
        let mut output = b"before".to_vec();
        let start = begin_frame(&mut output);
        output.extend_from_slice(&[0; 1001]);
        let error = start.end(&mut output, 1000).unwrap_err();
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
        assert_eq!(output, b"before");

        let mut frames = Frames::new(1000);
        frames.handle_input(&1001_u32.to_le_bytes());
        let error = frames.next_frame().unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    }

    #[test]
    fn text_before_the_first_frame_can_be_skipped() {
        let mut frames = Frames::new(1000);
        frames.handle_input(b"welcome\n");
        frames.handle_input(&frame(b"one"));
        assert!(frames.unread().starts_with(b"welcome\n"));
        frames.skip(8);
        assert_eq!(frames.next_frame().unwrap(), Some(&b"one"[..]));
        frames.skip(usize::MAX);
        assert_eq!(frames.next_frame().unwrap(), None);
    }
}

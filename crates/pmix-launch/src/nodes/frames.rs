// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frames of a link, without a descriptor: the greeting, then messages with their length.
//!
//! | part | form |
//! | --- | --- |
//! | greeting of the agent | the line `PMIX-NODE`, the number of the form, the release of the agent |
//! | frame | [`pmix_host::frames`] with a message |
//!
//! The program that starts the agent may print text before the greeting, for example from the start files of a login
//! shell. The text is kept for messages to the user.

use pmix_host::frames::{Frames as HostFrames, begin_frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// The number of the form of greeting and messages.
const FORM: u32 = 1;

/// The release of this crate, which both ends have in common.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The first word of a greeting.
const MAGIC: &str = "PMIX-NODE";

/// The largest number of characters of another release in a message.
const MOST_RELEASE: usize = 64;

/// The largest number of bytes before a greeting.
const MOST_NOISE: usize = 64 << 10;

/// The largest length of a message. The largest are data of many processes, of which the server accepts fewer.
pub(super) const MOST_BYTES: usize = 1 << 30;

/// The bytes that were received from the other end of a link.
#[derive(Debug)]
pub(crate) struct Frames(HostFrames);

/// Returns the greeting of an agent.
pub(crate) fn greeting() -> String {
    // The line ends before it as well: a start file may have printed an incomplete line.
    format!("\n{MAGIC} {FORM} {RELEASE}\n")
}

/// Returns the number of the form and the release in a greeting, if the line is one.
fn parse_greeting(line: &[u8]) -> Option<(u32, String)> {
    let line = std::str::from_utf8(line).ok()?;
    let (form, release) = line
        .strip_prefix(MAGIC)?
        .strip_prefix(' ')?
        .split_once(' ')?;
    let release: String = release.trim_end().chars().take(MOST_RELEASE).collect();
    Some((form.parse().ok()?, release))
}

/// Appends the frame of a message.
///
/// # Errors
/// Returns [`Error`] if the message exceeds the limit.
pub(crate) fn push(message: &impl Serialize, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = begin_frame(out);
    let taken = std::mem::take(out);
    let cannot = |error: postcard::Error| Error::request(format!("cannot pack a message: {error}"));
    *out = postcard::to_extend(message, taken).map_err(cannot)?;
    let ended = start.end(out, MOST_BYTES);
    ended.map_err(|error| Error::no_room(error.to_string()))
}

impl Default for Frames {
    fn default() -> Self {
        Self(HostFrames::new(MOST_BYTES))
    }
}

impl Frames {
    /// Adds received bytes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.0.handle_input(bytes);
    }

    /// Takes the greeting, if it has arrived.
    ///
    /// # Errors
    /// Returns [`Error`] if the other end has another release, or if too much precedes the greeting.
    pub(crate) fn take_greeting(&mut self) -> Result<bool, Error> {
        let rest = self.0.unread();
        let mut start = 0;
        while let Some(line) = rest.get(start..).filter(|line| !line.is_empty()) {
            let Some(len) = memchr::memchr(b'\n', line) else {
                break;
            };
            let next = start + len + 1;
            if let Some((form, release)) = line.get(..len).and_then(parse_greeting) {
                self.0.skip(next);
                return match (form, &*release) {
                    (FORM, RELEASE) => Ok(true),
                    _ => Err(Error::request(format!(
                        "its pmix has release {release}, and this one {RELEASE}: install the same release, or name the \
                         path of the right one with --node-command"
                    ))),
                };
            }
            start = next;
        }
        match rest.len() > MOST_NOISE {
            true => Err(Error::request(format!(
                "it printed more than {MOST_NOISE} bytes instead of the greeting of `pmix node`"
            ))),
            false => Ok(false),
        }
    }

    /// Returns the text that has arrived instead of a greeting.
    pub(crate) fn noise(&self) -> String {
        String::from_utf8_lossy(self.0.unread()).into_owned()
    }

    /// Takes the next message, if it has arrived as a whole.
    ///
    /// # Errors
    /// Returns [`Error`] if a frame is too long, or if its message is damaged.
    pub(crate) fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        let frame = self.0.next_frame();
        let frame = frame.map_err(|error| Error::request(error.to_string()))?;
        let Some(message) = frame else {
            return Ok(None);
        };
        let damaged =
            |error: postcard::Error| Error::request(format!("a damaged message: {error}"));
        let (message, left) = postcard::take_from_bytes(message).map_err(damaged)?;
        match left.is_empty() {
            true => Ok(Some(message)),
            false => {
                let message = format!("a damaged message: {} bytes follow its end", left.len());
                Err(Error::request(message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_division_of_their_bytes() {
        let messages = [vec![1_u32, 2, 3], vec![], vec![u32::MAX; 100]];
        let mut bytes = Vec::new();
        for message in &messages {
            push(message, &mut bytes).unwrap();
        }
        for step in [1, 2, 3, 5, 7, bytes.len()] {
            let (mut frames, mut taken) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(step) {
                frames.extend(piece);
                while let Some(message) = frames.take::<Vec<u32>>().unwrap() {
                    taken.push(message);
                }
            }
            assert_eq!(taken, messages, "in steps of {step}");
        }
    }

    #[test]
    fn damaged_frames_are_errors() {
        let mut bytes = Vec::new();
        push(&vec![1_u32, 2, 3], &mut bytes).unwrap();
        let why = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.extend(bytes);
            frames.take::<Vec<u32>>().map(|taken| taken.is_some())
        };
        assert!(!why(&bytes[..bytes.len() - 1]).unwrap());
        assert!(
            why(&[0xff; 16])
                .unwrap_err()
                .to_string()
                .contains("announced")
        );
        // An announced length of the list that exceeds the message.
        let mut longer = bytes.clone();
        longer[4] = 0x7f;
        assert!(why(&longer).unwrap_err().to_string().contains("damaged"));
        let mut shorter = bytes;
        shorter[4] = 1;
        assert!(why(&shorter).unwrap_err().to_string().contains("follow"));
    }

    #[test]
    fn a_greeting_is_found_after_the_output_of_a_shell() {
        for noise in [
            "",
            "Welcome to n1\n",
            "no line end",
            "PMIX-NODE is not a greeting",
        ] {
            let mut frames = Frames::default();
            frames.extend(noise.as_bytes());
            for byte in greeting().bytes() {
                assert!(!frames.take_greeting().unwrap(), "after {noise:?}");
                frames.extend(&[byte]);
            }
            assert!(frames.take_greeting().unwrap());
            assert_eq!(frames.noise(), "");
        }
    }

    #[test]
    fn other_releases_and_endless_noise_are_errors() {
        let why = |text: &str| {
            let mut frames = Frames::default();
            frames.extend(text.as_bytes());
            frames.take_greeting().unwrap_err().to_string()
        };
        let other = why("PMIX-NODE 2 99.0.0\n");
        assert!(
            other.contains("release 99.0.0") && other.contains(RELEASE),
            "{other}"
        );
        assert!(why(&"x".repeat(MOST_NOISE + 1)).contains("instead of the greeting"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The messages of a stream or of a text capture: a line that names the side, then the bytes.
//!
//! ```text
//! # a comment
//! == CLIENT -> SERVER  hdr 00 00 00 00 00 00 00 65 00 00 00 02 00 00 00 00
//!     RAW 00000000000000650000000200000000 0200
//!         0 02     | count of command = 1
//! ```
//!
//! The bytes are those of the line `RAW`: the header, then the payload. Without this line, they are
//! those of the dump, up to the first omission.

use pmix_proto::Header;

/// Parses a capture, or returns `None` if the text is not one.
pub(super) fn read(text: &[u8]) -> Option<Vec<Frame>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut frames = Vec::new();
    let mut message: Option<Message> = None;
    for line in text.lines().map(str::trim) {
        if let Some(title) = line.strip_prefix("==") {
            frames.extend(message.take().and_then(Message::frame));
            let client = title.find("CLIENT")?;
            let from = match client < title.find("SERVER")? {
                true => Side::Client,
                false => Side::Server,
            };
            message = Some(Message::new(from));
        }
        if let Some(message) = &mut message {
            message.line(line);
        }
    }
    let read_any = message.is_some();
    frames.extend(message.and_then(Message::frame));
    read_any.then_some(frames)
}

/// The data of a message from the lines read so far.
struct Message {
    from: Side,
    header: Vec<u8>,
    payload: Vec<u8>,
    is_whole: bool,
    is_cut: bool,
}

impl Message {
    const fn new(from: Side) -> Self {
        Self {
            from,
            header: Vec::new(),
            payload: Vec::new(),
            is_whole: false,
            is_cut: false,
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(raw) = line.strip_prefix("RAW ") {
            let mut words = raw.split_whitespace();
            self.header = digits(words.next().unwrap_or_default());
            self.payload = words.flat_map(digits).collect();
            self.is_whole = true;
        } else if let Some((_, header)) = line.split_once("hdr") {
            // The header is the last 16 pairs of digits.
            let pairs: Vec<_> = header.split_whitespace().filter(|w| is_pair(w)).collect();
            if let (true, Some(last)) = (
                self.header.is_empty(),
                pairs.last_chunk::<{ Header::LEN }>(),
            ) {
                self.header = last.iter().flat_map(|pair| digits(pair)).collect();
            }
        } else if !self.is_whole && !self.is_cut {
            self.dump(line);
        }
    }

    /// Reads a line of the dump: the offset in the payload, bytes, and their meaning after `|`.
    fn dump(&mut self, line: &str) {
        let Some((bytes, _)) = line.split_once('|') else {
            return;
        };
        let mut words = bytes.split_whitespace();
        let offset = words.next().and_then(|word| word.parse::<usize>().ok());
        if offset != Some(self.payload.len()) {
            return;
        }
        for word in words {
            match is_pair(word) {
                true => self.payload.extend(digits(word)),
                false => self.is_cut = true,
            }
            if self.is_cut {
                return;
            }
        }
    }

    /// Returns the message if it has a header. The first reply of a server has none.
    fn frame(self) -> Option<Frame> {
        Some(Frame {
            from: self.from,
            header: Header::decode(self.header.first_chunk()?),
            start: 0,
            payload: self.payload,
        })
    }
}

fn is_pair(word: &str) -> bool {
    word.len() == 2 && word.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns the bytes of leading pairs of digits.
fn digits(text: &str) -> Vec<u8> {
    crate::octets::unhex(text.as_bytes()).unwrap_or_default()
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    /// A client or tool.
    Client,
    /// The server.
    Server,
}

/// A message as sent, possibly truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) from: Side,
    pub(super) header: Header,
    /// The offset of the payload in the input; 0 in a text capture.
    pub(super) start: usize,
    pub(super) payload: Vec<u8>,
}

/// Splits a stream into messages. Also returns the trailing bytes that are not a message.
pub(super) fn cut(stream: &[u8], from: Side) -> (Vec<Frame>, &[u8]) {
    let mut frames = Vec::new();
    let mut rest = stream;
    while let Some((header, body)) = rest.split_first_chunk() {
        let header = Header::decode(header);
        let len = usize::try_from(header.len).unwrap_or(usize::MAX);
        let (payload, next) = body.split_at(len.min(body.len()));
        frames.push(Frame {
            from,
            header,
            start: stream.len() - body.len(),
            payload: payload.to_vec(),
        });
        rest = next;
    }
    (frames, rest)
}

#[cfg(test)]
mod tests {
    use pmix_proto::Tag;

    use super::*;

    #[test]
    fn bytes_come_from_the_raw_line_or_from_the_dump() {
        let text = "# about\n\
        == CLIENT -> SERVER  connect message\n\
        hdr (host order): pindex=-1 nbytes=2 ff ff ff ff ff ff ff ff 02 00 00 00 00 00 00 00\n\
        \x20  0 6e 00   | psec\n\
        == SERVER -> CLIENT  connect reply\n\
        \x20 00 00 00 00 | status\n\
        == SERVER -> CLIENT  hdr 00 00 00 00 00 00 00 65 00 00 00 02 00 00 00 00  (tag=101)\n\
        RAW 00000000000000650000000200000000 0200\n\
        \x20  0 02 00   | status\n\
        == CLIENT -> SERVER  hdr 00 00 00 00 00 00 00 66 00 00 00 05 00 00 00 00\n\
        \x20  0 02   | count\n\
        \x20  1 03 04 ... (+2 bytes)  | shortened\n\
        \x20  5 07   | behind it\n";
        let frames = read(text.as_bytes()).unwrap();
        let seen: Vec<_> = frames
            .iter()
            .map(|f| (f.from, f.header.tag.0, &f.payload[..]))
            .collect();
        let expected = [
            (Side::Client, u32::MAX, &[0x6e, 0][..]),
            (Side::Server, 101, &[2, 0]),
            (Side::Client, 102, &[2, 3, 4]),
        ];
        assert_eq!(seen, expected);
        assert_eq!(read(b"0208616263"), None);
    }

    #[test]
    fn a_stream_is_cut_by_its_lengths_alone() {
        let first = [0xff; 8].into_iter().chain([2, 0, 0, 0, 0, 0, 0, 0, 7, 8]);
        let second = [0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0, 3, 9, 9, 9, 9, 5, 6];
        let stream: Vec<u8> = first.chain(second).collect();
        let (frames, rest) = cut(&stream, Side::Client);
        assert_eq!(frames.len(), 2);
        assert_eq!((frames[0].start, &frames[0].payload[..]), (16, &[7, 8][..]));
        assert!(frames[0].header.is_hello());
        assert_eq!(frames[1].header.tag, Tag(101));
        // The payload is shorter than the header states.
        assert_eq!(
            (frames[1].header.len, &frames[1].payload[..]),
            (3, &[5, 6][..])
        );
        assert_eq!(rest, b"");
        assert_eq!(cut(&stream[..15], Side::Client), (vec![], &stream[..15]));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Consecutive messages of one side; the last one can be truncated.

use pmix_proto::Header;

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

/// Cuts a stream into messages; the second part is what no message can be made of.
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
    use super::*;
    use pmix_proto::Tag;

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
        // Less than the header says.
        assert_eq!(
            (frames[1].header.len, &frames[1].payload[..]),
            (3, &[5, 6][..])
        );
        assert_eq!(rest, b"");
        assert_eq!(cut(&stream[..15], Side::Client), (vec![], &stream[..15]));
    }
}

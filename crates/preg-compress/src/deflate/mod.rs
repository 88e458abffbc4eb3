// SPDX-License-Identifier: MIT OR Apache-2.0
//! A deflate encoder for lists. It writes RFC 1950 streams, which every zlib can inflate.
//!
//! General encoders at level 9, which OpenPMIx uses, are slow on lists and still miss their
//! repetitions. Reasons and figures are in `docs/decisions/0005-list-aware-deflate.md`. A text is
//! encoded in blocks:
//!
//! 1. [`fast_parse`] matches each name with the previous name. It is best for ordered lists.
//! 2. If that saves little, [`optimal_parse`] parses a sample: it finds the cheapest encoding of
//!    each stretch of text. If the result is shorter, it parses the whole block, too.
//! 3. The tokens of the shorter result get their own prefix codes ([`block`], [`huffman`]).
//!
//! The time is linear in the text: every position is examined a bounded number of times.
#![expect(
    clippy::cast_possible_truncation,
    reason = "an encoder of our own text: every narrowed value is masked or bounded by the format"
)]

mod adler;
mod bits;
mod block;
mod chains;
mod cost_model;
mod encoder;
mod fast_parse;
mod huffman;
mod optimal_parse;
mod shortest_paths;
mod symbols;
mod window;

/// The RFC 1950 header: deflate with a window of 32 KiB and maximum compression.
const HEADER: [u8; 2] = [0x78, 0xda];

/// Appends `text`, which must be shorter than 4 GiB, as one zlib stream.
pub(crate) fn zlib_stream(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&HEADER);
    encoder::deflate(text, out);
    out.extend_from_slice(&adler::adler32(text).to_be_bytes());
}

#[cfg(test)]
mod tests;

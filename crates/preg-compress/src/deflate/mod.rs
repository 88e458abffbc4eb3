// SPDX-License-Identifier: MIT OR Apache-2.0
//! A deflate encoder for lists: RFC 1950 streams that every zlib inflates.
//!
//! General encoders, at the effort that OpenPMIx asks for (level 9), are slow on lists and still
//! miss what they repeat. Why there is one here, and the figures, is in
//! `docs/decisions/0005-list-aware-deflate.md`. A text goes through in blocks:
//!
//! 1. [`fast_parse`] reads names against the name before. On lists in some order nothing beats it.
//! 2. Where that saves little, a sample is read by [`optimal_parse`], which looks for the cheapest way
//!    to write each stretch; where the sample gains, so does the block.
//! 3. The tokens of the shorter answer get prefix codes of their own ([`block`], [`huffman`]).
//!
//! Time is linear in the text: every position is looked at a bounded number of times.
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

/// RFC 1950: deflate with a window of 32 KiB, and the mark of most effort.
const HEADER: [u8; 2] = [0x78, 0xda];

/// Appends `text`, which is shorter than 4 GiB, as one zlib stream.
pub(crate) fn zlib_stream(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&HEADER);
    encoder::deflate(text, out);
    out.extend_from_slice(&adler::adler32(text).to_be_bytes());
}

#[cfg(test)]
mod tests;

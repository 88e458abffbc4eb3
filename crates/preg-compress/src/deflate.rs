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

mod block;
mod chains;
mod cost_model;
mod encoder;
mod fast_parse;
mod huffman;
mod optimal_parse;
mod symbols;

/// The RFC 1950 header: deflate with a window of 32 KiB and maximum compression.
const HEADER: [u8; 2] = [0x78, 0xda];

/// Appends `text`, which must be shorter than 4 GiB, as one zlib stream.
pub(crate) fn zlib_stream(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&HEADER);
    encoder::deflate(text, out);
    out.extend_from_slice(&adler32(text).to_be_bytes());
}

const MODULUS: u32 = 65_521;

/// The maximum number of bytes for which the sums do not overflow 32 bits.
const MOST: usize = 5552;

const LANES: usize = 16;

/// Returns the Adler-32 checksum of the bytes.
fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for part in bytes.chunks(MOST) {
        let (rows, rest) = part.as_chunks::<LANES>();
        // Each of sixteen lanes sums every sixteenth byte, and sums those sums. The weights of the
        // lanes are applied at the end, so the inner loop has only additions.
        let (mut sums, mut sums_of_sums) = ([0_u32; LANES], [0_u32; LANES]);
        for row in rows {
            for lane in 0..LANES {
                sums_of_sums[lane] += sums[lane];
                sums[lane] += u32::from(row[lane]);
            }
        }
        b += a * (rows.len() * LANES) as u32;
        for lane in 0..LANES {
            b += sums_of_sums[lane] * LANES as u32 + sums[lane] * (LANES - lane) as u32;
            a += sums[lane];
            b %= MODULUS;
        }
        for byte in rest {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests;

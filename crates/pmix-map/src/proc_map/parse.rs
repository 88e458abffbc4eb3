// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of process map text.
//!
//! Source: PMIx Standard, chapter "Server-Specific Interfaces", `PMIx_generate_ppn`: nodes
//! separated by semicolons, ranks and ranges of ranks by commas.

use pmix_types::Rank;

use super::{ProcMap, ProcMapBuilder};
use crate::{Error, Limits, scan};

impl ProcMap {
    /// Parses `node;node;...`, where each node consists of ranks and ranges (`0-3`), separated by
    /// commas.
    ///
    /// Empty text is the map without nodes, and an empty node is a node without ranks. Blanks
    /// around a rank and empty entries between commas are skipped.
    ///
    /// # Errors
    /// An entry is not a rank, a range is reversed, a rank is a special value, or a limit is
    /// exceeded. The error has the byte offset.
    pub fn parse_text(text: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut builder = ProcMapBuilder::new(limits);
        let mut at = 0;
        while !text.is_empty() && at <= text.len() {
            let end = match plain(text, at) {
                Some((rank, end)) => {
                    builder.one(rank).map_err(|e| e.at(at))?;
                    end
                }
                None => {
                    let rest = &text[at..];
                    let end = memchr::memchr2(b',', b';', rest).map_or(text.len(), |n| at + n);
                    entry(&mut builder, &text[at..end], at)?;
                    end
                }
            };
            if text.get(end) != Some(&b',') {
                builder.end_node().map_err(|e| e.at(end))?;
            }
            at = end + 1;
        }
        Ok(builder.finish())
    }
}

/// Returns the rank at `at` and its end, if the entry consists of one to eight digits.
#[inline]
fn plain(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let word: [u8; 8] = text.get(at..at + 8)?.try_into().ok()?;
    let digits = u64::from_le_bytes(word) ^ 0x3030_3030_3030_3030;
    // Sets the high bit of each byte that is not a digit. Carries reach only bytes after the first
    // such byte, which are not used.
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    let len = others.trailing_zeros() as usize / 8;
    let end = at + len;
    if len == 0 || !matches!(text.get(end), Some(b',' | b';') | None) {
        return None;
    }
    let len = u32::try_from(len).ok()?;
    let word = u64::from_le_bytes(word) << (64 - 8 * len);
    Some((scan::eight_digits(word, len)?, end))
}

/// Parses an entry: a rank, a range, or nothing.
fn entry(builder: &mut ProcMapBuilder, entry: &[u8], at: usize) -> Result<(), Error> {
    let shown = entry.trim_ascii();
    let offset = at + (entry.len() - entry.trim_ascii_start().len());
    if shown.is_empty() {
        return Ok(());
    }
    let (first, last) = match shown.iter().position(|b| *b == b'-') {
        Some(dash) => (
            rank(&shown[..dash], offset)?,
            rank(&shown[dash + 1..], offset + dash + 1)?,
        ),
        None => {
            let one = rank(shown, offset)?;
            (one, one)
        }
    };
    builder.range(first, last).map_err(|e| e.at(offset))
}

fn rank(text: &[u8], at: usize) -> Result<Rank, Error> {
    let digits = text.trim_ascii();
    std::str::from_utf8(digits)
        .ok()
        .filter(|t| t.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|t| t.parse().ok())
        .map(Rank::new)
        .filter(|r| r.is_valid())
        .ok_or_else(|| {
            let offset = at + (text.len() - text.trim_ascii_start().len());
            let shown = String::from_utf8_lossy(&digits[..digits.len().min(40)]).into_owned();
            let most = Rank::MAX_VALID;
            Error::malformed(
                offset,
                format!("expected a rank (0 to {most}), found {shown:?}"),
            )
        })
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests on standard input, one a line, and their answers in order.

use std::io::{self, BufRead, BufReader, Read, Write};

use preg_core::Limits;

use crate::output::Out;

/// Returns the maximum length of a line: two digits for each byte of the largest list, and room for the keys.
pub(crate) fn longest_line(limits: &Limits) -> u64 {
    limits.max_text.saturating_mul(2).saturating_add(1 << 16)
}

/// Answers every line; one that is longer than `longest` is given as none.
pub(crate) fn answer_lines(
    out: &mut Out,
    longest: u64,
    mut answer: impl FnMut(Option<&[u8]>, &mut Out) -> io::Result<()>,
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 17, io::stdin().lock());
    let mut line = Vec::new();
    while next_line(&mut input, &mut line, longest)? {
        let fits = line.len() as u64 <= longest;
        answer(fits.then_some(line.as_slice()), out)?;
        // A driver that waits for this answer has sent nothing more.
        if memchr::memchr(b'\n', input.buffer()).is_none() {
            out.flush()?;
        }
    }
    Ok(())
}

/// Reads a line without its end; what exceeds `longest` is read over.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>, longest: u64) -> io::Result<bool> {
    line.clear();
    let limit = longest.saturating_add(1);
    let mut read = input.by_ref().take(limit).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(true);
    }
    let any = read > 0;
    let mut rest = Vec::new();
    while read > 0 && line.len() as u64 == limit && rest.last() != Some(&b'\n') {
        rest.clear();
        read = input.by_ref().take(1 << 16).read_until(b'\n', &mut rest)?;
    }
    Ok(any)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of a text, each encoded with the better parse.

use super::block::{Block, Codes};
use super::fast_parse::FastParse;
use super::huffman::BitWriter;
use super::optimal_parse::OptimalParse;

/// The length in bytes of a sample, and of the text before it from which the initial prices are
/// computed.
const SAMPLE: usize = 4 << 10;
const LEAD: usize = 4 << 10;
/// The length in bytes below which a block is parsed as a whole instead of sampled.
const SMALL: usize = 32 << 10;
/// The maximum distance of matches in a sample.
const SAMPLE_WINDOW: usize = 16 << 10;
/// The bytes of text that a sample represents.
const SAMPLE_EVERY: usize = 1 << 20;

/// Rates in thousandths of a bit per byte: below `GOOD` the quick parse is good enough, above
/// `POOR` it is poor.
const GOOD: u64 = 1000;
const POOR: u64 = 2000;
/// The rate, in percent of the quick parse's rate, that the thorough parse must reach on a sample
/// to justify ten times the time. A few percent suffice where the quick parse is poor.
const GAIN_WHERE_POOR: u64 = 94;
const GAIN_ELSEWHERE: u64 = 60;
/// The rate, in percent, that the thorough parse must keep on each whole block.
const GAIN_TO_STAY: u64 = 95;

/// Appends `text` as deflate blocks and fills the last byte.
pub(super) fn deflate(text: &[u8], out: &mut Vec<u8>) {
    let mut writer = BitWriter::new(out);
    let mut quick = FastParse::new(text.len());
    let mut choice = Choice::default();
    let mut block = Block::new();
    let mut at = 0;
    loop {
        block.clear();
        let end = quick.parse(text, at, &mut block);
        let codes = block.codes();
        let better = choice.thorough(text, at..end, &block, &codes);
        let (block, codes) = better.as_ref().map_or((&block, &codes), |(b, c)| (b, c));
        block.write(codes, end == text.len(), &mut writer);
        at = end;
        if at == text.len() {
            break;
        }
    }
    writer.finish();
}

/// The choice between the quick and the thorough parse.
#[derive(Default)]
struct Choice {
    parser: Option<OptimalParse>,
    /// The end of the text that the last sample represents, and the rate of the quick parse there.
    sampled: Option<(usize, u64)>,
}

impl Choice {
    /// Returns the block of the thorough parse if this parse is tried and gives a shorter block.
    fn thorough(
        &mut self,
        text: &[u8],
        range: std::ops::Range<usize>,
        quick: &Block,
        codes: &Codes,
    ) -> Option<(Block, Codes)> {
        let quick_bits = quick.bits(codes);
        let rate = 1000 * quick_bits / range.len().max(1) as u64;
        if rate < GOOD {
            return None;
        }
        if self.parser.is_none() {
            let (until, sampled_rate) = self.sampled.unwrap_or((0, 0));
            if range.start < until && rate <= sampled_rate + sampled_rate / 4 {
                return None;
            }
            self.sampled = Some((range.start + SAMPLE_EVERY, rate));
            if !sample_gains(text, range.end, range.len(), rate) {
                return None;
            }
        }
        let parser = self.parser.get_or_insert_with(OptimalParse::new);
        let mut block = Block::new();
        parser.parse(text, range.clone(), &mut block);
        let codes = block.codes();
        let bits = block.bits(&codes);
        if bits * 100 > quick_bits * GAIN_TO_STAY {
            // The thorough parse no longer pays off. The next sample decides again.
            self.parser = None;
        }
        (bits < quick_bits).then_some((block, codes))
    }
}

/// Returns `true` if the thorough parse of a sample is sufficiently better than `rate`, the rate of
/// the quick parse of the block. Headers are ignored: the header of a sample would weigh more than
/// the header of a block.
fn sample_gains(text: &[u8], end: usize, len: usize, rate: u64) -> bool {
    if len < SMALL {
        return rate > POOR;
    }
    let gain = if rate > POOR {
        GAIN_WHERE_POOR
    } else {
        GAIN_ELSEWHERE
    };
    let (lead, start) = (end - SAMPLE - LEAD, end - SAMPLE);
    let mut parser = OptimalParse::reaching(lead.saturating_sub(SAMPLE_WINDOW));
    let mut block = Block::new();
    parser.parse(text, lead..start, &mut block);
    block.clear();
    parser.parse(text, start..end, &mut block);
    let bits = block.body_bits(&block.codes());
    bits * 100_000 < rate * gain * SAMPLE as u64
}

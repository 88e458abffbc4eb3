// SPDX-License-Identifier: MIT OR Apache-2.0
//! The node map generator, which solves and writes the blocks of a list one by one.

use crate::block::Block;
use crate::grammar::TAG;
use crate::groups;

/// Encodes a node list, or returns `None` if the form cannot represent it.
///
/// This is so for the empty list, empty names, and names with `[`, `]` or NUL, which OpenPMIx would
/// reject or misread.
// DEVIATION: OpenPMIx lets a name join an earlier group across other names, which loses the order;
// here a group ends at the first other name; order_and_duplicates_survive
// DEVIATION: OpenPMIx folds only on the first number, and not at all if a name contains other bytes
// than letters and digits; names_fold_on_whichever_number_folds_best
pub(crate) fn generate(list: &[u8]) -> Option<Vec<u8>> {
    let mut out = TAG.to_vec();
    let mut block = Block::new(list);
    let mut ends = Vec::new();
    let mut at = 0;
    loop {
        at = block.read(at)?;
        block.last_steps(&mut ends);
        groups::write(&block, &ends, &mut out);
        if at > list.len() {
            break;
        }
        out.push(b',');
    }
    out.push(b']');
    Some(out)
}

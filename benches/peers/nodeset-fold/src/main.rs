// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads names separated by commas from a file and prints them folded.

use nodeset::NodeSet;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: nodeset-fold FILE")?;
    let text = std::fs::read_to_string(path)?;
    let set: NodeSet = text.parse()?;
    println!("{set}");
    Ok(())
}

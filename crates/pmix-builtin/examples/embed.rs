// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maps of a launcher: it encodes a job as two values, and the receiver answers queries from
//! them.
//!
//! `cargo run -p pmix-builtin --example embed`

use pmix_builtin::open_preg;
use pmix_mca::{Params, Source};
use pmix_types::Rank;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The launcher uses the defaults, but one of its clients predates compression.
    // `Params::from_process` would read plugins.toml and the environment instead.
    let params = Params::builder()
        .set("preg", "native,raw", Source::Api)
        .set("preg_native_priority", "60", Source::Api)
        .build()?;
    let launcher = open_preg(&params)?;
    let nodes: Vec<String> = (1..=1000).map(|n| format!("nid{n:06}.site")).collect();
    // Lists every rank, because real libraries would treat ranges in the input as text.
    let ranks_of = |node: u32| -> Vec<String> {
        (node * 64..(node + 1) * 64)
            .map(|rank| rank.to_string())
            .collect()
    };
    let ranks: Vec<String> = (0..1000).map(|node| ranks_of(node).join(",")).collect();
    let node_map = launcher.generate_node_regex(nodes.join(",").as_bytes())?;
    let proc_map = launcher.generate_ppn(ranks.join(";").as_bytes())?;
    println!("node map: {}", String::from_utf8_lossy(&node_map.bytes));
    println!(
        "process map: {} bytes as {}",
        proc_map.bytes.len(),
        proc_map.framing
    );

    // The receiver: the tag of a value selects its decoder, whatever encoder wrote it.
    let server = open_preg(&Params::default())?;
    let nodes = server.parse_nodes(&node_map.bytes)?;
    let procs = server.parse_procs(&proc_map.bytes)?;
    let node = procs.node_of(Rank::new(12_345)).ok_or("no such rank")?;
    let name = nodes.nth(node).ok_or("more nodes than names")?;
    println!("rank 12345 runs on {}", String::from_utf8_lossy(&name));
    let local = nodes
        .position(b"nid000777.site")
        .and_then(|n| procs.ranks_of(n));
    println!("nid000777 holds {} ranks", local.map_or(0, Iterator::count));
    println!(
        "both maps take {} bytes",
        nodes.memory_bytes() + procs.memory_bytes()
    );

    // Errors have an offset.
    let error = server.parse_nodes(b"pmix[n[3:1-5,2000]]").unwrap_err();
    println!("{} ({})", error, error.status());
    Ok(())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the start of a server, and its memory afterwards, as JSON. Each process makes one start, like a
//! host; `cargo xtask bench server` runs it several times.

use std::time::Instant;

use pmix_server::{NoHost, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("pmix-start-{}", std::process::id()));
    let begun = Instant::now();
    let server = Server::builder()
        .host(NoHost)
        .server_tmpdir(&directory)
        .system_tmpdir(&directory)
        .build()?;
    server.start()?;
    let ready = begun.elapsed().as_nanos();
    println!("{{\"init_ns\":{ready},\"idle_kib\":{}}}", resident_kib()?);
    server.finalize()?;
    // The directory may not exist.
    let _ = std::fs::remove_dir_all(&directory);
    Ok(())
}

/// Returns the resident memory of this process.
fn resident_kib() -> std::io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.and_then(|number| number.parse().ok()).unwrap_or(0))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of `pmix map batch`, with all requests and all answers in order.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use super::build::Pmix;

/// Sends the requests and passes each answer with its index to `take`.
pub(crate) fn run(
    pmix: &Pmix,
    requests: &[Value],
    mut take: impl FnMut(usize, &Value),
) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("pmix map batch: {e}");
    let mut child = pmix
        .batch()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(fault)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut answered = 0;
    thread::scope(|scope| {
        // Write in a thread: the command answers while it still reads, and either pipe could fill up.
        let writer = scope.spawn(|| -> std::io::Result<()> {
            let Some(stdin) = stdin else { return Ok(()) };
            let mut stdin = BufWriter::new(stdin);
            for request in requests {
                writeln!(stdin, "{request}")?;
            }
            stdin.flush()
        });
        for line in stdout
            .into_iter()
            .flat_map(|out| BufReader::new(out).lines())
        {
            let line = line.map_err(fault)?;
            let answer = serde_json::from_str(&line).map_err(|e| format!("{e} in {line:?}"))?;
            take(answered, &answer);
            answered += 1;
        }
        match writer.join() {
            Ok(written) => written.map_err(fault),
            Err(_) => Err("the writer panicked".to_owned()),
        }
    })?;
    let status = child.wait().map_err(fault)?;
    if answered != requests.len() {
        let asked = requests.len();
        return Err(format!("{answered} answers to {asked} requests ({status})"));
    }
    Ok(())
}

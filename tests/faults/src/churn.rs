// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that are registered and deregistered thousands of times.

use std::time::Instant;

use pmix_types::{Scope, keys};

use super::server::{Server, files};
use super::wait::shown;
use super::{Field, Verdict, good};

/// The limit of the server's memory growth in KiB, which allows for rounding by the allocator.
const MOST_GROWTH: u64 = 512;

/// Registers many jobs, connects a client to each and deregisters them.
pub(super) fn run(field: &Field) -> Result<Verdict, String> {
    let mut server = field.server("churn", &[])?;
    let count = field.count(10_000, 1_000);
    jobs(&mut server, 0..count / 4)?;
    let base = server.figures()?;
    let there = files(&server.directory);
    let begun = Instant::now();
    jobs(&mut server, 0..count)?;
    let took = begun.elapsed();
    let after = server.settle(base.descriptors)?;
    let left = files(&server.directory);
    if left != there {
        return Err(format!("files before: {there:?}, after: {left:?}"));
    }
    server.end()?;
    let growth = after.memory.saturating_sub(base.memory);
    let figures = format!(
        "{count} jobs in {}: growth {growth} KiB of {}; descriptors {} and {}; {} files",
        shown(took),
        base.memory,
        base.descriptors,
        after.descriptors,
        left.len(),
    );
    match growth < MOST_GROWTH {
        true => Ok(Verdict::Held(figures)),
        false => Err(figures),
    }
}

fn jobs(server: &mut Server, numbers: std::ops::Range<usize>) -> Result<(), String> {
    for number in numbers {
        let job = format!("job-{number}");
        server.job(&job, 2)?;
        used(server, &job).map_err(|e| format!("{job}: {e} ({})", e.status()))?;
        server.tell(&format!("forget {job}"))?;
    }
    Ok(())
}

/// Runs one client of the job through its usual calls.
fn used(server: &Server, job: &str) -> Result<(), pmix_client::Error> {
    let mut client = good::connect(&server.uri, job, 0)?;
    client.get_of_job(keys::JOB_SIZE)?;
    client.put(Scope::GLOBAL, "card", job)?;
    client.commit()?;
    let own = client.proc().clone();
    client.get(&own, "card", &[])?;
    client.finalize()
}

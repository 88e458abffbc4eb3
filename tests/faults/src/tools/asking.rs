// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of a tool in a process of its own, with their results on standard output.

use std::time::Duration;

use pmix_client::Uri;
use pmix_tool::{FoundServer, Tool};
use pmix_types::{Info, IofChannel, Proc, Query, Rank, Status, Value, keys};

use crate::server::Figures;

/// The time limit of every step.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The time limit of a request to a server that lies.
pub(super) const LIMIT: Duration = Duration::from_secs(1);

/// Attaches as a tool. Prints the status, the jobs that the server reports, the status of a pull of
/// the output of a job, and the status of a get of the data of a process.
///
/// # Errors
/// Returns a message if the results cannot be printed.
pub(crate) fn look(uri: &Uri, job: &str) -> Result<(), String> {
    let mut tool = Tool::new().time_limit(PATIENCE);
    if let Err(error) = tool.attach(&FoundServer::at(uri.clone()), |_| {}) {
        println!("{}", error.status().as_raw());
        return Ok(());
    }
    let query = Query {
        keys: vec![keys::QUERY_NAMESPACES.into()],
        qualifiers: Vec::new(),
    };
    let (_, infos) = tool.query(vec![query]).wait().map_err(|e| e.to_string())?;
    let names = infos.iter().find_map(|info| match &info.value {
        Value::String(Some(names)) => Some(names.to_string()),
        _ => None,
    });
    let all = Proc::new(job.to_owned(), Rank::WILDCARD);
    let pull = tool.iof_pull([all], [], IofChannel::STDOUT_CHANNEL, 1);
    let pulled = pull.wait().err().map(|error| error.status());
    let first = Proc::new(job.to_owned(), Rank::new(0));
    let at_once = [Info::new(keys::IMMEDIATE, true)];
    let client = tool.primary().map_err(|e| e.to_string())?;
    let got = client.get(&first, "card", &at_once).wait().err();
    let got = got.map(|error| error.status());
    let raw = |status: Option<Status>| status.unwrap_or(Status::SUCCESS).as_raw();
    println!(
        "0 {} {} {}",
        names.unwrap_or_default(),
        raw(pulled),
        raw(got)
    );
    tool.finalize().map_err(|e| e.to_string())
}

/// Attaches and queries as a tool, and prints the final status and the peak memory.
///
/// # Errors
/// Returns a message if the results cannot be printed.
pub(crate) fn ask(uri: &Uri) -> Result<(), String> {
    let mut tool = Tool::new().time_limit(LIMIT);
    let attached = tool.attach(&FoundServer::at(uri.clone()), |_| {});
    let answered = attached.and_then(|_| {
        let names = Query {
            keys: vec![keys::QUERY_NAMESPACES.into()],
            qualifiers: Vec::new(),
        };
        Ok(tool.query([names]).wait()?)
    });
    let status = answered
        .err()
        .map_or(Status::SUCCESS, |error| error.status());
    let peak = Figures::of(std::process::id())?.peak;
    println!("{} {peak}", status.as_raw());
    Ok(())
}

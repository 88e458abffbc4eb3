// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench server`: measures the cost of a session with our server, with hosts around
//! the real libraries, and with prterun. All servers are measured with the same client binaries in
//! the same run.
//!
//! The clients read the processor clock of the process that serves them. The figures therefore
//! exclude the forks and other work of a launcher, and every server is measured in the same way.

mod clients;
mod commands;
mod groups;
pub(crate) mod jobs;
mod large;
pub(crate) mod runs;
mod timing;
mod tools;

use super::{Report, machine, table};
use runs::Field;
use xtask::install;

/// The name of a part and the function that measures it.
type Part = (&'static str, fn(&Field, &mut Report) -> Result<(), String>);

const PARTS: &[Part] = &[
    ("connect", clients::connecting),
    ("fence", clients::fences),
    ("gets", jobs::gets),
    ("groups", groups::groups),
    ("many-groups", groups::many_groups),
    ("whole", commands::whole),
    ("large", large::large),
    ("described", large::described),
    ("start", commands::start),
    ("idle", commands::idle),
    ("many", commands::many),
    ("tools", tools::attaching),
    ("spawn", tools::spawning),
    ("apps", tools::apps),
    ("trues", tools::trues),
    ("mpich", tools::mpich),
    ("timing", timing::timing),
];

/// Measures, prints and writes the table.
///
/// # Errors
/// Returns an error if our command cannot be built.
pub(super) fn measure(call: &str, report: &mut Report) -> Result<(), String> {
    let field = Field::prepare()?;
    for (name, part) in PARTS {
        if report.wants(name)
            && let Err(why) = part(&field, report)
        {
            report.add(name, Err(why));
        }
    }
    let releases: Vec<_> = field
        .releases
        .iter()
        .map(|r| r.peer.version.as_str())
        .collect();
    let text = format!(
        "`{call}`, on {}; libpmix {}. Figures are the least of several runs; a ratio is the \
         other's over ours. Server time is processor time of the serving process alone.\n\n{}",
        machine(),
        releases.join(" and "),
        table::markdown(&report.rows)
    );
    let path = install::scratch("bench")?.join("server.md");
    std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("\n{text}");
    Ok(())
}

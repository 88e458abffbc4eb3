// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check of a running job: the operations in which its ranks wait, and the ranks that are missing.

use std::path::Path;
use std::time::Duration;

use super::Finding;
use crate::args::Doctor;
use crate::tool::{self, JobDiagnosis};

/// The age from which an operation is a warning. Younger ones are usual in a job that makes progress.
const LONG: Duration = Duration::from_secs(5);

/// Checks the job of this name. Returns `None` if no server of this node has it, so that the name means a program.
pub(super) fn check(name: &Path, args: &Doctor) -> Option<Vec<Finding>> {
    // The name of a job has no directory, while most names of programs have one.
    let name = name.to_str().filter(|name| !name.contains('/'))?;
    let JobDiagnosis {
        num_procs,
        operations,
        num_more,
        missing,
        stacks,
    } = match tool::diagnose(name, args.timeout, args.stacks)? {
        Ok(diagnosis) => diagnosis,
        Err(reason) => {
            let help = "`pmix ps` shows the state of its ranks".to_owned();
            return Some(vec![Finding::warning(
                "job",
                format!("{name}: {reason}"),
                help,
            )]);
        }
    };
    let mut findings = vec![Finding::ok("job", format!("{name}: {num_procs} processes"))];
    for (age, line, is_missing) in operations {
        let is_long = age >= LONG;
        let help = match is_missing && !missing.is_empty() {
            true => missing.join("; "),
            false => "no rank of this job and node is missing: the operation waits for the launcher, another job or \
                another node"
                .to_owned(),
        };
        findings.push(match is_long {
            true => Finding::warning("waits", line, help),
            false => Finding::ok("waits", line),
        });
    }
    if num_more > 0 {
        let line = format!("{num_more} more operations are pending");
        findings.push(Finding::ok("waits", line));
    }
    if findings.len() == 1 {
        let line = format!("no rank of {name} waits for others in a PMIx operation");
        findings.push(Finding::ok("waits", line));
    }
    findings.extend(stacks.into_iter().map(|stack| Finding::ok("stack", stack)));
    Some(findings)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a job, as text and as JSON.

use std::time::Duration;

use pmix_launch::{Ending, GroupOutcome, JobOutcome, Outcome, Plan, RankOutcome};
use pmix_types::{Proc, Rank};
use serde_json::{Value as Json, json};

/// Returns one line for each process, and one for each group that was not destructed or failed.
pub(super) fn table(outcome: &Outcome) -> String {
    let host = String::from_utf8_lossy(&outcome.host);
    let nspace = &outcome.nspace;
    let mut text = format!(
        "{nspace} on {host}: {:.3} s\n",
        outcome.elapsed.as_secs_f64()
    );
    let cpus: Vec<String> = outcome.ranks.iter().map(cpus_of).collect();
    let width = cpus
        .iter()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("cpus".len());
    // A job on one node needs no column for it.
    let has_nodes = outcome.ranks.iter().any(|rank| rank.host != outcome.host);
    let nodes = outcome.ranks.iter().map(|rank| rank.host.len());
    let node_width = nodes.max().unwrap_or(0).max("node".len());
    let node_cell = |name: &[u8]| match has_nodes {
        true => format!("  {:<node_width$}", String::from_utf8_lossy(name)),
        false => String::new(),
    };
    text += &format!(
        "{:>6}{}  {:>3}  {:>8}  {:<width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  end\n",
        "rank",
        node_cell(b"node"),
        "app",
        "pid",
        "cpus",
        "start",
        "time",
        "init",
        "cpu",
        "memory"
    );
    for (rank, cpus) in outcome.ranks.iter().zip(&cpus) {
        text += &format!(
            "{:>6}{}  {:>3}  {:>8}  {cpus:<width$}  {:>7.3} s  {:>7.3} s  {}  {}  {}  {}\n",
            rank.rank.to_string(),
            node_cell(&rank.host),
            rank.app,
            rank.pid,
            rank.started.as_secs_f64(),
            rank.elapsed.as_secs_f64(),
            time_cell(rank.init),
            time_cell(rank.processor_time),
            memory_cell(rank.largest_memory),
            rank.ending,
        );
        if let Some(reason) = &rank.kernel_kill {
            text += &format!("{:>6}  {reason}\n", "");
        }
    }
    text += &imbalance(&outcome.ranks);
    text += &groups(outcome);
    for job in &outcome.spawned {
        let (name, num_procs) = (&job.nspace, job.num_procs);
        let (parent, time) = (&job.parent, job.elapsed.as_secs_f64());
        text += &format!("{name}: {num_procs} processes for {parent}, {time:.3} s");
        text += &match job.num_restarts {
            0 => ": ".to_owned(),
            number => format!(", restarted {number} times: "),
        };
        text += &match &job.cause {
            Some(cause) => format!("{cause}\n"),
            None => format!("exit code {}\n", job.exit_code),
        };
    }
    text
}

/// Returns a time for a column, or a dash if it is not known.
pub(super) fn time_cell(time: Option<Duration>) -> String {
    match time {
        Some(time) => format!("{:>7.3} s", time.as_secs_f64()),
        None => format!("{:>9}", "-"),
    }
}

/// Returns an amount of memory for a column, or a dash if it was not measured.
pub(super) fn memory_cell(bytes: Option<u64>) -> String {
    match bytes {
        Some(bytes) => format!("{:>5} MiB", bytes.div_ceil(1 << 20)),
        None => format!("{:>9}", "-"),
    }
}

/// Returns the mean and the largest processor time of the ranks, and the imbalance: the share of the largest time by
/// which it exceeds the mean.
fn imbalance(ranks: &[RankOutcome]) -> String {
    let times = ranks
        .iter()
        .filter_map(|rank| Some((rank.rank, rank.processor_time?)));
    let times: Vec<_> = times.collect();
    let (Some(&(rank, largest)), Ok(num)) = (
        times.iter().max_by_key(|(_, time)| *time),
        u32::try_from(times.len()),
    ) else {
        return String::new();
    };
    if num < 2 {
        return String::new();
    }
    let sum = times.iter().map(|(_, time)| *time).sum::<Duration>();
    let mean = sum / num;
    let share = match largest.is_zero() {
        true => 0.0,
        false => largest.saturating_sub(mean).as_secs_f64() / largest.as_secs_f64() * 100.0,
    };
    format!(
        "processor time: mean {:.3} s, largest {:.3} s of rank {rank}, imbalance {share:.0} %\n",
        mean.as_secs_f64(),
        largest.as_secs_f64(),
    )
}

/// Returns the number of groups constructed, and the groups that still exist or failed.
fn groups(outcome: &Outcome) -> String {
    if outcome.num_groups == 0 && outcome.groups.is_empty() {
        return String::new();
    }
    let mut text = format!("groups constructed: {}\n", outcome.num_groups);
    for group in &outcome.groups {
        let name = crate::style::printable(group.name.as_bytes());
        let listed = |procs| listed(procs, &outcome.nspace);
        text += &format!("  {name}: members {}", listed(&group.members));
        if let Some(status) = group.failure {
            text += &format!("; {status}");
        }
        if !group.missing.is_empty() {
            text += &format!("; missing {}", listed(&group.missing));
        }
        text += match group.failure {
            None => "; not destructed\n",
            Some(_) => "\n",
        };
    }
    text
}

/// Returns the ranks of processes in order, with consecutive ranks as ranges, shortened to one
/// line. Ranks of a spawned job have the name of the job before each range.
fn listed(procs: &[Proc<'_>], first_job: &str) -> String {
    const MOST: usize = 16;
    let next = |a: &Proc<'_>, b: &Proc<'_>| {
        let follows = a.rank.as_raw().checked_add(1) == Some(b.rank.as_raw());
        a.nspace == b.nspace && a.rank.is_valid() && follows
    };
    let mut named = Vec::new();
    for run in procs.chunk_by(next) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            continue;
        };
        let ranks = match (first.rank, last.rank) {
            (Rank::WILDCARD, _) => "all".to_owned(),
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        named.push(match first.nspace.as_bytes() == first_job.as_bytes() {
            true => ranks,
            false => format!("{}:{ranks}", name_of_job(first)),
        });
    }
    let more = named.len().saturating_sub(MOST);
    named.truncate(MOST);
    let shown = named.join(",");
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn name_of_job(proc: &Proc<'_>) -> String {
    crate::style::printable(proc.nspace.as_bytes())
}

pub(super) fn cpus_of(rank: &RankOutcome) -> String {
    let bound = rank.cpus.as_ref();
    bound.map_or_else(|| "any".to_owned(), ToString::to_string)
}

/// Returns the job as JSON.
pub(super) fn summary(plan: &Plan, outcome: &Outcome) -> Json {
    let words = |app: &pmix_launch::App| -> Vec<String> {
        let words = std::iter::once(&app.program).chain(&app.args);
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    };
    let apps = plan
        .apps
        .iter()
        .map(|app| json!({"num_procs": app.num_procs, "argv": words(app)}));
    json!({
        "nspace": outcome.nspace,
        "host": String::from_utf8_lossy(&outcome.host),
        "num_procs": plan.layout.num_procs(),
        "exit_code": outcome.exit_code(),
        "cause": outcome.cause.as_ref().map(ToString::to_string),
        "message": outcome.message(),
        "seconds": seconds(outcome.elapsed),
        "cpu_seconds": seconds(outcome.processor_time),
        "apps": apps.collect::<Vec<_>>(),
        "num_groups": outcome.num_groups,
        "groups": outcome.groups.iter().map(|group| of_group(group, &outcome.nspace)).collect::<Vec<_>>(),
        "num_spawned": outcome.num_spawned,
        "spawned": outcome.spawned.iter().map(of_job).collect::<Vec<_>>(),
        "ranks": outcome.ranks.iter().map(of_rank).collect::<Vec<_>>(),
    })
}

fn of_job(job: &JobOutcome) -> Json {
    json!({
        "nspace": job.nspace,
        "parent": job.parent,
        "num_procs": job.num_procs,
        "num_failed": job.num_failed,
        "num_restarts": job.num_restarts,
        "exit_code": job.exit_code,
        "cause": job.cause.as_ref().map(ToString::to_string),
        "seconds": seconds(job.elapsed),
    })
}

/// Returns a group as JSON, with members as ranks if all belong to the first job, otherwise as `NSPACE,RANK`.
fn of_group(group: &GroupOutcome, first_job: &str) -> Json {
    let is_of_first = |proc: &Proc<'_>| proc.nspace.as_bytes() == first_job.as_bytes();
    let is_of_first = group.members.iter().chain(&group.missing).all(is_of_first);
    let ranks = |procs: &[Proc<'_>]| -> Vec<Json> {
        let named = |proc: &Proc<'_>| match (is_of_first, proc.rank) {
            (true, Rank::WILDCARD) => json!("all"),
            (true, rank) => json!(rank.as_raw()),
            (false, Rank::WILDCARD) => json!(format!("{},all", proc.nspace)),
            (false, rank) => json!(format!("{},{rank}", proc.nspace)),
        };
        procs.iter().map(named).collect()
    };
    json!({
        "name": group.name,
        "members": ranks(&group.members),
        "missing": ranks(&group.missing),
        "failure": group.failure.map(|status| status.to_string()),
    })
}

fn of_rank(rank: &RankOutcome) -> Json {
    let signal = match rank.ending {
        Ending::Exited(_) | Ending::Lost => None,
        Ending::Signalled { signal, .. } => Some(signal),
    };
    json!({
        "rank": rank.rank.as_raw(),
        "app": rank.app,
        "pid": rank.pid,
        "host": String::from_utf8_lossy(&rank.host),
        "cpus": rank.cpus.as_ref().map(ToString::to_string),
        "start": seconds(rank.started),
        "seconds": seconds(rank.elapsed),
        "init_seconds": rank.init.map(seconds),
        "cpu_seconds": rank.processor_time.map(seconds),
        "max_rss_bytes": rank.largest_memory,
        "kernel_kill": rank.kernel_kill,
        "exit_code": rank.ending.exit_code(),
        "signal": signal,
    })
}

/// Returns seconds, rounded to the microsecond.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed_in_their_order_and_no_line_is_endless() {
        let proc = |rank: &u32| Proc::new("job", Rank::new(*rank));
        let of = |ranks: &[u32]| listed(&ranks.iter().map(proc).collect::<Vec<_>>(), "job");
        assert_eq!(of(&[2, 0, 1, 3]), "2,0-1,3");
        assert_eq!(of(&[]), "");
        let even: Vec<_> = (0..100).map(|rank| 2 * rank).collect();
        assert!(of(&even).ends_with(",28,30 and 84 more"), "{}", of(&even));
        assert_eq!(listed(&[Proc::new("job", Rank::WILDCARD)], "job"), "all");
    }

    #[test]
    fn members_of_a_spawned_job_include_its_name() {
        let of = |job: &'static str, rank| Proc::new(job, Rank::new(rank));
        let members = [of("job", 0), of("job@2", 1), of("job@2", 2), of("job", 3)];
        assert_eq!(listed(&members, "job"), "0,job@2:1-2,3");
    }
}

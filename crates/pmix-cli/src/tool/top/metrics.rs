// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix top --openmetrics`: one snapshot as text for Prometheus.
//!
//! Source: OpenMetrics 1.0 (also draft-richih-opsawg-openmetrics-00), "Text Format".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;

use crate::args::{Global, Ps, Top};
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::style::printable;
use crate::tool::node;
use crate::tool::ps::{self, Job, Report};

/// Runs the command.
pub(super) fn run(global: &Global, args: &Top) -> Result<Exit, Failure> {
    if global.json {
        return Err(Failure::usage(
            "--openmetrics and --json exclude each other",
        ));
    }
    let servers = node::selected_servers(&args.attach)?;
    let args = Ps {
        nspace: args.nspace.clone(),
        stacks: false,
        figures: true,
        attach: args.attach.clone(),
    };
    let mut metrics = Metrics::new();
    ps::ask_each(&servers, &args, |report| {
        metrics.add(&report);
        Ok(())
    })?;
    let mut out = Out::new();
    out.write_all(metrics.to_text().as_bytes())?;
    out.flush()?;
    Ok(Exit::Ok)
}

/// A metric family.
struct Family {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    /// The suffix of the names of samples.
    suffix: &'static str,
    /// The values by labels. A server cannot make the text invalid by naming a job twice.
    samples: BTreeMap<Labels, f64>,
}

/// The labels of a sample: names and values.
type Labels = Vec<(&'static str, String)>;

/// All metric families, in the order of the text.
struct Metrics(Vec<Family>);

const UP: &str = "pmix_server_up";
const JOBS: &str = "pmix_server_jobs";
const CONNECTIONS: &str = "pmix_server_connections";
const REQUESTS: &str = "pmix_server_pending_requests";
const REQUEST_BYTES: &str = "pmix_server_request_bytes";
const QUEUED_BYTES: &str = "pmix_server_queued_bytes";
const OUTPUT_BYTES: &str = "pmix_server_output_bytes";
const EVENT_BYTES: &str = "pmix_server_event_bytes";
const GROUP_BYTES: &str = "pmix_server_group_bytes";
const RANKS: &str = "pmix_job_ranks";
const PENDING: &str = "pmix_job_pending_operations";
const LONGEST_WAIT: &str = "pmix_job_longest_wait_seconds";
const CPU: &str = "pmix_job_cpu_seconds";
const RESTARTS: &str = "pmix_job_restarts";

impl Metrics {
    fn new() -> Self {
        let gauge = |name, unit, help| Family {
            name,
            kind: "gauge",
            unit,
            help,
            suffix: "",
            samples: BTreeMap::new(),
        };
        Self(vec![
            gauge(UP, "", "1 if the server replied, else 0."),
            gauge(JOBS, "", "Jobs of the server."),
            gauge(CONNECTIONS, "", "Connections of clients and tools."),
            gauge(
                REQUESTS,
                "",
                "Requests of clients and tools without a reply.",
            ),
            gauge(
                REQUEST_BYTES,
                "bytes",
                "Message bytes and memory of requests without a reply.",
            ),
            gauge(
                QUEUED_BYTES,
                "bytes",
                "Bytes of replies and events that clients and tools have not read yet.",
            ),
            gauge(
                OUTPUT_BYTES,
                "bytes",
                "Bytes of output of processes that the server holds for tools.",
            ),
            gauge(
                EVENT_BYTES,
                "bytes",
                "Memory of events that are kept for later registrations.",
            ),
            gauge(GROUP_BYTES, "bytes", "Memory of groups."),
            gauge(RANKS, "", "Ranks of the job by state."),
            gauge(
                PENDING,
                "",
                "Fences, connects, group constructs and gets that have begun and have not completed.",
            ),
            gauge(
                LONGEST_WAIT,
                "seconds",
                "Time since the first call of the oldest pending operation.",
            ),
            gauge(
                CPU,
                "seconds",
                "Processor time of the running processes of the job.",
            ),
            Family {
                kind: "counter",
                suffix: "_total",
                ..gauge(RESTARTS, "", "Restarts of processes of the job.")
            },
        ])
    }

    fn set(&mut self, name: &str, labels: Labels, value: f64) {
        if let Some(family) = self.0.iter_mut().find(|family| family.name == name) {
            family.samples.insert(labels, value);
        }
    }

    fn add(&mut self, report: &Report) {
        let server = &report.server;
        let name = printable(server.uri.server.nspace.as_bytes()).to_string();
        // The address tells servers of one name apart.
        let pid =
            { server.pid }.map_or_else(|| server.uri.address.to_string(), |pid| pid.to_string());
        let mut labels = vec![("server", name), ("server_pid", pid)];
        labels.extend(server.owner.map(|owner| ("user", owner.to_string())));
        let jobs = match &report.jobs {
            Ok(jobs) => &jobs[..],
            Err(failure) => {
                let server = node::describe(server);
                tracing::warn!(
                    "server {server}: {}",
                    printable(failure.message().as_bytes())
                );
                return self.set(UP, labels, 0.0);
            }
        };
        self.set(UP, labels.clone(), 1.0);
        let names: BTreeSet<_> = jobs.iter().map(|job| &job.nspace).collect();
        self.set(JOBS, labels.clone(), count(names.len()));
        let of_jobs = jobs.iter().find_map(|job| job.figures);
        if let Some(figures) = of_jobs.or(report.figures) {
            for (name, value) in [
                (CONNECTIONS, figures.num_connections),
                (REQUESTS, figures.num_requests),
                (REQUEST_BYTES, figures.request_bytes),
                (QUEUED_BYTES, figures.queued_bytes),
                (OUTPUT_BYTES, figures.output_bytes),
                (EVENT_BYTES, figures.event_bytes),
                (GROUP_BYTES, figures.group_bytes),
            ] {
                self.set(name, labels.clone(), number(value));
            }
        }
        for job in jobs {
            let mut labels = labels.clone();
            labels.push(("job", printable(job.nspace.as_bytes()).to_string()));
            self.add_job(job, &labels);
        }
    }

    fn add_job(&mut self, job: &Job, labels: &Labels) {
        let with = |name, value: String| {
            let mut labels = labels.clone();
            labels.push((name, value));
            labels
        };
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        for proc in job.procs.iter().flatten() {
            let state = match job.waiting.contains_key(&proc.proc.rank) {
                true => "waiting for a debugger".to_owned(),
                false if job.is_stopped(proc.proc.rank) == Some(true) => "stopped".to_owned(),
                false => ps::state(proc.state),
            };
            *states.entry(state).or_default() += 1;
        }
        for (state, num_ranks) in states {
            self.set(RANKS, with("state", state), count(num_ranks));
        }
        if let Some(pending) = &job.pending {
            let mut operations: BTreeMap<&str, f64> = BTreeMap::new();
            for kind in ["fence", "get"] {
                operations.insert(kind, 0.0);
            }
            for operation in &pending.listed {
                *operations.entry(&operation.operation).or_default() += 1.0;
            }
            if pending.num_more > 0 {
                operations.insert("not listed", number(pending.num_more));
            }
            for (operation, num) in operations {
                self.set(
                    PENDING,
                    with("operation", printable(operation.as_bytes()).to_string()),
                    num,
                );
            }
            let ages = pending.listed.iter().map(|operation| operation.age);
            let longest = ages.max().unwrap_or_default();
            self.set(LONGEST_WAIT, labels.clone(), longest.as_secs_f64());
        }
        if let Some(usage) = &job.usage {
            let seconds = usage.values().map(|row| row.processor_use().1);
            self.set(CPU, labels.clone(), seconds.sum());
        }
        if let Some(figures) = job.figures {
            self.set(RESTARTS, labels.clone(), number(figures.num_restarts));
        }
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for family in &self.0 {
            let Family {
                name,
                kind,
                unit,
                help,
                suffix,
                ..
            } = family;
            // Writing into a String cannot fail.
            let _ = writeln!(text, "# TYPE {name} {kind}");
            if !unit.is_empty() {
                let _ = writeln!(text, "# UNIT {name} {unit}");
            }
            let _ = writeln!(text, "# HELP {name} {}", escaped(help));
            for (labels, value) in &family.samples {
                let labels =
                    { labels.iter() }.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
                let labels = labels.collect::<Vec<_>>().join(",");
                let _ = writeln!(text, "{name}{suffix}{{{labels}}} {value}");
            }
        }
        text.push_str("# EOF\n");
        text
    }
}

/// Escapes the value of a label or a help text.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn count(number: usize) -> f64 {
    u64::try_from(number).map_or(f64::MAX, self::number)
}

/// Converts a count. Values of OpenMetrics are floating-point numbers.
fn number(number: u64) -> f64 {
    u32::try_from(number).map_or_else(
        |_| {
            let (high, low) = (number >> 32, number & u64::from(u32::MAX));
            let half = |half| u32::try_from(half).map_or(f64::MAX, f64::from);
            half(high) * 4_294_967_296.0 + half(low)
        },
        f64::from,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_cannot_break_a_line_or_add_a_sample() {
        let mut metrics = Metrics::new();
        for name in ["a\"} 1\n# EOF", "b\\", "b\\"] {
            metrics.set(RANKS, vec![("job", name.to_owned())], 2.0);
        }
        let text = metrics.to_text();
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"pmix_job_ranks{job="a\"} 1\n# EOF"} 2"#,
                r#"pmix_job_ranks{job="b\\"} 2"#
            ]
        );
        assert!(
            text.ends_with("\n# EOF\n") && text.matches("# EOF\n").count() == 1,
            "{text}"
        );
    }

    #[test]
    fn large_counts_keep_their_magnitude() {
        assert_eq!(number(7), 7.0);
        assert_eq!(number(1 << 40), 1_099_511_627_776.0);
        assert_eq!(number(u64::MAX), 18_446_744_073_709_551_616.0);
    }
}

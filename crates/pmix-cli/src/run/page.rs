// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run --report=html`: one page about a job, without references to other files.

mod placement;
mod timeline;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use pmix_launch::{Outcome, Plan, RankOutcome};
use pmix_topology::Topology;

use super::report::{cpus_of, memory_cell, time_cell};
use crate::failure::Failure;
use crate::style::printable;

/// The largest number of ranks in the table.
const MAX_ROWS: usize = 200;

/// The largest number of fences in the list of the longest ones.
const MAX_LONGEST: usize = 10;

/// The largest length of a command line in characters.
const MAX_COMMAND: usize = 300;

const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--text:#1c1e21;--dim:#5f6770;--line:#d9dde2;--back:#f3f5f7;\
--boot:#9db8d6;--run:#1668b8;--plain:#8a929b;--bad:#c62828;--fence:#e08a00}\
@media(prefers-color-scheme:dark){:root{--page:#161616;--text:#e4e6e8;--dim:#9aa2ab;--line:#3a3f45;--back:#222528;\
--boot:#41597a;--run:#6db3f2;--plain:#7b848d;--bad:#ff6b6b;--fence:#ffb74d}}\
body{font:14px/1.45 system-ui,sans-serif;background:var(--page);color:var(--text);max-width:1180px;margin:24px auto;\
padding:0 20px}\
h1{font-size:20px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:16px;margin:28px 0 8px}\
p{margin:4px 0;overflow-wrap:anywhere}.dim{color:var(--dim)}.bad{color:var(--bad)}\
code{font:13px ui-monospace,monospace}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:3px 14px 3px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}\
th{color:var(--dim);font-weight:600}td.n,th.n{text-align:right}\
.wide{overflow-x:auto}\
svg{width:100%;height:auto;background:var(--back);border-radius:6px}\
svg text{font:11px system-ui,sans-serif;fill:var(--dim)}\
.boot{fill:var(--boot)}.run{fill:var(--run)}.plain{fill:var(--plain)}.end{fill:var(--bad)}\
.fence{fill:var(--fence);fill-opacity:.2;pointer-events:none}.done{fill:var(--fence)}.grid{fill:var(--line)}\
.key span{display:inline-block;width:12px;height:12px;border-radius:2px;margin:0 6px 0 18px;vertical-align:-1px}\
.key span:first-child{margin-left:0}";

/// The file of the page.
pub(super) struct Page {
    file: File,
    path: PathBuf,
}

impl Page {
    /// Creates the file, which has the name of the job if no path is given.
    pub(super) fn create(path: Option<&Path>, nspace: &str) -> Result<Self, Failure> {
        let path = path.map_or_else(|| PathBuf::from(file_name(nspace)), Path::to_path_buf);
        let file = pmix_files::create(&path).map_err(|error| {
            Failure::usage(format!("cannot write {}: {error}", path.display()))
                .cure("name another file with --report=html:FILE")
        })?;
        Ok(Self { file, path })
    }

    /// Writes the page. A failure is only a warning: the job has already run.
    pub(super) fn write(mut self, plan: &Plan, outcome: &Outcome) {
        // The launcher may see another machine than the one that an XML file of the user describes.
        let topology = Topology::of_system();
        let text = render(&command_lines(plan), outcome, &topology);
        let path = printable(self.path.as_os_str().as_encoded_bytes());
        match self.file.write_all(text.as_bytes()) {
            Ok(()) => crate::trace::say(format!("report: {path}\n").into_bytes()),
            Err(error) => tracing::warn!("cannot write the report {path}: {error}"),
        }
    }
}

/// Returns the default name of the file. The name of a job may contain any characters.
fn file_name(nspace: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let name = nspace.chars().map(|c| if is_plain(c) { c } else { '_' });
    let name: String = name.take(200).collect();
    // A leading dot would hide the file.
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}.html"),
        None => format!("{name}.html"),
    }
}

/// Returns the command line of each application with the number of its processes.
fn command_lines(plan: &Plan) -> Vec<(String, u64)> {
    let line = |app: &pmix_launch::App| {
        let words = std::iter::once(&app.program).chain(&app.args);
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        (words.join(" "), u64::from(app.num_procs))
    };
    plan.apps.iter().map(line).collect()
}

fn render(apps: &[(String, u64)], outcome: &Outcome, topology: &Topology) -> String {
    let job = escape(outcome.nspace.as_bytes());
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{job}</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<h1>{job}</h1>\n"
    );
    html += &format!(
        "<p class=\"dim\">{} on {}, {:.3} s</p>\n",
        number_of(outcome.ranks.len(), "process", "processes"),
        escape(&outcome.host),
        outcome.elapsed.as_secs_f64()
    );
    for (line, num_procs) in apps.iter().take(MAX_ROWS) {
        html += &format!("<p>{num_procs} × <code>{}</code></p>\n", short(line));
    }
    html += &match outcome.message() {
        Some(message) => format!("<p class=\"bad\">{}</p>\n", escape(message.as_bytes())),
        None => "<p>All processes succeeded.</p>\n".to_owned(),
    };
    html += &timeline::render(outcome);
    html += &longest_fences(outcome);
    html += &placement::render(outcome, topology);
    html += &ranks(&outcome.ranks);
    html += "</body>\n</html>\n";
    html
}

/// Returns the fences that took longest.
fn longest_fences(outcome: &Outcome) -> String {
    let mut fences: Vec<_> = outcome.fences.iter().enumerate().collect();
    if fences.is_empty() {
        return String::new();
    }
    fences.sort_by_key(|(_, fence)| std::cmp::Reverse(fence.ended.saturating_sub(fence.began)));
    fences.truncate(MAX_LONGEST);
    let mut html = "<h2>Longest fences</h2>\n<table>\n<tr><th class=\"n\">fence</th><th class=\"n\">first call</th>\
        <th class=\"n\">complete</th><th class=\"n\">time</th><th class=\"n\">processes</th></tr>\n"
        .to_owned();
    for (index, fence) in fences {
        let (began, ended) = (fence.began.as_secs_f64(), fence.ended.as_secs_f64());
        html += &format!(
            "<tr><td class=\"n\">{}</td><td class=\"n\">{began:.3} s</td><td class=\"n\">{ended:.3} s</td>\
             <td class=\"n\">{:.3} s</td><td class=\"n\">{}</td></tr>\n",
            index + 1,
            ended - began,
            fence.num_procs
        );
    }
    html + "</table>\n"
}

/// Returns the table of the ranks.
fn ranks(ranks: &[RankOutcome]) -> String {
    let mut html = "<h2>Processes</h2>\n<div class=\"wide\">\n<table>\n<tr><th class=\"n\">rank</th>\
        <th class=\"n\">pid</th><th class=\"n\">start</th><th class=\"n\">init</th><th class=\"n\">time</th>\
        <th class=\"n\">CPU time</th><th class=\"n\">memory</th><th>CPUs</th><th>end</th></tr>\n"
        .to_owned();
    for rank in ranks.iter().take(MAX_ROWS) {
        let is_bad = rank.ending.exit_code() != 0;
        html += &format!(
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.3} s</td><td class=\"n\">{}</td>\
             <td class=\"n\">{:.3} s</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td{}>{}</td></tr>\n",
            rank.rank,
            rank.pid,
            rank.started.as_secs_f64(),
            time_cell(rank.init).trim(),
            rank.elapsed.as_secs_f64(),
            time_cell(rank.processor_time).trim(),
            memory_cell(rank.largest_memory).trim(),
            escape(cpus_of(rank).as_bytes()),
            if is_bad { " class=\"bad\"" } else { "" },
            escape(rank.ending.to_string().as_bytes()),
        );
    }
    html += "</table>\n</div>\n";
    if let more @ 1.. = ranks.len().saturating_sub(MAX_ROWS) {
        html += &format!(
            "<p class=\"dim\">{more} more processes are not listed; <code>--json</code> lists all.</p>\n"
        );
    }
    html
}

/// Escapes text for HTML. Unprintable bytes are escaped visibly.
fn escape(bytes: &[u8]) -> String {
    let text = printable(bytes);
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

/// Escapes a command line, and shortens a long one.
fn short(line: &str) -> String {
    match line.char_indices().nth(MAX_COMMAND) {
        Some((end, _)) => escape(line.get(..end).unwrap_or_default().as_bytes()) + "…",
        None => escape(line.as_bytes()),
    }
}

fn number_of(number: usize, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {several}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_name_of_the_job_without_directories() {
        assert_eq!(file_name("run-n1-4711@1"), "run-n1-4711@1.html");
        assert_eq!(file_name("../../etc/x y"), "_._.._etc_x_y.html");
        assert_eq!(file_name(&"x".repeat(300)).len(), 205);
    }

    #[test]
    fn text_of_others_is_no_markup() {
        let hostile = "</title><script>alert('1' + \"2\")</script>&\u{1b}[2J";
        let html = escape(hostile.as_bytes());
        assert!(!html.contains(['<', '>', '"', '\'', '\u{1b}']), "{html}");
        let long = "<".repeat(MAX_COMMAND + 1);
        assert_eq!(short(&long), "&lt;".repeat(MAX_COMMAND) + "…");
    }
}

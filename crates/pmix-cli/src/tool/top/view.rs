// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot of all servers as text and as JSON.

use std::collections::BTreeMap;
use std::io::Write as _;

use pmix_tool::FoundServer;
use serde_json::{Value as Json, json};

use super::rows::{Row, Rows, table};
use super::watch::{Watch, Watched};
use crate::args::TopOrder;
use crate::failure::Failure;
use crate::output::Out;
use crate::style::printable;
use crate::tool::{node, pending};

/// The maximum number of operations of a job that are shown above the processes.
const MOST_PENDING: usize = 4;

/// The maximum number of servers without figures that are named.
const MOST_SILENT: usize = 4;

/// The figures of the servers at one time.
pub(super) struct Snapshot<'a> {
    servers: Vec<(&'a FoundServer, &'a Rows)>,
    /// The servers without figures.
    silent: Vec<&'a Watched>,
    num_more: usize,
    order: TopOrder,
}

impl<'a> Snapshot<'a> {
    pub(super) fn of(
        rows: &'a BTreeMap<usize, Rows>,
        watch: &'a Watch<'_>,
        order: TopOrder,
    ) -> Self {
        let with_rows = { watch.servers.iter() }
            .filter_map(|(index, watched)| Some((&watched.server, rows.get(index)?)));
        let is_silent = |watched: &&Watched| watched.is_silent() || watched.failure.is_some();
        Self {
            servers: with_rows.collect(),
            silent: watch.servers.values().filter(is_silent).collect(),
            num_more: watch.num_more,
            order,
        }
    }

    /// Writes a line for each server.
    pub(super) fn write_json(&self, out: &mut Out) -> Result<(), Failure> {
        for (server, rows) in &self.servers {
            out.json(&with_server(server, rows.to_json()))?;
        }
        for watched in &self.silent {
            let failure = watched.failure.as_ref().map(Failure::to_json);
            let failure = failure.unwrap_or_else(|| json!({ "error": NO_REPLY }));
            out.json(&with_server(&watched.server, failure))?;
        }
        Ok(())
    }

    /// Writes the table. On a terminal, it overwrites the previous table and is cut to the height.
    pub(super) fn write(&self, out: &mut Out, is_live: bool) -> Result<(), Failure> {
        let size = is_live.then(|| rustix::termios::tcgetwinsize(std::io::stdout()).ok());
        let size = size
            .flatten()
            .filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (height, width) = size.map_or((usize::MAX, usize::MAX), |size| {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        });
        let mut lines = self.lines(width);
        let num_lines = lines.len();
        // The cursor needs the last line.
        if num_lines >= height {
            lines.truncate(height.saturating_sub(2));
            lines.push(format!("  {} more", num_lines - lines.len()));
        }
        let (home, end_of_line, end) = match is_live {
            true => ("\x1b[H", "\x1b[K", "\x1b[J"),
            false => ("", "", ""),
        };
        write!(out, "{home}")?;
        for line in lines {
            let line: String = line.chars().take(width).collect();
            writeln!(out, "{}{end_of_line}", line.trim_end())?;
        }
        write!(out, "{end}")?;
        Ok(())
    }

    fn lines(&self, room: usize) -> Vec<String> {
        let mut rows: Vec<(&Row, Option<u32>)> = { self.servers.iter() }
            .flat_map(|(server, rows)| rows.iter().map(|row| (row, server.pid)))
            .collect();
        rows.sort_by(|(a, _), (b, _)| a.compare(b, self.order));
        let sum = |of: fn(&Row) -> f64| rows.iter().map(|(row, _)| of(row)).sum::<f64>();
        let figures = format!(
            "{} processes, {:.1} % of a processor, {:.1} MB",
            rows.len(),
            sum(Row::percent),
            sum(Row::resident),
        );
        let only = match (&self.servers[..], &self.silent[..], self.num_more) {
            ([(only, _)], [], 0) => Some(only),
            _ => None,
        };
        let mut lines = match only {
            Some(only) => vec![
                format!("server {}", node::describe(only)),
                format!("  {figures}"),
            ],
            None => vec![
                format!("{} servers", self.servers.len()),
                format!("  {figures}"),
            ],
        };
        for watched in self.silent.iter().take(MOST_SILENT) {
            let why = watched.failure.as_ref().map_or(NO_REPLY, Failure::message);
            let server = node::describe(&watched.server);
            lines.push(format!("  server {server}: {}", printable(why.as_bytes())));
        }
        let num_more = self.silent.len().saturating_sub(MOST_SILENT) + self.num_more;
        if num_more > 0 {
            lines.push(format!("  {num_more} more servers have no figures here"));
        }
        for (nspace, pending) in self.servers.iter().flat_map(|(_, rows)| rows.pending()) {
            let job = printable(nspace.as_bytes());
            let all = pending::lines(&pending::shown(pending), nspace);
            let shown = all.iter().take(MOST_PENDING);
            lines.extend(shown.map(|line| format!("  {job}: {line}")));
            if let more @ 1.. = all.len().saturating_sub(MOST_PENDING) {
                lines.push(format!("  {job}: {more} more operations"));
            }
        }
        let cells: Vec<_> = { rows.iter() }
            .map(|(row, server)| row.cells(*server))
            .collect();
        lines.extend(table(&cells, only.is_none(), room));
        lines
    }
}

/// The reason for the lack of figures of a server that is still awaited.
const NO_REPLY: &str = "no reply yet";

/// Adds the name, process and owner of a server to a JSON object.
fn with_server(server: &FoundServer, of: Json) -> Json {
    let mut line = json!({
        "server": server.uri.server.nspace.as_text().to_str_lossy(),
        "server_pid": server.pid,
    });
    if let Some(line) = line.as_object_mut() {
        if let Some(owner) = server.owner {
            line.insert("user".to_owned(), owner.into());
        }
        if let Json::Object(of) = of {
            line.extend(of);
        }
    }
    line
}

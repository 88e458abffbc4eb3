// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of a snapshot: their order, and the columns that fit the terminal.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Instant;

use pmix_launch::PendingOperations;
use pmix_types::{Info, Proc, Rank, Value, keys};
use serde_json::{Value as Json, json};

use crate::args::TopOrder;
use crate::style::printable;
use crate::tool::pending;

/// The resource usage of a process.
#[derive(Clone, Debug)]
pub(in crate::tool) struct Row {
    proc: Proc<'static>,
    pid: i32,
    node: String,
    command: String,
    state: String,
    /// The processor time in seconds.
    seconds: f64,
    /// The share of a processor in percent, since the previous snapshot, or else since the start of
    /// the process.
    percent: f64,
    threads: u16,
    /// The memory in megabytes.
    resident: f64,
    virtual_size: f64,
}

impl Row {
    /// Returns the rank of the process.
    pub(in crate::tool) fn rank(&self) -> Rank {
        self.proc.rank
    }

    /// Returns `true` if a signal has stopped the process.
    pub(in crate::tool) fn is_stopped(&self) -> bool {
        self.state == "T"
    }

    /// Returns the share of a processor in percent, and the processor time in seconds.
    pub(in crate::tool) fn processor_use(&self) -> (f64, f64) {
        (tenths(self.percent), self.seconds)
    }

    /// Reads the resource usage of a process. Returns `None` if the info does not name the process.
    pub(in crate::tool) fn of(info: &Info<'_>) -> Option<Self> {
        let figures = info.value.as_infos().ok()?;
        let value = |key: &str| {
            let info = figures.iter().find(|info| info.key.is(key));
            info.map(|info| &info.value)
        };
        let Some(Value::Proc(proc)) = value(keys::PROCID) else {
            return None;
        };
        let text = |key| match value(key) {
            Some(Value::String(Some(text))) => text.to_str_lossy().into_owned(),
            _ => String::new(),
        };
        let real = |key| match value(key) {
            Some(Value::Float(number)) if number.is_finite() => f64::from(*number),
            _ => 0.0,
        };
        let number = |key| value(key).and_then(|value| value.to_number().ok());
        let seconds = match value(keys::PROC_TIME) {
            Some(Value::Timeval(time)) => {
                let micros = i32::try_from(time.tv_usec).unwrap_or_default();
                let whole = i32::try_from(time.tv_sec).unwrap_or(i32::MAX);
                f64::from(whole) + f64::from(micros) / 1e6
            }
            _ => 0.0,
        };
        Some(Self {
            proc: Proc::new(proc.nspace.as_bytes().to_vec(), proc.rank),
            pid: value(keys::PROC_PID)
                .and_then(|pid| pid.to_number().ok())
                .unwrap_or_default(),
            node: text(keys::HOSTNAME),
            command: text(keys::CMD_LINE),
            state: text(keys::PROC_OS_STATE),
            seconds,
            percent: real(keys::PROC_PERCENT_CPU),
            threads: number(keys::PROC_NUM_THREADS).unwrap_or_default(),
            resident: real(keys::PROC_RSS),
            virtual_size: real(keys::PROC_VSIZE),
        })
    }

    /// Compares two processes: highest usage first, then by job and rank.
    pub(super) fn compare(&self, other: &Self, order: TopOrder) -> Ordering {
        let most = |of: fn(&Self) -> f64| of(other).total_cmp(&of(self));
        let first = match order {
            TopOrder::Cpu => most(|row| row.percent),
            TopOrder::Time => most(|row| row.seconds),
            TopOrder::Memory => most(|row| row.resident),
            TopOrder::Rank => Ordering::Equal,
        };
        let name = |row: &Self| row.proc.rank;
        let jobs = self
            .proc
            .nspace
            .as_bytes()
            .cmp(other.proc.nspace.as_bytes());
        first.then(jobs).then_with(|| name(self).cmp(&name(other)))
    }

    /// Returns the share of a processor in percent, unrounded.
    pub(super) fn percent(&self) -> f64 {
        self.percent
    }

    /// Returns the memory in megabytes.
    pub(super) fn resident(&self) -> f64 {
        self.resident
    }

    /// Returns the cells of the process. `server` is the process of its server.
    pub(super) fn cells(&self, server: Option<u32>) -> Cells {
        Cells {
            columns: [
                printable(self.proc.nspace.as_bytes()).to_string(),
                server.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
                self.proc.rank.to_string(),
                self.pid.to_string(),
                printable(self.state.as_bytes()).to_string(),
                format!("{:.1}", self.percent),
                clock(self.seconds),
                format!("{:.1}", self.resident),
                format!("{:.1}", self.virtual_size),
                self.threads.to_string(),
            ],
            command: printable(self.command.as_bytes()).to_string(),
        }
    }

    fn to_json(&self) -> Json {
        json!({
            "nspace": self.proc.nspace.as_text().to_str_lossy(),
            "rank": self.proc.rank.as_raw(),
            "pid": self.pid,
            "node": self.node,
            "state": self.state,
            "cpu_percent": tenths(self.percent),
            "cpu_seconds": self.seconds,
            "rss_mb": tenths(self.resident),
            "vsize_mb": tenths(self.virtual_size),
            "threads": self.threads,
            "command": self.command,
        })
    }
}

/// The processes of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    at: Option<Instant>,
    /// The operations in which processes wait, with the names of their jobs.
    pending: Vec<(String, PendingOperations)>,
}

impl Rows {
    /// Sets the next snapshot, and computes shares from the processor time since the previous one.
    pub(super) fn next(&mut self, mut rows: Vec<Row>, now: Instant) {
        let elapsed = self
            .at
            .map(|at| now.saturating_duration_since(at).as_secs_f64());
        if let Some(elapsed) = elapsed.filter(|elapsed| *elapsed > 0.0) {
            let before: HashMap<_, _> = (self.rows.iter())
                .map(|row| ((&row.proc, row.pid), row.seconds))
                .collect();
            for row in &mut rows {
                if let Some(before) = before.get(&(&row.proc, row.pid)) {
                    row.percent = ((row.seconds - before) / elapsed * 100.0).max(0.0);
                }
            }
        }
        self.rows = rows;
        self.at = Some(now);
    }

    /// Sets the operations in which processes wait.
    pub(super) fn set_pending(&mut self, pending: Vec<(String, PendingOperations)>) {
        self.pending = pending;
    }

    /// Sorts the processes: highest usage first, then by job and rank.
    pub(super) fn sort(&mut self, order: TopOrder) {
        self.rows.sort_by(|a, b| a.compare(b, order));
    }

    pub(super) fn to_json(&self) -> Json {
        json!({
            "procs": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "pending": self.pending.iter().map(|(nspace, pending)| json!({
                "nspace": nspace,
                "operations": pending::to_json(pending),
            })).collect::<Vec<_>>(),
        })
    }

    /// Returns `true` if there is no process.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the processes.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Returns the operations in which processes wait, with the names of their jobs.
    pub(super) fn pending(&self) -> &[(String, PendingOperations)] {
        &self.pending
    }
}

/// Rounds a number to one decimal place, for display.
fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Formats seconds as minutes, seconds and hundredths.
fn clock(seconds: f64) -> String {
    let minutes = (seconds / 60.0).floor();
    format!("{minutes:.0}:{:05.2}", seconds - minutes * 60.0)
}

/// A column: its title, its width, and its alignment.
struct Column {
    title: &'static str,
    width: usize,
    is_left: bool,
}

impl Column {
    fn put(&self, line: &mut String, text: &str) {
        let width = self.width;
        line.push_str(&match self.is_left {
            true => format!("{text:<width$} "),
            false => format!("{text:>width$} "),
        });
    }
}

/// The cells of a process in the order of the columns, and its command line.
pub(super) struct Cells {
    pub(super) columns: [String; 10],
    pub(super) command: String,
}

/// The title of the column of the servers.
const SERVER: &str = "server";

/// The columns that are omitted if the terminal is narrow, in this order. Job, rank and share of a
/// processor are always printed.
const OPTIONAL_COLUMNS: [&str; 7] = ["MB virt", "thr", "time", "S", "pid", "MB", SERVER];

/// The minimum width of the command. For less, columns are omitted.
const COMMAND_WIDTH: usize = 10;

/// The minimum width for the name of a job. If the name is longer, its end is printed.
const MIN_JOB_WIDTH: usize = 8;

/// Returns the header of the table and a line for each process, with the columns that fit `room`
/// characters. Processes of one server have no column for it.
pub(super) fn table(rows: &[Cells], has_servers: bool, room: usize) -> Vec<String> {
    let named = rows.iter().map(|row| row.columns[0].chars().count());
    let job = named.max().unwrap_or(0).max(3);
    let columns = [
        ("job", job),
        (SERVER, 8),
        ("rank", 6),
        ("pid", 8),
        ("S", 1),
        ("cpu %", 6),
        ("time", 11),
        ("MB", 9),
        ("MB virt", 9),
        ("thr", 4),
    ];
    let mut columns = columns.map(|(title, width)| {
        let is_left = title == "job";
        (title != SERVER || has_servers).then_some(Column {
            title,
            width,
            is_left,
        })
    });
    let taken = |columns: &[Option<Column>]| {
        let widths = columns.iter().flatten().map(|column| column.width + 1);
        widths.sum::<usize>() + 2 + COMMAND_WIDTH
    };
    for title in OPTIONAL_COLUMNS {
        if taken(&columns) > room
            && let Some(dropped) = { columns.iter_mut() }
                .find(|column| column.as_ref().is_some_and(|column| column.title == title))
        {
            *dropped = None;
        }
    }
    let beyond = taken(&columns).saturating_sub(room);
    if let Some(job) = columns[0].as_mut() {
        job.width = job
            .width
            .saturating_sub(beyond)
            .max(MIN_JOB_WIDTH.min(job.width));
    }
    let titles = columns.each_ref().map(|column| {
        let title = column.as_ref().map(|column| column.title);
        title.unwrap_or_default().to_owned()
    });
    let mut lines = vec![line(&columns, &titles, "command")];
    lines.extend((rows.iter()).map(|row| line(&columns, &row.columns, &row.command)));
    lines
}

fn line(columns: &[Option<Column>; 10], cells: &[String; 10], command: &str) -> String {
    let mut line = "  ".to_owned();
    for (column, cell) in columns.iter().zip(cells) {
        let Some(column) = column else { continue };
        match cell.chars().count().checked_sub(column.width) {
            Some(beyond @ 1..) if column.is_left => {
                let end: String = cell.chars().skip(beyond + 1).collect();
                column.put(&mut line, &format!("…{end}"));
            }
            _ => column.put(&mut line, cell),
        }
    }
    line.push_str(command);
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pmix_types::{Rank, Timeval};

    use super::*;

    fn row(rank: u32, seconds: i64, resident: f32) -> Row {
        let time = Timeval {
            tv_sec: seconds,
            tv_usec: 500_000,
        };
        let figures = vec![
            Info::new(keys::PROCID, Proc::new("job", Rank::new(rank))),
            Info::new(keys::PROC_PID, Value::Pid(100)),
            Info::new(keys::PROC_TIME, Value::Timeval(time)),
            Info::new(keys::PROC_PERCENT_CPU, Value::Float(7.0)),
            Info::new(keys::PROC_RSS, Value::Float(resident)),
        ];
        Row::of(&Info::new(keys::PROC_RESOURCE_USAGE, figures)).unwrap()
    }

    fn ranks(rows: &Rows) -> Vec<u32> {
        rows.rows.iter().map(|row| row.proc.rank.as_raw()).collect()
    }

    #[test]
    fn the_share_is_that_since_the_snapshot_before() {
        let (mut rows, now) = (Rows::default(), Instant::now());
        rows.next(vec![row(0, 1, 3.0), row(1, 1, 2.0)], now);
        assert_eq!(rows.rows[0].percent, 7.0, "since its start");
        let later = now + Duration::from_secs(4);
        rows.next(vec![row(1, 3, 2.0), row(0, 1, 3.0), row(2, 9, 1.0)], later);
        let shares: Vec<_> = rows.rows.iter().map(|row| row.percent).collect();
        assert_eq!(shares, [50.0, 0.0, 7.0]);
        for (order, expected) in [
            (TopOrder::Cpu, [1, 2, 0]),
            (TopOrder::Time, [2, 1, 0]),
            (TopOrder::Memory, [0, 1, 2]),
            (TopOrder::Rank, [0, 1, 2]),
        ] {
            rows.sort(order);
            assert_eq!(ranks(&rows), expected, "{order:?}");
        }
    }

    #[test]
    fn a_client_needs_its_name_and_nothing_else() {
        assert!(Row::of(&Info::new("k", true)).is_none());
        assert!(Row::of(&Info::new("k", Vec::<Info<'_>>::new())).is_none());
        let only = vec![Info::new(keys::PROCID, Proc::new("job", Rank::new(0)))];
        assert_eq!(Row::of(&Info::new("k", only)).unwrap().resident, 0.0);
        let mad = vec![
            Info::new(keys::PROCID, Proc::new("job", Rank::new(0))),
            Info::new(keys::PROC_RSS, Value::Float(f32::NAN)),
            Info::new(
                keys::PROC_TIME,
                Value::Timeval(Timeval {
                    tv_sec: i64::MAX,
                    tv_usec: i64::MIN,
                }),
            ),
        ];
        let row = Row::of(&Info::new("k", mad)).unwrap();
        assert!(row.resident == 0.0 && row.seconds.is_finite());
    }

    #[test]
    fn time_has_minutes() {
        assert_eq!(clock(0.0), "0:00.00");
        assert_eq!(clock(61.5), "1:01.50");
        assert_eq!(clock(6000.25), "100:00.25");
    }

    fn lines(job: &str, room: usize) -> Vec<String> {
        let cells = [
            job, "77", "0", "4714", "R", "99.8", "1:02.31", "48.3", "210.7", "4",
        ];
        let row = Cells {
            columns: cells.map(str::to_owned),
            command: "./solver in.dat".to_owned(),
        };
        table(&[row], false, room)
    }

    #[test]
    fn columns_go_before_the_command_does() {
        let wide = lines("run-n01-4711@1", usize::MAX);
        assert!(wide[0].contains("MB virt  thr command"), "{wide:?}");
        assert_eq!(wide, lines("run-n01-4711@1", 92));
        let narrow = lines("run-n01-4711@1", 60);
        assert_eq!(
            narrow[0],
            "  job              rank      pid  cpu %        MB command"
        );
        assert_eq!(
            narrow[1],
            "  run-n01-4711@1      0     4714   99.8      48.3 ./solver in.dat"
        );
        let least = lines("run-n01-4711@1", 40);
        assert_eq!(least[1], "  …n-n01-4711@1      0   99.8 ./solver in.dat");
        let none = lines("run-n01-4711@1", 1);
        assert_eq!(none[1], "  …-4711@1      0   99.8 ./solver in.dat");
        assert_eq!(lines("j@1", 1)[1], "  j@1      0   99.8 ./solver in.dat");
    }
}

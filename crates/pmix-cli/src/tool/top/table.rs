// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of `pmix top`: which of them there is room for.

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
    pub(super) columns: [String; 9],
    pub(super) command: String,
}

/// The columns that go where there is no room, the first of these first; job, rank and share of a processor stay.
const OPTIONAL_COLUMNS: [&str; 6] = ["MB virt", "thr", "time", "S", "pid", "MB"];

/// The room that the command is to have before columns go.
const COMMAND_WIDTH: usize = 10;

/// The fewest letters of the name of a job, of which the end tells jobs apart.
const MIN_JOB_WIDTH: usize = 8;

/// Returns the head of the table and a line for each process, with the columns that fit a line of `room`
/// characters.
pub(super) fn table(rows: &[Cells], room: usize) -> Vec<String> {
    let named = rows.iter().map(|row| row.columns[0].chars().count());
    let job = named.max().unwrap_or(0).max(3);
    let columns = [
        ("job", job),
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
        Some(Column {
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

fn line(columns: &[Option<Column>; 9], cells: &[String; 9], command: &str) -> String {
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
    use super::*;

    fn lines(job: &str, room: usize) -> Vec<String> {
        let cells = [
            job, "0", "4714", "R", "99.8", "1:02.31", "48.3", "210.7", "4",
        ];
        let row = Cells {
            columns: cells.map(str::to_owned),
            command: "./solver in.dat".to_owned(),
        };
        table(&[row], room)
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents of a rendezvous file: the name and address of a server.
//!
//! | line | field | since |
//! | --- | --- | --- |
//! | 1 | `<nspace>.<rank>;tcp4://<address>:<port>` or `tcp6://[<address>]:<port>` | 2.0 |
//! | 2 | release, for example `5.0.11` | 2.1 |
//! | 3 | process id | 3.0 |
//! | 4 | `<user>:<group>`, effective ids | 3.0 |
//! | 5 | start time of the server in the format of ctime(3), here in UTC | 3.0 |
//! | 6 | empty, because the text of ctime ends with a newline | 3.0 |
//!
//! Frozen: append only.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The contents of a rendezvous file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The name and address of the server.
    pub uri: String,
    /// The release whose protocol the server uses.
    pub release: String,
    /// The process id of the server.
    pub pid: u32,
    /// The effective user and group of the server.
    pub user: (u32, u32),
    /// The start time of the server.
    pub started: SystemTime,
}

impl Contact {
    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            uri,
            release,
            pid,
            user: (uid, gid),
            started,
        } = self;
        let started = ctime(*started);
        format!("{uri}\n{release}\n{pid}\n{uid}:{gid}\n{started}\n\n")
    }
}

/// The lines of a rendezvous file of any release. Older releases write fewer lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContactLines<'a> {
    /// The name and the address of the server, as in the file.
    pub uri: &'a str,
    /// The release of the server; empty in a file of 2.0.
    pub release: &'a str,
    /// The process id of the server, if the line has one.
    pub pid: Option<u32>,
    /// The effective user and group of the server, if the line has them.
    pub user: Option<(u32, u32)>,
    /// The start time in the time zone of the server; empty if the file does not have it.
    pub started: &'a str,
}

impl<'a> ContactLines<'a> {
    /// Parses the text of a file. Returns `None` if its first line is not an address.
    #[must_use]
    pub fn read(text: &'a str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        let uri = lines.next().filter(|uri| uri.contains(';'))?;
        let release = lines.next().unwrap_or_default();
        let pid = lines.next().and_then(|pid| pid.parse().ok());
        let user = lines.next().and_then(|ids| {
            let (uid, gid) = ids.split_once(':')?;
            Some((uid.parse().ok()?, gid.parse().ok()?))
        });
        Some(Self {
            uri,
            release,
            pid,
            user,
            started: lines.next().unwrap_or_default(),
        })
    }
}

/// Formats a time like ctime(3), in UTC and without the newline.
#[must_use]
pub fn ctime(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let since: Duration = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let week_day = usize::try_from(days % 7).map_or("", |day| DAYS[day]);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let month = MONTHS[month];
    format!("{week_day} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// Converts a number of days since 1970-01-01 into year, month (0 is January) and day.
fn date(mut days: u64) -> (u64, usize, u64) {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    // The calendar repeats after 400 years, which have 146,097 days.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30];
    let mut month = 0;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> String {
        ctime(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn writes_times_as_the_c_library_does() {
        // The expected texts are from `TZ=UTC LC_ALL=C date -d @N +%c` and from ctime(3).
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(at(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(at(1_795_232_337), "Sat Nov 21 03:38:57 2026");
        assert_eq!(at(4_107_542_399), "Sun Feb 28 23:59:59 2100");
        assert_eq!(at(4_107_542_400), "Mon Mar  1 00:00:00 2100");
    }

    #[test]
    fn a_file_has_the_lines_that_tools_expect() {
        let contact = Contact {
            uri: "server.0;tcp4://127.0.0.1:4711".to_owned(),
            release: "5.0.11".to_owned(),
            pid: 77,
            user: (1000, 100),
            started: UNIX_EPOCH,
        };
        let text = contact.text();
        assert_eq!(
            text,
            "server.0;tcp4://127.0.0.1:4711\n5.0.11\n77\n1000:100\nThu Jan  1 00:00:00 1970\n\n"
        );
        let lines = ContactLines {
            uri: &contact.uri,
            release: "5.0.11",
            pid: Some(77),
            user: Some((1000, 100)),
            started: "Thu Jan  1 00:00:00 1970",
        };
        assert_eq!(ContactLines::read(&text), Some(lines));
    }

    #[test]
    fn a_truncated_file_gives_the_lines_that_are_present() {
        for none in ["", "server.0", "no uri\n5\n77\n"] {
            assert_eq!(ContactLines::read(none), None, "{none:?}");
        }
        for (text, release, pid, user) in [
            ("s.0;tcp4://x", "", None, None),
            ("s.0;tcp4://x\n5.0.11\n7x\n1", "5.0.11", None, None),
            ("s.0;tcp4://x\n4.2\n7\n1:-2", "4.2", Some(7), None),
            ("s.0;tcp4://x\n4.2\n7\n1:2", "4.2", Some(7), Some((1, 2))),
        ] {
            let lines = ContactLines::read(text).unwrap();
            assert_eq!((lines.release, lines.pid, lines.user), (release, pid, user));
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of the library, written to standard error or a file if the environment asks for it.
//!
//! The parameters are `pmix_log_level`, `pmix_log_file` and the OpenPMIx parameters whose names end in `_verbose`.
//! The file is opened for each line and each process has its own lock, so the child of a fork can log like its
//! parent.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use pmix_mca::Environment;
use rustix::fs::OFlags;
use tracing::dispatcher::{Dispatch, set_global_default};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::per_process::PerProcess;

/// The maximum length of a line in bytes; longer lines are cut.
const MAX_LINE: usize = 4096;

/// The maximum number of bytes of one character in a line, that of an escaped one (`\u{10ffff}`).
const MAX_CHAR: usize = 10;

/// The names of the levels, the least verbose first.
const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// The level and destination of the log.
#[derive(Debug, PartialEq, Eq)]
struct Log {
    level: LevelFilter,
    /// `true` if the environment turns the log off.
    is_off: bool,
    /// The file to append to; `None` for standard error.
    file: Option<PathBuf>,
    /// The value in the environment that is not the name of a level.
    unknown: Option<String>,
}

static LOG: PerProcess<OnceLock<Log>> = PerProcess::new(OnceLock::new());

/// The errors that [`report_setting`] has logged.
static REPORTED: PerProcess<Mutex<Vec<String>>> = PerProcess::new(Mutex::new(Vec::new()));

/// Logs an error in the settings of this process, because a status does not tell the caller which setting is wrong.
/// Each error is logged once per process, at every level but `off`.
pub(crate) fn report_setting(why: &dyn fmt::Display) {
    // A set-user-ID program must not write to a file or stream chosen by its caller.
    if pmix_mca::gained_rights() {
        return;
    }
    let log = LOG
        .get()
        .get_or_init(|| Log::of(&Environment::of_process()));
    let why = why.to_string();
    let mut reported = { REPORTED.get().lock() }.unwrap_or_else(PoisonError::into_inner);
    if log.is_off || reported.contains(&why) {
        return;
    }
    for text in why.lines() {
        log.report("error", |line| line.record(text.trim_start()));
    }
    reported.push(why);
}

/// Starts the log that the environment asks for. Later calls have no effect.
pub(crate) fn begin() {
    let mut is_first = false;
    let log = LOG.get().get_or_init(|| {
        is_first = true;
        Log::of(&Environment::of_process())
    });
    if is_first && let Some(unknown) = &log.unknown {
        let names = LEVELS.map(|(name, _)| name).join(", ");
        let why = format!("PMIX_MCA_pmix_log_level is `{unknown}`, expected one of {names}");
        log.report("warn", |line| line.record(&why));
    }
    if is_first && log.level != LevelFilter::OFF {
        // The call fails if this library is linked into a program that has a subscriber; that one receives the
        // events.
        let _ = set_global_default(Dispatch::new(log));
    }
}

/// Returns the level for the number of an OpenPMIx parameter that ends in `_verbose`.
fn level_of(verbosity: i64) -> LevelFilter {
    match verbosity {
        ..=0 => LevelFilter::OFF,
        1..=4 => LevelFilter::INFO,
        5..=9 => LevelFilter::DEBUG,
        10.. => LevelFilter::TRACE,
    }
}

impl Log {
    fn of(environment: &Environment) -> Self {
        let mut log = Self {
            level: LevelFilter::OFF,
            is_off: false,
            file: None,
            unknown: None,
        };
        let mut stated = None;
        for (name, value) in &environment.vars {
            let name = name
                .to_str()
                .and_then(|name| name.strip_prefix("PMIX_MCA_"));
            let (Some(name), Some(text)) = (name, value.to_str()) else {
                continue;
            };
            match name {
                "pmix_log_level" if !text.trim().is_empty() => {
                    let name = text.trim().to_ascii_lowercase();
                    let level = LEVELS.iter().find(|(known, _)| *known == name);
                    stated = level.map(|(_, level)| *level);
                    log.unknown = level.is_none().then_some(name);
                }
                "pmix_log_file" if !text.is_empty() => log.file = Some(PathBuf::from(text)),
                name if name.ends_with("_verbose") => {
                    let asked = text.trim().parse().map_or(LevelFilter::OFF, level_of);
                    log.level = log.level.max(asked);
                }
                _ => {}
            }
        }
        log.is_off = stated == Some(LevelFilter::OFF);
        log.level = stated.unwrap_or(log.level);
        log
    }

    /// Writes a line with a level; `add` appends the message.
    fn report(&self, level: &str, add: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("libpmix {} {level}:", std::process::id()));
        add(&mut line);
        line.0.push('\n');
        self.write(line.0.as_bytes());
    }

    fn write(&self, line: &[u8]) {
        // Other users may write to the directory of the file: follow no link, do not block on a FIFO, and adopt no
        // terminal.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let is_written = self.file.as_ref().is_some_and(|path| {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600);
            options.custom_flags(flags.bits().cast_signed());
            let opened = options.open(path);
            opened.is_ok_and(|mut to| is_own(&to) && to.write_all(line).is_ok())
        });
        if !is_written {
            // The log is the last resort: there is no place to report that standard error is closed.
            let _ = rustix::io::write(rustix::stdio::stderr(), line);
        }
    }
}

impl Subscriber for &'static Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        self.report(&level, |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Returns `true` if a file is a regular file of this process's user, so that no other user controls it.
fn is_own(file: &File) -> bool {
    let user = rustix::process::geteuid().as_raw();
    file.metadata()
        .is_ok_and(|about| about.is_file() && about.uid() == user)
}

/// A line of the log. Control characters, which may come from a peer, are escaped.
struct Line(String);

impl Line {
    fn record(&mut self, message: &str) {
        // `write_str` never fails.
        let _ = write!(self, " {message}");
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for one in text.chars() {
            // Leaves room for the end of the line.
            if self.0.len() + MAX_CHAR + 1 > MAX_LINE {
                break;
            }
            match one.is_control() {
                true => self.0.extend(one.escape_default()),
                false => self.0.push(one),
            }
        }
        Ok(())
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // `write_str` never fails.
        let _ = match field.name() {
            "message" => write!(self, " {value:?}"),
            name => write!(self, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(vars: &[(&str, &str)]) -> Log {
        let vars = vars.iter().map(|(name, value)| (name.into(), value.into()));
        Log::of(&Environment {
            vars: vars.collect(),
            cwd: PathBuf::new(),
            home: None,
            system: PathBuf::new(),
        })
    }

    #[test]
    fn the_environment_says_what_is_reported_and_where() {
        let levels = [
            (vec![], LevelFilter::OFF),
            (vec![("PMIX_MCA_ptl_base_verbose", "0")], LevelFilter::OFF),
            (
                vec![("PMIX_MCA_ptl_base_verbose", "much")],
                LevelFilter::OFF,
            ),
            (vec![("PMIX_MCA_ptl_base_verbose", "1")], LevelFilter::INFO),
            (
                vec![
                    ("PMIX_MCA_pmix_server_get_verbose", "5"),
                    ("PMIX_MCA_ptl_base_verbose", "1"),
                ],
                LevelFilter::DEBUG,
            ),
            (
                vec![("PMIX_MCA_gds_base_verbose", "100")],
                LevelFilter::TRACE,
            ),
            (
                vec![
                    ("PMIX_MCA_pmix_log_level", "warn"),
                    ("PMIX_MCA_gds_base_verbose", "100"),
                ],
                LevelFilter::WARN,
            ),
            (
                vec![
                    ("PMIX_MCA_pmix_log_level", "off"),
                    ("PMIX_MCA_gds_base_verbose", "100"),
                ],
                LevelFilter::OFF,
            ),
            (vec![("OMPI_MCA_btl_base_verbose", "100")], LevelFilter::OFF),
        ];
        for (vars, level) in levels {
            assert_eq!(log(&vars).level, level, "{vars:?}");
        }
        // An empty value counts as unset. An unknown level is logged and has no other effect.
        let verbose = ("PMIX_MCA_gds_base_verbose", "1");
        let empty = log(&[("PMIX_MCA_pmix_log_level", ""), verbose]);
        assert_eq!((empty.level, empty.unknown), (LevelFilter::INFO, None));
        for unknown in ["loud", "3"] {
            let unclear = log(&[("PMIX_MCA_pmix_log_level", unknown), verbose]);
            let unknown = Some(unknown.to_owned());
            assert_eq!(
                (unclear.level, unclear.unknown),
                (LevelFilter::INFO, unknown)
            );
        }
        let at = log(&[("PMIX_MCA_pmix_log_file", "/var/log/pmix")]);
        assert_eq!(at.file, Some(PathBuf::from("/var/log/pmix")));
        assert_eq!(log(&[("PMIX_MCA_pmix_log_file", "")]).file, None);
    }

    #[test]
    fn a_line_is_bounded_and_printable() {
        for text in ["\u{1b}", "\u{9f}", "\u{1f600}", "x"] {
            let mut line = Line(String::new());
            line.record(&text.repeat(2 * MAX_LINE));
            let len = line.0.len();
            assert!(MAX_LINE - 2 * MAX_CHAR < len && len < MAX_LINE, "{len}");
            assert!(!line.0.contains(char::is_control), "{text:?}");
        }
        let mut line = Line(String::new());
        writeln!(line, "\u{1b}").unwrap();
        assert_eq!(line.0, "\\u{1b}\\n");
    }
}

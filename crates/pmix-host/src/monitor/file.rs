// SPDX-License-Identifier: MIT OR Apache-2.0
//! The monitor of a file, whose changes show that a program makes progress.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use pmix_types::{Info, Proc, Status, Text, Value, keys};

use super::file_checks::{FileCheckId, FileChecks, FileState};
use super::{error, number, text, wrong};
use crate::Error;

/// Maximum length of a path that the system opens (`PATH_MAX` includes the NUL).
const LONGEST_PATH: usize = 4095;

/// The changes of a file that count as a sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Signs {
    size: bool,
    access: bool,
    modification: bool,
}

/// The monitor of one file.
#[derive(Debug)]
pub(super) struct FileMonitor {
    path: PathBuf,
    signs: Signs,
    /// Number of consecutive checks that can be without a sign of life.
    drops: u32,
    /// Number of consecutive checks without a sign of life.
    missed: u32,
    seen: Option<FileState>,
    /// The last check at the file.
    last_check: Option<FileCheckId>,
    /// `true` if the check was requested before the last deadline.
    is_late: bool,
    /// The result of the previous check, if it completed after the last deadline.
    late: Option<Option<FileState>>,
}

impl FileMonitor {
    /// Parses a request. Returns the monitor and the time between two checks.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` without an absolute path of at most 4095 bytes or without a time, and for values of
    /// other types.
    pub(super) fn read(
        monitor: &Info<'_>,
        directives: &[Info<'_>],
    ) -> Result<(Duration, Self), Error> {
        let bad = |message: &str| Err(error(Status::ERR_BAD_PARAM, message));
        let path = match text(monitor)? {
            Some(path) => PathBuf::from(OsStr::from_bytes(path.as_bytes())),
            None => return Err(wrong(monitor)),
        };
        if !path.is_absolute() {
            return bad("pmix.monitor.fmon requires an absolute path of a file");
        }
        let len = path.as_os_str().len();
        if len > LONGEST_PATH {
            let message = format!("a path of {len} bytes exceeds the limit of {LONGEST_PATH}");
            return bad(&message);
        }
        let (mut signs, mut seconds, mut drops) = (Signs::default(), 0, 0);
        for info in directives {
            // Some libraries pass a boolean, others the path again.
            let is_wanted = !matches!(info.value, Value::Bool(false));
            match info.key.as_text().as_str() {
                Some(keys::MONITOR_FILE_SIZE) => signs.size = is_wanted,
                Some(keys::MONITOR_FILE_ACCESS) => signs.access = is_wanted,
                Some(keys::MONITOR_FILE_MODIFY) => signs.modification = is_wanted,
                Some(keys::MONITOR_FILE_CHECK_TIME) => seconds = number(info)?,
                Some(keys::MONITOR_FILE_DROPS) => drops = number(info)?,
                _ => {}
            }
        }
        if signs == Signs::default() {
            signs.modification = true;
            signs.size = true;
        }
        if seconds == 0 {
            return bad("missing pmix.monitor.ftime, the time between checks of the file");
        }
        let monitor = Self {
            path,
            signs,
            drops,
            missed: 0,
            seen: None,
            last_check: None,
            is_late: false,
            late: None,
        };
        Ok((Duration::from_secs(seconds.into()), monitor))
    }

    /// Records the state of the file at the beginning.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`FileChecks::request`].
    pub(super) fn begin(
        &mut self,
        checks: &mut FileChecks,
        owner: &Proc<'static>,
    ) -> Result<(), Error> {
        checks.drain();
        let (before, will_end) = (checks.last(), checks.is_idle(owner));
        let last_check = checks.request(owner, &self.path)?;
        self.last_check = Some(last_check);
        // A thread with open checks may be blocked by a file system, and the request must not wait for it.
        if will_end {
            checks.wait(before);
            self.seen = checks.take(owner, last_check).flatten();
        }
        Ok(())
    }

    /// Stores the result of the last requested check if it was late, and requests another one unless the last one is
    /// still running.
    pub(super) fn request_check(&mut self, checks: &mut FileChecks, owner: &Proc<'static>) {
        self.is_late = self.last_check.is_some_and(|id| checks.is_open(owner, id));
        if self.is_late {
            return;
        }
        self.late = self.last_check.and_then(|id| checks.take(owner, id));
        self.last_check = checks
            .request(owner, &self.path)
            .inspect_err(|error| tracing::debug!("cannot check a monitored file: {error}"))
            .ok();
    }

    /// Handles the result of the last completed check. Returns the path when the file has shown no sign of
    /// life in the permitted number of checks, and again only after a sign of life. A check that does not
    /// complete before the next one counts as no sign of life.
    ///
    /// DEVIATION: OpenPMIx removes the monitor after the first alert, and sends it when the missed checks reach the
    /// permitted number; `a_file_without_changes_causes_one_alert`.
    pub(super) fn check(
        &mut self,
        checks: &mut FileChecks,
        owner: &Proc<'static>,
    ) -> Option<Text<'static>> {
        let late = self.late.take();
        let result = self.last_check.and_then(|id| checks.take(owner, id));
        // A late result shows a change as well.
        let result = result.or(late);
        // The check could not be requested, which says nothing about the file.
        if result.is_none() && !self.is_late {
            return None;
        }
        let seen = result.flatten();
        // A missing file shows no sign of life; one that was created does.
        let lives = match (self.seen, seen) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(now)) => {
                (self.signs.size && before.size != now.size)
                    || (self.signs.access && before.access != now.access)
                    || (self.signs.modification && before.modification != now.modification)
            }
        };
        if result.is_some() {
            self.seen = seen;
        }
        if lives {
            self.missed = 0;
            return None;
        }
        // One silence causes one alert.
        let is_reported = self.missed > self.drops;
        self.missed = self.missed.saturating_add(1);
        let is_due = !is_reported && self.missed > self.drops;
        is_due.then(|| Text::new(self.path.as_os_str().as_bytes().to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::super::file_checks::tests::Gate;
    use super::*;

    /// A monitor and the threads for it.
    struct Watch {
        monitor: FileMonitor,
        checks: FileChecks,
    }

    impl Watch {
        fn check(&mut self) -> Option<Text<'static>> {
            let before = self.checks.last();
            self.monitor.request_check(&mut self.checks, &owner());
            self.checks.wait(before);
            self.monitor.check(&mut self.checks, &owner())
        }
    }

    fn owner() -> Proc<'static> {
        Proc::new("job", pmix_types::Rank::new(0))
    }

    fn read(path: Value<'static>, directives: &[Info<'_>]) -> Result<(Duration, Watch), Status> {
        let monitor = Info::new(keys::MONITOR_FILE, path);
        let read = FileMonitor::read(&monitor, directives);
        let (period, mut monitor) = read.map_err(|error| error.status())?;
        let mut checks = FileChecks::patient();
        let begun = monitor.begin(&mut checks, &owner());
        begun.map_err(|error| error.status())?;
        Ok((period, Watch { monitor, checks }))
    }

    fn every(seconds: u32) -> Info<'static> {
        Info::new(keys::MONITOR_FILE_CHECK_TIME, seconds)
    }

    #[test]
    fn a_file_without_changes_causes_one_alert() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steps");
        let name = path.to_str().unwrap().to_owned();
        let drops = Info::new(keys::MONITOR_FILE_DROPS, 1_u32);
        let size = Info::new(keys::MONITOR_FILE_SIZE, true);
        let (period, mut monitor) = read(name.clone().into(), &[every(7), drops, size]).unwrap();
        assert_eq!(period, Duration::from_secs(7));
        // A file that does not exist yet can be created later.
        assert_eq!(monitor.check(), None);
        fs::write(&path, "1").unwrap();
        assert_eq!([monitor.check(), monitor.check()], [None, None]);
        let reported = Some(Text::from(name));
        assert_eq!([monitor.check(), monitor.check()], [reported.clone(), None]);
        // The file is written without growth.
        fs::write(&path, "2").unwrap();
        assert_eq!(monitor.check(), None);
        fs::write(&path, "22").unwrap();
        assert_eq!([monitor.check(), monitor.check()], [None, None]);
        fs::remove_file(&path).unwrap();
        assert_eq!([monitor.check(), monitor.check()], [reported, None]);
    }

    #[test]
    fn a_blocked_file_system_is_no_sign_of_life() {
        let gate = Arc::<Gate>::default();
        let monitor = Info::new(keys::MONITOR_FILE, "/hung/absent");
        let (_, mut monitor) = FileMonitor::read(&monitor, &[every(1)]).unwrap();
        let mut checks = FileChecks::with_gate(&gate, Duration::ZERO);
        monitor.begin(&mut checks, &owner()).unwrap();
        let mut watch = Watch { monitor, checks };
        let reported = Some(Text::from("/hung/absent"));
        // The first check is still running, so no other is requested.
        assert_eq!([watch.check(), watch.check()], [reported, None]);
        assert_eq!(watch.checks.last(), 1);
        gate.open();
        while watch.checks.is_open(&owner(), 1) {
            watch.checks.drain();
        }
        watch.check();
        assert_eq!(watch.checks.last(), 2);
    }

    #[test]
    fn each_sign_of_life_is_one_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steps");
        let name = path.to_str().unwrap().to_owned();
        let checks = |sign: Option<&'static str>, change: fn(&fs::File)| {
            let file = fs::File::create(&path).unwrap();
            let past = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
            let times = fs::FileTimes::new().set_accessed(past).set_modified(past);
            file.set_times(times).unwrap();
            let sign = sign.map(|sign| Info::new(sign, true));
            let directives: Vec<_> = sign.into_iter().chain([every(1)]).collect();
            let (_, mut monitor) = read(name.clone().into(), &directives).unwrap();
            change(&file);
            monitor.check().is_none()
        };
        let grows = |file: &fs::File| {
            let past = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
            file.set_len(3).unwrap();
            file.set_times(fs::FileTimes::new().set_accessed(past).set_modified(past))
                .unwrap();
        };
        let is_read = |file: &fs::File| {
            let later = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(2000);
            file.set_times(fs::FileTimes::new().set_accessed(later))
                .unwrap();
        };
        let is_written = |file: &fs::File| {
            let later = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(2000);
            file.set_times(fs::FileTimes::new().set_modified(later))
                .unwrap();
        };
        let (size, access) = (
            Some(keys::MONITOR_FILE_SIZE),
            Some(keys::MONITOR_FILE_ACCESS),
        );
        let write = Some(keys::MONITOR_FILE_MODIFY);
        for (sign, lives) in [
            (size, [true, false, false]),
            (access, [false, true, false]),
            (write, [false, false, true]),
            // By default, growth and writes count.
            (None, [true, false, true]),
        ] {
            let found = [
                checks(sign, grows),
                checks(sign, is_read),
                checks(sign, is_written),
            ];
            assert_eq!(found, lives, "{sign:?}");
        }
    }

    #[test]
    fn a_file_has_its_whole_path_and_a_time() {
        for (path, directives) in [
            (Value::from("/x"), vec![]),
            (Value::from("/x"), vec![every(0)]),
            (
                Value::from("/x"),
                vec![Info::new(keys::MONITOR_FILE_CHECK_TIME, "x")],
            ),
            (Value::from("x"), vec![every(1)]),
            (Value::from("/x".repeat(LONGEST_PATH)), vec![every(1)]),
            (Value::String(None), vec![every(1)]),
            (Value::Uint32(1), vec![every(1)]),
        ] {
            assert_eq!(read(path, &directives).err(), Some(Status::ERR_BAD_PARAM));
        }
    }
}

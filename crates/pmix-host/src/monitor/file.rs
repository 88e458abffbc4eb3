// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that shows that a program goes on, as long as it changes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use pmix_types::{Info, Status, Text, Value, keys};

use super::{error, number, text, wrong};
use crate::Error;

/// How long a path may be: the system opens none that is longer (`PATH_MAX`, with its NUL).
const LONGEST_PATH: usize = 4095;

/// Which changes of a file are a sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Signs {
    size: bool,
    access: bool,
    modification: bool,
}

/// What is seen of a file: its size, and seconds and nanoseconds of when it was last read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    size: u64,
    access: (i64, i64),
    modification: (i64, i64),
}

/// Watches one file.
#[derive(Debug)]
pub(super) struct FileMonitor {
    path: PathBuf,
    signs: Signs,
    /// How many checks in a row may see no sign of life.
    drops: u32,
    /// How many did.
    missed: u32,
    seen: Option<Seen>,
}

impl FileMonitor {
    /// Reads a monitor, and how long the time between two checks is.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` without a file by its whole path, of 4095 bytes at most, or without a time, and for
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
            return bad("pmix.monitor.fmon needs the whole path of a file, from / on");
        }
        let len = path.as_os_str().len();
        if len > LONGEST_PATH {
            let message = format!("a path of {len} bytes: none has more than {LONGEST_PATH}");
            return bad(&message);
        }
        let (mut signs, mut seconds, mut drops) = (Signs::default(), 0, 0);
        for info in directives {
            // Some libraries say whether, others which file once more.
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
            return bad("a file without pmix.monitor.ftime, the time between checks");
        }
        let mut monitor = Self {
            path,
            signs,
            drops,
            missed: 0,
            seen: None,
        };
        monitor.seen = monitor.look();
        Ok((Duration::from_secs(seconds.into()), monitor))
    }

    /// Looks at the file. The path is returned once it has shown no sign of life as often as it may not,
    /// and again only when there was one meanwhile.
    ///
    /// DEVIATION: OpenPMIx forgets the monitor after the first alert, and gives one where the number of
    /// missed checks reaches that which may be missed;
    /// `a_file_that_stands_still_longer_than_it_may_is_told_once`.
    pub(super) fn check(&mut self) -> Option<Text<'static>> {
        let seen = self.look();
        // A file that is not there shows no sign of life, one that has come does.
        let lives = match (self.seen, seen) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(now)) => {
                (self.signs.size && before.size != now.size)
                    || (self.signs.access && before.access != now.access)
                    || (self.signs.modification && before.modification != now.modification)
            }
        };
        self.seen = seen;
        if lives {
            self.missed = 0;
            return None;
        }
        let is_told = self.missed > self.drops;
        self.missed = self.missed.saturating_add(1);
        let is_due = !is_told && self.missed > self.drops;
        is_due.then(|| Text::new(self.path.as_os_str().as_bytes().to_vec()))
    }

    fn look(&self) -> Option<Seen> {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some(Seen {
            size: metadata.size(),
            access: (metadata.atime(), metadata.atime_nsec()),
            modification: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(
        path: Value<'static>,
        directives: &[Info<'_>],
    ) -> Result<(Duration, FileMonitor), Status> {
        let monitor = Info::new(keys::MONITOR_FILE, path);
        FileMonitor::read(&monitor, directives).map_err(|error| error.status())
    }

    fn every(seconds: u32) -> Info<'static> {
        Info::new(keys::MONITOR_FILE_CHECK_TIME, seconds)
    }

    #[test]
    fn a_file_that_stands_still_longer_than_it_may_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steps");
        let name = path.to_str().unwrap().to_owned();
        let drops = Info::new(keys::MONITOR_FILE_DROPS, 1_u32);
        let size = Info::new(keys::MONITOR_FILE_SIZE, true);
        let (period, mut monitor) = read(name.clone().into(), &[every(7), drops, size]).unwrap();
        assert_eq!(period, Duration::from_secs(7));
        // One that is not there yet may come.
        assert_eq!(monitor.check(), None);
        fs::write(&path, "1").unwrap();
        assert_eq!([monitor.check(), monitor.check()], [None, None]);
        let told = Some(Text::from(name));
        assert_eq!([monitor.check(), monitor.check()], [told.clone(), None]);
        // Written without growing.
        fs::write(&path, "2").unwrap();
        assert_eq!(monitor.check(), None);
        fs::write(&path, "22").unwrap();
        assert_eq!([monitor.check(), monitor.check()], [None, None]);
        fs::remove_file(&path).unwrap();
        assert_eq!([monitor.check(), monitor.check()], [told, None]);
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
            // Where nothing is said a file is to grow or to be written.
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

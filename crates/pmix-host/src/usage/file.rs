// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files below `/proc` and the numbers in them.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pmix_types::{ErrorDetail, Status, Timeval};

use crate::Error;

/// The largest number of bytes read of a file. The list of disks of the largest node is shorter.
const MOST: u64 = 1 << 20;

/// Reads the beginning of a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let cannot = |cause: std::io::Error| {
        let status = match cause.kind() {
            std::io::ErrorKind::NotFound => Status::ERR_NOT_FOUND,
            std::io::ErrorKind::PermissionDenied => Status::ERR_NO_PERMISSIONS,
            // The process has just ended.
            _ => Status::ERR_NOT_AVAILABLE,
        };
        Error::from(ErrorDetail::caused(status, path.display(), cause))
    };
    // Most of these files are shorter.
    let mut bytes = Vec::with_capacity(4096);
    let file = File::open(path).map_err(cannot)?;
    file.take(MOST).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

/// Reads the beginning of a file as text. Invalid UTF-8 is replaced.
pub(super) fn read_text(path: &Path) -> Result<String, Error> {
    let bytes = read(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns the number after each name, in lines such as `VmRSS:   1760 kB`; 0 for a missing name.
pub(super) fn named<const N: usize>(text: &str, names: [&str; N]) -> [u64; N] {
    let mut found = [0; N];
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        for (wanted, place) in names.iter().zip(&mut found) {
            if *wanted == name {
                *place = rest.split_whitespace().next().map_or(0, number);
            }
        }
    }
    found
}

/// Parses a number, saturating at the maximum; 0 for other text.
pub(super) fn number(word: &str) -> u64 {
    match word.parse() {
        Ok(number) => number,
        Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => u64::MAX,
        Err(_) => 0,
    }
}

/// Converts kibibytes to mebibytes.
pub(super) fn megabytes(kibibytes: u64) -> f32 {
    real(kibibytes) / 1024.0
}

/// Converts a number to single precision, which is inexact beyond 2^24.
#[allow(
    clippy::cast_precision_loss,
    reason = "the fields of the model have single precision"
)]
pub(super) fn real(number: u64) -> f32 {
    number as f32
}

/// Returns the current time.
pub(super) fn now() -> Timeval {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    Timeval {
        tv_sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        tv_usec: now.subsec_micros().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_so_far_and_no_further() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long");
        let file = File::create(&path).unwrap();
        file.set_len(MOST * 3).unwrap();
        assert_eq!(read(&path).unwrap().len() as u64, MOST);
        let missing = read(&dir.path().join("missing")).unwrap_err();
        assert_eq!(missing.status(), Status::ERR_NOT_FOUND);
        assert!(missing.to_string().contains("missing"), "{missing}");
    }

    #[test]
    fn numbers_follow_their_names() {
        let text = "VmRSS:\t  1760 kB\nVmSize:99999999999999999999 kB\nThreads:\t-1\nno name\n:\n";
        let found = named(text, ["VmSize", "VmRSS", "Threads", "VmPeak"]);
        assert_eq!(found, [u64::MAX, 1760, 0, 0]);
        assert_eq!(megabytes(1536), 1.5);
    }
}

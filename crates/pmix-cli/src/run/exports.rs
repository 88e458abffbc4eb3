// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variables that `-x` and `--export` name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use pmix_launch::Export;

use super::habits::of_bytes;
use crate::failure::Failure;

/// Parses an argument of `-x`. Ignores `ALL`, an argument of srun, because the environment is always passed.
///
/// # Errors
/// The argument has no name of a variable, or is `NONE`.
pub(super) fn export(word: &OsStr) -> Result<Vec<Export>, Failure> {
    if word == "NONE" {
        let failure = Failure::usage(
            "--export NONE is not supported: processes inherit the environment of the launcher",
        );
        return Err(failure.cure("`env -i pmix run` starts the launcher with an empty environment"));
    }
    let words: Vec<OsString> = match word.as_bytes().strip_prefix(b"ALL") {
        Some([]) => return Ok(Vec::new()),
        Some([b',', rest @ ..]) => rest.split(|byte| *byte == b',').map(of_bytes).collect(),
        _ => vec![word.to_owned()],
    };
    let read = |word: &OsString| {
        Export::parse(word).ok_or_else(|| {
            let failure =
                Failure::usage(format!("-x {}: missing name of a variable", word.display()));
            failure.cure("use -x NAME, -x NAME=VALUE or -x 'PREFIX*'")
        })
    };
    words.iter().map(read).collect()
}

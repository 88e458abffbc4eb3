// SPDX-License-Identifier: MIT OR Apache-2.0
//! Empty input and discarded output of processes, also in an image without `/dev/null`.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

/// The device that systems have for this.
const DEVICE: &str = "/dev/null";

/// Returns an input without data.
pub(crate) fn input() -> io::Result<OwnedFd> {
    input_of(Path::new(DEVICE))
}

/// Returns an output without a reader. Without the device, writing fails with `EPIPE`, so this is for processes that
/// ignore SIGPIPE.
pub(crate) fn output() -> io::Result<Stdio> {
    output_of(Path::new(DEVICE))
}

/// Returns the place of both streams of a launcher that writes none itself.
pub(crate) fn both() -> io::Result<OwnedFd> {
    match File::options().read(true).write(true).open(DEVICE) {
        Ok(file) => Ok(file.into()),
        Err(error) => {
            tracing::debug!("{DEVICE}: {error}; using a pipe instead");
            let (_, writer) = io::pipe()?;
            Ok(writer.into())
        }
    }
}

fn input_of(device: &Path) -> io::Result<OwnedFd> {
    match File::open(device) {
        Ok(file) => Ok(file.into()),
        // A minimal image may lack the device. A pipe without a writer is at its end, too.
        Err(error) => {
            tracing::debug!("{}: {error}; using a pipe instead", device.display());
            let (reader, _) = io::pipe()?;
            Ok(reader.into())
        }
    }
}

fn output_of(device: &Path) -> io::Result<Stdio> {
    match File::options().write(true).open(device) {
        Ok(file) => Ok(file.into()),
        Err(error) => {
            tracing::debug!("{}: {error}; using a pipe instead", device.display());
            let (_, writer) = io::pipe()?;
            Ok(writer.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn input_is_empty_and_output_is_discarded_with_and_without_the_device() {
        for device in [DEVICE, "/nonexistent/null"].map(Path::new) {
            let mut cat = Command::new("cat");
            cat.stdin(input_of(device).unwrap());
            let read = cat.output().unwrap();
            assert!(
                read.status.success() && read.stdout.is_empty(),
                "{device:?}"
            );
            let mut echo = Command::new("sh");
            echo.args(["-c", "trap '' PIPE; echo lost 2> /dev/null; exit 3"]);
            let status = echo.stdout(output_of(device).unwrap()).status();
            assert_eq!(status.unwrap().code(), Some(3), "{device:?}");
        }
    }
}

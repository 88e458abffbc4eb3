// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gateway: the server for requests that the servers of other nodes cannot serve.
//!
//! The library itself serves one of them, `PMIx_Log` to the standard streams. The host serves all others.

use std::io::{self, Write};

use pmix_engine::host::Log;
use pmix_types::{Info, Value, keys};

use super::{Completion, Host};

/// Writes the data for the standard streams, and passes the data for other channels to the host.
pub(super) fn log(host: &dyn Host, mut call: Log, done: Completion<()>) {
    let had_any = !call.data.is_empty();
    call.data = not_written(
        call.data,
        &mut io::stdout().lock(),
        &mut io::stderr().lock(),
    );
    // The host decides about a request without data.
    match had_any && call.data.is_empty() {
        true => done.succeed(()),
        false => host.log(call, done),
    }
}

/// Writes the data for these streams. Returns the rest, including data that could not be written.
fn not_written<'a>(
    data: Vec<Info<'static>>,
    output: &'a mut dyn Write,
    errors: &'a mut dyn Write,
) -> Vec<Info<'static>> {
    let mut write = |info: &Info<'_>| -> bool {
        let stream: &mut dyn Write = match () {
            () if info.key.is(keys::LOG_STDOUT) => &mut *output,
            () if info.key.is(keys::LOG_STDERR) => &mut *errors,
            () => return false,
        };
        let Value::String(Some(text)) = &info.value else {
            return false;
        };
        let written = stream.write_all(text.as_bytes());
        written.and_then(|()| stream.flush()).is_ok()
    };
    data.into_iter().filter(|info| !write(info)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that its reader has closed.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn local_log_channels_are_written_and_others_left_to_the_host() {
        let data = vec![
            Info::new(keys::LOG_STDERR, "oops\n"),
            Info::new(keys::LOG_SYSLOG, "noted"),
            Info::new(keys::LOG_STDOUT, "hello\n"),
            Info::new(keys::LOG_STDOUT, 7_u32),
        ];
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let rest = not_written(data.clone(), &mut output, &mut errors);
        assert_eq!(
            (output.as_slice(), errors.as_slice()),
            (&b"hello\n"[..], &b"oops\n"[..])
        );
        assert_eq!(rest, [data[1].clone(), data[3].clone()]);
        let rest = not_written(data, &mut Gone, &mut errors);
        assert_eq!(rest.len(), 3, "a closed stream accepts nothing");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system log: datagrams to the socket of this node's daemon.
//!
//! | part | content |
//! | --- | --- |
//! | `<PRI>` | facility and severity, as in `syslog(3)`; the default facility is `user` |
//! | `pmix-run[PID]: ` | the tag, with the process id of the launcher |
//! | `NSPACE,RANK: ` | the process that logs |
//! | text | one line, without control characters |
//!
//! There is no time: the daemon adds the time of arrival in the node's time zone.
//!
//! Source: RFC 3164, "syslog Message Parts"; syslog(3).

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use pmix_types::{Proc, Status};

/// The largest number of bytes of one request.
const MOST: usize = 64 << 10;
/// The largest number of bytes of one datagram (RFC 3164, "The syslog message").
const LINE: usize = 1024;
/// The default severity, as in OpenPMIx: `LOG_ALERT`.
const ALERT: u8 = 1;
/// The facility `user`, and the largest priority.
const USER: u8 = 1 << 3;
const LARGEST: u8 = 191;

/// The reason why a channel rejects a text.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) status: Status,
    pub(super) why: String,
}

impl Fault {
    pub(super) fn new(status: Status, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }
}

/// Reads a priority (`PMIX_LOG_SYSLOG_PRI`).
pub(super) fn priority(number: Option<i32>) -> Option<u8> {
    let Some(number) = number else {
        return Some(USER | ALERT);
    };
    let number = u8::try_from(number).ok().filter(|pri| *pri <= LARGEST)?;
    // The facility `kern` is reserved for the kernel.
    Some(match number < USER {
        true => USER | number,
        false => number,
    })
}

/// Returns the cost of a text: the sum of its lines in bytes, but at least one datagram for each line.
pub(super) fn cost(text: &[u8]) -> usize {
    let lines = text.split(|&byte| byte == b'\n');
    let of_lines = lines.filter(|line| !line.is_empty());
    let sum = of_lines.map(|line| line.len().max(LINE)).sum::<usize>();
    sum.max(LINE)
}

/// Checks that the cost does not exceed the limit of one request.
///
/// # Errors
///
/// Returns `PMIX_ERR_OUT_OF_RESOURCE` if it does.
pub(super) fn fits(num_bytes: usize) -> Result<(), Fault> {
    match num_bytes <= MOST {
        true => Ok(()),
        false => {
            let why = format!("{num_bytes} bytes exceed the limit of {MOST}");
            Err(Fault::new(Status::ERR_OUT_OF_RESOURCE, why))
        }
    }
}

/// Sends a text to the daemon, line by line.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_AVAILABLE` if there is no daemon, and `PMIX_ERR_OUT_OF_RESOURCE` if the daemon does not
/// accept more at present.
pub(super) fn send(
    socket: &Path,
    priority: u8,
    source: &Proc<'_>,
    text: &[u8],
) -> Result<(), Fault> {
    let cannot = |error: std::io::Error| {
        let status = match error.kind() {
            std::io::ErrorKind::WouldBlock => Status::ERR_OUT_OF_RESOURCE,
            _ => Status::ERR_NOT_AVAILABLE,
        };
        Fault::new(status, format!("{}: {error}", socket.display()))
    };
    let sender = UnixDatagram::unbound().map_err(cannot)?;
    // A slow daemon must not block the launcher, so the rest of the text is rejected instead.
    sender.set_nonblocking(true).map_err(cannot)?;
    // The socket is on this machine, and `fits` bounds the number of lines.
    for line in lines(priority, source, text) {
        sender.send_to(line.as_bytes(), socket).map_err(cannot)?;
    }
    Ok(())
}

/// Splits a text into datagrams.
fn lines(priority: u8, source: &Proc<'_>, text: &[u8]) -> Vec<String> {
    let pid = rustix::process::getpid().as_raw_nonzero();
    let (nspace, rank) = (source.nspace.to_string(), source.rank);
    let front = clean(&format!("<{priority}>pmix-run[{pid}]: {nspace},{rank}: "));
    let room = LINE.saturating_sub(front.len()).max(LINE / 4);
    let text = String::from_utf8_lossy(text);
    let mut datagrams = Vec::new();
    for line in text.lines().map(clean).filter(|line| !line.is_empty()) {
        let mut rest = line.as_str();
        while !rest.is_empty() {
            let most = (0..=room.min(rest.len())).rev();
            let end = most.into_iter().find(|end| rest.is_char_boundary(*end));
            let (piece, behind) = rest.split_at(end.unwrap_or(rest.len()));
            datagrams.push(format!("{front}{piece}"));
            rest = behind;
        }
    }
    datagrams
}

/// Replaces control characters by blanks, so that no part of a text can pose as a line of its own.
fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Rank;

    fn source() -> Proc<'static> {
        Proc::new("job", Rank::new(3))
    }

    #[test]
    fn a_priority_is_one_of_syslog() {
        let read = |number| priority(Some(number));
        assert_eq!(priority(None), Some(9));
        assert_eq!([read(0), read(6), read(30)], [Some(8), Some(14), Some(30)]);
        assert_eq!([read(-1), read(192), read(i32::MAX)], [None; 3]);
    }

    #[test]
    fn each_line_is_a_datagram_with_its_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        send(
            &path,
            14,
            &source(),
            b"one\n\ntwo\x1b[31m\0red\r\n<0>kernel: lie",
        )
        .unwrap();
        let mut buffer = [0; 2048];
        let mut next = || {
            let len = daemon.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..len].to_vec()).unwrap()
        };
        let front = format!("<14>pmix-run[{}]: job,3: ", std::process::id());
        for line in ["one", "two [31m red", "<0>kernel: lie"] {
            assert_eq!(next(), format!("{front}{line}"));
        }
    }

    #[test]
    fn long_lines_are_cut_between_characters_and_long_texts_refused() {
        let text = "é".repeat(2000);
        let datagrams = lines(14, &source(), text.as_bytes());
        assert!(
            datagrams.iter().all(|line| line.len() <= LINE),
            "{datagrams:?}"
        );
        let whole: String = datagrams
            .iter()
            .map(|line| line.rsplit(' ').next().unwrap())
            .collect();
        assert_eq!(whole, text);
        // A long nspace leaves no room in the datagram; the loop must still advance.
        let long = Proc::new("x".repeat(255), Rank::new(0));
        assert_eq!(lines(14, &long, b"abc").len(), 1);
        let path = Path::new("/no-such/log");
        let status = |text: &[u8]| send(path, 14, &source(), text).unwrap_err().status;
        assert!(fits(MOST).is_ok());
        // Each line costs at least a datagram.
        assert_eq!(cost(b""), LINE);
        assert_eq!(cost(b"a\n\nb\n"), 2 * LINE);
        assert_eq!(cost(&[b'x'; 3000]), 3000);
        assert_eq!(
            fits(MOST + 1).unwrap_err().status,
            Status::ERR_OUT_OF_RESOURCE
        );
        assert_eq!(status(b"x"), Status::ERR_NOT_AVAILABLE);
    }

    #[test]
    fn a_daemon_that_reads_nothing_does_not_block_the_launcher() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let _daemon = UnixDatagram::bind(&path).unwrap();
        let text = "line\n".repeat(10_000);
        let fault = send(&path, 14, &source(), text.as_bytes()).unwrap_err();
        assert_eq!(fault.status, Status::ERR_OUT_OF_RESOURCE);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to the Linux kernel over netlink.
//!
//! | bytes | field, in host order |
//! | --- | --- |
//! | 4 | length of the message with this header |
//! | 2 | type: 2 error, others as defined by the protocol |
//! | 2 | flags: 1 request |
//! | 4 | number of the request, repeated in its answer |
//! | 4 | port of the sender; 0 is the kernel |
//!
//! Messages begin at multiples of four bytes. Source: netlink(7).

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recvfrom, sendto,
    socket_with,
};

const HEADER: usize = 16;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;

/// A netlink socket.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Box<[u8]>,
}

impl Netlink {
    /// Opens a socket for requests about sockets.
    pub(crate) fn sockets() -> io::Result<Self> {
        let (flags, protocol) = (SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG));
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; 1024].into(),
        })
    }

    /// Sends a request about one object, and passes the type and payload of the reply to `take`.
    ///
    /// # Errors
    /// Returns the error of the kernel, or `InvalidData` for a malformed reply.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        body: &[u8],
        mut take: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = message(kind, REQUEST, self.sequence, body)?;
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &request, SendFlags::empty(), &kernel)?;
        loop {
            // The kernel has queued the reply before `sendto` returns.
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let (_, len, from) = recvfrom(&self.socket, &mut self.buffer[..], flags)?;
            let from = from.and_then(|address| SocketAddrNetlink::try_from(address).ok());
            // Any process may send to this socket, but only the kernel has port 0.
            if from.is_none_or(|from| from.pid() != 0) {
                continue;
            }
            // With `TRUNC` this is the length of the datagram, which may exceed the buffer.
            let received = self.buffer.get(..len).ok_or_else(|| damaged("truncated"))?;
            if read(received, self.sequence, &mut take)? {
                return Ok(());
            }
        }
    }
}

fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> io::Result<Vec<u8>> {
    let len = u32::try_from(HEADER + body.len()).map_err(|_| damaged("too long"))?;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(len.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    Ok(message)
}

/// Parses the messages of a datagram. Returns `true` if the reply is complete.
fn read(datagram: &[u8], sequence: u32, take: &mut impl FnMut(u16, &[u8])) -> io::Result<bool> {
    let mut rest = datagram;
    let mut complete = false;
    while rest.len() >= HEADER {
        let len = field(rest, 0).map(u32::from_ne_bytes);
        let len = len.and_then(|len| usize::try_from(len).ok());
        let one = len.filter(|len| *len >= HEADER).and_then(|n| rest.get(..n));
        let one = one.ok_or_else(|| damaged("a message exceeds its datagram"))?;
        let kind = field(one, 4).map_or(0, u16::from_ne_bytes);
        let body = &one[HEADER..];
        if field(one, 8).map(u32::from_ne_bytes) == Some(sequence) {
            match kind {
                ERROR => return error(body).map(|()| true),
                _ => take(kind, body),
            }
            complete = true;
        }
        rest = rest
            .get(one.len().next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Ok(complete)
}

fn error(body: &[u8]) -> io::Result<()> {
    match field(body, 0).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
        None => Err(damaged("an error message without a number")),
    }
}

/// Returns a field of fixed size at an offset.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("netlink: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_request_is_passed_over() {
        let mut datagram = message(20, 0, 7, b"old!").unwrap();
        datagram.extend(message(20, 0, 8, b"new!").unwrap());
        let mut seen = Vec::new();
        let complete = read(&datagram, 8, &mut |_, body| seen.push(body.to_vec())).unwrap();
        assert!(complete);
        assert_eq!(seen, [b"new!"]);
    }

    #[test]
    fn damaged_answers_are_errors() {
        let mut long = message(20, 0, 1, b"").unwrap();
        long[0] = 200;
        assert!(read(&long, 1, &mut |_, _| ()).is_err());
        let refused = message(ERROR, 0, 1, &(-2_i32).to_ne_bytes()).unwrap();
        let error = read(&refused, 1, &mut |_, _| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}

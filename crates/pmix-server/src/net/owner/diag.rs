// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookup of one connection by its addresses with `inet_diag`.
//!
//! | bytes | request | bytes | answer |
//! | --- | --- | --- | --- |
//! | 1 | family | 1 | family |
//! | 1 | protocol | 1 | state |
//! | 1, 1 | extensions, padding | 1, 1 | timer, retransmissions |
//! | 4 | states, a bit each | 48 | the socket, as in the request |
//! | 2, 2 | ports, big endian | 4, 4, 4 | expiry, bytes to read, bytes to send |
//! | 16, 16 | addresses | 4 | user |
//! | 4, 8 | interface, cookie | 4 | inode |
//!
//! Source: sock_diag(7). Numbers are in host order unless stated otherwise.

use std::io;
use std::net::IpAddr;

use super::{Ends, Owner, owner};
use crate::net::netlink::{Netlink, field};

const BY_FAMILY: u16 = 20;
const TCP: u8 = 6;
const INET: u8 = 2;
const INET6: u8 = 10;
const UID: usize = 64;
const INODE: usize = 68;

/// Any cookie.
const NO_COOKIE: [u8; 8] = [0xff; 8];

#[derive(Debug)]
pub(super) struct Diag(Netlink);

impl Diag {
    pub(super) fn open() -> io::Result<Self> {
        Netlink::sockets().map(Self)
    }

    /// Returns the owner of the other end.
    ///
    /// # Errors
    /// Returns an error if the kernel does not support such requests.
    pub(super) fn owner(&mut self, ends: &Ends) -> io::Result<Owner> {
        let mut found = None;
        let asked = self.0.ask(BY_FAMILY, &request(ends), |_, body| {
            let uid = field(body, UID).map(u32::from_ne_bytes);
            let inode = field(body, INODE).map(u32::from_ne_bytes);
            found = uid.zip(inode);
        });
        match asked {
            Ok(()) => {
                let (uid, inode) = found.ok_or(io::ErrorKind::InvalidData)?;
                Ok(owner(uid, inode.into()))
            }
            // The socket does not exist any more.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Owner::Gone),
            Err(error) => Err(error),
        }
    }
}

/// Returns the request for the socket of the other end, whose own address is the peer address of this end.
fn request(ends: &Ends) -> Vec<u8> {
    let (from, to) = (ends.peer, ends.local);
    let family = match to.ip().to_canonical() {
        IpAddr::V4(_) => INET,
        IpAddr::V6(_) => INET6,
    };
    let mut request = vec![family, TCP, 0, 0];
    // All states: the other end may have closed its socket after its hello.
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(from.port().to_be_bytes());
    request.extend(to.port().to_be_bytes());
    request.extend(padded(from.ip()));
    request.extend(padded(to.ip()));
    request.extend(0_u32.to_ne_bytes());
    request.extend(NO_COOKIE);
    request
}

fn padded(address: IpAddr) -> [u8; 16] {
    match address.to_canonical() {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
    }
}

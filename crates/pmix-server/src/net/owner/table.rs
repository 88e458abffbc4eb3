// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's tables of TCP sockets as text: `/proc/net/tcp` and `/proc/net/tcp6`.
//!
//! The fields of a line are, by index: 1 own address, 2 other address, 3 state, 7 user, 9 inode. An address is in
//! hexadecimal: its 32-bit words in the machine's byte order, then the port. Source: proc(5).

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Ends, Owner, owner};

const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// Returns the owner of the other end of each connection, all on this node.
pub(super) fn look_up(connections: &[Ends]) -> Vec<Owner> {
    let mut owners = vec![Owner::Gone; connections.len()];
    let mut read_any = false;
    for path in TABLES {
        match File::open(path).and_then(|file| scan(BufReader::new(file), connections, &mut owners))
        {
            Ok(()) => read_any = true,
            Err(error) => tracing::debug!("{path}: {error}"),
        }
    }
    if !read_any {
        // Without a table, a missing socket proves nothing.
        owners.fill(Owner::Unknown);
    }
    owners
}

/// Returns `true` if a socket of a user listens at an address of this node, or at all addresses with its port.
pub(super) fn is_listened_at(wanted: SocketAddr, uid: u32) -> bool {
    let is_it = |line: &str| {
        let Some((local, remote, Owner::User(owner))) = entry(line) else {
            return false;
        };
        let ip = local.ip();
        // A listening socket has the remote port 0.
        remote.port() == 0
            && owner == uid
            && local.port() == wanted.port()
            && (ip.is_unspecified() || ip == wanted.ip().to_canonical())
    };
    TABLES.iter().any(|path| {
        let lines = File::open(path).map(|file| BufReader::new(file).lines());
        lines.is_ok_and(|lines| lines.map_while(Result::ok).any(|line| is_it(&line)))
    })
}

fn scan(table: impl BufRead, connections: &[Ends], owners: &mut [Owner]) -> io::Result<()> {
    for line in table.lines().skip(1) {
        let line = line?;
        let Some((local, remote, found)) = entry(&line) else {
            continue;
        };
        for (ends, owner) in connections.iter().zip(&mut *owners) {
            // The own address of the other end is the peer address of this end.
            if same(local, ends.peer) && same(remote, ends.local) {
                *owner = found;
            }
        }
    }
    Ok(())
}

fn same(found: SocketAddr, wanted: SocketAddr) -> bool {
    found.port() == wanted.port() && found.ip() == wanted.ip().to_canonical()
}

fn entry(line: &str) -> Option<(SocketAddr, SocketAddr, Owner)> {
    let mut fields = line.split_ascii_whitespace();
    let local = address(fields.nth(1)?)?;
    let remote = address(fields.next()?)?;
    let uid = fields.nth(4)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some((local, remote, owner(uid, inode)))
}

fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| {
        let word = address.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let bytes = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            let bytes: [u8; 16] = bytes.try_into().ok()?;
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn a_line_names_both_ends_the_user_and_the_inode() {
        let line = "   2: 0100007F:9347 0100007F:94F0 01 00000000:00000000 00:00000000 \
                    00000000  1000        0 1322355 1 000000000928c43f 20 0 0 10 -1";
        let (local, remote, owner) = entry(line).unwrap();
        assert_eq!(local, "127.0.0.1:37703".parse().unwrap());
        assert_eq!(remote, "127.0.0.1:38128".parse().unwrap());
        assert_eq!(owner, Owner::User(1000));
        let v6 = address("0000000000000000FFFF00000100007F:0050").unwrap();
        assert_eq!(v6, "127.0.0.1:80".parse().unwrap());
    }

    #[test]
    fn a_line_that_makes_no_sense_is_passed_over() {
        for line in [
            "",
            "0:",
            "  1: 01:2 3:4 5",
            "1: 0100007G:0001 0100007F:0002 01",
        ] {
            assert!(entry(line).is_none(), "{line}");
        }
    }
}

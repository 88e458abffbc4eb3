// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determination of the user that owns the other end of a connection on this node.
//!
//! A client of a TCP socket only claims its user. When both ends are on this node, the kernel knows the owner
//! of the other one. Linux reports it with `inet_diag`, one request for each connection at a cost independent
//! of the number of sockets, or in the tables in `/proc/net`, which are read once for several connections.
//!
//! A socket that is no longer held by a process is reported with user 0. Its inode is 0 as well, which
//! distinguishes it; otherwise any user could send a message as root and disconnect.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use super::netlink::{Netlink, field};

/// The owner of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A process of this user holds it.
    User(u32),
    /// The other end is on this node, and no process holds it now.
    Gone,
    /// The other end is on another node, or the kernel has no information.
    Unknown,
}

/// A connection as this side sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// This side.
    pub(crate) local: SocketAddr,
    /// The other side.
    pub(crate) peer: SocketAddr,
}

impl Ends {
    /// Returns `true` if both ends are on this node.
    pub(crate) fn same_node(&self) -> bool {
        let peer = self.peer.ip().to_canonical();
        peer.is_loopback() || peer == self.local.ip().to_canonical()
    }
}

/// The lookup of socket owners.
///
/// DEVIATION: over TCP OpenPMIx trusts the credential alone; here the kernel's owner decides for peers on this node;
/// a_lie_about_the_user_is_caught_by_the_owner_of_the_socket
#[derive(Debug)]
pub(crate) struct Owners {
    diag: Option<Diag>,
}

impl Owners {
    /// Opens `inet_diag` if the kernel has it.
    pub(crate) fn new() -> Self {
        let diag = Diag::open();
        if let Err(error) = &diag {
            tracing::debug!(
                "inet_diag is not available ({error}); reading the owners of sockets from /proc/net"
            );
        }
        Self { diag: diag.ok() }
    }

    /// Returns the owner of the other end of each connection.
    pub(crate) fn look_up(&mut self, connections: &[Ends]) -> Vec<Owner> {
        let mut owners = vec![Owner::Unknown; connections.len()];
        let mut left = Vec::new();
        for (index, ends) in connections.iter().enumerate() {
            if !ends.same_node() {
                continue;
            }
            match self.ask(ends) {
                Some(owner) => owners[index] = owner,
                None => left.push(index),
            }
        }
        if !left.is_empty() {
            let asked: Vec<Ends> = left.iter().map(|index| connections[*index]).collect();
            for (index, owner) in left.into_iter().zip(look_up_in_tables(&asked)) {
                owners[index] = owner;
            }
        }
        owners
    }

    /// Asks the kernel. Returns `None` if it does not support such requests.
    fn ask(&mut self, ends: &Ends) -> Option<Owner> {
        match self.diag.as_mut()?.owner(ends) {
            Ok(owner) => Some(owner),
            Err(error) => {
                tracing::debug!(
                    "inet_diag failed: {error}; reading the owners of sockets from /proc/net from now on"
                );
                // A kernel without support would fail again for each connection.
                self.diag = None;
                None
            }
        }
    }
}

/// Returns the user whose process holds the other end of a connection on this node, or `None` if no process holds it
/// or the kernel does not report it.
///
/// # Errors
///
/// Returns an error if the connection has no addresses any more.
pub fn socket_owner(stream: &TcpStream) -> io::Result<Option<u32>> {
    let ends = Ends {
        local: stream.local_addr()?,
        peer: stream.peer_addr()?,
    };
    let owners = Owners::new().look_up(&[ends]);
    Ok(owners.into_iter().find_map(|owner| match owner {
        Owner::User(user) => Some(user),
        Owner::Gone | Owner::Unknown => None,
    }))
}

/// Returns the owner of a socket in the tables of the kernel.
fn owner(uid: u32, inode: u64) -> Owner {
    // A socket without a process is reported with user 0, but also without an inode.
    if inode == 0 {
        Owner::Gone
    } else {
        Owner::User(uid)
    }
}

// Lookup of one connection by its addresses with `inet_diag`.
//
// | bytes | request | bytes | answer |
// | --- | --- | --- | --- |
// | 1 | family | 1 | family |
// | 1 | protocol | 1 | state |
// | 1, 1 | extensions, padding | 1, 1 | timer, retransmissions |
// | 4 | states, a bit each | 48 | the socket, as in the request |
// | 2, 2 | ports, big endian | 4, 4, 4 | expiry, bytes to read, bytes to send |
// | 16, 16 | addresses | 4 | user |
// | 4, 8 | interface, cookie | 4 | inode |
//
// Source: sock_diag(7). Numbers are in host order unless stated otherwise.

const BY_FAMILY: u16 = 20;

const TCP: u8 = 6;

const INET: u8 = 2;

const INET6: u8 = 10;

const UID: usize = 64;

const INODE: usize = 68;

/// Any cookie.
const NO_COOKIE: [u8; 8] = [0xff; 8];

#[derive(Debug)]
struct Diag(Netlink);

impl Diag {
    fn open() -> io::Result<Self> {
        Netlink::sockets().map(Self)
    }

    /// Returns the owner of the other end.
    ///
    /// # Errors
    /// Returns an error if the kernel does not support such requests.
    fn owner(&mut self, ends: &Ends) -> io::Result<Owner> {
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

// The kernel's tables of TCP sockets as text: `/proc/net/tcp` and `/proc/net/tcp6`.
//
// The fields of a line are, by index: 1 own address, 2 other address, 3 state, 7 user, 9 inode. An address is in
// hexadecimal: its 32-bit words in the machine's byte order, then the port. Source: proc(5).

const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// Returns the owner of the other end of each connection, all on this node.
fn look_up_in_tables(connections: &[Ends]) -> Vec<Owner> {
    let mut owners = vec![Owner::Gone; connections.len()];
    let mut read_any = false;
    for path in TABLES {
        match File::open(path)
            .and_then(|file| scan_table(BufReader::new(file), connections, &mut owners))
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

/// The TCP sockets of this node that listen, each with its user.
#[derive(Clone, Debug, Default)]
pub struct Listeners(Vec<(SocketAddr, u32)>);

impl Listeners {
    /// Reads the tables of the kernel. A table that cannot be read has no sockets.
    #[must_use]
    pub fn read() -> Self {
        let of_line = |line: String| match entry(&line)? {
            // A listening socket has the remote port 0.
            (local, remote, Owner::User(uid)) if remote.port() == 0 => Some((local, uid)),
            _ => None,
        };
        let files = TABLES.iter().filter_map(|path| File::open(path).ok());
        let lines = files.flat_map(|file| BufReader::new(file).lines().map_while(Result::ok));
        Self(lines.filter_map(of_line).collect())
    }

    /// Returns `true` if a socket of another user listens at an IPv4 address, or at all of them with its port. A socket at
    /// all IPv6 addresses does not get its connections then.
    fn has_other(&self, wanted: SocketAddr, uid: u32) -> bool {
        self.0.iter().any(|(local, owner)| {
            let ip = local.ip();
            let is_there =
                ip == wanted.ip().to_canonical() || (ip.is_unspecified() && ip.is_ipv4());
            *owner != uid && local.port() == wanted.port() && is_there
        })
    }

    /// Returns `true` if a socket of a user listens at an address, or at all addresses with its port.
    #[must_use]
    pub fn has(&self, wanted: SocketAddr, uid: u32) -> bool {
        self.0.iter().any(|(local, owner)| {
            let ip = local.ip();
            *owner == uid
                && local.port() == wanted.port()
                && (ip == wanted.ip().to_canonical()
                    || (ip.is_unspecified()
                        && ip.is_ipv4() == wanted.ip().to_canonical().is_ipv4())
                    || (ip.is_unspecified() && ip.is_ipv6() && !self.has_other(wanted, uid)))
        })
    }
}

fn scan_table(table: impl BufRead, connections: &[Ends], owners: &mut [Owner]) -> io::Result<()> {
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
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    fn pair(address: &str) -> (TcpStream, Ends) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let local = server.local_addr().unwrap();
        // The accepted end must stay open until the end of the process.
        std::mem::forget(server);
        (client, Ends { local, peer })
    }

    fn me() -> Owner {
        Owner::User(rustix::process::geteuid().as_raw())
    }

    #[test]
    fn the_other_end_is_mine_by_every_way_and_family() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (_client, ends) = pair(address);
            assert_eq!(Owners::new().look_up(&[ends]), [me()], "{address}");
            assert_eq!(look_up_in_tables(&[ends]), [me()], "{address}");
        }
    }

    #[test]
    fn a_socket_that_listens_is_found_by_its_address_and_user() {
        let own = rustix::process::geteuid().as_raw();
        for (bound, asked) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("0.0.0.0:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
        ] {
            let listener = TcpListener::bind(bound).unwrap();
            let port = listener.local_addr().unwrap().port();
            let address = SocketAddr::new(asked.parse().unwrap(), port);
            assert!(Listeners::read().has(address, own), "{bound}");
            assert!(!Listeners::read().has(address, own + 1), "{bound}");
            drop(listener);
            assert!(!Listeners::read().has(address, own), "{bound}");
        }
    }

    #[test]
    fn a_socket_at_all_addresses_is_not_that_of_another_user() {
        let listeners = |list: &[(&str, u32)]| {
            let parsed = list
                .iter()
                .map(|(address, uid)| (address.parse().unwrap(), *uid));
            Listeners(parsed.collect())
        };
        let wanted = "127.0.0.1:7".parse().unwrap();
        assert!(listeners(&[("[::]:7", 1)]).has(wanted, 1));
        assert!(!listeners(&[("[::]:7", 1), ("127.0.0.1:7", 2)]).has(wanted, 1));
        assert!(listeners(&[("[::]:7", 1), ("127.0.0.1:7", 2)]).has(wanted, 2));
        assert!(!listeners(&[("[::]:7", 1), ("0.0.0.0:7", 2)]).has(wanted, 1));
        assert!(!listeners(&[("0.0.0.0:7", 1)]).has("[::1]:7".parse().unwrap(), 1));
    }

    #[test]
    fn a_socket_without_a_holder_is_not_owned_by_root() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (client, ends) = pair(address);
            client.shutdown(Shutdown::Both).unwrap();
            drop(client);
            assert_eq!(Owners::new().look_up(&[ends]), [Owner::Gone], "{address}");
            assert_eq!(look_up_in_tables(&[ends]), [Owner::Gone], "{address}");
        }
    }

    #[test]
    fn a_peer_elsewhere_is_unknown() {
        let ends = Ends {
            local: "192.0.2.1:4000".parse().unwrap(),
            peer: "192.0.2.7:4001".parse().unwrap(),
        };
        assert_eq!(Owners::new().look_up(&[ends]), [Owner::Unknown]);
    }

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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determination of the user that owns the other end of a connection on this node.
//!
//! A client of a TCP socket only claims its user. When both ends are on this node, the kernel knows the owner
//! of the other one. Linux reports it with `inet_diag`, one request for each connection at a cost independent
//! of the number of sockets, or in the tables in `/proc/net`, which are read once for several connections.
//!
//! A socket that is no longer held by a process is reported with user 0. Its inode is 0 as well, which
//! distinguishes it; otherwise any user could send a message as root and disconnect.

mod diag;
mod table;

use std::net::SocketAddr;

use self::diag::Diag;

/// The owner of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A process of this user holds it.
    User(u32),
    /// It is on this node, and no process holds it now.
    Gone,
    /// It is on another node, or the kernel has no information.
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
            for (index, owner) in left.into_iter().zip(table::look_up(&asked)) {
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

/// Returns `true` if a socket of a user listens at an address of this node.
pub(crate) fn is_listened_at(address: SocketAddr, uid: u32) -> bool {
    table::is_listened_at(address, uid)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener, TcpStream};

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
            assert_eq!(table::look_up(&[ends]), [me()], "{address}");
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
            assert!(is_listened_at(address, own), "{bound}");
            assert!(!is_listened_at(address, own + 1), "{bound}");
            drop(listener);
            assert!(!is_listened_at(address, own), "{bound}");
        }
    }

    #[test]
    fn a_socket_without_a_holder_is_not_owned_by_root() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (client, ends) = pair(address);
            client.shutdown(Shutdown::Both).unwrap();
            drop(client);
            assert_eq!(Owners::new().look_up(&[ends]), [Owner::Gone], "{address}");
            assert_eq!(table::look_up(&[ends]), [Owner::Gone], "{address}");
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
}

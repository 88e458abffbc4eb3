// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network interfaces of this node and their addresses.

use std::io;
use std::net::IpAddr;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// What the interface is called, for example `eth0`.
    pub(crate) name: String,
    /// One of its addresses.
    pub(crate) address: IpAddr,
}

/// All addresses, in the order in which the kernel tells them.
///
/// # Errors
/// The kernel does not tell.
pub(crate) fn all() -> io::Result<Vec<Interface>> {
    let found = if_addrs::get_if_addrs()?.into_iter();
    let interface = |one: if_addrs::Interface| Interface {
        address: one.ip(),
        name: without_label(&one.name).to_owned(),
    };
    Ok(found.map(interface).collect())
}

/// The interface of an address: a further address of one may have a label, `eth0:1`.
fn without_label(name: &str) -> &str {
    name.split_once(':')
        .map_or(name, |(interface, _)| interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_there() {
        let found = all().unwrap();
        let loopback = |one: &Interface| one.address == IpAddr::from([127, 0, 0, 1]);
        assert!(found.iter().any(loopback), "{found:?}");
    }

    #[test]
    fn a_label_belongs_to_its_interface() {
        assert_eq!(without_label("eth0:1"), "eth0");
        assert_eq!(without_label("eth0.100"), "eth0.100");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network interfaces of this node and their addresses.

use std::io;
use std::net::IpAddr;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// The name of the interface, for example `eth0`.
    pub(crate) name: String,
    /// An address of the interface.
    pub(crate) address: IpAddr,
}

/// Returns all addresses, in the order of the kernel.
///
/// # Errors
/// Returns the error of the kernel.
pub(crate) fn all() -> io::Result<Vec<Interface>> {
    let found = if_addrs::get_if_addrs()?.into_iter();
    let interface = |one: if_addrs::Interface| Interface {
        address: one.ip(),
        name: without_label(&one.name).to_owned(),
    };
    Ok(found.map(interface).collect())
}

/// Returns the interface of an address; additional addresses can have a label, `eth0:1`.
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

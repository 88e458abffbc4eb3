// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network interfaces of this node and their addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net::{AddressFamily, SocketType, netdevice, socket};

use super::netlink::{Ask, Netlink, field};

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// What the interface is called, for example `eth0`.
    pub(crate) name: String,
    /// One of its addresses.
    pub(crate) address: IpAddr,
}

const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// In an attribute: the address; the own one where that is of the other end.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;

/// All addresses, those of one interface together.
///
/// # Errors
/// The kernel does not tell.
pub(crate) fn all() -> io::Result<Vec<Interface>> {
    let names = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut found = Vec::new();
    // Any family; the rest of the structure is of no meaning in a request.
    let request = [0; 8];
    Netlink::addresses()?.ask(GET_ADDRESS, Ask::All, &request, |kind, body| {
        if kind == NEW_ADDRESS {
            found.extend(address(body));
        }
    })?;
    let named = found.into_iter().filter_map(|(index, address)| {
        let name = netdevice::index_to_name(&names, index).ok()?;
        Some(Interface { name, address })
    });
    Ok(named.collect())
}

/// The interface's number and the address in a message: after a structure of eight bytes (family,
/// prefix, flags, scope, number) come attributes, each a length with its own four bytes, a type and
/// a value, at multiples of four bytes. Source: rtnetlink(7).
fn address(body: &[u8]) -> Option<(u32, IpAddr)> {
    let index = field(body, 4).map(u32::from_ne_bytes)?;
    let mut rest = body.get(8..)?;
    let (mut address, mut local) = (None, None);
    while let Some(len) = field(rest, 0).map(u16::from_ne_bytes) {
        let one = rest.get(..len.into())?;
        let value = one.get(4..)?;
        match field(one, 2).map(u16::from_ne_bytes)? {
            ADDRESS => address = ip(value),
            LOCAL => local = ip(value),
            _ => {}
        }
        rest = rest
            .get(one.len().next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Some((index, local.or(address)?))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => field(value, 0).map(|v4: [u8; 4]| Ipv4Addr::from(v4).into()),
        16 => field(value, 0).map(|v6: [u8; 16]| Ipv6Addr::from(v6).into()),
        _ => None,
    }
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
    fn the_own_address_stands_before_that_of_the_other_end() {
        let mut body = vec![2, 32, 0, 0];
        body.extend(7_u32.to_ne_bytes());
        for (kind, last) in [(ADDRESS, 2), (LOCAL, 1)] {
            body.extend(8_u16.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend([10, 0, 0, last]);
        }
        assert_eq!(address(&body), Some((7, IpAddr::from([10, 0, 0, 1]))));
    }

    #[test]
    fn a_damaged_attribute_ends_the_message() {
        let mut body = vec![0; 8];
        body.extend([0xff, 0xff, 1, 0]);
        assert_eq!(address(&body), None);
        body[8..10].copy_from_slice(&0_u16.to_ne_bytes());
        assert_eq!(address(&body), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The listening addresses of a server: loopback, unless remote connections are enabled; the interfaces.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use pmix_types::Status;
use socket2::{Domain, Protocol, Socket, Type};

use crate::Error;

/// The settings for the listening addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listening {
    /// `true` for connections from other nodes.
    pub(crate) remote: bool,
    /// The interfaces to use: names, addresses or subnets. Empty for any.
    pub(crate) include: Vec<String>,
    /// The interfaces not to use.
    pub(crate) exclude: Vec<String>,
    /// `true` to disable IPv4.
    pub(crate) no_ipv4: bool,
    /// `true` to disable IPv6.
    pub(crate) no_ipv6: bool,
    /// The port over IPv4; 0 for any.
    pub(crate) ipv4_port: u16,
    /// The port over IPv6; 0 for any.
    pub(crate) ipv6_port: u16,
}

/// The requested length of the kernel's queue of connections; the kernel may limit it further.
const BACKLOG: i32 = 4096;

impl Listening {
    /// Opens the listening socket on the first address that is available.
    ///
    /// # Errors
    /// Returns an error if the settings exclude all addresses, or if none is available.
    pub(crate) fn open(&self) -> Result<(TcpListener, SocketAddr), Error> {
        let mut last = None;
        for address in self.candidates()? {
            match listen(address) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = Some((address, error)),
            }
        }
        let (address, error) = last.ok_or_else(|| {
            let why =
                "no address to listen on: both address families or all interfaces are disabled";
            Error::new(Status::ERR_NOT_AVAILABLE, why)
        })?;
        Err(Error::io(&format!("listening on {address}"), error))
    }

    /// Returns the addresses to try, best first.
    fn candidates(&self) -> Result<Vec<SocketAddr>, Error> {
        if !self.include.is_empty() && !self.exclude.is_empty() {
            let why = "interfaces are both included and excluded; set only one of the two lists";
            return Err(Error::new(Status::ERR_BAD_PARAM, why));
        }
        let filtered = self.remote || !self.include.is_empty() || !self.exclude.is_empty();
        if !filtered {
            let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            return Ok(self.with_ports(loopback));
        }
        let all = all().map_err(|e| Error::io("listing network interfaces", e))?;
        self.choose(&all)
    }

    /// Returns the addresses that the settings permit, those reachable from other nodes first.
    fn choose(&self, all: &[Interface]) -> Result<Vec<SocketAddr>, Error> {
        for item in &self.include {
            if !all.iter().any(|one| matches(item, one)) {
                let why = format!("this node has no interface {item:?}");
                return Err(Error::new(Status::ERR_NOT_FOUND, why));
            }
        }
        let included = |one: &&Interface| {
            let listed = |list: &[String]| list.iter().any(|item| matches(item, one));
            !listed(&self.exclude) && (self.include.is_empty() || listed(&self.include))
        };
        let mut left: Vec<IpAddr> = all.iter().filter(included).map(|i| i.address).collect();
        left.retain(|ip| !link_local(ip));
        if !self.remote && !left.is_empty() && !left.iter().any(IpAddr::is_loopback) {
            let why = "remote connections are disabled, but no loopback interface is included: include it, \
            or enable remote connections";
            return Err(Error::new(Status::ERR_BAD_PARAM, why));
        }
        left.retain(|ip| self.remote || ip.is_loopback());
        left.sort_by_key(|ip| (ip.is_loopback(), ip.is_ipv6()));
        Ok(self.with_ports(left))
    }

    fn with_ports(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<SocketAddr> {
        let allowed = addresses.into_iter().filter_map(|ip| match ip {
            IpAddr::V4(_) => (!self.no_ipv4).then_some((ip, self.ipv4_port)),
            IpAddr::V6(_) => (!self.no_ipv6).then_some((ip, self.ipv6_port)),
        });
        allowed.map(SocketAddr::from).collect()
    }
}

/// Returns `true` for a link-local address, which is valid on one interface only and cannot be used in a URI.
fn link_local(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Returns `true` if an interface matches an item: a name, an address or a subnet.
fn matches(item: &str, interface: &Interface) -> bool {
    if item == interface.name {
        return true;
    }
    let (address, bits) = item.split_once('/').unwrap_or((item, "128"));
    let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    match (address, interface.address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let apart = a.to_bits() ^ b.to_bits();
            apart.leading_zeros() >= bits.min(32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let apart = a.to_bits() ^ b.to_bits();
            apart.leading_zeros() >= bits.min(128)
        }
        _ => false,
    }
}

/// The send buffer of a connection over the loopback interface in bytes. Without delay, a larger one is not faster.
const SEND_BUFFER: usize = 256 << 10;

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        // The socket would accept IPv4 as well, which the settings may disable.
        socket.set_only_v6(true)?;
    }
    // Each message is written at once, so a delay cannot merge it with others. Connections inherit this option and the
    // next ones.
    socket.set_tcp_nodelay(true)?;
    if address.ip().is_loopback() {
        // The loopback interface is never congested, and a congestion control with pacing timers only adds delay.
        let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "reno");
        // The system grows the buffer of a connection to 4 MiB. Hundreds of peers that do not read their events would
        // then hold most of the memory for TCP, and all connections of the node would wait.
        let _ = socket.set_send_buffer_size(SEND_BUFFER);
    }
    // A fixed port must be available immediately after a restart.
    socket.set_reuse_address(address.port() != 0)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    Ok((listener, address))
}

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
    fn local_connections_have_a_bounded_send_buffer() {
        let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let _peer = std::net::TcpStream::connect(address).unwrap();
        // The listener does not block, and the connection may arrive a moment later.
        let (stream, _) = std::iter::repeat_with(|| listener.accept())
            .find_map(Result::ok)
            .unwrap();
        let size = socket2::SockRef::from(&stream).send_buffer_size();
        // The system doubles the number for its own use.
        assert!(size.unwrap() <= 2 * SEND_BUFFER);
    }

    fn node() -> Vec<Interface> {
        let interface = |name: &str, address: &str| Interface {
            name: name.to_owned(),
            address: address.parse().unwrap(),
        };
        vec![
            interface("lo", "127.0.0.1"),
            interface("lo", "::1"),
            interface("eth0", "fe80::1"),
            interface("eth0", "2001:db8::5"),
            interface("eth0", "192.0.2.5"),
            interface("ib0", "198.51.100.5"),
        ]
    }

    fn chosen(listening: &Listening) -> Result<Vec<String>, String> {
        let chosen = listening.choose(&node()).map_err(|e| e.to_string())?;
        Ok(chosen.iter().map(|a| a.ip().to_string()).collect())
    }

    #[test]
    fn loopback_is_the_default() {
        let candidates = Listening::default().candidates().unwrap();
        assert_eq!(
            candidates,
            ["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()]
        );
        let (_socket, address) = Listening::default().open().unwrap();
        assert!(address.ip().is_loopback() && address.port() != 0);
    }

    #[test]
    fn addresses_of_other_nodes_reach_come_first_when_they_are_wanted() {
        let remote = Listening {
            remote: true,
            ..Listening::default()
        };
        let order = [
            "192.0.2.5",
            "198.51.100.5",
            "2001:db8::5",
            "127.0.0.1",
            "::1",
        ];
        assert_eq!(chosen(&remote).unwrap(), order);
    }

    #[test]
    fn interfaces_are_named_by_name_address_and_subnet() {
        for item in ["ib0", "198.51.100.5", "198.51.100.0/24"] {
            let include = Listening {
                remote: true,
                include: vec![item.to_owned()],
                ..Listening::default()
            };
            assert_eq!(chosen(&include).unwrap(), ["198.51.100.5"], "{item}");
        }
        let exclude = Listening {
            remote: true,
            exclude: vec!["eth0".to_owned(), "127.0.0.0/8".to_owned()],
            no_ipv6: true,
            ..Listening::default()
        };
        assert_eq!(chosen(&exclude).unwrap(), ["198.51.100.5"]);
    }

    #[test]
    fn another_interface_needs_remote_connections() {
        let include = Listening {
            include: vec!["eth0".to_owned()],
            ..Listening::default()
        };
        assert!(
            chosen(&include)
                .unwrap_err()
                .contains("remote connections are disabled")
        );
    }

    #[test]
    fn settings_without_an_address_are_errors() {
        let missing = Listening {
            include: vec!["wlan7".to_owned()],
            ..Listening::default()
        };
        assert!(chosen(&missing).unwrap_err().contains("wlan7"));
        let both = Listening {
            include: vec!["lo".to_owned()],
            exclude: vec!["eth0".to_owned()],
            ..Listening::default()
        };
        assert_eq!(both.open().unwrap_err().status(), Status::ERR_BAD_PARAM);
        let none = Listening {
            no_ipv4: true,
            no_ipv6: true,
            ..Listening::default()
        };
        assert_eq!(none.open().unwrap_err().status(), Status::ERR_NOT_AVAILABLE);
    }

    #[test]
    fn a_port_in_use_is_named() {
        let (_socket, address) = Listening::default().open().unwrap();
        let same = Listening {
            ipv4_port: address.port(),
            no_ipv6: true,
            ..Listening::default()
        };
        let error = same.open().unwrap_err().to_string();
        assert!(error.contains(&address.to_string()), "{error}");
    }

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

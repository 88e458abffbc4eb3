// SPDX-License-Identifier: MIT OR Apache-2.0
//! The URI of a server: `<nspace>.<rank>;tcp4://<address>:<port>`.
//!
//! Source: OpenPMIx, `ptl/base`, the form of `PMIX_SERVER_URI`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use pmix_types::{Proc, Rank, Status};

use crate::Error;

/// The name and the address of a server.
///
/// ```
/// let uri: pmix_client::Uri = "prte.1@0.7;tcp6://[::1]:4711".parse()?;
/// assert_eq!(uri.server.nspace, "prte.1@0");
/// assert_eq!(uri.address.port(), 4711);
/// assert_eq!(uri.to_string(), "prte.1@0.7;tcp6://[::1]:4711");
/// # Ok::<(), pmix_client::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// The name of the server.
    pub server: Proc<'static>,
    /// The address that the server listens on.
    pub address: SocketAddr,
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Proc { nspace, rank }, address) = (&self.server, self.address);
        let kind = match address {
            SocketAddr::V4(_) => "tcp4",
            SocketAddr::V6(_) => "tcp6",
        };
        write!(f, "{nspace}.{rank};{kind}://{address}")
    }
}

impl FromStr for Uri {
    type Err = Error;

    /// Parses the value of `PMIX_SERVER_URI41` and its like. An nspace may contain dots, so the rank follows the last
    /// one.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |what: &str| {
            let message = format!("{text:?} is not the address of a server: {what}");
            Error::new(Status::ERR_BAD_PARAM, message)
        };
        let (name, rest) = text.split_once(';').ok_or_else(|| bad("no `;`"))?;
        let (nspace, rank) = name.rsplit_once('.').ok_or_else(|| bad("no rank"))?;
        let rank = rank.parse().map_err(|_| bad("the rank is not a number"))?;
        // OpenPMIx may append further fields after a `;`.
        let address = rest.split(';').next().unwrap_or_default();
        let address = (address.strip_prefix("tcp4://"))
            .or_else(|| address.strip_prefix("tcp6://"))
            .ok_or_else(|| bad("neither tcp4:// nor tcp6://"))?;
        let (host, port) = address.rsplit_once(':').ok_or_else(|| bad("no port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host: IpAddr = host.parse().map_err(|_| bad("no IP address"))?;
        let port = port.trim().parse().map_err(|_| bad("no port"))?;
        Ok(Self {
            server: Proc::new(nspace.to_owned(), Rank::new(rank)),
            address: SocketAddr::new(host, port),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_all_servers_are_read() {
        for (text, nspace, rank, address) in [
            (
                "prterun-vm-1@0.0;tcp4://127.0.0.1:5",
                "prterun-vm-1@0",
                0,
                "127.0.0.1:5",
            ),
            ("a.b.17;tcp6://[::1]:65535", "a.b", 17, "[::1]:65535"),
            ("a.0;tcp6://::1:99", "a", 0, "[::1]:99"),
            ("a.0;tcp4://10.0.0.1:99;more", "a", 0, "10.0.0.1:99"),
        ] {
            let uri: Uri = text.parse().unwrap();
            assert_eq!(uri.server, Proc::new(nspace, Rank::new(rank)));
            assert_eq!(uri.address.to_string(), address);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "a.0",
            "a;tcp4://127.0.0.1:1",
            "a.x;tcp4://127.0.0.1:1",
            "a.0;usock:/tmp/x",
            "a.0;tcp4://127.0.0.1",
            "a.0;tcp4://host:1",
            "a.0;tcp4://127.0.0.1:65536",
        ] {
            let error = text.parse::<Uri>().unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{text}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host names without their domain, if the host requests them (`PMIX_HOSTNAME_KEEP_FQDN`).

use std::net::IpAddr;

use pmix_map::{Limits, NodeList, NodeListBuilder};

/// Returns a name up to its first dot; an IP address is unchanged.
pub(crate) fn short(name: &[u8]) -> &[u8] {
    let Some(dot) = name.iter().position(|byte| *byte == b'.') else {
        return name;
    };
    let text = std::str::from_utf8(name).ok();
    let is_address = text.is_some_and(|text| text.parse::<IpAddr>().is_ok());
    match name.get(..dot) {
        Some(short) if dot > 0 && !is_address => short,
        _ => name,
    }
}

/// Returns the list with short names.
pub(crate) fn short_names(list: &NodeList, limits: &Limits) -> Result<NodeList, pmix_map::Error> {
    let mut builder = NodeListBuilder::new(limits);
    let mut result = Ok(());
    list.for_each(|name| {
        if result.is_ok() {
            result = builder.name(short(name));
        }
    });
    result.map(|()| builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_domains_and_keeps_addresses() {
        for (name, expected) in [
            ("n1.example.com", "n1"),
            ("n1", "n1"),
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
            ("10.0.0.1.example", "10"),
            (".x", ".x"),
        ] {
            assert_eq!(short(name.as_bytes()), expected.as_bytes());
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices of a machine, and by which name each is the only one of its kind.
//!
//! Source: the names are those of OpenPMIx 4.2.2, seen in `testdata/topology`.

use pmix_types::DeviceType;

/// A device that distances are told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// The name that the system gives it.
    pub(crate) name: String,
    pub(crate) kind: DeviceKind,
}

/// What a device is, and the numbers by which it is the only one of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    /// A graphics processor.
    Gpu,
    /// A network interface and its hardware address.
    Network { address: String },
    /// An adapter of OpenFabrics, and the identifiers of it and of the system that it is in.
    Fabric { node: String, system: String },
}

impl DeviceKind {
    pub(crate) fn device_type(&self) -> DeviceType {
        match self {
            Self::Gpu => DeviceType::GPU,
            Self::Network { .. } => DeviceType::NETWORK,
            Self::Fabric { .. } => DeviceType::OPENFABRICS,
        }
    }
}

impl Device {
    /// A device that is told apart; none if it is but another name of one: OpenPMIx leaves these
    /// out.
    pub(crate) fn new(name: &str, kind: DeviceKind) -> Option<Self> {
        let start = name.as_bytes().get(..4);
        let is_card = start.is_some_and(|start| start.eq_ignore_ascii_case(b"card"));
        (kind != DeviceKind::Gpu || !is_card).then(|| Self {
            name: name.to_owned(),
            kind,
        })
    }

    /// Its name in all of the system: none if it has no address by which it could be told apart.
    pub(crate) fn uuid(&self, hostname: &str) -> Option<String> {
        match &self.kind {
            DeviceKind::Gpu => Some(format!("gpu://{hostname}::{}", self.name)),
            DeviceKind::Network { address } => match address.matches(':').count() {
                5 => Some(format!("ipv4://{address}")),
                19 => Some(format!("ipv6://{address}")),
                _ => None,
            },
            DeviceKind::Fabric { node, system } => Some(format!("fab://{node}::{system}")),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The devices of a machine, and their unique names.
//!
//! Source: the names are those of OpenPMIx 4.2.2, recorded in `testdata/topology`.

use pmix_types::DeviceType;

/// A device whose distance PMIx reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// The name of the device in the operating system.
    pub(crate) name: String,
    pub(crate) kind: DeviceKind,
}

/// The kind of a device, with the identifiers that make it unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    /// A graphics processor.
    Gpu,
    /// A network interface with its hardware address.
    Network { address: String },
    /// An OpenFabrics adapter, with its node GUID and its system image GUID.
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
    /// Creates a device. Like OpenPMIx, returns `None` for a name that is an alias of another
    /// device.
    pub(crate) fn new(name: &str, kind: DeviceKind) -> Option<Self> {
        let start = name.as_bytes().get(..4);
        let is_card = start.is_some_and(|start| start.eq_ignore_ascii_case(b"card"));
        (kind != DeviceKind::Gpu || !is_card).then(|| Self {
            name: name.to_owned(),
            kind,
        })
    }

    /// Returns the name of the device that is unique in the cluster, or `None` if the device has no
    /// address.
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

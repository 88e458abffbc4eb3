// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distances of devices from processors.
//!
//! Source: PMIx Standard, chapter "Process-Related Non-Reserved Keys", heading "Device distances",
//! for the definition; the numbers are those of OpenPMIx 4.2.2, recorded in `testdata/topology`.

use pmix_types::{DeviceDistance, DeviceType, Info, Text, Value, keys};

use crate::tree::Tree;
use crate::{Cpuset, Error};

/// The devices of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFilter {
    /// The types; empty means all.
    pub types: DeviceType,
    /// The names of devices in the operating system or in PMIx, in upper or lower case; empty means
    /// all.
    pub ids: Vec<String>,
}

impl DeviceFilter {
    /// Creates a filter from infos: each `PMIX_DEVICE_TYPE` adds types, each `PMIX_DEVICE_ID` a
    /// name. Other keys, and values of other types, are ignored.
    #[must_use]
    pub fn of_infos(infos: &[Info<'_>]) -> Self {
        let mut filter = Self::default();
        for info in infos {
            match &info.value {
                Value::DeviceType(types) if info.key.is(keys::DEVICE_TYPE) => {
                    filter.types = filter.types.union(*types);
                }
                Value::String(Some(id)) if info.key.is(keys::DEVICE_ID) => {
                    filter.ids.push(id.to_string());
                }
                _ => {}
            }
        }
        filter
    }

    fn wants(&self, device_type: DeviceType, names: [&str; 2]) -> bool {
        let of_type = self.types == DeviceType::UNKNOWN || self.types.contains(device_type);
        let named = |id: &String| names.iter().any(|name| id.eq_ignore_ascii_case(name));
        of_type && (self.ids.is_empty() || self.ids.iter().any(named))
    }
}

/// The types of devices, in the order of the results.
const TYPES: [DeviceType; 3] = [
    DeviceType::GPU,
    DeviceType::NETWORK,
    DeviceType::OPENFABRICS,
];

/// Returns the distances; see [`crate::Topology::distances`].
pub(crate) fn distances(
    tree: &Tree,
    cpus: &Cpuset,
    hostname: &str,
    filter: &DeviceFilter,
) -> Result<Vec<DeviceDistance<'static>>, Error> {
    let machine = tree.machine();
    if !machine.is_some_and(|machine| machine.cpus.intersects(cpus)) {
        return Err(Error::unavailable(
            "none of the processors belongs to this machine",
        ));
    }
    let Some(here) = tree.around(cpus) else {
        return Err(Error::unavailable(
            "the processors share only the machine as a whole",
        ));
    };
    let mut found = Vec::new();
    for (device, beside) in TYPES.iter().flat_map(|wanted| {
        let devices = tree.devices();
        devices.filter(|(device, _)| device.kind.device_type() == *wanted)
    }) {
        let device_type = device.kind.device_type();
        let Some(uuid) = device.uuid(hostname) else {
            continue;
        };
        if !filter.wants(device_type, [&device.name, &uuid]) {
            continue;
        }
        // The deeper the common object, the nearer the device. Devices that share only the machine
        // are farthest.
        let common = tree.common(here, beside).map_or(0, |part| part.depth);
        let distance = match common {
            0 => here.depth + tree.depth(),
            common => tree.depth().saturating_sub(common),
        };
        let distance = u16::try_from(distance).unwrap_or(u16::MAX);
        found.push(DeviceDistance {
            uuid: Some(Text::new(uuid.into_bytes())),
            osname: Some(Text::new(device.name.clone().into_bytes())),
            device_type,
            mindist: distance,
            maxdist: distance,
        });
    }
    match found.is_empty() {
        true => Err(Error::missing("there is no such device")),
        false => Ok(found),
    }
}

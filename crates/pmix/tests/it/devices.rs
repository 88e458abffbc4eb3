// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distances of devices, which a process requests from its server.

use std::path::Path;

use pmix::client::Client;
use pmix::prelude::*;
use pmix::topology::{DeviceFilter, Topology};
use pmix::types::{self, Cpuset, DeviceType};

use crate::served::{Result, serve_with};

/// Returns a machine with several memories and devices, described by hwloc.
fn machine() -> Result<Topology> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let xml = root.join("testdata/topology/devices.xml");
    Ok(Topology::of_xml_file(&xml)?)
}

#[test]
fn a_server_tells_how_far_devices_are_that_a_process_does_not_see() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let described = machine()?;
    let (server, mut settings) = serve_with(folder.path(), 1, |server| server.topology(described))?;
    let settings = settings.pop().ok_or("no process")?;
    let client = Client::init(settings)?;
    let ask = |cpus: Option<&'static str>, infos: Vec<Info<'static>>| {
        let cpuset = Cpuset {
            source: Some("hwloc".into()),
            bitmap: cpus.map(Into::into),
        };
        let topology = types::Topology::default();
        client.compute_distances(topology, cpuset, infos).wait()
    };
    let node = machine()?;
    let here = |infos: &[Info<'_>]| {
        let cpus = pmix::topology::Cpuset::parse("0")?;
        node.distances(&cpus, "n00", &DeviceFilter::of_infos(infos))
    };

    let all = ask(Some("0"), Vec::new())?;
    assert!(all.len() > 1, "{all:?}");
    assert_eq!(all, here(&[])?);

    let networks = vec![Info::new(keys::DEVICE_TYPE, DeviceType::NETWORK)];
    let some = ask(Some("0"), networks.clone())?;
    assert_eq!(some, here(&networks)?);
    assert!(!some.is_empty() && some.len() < all.len(), "{some:?}");

    let named = vec![Info::new(keys::DEVICE_ID, "no such device")];
    let refused = ask(Some("0"), named).err().map(|error| error.status());
    assert_eq!(refused, Some(Status::ERR_NOT_FOUND));
    for list in ["x", "0-99999999999", "4000000000"] {
        let refused = ask(Some(list), Vec::new())
            .err()
            .map(|error| error.status());
        assert!(refused.is_some(), "{list}");
    }
    // The host has not stated the binding of the process.
    let everywhere = ask(None, Vec::new()).err().map(|error| error.status());
    assert_eq!(everywhere, Some(Status::ERR_NOT_AVAILABLE));
    client.finalize()?;
    server.finalize()?;
    Ok(())
}

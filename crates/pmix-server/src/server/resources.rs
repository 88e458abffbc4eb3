// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registration of resources independent of jobs, inventories of nodes, and flow control of input.
//!
//! Source: OpenPMIx, the function that each method names.

use std::path::Path;

use pmix_proto::SupportedFunction;
use pmix_topology::{Cpuset, DeviceFilter, Topology};
use pmix_types::{DataArray, DeviceType, Info, IofChannel, Proc, Text, Value, keys};

use crate::{Error, Server};

/// The types of devices that connect nodes.
const OF_FABRICS: [DeviceType; 2] = [DeviceType::NETWORK, DeviceType::OPENFABRICS];

impl Server {
    /// Registers infos for all jobs that are registered or updated later (`PMIx_server_register_resources`).
    /// They become job info and take precedence over values of the job itself. For jobs that are already
    /// registered, gets and queries of tools use them where the job has no value. An info replaces the
    /// previous one with its key; arrays that describe nodes are kept separately for each node.
    ///
    /// `PMIX_GROUP_JOB_INFO` holds the result of [`collect_job_info`](Self::collect_job_info) on another
    /// node: its jobs are then known here until they are deregistered. Jobs that are registered here are not
    /// changed.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running. Returns `PMIX_ERR_NOT_SUPPORTED` for other infos about
    /// groups, which are supported only in the construct of a group. Returns `PMIX_ERR_BAD_PARAM` for job info of
    /// another type, and an unpack error for damaged job info.
    pub fn register_resources(&self, infos: &[Info<'_>]) -> Result<(), Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| engine.register_resources(infos))
    }

    /// Removes the registered infos with the keys of these infos (`PMIx_server_deregister_resources`); an
    /// array with `PMIX_HOSTNAME` or `PMIX_NODEID` selects the description of that node. Jobs that received
    /// them keep them. A key without a registered info is not an error.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running.
    pub fn deregister_resources(&self, infos: &[Info<'_>]) -> Result<(), Error> {
        let forget = |engine: &mut pmix_engine::Engine, _| {
            engine.deregister_resources(infos);
            Ok::<_, Error>(())
        };
        self.0.handle.request(forget)
    }

    /// Registers a session and its description (`PMIx_server_register_session`). The session exists without jobs
    /// and after them. Jobs that name it by `PMIX_SESSION_ID` get this description in place of their own. A session
    /// that is known already, from here or from a job, does not change.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running. Returns `PMIX_ERR_BAD_PARAM` for the number `u32::MAX`,
    /// which means no session, and for infos with another session number. Returns the errors of infos that cannot be
    /// registered for a job, such as `PMIX_ERR_TYPE_MISMATCH`.
    pub fn register_session(&self, id: u32, infos: &[Info<'_>]) -> Result<(), Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| engine.register_session(id, infos))
    }

    /// Removes a session (`PMIx_server_deregister_session`). Its jobs stay registered and keep the description.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_NOT_FOUND` if the session is not
    /// registered.
    pub fn deregister_session(&self, id: u32) -> Result<(), Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| engine.deregister_session(id))
    }

    /// Returns the inventory of this node for [`deliver_inventory`](Self::deliver_inventory) on another node
    /// (`PMIx_server_collect_inventory`). It is one `PMIX_NODE_INFO_ARRAY` with `PMIX_HOSTNAME`, `PMIX_HWLOC_XML_V2`
    /// and, if there are devices that connect nodes, `PMIX_FABRIC_DEVICES`. That is an array with one
    /// `PMIX_FABRIC_DEVICE` for each device, which has `PMIX_FABRIC_DEVICE_NAME`, `PMIX_DEVICE_ID` and
    /// `PMIX_DEVICE_TYPE`. The directives `PMIX_DEVICE_TYPE` and `PMIX_DEVICE_ID` select devices. The topology is that
    /// of the host if it set one, else that of the file in `HWLOC_XMLFILE`, else that of `/sys`, which this call reads.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_NOT_SUPPORTED` for a required directive that
    /// is not supported.
    pub fn collect_inventory(&self, directives: &[Info<'_>]) -> Result<Vec<Info<'static>>, Error> {
        self.0.handle.request(|_, _| Ok::<_, Error>(()))?;
        check("PMIx_server_collect_inventory", directives)?;
        let topology = self.topology();
        let hostname = &self.0.fork.hostname;
        let text = |text: &str| Value::String(Some(Text::new(text.as_bytes().to_vec())));
        let mut node = vec![
            Info::new(keys::HOSTNAME, text(hostname)),
            Info::new(keys::HWLOC_XML_V2, text(&topology.to_xml())),
        ];
        let system;
        // A host may describe processors only; the devices are then those of the system.
        let devices = match topology.has_devices() {
            true => &topology,
            false => {
                system = Topology::of_system();
                &system
            }
        };
        let filter = DeviceFilter::of_infos(directives);
        let all = devices.distances(&Cpuset::full(), hostname, &filter);
        let all = all.unwrap_or_else(|error| {
            tracing::debug!(%error, "the inventory has no devices");
            Vec::new()
        });
        let of_fabrics = all
            .iter()
            .filter(|device| OF_FABRICS.contains(&device.device_type));
        let devices = of_fabrics.map(|device| {
            let about = vec![
                Info::new(
                    keys::FABRIC_DEVICE_NAME,
                    Value::String(device.osname.clone()),
                ),
                Info::new(keys::DEVICE_ID, Value::String(device.uuid.clone())),
                Info::new(keys::DEVICE_TYPE, Value::DeviceType(device.device_type)),
            ];
            Info::new(
                keys::FABRIC_DEVICE,
                Value::DataArray(DataArray::Info(about)),
            )
        });
        let devices: Vec<_> = devices.collect();
        if !devices.is_empty() {
            let devices = Value::DataArray(DataArray::Info(devices));
            node.push(Info::new(keys::FABRIC_DEVICES, devices));
        }
        let node = Value::DataArray(DataArray::Info(node));
        Ok(vec![Info::new(keys::NODE_INFO_ARRAY, node)])
    }

    /// Stores the inventories of nodes (`PMIx_server_deliver_inventory`): each `PMIX_NODE_INFO_ARRAY` that
    /// names its node by `PMIX_HOSTNAME`, as [`collect_inventory`](Self::collect_inventory) returns it or
    /// with keys of the host's own. Previous values of the node with the same keys are replaced. A get or
    /// query that names the node by `PMIX_HOSTNAME` uses the inventory where the job has no value. Other
    /// infos are ignored.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running.
    pub fn deliver_inventory(&self, infos: &[Info<'_>]) -> Result<(), Error> {
        let deliver = |engine: &mut pmix_engine::Engine, _| {
            engine.deliver_inventory(infos);
            Ok::<_, Error>(())
        };
        self.0.handle.request(deliver)
    }

    /// Packs the known job info of the jobs of processes, each job once, for
    /// [`register_resources`](Self::register_resources) on another node (`PMIx_server_collect_job_info`). Unknown jobs
    /// are left out.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_BAD_PARAM` without processes.
    pub fn collect_job_info(&self, procs: &[Proc<'_>]) -> Result<Vec<u8>, Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| engine.collect_job_info(procs))
    }

    /// Suspends the input of a process, or resumes it (`PMIx_server_IOF_flow_control`): while it is
    /// suspended, pushed input is neither passed to [`Host::push_stdin`](crate::Host::push_stdin) nor
    /// acknowledged. The input is delayed without loss. A wildcard rank or an empty nspace selects all of them;
    /// an empty list selects all processes that are connected now. A process that is not connected is not an
    /// error. A host that completes a push with `PMIX_ERR_IOF_XOFF` has accepted the input and suspends the
    /// process.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_INIT` if the server is not running, and `PMIX_ERR_NOT_SUPPORTED` if the channels do not
    /// include input, since output cannot be suspended.
    pub fn iof_flow_control(
        &self,
        source: Option<&Proc<'_>>,
        channels: IofChannel,
        suspends: bool,
    ) -> Result<(), Error> {
        let handle = &self.0.handle;
        handle.request(|engine, _| engine.iof_flow_control(source, channels, suspends))
    }

    /// Returns the topology of this node, as described by the host or as detected.
    fn topology(&self) -> Topology {
        let described = self.0.modes.described_topology.as_ref();
        // The inventory must describe the node as the clients see it in their job info.
        let described = described.or(self.0.modes.shared_topology.as_ref());
        let described = described.map(|xml| Topology::of_xml(xml.to_string()));
        let from_environment = || {
            let file = self.0.fork.environment.first_of(&["HWLOC_XMLFILE"])?;
            Some(Topology::of_xml_file(Path::new(file)))
        };
        let read = described.or_else(from_environment).and_then(|read| {
            read.inspect_err(|error| {
                tracing::warn!("cannot parse the topology XML of this node: {error}")
            })
            .ok()
        });
        read.unwrap_or_else(Topology::of_system)
    }
}

// The directives that the server supports in calls of the host.
//
// Infos that are data, such as job info or resources, are not directives.

const SUPPORTED: &[SupportedFunction<'static>] = &[
    (
        "PMIx_server_collect_inventory",
        &["DEVICE_ID", "DEVICE_TYPE"],
    ),
    (
        "PMIx_server_setup_application",
        &[
            "MODEL_LIBRARY_NAME",
            "PROGRAMMING_MODEL",
            "SETUP_APP_ALL",
            "SETUP_APP_ENVARS",
        ],
    ),
    (
        "PMIx_server_setup_local_support",
        &["ADD_ENVAR", "APPEND_ENVAR", "PREPEND_ENVAR", "SET_ENVAR"],
    ),
];

/// Rejects required directives that the server does not support.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_SUPPORTED`, with the attribute and the function in the message, if one is not supported.
pub(crate) fn check(function: &str, infos: &[Info<'_>]) -> Result<(), Error> {
    let checked = pmix_proto::check_required(function, &[SUPPORTED], infos);
    checked.map_err(|error| Error::new(error.status(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use pmix_types::Attribute;

    use super::*;

    #[test]
    fn every_name_of_the_table_is_an_attribute() {
        for (function, attributes) in SUPPORTED {
            for name in *attributes {
                assert!(Attribute::by_name(name).is_some(), "{name} of {function}");
            }
        }
    }
}

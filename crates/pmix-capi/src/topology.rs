// SPDX-License-Identifier: MIT OR Apache-2.0
//! The topology of this node, localities, and distances of devices (`PMIx_Load_topology`, `PMIx_Compute_distances`
//! and related functions).
//!
//! DEVIATION: a topology of another library than hwloc is `PMIX_ERR_NOT_SUPPORTED`; OpenPMIx 4.2.2 and 5.0.11 return
//! a number that their headers do not define; `a_program_gets_the_topology_of_its_node`.
//!
//! DEVIATION: a string that is not a list of CPUs is `PMIX_ERR_BAD_PARAM`, and distances that cannot be computed
//! return the status of the failure; 4.2.2 and 5.0.11 make an empty set, and return `PMIX_ERR_UNREACH`;
//! `a_program_gets_the_topology_of_its_node`.

use std::ffi::c_char;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use pmix_client::{Call, Client};
use pmix_mca::Environment;
use pmix_topology::{Cpuset, DeviceFilter, Error, Topology, relative_locality};
use pmix_types::{DeviceDistance, Info, Status, Text, Value, keys};

use crate::abi::*;
use crate::args::{Held, In, Infos, Maybe, Mut, Out, OutArray, OutPointer, Required, Str};
use crate::convert::check_required;
use crate::cpuset;
use crate::guard::exported;
use crate::later::later;
use crate::memory::{Result, string, text};
use crate::state::{client, state};
use crate::valid::Valid;

/// The source of the topologies of this library.
const SOURCE: &[u8] = b"pmix-rs";

/// The values of `pmix_bind_envelope_t`: the CPUs of the process or of the thread.
const OF_PROCESS: pmix_bind_envelope_t = 0;
const OF_THREAD: pmix_bind_envelope_t = 1;

fn refused(error: &Error) -> Status {
    tracing::debug!("{error}");
    error.status()
}

/// Returns an error if this process has not been initialized.
fn check_init() -> Result<()> {
    match state().is_any() {
        true => Ok(()),
        false => Err(Status::ERR_INIT),
    }
}

/// Returns the topology of this node. The first call reads it from the job info of the server, from the file that
/// `HWLOC_XMLFILE` names, or from `/sys`.
fn this_node() -> Result<Arc<Topology>> {
    let client = {
        let state = state();
        if let Some(known) = &state.topology {
            return Ok(Arc::clone(known));
        }
        if !state.is_any() {
            return Err(Status::ERR_INIT);
        }
        state.connection().cloned()
    };
    // The state is not locked while the topology is read, because reading takes time.
    let from_server = client.and_then(|client| {
        let optional = [Info::new(keys::OPTIONAL, true)];
        match client
            .get(&client.job(), keys::HWLOC_XML_V2, &optional)
            .known()
        {
            Some(Ok(Value::String(Some(xml)))) => xml.as_str().map(str::to_owned),
            _ => None,
        }
    });
    let named = || {
        let environment = Environment::of_process();
        let file = environment.first_of(&["HWLOC_XMLFILE"])?;
        Some(Topology::of_xml_file(Path::new(file)))
    };
    let read = from_server.map(Topology::of_xml).or_else(named);
    let read = read.and_then(|read| {
        read.inspect_err(|error| {
            tracing::warn!("ignoring a topology description of this node: {error}")
        })
        .ok()
    });
    let found = Arc::new(read.unwrap_or_else(Topology::of_system));
    // If two threads read it, both return the first one: C identifies the topology by its address.
    let mut state = state();
    Ok(Arc::clone(state.topology.get_or_insert(found)))
}

/// Returns `true` if a C topology is the one of this process.
fn is_ours(topology: &pmix_topology_t, ours: &Arc<Topology>) -> bool {
    ptr::eq(topology.topology.cast_const(), Arc::as_ptr(ours).cast())
}

/// Returns the name of this host.
fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

type Distances = Vec<DeviceDistance<'static>>;

/// The result of computing device distances in this process, or the request to the server if that fails.
enum Distant {
    Here(Distances),
    /// The status of the local failure, the client, and the arguments of the request.
    AskServer(
        Status,
        Client,
        pmix_types::Cpuset<'static>,
        Vec<Info<'static>>,
    ),
}

/// Returns the CPUs of a C set, or of this process without one.
fn cpus_of(cpuset: Option<Valid<'_, pmix_cpuset_t>>) -> Result<Cpuset> {
    match cpuset {
        Some(cpuset) => Ok(cpuset::read(cpuset)?.unwrap_or_else(Cpuset::full)),
        None => Cpuset::of_process().map_err(|error| refused(&error)),
    }
}

/// Computes the distances of devices, by default from this process and on this node.
fn distances(
    topo: Option<Valid<'_, pmix_topology_t>>,
    cpuset: Option<Valid<'_, pmix_cpuset_t>>,
    infos: Vec<Info<'static>>,
) -> Result<Distant> {
    let ours = this_node()?;
    check_required("PMIx_Compute_distances", &infos)?;
    match topo {
        Some(topo) if is_ours(&topo, &ours) => {}
        Some(topo) if topo.source.is_null() => return Err(Status::ERR_BAD_PARAM),
        Some(_) => return Err(Status::ERR_NOT_SUPPORTED),
        None => {}
    }
    let cpus = cpus_of(cpuset)?;
    let (host, filter) = (hostname(), DeviceFilter::of_infos(&infos));
    let found = ours.distances(&cpus, &host, &filter);
    let found = found.or_else(|error| match ours.has_devices() {
        true => Err(error),
        // Topologies for processes usually omit devices: those of hwloc do by default, and those of `pmix run` do.
        false => Topology::of_system().distances(&cpus, &host, &filter),
    });
    let why = match found {
        Ok(found) => return Ok(Distant::Here(found)),
        Err(error) => refused(&error),
    };
    let client = client().map_err(|_| why)?;
    let cpuset = pmix_types::Cpuset {
        source: Some(Text::from("hwloc")),
        bitmap: Some(Text::from(cpus.to_string())),
    };
    Ok(Distant::AskServer(why, client, cpuset, infos))
}

/// Requests device distances from the server.
fn ask_server<'a>(
    client: &'a Client,
    cpuset: pmix_types::Cpuset<'a>,
    infos: Vec<Info<'a>>,
) -> Call<'a, Distances> {
    // Without a topology in the request, the server uses its own.
    client.compute_distances(pmix_types::Topology::default(), cpuset, infos)
}

/// Parses a string as a set of CPUs.
fn parse(list: &[u8]) -> Result<pmix_cpuset_t> {
    let list = std::str::from_utf8(list).map_err(|_| Status::ERR_BAD_PARAM)?;
    let cpus = Cpuset::from_pmix(list).map_err(|error| refused(&error))?;
    cpuset::made(&cpus)
}

/// Returns `true` if the source of a C structure is one that `is_known` accepts, or none.
fn has_source(source: *const c_char, is_known: impl FnOnce(&[u8]) -> bool) -> bool {
    // SAFETY: the source of a structure of the program is NULL or a string (header contract).
    unsafe { text(source) }.is_none_or(is_known)
}

exported! {
    fn PMIx_Load_topology(_init = check_init()?; topo: Held<pmix_topology_t>) -> pmix_status_t {
        let given = topo.members();
        if !has_source(given.source, |source| source == SOURCE) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let ours = this_node()?;
        let source = if given.source.is_null() { string(SOURCE)? } else { given.source };
        topo.set(pmix_topology_t { source, topology: Arc::as_ptr(&ours).cast_mut().cast() });
        Ok(())
    }

    fn PMIx_Get_cpuset(_init = check_init()?; cpuset: Held<pmix_cpuset_t>, r#ref: pmix_bind_envelope_t) -> pmix_status_t {
        let source = cpuset.members().source;
        if !has_source(source, cpuset::is_hwloc_name) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let cpus = match r#ref {
            OF_PROCESS => Cpuset::of_process(),
            OF_THREAD => Cpuset::of_thread(),
            _ => return Err(Status::ERR_BAD_PARAM),
        };
        let cpus = cpus.map_err(|error| refused(&error))?;
        cpuset.set(match source.is_null() {
            true => cpuset::made(&cpus)?,
            false => cpuset::write(&cpus, source)?,
        });
        Ok(())
    }

    fn PMIx_Parse_cpuset_string(_init = check_init()?; cpuset_string: Str, cpuset: Out<pmix_cpuset_t>) -> pmix_status_t {
        cpuset.fill(|| parse(cpuset_string))
    }

    fn PMIx_server_generate_cpuset(_init = check_init()?; cpuset_string: Str, cpuset: Out<pmix_cpuset_t>) -> pmix_status_t {
        cpuset.fill(|| parse(cpuset_string))
    }

    fn PMIx_server_generate_cpuset_string(cpuset: In<pmix_cpuset_t>, cpuset_string: OutPointer<c_char>) -> pmix_status_t {
        let cpus = cpuset::read(cpuset)?.ok_or(Status::ERR_BAD_PARAM)?;
        cpuset_string.fill(|| string(cpus.to_pmix().as_bytes()))
    }

    fn PMIx_server_generate_locality_string(cpuset: Maybe<In<pmix_cpuset_t>>, locality: OutPointer<c_char>) -> pmix_status_t {
        let ours = this_node()?;
        let cpus = cpuset::read(cpuset.ok_or(Status::ERR_BAD_PARAM)?)?;
        match cpus.and_then(|cpus| ours.locality(&cpus)) {
            // A process that is not bound has no locality.
            None => Ok(()),
            Some(words) => locality.fill(|| string(words.as_bytes())),
        }
    }

    fn PMIx_Get_relative_locality(_init = check_init()?; locality1: Str, locality2: Str, locality: Out<pmix_locality_t>) -> pmix_status_t {
        let words = |text| std::str::from_utf8(text).map_err(|_| Status::ERR_BAD_PARAM);
        let shared = relative_locality(words(locality1)?, words(locality2)?);
        locality.write(shared.map_err(|error| refused(&error))?.as_raw());
        Ok(())
    }

    fn PMIx_Compute_distances(topo: Maybe<In<pmix_topology_t, Mut>>, cpuset: Maybe<In<pmix_cpuset_t, Mut>>, (info, ninfo): Infos<Mut>, (distances, ndist): OutArray<DeviceDistance<'static>>) -> pmix_status_t {
        let found = match self::distances(topo, cpuset, info)? {
            Distant::Here(found) => found,
            Distant::AskServer(why, client, cpuset, info) => {
                ask_server(&client, cpuset, info).wait().map_err(|_| why)?
            }
        };
        distances.write(&found)
    }

    fn PMIx_Compute_distances_nb(_init = check_init()?; topo: Maybe<In<pmix_topology_t, Mut>>, cpuset: Maybe<In<pmix_cpuset_t, Mut>>, (info, ninfo): Infos<Mut>, (cbfunc, cbdata): Required<pmix_device_dist_cbfunc_t>) -> pmix_status_t {
        match distances(topo, cpuset, info)? {
            Distant::Here(found) => later(move || cbfunc.complete(Ok(found))),
            Distant::AskServer(why, client, cpuset, info) => {
                let then = move |found: std::result::Result<Distances, pmix_client::Error>| {
                    cbfunc.complete(found.map_err(|_| why));
                };
                ask_server(&client, cpuset, info).start(then).map_err(|_| why)
            }
        }
    }
}

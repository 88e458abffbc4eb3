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

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use pmix_client::{Ask, Found, SharedClient};
use pmix_mca::Environment;
use pmix_topology::{Cpuset, DeviceFilter, Error, Topology, relative_locality};
use pmix_types::{DataArray, DeviceDistance, Info, Key, Status, Text, Value, keys};

use crate::abi::*;
use crate::answers::release_array;
use crate::callback::Callback;
use crate::convert::{check_required, clear_out, hand_out, infos_at};
use crate::cpuset;
use crate::guard::exported;
use crate::later::later;
use crate::memory::{Result, string, text};
use crate::model::Model;
use crate::record::{Record, there, there_mut};
use crate::state::{client, state};
use crate::status::{code, write_to};

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
    let told = client.and_then(|client| {
        let optional = [Info::new(keys::OPTIONAL, true)];
        match client.find(&client.job(), &Key::from(keys::HWLOC_XML_V2), &optional) {
            Found::Known(Ok(Value::String(Some(xml)))) => xml.as_str().map(str::to_owned),
            _ => None,
        }
    });
    let named = || {
        let environment = Environment::of_process();
        let file = environment.first_of(&["HWLOC_XMLFILE"])?;
        Some(Topology::of_xml_file(Path::new(file)))
    };
    let read = told.map(Topology::of_xml).or_else(named);
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
    /// The status of the local failure, the client, and the request.
    AskServer(Status, SharedClient, Box<Ask<'static, Distances>>),
}

/// Computes the distances of devices, by default from this process and on this node.
///
/// # Safety
/// Each pointer is NULL or valid, and `info` has `ninfo` valid infos.
unsafe fn distances(
    topo: *const pmix_topology_t,
    cpuset: *const pmix_cpuset_t,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Distant> {
    let ours = this_node()?;
    // SAFETY: the caller guarantees that each pointer is NULL or valid.
    let (topo, cpuset, infos) = unsafe { (topo.as_ref(), cpuset.as_ref(), infos_at(info, ninfo)?) };
    check_required("PMIx_Compute_distances", &infos)?;
    if let Some(topo) = topo
        && !is_ours(topo, &ours)
    {
        return Err(match topo.source.is_null() {
            true => Status::ERR_BAD_PARAM,
            false => Status::ERR_NOT_SUPPORTED,
        });
    }
    // SAFETY: the caller guarantees that `cpuset` is NULL or valid.
    let cpus = match cpuset
        .map(|cpuset| unsafe { cpuset::read(cpuset) })
        .transpose()?
    {
        Some(cpus) => cpus.unwrap_or_else(Cpuset::full),
        None => Cpuset::of_process().map_err(|error| refused(&error))?,
    };
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
    // Without a topology in the request, the server uses its own.
    let ask = Ask::device_distances(pmix_types::Topology::default(), cpuset, infos);
    Ok(Distant::AskServer(why, client, Box::new(ask)))
}

/// Parses a C string as a set of CPUs.
///
/// # Safety
/// `from` is NULL or a string, and `to` is NULL or valid.
unsafe fn parse(from: *const c_char, to: *mut pmix_cpuset_t) -> Result<()> {
    check_init()?;
    // SAFETY: the caller guarantees that `from` is NULL or a string, and `to` NULL or valid.
    unsafe {
        let list = text(from).ok_or(Status::ERR_BAD_PARAM)?;
        there(to)?;
        let list = std::str::from_utf8(list).map_err(|_| Status::ERR_BAD_PARAM)?;
        let cpus = Cpuset::from_pmix(list).map_err(|error| refused(&error))?;
        write_to(to, cpuset::made(&cpus)?)
    }
}

exported! {
    fn PMIx_Load_topology(topo: *mut pmix_topology_t) -> pmix_status_t {
        code((|| {
            check_init()?;
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let topo = unsafe { there_mut(topo)? };
            // SAFETY: the header requires `source` to be NULL or a string.
            if unsafe { text(topo.source) }.is_some_and(|wanted| wanted != SOURCE) {
                return Err(Status::ERR_NOT_SUPPORTED);
            }
            let ours = this_node()?;
            if topo.source.is_null() {
                topo.source = string(SOURCE)?;
            }
            topo.topology = Arc::as_ptr(&ours).cast_mut().cast();
            Ok(())
        })())
    }

    fn PMIx_Get_cpuset(cpuset: *mut pmix_cpuset_t, r#ref: pmix_bind_envelope_t) -> pmix_status_t {
        code((|| {
            check_init()?;
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let to = unsafe { there_mut(cpuset)? };
            // SAFETY: the header requires `source` to be NULL or a string.
            if !to.source.is_null() && !unsafe { cpuset::is_hwloc(to.source) } {
                return Err(Status::ERR_NOT_SUPPORTED);
            }
            let cpus = match r#ref {
                OF_PROCESS => Cpuset::of_process(),
                OF_THREAD => Cpuset::of_thread(),
                _ => return Err(Status::ERR_BAD_PARAM),
            };
            let cpus = cpus.map_err(|error| refused(&error))?;
            *to = match to.source.is_null() {
                true => cpuset::made(&cpus)?,
                false => cpuset::write(&cpus, to.source)?,
            };
            Ok(())
        })())
    }

    fn PMIx_Parse_cpuset_string(cpuset_string: *const c_char, cpuset: *mut pmix_cpuset_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { parse(cpuset_string, cpuset) })
    }

    fn PMIx_server_generate_cpuset(cpuset_string: *const c_char, cpuset: *mut pmix_cpuset_t) -> pmix_status_t {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        code(unsafe { parse(cpuset_string, cpuset) })
    }

    fn PMIx_server_generate_cpuset_string(cpuset: *const pmix_cpuset_t, cpuset_string: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            unsafe {
                write_to(cpuset_string, ptr::null_mut())?;
                let cpus = cpuset::read(there(cpuset)?)?.ok_or(Status::ERR_BAD_PARAM)?;
                write_to(cpuset_string, string(cpus.to_pmix().as_bytes())?)
            }
        })())
    }

    fn PMIx_server_generate_locality_string(cpuset: *const pmix_cpuset_t, locality: *mut *mut c_char) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            unsafe {
                write_to(locality, ptr::null_mut())?;
                let ours = this_node()?;
                let cpus = cpuset::read(there(cpuset)?)?;
                match cpus.and_then(|cpus| ours.locality(&cpus)) {
                    // A process that is not bound has no locality.
                    None => Ok(()),
                    Some(words) => write_to(locality, string(words.as_bytes())?),
                }
            }
        })())
    }

    fn PMIx_Get_relative_locality(locality1: *const c_char, locality2: *const c_char, locality: *mut pmix_locality_t) -> pmix_status_t {
        code((|| {
            check_init()?;
            // SAFETY: the header requires each pointer to be NULL or valid for its type.
            let both = unsafe { [text(locality1), text(locality2)] };
            let [one, other] = both.map(|text| {
                let text = text.ok_or(Status::ERR_BAD_PARAM)?;
                std::str::from_utf8(text).map_err(|_| Status::ERR_BAD_PARAM)
            });
            let shared = relative_locality(one?, other?).map_err(|error| refused(&error))?;
            // SAFETY: the header requires `locality` to be NULL or valid for writes.
            unsafe { write_to(locality, shared.as_raw()) }
        })())
    }

    fn PMIx_Compute_distances(topo: *mut pmix_topology_t, cpuset: *mut pmix_cpuset_t, info: *mut pmix_info_t, ninfo: usize, distances: *mut *mut pmix_device_distance_t, ndist: *mut usize) -> pmix_status_t {
        code((|| {
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            unsafe {
                clear_out(distances, ndist);
                if distances.is_null() || ndist.is_null() {
                    return Err(Status::ERR_BAD_PARAM);
                }
                let found = match self::distances(topo, cpuset, info, ninfo)? {
                    Distant::Here(found) => found,
                    Distant::AskServer(why, client, ask) => client.wait(*ask).map_err(|_| why)?,
                };
                hand_out(&found, distances, ndist)
            }
        })())
    }

    fn PMIx_Compute_distances_nb(topo: *mut pmix_topology_t, cpuset: *mut pmix_cpuset_t, info: *mut pmix_info_t, ninfo: usize, cbfunc: pmix_device_dist_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            check_init()?;
            let callback = Callback::new(cbfunc.ok_or(Status::ERR_BAD_PARAM)?, cbdata);
            let answer = move |found: Result<Distances>| {
                callback.call(move |callback, data| {
                    let made = found.and_then(|found| DataArray::DeviceDistance(found).to_c());
                    let status = made.as_ref().err().copied().unwrap_or(Status::SUCCESS);
                    let made = made.unwrap_or_else(|_| pmix_data_array_t::initial());
                    let given = Box::into_raw(Box::new(made));
                    // SAFETY: the program passed this function with this `cbdata`, as the header declares it. `made`
                    // is valid until the program calls `release_array` with `given`.
                    unsafe {
                        callback(status.as_raw(), made.array.cast(), made.size, data, Some(release_array), given.cast());
                    }
                });
            };
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            match unsafe { self::distances(topo, cpuset, info, ninfo)? } {
                Distant::Here(found) => later(move || answer(Ok(found))),
                Distant::AskServer(why, client, ask) => {
                    let then = move |told: std::result::Result<Distances, _>| {
                        answer(told.map_err(|_: pmix_client::Error| why));
                    };
                    client.start(*ask, then).map_err(|_| why)
                }
            }
        })())
    }
}

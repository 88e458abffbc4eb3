// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversion between C structures and the data model.

use std::ffi::c_void;
use std::ptr;

use pmix_types::*;

use crate::abi::*;
use crate::memory::{
    Result, argv, bytes, copied, fill, filled, list_for, maybe_string, read_text, read_texts, slice,
};
use crate::record::{OwnedMap, OwnedString, Record, empty_list, fresh};
use crate::regex;
use crate::valid::Valid;

/// A type of the data model that has a C form.
pub(crate) trait Model: Sized {
    /// The C form of the type.
    type C: Record;

    /// Converts a C structure to a copy in the model.
    fn from_c(from: Valid<'_, Self::C>) -> Result<Self>;

    /// Converts to a C structure in memory of the C library.
    fn to_c(&self) -> Result<Self::C>;
}

macro_rules! same {
    ($($type:ty),*) => {
        $(impl Model for $type {
            type C = $type;

            fn from_c(from: Valid<'_, $type>) -> Result<Self> {
                Ok(*from)
            }

            fn to_c(&self) -> Result<$type> {
                Ok(*self)
            }
        })*
    };
}

same!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

macro_rules! numbers {
    ($($type:ident($c:ty)),* $(,)?) => {
        $(impl Model for $type {
            type C = $c;

            fn from_c(from: Valid<'_, $c>) -> Result<Self> {
                Ok(Self::from_raw(*from))
            }

            fn to_c(&self) -> Result<$c> {
                Ok(self.as_raw())
            }
        })*
    };
}

numbers! {
    AllocDirective(u8), AllocInheritance(u8), DataRange(u8), DataType(u16), DeviceType(u64),
    InfoFlags(u32), IofChannel(u16), JobState(u8), LinkState(u8), Locality(u16), Persistence(u8),
    ProcState(u8), Rank(u32), ResourceBlockDirective(u8), Scope(u8), Status(i32),
    StorageAccessType(u16), StorageAccessibility(u64), StorageMedium(u64), StoragePersistence(u64),
}

impl Model for bool {
    type C = u8;

    fn from_c(from: Valid<'_, u8>) -> Result<Self> {
        Ok(*from != 0)
    }

    fn to_c(&self) -> Result<u8> {
        Ok(u8::from(*self))
    }
}

/// A pointer has no meaning in another process, so its value is not converted.
impl Model for () {
    type C = *mut c_void;

    fn from_c(_: Valid<'_, *mut c_void>) -> Result<Self> {
        Ok(())
    }

    fn to_c(&self) -> Result<*mut c_void> {
        Ok(ptr::null_mut())
    }
}

impl<T: Model> Model for Box<T> {
    type C = T::C;

    fn from_c(from: Valid<'_, T::C>) -> Result<Self> {
        T::from_c(from).map(Self::new)
    }

    fn to_c(&self) -> Result<T::C> {
        (**self).to_c()
    }
}

/// Converts a C array.
pub(crate) fn many<M: Model>(from: Valid<'_, [M::C]>) -> Result<Vec<M>> {
    let mut made = list_for(from.len())?;
    for element in from.iter() {
        made.push(M::from_c(element)?);
    }
    Ok(made)
}

/// Converts the array of a structure.
///
/// # Safety
/// `at` and `count` are members of a valid structure.
unsafe fn members<M: Model>(at: *const M::C, count: usize) -> Result<Vec<M>> {
    // SAFETY: the caller guarantees `count` valid elements at `at`, or NULL.
    many(unsafe { Valid::slice(at, count)? })
}

/// Converts a structure inside another one.
///
/// # Safety
/// `at` is a member of a valid structure.
unsafe fn member<M: Model>(at: &M::C) -> Result<M> {
    // SAFETY: the caller guarantees the validity.
    M::from_c(unsafe { Valid::new(at) })
}

/// Returns a C array of the elements, in memory of the C library; NULL for none.
pub(crate) fn list<M: Model>(from: &[M]) -> Result<*mut M::C> {
    let mut at = fresh::<M::C>(from.len())?;
    for (place, one) in from.iter().enumerate() {
        match one.to_c() {
            // SAFETY: `fresh` made an array of `from.len()` elements, and `place` is less than that.
            Ok(made) => unsafe { at.add(place).write(made) },
            Err(status) => {
                // SAFETY: every member is converted or initialized as empty.
                unsafe { empty_list(&mut at, &mut from.len()) };
                return Err(status);
            }
        }
    }
    Ok(at)
}

/// Converts a value that is one of several. A value without a C form, such as a topology of hwloc, becomes one of
/// type `PMIX_UNDEF`, so that the others can be delivered.
fn shown(value: &Value<'_>) -> Result<pmix_value_t> {
    match value.to_c() {
        Err(status) if status != Status::ERR_NOMEM => Ok(pmix_value_t::initial()),
        made => made,
    }
}

/// Assigns the members of a structure one by one; if one fails, frees those before it.
macro_rules! structure {
    ($type:ident { $($field:ident: $value:expr,)* }) => {{
        let mut made = $type::initial();
        let mut fill = || -> Result<()> {
            $(made.$field = $value;)*
            Ok(())
        };
        match fill() {
            Ok(()) => Ok(made),
            Err(status) => {
                // SAFETY: every member is converted or initialized as empty.
                unsafe { made.empty() };
                Err(status)
            }
        }
    }};
}

macro_rules! models {
    ($($model:ty = $c:ident |$from:ident| $read:expr, |$this:ident| $write:tt)*) => {
        $(impl Model for $model {
            type C = $c;

            #[allow(unused_unsafe, reason = "not every structure has pointers")]
            fn from_c($from: Valid<'_, $c>) -> Result<Self> {
                // SAFETY: the structure is `Valid`, so every pointer in it is NULL or valid.
                unsafe { Ok($read) }
            }

            fn to_c(&self) -> Result<$c> {
                let $this = self;
                structure!($c $write)
            }
        })*
    };
}

fn key_of(from: &pmix_key_t) -> Key<'static> {
    Key::new(Text::new(filled(from).to_vec()))
}

fn key(from: &Key<'_>) -> pmix_key_t {
    let mut to = [0; 512];
    fill(&mut to, from.as_bytes());
    to
}

impl Model for Option<Text<'_>> {
    type C = OwnedString;

    fn from_c(from: Valid<'_, OwnedString>) -> Result<Self> {
        // SAFETY: the datum is `Valid`: NULL or a string.
        unsafe { read_text(from.0) }
    }

    fn to_c(&self) -> Result<OwnedString> {
        maybe_string(self.as_ref()).map(OwnedString)
    }
}

impl Model for Timeval {
    type C = timeval;

    fn from_c(from: Valid<'_, timeval>) -> Result<Self> {
        Ok(Self {
            tv_sec: from.tv_sec,
            tv_usec: from.tv_usec,
        })
    }

    fn to_c(&self) -> Result<timeval> {
        Ok(timeval {
            tv_sec: self.tv_sec,
            tv_usec: self.tv_usec,
        })
    }
}

impl Model for Nspace<'_> {
    type C = pmix_nspace_t;

    fn from_c(from: Valid<'_, pmix_nspace_t>) -> Result<Self> {
        Ok(Self::new(Text::new(filled(&from).to_vec())))
    }

    fn to_c(&self) -> Result<pmix_nspace_t> {
        let mut to = [0; 256];
        fill(&mut to, self.as_bytes());
        Ok(to)
    }
}

impl Model for Bytes<'_> {
    type C = pmix_byte_object_t;

    fn from_c(from: Valid<'_, pmix_byte_object_t>) -> Result<Self> {
        // SAFETY: the object is `Valid`: it has `size` bytes at `bytes`, or NULL.
        copied(unsafe { slice(from.bytes.cast::<u8>(), from.size)? }).map(Bytes::from)
    }

    fn to_c(&self) -> Result<pmix_byte_object_t> {
        Ok(pmix_byte_object_t {
            bytes: bytes(self)?,
            size: self.len(),
        })
    }
}

impl Model for RegexBytes<'_> {
    type C = OwnedMap;

    fn from_c(from: Valid<'_, OwnedMap>) -> Result<Self> {
        // SAFETY: the datum is `Valid`: NULL or a map.
        let map = unsafe { regex::map_at(from.0)? };
        Ok(Self(copied(map)?.into()))
    }

    fn to_c(&self) -> Result<OwnedMap> {
        regex::copy(&self.0).map(OwnedMap)
    }
}

/// The description of hardware belongs to another library, which this one cannot call. Only an empty description is
/// converted.
impl Model for Topology<'_> {
    type C = pmix_topology_t;

    fn from_c(from: Valid<'_, pmix_topology_t>) -> Result<Self> {
        match from.topology.is_null() {
            true => Ok(Self::default()),
            false => Err(Status::ERR_NOT_SUPPORTED),
        }
    }

    fn to_c(&self) -> Result<pmix_topology_t> {
        match self.topology {
            None => Ok(pmix_topology_t::initial()),
            Some(_) => Err(Status::ERR_NOT_SUPPORTED),
        }
    }
}

impl Model for Cpuset<'_> {
    type C = pmix_cpuset_t;

    fn from_c(from: Valid<'_, pmix_cpuset_t>) -> Result<Self> {
        if from.source.is_null() && from.bitmap.is_null() {
            return Ok(Self::default());
        }
        // SAFETY: the set is `Valid`, so its source is NULL or a string.
        let source = unsafe { read_text(from.source)? };
        let cpus = crate::cpuset::read(from).map_err(|_| Status::ERR_NOT_SUPPORTED)?;
        let list = cpus.map(|cpus| Text::new(cpus.to_string().into_bytes()));
        Ok(Self {
            source,
            bitmap: list,
        })
    }

    fn to_c(&self) -> Result<pmix_cpuset_t> {
        let Some(list) = &self.bitmap else {
            let mut to = pmix_cpuset_t::initial();
            to.source = crate::memory::string(b"hwloc")?;
            return Ok(to);
        };
        let list = list.as_str().ok_or(Status::ERR_UNPACK_FAILURE)?;
        let cpus = pmix_topology::Cpuset::parse(list).map_err(|error| error.status())?;
        crate::cpuset::made(&cpus)
    }
}

models! {
    Proc<'_> = pmix_proc_t
        |c| Proc::new(member::<Nspace<'_>>(&c.nspace)?, Rank::new(c.rank)),
        |m| { nspace: m.nspace.to_c()?, rank: m.rank.as_raw(), }
    Info<'_> = pmix_info_t
        |c| Info {
            key: key_of(&c.key),
            flags: InfoFlags::from_raw(c.flags),
            value: member(&c.value)?,
        },
        |m| { key: key(&m.key), flags: m.flags.without(InfoFlags::PERSISTENT).as_raw(), value: shown(&m.value)?, }
    Pdata<'_> = pmix_pdata_t
        |c| Pdata { proc: member(&c.proc)?, key: key_of(&c.key), value: member(&c.value)? },
        |m| { proc: m.proc.to_c()?, key: key(&m.key), value: shown(&m.value)?, }
    App<'_> = pmix_app_t
        |c| App {
            cmd: read_text(c.cmd)?,
            argv: read_texts(c.argv)?,
            env: read_texts(c.env)?,
            cwd: read_text(c.cwd)?,
            maxprocs: c.maxprocs,
            info: members(c.info, c.ninfo)?,
        },
        |m| {
            cmd: maybe_string(m.cmd.as_ref())?,
            argv: argv(&m.argv)?,
            env: argv(&m.env)?,
            cwd: maybe_string(m.cwd.as_ref())?,
            maxprocs: m.maxprocs,
            info: list(&m.info)?,
            ninfo: m.info.len(),
        }
    Query<'_> = pmix_query_t
        |c| Query { keys: read_texts(c.keys)?, qualifiers: members(c.qualifiers, c.nqual)? },
        |m| { keys: argv(&m.keys)?, qualifiers: list(&m.qualifiers)?, nqual: m.qualifiers.len(), }
    Regattr<'_> = pmix_regattr_t
        |c| Regattr {
            name: read_text(c.name)?,
            string: key_of(&c.string),
            data_type: DataType::from_raw(c.r#type),
            description: read_texts(c.description)?,
        },
        |m| {
            name: maybe_string(m.name.as_ref())?,
            string: key(&m.string),
            r#type: m.data_type.as_raw(),
            description: argv(&m.description)?,
        }
    ProcInfo<'_> = pmix_proc_info_t
        |c| ProcInfo {
            proc: member(&c.proc)?,
            hostname: read_text(c.hostname)?,
            executable_name: read_text(c.executable_name)?,
            pid: c.pid,
            exit_code: c.exit_code,
            state: ProcState::from_raw(c.state),
        },
        |m| {
            proc: m.proc.to_c()?,
            hostname: maybe_string(m.hostname.as_ref())?,
            executable_name: maybe_string(m.executable_name.as_ref())?,
            pid: m.pid,
            exit_code: m.exit_code,
            state: m.state.as_raw(),
        }
    NodePid<'_> = pmix_node_pid_t
        |c| NodePid { hostname: read_text(c.hostname)?, nodeid: c.nodeid, pid: c.pid },
        |m| { hostname: maybe_string(m.hostname.as_ref())?, nodeid: m.nodeid, pid: m.pid, }
    Envar<'_> = pmix_envar_t
        |c| Envar {
            envar: read_text(c.envar)?,
            value: read_text(c.value)?,
            separator: c.separator.cast_unsigned(),
        },
        |m| {
            envar: maybe_string(m.envar.as_ref())?,
            value: maybe_string(m.value.as_ref())?,
            separator: m.separator.cast_signed(),
        }
    Endpoint<'_> = pmix_endpoint_t
        |c| Endpoint { uuid: read_text(c.uuid)?, osname: read_text(c.osname)?, endpt: member(&c.endpt)? },
        |m| {
            uuid: maybe_string(m.uuid.as_ref())?,
            osname: maybe_string(m.osname.as_ref())?,
            endpt: m.endpt.to_c()?,
        }
    Coord = pmix_coord_t
        |c| Coord { view: CoordView::from_raw(c.view), coord: copied(slice(c.coord, c.dims)?)? },
        |m| { view: m.view.as_raw(), coord: list(&m.coord)?, dims: m.coord.len(), }
    Geometry<'_> = pmix_geometry_t
        |c| Geometry {
            fabric: c.fabric as u64,
            uuid: read_text(c.uuid)?,
            osname: read_text(c.osname)?,
            coordinates: members(c.coordinates, c.ncoords)?,
        },
        |m| {
            fabric: usize::try_from(m.fabric).map_err(|_| Status::ERR_BAD_PARAM)?,
            uuid: maybe_string(m.uuid.as_ref())?,
            osname: maybe_string(m.osname.as_ref())?,
            coordinates: list(&m.coordinates)?,
            ncoords: m.coordinates.len(),
        }
    Device<'_> = pmix_device_t
        |c| Device {
            uuid: read_text(c.uuid)?,
            osname: read_text(c.osname)?,
            device_type: DeviceType::from_raw(c.r#type),
        },
        |m| {
            uuid: maybe_string(m.uuid.as_ref())?,
            osname: maybe_string(m.osname.as_ref())?,
            r#type: m.device_type.as_raw(),
        }
    DeviceDistance<'_> = pmix_device_distance_t
        |c| DeviceDistance {
            uuid: read_text(c.uuid)?,
            osname: read_text(c.osname)?,
            device_type: DeviceType::from_raw(c.r#type),
            mindist: c.mindist,
            maxdist: c.maxdist,
        },
        |m| {
            uuid: maybe_string(m.uuid.as_ref())?,
            osname: maybe_string(m.osname.as_ref())?,
            r#type: m.device_type.as_raw(),
            mindist: m.mindist,
            maxdist: m.maxdist,
        }
    ResourceUnit = pmix_resource_unit_t
        |c| ResourceUnit { device_type: DeviceType::from_raw(c.r#type), count: c.count as u64 },
        |m| {
            r#type: m.device_type.as_raw(),
            count: usize::try_from(m.count).map_err(|_| Status::ERR_BAD_PARAM)?,
        }
    WireRegex2<'_> = pmix_regex2_t
        |c| WireRegex2 { kind: read_text(c.r#type)?, bytes: copied(slice(c.bytes, c.len)?)?.into() },
        |m| { r#type: maybe_string(m.kind.as_ref())?, bytes: bytes(&m.bytes)?.cast(), len: m.bytes.len(), }
    ProcStats<'_> = pmix_proc_stats_t
        |c| ProcStats {
            node: read_text(c.node)?,
            proc: member(&c.proc)?,
            pid: c.pid,
            cmd: read_text(c.cmd)?,
            state: c.state.cast_unsigned(),
            time: member(&c.time)?,
            percent_cpu: c.percent_cpu,
            priority: c.priority,
            num_threads: c.num_threads,
            pss: c.pss,
            vsize: c.vsize,
            rss: c.rss,
            peak_vsize: c.peak_vsize,
            processor: c.processor,
            sample_time: member(&c.sample_time)?,
        },
        |m| {
            node: maybe_string(m.node.as_ref())?,
            proc: m.proc.to_c()?,
            pid: m.pid,
            cmd: maybe_string(m.cmd.as_ref())?,
            state: m.state.cast_signed(),
            time: m.time.to_c()?,
            percent_cpu: m.percent_cpu,
            priority: m.priority,
            num_threads: m.num_threads,
            pss: m.pss,
            vsize: m.vsize,
            rss: m.rss,
            peak_vsize: m.peak_vsize,
            processor: m.processor,
            sample_time: m.sample_time.to_c()?,
        }
    DiskStats<'_> = pmix_disk_stats_t
        |c| DiskStats {
            disk: read_text(c.disk)?,
            num_reads_completed: c.num_reads_completed,
            num_reads_merged: c.num_reads_merged,
            num_sectors_read: c.num_sectors_read,
            milliseconds_reading: c.milliseconds_reading,
            num_writes_completed: c.num_writes_completed,
            num_writes_merged: c.num_writes_merged,
            num_sectors_written: c.num_sectors_written,
            milliseconds_writing: c.milliseconds_writing,
            num_ios_in_progress: c.num_ios_in_progress,
            milliseconds_io: c.milliseconds_io,
            weighted_milliseconds_io: c.weighted_milliseconds_io,
        },
        |m| {
            disk: maybe_string(m.disk.as_ref())?,
            num_reads_completed: m.num_reads_completed,
            num_reads_merged: m.num_reads_merged,
            num_sectors_read: m.num_sectors_read,
            milliseconds_reading: m.milliseconds_reading,
            num_writes_completed: m.num_writes_completed,
            num_writes_merged: m.num_writes_merged,
            num_sectors_written: m.num_sectors_written,
            milliseconds_writing: m.milliseconds_writing,
            num_ios_in_progress: m.num_ios_in_progress,
            milliseconds_io: m.milliseconds_io,
            weighted_milliseconds_io: m.weighted_milliseconds_io,
        }
    NetStats<'_> = pmix_net_stats_t
        |c| NetStats {
            net_interface: read_text(c.net_interface)?,
            num_bytes_recvd: c.num_bytes_recvd,
            num_packets_recvd: c.num_packets_recvd,
            num_recv_errs: c.num_recv_errs,
            num_bytes_sent: c.num_bytes_sent,
            num_packets_sent: c.num_packets_sent,
            num_send_errs: c.num_send_errs,
        },
        |m| {
            net_interface: maybe_string(m.net_interface.as_ref())?,
            num_bytes_recvd: m.num_bytes_recvd,
            num_packets_recvd: m.num_packets_recvd,
            num_recv_errs: m.num_recv_errs,
            num_bytes_sent: m.num_bytes_sent,
            num_packets_sent: m.num_packets_sent,
            num_send_errs: m.num_send_errs,
        }
    NodeStats<'_> = pmix_node_stats_t
        |c| NodeStats {
            node: read_text(c.node)?,
            la: c.la,
            la5: c.la5,
            la15: c.la15,
            total_mem: c.total_mem,
            free_mem: c.free_mem,
            buffers: c.buffers,
            cached: c.cached,
            swap_cached: c.swap_cached,
            swap_total: c.swap_total,
            swap_free: c.swap_free,
            mapped: c.mapped,
            sample_time: member(&c.sample_time)?,
            diskstats: members(c.diskstats, c.ndiskstats)?,
            netstats: members(c.netstats, c.nnetstats)?,
        },
        |m| {
            node: maybe_string(m.node.as_ref())?,
            la: m.la,
            la5: m.la5,
            la15: m.la15,
            total_mem: m.total_mem,
            free_mem: m.free_mem,
            buffers: m.buffers,
            cached: m.cached,
            swap_cached: m.swap_cached,
            swap_total: m.swap_total,
            swap_free: m.swap_free,
            mapped: m.mapped,
            sample_time: m.sample_time.to_c()?,
            diskstats: list(&m.diskstats)?,
            ndiskstats: m.diskstats.len(),
            netstats: list(&m.netstats)?,
            nnetstats: m.netstats.len(),
        }
}

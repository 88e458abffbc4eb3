// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures that are lists of fields: processes, infos, hardware and statistics.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_proc_t` and
//! `pmix_proc_info_t`.

use super::owned::{plain, structure};
use crate::{
    Bytes, CoordView, DataType, DeviceType, InfoFlags, Key, Nspace, ProcState, Rank, Text, Value,
};

structure! {
    /// The name of a process: nspace and rank (`pmix_proc_t`).
    #[derive(Eq, Hash, PartialOrd, Ord)]
    Proc {
        /// The nspace of the job.
        nspace: Nspace<'a>,
        /// The rank. Special values name several processes.
        rank: Rank,
    }
}

impl<'a> Proc<'a> {
    /// Creates the name of a process.
    pub fn new(nspace: impl Into<Nspace<'a>>, rank: Rank) -> Self {
        Self {
            nspace: nspace.into(),
            rank,
        }
    }

    /// Returns an owned list of processes. Consecutive processes of the same job share the nspace,
    /// so a long list takes one allocation for each job instead of one for each process.
    #[must_use]
    pub fn owned_list(procs: &[Proc<'_>]) -> Vec<Proc<'static>> {
        let mut owned = Vec::with_capacity(procs.len());
        for run in procs.chunk_by(|a, b| a.nspace == b.nspace) {
            let Some(first) = run.first() else { continue };
            let nspace = first.nspace.to_shared();
            owned.extend(run.iter().map(|proc| Proc::new(nspace.clone(), proc.rank)));
        }
        owned
    }
}

structure! {
    /// A process as debuggers and tools see it (`pmix_proc_info_t`).
    ProcInfo {
        /// The process.
        proc: Proc<'a>,
        /// The name of the node on which the process runs.
        hostname: Option<Text<'a>>,
        /// The name of the program.
        executable_name: Option<Text<'a>>,
        /// The process id on the node.
        pid: i32,
        /// The exit code, if the process has terminated. It is not packed: a peer unpacks 0.
        exit_code: i32,
        /// The state of the process.
        state: ProcState,
    }
}

structure! {
    /// A process on a node (`pmix_node_pid_t`).
    NodePid {
        /// The name of the node.
        hostname: Option<Text<'a>>,
        /// The number of the node.
        nodeid: u32,
        /// The process id on the node.
        pid: i32,
    }
}

structure! {
    /// A value that a process published under a key (`pmix_pdata_t`).
    Pdata {
        /// The process that published the value.
        proc: Proc<'a>,
        /// The key.
        key: Key<'a>,
        /// The value.
        value: Value<'a>,
    }
}

structure! {
    /// An environment variable and the separator for joining it with an existing value
    /// (`pmix_envar_t`).
    Envar {
        /// The name of the variable.
        envar: Option<Text<'a>>,
        /// The value of the variable.
        value: Option<Text<'a>>,
        /// The character between joined values, for example `:`.
        separator: u8,
    }
}

structure! {
    /// The address of a process on a fabric device (`pmix_endpoint_t`).
    Endpoint {
        /// The unique name of the device.
        uuid: Option<Text<'a>>,
        /// The name of the device in the operating system.
        osname: Option<Text<'a>>,
        /// The address, in a format of the fabric.
        endpt: Bytes<'a>,
    }
}

// Keys with values, and the structures built from them: queries, applications, registered
// attributes.
//
// Source: PMIx Standard, chapter "Data Structures and Types", `pmix_info_t`; chapters "Query
// Operations" (`pmix_query_t`) and "Process Management" (`pmix_app_t`). A kval is OpenPMIx's own.

structure! {
    /// A key, a value and directives about their treatment (`pmix_info_t`).
    Info {
        /// The key.
        key: Key<'a>,
        /// The directives.
        flags: InfoFlags,
        /// The value.
        value: Value<'a>,
    }
}

impl<'a> Info<'a> {
    /// Creates an info without directives.
    pub fn new(key: impl Into<Key<'a>>, value: impl Into<Value<'a>>) -> Self {
        Self {
            key: key.into(),
            flags: InfoFlags::default(),
            value: value.into(),
        }
    }
}

structure! {
    /// A key and a value, as the datastore stores and bfrops packs them (`pmix_kval_t`, internal to
    /// OpenPMIx).
    Kval {
        /// The key.
        key: Key<'a>,
        /// The value.
        value: Value<'a>,
    }
}

structure! {
    /// Keys whose values are requested, and qualifiers (`pmix_query_t`).
    Query {
        /// The requested keys; an empty list corresponds to a null in C.
        keys: Vec<Text<'a>>,
        /// The qualifiers of the query.
        qualifiers: Vec<Info<'a>>,
    }
}

structure! {
    /// An application to start (`pmix_app_t`).
    App {
        /// The program.
        cmd: Option<Text<'a>>,
        /// The arguments, starting with the program's name; an empty list corresponds to a null in
        /// C.
        argv: Vec<Text<'a>>,
        /// The environment, one `NAME=VALUE` each.
        env: Vec<Text<'a>>,
        /// The working directory.
        cwd: Option<Text<'a>>,
        /// The number of processes to start.
        maxprocs: i32,
        /// Directives for this application.
        info: Vec<Info<'a>>,
    }
}

structure! {
    /// An attribute that a library or host supports (`pmix_regattr_t`).
    Regattr {
        /// The name of the attribute, for example `PMIX_JOB_SIZE`.
        name: Option<Text<'a>>,
        /// The key, for example `pmix.job.size`.
        string: Key<'a>,
        /// The type of the value.
        data_type: DataType,
        /// The description, line by line; an empty list corresponds to a null in C.
        description: Vec<Text<'a>>,
    }
}

// Positions of hardware: coordinates, topologies, devices and distances.
//
// Source: PMIx Standard, chapter "Fabric Support Definitions", for coordinates; `pmix_common.h`
// of OpenPMIx for the others.

/// The coordinates of a device in a fabric (`pmix_coord_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coord {
    /// The interpretation of the coordinates.
    pub view: CoordView,
    /// One number for each dimension.
    pub coord: Vec<u32>,
}

plain!(Coord, ResourceUnit);

structure! {
    /// The position of a device in its fabric (`pmix_geometry_t`).
    Geometry {
        /// The index of the fabric.
        fabric: u64,
        /// The unique name of the device.
        uuid: Option<Text<'a>>,
        /// The name of the device in the operating system.
        osname: Option<Text<'a>>,
        /// The coordinates, one set for each view.
        coordinates: Vec<Coord>,
    }
}

structure! {
    /// The distance of a process from a device (`pmix_device_distance_t`).
    DeviceDistance {
        /// The unique name of the device.
        uuid: Option<Text<'a>>,
        /// The name of the device in the operating system.
        osname: Option<Text<'a>>,
        /// The type of the device.
        device_type: DeviceType,
        /// The minimum distance from the processors of the process.
        mindist: u16,
        /// The maximum distance from the processors of the process.
        maxdist: u16,
    }
}

structure! {
    /// A device (`pmix_device_t`).
    Device {
        /// The unique name of the device.
        uuid: Option<Text<'a>>,
        /// The name of the device in the operating system.
        osname: Option<Text<'a>>,
        /// The type of the device.
        device_type: DeviceType,
    }
}

/// A number of devices of one type (`pmix_resource_unit_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceUnit {
    /// The type of the devices.
    pub device_type: DeviceType,
    /// The number of devices.
    pub count: u64,
}

structure! {
    /// The processors that a process may use (`pmix_cpuset_t`).
    Cpuset {
        /// The library that describes the processors, for example `hwloc`. It is not packed.
        source: Option<Text<'a>>,
        /// The processors, in the list format of this library: `0,2-3,7,64-`.
        bitmap: Option<Text<'a>>,
    }
}

structure! {
    /// The hardware of a node (`pmix_topology_t`).
    Topology {
        /// The library that describes the hardware, for example `hwloc:2.9`. It is not packed.
        source: Option<Text<'a>>,
        /// The description in the format of this library; XML for hwloc.
        topology: Option<Text<'a>>,
        /// The features that the library supports on the node, in a format of the library.
        support: Option<Bytes<'a>>,
    }
}

/// A time in seconds and microseconds (`struct timeval`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timeval {
    /// Seconds.
    pub tv_sec: i64,
    /// Microseconds.
    pub tv_usec: i64,
}

plain!(Timeval);

structure! {
    /// The resource usage of a process (`pmix_proc_stats_t`).
    ProcStats {
        /// The name of the node.
        node: Option<Text<'a>>,
        /// The process.
        proc: Proc<'a>,
        /// The process id.
        pid: i32,
        /// The command of the process.
        cmd: Option<Text<'a>>,
        /// The state, as the letter that `ps` prints.
        state: u8,
        /// The processor time that the process has used.
        time: Timeval,
        /// The share of a processor in percent.
        percent_cpu: f32,
        /// The priority.
        priority: i32,
        /// The number of threads.
        num_threads: u16,
        /// The proportional set size in megabytes.
        pss: f32,
        /// The virtual memory in megabytes.
        vsize: f32,
        /// The resident memory in megabytes.
        rss: f32,
        /// The maximum virtual memory so far in megabytes.
        peak_vsize: f32,
        /// The processor on which the process last ran.
        processor: u16,
        /// The time of the measurement.
        sample_time: Timeval,
    }
}

structure! {
    /// The activity of a disk (`pmix_disk_stats_t`).
    DiskStats {
        /// The disk.
        disk: Option<Text<'a>>,
        /// The number of completed reads.
        num_reads_completed: u64,
        /// The number of merged reads.
        num_reads_merged: u64,
        /// The number of sectors read.
        num_sectors_read: u64,
        /// The milliseconds spent reading.
        milliseconds_reading: u64,
        /// The number of completed writes.
        num_writes_completed: u64,
        /// The number of merged writes.
        num_writes_merged: u64,
        /// The number of sectors written.
        num_sectors_written: u64,
        /// The milliseconds spent writing.
        milliseconds_writing: u64,
        /// The number of operations in progress.
        num_ios_in_progress: u64,
        /// The milliseconds during which operations were in progress.
        milliseconds_io: u64,
        /// The same milliseconds, weighted by the number of operations in progress.
        weighted_milliseconds_io: u64,
    }
}

structure! {
    /// The activity of a network interface (`pmix_net_stats_t`).
    NetStats {
        /// The interface.
        net_interface: Option<Text<'a>>,
        /// Bytes received.
        num_bytes_recvd: u64,
        /// Packets received.
        num_packets_recvd: u64,
        /// Receive errors.
        num_recv_errs: u64,
        /// Bytes sent.
        num_bytes_sent: u64,
        /// Packets sent.
        num_packets_sent: u64,
        /// Send errors.
        num_send_errs: u64,
    }
}

structure! {
    /// The resources of a node and their usage (`pmix_node_stats_t`); memory in megabytes.
    NodeStats {
        /// The node.
        node: Option<Text<'a>>,
        /// The load average over one minute.
        la: f32,
        /// The load average over five minutes.
        la5: f32,
        /// The load average over fifteen minutes.
        la15: f32,
        /// Total memory.
        total_mem: f32,
        /// Unused memory.
        free_mem: f32,
        /// Memory in buffers.
        buffers: f32,
        /// Memory in caches.
        cached: f32,
        /// Memory that is both in swap and in memory.
        swap_cached: f32,
        /// Total swap.
        swap_total: f32,
        /// Unused swap.
        swap_free: f32,
        /// Mapped memory.
        mapped: f32,
        /// The time of the measurement.
        sample_time: Timeval,
        /// The disks of the node.
        diskstats: Vec<DiskStats<'a>>,
        /// The network interfaces of the node.
        netstats: Vec<NetStats<'a>>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_in_an_owned_list_share_their_nspace() {
        let procs = [("a", 0), ("a", 1), ("b", 0), ("a", 2)];
        let procs = procs.map(|(nspace, rank)| Proc::new(nspace, Rank::new(rank)));
        let owned = Proc::owned_list(&procs);
        assert_eq!(owned, procs);
        let at = |place: usize| owned[place].nspace.as_bytes().as_ptr();
        assert_eq!(at(0), at(1));
        assert_ne!(at(0), at(3));
    }
}

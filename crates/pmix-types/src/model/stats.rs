// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements of monitors: processes, disks, networks and nodes (OpenPMIx 4 and 5).

use super::owned::{plain, structure};
use crate::{Proc, Text};

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
        /// The node it runs on.
        node: Option<Text<'a>>,
        /// The process.
        proc: Proc<'a>,
        /// Its process id.
        pid: i32,
        /// Its command.
        cmd: Option<Text<'a>>,
        /// Its state, a letter as `ps` shows it.
        state: u8,
        /// The time that it has run.
        time: Timeval,
        /// Its share of a processor in percent.
        percent_cpu: f32,
        /// Its priority.
        priority: i32,
        /// The number of its threads.
        num_threads: u16,
        /// Its proportional set size in megabytes.
        pss: f32,
        /// Its virtual memory in megabytes.
        vsize: f32,
        /// Its resident memory in megabytes.
        rss: f32,
        /// The peak of its virtual memory in megabytes.
        peak_vsize: f32,
        /// The processor it ran on last.
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
        /// Reads that completed.
        num_reads_completed: u64,
        /// Reads that were merged.
        num_reads_merged: u64,
        /// Sectors that were read.
        num_sectors_read: u64,
        /// Milliseconds spent reading.
        milliseconds_reading: u64,
        /// Writes that completed.
        num_writes_completed: u64,
        /// Writes that were merged.
        num_writes_merged: u64,
        /// Sectors that were written.
        num_sectors_written: u64,
        /// Milliseconds spent writing.
        milliseconds_writing: u64,
        /// Operations under way.
        num_ios_in_progress: u64,
        /// Milliseconds with an operation under way.
        milliseconds_io: u64,
        /// The same, weighted by the number of operations under way.
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
        /// Its load, averaged over a minute.
        la: f32,
        /// Its load, averaged over five minutes.
        la5: f32,
        /// Its load, averaged over fifteen minutes.
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
        /// Its disks.
        diskstats: Vec<DiskStats<'a>>,
        /// Its network interfaces.
        netstats: Vec<NetStats<'a>>,
    }
}

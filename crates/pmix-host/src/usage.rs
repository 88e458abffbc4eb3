// SPDX-License-Identifier: MIT OR Apache-2.0
//! What processes and a node use, as the kernel tells it below `/proc`.
//!
//! | what | files | as a type | as infos |
//! | --- | --- | --- | --- |
//! | a process | `PID/stat`, `PID/status`, `PID/cmdline`, `PID/smaps_rollup` | [`ProcStats`](pmix_types::ProcStats) | `PMIX_PROC_RESOURCE_USAGE` |
//! | the node | `loadavg`, `meminfo` | [`NodeStats`](pmix_types::NodeStats) | `PMIX_NODE_RESOURCE_USAGE` |
//! | its disks | `diskstats` | [`DiskStats`](pmix_types::DiskStats) | `PMIX_DISK_RESOURCE_USAGE` |
//! | its network interfaces | `net/dev` | [`NetStats`](pmix_types::NetStats) | `PMIX_NETWORK_RESOURCE_USAGE` |
//!
//! Libraries of 4.2 and 5.0 know the types, those of 6.1 and later the infos. Memory is in megabytes of
//! 2^20 bytes, processor time in seconds and microseconds.
//!
//! Of each file 1 MiB is read at most, and each line is looked at once. What a file does not say is 0; a number that is too large for its field is the largest that it holds.
//!
//! Source: the manual page proc(5) of Linux; OpenPMIx, `pmix_proc_stats_t` and its like.

mod file;
mod infos;
mod node;
mod process;

pub use infos::{Wanted, of_disk, of_interface, of_node, of_process};
pub use node::{disk_stats, disks, interface_stats, interfaces, node, node_stats};
pub use process::{Detail, ProcessTexts, process, process_stats};

/// The most processes whose proportional set size (`PMIX_PROC_PSS`) one request is told: the system goes through all
/// pages of each for it. Of more it is left out, or refused where it is asked for by its name.
pub const MOST_PSS: usize = 256;

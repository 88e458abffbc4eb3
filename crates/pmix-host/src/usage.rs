// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resource usage of processes and the node, from `/proc`.
//!
//! | object | files | type | infos |
//! | --- | --- | --- | --- |
//! | process | `stat`, `status`, `cmdline`, `smaps_rollup` of `PID` | [`ProcStats`] | `PMIX_PROC_RESOURCE_USAGE` |
//! | node | `loadavg`, `meminfo` | [`NodeStats`] | `PMIX_NODE_RESOURCE_USAGE` |
//! | disks | `diskstats` | [`DiskStats`] | `PMIX_DISK_RESOURCE_USAGE` |
//! | network interfaces | `net/dev` | [`NetStats`] | `PMIX_NETWORK_RESOURCE_USAGE` |
//!
//! Releases 4.2 and 5.0 use the types, releases from 6.1 on the infos. Memory is in megabytes of 2^20 bytes,
//! processor time in seconds and microseconds.
//!
//! At most 1 MiB of each file is read, and each line is parsed once. A missing value is 0; a number that is
//! too large for its field saturates.
//!
//! [`ProcStats`]: pmix_types::ProcStats
//! [`NodeStats`]: pmix_types::NodeStats
//! [`DiskStats`]: pmix_types::DiskStats
//! [`NetStats`]: pmix_types::NetStats
//!
//! Source: the manual page proc(5) of Linux; OpenPMIx, `pmix_proc_stats_t` and its like.

mod file;
mod infos;
mod node;
mod process;

pub use infos::{Wanted, of_disk, of_interface, of_node, of_process};
pub use node::{disk_stats, disks, interface_stats, interfaces, node, node_stats};
pub use process::{Detail, ProcessTexts, largest_memory, process, process_stats, processor_time};

/// Maximum number of processes in a request for the proportional set size (`PMIX_PROC_PSS`), for which the kernel walks
/// all pages of each process. Beyond it the value is omitted, or the request is rejected if it names the key.
pub const MOST_PSS: usize = 256;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware of a node, and the values of PMIx that describe the location of processes on it.
//!
//! A [`Topology`] is read from `/sys` of Linux or from the XML of hwloc 2, without a C library. A
//! [`Cpuset`] is a set of its processors. From these, the crate computes the location of a process
//! ([`Topology::locality`]), the hardware that two processes share ([`relative_locality`]), and the
//! distances of devices from a process ([`Topology::distances`]).
//!
//! This crate does not bind processes, start programs or read the environment.
//!
//! ```
//! use pmix_topology::{Cpuset, Topology, relative_locality};
//! use pmix_types::Locality;
//!
//! let topology = Topology::flat(4);
//! let first = topology.locality(&Cpuset::parse("0-1")?).unwrap_or_default();
//! let second = topology.locality(&Cpuset::parse("1-2")?).unwrap_or_default();
//! assert_eq!((&*first, &*second), ("CR0-1:HT0-1", "CR1-2:HT1-2"));
//! let shared = relative_locality(&first, &second)?;
//! assert!(shared.contains(Locality::SHARE_CORE));
//! assert!(!shared.contains(Locality::SHARE_NUMA));
//! # Ok::<(), pmix_topology::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bound;
mod cgroup;
mod cpuset;
mod distance;
mod error;
mod export;
mod locality;
mod nest;
mod sysfs;
mod topology;
mod tree;
mod xml;

pub use cpuset::Cpuset;
pub use distance::DeviceFilter;
pub use error::Error;
pub use locality::{Level, relative_locality};
pub use topology::Topology;

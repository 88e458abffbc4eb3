// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of this node: started, watched, signalled, and in the end reaped.

mod affinity;
pub(crate) mod descriptors;
mod ending;
mod orphans;
mod program;
mod spawn;
mod table;

pub use ending::Ending;

pub(crate) use ending::{of_signal, signal_name};

pub(crate) use affinity::allowed;
pub(crate) use orphans::Orphans;
pub(crate) use program::find as find_program;
pub(crate) use spawn::{Spawner, Standard, Started};
pub(crate) use table::{Link, Process, Table};

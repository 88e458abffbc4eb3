// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of this node: start, supervision, signals and reaping.

mod ending;
pub(crate) mod limits;
mod orphans;
mod program;
mod session;
mod spawn;
mod starters;
mod table;
mod watcher;
mod wrapper;
mod wrapper_link;

pub use ending::{Ending, signal_number};
pub use watcher::end_with_launcher;
pub use wrapper::exec_wrapped;

pub(crate) use ending::{of_signal, signal_name};

pub(crate) use orphans::Orphans;
pub(crate) use program::Search;
pub(crate) use spawn::{CommandForm, Programs, Ready, Spawner, allowed};
pub(crate) use starters::{JobStart, StartResult, Starters, Unadopted};
pub(crate) use table::{Link, Process, ProcessState, Restart, Table};
pub(crate) use watcher::Watcher;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What travels: the data that processes put, and the messages in which servers and clients tell
//! each other about a job.

mod modex;
mod put;
mod reply;
mod wire;

pub use self::modex::{Member, Modex, ModexForm};
pub use self::put::Puts;
pub use self::reply::{Remote, Replies};
pub use self::wire::{Inflate, Wire};

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A board for published data, for hosts that have none of their own.
//!
//! Processes pin data to the board under keys, and others who do not know them find them there. A
//! host hands the upcalls `Publish`, `Lookup` and `Unpublish` to a [`Board`] and tells it when
//! processes, jobs and sessions end. There is no clock inside: time is an argument, and a lookup
//! that waits ends when something fitting is published, when its time is over
//! ([`Board::handle_timeout`]) or when its process ends.
//!
//! Source: PMIx Standard, chapter "Publish/Lookup operations". Where it leaves a choice: data
//! without permissions may be read by the user who published them; of several data under one key
//! the oldest is found.

mod board;
mod caller;
mod directives;
mod item;
mod limits;
mod lookup;
mod serve;
#[cfg(test)]
mod tests;
mod waiting;

pub use board::Board;
pub use caller::Caller;
pub use limits::BoardLimits;
pub use waiting::Looked;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What travels: the data that processes put, and the messages in which servers and clients tell
//! each other about a job.

mod codec;
mod modex;
mod modex_store;
mod reply;

pub use self::codec::{Codec, Inflate};
pub use self::modex::{Modex, ModexForm, Participant};
pub use self::modex_store::ModexStore;
pub use self::reply::{JobInfoReplies, Remote, job_infos};

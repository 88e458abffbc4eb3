// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exchange of data: the data that processes put, and the job info that servers send to
//! clients.

mod codec;
mod collected;
#[cfg(test)]
mod counted;
mod limits;
mod modex;
mod modex_store;
mod reply;

pub use self::codec::{Codec, Inflate};
pub use self::collected::Told;
pub use self::limits::CommitLimits;
pub use self::modex::{Modex, ModexForm, Participant};
pub use self::modex_store::{
    CommitMessage, CommitPart, ModexStore, OwnPuts, PackedPuts, UnansweredCommit,
};
pub use self::reply::{JobInfoReplies, Remote, job_infos};

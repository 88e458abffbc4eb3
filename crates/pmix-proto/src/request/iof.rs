// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about forwarded input and output.

use pmix_types::{Bytes, Info, IofChannel, Proc};

use crate::codec::{Many, Maybe, One, message};
use crate::kind;

message! {
    /// A process or tool wants the output of others.
    IofPull<'a> {
        /// Of whom.
        procs: Vec<Proc<'a>> = Many<kind::Proc>,
        /// How to send it.
        infos: Vec<Info<'a>> = Many<kind::Info>,
        /// Which streams.
        channels: IofChannel = One<kind::IofChannel>,
        /// The number that the client gave its handler; forwarded output says it.
        local_id: u64 = One<kind::Size>,
    }

    /// A process or tool has input for others.
    IofPush<'a> {
        /// For whom.
        procs: Vec<Proc<'a>> = Many<kind::Proc>,
        /// How to deliver it.
        infos: Vec<Info<'a>> = Many<kind::Info>,
        /// The input; none, or no bytes, are the end of it.
        data: Option<Bytes<'a>> = Maybe<One<kind::ByteObject>>,
    }

    /// A process or tool no longer wants the output of others.
    IofDeregister<'a> {
        /// How to end it.
        infos: Vec<Info<'a>> = Many<kind::Info>,
        /// The number that the server answered the pull with.
        remote_id: u64 = One<kind::Size>,
    }
}

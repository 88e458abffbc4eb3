// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about forwarded input and output.

use pmix_types::{Bytes, Info, IofChannel, Proc};

use crate::codec::{Many, Maybe, One, message};
use crate::wire_type;

message! {
    /// Asks for the output of processes, which then comes on [`Tag::OUTPUT`](crate::Tag::OUTPUT).
    IofPull<'a> {
        /// Of whom.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// How to send it.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// Which streams.
        channels: IofChannel = One<wire_type::IofChannel>,
        /// The number that the client gave its handler; forwarded output says it.
        local_id: u64 = One<wire_type::Size>,
    }

    /// Sends input to processes.
    IofPush<'a> {
        /// For whom.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// How to deliver it.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The input; none, or no bytes, are the end of it.
        data: Option<Bytes<'a>> = Maybe<One<wire_type::ByteObject>>,
    }

    /// Ends a pull of output.
    IofDeregister<'a> {
        /// How to end it.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The number that the server answered the pull with.
        remote_id: u64 = One<wire_type::Size>,
    }
}

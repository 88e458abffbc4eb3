// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about forwarded input and output.

use pmix_types::{Bytes, Info, IofChannel, Proc};

use crate::codec::{Many, Maybe, One, message};
use crate::wire_type;

message! {
    /// Requests the output of processes, which then arrives on [`Tag::OUTPUT`](crate::Tag::OUTPUT).
    IofPull<'a> {
        /// The processes.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The directives of the pull.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The streams.
        channels: IofChannel = One<wire_type::IofChannel>,
        /// The number that the client gave its handler; it is repeated in forwarded output.
        local_id: u64 = One<wire_type::Size>,
    }

    /// Sends input to processes.
    IofPush<'a> {
        /// The processes that receive the input.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The directives of the delivery.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The input; `None` or no bytes mean its end.
        data: Option<Bytes<'a>> = Maybe<One<wire_type::ByteObject>>,
    }

    /// Ends a pull of output.
    IofDeregister<'a> {
        /// The directives of the request.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The number in the server's reply to the pull.
        remote_id: u64 = One<wire_type::Size>,
    }
}

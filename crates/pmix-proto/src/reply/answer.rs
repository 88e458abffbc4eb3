// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies of a status and what it is about.

use pmix_types::{Bytes, DeviceDistance, Info, Nspace, Pdata, Proc, Status, Text};

use crate::codec::{Many, Maybe, NspaceText, One, message, payloads};
use crate::wire_type;

message! {
    /// Reports with a status whether a request was done.
    Done {
        /// With success, or why not.
        status: Status = One<wire_type::Status>,
    }

    /// Holds the published data that a lookup found.
    Found<'a> {
        /// Success if at least one key was found.
        status: Status = One<wire_type::Status>,
        /// The data.
        data: Option<Vec<Pdata<'a>>> = Maybe<Many<wire_type::Pdata>>,
    }

    /// Names the job that was started.
    Spawned<'a> {
        /// Whether it was started.
        status: Status = One<wire_type::Status>,
        /// Its name.
        nspace: Option<Nspace<'a>> = Maybe<NspaceText>,
    }

    /// Holds the answer to a request as infos.
    Infos<'a> {
        /// Whether it was answered; a partial success has infos too.
        status: Status = One<wire_type::Status>,
        /// The answers.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<wire_type::Info>>,
    }

    /// Holds a credential.
    Credential<'a> {
        /// Whether there is one.
        status: Status = One<wire_type::Status>,
        /// The credential.
        credential: Option<Bytes<'a>> = Maybe<One<wire_type::ByteObject>>,
        /// What is known of it.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<wire_type::Info>>,
    }

    /// Confirms a pull of output, and gives its number.
    Pulled {
        /// Whether it will.
        status: Status = One<wire_type::Status>,
        /// The number that ends it again.
        remote_id: Option<u64> = Maybe<One<wire_type::Size>>,
    }

    /// Holds the distances of devices.
    Distances<'a> {
        /// Whether it is known.
        status: Status = One<wire_type::Status>,
        /// One for each device.
        distances: Option<Vec<DeviceDistance<'a>>> = Maybe<Many<wire_type::DeviceDistance>>,
    }

    /// Lists the processes on a node.
    Peers<'a> {
        /// Whether it is known.
        status: Status = One<wire_type::Status>,
        /// The processes.
        procs: Option<Vec<Proc<'a>>> = Maybe<Many<wire_type::Proc>>,
    }

    /// Lists the nodes that a job runs on.
    Nodes<'a> {
        /// Whether it is known.
        status: Status = One<wire_type::Status>,
        /// The names of the nodes with commas between them.
        nodes: Option<Option<Text<'a>>> = Maybe<One<wire_type::String>>,
    }
}

payloads! {
    Done, Found<'a>, Spawned<'a>, Infos<'a>, Credential<'a>, Pulled, Distances<'a>, Peers<'a>,
    Nodes<'a>,
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies of a status and the requested data.

use pmix_types::{Bytes, DeviceDistance, Info, Nspace, Pdata, Proc, Status, Text};

use crate::codec::{Many, Maybe, NspaceText, One, message, payloads};
use crate::wire_type;

message! {
    /// The outcome of a request without other results.
    Done {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
    }

    /// The published data that a lookup found.
    Found<'a> {
        /// The status; success if at least one key was found.
        status: Status = One<wire_type::Status>,
        /// The data.
        data: Option<Vec<Pdata<'a>>> = Maybe<Many<wire_type::Pdata>>,
    }

    /// The nspace of a started job.
    Spawned<'a> {
        /// The status of the spawn.
        status: Status = One<wire_type::Status>,
        /// The nspace of the job.
        nspace: Option<Nspace<'a>> = Maybe<NspaceText>,
    }

    /// Results in the form of infos.
    Infos<'a> {
        /// The status of the request; a partial success has infos as well.
        status: Status = One<wire_type::Status>,
        /// The results.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<wire_type::Info>>,
    }

    /// Holds a credential.
    Credential<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The credential.
        credential: Option<Bytes<'a>> = Maybe<One<wire_type::ByteObject>>,
        /// Information about the credential.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<wire_type::Info>>,
    }

    /// The confirmation of a pull of output.
    Pulled {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The number with which the pull is deregistered.
        remote_id: Option<u64> = Maybe<One<wire_type::Size>>,
    }

    /// The distances of devices.
    Distances<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The distances, one for each device.
        distances: Option<Vec<DeviceDistance<'a>>> = Maybe<Many<wire_type::DeviceDistance>>,
    }

    /// The processes on a node.
    Peers<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The processes.
        procs: Option<Vec<Proc<'a>>> = Maybe<Many<wire_type::Proc>>,
    }

    /// The nodes of a job.
    Nodes<'a> {
        /// The status of the request.
        status: Status = One<wire_type::Status>,
        /// The names of the nodes, separated by commas.
        nodes: Option<Option<Text<'a>>> = Maybe<One<wire_type::String>>,
    }
}

payloads! {
    Done, Found<'a>, Spawned<'a>, Infos<'a>, Credential<'a>, Pulled, Distances<'a>, Peers<'a>,
    Nodes<'a>,
}

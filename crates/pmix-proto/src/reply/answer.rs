// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies of a status and what it is about.

use pmix_types::{Bytes, DeviceDistance, Info, Nspace, Pdata, Proc, Status, Text};

use crate::codec::{Many, Maybe, NspaceText, One, message, payloads};
use crate::wire_type;

message! {
    /// Whether it was done.
    Done {
        /// With success, or why not.
        status: Status = One<wire_type::Status>,
    }

    /// What was published.
    Found<'a> {
        /// Success if at least one key was found.
        status: Status = One<wire_type::Status>,
        /// The data.
        data: Option<Vec<Pdata<'a>>> = Maybe<Many<wire_type::Pdata>>,
    }

    /// The job that was started.
    Spawned<'a> {
        /// Whether it was started.
        status: Status = One<wire_type::Status>,
        /// Its name.
        nspace: Option<Nspace<'a>> = Maybe<NspaceText>,
    }

    /// What was asked, as infos.
    Infos<'a> {
        /// Whether it was answered; a partial success has infos too.
        status: Status = One<wire_type::Status>,
        /// The answers.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<wire_type::Info>>,
    }

    /// A credential.
    Credential<'a> {
        /// Whether there is one.
        status: Status = One<wire_type::Status>,
        /// The credential.
        credential: Option<Bytes<'a>> = Maybe<One<wire_type::ByteObject>>,
        /// What is known of it.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<wire_type::Info>>,
    }

    /// Output will come.
    Pulled {
        /// Whether it will.
        status: Status = One<wire_type::Status>,
        /// The number that ends it again.
        remote_id: Option<u64> = Maybe<One<wire_type::Size>>,
    }

    /// How far devices are.
    Distances<'a> {
        /// Whether it is known.
        status: Status = One<wire_type::Status>,
        /// One for each device.
        distances: Option<Vec<DeviceDistance<'a>>> = Maybe<Many<wire_type::DeviceDistance>>,
    }

    /// Who is on a node.
    Peers<'a> {
        /// Whether it is known.
        status: Status = One<wire_type::Status>,
        /// The processes.
        procs: Option<Vec<Proc<'a>>> = Maybe<Many<wire_type::Proc>>,
    }

    /// Where a job runs.
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

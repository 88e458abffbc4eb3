// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies of a status and what it is about.

use pmix_types::{Bytes, DeviceDistance, Info, Nspace, Pdata, Proc, Status, Text};

use crate::codec::{Many, Maybe, NspaceText, One, message, payloads};
use crate::kind;

message! {
    /// Whether it was done.
    Done {
        /// With success, or why not.
        status: Status = One<kind::Status>,
    }

    /// What was published.
    Found<'a> {
        /// Success if at least one key was found.
        status: Status = One<kind::Status>,
        /// The data.
        data: Option<Vec<Pdata<'a>>> = Maybe<Many<kind::Pdata>>,
    }

    /// The job that was started.
    Spawned<'a> {
        /// Whether it was started.
        status: Status = One<kind::Status>,
        /// Its name.
        nspace: Option<Nspace<'a>> = Maybe<NspaceText>,
    }

    /// What was asked, as infos.
    Infos<'a> {
        /// Whether it was answered; a partial success has infos too.
        status: Status = One<kind::Status>,
        /// The answers.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<kind::Info>>,
    }

    /// A credential.
    Credential<'a> {
        /// Whether there is one.
        status: Status = One<kind::Status>,
        /// The credential.
        credential: Option<Bytes<'a>> = Maybe<One<kind::ByteObject>>,
        /// What is known of it.
        infos: Option<Vec<Info<'a>>> = Maybe<Many<kind::Info>>,
    }

    /// Output will come.
    Pulled {
        /// Whether it will.
        status: Status = One<kind::Status>,
        /// The number that ends it again.
        remote_id: Option<u64> = Maybe<One<kind::Size>>,
    }

    /// How far devices are.
    Distances<'a> {
        /// Whether it is known.
        status: Status = One<kind::Status>,
        /// One for each device.
        distances: Option<Vec<DeviceDistance<'a>>> = Maybe<Many<kind::DeviceDistance>>,
    }

    /// Who is on a node.
    Peers<'a> {
        /// Whether it is known.
        status: Status = One<kind::Status>,
        /// The processes.
        procs: Option<Vec<Proc<'a>>> = Maybe<Many<kind::Proc>>,
    }

    /// Where a job runs.
    Nodes<'a> {
        /// Whether it is known.
        status: Status = One<kind::Status>,
        /// The names of the nodes with commas between them.
        nodes: Option<Option<Text<'a>>> = Maybe<One<kind::String>>,
    }
}

payloads! {
    Done, Found<'a>, Spawned<'a>, Infos<'a>, Credential<'a>, Pulled, Distances<'a>, Peers<'a>,
    Nodes<'a>,
}

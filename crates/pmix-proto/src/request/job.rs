// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about jobs and their processes.

use pmix_types::{App, Info, Proc, Status, Text};

use crate::codec::{Many, One, message};
use crate::wire_type;

message! {
    /// Asks the host to abort processes.
    Abort<'a> {
        /// The status that the job is to return.
        status: Status = One<wire_type::Status>,
        /// The reason.
        message: Option<Text<'a>> = One<wire_type::String>,
        /// The processes; an empty list means all of the client's own job.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
    }

    /// Asks the host to start a job of some applications.
    Spawn<'a> {
        /// The directives for the whole job.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The applications.
        apps: Vec<App<'a>> = Many<wire_type::App>,
    }

    /// Joins a connect.
    Connect<'a> {
        /// The participants.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Joins a disconnect.
    Disconnect<'a> {
        /// The participants.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests control of processes: a signal, a pause, files to remove at their end.
    JobControl<'a> {
        /// The processes; an empty list means all of the client's own job.
        targets: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The actions, for example `pmix.reg.cleanup`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests the job info in the form of another datastore, because the client cannot read the
    /// first one. Since 7.0.
    GdsFallback<'a> {
        /// The data store whose form the client can read.
        module: Option<Text<'a>> = One<wire_type::String>,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about jobs and their processes.

use pmix_types::{App, Info, Proc, Status, Text};

use crate::codec::{Many, One, message};
use crate::wire_type;

message! {
    /// Asks the host to end processes.
    Abort<'a> {
        /// What it wants the job to return.
        status: Status = One<wire_type::Status>,
        /// Why.
        message: Option<Text<'a>> = One<wire_type::String>,
        /// Which; none stands for all of its own job.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
    }

    /// Asks the host to start a job of some applications.
    Spawn<'a> {
        /// What holds for all of them.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The applications.
        apps: Vec<App<'a>> = Many<wire_type::App>,
    }

    /// Joins a connect of the processes it names.
    Connect<'a> {
        /// All of them.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Joins a disconnect of the processes it names.
    Disconnect<'a> {
        /// All of them.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks for control of processes: a signal, a pause, files to remove when they end.
    JobControl<'a> {
        /// To whom; none stands for all of its own job.
        targets: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// What, for example `pmix.reg.cleanup`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks for the job info in the form of another datastore, by a client that cannot read the
    /// first one. Since 7.0.
    GdsFallback<'a> {
        /// The data store whose form it can read.
        module: Option<Text<'a>> = One<wire_type::String>,
    }
}

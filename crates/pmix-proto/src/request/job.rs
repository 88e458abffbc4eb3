// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about jobs and their processes.

use pmix_types::{App, Info, Proc, Status, Text};

use crate::codec::{Many, One, message};
use crate::wire_type;

message! {
    /// A process wants processes ended.
    Abort<'a> {
        /// What it wants the job to return.
        status: Status = One<wire_type::Status>,
        /// Why.
        message: Option<Text<'a>> = One<wire_type::String>,
        /// Which; none stands for all of its own job.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
    }

    /// A process wants applications started.
    Spawn<'a> {
        /// What holds for all of them.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The applications.
        apps: Vec<App<'a>> = Many<wire_type::App>,
    }

    /// Processes want to be treated as one job.
    Connect<'a> {
        /// All of them.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Processes no longer want to be treated as one job.
    Disconnect<'a> {
        /// All of them.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// A process wants something done to processes: a signal, a pause, files to remove when they
    /// end.
    JobControl<'a> {
        /// To whom; none stands for all of its own job.
        targets: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// What, for example `pmix.reg.cleanup`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// A client cannot read what it was told about its job and asks for another form of it. Since
    /// 7.0.
    GdsFallback<'a> {
        /// The data store whose form it can read.
        module: Option<Text<'a>> = One<wire_type::String>,
    }
}

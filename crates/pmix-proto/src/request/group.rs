// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about groups of processes.

use pmix_types::{Info, Proc, Text};

use crate::codec::{Many, One, Since, message};
use crate::kind;

message! {
    /// Processes make a group of themselves.
    GroupConstruct<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<kind::String>,
        /// Its members.
        procs: Vec<Proc<'a>> = Many<kind::Proc>,
        /// How to make it.
        infos: Vec<Info<'a>> = Many<kind::Info>,
    }

    /// A process leaves a group.
    GroupLeave<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<kind::String>,
        /// How to leave it.
        infos: Vec<Info<'a>> = Many<kind::Info>,
    }

    /// Processes end their group.
    GroupDestruct<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<kind::String>,
        /// Its members. Since 5.0.
        procs: Vec<Proc<'a>> = Since<5, Many<kind::Proc>>,
        /// How to end it.
        infos: Vec<Info<'a>> = Many<kind::Info>,
    }
}

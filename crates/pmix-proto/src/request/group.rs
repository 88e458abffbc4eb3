// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about groups of processes.

use pmix_types::{Info, Proc, Text};

use crate::codec::{Many, One, Since, message};
use crate::wire_type;

message! {
    /// Joins the construction of a group.
    GroupConstruct<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<wire_type::String>,
        /// The members.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The directives of the construction.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Leaves a group.
    GroupLeave<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<wire_type::String>,
        /// The directives of the request.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Joins the destruction of a group.
    GroupDestruct<'a> {
        /// The name of the group.
        group: Option<Text<'a>> = One<wire_type::String>,
        /// The members. Since 5.0.
        procs: Vec<Proc<'a>> = Since<5, Many<wire_type::Proc>>,
        /// The directives of the destruction.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }
}

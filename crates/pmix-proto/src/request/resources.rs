// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about what there is: queries, nodes, fabrics, allocations.

use pmix_types::{
    AllocDirective, Cpuset, Info, Nspace, ResourceBlockDirective, ResourceUnit, Text, Topology,
};

use crate::codec::{Many, NspaceText, One, message};
use crate::wire_type;

message! {
    /// Asks for information about the system by keys and qualifiers.
    Query<'a> {
        /// The questions.
        queries: Vec<pmix_types::Query<'a>> = Many<wire_type::Query>,
    }

    /// Asks the host to change an allocation.
    Allocate<'a> {
        /// How.
        directive: AllocDirective = One<wire_type::AllocDirective>,
        /// By what.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks for a description of the fabric.
    FabricRegister<'a> {
        /// Which one.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks for the current description of a fabric.
    FabricUpdate {
        /// The fabric's number, from the reply to its registration.
        index: u64 = One<wire_type::Size>,
    }

    /// Asks for the distances of devices from a cpuset.
    DeviceDistances<'a> {
        /// The machine as the process sees it.
        topology: Topology<'a> = One<wire_type::Topology>,
        /// Where the process is bound.
        cpuset: Cpuset<'a> = One<wire_type::Cpuset>,
        /// Which devices.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Defines or changes a block of resources. Since 6.0.
    ResourceBlock<'a> {
        /// What to do.
        directive: ResourceBlockDirective = One<wire_type::ResourceBlockDirective>,
        /// The name of the block.
        block: Option<Text<'a>> = One<wire_type::String>,
        /// What it is made of.
        units: Vec<ResourceUnit> = Many<wire_type::ResourceUnit>,
        /// How to do it.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks for control of a session. Since 6.0.
    SessionControl<'a> {
        /// The number of the session.
        session: u32 = One<wire_type::Uint32>,
        /// What.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks which processes of a job are on a node. Since 5.0; earlier clients answer it
    /// themselves.
    ResolvePeers<'a> {
        /// The name of the node; none stands for all.
        node: Option<Text<'a>> = One<wire_type::String>,
        /// The job; an empty one stands for all.
        nspace: Nspace<'a> = NspaceText,
    }

    /// Asks which nodes a job runs on. Since 5.0; earlier clients answer it themselves.
    ResolveNodes<'a> {
        /// The job; an empty one stands for all.
        nspace: Nspace<'a> = NspaceText,
    }
}

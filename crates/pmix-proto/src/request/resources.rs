// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about jobs, resources and credentials: connect, spawn, queries, nodes, fabrics, allocations.

use pmix_types::{
    AllocDirective, App, Bytes, Cpuset, Info, Nspace, Proc, ResourceBlockDirective, ResourceUnit,
    Status, Text, Topology,
};

use crate::codec::{Many, NspaceText, One, Since, UpTo, message};
use crate::wire_type;

message! {
    /// Requests information about the system by keys and qualifiers.
    Query<'a> {
        /// The queries.
        queries: Vec<pmix_types::Query<'a>> = Many<wire_type::Query>,
    }

    /// Requests a change of an allocation.
    Allocate<'a> {
        /// The change to make.
        directive: AllocDirective = One<wire_type::AllocDirective>,
        /// The directives of the request.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests a description of the fabric.
    FabricRegister<'a> {
        /// The infos that identify the fabric.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests the current description of a fabric.
    FabricUpdate {
        /// The number of the fabric, from the reply to its registration.
        index: u64 = One<wire_type::Size>,
    }

    /// Requests the distances of devices from a cpuset.
    DeviceDistances<'a> {
        /// The topology of the node as the process sees it.
        topology: Topology<'a> = One<wire_type::Topology>,
        /// The processors to which the process is bound.
        cpuset: Cpuset<'a> = One<wire_type::Cpuset>,
        /// The infos that select the devices.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Defines or changes a block of resources. Since 6.0.
    ResourceBlock<'a> {
        /// The operation.
        directive: ResourceBlockDirective = One<wire_type::ResourceBlockDirective>,
        /// The name of the block.
        block: Option<Text<'a>> = One<wire_type::String>,
        /// The resources of the block.
        units: Vec<ResourceUnit> = Many<wire_type::ResourceUnit>,
        /// The directives of the request.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests control of a session. Since 6.0.
    SessionControl<'a> {
        /// The number of the session.
        session: u32 = One<wire_type::Uint32>,
        /// The operations.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests the processes of a job on a node. Since 5.0; clients of earlier releases determine
    /// them from the job info.
    ResolvePeers<'a> {
        /// The name of the node; `None` means all nodes.
        node: Option<Text<'a>> = One<wire_type::String>,
        /// The job. An empty nspace means all jobs.
        nspace: Nspace<'a> = NspaceText,
    }

    /// Requests the nodes of a job. Since 5.0; clients of earlier releases determine them from the
    /// job info.
    ResolveNodes<'a> {
        /// The job. An empty nspace means all jobs.
        nspace: Nspace<'a> = NspaceText,
    }
}

message! {
    /// Requests a credential of the process from the host.
    GetCredential<'a> {
        /// The infos that select the kind of credential.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests that the host validate a credential.
    ValidateCredential<'a> {
        /// The credential.
        credential: Bytes<'a> = One<wire_type::ByteObject>,
        /// The directives of the validation.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }
}

message! {
    /// Requests that the host abort processes.
    Abort<'a> {
        /// The status that the job should return.
        status: Status = One<wire_type::Status>,
        /// The reason.
        message: Option<Text<'a>> = One<wire_type::String>,
        /// The processes. An empty list means all processes of the client's own job.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
    }

    /// Requests that the host start a job with these applications.
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
        /// The directives: `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
        /// The endpoint data of the process (`PMIX_PROC_INFO_ARRAY`) and the job info of its job
        /// (`PMIX_JOB_INFO_ARRAY`), as far as the process shares them. Since 6.0.
        shared: Vec<Info<'a>> = Since<6, UpTo<2, wire_type::Info>>,
    }

    /// Joins a disconnect.
    Disconnect<'a> {
        /// The participants.
        procs: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The directives: `pmix.timeout`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests control of processes: a signal, a pause, or the removal of files when they
    /// terminate.
    JobControl<'a> {
        /// The processes. An empty list means all processes of the client's own job.
        targets: Vec<Proc<'a>> = Many<wire_type::Proc>,
        /// The actions, for example `pmix.reg.cleanup`.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Requests the job info in the form of another datastore, because the client cannot parse the
    /// first form. Since 7.0.
    GdsFallback<'a> {
        /// The name of the datastore whose form the client can parse.
        module: Option<Text<'a>> = One<wire_type::String>,
    }
}

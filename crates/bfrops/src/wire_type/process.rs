// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and related structures.

use crate::legacy::member::ProcRank;
use crate::wire_type::structure::structure;
use crate::wire_type::{self, Byte, ByteObject, Nspace, Pid, ProcState, Uint32};

structure! {
    /// `PMIX_PROC`: the nspace as a string, the rank.
    Proc: Proc<'a> = PROC { nspace: Nspace, rank: ProcRank, }
}

structure! {
    /// `PMIX_PROC_INFO`. The exit code is not packed.
    ProcInfo: ProcInfo<'a> = PROC_INFO {
        proc: Proc,
        hostname: wire_type::String,
        executable_name: wire_type::String,
        pid: Pid,
        state: ProcState,
    }
}

structure! {
    /// `PMIX_NODE_PID`.
    NodePid: NodePid<'a> = NODE_PID { hostname: wire_type::String, nodeid: Uint32, pid: Pid, }
}

structure! {
    /// `PMIX_ENVAR`.
    Envar: Envar<'a> = ENVAR { envar: wire_type::String, value: wire_type::String, separator: Byte, }
}

structure! {
    /// `PMIX_ENDPOINT`.
    Endpoint: Endpoint<'a> = ENDPOINT {
        uuid: wire_type::String,
        osname: wire_type::String,
        endpt: ByteObject,
    }
}

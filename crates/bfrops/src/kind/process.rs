// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes and what belongs to one.

use crate::kind::structure::structure;
use crate::kind::{self, Byte, ByteObject, Nspace, Pid, ProcState, Uint32};
use crate::legacy::member::ProcRank;

structure! {
    /// `PMIX_PROC`: the nspace as a string, the rank.
    Proc: Proc<'a> = PROC { nspace: Nspace, rank: ProcRank, }
}

structure! {
    /// `PMIX_PROC_INFO`. The exit code does not travel.
    ProcInfo: ProcInfo<'a> = PROC_INFO {
        proc: Proc,
        hostname: kind::String,
        executable_name: kind::String,
        pid: Pid,
        state: ProcState,
    }
}

structure! {
    /// `PMIX_NODE_PID`.
    NodePid: NodePid<'a> = NODE_PID { hostname: kind::String, nodeid: Uint32, pid: Pid, }
}

structure! {
    /// `PMIX_ENVAR`.
    Envar: Envar<'a> = ENVAR { envar: kind::String, value: kind::String, separator: Byte, }
}

structure! {
    /// `PMIX_ENDPOINT`.
    Endpoint: Endpoint<'a> = ENDPOINT {
        uuid: kind::String,
        osname: kind::String,
        endpt: ByteObject,
    }
}

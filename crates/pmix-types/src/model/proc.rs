// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and descriptions of processes.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_proc_t` and
//! `pmix_proc_info_t`.

use super::owned::structure;
use crate::{Bytes, Key, Nspace, ProcState, Rank, Text, Value};

structure! {
    /// The name of a process: its nspace and its rank in it (`pmix_proc_t`).
    #[derive(Eq, Hash, PartialOrd, Ord)]
    Proc {
        /// The nspace of its job.
        nspace: Nspace<'a>,
        /// The rank; special values name several processes.
        rank: Rank,
    }
}

impl<'a> Proc<'a> {
    /// Creates the name of a process.
    pub fn new(nspace: impl Into<Nspace<'a>>, rank: Rank) -> Self {
        Self {
            nspace: nspace.into(),
            rank,
        }
    }

    /// Returns an owned list of processes. Neighbors of the same job share its name, so a long list
    /// takes one allocation for each job instead of one for each process.
    #[must_use]
    pub fn owned_list(procs: &[Proc<'_>]) -> Vec<Proc<'static>> {
        let mut owned = Vec::with_capacity(procs.len());
        for run in procs.chunk_by(|a, b| a.nspace == b.nspace) {
            let Some(first) = run.first() else { continue };
            let nspace = first.nspace.to_shared();
            owned.extend(run.iter().map(|proc| Proc::new(nspace.clone(), proc.rank)));
        }
        owned
    }
}

structure! {
    /// A process as debuggers and tools see it (`pmix_proc_info_t`).
    ProcInfo {
        /// The process.
        proc: Proc<'a>,
        /// The name of its node.
        hostname: Option<Text<'a>>,
        /// The name of its program.
        executable_name: Option<Text<'a>>,
        /// Its process id on that node.
        pid: i32,
        /// Its exit code, if it has ended. It is not packed: a peer reads 0.
        exit_code: i32,
        /// Its state.
        state: ProcState,
    }
}

structure! {
    /// A process on a node (`pmix_node_pid_t`).
    NodePid {
        /// The name of the node.
        hostname: Option<Text<'a>>,
        /// The node's number.
        nodeid: u32,
        /// The process id on that node.
        pid: i32,
    }
}

structure! {
    /// A value that a process published under a key (`pmix_pdata_t`).
    Pdata {
        /// The process that published it.
        proc: Proc<'a>,
        /// The key.
        key: Key<'a>,
        /// The value.
        value: Value<'a>,
    }
}

structure! {
    /// An environment variable and the separator for joining it with an existing value
    /// (`pmix_envar_t`).
    Envar {
        /// Its name.
        envar: Option<Text<'a>>,
        /// Its value.
        value: Option<Text<'a>>,
        /// The character between joined values, for example `:`.
        separator: u8,
    }
}

structure! {
    /// The address of a process on a fabric device (`pmix_endpoint_t`).
    Endpoint {
        /// The unique name of the device.
        uuid: Option<Text<'a>>,
        /// The name of the device in the operating system.
        osname: Option<Text<'a>>,
        /// The address, opaque to all but the fabric.
        endpt: Bytes<'a>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_in_an_owned_list_share_their_nspace() {
        let procs = [("a", 0), ("a", 1), ("b", 0), ("a", 2)];
        let procs = procs.map(|(nspace, rank)| Proc::new(nspace, Rank::new(rank)));
        let owned = Proc::owned_list(&procs);
        assert_eq!(owned, procs);
        let at = |place: usize| owned[place].nspace.as_bytes().as_ptr();
        assert_eq!(at(0), at(1));
        assert_ne!(at(0), at(3));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who a process is, and what is known about one.
//!
//! Source: PMIx Standard, chapter "Data Structures and Types", `pmix_proc_t` and
//! `pmix_proc_info_t`.

use super::owned::structure;
use crate::{Bytes, Key, Nspace, ProcState, Rank, Text, Value};

structure! {
    /// Names a process by its nspace and its rank in it (`pmix_proc_t`).
    #[derive(Eq, Hash, PartialOrd, Ord)]
    Proc {
        /// The nspace of its job.
        nspace: Nspace<'a>,
        /// Its rank; special values name several processes.
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

    /// Returns a list of processes that borrows nothing. Neighbours of the same job share its name, so
    /// that a long list takes one piece of memory for each job and not for each process.
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
    /// Describes a process for debuggers and tools (`pmix_proc_info_t`).
    ProcInfo {
        /// The process.
        proc: Proc<'a>,
        /// The host it runs on.
        hostname: Option<Text<'a>>,
        /// The name of its program.
        executable_name: Option<Text<'a>>,
        /// Its process id on that host.
        pid: i32,
        /// Its exit code, if it has ended. It does not travel: a peer reads 0.
        exit_code: i32,
        /// Its state.
        state: ProcState,
    }
}

structure! {
    /// A process on a node (`pmix_node_pid_t`).
    NodePid {
        /// The host.
        hostname: Option<Text<'a>>,
        /// The node's number.
        nodeid: u32,
        /// The process id on that host.
        pid: i32,
    }
}

structure! {
    /// Holds what a process published under a key (`pmix_pdata_t`).
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
    /// An environment variable and how to join it with one that is there (`pmix_envar_t`).
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
        /// The device's unique name.
        uuid: Option<Text<'a>>,
        /// The name that the operating system gives the device.
        osname: Option<Text<'a>>,
        /// The address, opaque to all but the fabric.
        endpt: Bytes<'a>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_an_owned_list_share_the_name_of_their_job() {
        let procs = [("a", 0), ("a", 1), ("b", 0), ("a", 2)];
        let procs = procs.map(|(nspace, rank)| Proc::new(nspace, Rank::new(rank)));
        let owned = Proc::owned_list(&procs);
        assert_eq!(owned, procs);
        let at = |place: usize| owned[place].nspace.as_bytes().as_ptr();
        assert_eq!(at(0), at(1));
        assert_ne!(at(0), at(3));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of registrations and gets.

pub(super) const NODE_MAP: &str = "pmix.nmap";
pub(super) const PROC_MAP: &str = "pmix.pmap";

pub(super) const SESSION_ARRAY: &str = "pmix.ssn.arr";
pub(super) const JOB_ARRAY: &str = "pmix.job.arr";
pub(super) const APP_ARRAY: &str = "pmix.app.arr";
pub(super) const NODE_ARRAY: &str = "pmix.node.arr";
pub(super) const PROC_ARRAY: &str = "pmix.pdata";
pub(super) const QUALIFIED: &str = "pmix.qual.val";

pub(super) const SESSION_INFO: &str = "pmix.ssn.info";
pub(super) const APP_INFO: &str = "pmix.app.info";
pub(super) const NODE_INFO: &str = "pmix.node.info";

pub(super) const JOB_SIZE: &str = "pmix.job.size";
pub(super) const NUM_NODES: &str = "pmix.num.nodes";
pub(super) const NODE_LIST: &str = "pmix.nlist";
pub(super) const MAX_PROCS: &str = "pmix.max.size";
pub(super) const NUM_APPS: &str = "pmix.job.napps";
pub(super) const JOB_ID: &str = "pmix.jobid";
pub(super) const MAP_BY: &str = "pmix.mapby";
pub(super) const OFFSET: &str = "pmix.offset";
pub(super) const ANL_MAP: &str = "pmix.anlmap";
pub(super) const KEEP_FQDN: &str = "pmix.fqdn";

pub(super) const LOCAL_PEERS: &str = "pmix.lpeers";
pub(super) const LOCAL_LEADER: &str = "pmix.lldr";
pub(super) const LOCAL_SIZE: &str = "pmix.local.size";
pub(super) const NODE_SIZE: &str = "pmix.node.size";
pub(super) const LOCAL_PROCS: &str = "pmix.lprocs";
pub(super) const MEMORY: &str = "pmix.pmem";
pub(super) const ALIASES: &str = "pmix.alias";

pub(super) const RANK: &str = "pmix.rank";
pub(super) const HOST_NAME: &str = "pmix.hname";
pub(super) const NODE_ID: &str = "pmix.nodeid";
pub(super) const LOCAL_RANK: &str = "pmix.lrank";
pub(super) const NODE_RANK: &str = "pmix.nrank";
pub(super) const APP_NUM: &str = "pmix.appnum";
pub(super) const GLOBAL_RANK: &str = "pmix.grank";
pub(super) const APP_RANK: &str = "pmix.apprank";

pub(super) const APP_SIZE: &str = "pmix.app.size";
pub(super) const APP_LEADER: &str = "pmix.aldr";
pub(super) const WORKING_DIR: &str = "pmix.wdir";
pub(super) const ARGUMENTS: &str = "pmix.app.argv";

pub(super) const SESSION_ID: &str = "pmix.session.id";
pub(super) const CLUSTER_ID: &str = "pmix.clid";
pub(super) const UNIVERSE_SIZE: &str = "pmix.univ.size";
pub(super) const ALLOCATED: &str = "pmix.alist";

/// Keys that the host defines itself.
pub(super) const MY_JOB: &str = "my.job";
pub(super) const MY_NODE: &str = "my.node";
pub(super) const MY_PROC: &str = "my.proc";
/// A key with several values, and the qualifier that distinguishes them.
pub(super) const MY_SHADE: &str = "my.shade";
pub(super) const MY_COLOUR: &str = "my.colour";
/// A key without any value.
pub(super) const NOBODY: &str = "no.such.key";

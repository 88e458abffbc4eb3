// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of everything that an engine holds at a moment; each subsystem adds its own.
//!
//! Source: none outside.

/// Counts everything that an engine holds at a moment. Every count is zero when no job is
/// registered, no peer is connected and no upcall is open; but events whose source is of no job that
/// was deregistered since are kept for [`EventLimits::kept_for`](crate::EventLimits::kept_for). The
/// counts are those that limits are compared with, and [`Engine::recount`](crate::Engine::recount)
/// tells whether they are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that the host registered, or of which it registered processes.
    pub num_jobs: usize,
    /// Local processes that the host registered.
    pub num_clients: usize,
    /// Connections, those that have not completed their handshake included.
    pub num_peers: usize,
    /// Connections that have not completed their handshake.
    pub num_handshaking: usize,
    /// Requests of peers that are not answered.
    pub num_requests: usize,
    /// Bytes that those requests had and take in memory.
    pub request_bytes: usize,
    /// Bytes that are queued for peers and not written yet.
    pub queued_bytes: usize,
    /// Transmits, upcalls and events that the driver has not taken yet.
    pub num_undelivered: usize,
    /// Jobs of which data are shared with clients in memory.
    pub num_shared_jobs: usize,
    /// Timers that are set.
    pub num_timers: usize,
    /// Upcalls that the host has not answered.
    pub num_host_calls: usize,
    /// Processes that finalize and wait for the host.
    pub num_finalizing: usize,
    /// Gets (GETNB, REFRESH_CACHE) that wait for data.
    pub num_gets: usize,
    /// Direct modex requests of the host (`PMIx_server_dmodex_request`) that wait for a process.
    pub num_inbound_dmodex: usize,
    /// Processes of other nodes whose data the host was asked for (`direct_modex`).
    pub num_outbound_dmodex: usize,
    /// Lost processes of other nodes, in registered jobs, whose data are not kept.
    pub num_stale_procs: usize,
    /// Jobs whose information is kept packed for gets.
    pub num_packed_jobs: usize,
    /// Connections over which clients have read what processes of their job put, and are brought more
    /// than they ask for.
    pub num_readers: usize,
    /// Groups that local processes are members of.
    pub num_groups: usize,
    /// Bytes that those groups take.
    pub group_bytes: usize,
    /// Collectives (fences, connects, disconnects, constructions and destructions of groups) that are
    /// under way, or that failed and of which not all participants know.
    pub num_collectives: usize,
    /// Collectives that are under way here or with the host, as their limit counts them.
    pub num_under_way: usize,
    /// Peers that are registered for events, the codes they are registered for, and peers that were
    /// sent cached events.
    pub num_listeners: usize,
    /// Codes of events that the host was asked to report.
    pub num_hosted_codes: usize,
    /// Events that are kept for peers that register later.
    pub num_cached_events: usize,
    /// Bytes that those events take.
    pub cached_event_bytes: usize,
    /// Pulls of output (`PMIx_IOF_pull`).
    pub num_pulls: usize,
    /// Bytes of output that is held back for pulls, or for the first of them.
    pub output_bytes: usize,
    /// Peers with heartbeat monitors.
    pub num_monitored: usize,
    /// Processes and jobs at whose end files or directories are to be removed.
    pub num_cleanups: usize,
    /// Bytes that the paths of those take.
    pub cleanup_bytes: usize,
}

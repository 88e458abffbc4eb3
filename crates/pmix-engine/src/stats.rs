// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of the contents of an engine. Each subsystem adds its own.
//!
//! Source: this project.

/// Counts of the contents of an engine. Every count is zero when no job is registered, no peer is connected and no
/// upcall waits for a reply, with one exception: events whose source belongs to a job that was never deregistered are
/// kept for [`EventLimits::kept_for`](crate::EventLimits::kept_for). Limits are compared with these counts, and
/// [`Engine::recount`](crate::Engine::recount) verifies them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that the host registered, or that have registered clients.
    pub num_jobs: usize,
    /// Local processes that the host registered.
    pub num_clients: usize,
    /// Connections, including those in their handshake.
    pub num_peers: usize,
    /// Connections in their handshake.
    pub num_handshaking: usize,
    /// Requests of peers without a reply.
    pub num_requests: usize,
    /// Message bytes and memory of those requests.
    pub request_bytes: usize,
    /// Bytes queued for peers and not written yet.
    pub queued_bytes: usize,
    /// Transmits, upcalls and events that the driver has not taken yet.
    pub num_undelivered: usize,
    /// Jobs with data in the memory shared with clients.
    pub num_shared_jobs: usize,
    /// Active timers.
    pub num_timers: usize,
    /// Upcalls without a reply.
    pub num_host_calls: usize,
    /// Processes whose finalize waits for the host.
    pub num_finalizing: usize,
    /// Gets (GETNB, REFRESH_CACHE) that wait for data.
    pub num_gets: usize,
    /// Direct modex requests of the host (`PMIx_server_dmodex_request`) that wait for a process.
    pub num_inbound_dmodex: usize,
    /// Processes of other nodes with an open request to the host (`direct_modex`).
    pub num_outbound_dmodex: usize,
    /// Lost processes of other nodes, in registered jobs, whose data are not cached.
    pub num_stale_procs: usize,
    /// Jobs whose packed information is cached for gets.
    pub num_packed_jobs: usize,
    /// Connections of clients that have read data of processes of their job and receive data without a request.
    pub num_readers: usize,
    /// The commits that are stored in parts and have further parts.
    pub num_commits: usize,
    /// Groups with local members.
    pub num_groups: usize,
    /// Memory of those groups in bytes.
    pub group_bytes: usize,
    /// Active collectives (fences, connects, disconnects, group constructs and destructs), and failed ones that some
    /// participants have not called yet.
    pub num_collectives: usize,
    /// Collectives that are active here or with the host, as counted for their limit.
    pub num_under_way: usize,
    /// Peers with event registrations, plus their codes, plus peers that were sent cached events.
    pub num_listeners: usize,
    /// Event codes that the host was asked to report.
    pub num_hosted_codes: usize,
    /// Events cached for peers that register later.
    pub num_cached_events: usize,
    /// Memory of those events in bytes.
    pub cached_event_bytes: usize,
    /// Pulls of output (`PMIx_IOF_pull`).
    pub num_pulls: usize,
    /// Bytes of output held for pulls, or for the first pull.
    pub output_bytes: usize,
    /// Peers with heartbeat monitors.
    pub num_monitored: usize,
    /// Processes and jobs with registered cleanups.
    pub num_cleanups: usize,
    /// Bytes of the paths of those cleanups.
    pub cleanup_bytes: usize,
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of everything that an engine holds at a moment; each subsystem adds its own.

/// Counts everything that an engine holds at a moment, apart from what the host registered. Every
/// count is zero when no peer is connected and no operation is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections, those that have not completed their handshake included.
    pub num_peers: usize,
    /// Gets (GETNB, REFRESH_CACHE) that wait for data.
    pub num_gets: usize,
    /// Direct modex requests of the host (`PMIx_server_dmodex_request`) that wait for a process.
    pub num_inbound_dmodex: usize,
    /// Groups that local processes are members of.
    pub num_groups: usize,
    /// Fences, connects and disconnects, constructions and destructions of groups that are under way, or that failed and of which not all
    /// participants know.
    pub num_collectives: usize,
    /// Timers that are set.
    pub num_timers: usize,
    /// Upcalls that the host has not answered.
    pub num_host_calls: usize,
    /// Connections that have not completed their handshake.
    pub num_handshaking: usize,
    /// Requests of peers that are not answered.
    pub num_requests: usize,
    /// Bytes that are queued for peers and not written yet.
    pub queued_bytes: usize,
    /// Processes of other nodes whose data the host was asked for (`direct_modex`).
    pub num_outbound_dmodex: usize,
    /// Processes that finalize and wait for the host.
    pub num_finalizing: usize,
    /// Peers that are registered for events, the codes they are registered for, and peers that were
    /// sent cached events.
    pub num_listeners: usize,
    /// Pulls of output (`PMIx_IOF_pull`).
    pub num_pulls: usize,
    /// Peers with heartbeat monitors.
    pub num_monitored: usize,
    /// Transmits, upcalls and events that the driver has not taken yet.
    pub num_undelivered: usize,
}

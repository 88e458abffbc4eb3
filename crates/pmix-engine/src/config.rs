// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration of an engine.
//!
//! Source: this project; the limits are this project's own.

use std::time::{Duration, SystemTime};

use bfrops::{Layout, Module};
use gds_hash::{ModexForm, Remote};
use pmix_proto::{ListLimits, PeerForm};
use pmix_types::{Proc, Rank, Release};

/// The configuration of a new engine. Every field has a default that suits one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The name of the server for clients and tools.
    pub server: Proc<'static>,
    /// The user id and group id that the server runs as, if the driver knows them.
    pub user: Option<(u32, u32)>,
    /// The start time of the server, if the driver knows it, for queries of `PMIX_SERVER_START_TIME`.
    pub started: Option<SystemTime>,
    /// `true` if tools of other users are admitted; tools of root always are.
    pub foreign_tools: bool,
    /// `true` if the engine reports each completed fence ([`FenceCompleted`](crate::EngineEvent::FenceCompleted)).
    pub reports_fences: bool,
    /// The policy for further connections with the name of a client.
    pub clone_policy: ClonePolicy,
    /// The limit of simultaneous connections with the name of one client, if the policy admits clones.
    pub programs_per_process: usize,
    /// The time limit of the handshake of a connection, including its security module.
    pub handshake_time: Duration,
    /// The time limit of the host's admission of a tool.
    pub tool_time: Duration,
    /// The limit of simultaneous handshakes of one user. A further connection closes the oldest.
    pub handshakes_per_user: usize,
    /// The greatest length of a message of a peer, in bytes.
    pub max_message: u32,
    /// The limit in bytes of partially received messages of all peers. Short messages, up to 128 KiB, are always
    /// received, and so is the beginning of a long one. The rest of a long message is read once there is room for all
    /// of it.
    ///
    /// The limit has four equal parts, so that a message waits only for others of its class:
    ///
    /// - messages of at most 1 MiB that fit into a share of this part (64 shares, or as many as connections if there are
    ///   more);
    /// - messages of at most an eighth of a part;
    /// - longer messages; one that exceeds the part is read when no other of its class is;
    /// - the received bytes of messages that make little progress.
    pub input_bytes: usize,
    /// The time in which a partial long message must make progress while others of its class wait for room. The
    /// progress is 128 KiB, or 1/64 of the message if that is more. A message that fails to is queued after the others.
    /// Times in which the server did not run do not count.
    pub input_turn: Duration,
    /// The time after which a peer is disconnected whose partial long message makes too little progress in each turn.
    /// It is disconnected only if others of its class wait and there is no room for its received bytes. A message that
    /// cannot be handled because its peer does not read replies counts as one without progress.
    pub input_time: Duration,
    /// The limit of processes listed in one request, in its fields and its infos together. If the registered jobs have
    /// more processes, a request may list as many as they have. The server handles a request in one step while other
    /// peers wait, so a longer request is refused unread. A wildcard rank counts as one process.
    pub procs_per_request: usize,
    /// The limit of infos in one request, including nested ones. A larger request is refused unread.
    pub infos_per_request: usize,
    /// The limit of open requests of one peer. A further request is refused.
    pub requests_per_peer: usize,
    /// The limit in bytes of these requests. A request that would have to wait and exceeds it is refused.
    pub request_bytes_per_peer: usize,
    /// The limit in bytes of the open requests of all peers. Beyond it, a peer with more than its share is refused.
    pub request_bytes: usize,
    /// The limit in bytes of the data that one process put. A commit beyond it is refused.
    pub put_bytes_per_process: usize,
    /// The limit of keys that one process put. A commit beyond it is refused. So is a message with more than twice this
    /// number of values.
    pub put_keys_per_process: usize,
    /// The limit in bytes of the data that the processes of one job put on this node. A commit beyond it is refused.
    pub put_bytes_per_job: usize,
    /// The limit in bytes of the groups that processes of one job constructed. A construct beyond it is refused.
    pub group_bytes_per_job: usize,
    /// The limit of groups that one process is a member of. The server ends all memberships of a terminated process in
    /// one step while other peers wait. A construct or an invitation beyond it is refused.
    pub groups_per_process: usize,
    /// The limit of invitations that one process leads at a time, for the reason given at
    /// [`groups_per_process`](Self::groups_per_process).
    pub invitations_per_process: usize,
    /// The limit in bytes of data of further processes in a reply to a get, for a client that requests them; 0 for
    /// none.
    pub prefetch_bytes: usize,
    /// The limits of data of further processes in replies to clients that cannot request them.
    pub unasked: UnaskedLimits,
    /// The limit of unread bytes of one peer up to which its next request is handled, and a reply to it is packed.
    pub reply_window: usize,
    /// The limit of unread bytes of one peer, beyond which it is disconnected. Only events and output reach it, as
    /// replies respect the window.
    pub queued_bytes_per_peer: usize,
    /// The limits of the job info sent to connecting clients.
    pub reply: ReplyLimits,
    /// The time limit of a get that waits for the registration of a job, without a time limit of its own.
    pub registration_time: Duration,
    /// The time limit of a get that waits for a key of a process that has committed other keys, without a time limit of
    /// its own.
    pub key_time: Duration,
    /// The time in which the processes that accepted an invitation to a group must name a new leader after the loss of
    /// their leader. Servers of other nodes wait twice as long for the decision of that server.
    pub leader_time: Duration,
    /// The time limit of a finalizing client's wait for the host.
    pub finalize_time: Duration,
    /// The time that collectives wait for the return of a finalized process, which may initialize again. The host
    /// deregisters a process that will not, which ends the wait at once. `None` means no limit.
    pub return_time: Option<Duration>,
    /// The time limit of a collective without a time limit of its participants; `None` means no limit.
    pub collective_time: Option<Duration>,
    /// The limits of events.
    pub events: EventLimits,
    /// The limits of forwarded output.
    pub output: OutputLimits,
    /// The limits of cleanups and monitors.
    pub control: ControlLimits,
    /// `true` if this server monitors heartbeats; otherwise the host does.
    pub watches_heartbeats: bool,
    /// The time that the host may take in addition to `collective_time` or the participants' time limit. `pmix.timeout`
    /// of the upcall has the remaining seconds, rounded up. The host should end the collective consistently on all
    /// nodes.
    pub host_grace: Duration,
    /// The form in which this server packs its fence contributions. All servers of a job must use the same form.
    /// Servers of OpenPMIx 4.2 and 5.0 use [`ModexForm::Numbered`], which cannot express the removal of a key.
    pub fence_form: ModexForm,
}

/// The limits of the job info sent to connecting clients, which request the rest ([`gds_hash::Remote`]).
///
/// A process on another node costs each client about 6 µs and 2 kB with all of its data. With its location only, it
/// costs 3 µs and 1.7 kB (docs/decisions/0011).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// The job size in processes up to which all data are sent.
    pub whole: u32,
    /// The job size in processes up to which the location of each process is sent, so that every get finds its value.
    /// Clients of larger jobs receive the data of their own node only. Their connection time is then independent of the
    /// job size, but a client finds the location of a remote process only after it received another value of that
    /// process.
    pub places: u32,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self {
            whole: 1024,
            places: 1 << 17,
        }
    }
}

impl ReplyLimits {
    /// Returns the amount of data about remote processes for a job of `num_ranks` processes.
    pub(crate) fn remote(self, num_ranks: u64) -> Remote {
        match num_ranks {
            few if few <= self.whole.into() => Remote::Whole,
            many if many <= self.places.into() => Remote::Places,
            _ => Remote::Nothing,
        }
    }
}

/// The limits of data of further processes in replies to gets, for clients of releases that cache them
/// (docs/decisions/0024). With 0 in either field a reply has the requested data only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnaskedLimits {
    /// The limit in bytes of one reply. The first replies to a client are smaller.
    pub bytes_per_answer: usize,
    /// The limit in bytes of all replies over one connection.
    pub bytes_per_client: usize,
}

impl Default for UnaskedLimits {
    fn default() -> Self {
        Self {
            bytes_per_answer: 1 << 20,
            bytes_per_client: 16 << 20,
        }
    }
}

/// The policy for clones: further connections with the name of a client that is connected.
///
/// DEVIATION: a clone is refused unless the host allows it; OpenPMIx admits any number, so that a process that knows the
/// name of another can act for it;
/// `a_second_connection_of_a_process_is_refused_while_the_first_lives`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClonePolicy {
    /// Clones are refused.
    #[default]
    Refuse,
    /// Clones are admitted: a child of the client may use its name.
    Accept,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            server: Proc::new("pmix-server", Rank::new(0)),
            user: None,
            started: None,
            foreign_tools: false,
            reports_fences: false,
            clone_policy: ClonePolicy::default(),
            programs_per_process: 64,
            handshake_time: Duration::from_secs(5),
            tool_time: Duration::from_secs(30),
            handshakes_per_user: 1024,
            max_message: pmix_proto::MAX_REQUEST_BYTES,
            input_bytes: 256 << 20,
            input_turn: Duration::from_millis(250),
            input_time: Duration::from_secs(10),
            procs_per_request: ListLimits::default().procs,
            infos_per_request: ListLimits::default().infos,
            requests_per_peer: 16 << 10,
            request_bytes_per_peer: 16 << 20,
            request_bytes: 128 << 20,
            put_bytes_per_process: 256 << 20,
            put_keys_per_process: 32 << 10,
            put_bytes_per_job: 384 << 20,
            group_bytes_per_job: 64 << 20,
            groups_per_process: 4096,
            invitations_per_process: 1024,
            prefetch_bytes: 1 << 20,
            unasked: UnaskedLimits::default(),
            reply_window: 1 << 20,
            queued_bytes_per_peer: 64 << 20,
            reply: ReplyLimits::default(),
            registration_time: Duration::from_secs(60),
            key_time: Duration::from_secs(2),
            finalize_time: Duration::from_secs(2),
            return_time: Some(Duration::from_secs(60)),
            collective_time: None,
            events: EventLimits::default(),
            output: OutputLimits::default(),
            control: ControlLimits::default(),
            watches_heartbeats: true,
            leader_time: Duration::from_secs(5),
            host_grace: Duration::from_secs(1),
            fence_form: ModexForm::Named,
        }
    }
}

impl Config {
    /// Returns the form in which servers pack data for each other. All servers of a job must use the same form.
    pub(crate) fn modex_form(&self) -> PeerForm {
        PeerForm::of(Layout::new(Module::V41), Release::Master)
    }
}

/// The limits of the event registrations of one peer, and of cached events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventLimits {
    /// The number of codes that one peer may register for.
    pub codes_per_peer: usize,
    /// The number of processes that the registrations of one peer may name.
    pub procs_per_peer: usize,
    /// The number of cached events; a new event replaces the oldest.
    pub kept: usize,
    /// The number of cached events of one source.
    pub kept_per_source: usize,
    /// The number of bytes of all cached events.
    pub kept_bytes: usize,
    /// The time that an event is cached. Two events of the host are kept until newer ones replace them or the job is
    /// deregistered: the start of a job, and a job that waits for a tool.
    pub kept_for: Duration,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self {
            codes_per_peer: 1024,
            procs_per_peer: 4096,
            // The defaults of the OpenPMIx libraries 4.2 and 5.0.
            kept: 512,
            kept_for: Duration::from_secs(120),
            kept_per_source: 64,
            kept_bytes: 1 << 20,
        }
    }
}

/// The limits of forwarded output that waits for a slow reader, or for the first pull. Output beyond the limits is
/// dropped, and the connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputLimits {
    /// The number of pulls that one peer may have.
    pub pulls_per_peer: usize,
    /// The number of processes in one pull.
    pub procs_per_pull: usize,
    /// The number of bytes that may be queued for a peer before its further output is held.
    pub window: usize,
    /// The number of bytes held for a pull without `PMIX_IOF_CACHE_SIZE`.
    pub held: usize,
    /// The greatest number of held bytes that a pull may request (`PMIX_IOF_CACHE_SIZE`).
    pub most_held: usize,
    /// The maximum number of bytes that all pulls of one peer may hold together. A new pull may hold what is left, but at
    /// least 64 KiB.
    pub held_per_peer: usize,
    /// The number of bytes of one stream that are kept until the first pull.
    pub kept_per_stream: usize,
    /// The number of bytes of all streams that are kept until the first pull.
    pub kept: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            pulls_per_peer: 256,
            procs_per_pull: 4096,
            window: 256 << 10,
            held: 1 << 20,
            most_held: 16 << 20,
            held_per_peer: 32 << 20,
            kept_per_stream: 64 << 10,
            kept: 4 << 20,
        }
    }
}

/// The limits of cleanups and monitors that processes may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlLimits {
    /// The number of paths in the cleanups of a job and its processes.
    pub cleanups_per_job: usize,
    /// The number of bytes of the paths of a job.
    pub cleanup_bytes_per_job: usize,
    /// The number of bytes of the paths of all jobs.
    pub cleanup_bytes: usize,
    /// The number of heartbeat monitors that one process may have.
    pub monitors_per_peer: usize,
}

impl Default for ControlLimits {
    fn default() -> Self {
        Self {
            cleanups_per_job: 8192,
            cleanup_bytes_per_job: 4 << 20,
            cleanup_bytes: 64 << 20,
            monitors_per_peer: 64,
        }
    }
}

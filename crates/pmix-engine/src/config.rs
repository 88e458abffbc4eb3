// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration of an engine.
//!
//! Source: none outside; the limits are this project's own, bytes and counts, and times are of
//! type `Duration`.

use std::time::{Duration, SystemTime};

use bfrops::{Layout, Module};
use gds_hash::{ModexForm, Remote};
use pmix_proto::{ListLimits, PeerForm};
use pmix_types::{Proc, Rank, Release};

/// Configures an engine when it is created; every field has a default that suits one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The name of the server, as clients and tools see it.
    pub server: Proc<'static>,
    /// The user id and group id that the server runs as, if the driver knows them.
    pub user: Option<(u32, u32)>,
    /// When the server started, if the driver knows; queries are told (`PMIX_SERVER_START_TIME`).
    pub started: Option<SystemTime>,
    /// Whether tools of other users are admitted; those of root always are.
    pub foreign_tools: bool,
    /// The policy for further connections with the name of a client.
    pub clone_policy: ClonePolicy,
    /// The time that a connection has to complete its handshake, that of its security module
    /// included.
    pub handshake_time: Duration,
    /// The time that a tool waits for the host to admit it.
    pub tool_time: Duration,
    /// The number of connections of one user that may be in their handshake. One more closes the
    /// oldest of them.
    pub handshakes_per_user: usize,
    /// The greatest length of a message of a peer, in bytes.
    pub max_message: u32,
    /// The number of bytes that the messages of all peers may have while they come. Short ones, of
    /// 128 KiB, always may come, and so may the beginning of a long one; the rest comes when there is room
    /// for all of it.
    ///
    /// A quarter is for messages of at most 1 MiB and an equal share of that quarter for each of the
    /// connections, or 64 if there are fewer, a quarter for those of at most an eighth of a quarter, and
    /// a quarter for longer ones, so that a message waits only for others of its class. One that is
    /// longer than a quarter comes when no other of its class does. The last quarter is for what is there of
    /// messages that hardly come on.
    pub input_bytes: usize,
    /// The time in which a long message has to come on while others of its class wait for room: by 128 KiB,
    /// or a sixty-fourth of it if that is more. One that does not goes behind those others. A time in which the server
    /// did not run does not count.
    pub input_turn: Duration,
    /// The time after which a peer is refused whose long message has not come on so far once in a turn, if
    /// others of its class wait and there is no room for what is there of it. One whose message cannot be
    /// handled because it does not read its replies does not come on either.
    pub input_time: Duration,
    /// The number of processes that the lists of one request may name together, in its fields and in its infos. Where
    /// the registered jobs have more processes, a request may name as many as they have. The server looks at a request in
    /// one step while its other peers wait, so a request that lists more is refused before it is looked at. The wildcard
    /// rank names a whole job as one process.
    pub procs_per_request: usize,
    /// The number of infos that one request may have, those in others included. A request that has more is refused
    /// before it is looked at.
    pub infos_per_request: usize,
    /// The number of requests of one peer that may wait for their replies. One more is refused.
    pub requests_per_peer: usize,
    /// The number of bytes that these requests may have. A request that would have to wait beyond
    /// them is refused.
    pub request_bytes_per_peer: usize,
    /// The number of bytes that the requests of all peers may have. Beyond them a peer is refused
    /// that has more than its share of them.
    pub request_bytes: usize,
    /// The number of bytes that one process may put. A commit beyond them is refused.
    pub put_bytes_per_process: usize,
    /// The number of keys that one process may put. A commit beyond them is refused, and so is one
    /// of more than twice as many values: reading and packing them is one step of the server.
    pub put_keys_per_process: usize,
    /// The number of bytes that the processes of one job may put together on this node. A commit
    /// beyond them is refused.
    pub put_bytes_per_job: usize,
    /// The number of bytes that the groups may take that processes of one job made. A construction
    /// beyond them is refused.
    pub group_bytes_per_job: usize,
    /// The number of groups that one process may be in, and of invitations that one process may lead at a time. What a
    /// process is in ends with it in one step of the server, and the other peers wait meanwhile. A construction or an
    /// invitation beyond them is refused.
    pub groups_per_process: usize,
    /// See [`groups_per_process`](Self::groups_per_process).
    pub invitations_per_process: usize,
    /// The number of bytes of further processes that an answer to a get may bring for a client that asks
    /// for them; 0 for none.
    pub prefetch_bytes: usize,
    /// Limits of what answers to gets bring of further processes to clients that cannot ask for them.
    pub unasked: UnaskedLimits,
    /// The number of bytes that may wait for one peer to read them before its next request is
    /// handled, and before a reply is packed that it waits for.
    pub reply_window: usize,
    /// The number of bytes that may wait for one peer to read them. Beyond them the connection is
    /// closed: these are events and output, as replies keep to the window.
    pub queued_bytes_per_peer: usize,
    /// Limits of the job info that clients get when they connect.
    pub reply: ReplyLimits,
    /// The time that a get waits for a job that is not registered, where it names none.
    pub registration_time: Duration,
    /// The time that a get waits for a key of a process that has committed others, where it names
    /// none.
    pub key_time: Duration,
    /// The time that those who accepted an invitation to a group have to say who leads when their leader is
    /// lost. Servers of other nodes wait twice as long for what its server decides.
    pub leader_time: Duration,
    /// The time that a client that finalizes waits for the answer of the host.
    pub finalize_time: Duration,
    /// The time that collectives wait for a process that has finalized. It may initialise again;
    /// one that will not is to be deregistered by the host, which ends them at once. None is for
    /// ever.
    pub return_time: Option<Duration>,
    /// The time that a collective may take whose participants name none; without it there is no
    /// limit.
    pub collective_time: Option<Duration>,
    /// Limits of events.
    pub events: EventLimits,
    /// Limits of forwarded output.
    pub output: OutputLimits,
    /// Limits of cleanups and monitors.
    pub control: ControlLimits,
    /// Whether this server monitors heartbeats; otherwise the host does.
    pub watches_heartbeats: bool,
    /// The time beyond `collective_time`, or beyond what the participants name, that the host may
    /// take once it was called. It is told in `pmix.timeout` how many seconds are left, rounded up,
    /// and is to end a collective on all nodes alike.
    pub host_grace: Duration,
    /// The form in which this server packs what it contributes to a fence. All servers of a job
    /// have to agree on it: those of OpenPMIx 4.2 and 5.0 have [`ModexForm::Numbered`], which cannot
    /// say that a key is gone.
    pub fence_form: ModexForm,
}

/// Bounds the job info that clients get when they connect; they ask for the rest
/// ([`gds_hash::Remote`]).
///
/// A process elsewhere costs each client about 6 µs and 2 kB if all is told of it, and 3 µs and
/// 1.7 kB if only its place is (docs/decisions/0011).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// The number of processes up to which a job is sent whole.
    pub whole: u32,
    /// The number of processes up to which the place of each process of a job is sent, and every
    /// get finds its value. Of larger jobs, clients get their own node alone: connecting does not
    /// take longer then with the size of the job, but the place of a process elsewhere is then
    /// found only by a client that was answered something else about it before.
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
    /// How much is told of the processes elsewhere in a job of so many.
    pub(crate) fn remote(self, num_ranks: u64) -> Remote {
        match num_ranks {
            few if few <= self.whole.into() => Remote::Whole,
            many if many <= self.places.into() => Remote::Places,
            _ => Remote::Nothing,
        }
    }
}

/// Bounds what answers to gets have of processes that were not asked about, for clients of releases that
/// keep it (docs/decisions/0024). With 0 in either place they have what was asked for alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnaskedLimits {
    /// The number of bytes in one answer. The first answers to a client have less.
    pub bytes_per_answer: usize,
    /// The number of bytes in all answers over one connection.
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
            clone_policy: ClonePolicy::default(),
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
    /// How servers pack what they tell each other. All servers of a job have to agree on it.
    pub(crate) fn modex_form(&self) -> PeerForm {
        PeerForm::of(Layout::new(Module::V41), Release::Master)
    }
}

/// Bounds the registrations of one peer, and the events that are kept for later registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventLimits {
    /// The number of codes that one peer may be registered for.
    pub codes_per_peer: usize,
    /// The number of processes that the registrations of one peer may name.
    pub procs_per_peer: usize,
    /// The number of events that are kept; a new one replaces the oldest.
    pub kept: usize,
    /// The number of kept events of one process.
    pub kept_per_source: usize,
    /// The number of bytes of all kept events together.
    pub kept_bytes: usize,
    /// The time that an event is kept. That a job has begun, or waits for a tool, as the host tells it, is kept until
    /// newer events take its place, or the job is deregistered.
    pub kept_for: Duration,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self {
            codes_per_peer: 1024,
            procs_per_peer: 4096,
            // As many and as long as the libraries of 4.2 and 5.0 keep them.
            kept: 512,
            kept_for: Duration::from_secs(120),
            kept_per_source: 64,
            kept_bytes: 1 << 20,
        }
    }
}

/// Bounds forwarded output: what waits for a peer that reads slowly, and what is kept until a peer
/// pulls it. Output beyond the bounds is dropped, and the connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputLimits {
    /// The number of pulls that one peer may have.
    pub pulls_per_peer: usize,
    /// The number of processes that one pull may name.
    pub procs_per_pull: usize,
    /// The number of bytes that may be queued for a peer before its output is held back.
    pub window: usize,
    /// The number of bytes that are held back for a pull that names none.
    pub held: usize,
    /// The greatest number of bytes that a pull can name to be held back (`PMIX_IOF_CACHE_SIZE`).
    pub most_held: usize,
    /// The most bytes that are held back for all pulls of a peer; one more has 64 KiB then.
    pub held_per_peer: usize,
    /// The number of bytes of one stream that are kept until a peer pulls them.
    pub kept_per_stream: usize,
    /// The number of bytes of all streams that are kept until peers pull them.
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

/// Bounds the cleanups and monitors that processes may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlLimits {
    /// The number of paths that the cleanups of a job and its processes may name.
    pub cleanups_per_job: usize,
    /// The number of bytes that the paths of a job may have.
    pub cleanup_bytes_per_job: usize,
    /// The number of bytes that the paths of all jobs may have.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server may be told when it starts.

use std::time::Duration;

use bfrops::{Layout, Module};
use gds_hash::Remote;
use pmix_proto::PeerForm;
use pmix_types::{Proc, Rank, Release};

/// What a server may be told when it starts; every field has a default that suits one node.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server itself, as clients and tools see it.
    pub server: Proc<'static>,
    /// The user and the group that the server runs as, if the driver knows them.
    pub user: Option<(u32, u32)>,
    /// Whether tools of other users are let in; root always is.
    pub foreign_tools: bool,
    /// What happens to a second connection of a process that has one.
    pub second_connection: SecondConnection,
    /// How long a connection may take to complete its handshake.
    pub handshake_time: Duration,
    /// How long a tool waits for the host to say whether it may come in.
    pub tool_time: Duration,
    /// How many connections of one user may be open that have not completed their handshake. One more
    /// closes the oldest of them.
    pub handshakes_per_user: usize,
    /// The longest message that is taken from a peer, in bytes.
    pub max_message: u32,
    /// How many requests of one peer may wait for their answers. One more is refused.
    pub requests_per_peer: usize,
    /// How many bytes these requests may have had. A request that waits when there are more is
    /// refused.
    pub request_bytes_per_peer: usize,
    /// How many bytes of data one process may have put. What goes beyond is refused.
    pub put_bytes_per_process: usize,
    /// How many bytes may wait for one peer to read them. With more the connection is closed.
    pub queued_bytes_per_peer: usize,
    /// How much clients are told of their job when they connect.
    pub reply: ReplyLimits,
    /// How long a client waits for data of a job that is not registered, where it names no time.
    pub registration_time: Duration,
    /// How long a client waits for a key of a process that has committed others, where it names no
    /// time.
    pub key_time: Duration,
    /// How long a client that finalises waits for the host to take notice.
    pub finalize_time: Duration,
    /// How long collectives wait for a process that has finalised. It may initialise again; one that
    /// will not is to be deregistered by the host, which ends them at once. None is for ever.
    pub return_time: Option<Duration>,
    /// How long a fence may take whose participants name no time; none is for ever.
    pub collective_time: Option<Duration>,
    /// How much events may take.
    pub events: EventLimits,
    /// How much forwarded output may take.
    pub output: OutputLimits,
    /// How much processes may ask to be done later.
    pub control: ControlLimits,
    /// Whether this server watches the heartbeats that processes set monitors for; otherwise the host does.
    pub watches_heartbeats: bool,
    /// How much longer than that, or than the participants say, the host may take once it was
    /// called: it is told in `pmix.timeout` how many seconds are left, rounded up, and is to end a
    /// collective on all nodes alike.
    pub host_grace: Duration,
}

/// How much clients are told of their job when they connect; the rest they ask for
/// ([`gds_hash::Remote`]).
///
/// A process elsewhere costs each client about 6 µs and 2 kB if all is told of it, and 3 µs and
/// 1.7 kB if only its place is (docs/decisions/0011).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Jobs of up to so many processes are told whole.
    pub whole: u32,
    /// Of larger jobs of up to so many processes, clients are told where each process is, and find
    /// the answers to all questions. Of jobs that are larger still they are told about their own
    /// node alone: connecting does not take longer then with the size of the job, but the place
    /// of a process elsewhere is then found only by a client that was answered something else about
    /// it before.
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

/// What happens to a second connection of a process that has one.
///
/// DEVIATION: it is refused unless the host wants it; OpenPMIx lets any number in, and who knows
/// the name of a process speaks for it;
/// `a_second_connection_of_a_process_is_refused_while_the_first_lives`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecondConnection {
    /// It is refused.
    #[default]
    Refuse,
    /// It is accepted: a child of the process may speak for it.
    Accept,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            server: Proc::new("pmix-server", Rank::new(0)),
            user: None,
            foreign_tools: false,
            second_connection: SecondConnection::default(),
            handshake_time: Duration::from_secs(5),
            tool_time: Duration::from_secs(30),
            handshakes_per_user: 1024,
            max_message: 64 << 20,
            requests_per_peer: 16 << 10,
            request_bytes_per_peer: 16 << 20,
            put_bytes_per_process: 256 << 20,
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
            host_grace: Duration::from_secs(1),
        }
    }
}

impl Config {
    /// How servers pack what they tell each other. All servers of a job have to agree on it.
    pub(crate) fn modex_form(&self) -> PeerForm {
        PeerForm::of(Layout::new(Module::V41), Release::Master)
    }
}

/// How much one peer may register and how much is kept for those who register later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits {
    /// The most codes that one peer may be registered for.
    pub codes_per_peer: usize,
    /// The most processes that the registrations of one peer may name.
    pub procs_per_peer: usize,
    /// The most events that are kept; a new one takes the place of the oldest.
    pub kept: usize,
    /// The most of them that one process has raised.
    pub kept_per_source: usize,
    /// The most bytes that the kept events take, together.
    pub kept_bytes: usize,
    /// How long an event is kept.
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

/// How much forwarded output may take: what waits for a peer that reads slowly, and what is kept
/// until somebody asks for it. What exceeds it is dropped, and the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// The most pulls that one peer may have.
    pub pulls_per_peer: usize,
    /// The most processes that one pull may name.
    pub procs_per_pull: usize,
    /// How many bytes may be on their way to a peer before its output is held back.
    pub window: usize,
    /// How many bytes are held back for a pull that says nothing about it.
    pub held: usize,
    /// The most bytes that a pull can ask to be held back (`PMIX_IOF_CACHE_SIZE`).
    pub most_held: usize,
    /// How many bytes of one stream are kept until somebody pulls them.
    pub kept_per_stream: usize,
    /// How many bytes of all streams are kept until somebody pulls them.
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
            kept_per_stream: 64 << 10,
            kept: 4 << 20,
        }
    }
}

/// How much processes may ask to be done later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLimits {
    /// The most paths that a job may ask to be removed when it, or processes of it, end.
    pub cleanups_per_job: usize,
    /// The most bytes that the paths of a job may take.
    pub cleanup_bytes_per_job: usize,
    /// The most bytes that the paths of all jobs may take.
    pub cleanup_bytes: usize,
    /// The most heartbeat monitors that one process may have.
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

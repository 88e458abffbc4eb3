// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guarantees of output forwarding.

use pmix_types::{Info, IofChannel, Nspace, Proc, Rank, Status, keys};

use super::{EndedPull, Forwarding, OutputLimits, Piece};
use crate::PeerId;

const OUT: IofChannel = IofChannel::STDOUT_CHANNEL;
const ERR: IofChannel = IofChannel::STDERR_CHANNEL;

fn proc(rank: u32) -> Proc<'static> {
    Proc::new("a", Rank::new(rank))
}

fn all() -> Vec<Proc<'static>> {
    vec![Proc::new("a", Rank::WILDCARD)]
}

fn piece(rank: u32, channel: IofChannel, data: &[u8]) -> Piece {
    Piece {
        source: proc(rank),
        channel,
        infos: vec![],
        data: data.to_vec(),
    }
}

struct Fixture(Forwarding);

impl Fixture {
    fn new() -> Self {
        Self(Forwarding::new(OutputLimits::default()))
    }

    /// Opens a pull with the peer's number `local`.
    fn open(&mut self, peer: u64, local: u64, of: Vec<Proc<'static>>, on: IofChannel) -> u64 {
        let number = self.0.pull(PeerId::of(peer), local, of, on, &[]).unwrap();
        self.0.open(number, |_, _| true);
        number
    }

    fn refused(&mut self, of: Vec<Proc<'static>>, on: IofChannel) -> Status {
        let refused = self.0.pull(PeerId::of(1), 0, of, on, &[]);
        refused.unwrap_err().status()
    }

    fn deliver(&mut self, rank: u32, channel: IofChannel, data: &[u8]) -> Vec<u64> {
        let peers = self.0.deliver(piece(rank, channel, data), |_, _| true);
        peers
            .into_iter()
            .map(|peer| u64::from(peer.index()))
            .collect()
    }

    fn sent(&mut self, peer: u64) -> Vec<(u64, Vec<u8>)> {
        self.sent_with(peer, 0)
    }

    fn sent_with(&mut self, peer: u64, queued_bytes: usize) -> Vec<(u64, Vec<u8>)> {
        let sent = self.0.pump(PeerId::of(peer), queued_bytes);
        sent.iter().map(|(id, p)| (*id, p.data.clone())).collect()
    }
}

fn texts(sent: Vec<(u64, Vec<u8>)>) -> Vec<String> {
    let text = |(_, data)| String::from_utf8(data).unwrap();
    sent.into_iter().map(text).collect()
}

#[test]
fn output_reaches_each_matching_pull_under_its_number() {
    let mut fixture = Fixture::new();
    fixture.open(1, 70, vec![proc(0)], OUT);
    fixture.open(1, 71, all(), ERR);
    fixture.open(2, 70, all(), IofChannel::ALL_CHANNELS);
    assert_eq!(fixture.deliver(0, OUT, b"x"), [1, 2]);
    assert_eq!(fixture.deliver(1, OUT, b"y"), [2]);
    assert_eq!(fixture.deliver(1, ERR, b"z"), [1, 2]);
    assert_eq!(fixture.sent(1), [(70, b"x".to_vec()), (71, b"z".to_vec())]);
    assert_eq!(texts(fixture.sent(2)), ["x", "y", "z"]);
    assert_eq!(fixture.sent(2), []);
}

#[test]
fn output_without_a_pull_is_kept_for_the_first_pull() {
    let mut fixture = Fixture::new();
    fixture.deliver(0, OUT, b"1");
    fixture.deliver(1, ERR, b"2");
    fixture.deliver(0, ERR, b"3");
    fixture.deliver(0, OUT, b"");
    fixture.open(1, 0, all(), ERR);
    assert_eq!(texts(fixture.sent(1)), ["2", "3"]);
    fixture.open(2, 0, all(), IofChannel::ALL_CHANNELS);
    assert_eq!(
        texts(fixture.sent(2)),
        ["1", ""],
        "the end of the stream is delivered as well"
    );
    assert_eq!(fixture.0.kept.len(), (0, 0, 0));
}

#[test]
fn output_waits_until_the_pull_is_acknowledged() {
    let mut fixture = Fixture::new();
    fixture.deliver(0, OUT, b"before");
    let number = fixture.0.pull(PeerId::of(1), 9, all(), OUT, &[]).unwrap();
    assert_eq!(fixture.deliver(0, OUT, b"since"), [1]);
    assert_eq!(fixture.sent(1), []);
    fixture.0.open(number, |_, _| true);
    assert_eq!(texts(fixture.sent(1)), ["before", "since"]);
}

#[test]
fn a_pull_refused_by_the_host_is_removed() {
    let mut fixture = Fixture::new();
    let number = fixture.0.pull(PeerId::of(1), 9, all(), OUT, &[]).unwrap();
    fixture.0.refuse(number);
    assert_eq!(fixture.deliver(0, OUT, b"x"), [] as [u64; 0]);
    assert_eq!(fixture.0.forget(PeerId::of(1)), []);
}

#[test]
fn a_pull_needs_output_channels_and_sources() {
    let mut fixture = Fixture::new();
    let input = IofChannel::STDIN_CHANNEL;
    assert_eq!(fixture.refused(all(), input), Status::ERR_NOT_SUPPORTED);
    assert_eq!(
        fixture.refused(all(), input | OUT),
        Status::ERR_NOT_SUPPORTED
    );
    assert_eq!(
        fixture.refused(all(), IofChannel::NO_CHANNELS),
        Status::ERR_BAD_PARAM
    );
    assert_eq!(fixture.refused(vec![], OUT), Status::ERR_BAD_PARAM);
}

#[test]
fn output_of_a_slow_reader_is_held_back_then_dropped() {
    let mut fixture = Fixture::new();
    let window = OutputLimits::default().window;
    let asked = |size: u32, key| [Info::new(keys::IOF_CACHE_SIZE, size), Info::new(key, true)];
    let weight = piece(0, OUT, b"x").weight();
    let two = u32::try_from(2 * weight).unwrap();
    for (peer, key) in [(1, keys::IOF_DROP_NEWEST), (2, keys::IOF_DROP_OLDEST)] {
        let infos = asked(two, key);
        let number = fixture
            .0
            .pull(PeerId::of(peer), 0, all(), OUT, &infos)
            .unwrap();
        fixture.0.open(number, |_, _| true);
    }
    for data in [b"1", b"2", b"3"] {
        fixture.deliver(0, OUT, data);
        assert_eq!(fixture.sent_with(1, window), [], "the window is full");
    }
    assert_eq!(texts(fixture.sent(1)), ["1", "2"]);
    assert_eq!(texts(fixture.sent(2)), ["2", "3"]);
}

#[test]
fn output_is_limited_by_the_window() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0, all(), OUT);
    let data = vec![b'x'; 100 << 10];
    for _ in 0..5 {
        fixture.deliver(0, OUT, &data);
    }
    assert_eq!(fixture.sent(1).len(), 3, "300 KiB in a window of 256");
    assert_eq!(fixture.sent_with(1, 200 << 10).len(), 1);
    assert_eq!(fixture.sent(1).len(), 1);
}

#[test]
fn the_cache_size_of_a_pull_is_bounded() {
    let limits = OutputLimits {
        most_held: 1000,
        ..OutputLimits::default()
    };
    let mut fixture = Fixture(Forwarding::new(limits));
    let infos = [Info::new(keys::IOF_CACHE_SIZE, u32::MAX)];
    let number = fixture
        .0
        .pull(PeerId::of(1), 0, all(), OUT, &infos)
        .unwrap();
    fixture.0.open(number, |_, _| true);
    for _ in 0..100 {
        fixture.deliver(0, OUT, &[b'x'; 700]);
    }
    assert_eq!(fixture.sent(1).len(), 1);
}

#[test]
fn the_end_of_a_pull_sends_held_output() {
    let mut fixture = Fixture::new();
    let number = fixture.open(1, 5, vec![proc(0)], OUT);
    fixture.deliver(0, OUT, b"late");
    let wrong = fixture.0.end(PeerId::of(2), number).unwrap_err();
    assert_eq!(
        wrong.status(),
        Status::ERR_NOT_FOUND,
        "the pull belongs to another peer"
    );
    let (ended, held) = fixture.0.end(PeerId::of(1), number).unwrap();
    let expected = EndedPull {
        sources: vec![proc(0)],
        channels: OUT,
    };
    assert_eq!(ended, expected);
    assert_eq!(
        (held.len(), held[0].0, &*held[0].1.data),
        (1, 5, &b"late"[..])
    );
    assert_eq!(fixture.deliver(0, OUT, b"x"), [] as [u64; 0]);
    assert!(fixture.0.end(PeerId::of(1), number).is_err());
}

#[test]
fn pulls_are_bounded() {
    let limits = OutputLimits {
        pulls_per_peer: 2,
        procs_per_pull: 3,
        ..OutputLimits::default()
    };
    let mut fixture = Fixture(Forwarding::new(limits));
    let many = (0..4).map(proc).collect();
    assert_eq!(fixture.refused(many, OUT), Status::ERR_OUT_OF_RESOURCE);
    fixture.open(1, 0, all(), OUT);
    fixture.open(1, 0, all(), OUT);
    assert_eq!(fixture.refused(all(), OUT), Status::ERR_OUT_OF_RESOURCE);
    fixture.open(2, 0, all(), OUT);
}

#[test]
fn kept_output_is_bounded_per_stream_and_in_total() {
    let weight = piece(0, OUT, b"x").weight();
    let limits = OutputLimits {
        kept_per_stream: 2 * weight,
        kept: 3 * weight,
        ..OutputLimits::default()
    };
    let mut fixture = Fixture(Forwarding::new(limits));
    for data in [b"1", b"2", b"3"] {
        fixture.deliver(0, OUT, data);
    }
    assert_eq!(
        fixture.0.kept.len(),
        (2, 1, 2 * weight),
        "the newest output is dropped"
    );
    fixture.deliver(1, OUT, b"4");
    fixture.deliver(2, OUT, b"5");
    fixture.open(1, 0, all(), OUT);
    assert_eq!(texts(fixture.sent(1)), ["2", "4", "5"]);
}

#[test]
fn removed_peers_and_jobs_leave_no_output() {
    let mut fixture = Fixture::new();
    fixture.deliver(0, OUT, b"x");
    fixture.0.forget_nspace(&Nspace::new("b"));
    assert_eq!(fixture.0.kept.len().0, 1);
    fixture.0.forget_nspace(&Nspace::new("a"));
    assert_eq!(fixture.0.kept.len(), (0, 0, 0));
    fixture.open(1, 0, all(), OUT);
    fixture.open(1, 0, all(), ERR);
    assert_eq!(fixture.0.forget(PeerId::of(1)).len(), 2);
    assert!(fixture.0.pulls.is_empty());
}

#[test]
fn held_output_of_a_peer_is_bounded_over_its_pulls() {
    let mut forwarding = Forwarding::new(OutputLimits {
        held_per_peer: 1 << 20,
        ..OutputLimits::default()
    });
    let much = [Info::new(keys::IOF_CACHE_SIZE, 700_u32 << 10)];
    let limits = (0..4).map(|local| {
        let pulled = forwarding.pull(PeerId::of(1), local, all(), OUT, &much);
        forwarding.pulls[&pulled.unwrap()].line.limit()
    });
    let limits: Vec<_> = limits.collect();
    assert_eq!(limits, [700 << 10, 324 << 10, 64 << 10, 64 << 10]);
    let other = forwarding.pull(PeerId::of(2), 0, all(), OUT, &much);
    assert_eq!(forwarding.pulls[&other.unwrap()].line.limit(), 700 << 10);
}

#[test]
fn output_of_a_job_reaches_pulls_of_any_of_its_processes() {
    let mut fixture = Fixture::new();
    fixture.open(1, 7, vec![proc(3)], OUT);
    let whole = Rank::WILDCARD.as_raw();
    assert_eq!(fixture.deliver(whole, OUT, b"x"), [1]);
    assert_eq!(fixture.deliver(4, OUT, b"x"), []);
}

#[test]
fn an_early_pull_gets_output_only_with_permission() {
    let mut fixture = Fixture::new();
    fixture.open(1, 0, all(), OUT);
    fixture.open(2, 0, all(), OUT);
    let may_read = |peer: PeerId, _: &Nspace<'_>| peer != PeerId::of(1);
    let peers = fixture.0.deliver(piece(0, OUT, b"x"), may_read);
    assert_eq!(peers, [PeerId::of(2)]);
    // Kept output is not delivered to it either.
    let mut fixture = Fixture::new();
    fixture.deliver(0, OUT, b"kept");
    let number = fixture.0.pull(PeerId::of(1), 0, all(), OUT, &[]).unwrap();
    fixture.0.open(number, may_read);
    assert!(fixture.0.pump(PeerId::of(1), 0).is_empty());
}

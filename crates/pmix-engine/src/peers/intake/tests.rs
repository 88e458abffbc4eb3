// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

const LONG: usize = 1 << 20;

fn peers() -> [PeerId; 4] {
    [1, 2, 3, 4].map(PeerId::of)
}

#[test]
fn messages_are_admitted_in_peer_order_when_memory_suffices() {
    let [first, second, third, short] = peers();
    let mut intake = Intake::new(4 * 2 * LONG);
    intake.announced(first, LONG, 0, 4);
    intake.announced(second, 2 * LONG, 0, 4);
    // There is room for it, but the second message was announced before it.
    intake.announced(third, LONG, 0, 4);
    intake.announced(short, SHORT, 0, 4);
    let may_receive = peers().map(|peer| intake.may_receive(peer, SHORT));
    assert_eq!(may_receive, [true, false, false, true]);
    assert_eq!(intake.poll_resumed(), None);
    intake.ended(first, LONG);
    assert_eq!(intake.poll_resumed(), Some(second));
    assert!(intake.may_receive(second, SHORT) && !intake.may_receive(third, SHORT));
    intake.ended(second, LONG);
    assert_eq!(intake.poll_resumed(), Some(third));
    assert!(!intake.any_waits());
    intake.ended(third, LONG);
    assert_eq!(intake.bytes(), (0, 0));
}

#[test]
fn a_peer_that_leaves_while_its_message_waits_is_skipped() {
    let [first, second, third, _] = peers();
    let mut intake = Intake::new(4 * LONG);
    for peer in [first, second, third] {
        intake.announced(peer, LONG, 0, 4);
    }
    intake.ended(second, LONG);
    assert!(intake.may_receive(second, SHORT) && !intake.may_receive(third, SHORT));
    intake.ended(first, LONG);
    assert_eq!(intake.poll_resumed(), Some(third));
    assert_eq!(intake.poll_resumed(), None);
    intake.ended(third, LONG);
    let mut classes = intake.classes.iter();
    assert!(!intake.any_waits() && classes.all(|class| class.waits.is_empty()));
}

#[test]
fn a_message_longer_than_the_limit_is_admitted_alone() {
    let [first, second, ..] = peers();
    let mut intake = Intake::new(4 * LONG);
    intake.announced(first, 5 * LONG, 0, 4);
    intake.announced(second, LONG, 0, 4);
    assert!(intake.may_receive(first, SHORT) && !intake.may_receive(second, SHORT));
    intake.ended(first, 5 * LONG);
    assert!(intake.may_receive(second, SHORT));
}

/// The number of turns with little progress before a peer is disconnected.
const PATIENCE: u64 = 40;

/// Runs a turn in which each message grows from `before` bytes to `now`.
fn turn(intake: &mut Intake, before: usize, now: impl Fn(PeerId) -> Option<usize>) -> Vec<PeerId> {
    intake.begin_turn(|_| Some(before));
    intake.end_turn(PATIENCE, now)
}

fn is_consistent(intake: &Intake) -> bool {
    let (counted, found) = intake.bytes();
    counted == found && counted <= (CLASSES + 1) * intake.most
}

#[test]
fn a_stalled_message_moves_to_the_end_of_the_queue() {
    let [first, second, third, fourth] = peers();
    let mut intake = Intake::new(4 * 4 * LONG);
    for peer in [first, second, third, fourth] {
        intake.announced(peer, 2 * LONG, 0, 4);
    }
    let may_receive = |intake: &Intake| peers().map(|peer| intake.may_receive(peer, SHORT));
    assert_eq!(may_receive(&intake), [true, true, false, false]);
    // No turn has begun, so the progress is unknown.
    assert_eq!(intake.end_turn(PATIENCE, |_| Some(100)), []);
    assert_eq!(may_receive(&intake), [true, true, false, false]);
    let one_comes = |peer| {
        Some(if peer == first {
            PROGRESS
        } else {
            PROGRESS - 1
        })
    };
    assert_eq!(turn(&mut intake, 0, one_comes), []);
    assert_eq!(may_receive(&intake), [true, false, true, false]);
    assert_eq!(intake.poll_resumed(), Some(third));
    // A complete message counts as progress, because it waits for the server.
    assert_eq!(turn(&mut intake, 0, |_| None), []);
    assert_eq!(may_receive(&intake), [true, false, true, false]);
    // The paused message waits for the message that has waited longer.
    intake.ended(first, 2 * LONG);
    assert_eq!(may_receive(&intake), [true, false, true, true]);
    intake.ended(third, 2 * LONG);
    assert_eq!(may_receive(&intake), [true, true, true, true]);
    assert!(is_consistent(&intake));
}

#[test]
fn a_message_with_received_bytes_precedes_announced_ones() {
    let mut intake = Intake::new(4 * 64 * LONG);
    let tricklers: Vec<_> = (0..1_000).map(PeerId::of).collect();
    for peer in &tricklers {
        intake.announced(*peer, 64 * LONG, 1, 1_001);
    }
    let honest = PeerId::of(5_000);
    intake.announced(honest, 64 * LONG, 0, 1_001);
    assert!(intake.may_receive(honest, 0) && !intake.may_receive(honest, SHORT));
    intake.announced(honest, 64 * LONG, SHORT, 1_001);
    // Each slow message has its turn and then makes room for the honest one, regardless of their number.
    assert_eq!(turn(&mut intake, 1, |_| Some(2)), []);
    assert!(intake.may_receive(honest, SHORT));
    let received = |peer| Some(if peer == honest { 2 * LONG } else { 2 });
    for _ in 0..100 {
        assert_eq!(turn(&mut intake, SHORT, received), []);
        assert!(intake.may_receive(honest, SHORT));
    }
    intake.ended(honest, 64 * LONG);
    assert!(is_consistent(&intake));
}

#[test]
fn a_peer_that_stalls_after_many_bytes_delays_others_by_one_turn() {
    let mut intake = Intake::new(4 * 64 * LONG);
    let attackers: Vec<_> = (0..30).map(PeerId::of).collect();
    let honest = PeerId::of(5_000);
    for peer in attackers.iter().chain([&honest]) {
        intake.announced(*peer, 64 * LONG, SHORT, 31);
    }
    // Each message stops after two MiB.
    let mut num_turns = 0;
    while !intake.may_receive(honest, SHORT) {
        assert_eq!(turn(&mut intake, 2 * LONG, |_| Some(2 * LONG)), []);
        assert!(is_consistent(&intake));
        num_turns += 1;
    }
    assert_eq!(num_turns, 30);
}

#[test]
fn the_message_stalled_longest_is_refused_when_memory_is_full() {
    let [first, second, third, honest] = peers();
    let mut intake = Intake::new(4 * 64 * LONG);
    for peer in [first, second, third, honest] {
        intake.announced(peer, 64 * LONG, SHORT, 4);
    }
    let received = |_| Some(40 * LONG);
    assert_eq!(turn(&mut intake, 40 * LONG, received), []);
    assert!(intake.may_receive(second, SHORT));
    // There is no room for the received bytes of two messages, and neither has used up its patience.
    for _ in 2..PATIENCE {
        assert_eq!(turn(&mut intake, 40 * LONG, received), []);
        assert!(intake.may_receive(second, SHORT) && is_consistent(&intake));
    }
    assert_eq!(turn(&mut intake, 40 * LONG, received), [first]);
    assert!(intake.may_receive(third, SHORT) && !intake.may_receive(second, SHORT));
    assert_eq!(turn(&mut intake, 40 * LONG, received), [second]);
    assert!(intake.may_receive(honest, SHORT));
    assert_eq!(turn(&mut intake, 40 * LONG, |_| Some(42 * LONG)), []);
    intake.ended(honest, 64 * LONG);
    intake.ended(third, 64 * LONG);
    assert_eq!(intake.bytes(), (0, 0));
    assert!(intake.paused.by_turn.is_empty());
}

#[test]
fn a_message_longer_than_the_limit_of_paused_ones_is_refused_in_time() {
    let [first, second, ..] = peers();
    let mut intake = Intake::new(4 * LONG);
    intake.announced(first, 5 * LONG, SHORT, 4);
    intake.announced(second, LONG, SHORT, 4);
    for _ in 1..PATIENCE {
        assert_eq!(turn(&mut intake, 3 * LONG, |_| Some(3 * LONG)), []);
        assert!(!intake.may_receive(second, SHORT));
    }
    assert_eq!(turn(&mut intake, 3 * LONG, |_| Some(3 * LONG)), [first]);
    assert!(intake.may_receive(second, SHORT));
}

#[test]
fn a_message_of_any_length_has_a_bounded_number_of_turns_while_others_wait() {
    let [long, short, waiting, _] = peers();
    let mut intake = Intake::new(4 * 65 * LONG);
    intake.announced(long, 64 * LONG, 0, 4);
    intake.announced(short, 10 * LONG, SHORT, 4);
    intake.announced(waiting, 64 * LONG, SHORT, 4);
    assert!(!intake.may_receive(short, SHORT));
    assert_eq!(turn(&mut intake, 0, |_| Some(LONG)), []);
    assert!(intake.may_receive(long, SHORT));
    assert_eq!(turn(&mut intake, 0, |_| Some(LONG - 1)), []);
    assert!(!intake.may_receive(long, SHORT) && intake.may_receive(short, SHORT));
}

#[test]
fn a_message_waits_for_its_class_only_and_a_share_waits_for_none() {
    let room = SHARES * LONG;
    for num_peers in [SHARES, 2 * SHARES, 5 * SHARES] {
        let mut intake = Intake::new(4 * room);
        // Half of the peers try to fill the room of the longer classes.
        let lens = [room, LONG + 1, room / EIGHTH + 1, room / EIGHTH];
        let announce = |intake: &mut Intake, number: usize, len| {
            let peer = PeerId::of(u64::try_from(number).unwrap());
            intake.announced(peer, len, 0, num_peers);
            intake.may_receive(peer, SHORT)
        };
        let half = num_peers / 2;
        for (number, len) in (0..half).zip(lens.into_iter().cycle()) {
            announce(&mut intake, number, len);
        }
        assert!(intake.any_waits());
        assert!(!announce(&mut intake, num_peers, LONG + 1));
        let share = room / num_peers;
        for number in half..num_peers {
            assert!(
                announce(&mut intake, number, share),
                "{number}, {num_peers}"
            );
        }
        let (counted, found) = intake.bytes();
        assert_eq!(counted, found);
        assert!(counted <= 4 * room, "{counted}");
    }
}

#[test]
fn a_message_keeps_its_time_while_other_classes_wait() {
    let [long, waiting, middle, behind] = peers();
    let mut intake = Intake::new(4 * 64 * LONG);
    intake.announced(middle, 2 * LONG, 0, 4);
    intake.announced(long, 64 * LONG, 0, 4);
    intake.announced(waiting, 64 * LONG, 0, 4);
    assert_eq!(turn(&mut intake, 0, |_| Some(0)), []);
    assert!(intake.may_receive(middle, SHORT) && !intake.may_receive(long, SHORT));
    // No message of the other class waited when the turn began.
    intake.begin_turn(|_| Some(0));
    for number in 5..12 {
        intake.announced(PeerId::of(number), 8 * LONG, 0, 4);
    }
    assert!(intake.may_receive(PeerId::of(11), SHORT));
    intake.announced(behind, 8 * LONG, 0, 4);
    assert!(!intake.may_receive(behind, SHORT));
    assert_eq!(intake.end_turn(PATIENCE, |_| Some(0)), []);
    assert!(intake.may_receive(middle, SHORT) && !intake.may_receive(behind, SHORT));
    assert_eq!(turn(&mut intake, 0, |_| Some(0)), []);
    assert!(intake.may_receive(behind, SHORT) && !intake.may_receive(PeerId::of(11), SHORT));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random changes of valid bytes.

use pmix_interop::random::Random;

/// Numbers that claim much more data than there is.
const CLAIMS: [&[u8]; 6] = [
    &[0xff; 9],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xfe, 0xff, 0xff, 0xff, 0x0f],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
    &[0xfe, 0xff, 0x7f],
];

/// Changes bytes in one to four places, in part with pieces of other messages.
pub(super) fn mutate(bytes: &mut Vec<u8>, random: &mut Random, others: &[Vec<u8>]) {
    for _ in 0..random.within(1, 4) {
        once(bytes, random, others);
    }
}

fn once(bytes: &mut Vec<u8>, random: &mut Random, others: &[Vec<u8>]) {
    let len = bytes.len() as u64;
    let place = |random: &mut Random| usize::try_from(random.number() % (len + 1)).unwrap_or(0);
    let at = place(random);
    let end = at.max(place(random).min(at + 32));
    match random.within(0, 7) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        3 => {
            bytes.splice(at..end, random.pick(&CLAIMS).iter().copied());
        }
        4 if !others.is_empty() => {
            let other = random.pick(others);
            let from = at.min(other.len());
            bytes.splice(at.., other[from..].iter().copied());
        }
        5 => {
            bytes.splice(at..at, random.number().to_le_bytes());
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.within(0, 7);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bytes_and_others_give_others() {
        let mutated = |seed| {
            let mut bytes: Vec<u8> = (0..100).collect();
            mutate(&mut bytes, &mut Random::new(seed), &[vec![7; 50]]);
            bytes
        };
        for seed in 0..1000 {
            assert_eq!(mutated(seed), mutated(seed));
        }
        assert_ne!(mutated(1), mutated(2));
        let mut empty = Vec::new();
        mutate(&mut empty, &mut Random::new(3), &[]);
    }
}

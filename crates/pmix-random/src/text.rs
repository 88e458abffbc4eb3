// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text and bytes.

use pmix_types::{Bytes, Key, Nspace, RegexBytes, Text};

use crate::random::{Random, Sample};

/// Returns at most `most` bytes without NUL; one text in four has more than lower-case letters.
fn text(random: &mut Random<'_>, most: usize) -> Vec<u8> {
    let usual = most.min(23) + 1;
    let bound = if random.one_in(64) { most + 1 } else { usual };
    let wanted = random.below(bound);
    let is_plain = !random.one_in(4);
    let mut text = Vec::with_capacity(wanted);
    while text.len() < wanted {
        let character = character(random, is_plain);
        if text.len() + character.len() <= wanted {
            text.extend(character);
        } else {
            text.push(b'~');
        }
    }
    text
}

fn character(random: &mut Random<'_>, is_plain: bool) -> Vec<u8> {
    const WIDE: [char; 4] = ['é', '€', '🐧', 'α'];
    let byte = u8::try_from(random.below(255)).unwrap_or_default();
    if is_plain {
        return vec![b'a' + byte % 26];
    }
    match random.below(16) {
        0 => {
            let wide = random.pick(&WIDE).unwrap_or('é');
            wide.to_string().into_bytes()
        }
        // Any byte, including control characters and bytes that are not UTF-8.
        1 => vec![byte + 1],
        _ => vec![b' ' + byte % 95],
    }
}

impl Sample for Text<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        text(random, 600).into()
    }
}

impl Sample for Option<Text<'_>> {
    fn sample(random: &mut Random<'_>) -> Self {
        (!random.one_in(10)).then(|| text(random, 9000).into())
    }
}

impl Sample for Nspace<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        text(random, Self::MAX_LEN).into()
    }
}

impl Sample for Key<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        text(random, Self::MAX_LEN).into()
    }
}

impl Sample for Bytes<'_> {
    fn sample(random: &mut Random<'_>) -> Self {
        let bound = if random.one_in(64) { 5000 } else { 20 };
        let len = random.below(bound);
        random.many(len).into()
    }
}

impl Sample for RegexBytes<'_> {
    /// Returns one of the caller's maps, because only an encoder can create one.
    fn sample(random: &mut Random<'_>) -> Self {
        let carried = random.carried;
        let index = random.below(carried.maps.len());
        let map = carried.maps.get(index).cloned().unwrap_or_default();
        Self(map.into())
    }
}

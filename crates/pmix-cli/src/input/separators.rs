// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several arguments read as one list.

use pmix_hostlist::is_blank;

use super::source::{Form, Source};

/// Takes two arguments for one text with a blank between: a comma at the end of the first or the
/// front of the second already separates them.
pub(super) fn join(left: &mut Source, right: &mut Source) {
    let is_map = |source: &Source| source.form == Form::Map;
    if left.comments || right.comments || !is_map(left) || !is_map(right) {
        return;
    }
    let ends = left.bytes.iter().rposition(|b| !is_blank(*b));
    let starts = right.bytes.iter().position(|b| !is_blank(*b));
    let (Some(end), Some(start)) = (ends, starts) else {
        return;
    };
    if left.bytes[end] != b',' {
        if right.bytes[start] == b',' {
            right.bytes[start] = b' ';
            if right.bytes.iter().all(|b| is_blank(*b)) {
                left.bytes.push(b',');
            }
        }
        return;
    }
    left.bytes[end] = b' ';
    if left.bytes.iter().all(|b| is_blank(*b)) {
        // An empty name alone has no text of its own.
        right.bytes.insert(0, b',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_hostlist::normalise;

    fn normal(text: &str, comments: bool) -> String {
        let mut bytes = text.as_bytes().to_vec();
        normalise(&mut bytes, comments);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn arguments_read_like_one_text_with_a_blank_between() {
        let texts = [
            "a", "a,", ",a", ",a,", ",", ",,", " a , ", "a b,", " , ", "n[1-2],",
        ];
        for (left, right) in texts.iter().flat_map(|l| texts.map(|r| (*l, r))) {
            let source = |text: &str| Source {
                origin: String::new(),
                bytes: text.as_bytes().to_vec(),
                comments: false,
                form: Form::Map,
            };
            let (mut a, mut b) = (source(left), source(right));
            join(&mut a, &mut b);
            normalise(&mut a.bytes, false);
            normalise(&mut b.bytes, false);
            let parts = [a.bytes, b.bytes];
            let parts: Vec<_> = parts.iter().filter(|p| !p.is_empty()).collect();
            let joined: Vec<u8> = parts
                .iter()
                .map(|p| p.as_slice())
                .collect::<Vec<_>>()
                .join(&b',');
            let expected = normal(&format!("{left} {right}"), false);
            assert_eq!(
                String::from_utf8_lossy(&joined),
                expected,
                "{left:?} {right:?}"
            );
        }
    }
}

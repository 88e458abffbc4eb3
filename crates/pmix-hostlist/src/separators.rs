// SPDX-License-Identifier: MIT OR Apache-2.0
//! Normalization of lists without brackets to single commas.
//!
//! A separator consists of blanks and newlines with at most one comma among them. Between two
//! commas is an empty name, which is kept like any other.

/// Normalizes a list of names without brackets in place for [`NodeList::parse_text`], so that
/// single commas separate the names. The text never grows. With `comments`, a `#` at the start of a
/// line or after a blank begins a comment up to the end of the line.
///
/// [`NodeList::parse_text`]: pmix_map::NodeList::parse_text
pub fn normalise(text: &mut Vec<u8>, comments: bool) {
    text.truncate(text.trim_ascii_end().len());
    let comments = comments && memchr::memchr(b'#', text).is_some();
    match (comments, survey(text)) {
        (false, Survey::Plain) => {}
        (false, Survey::Single) => {
            for byte in text.iter_mut() {
                if blank(*byte) != 0 {
                    *byte = b',';
                }
            }
        }
        _ => compact(text, comments),
    }
}

enum Survey {
    /// No blanks: the text is already normal.
    Plain,
    /// Each blank is between two names without another separator.
    Single,
    /// Names may have several bytes between them.
    Mixed,
}

/// Examines every byte and its successor, without branches, so that the compiler can vectorize the
/// loop.
fn survey(text: &[u8]) -> Survey {
    let Some(first) = text.first() else {
        return Survey::Plain;
    };
    let (mut any, mut runs) = (0, blank(*first));
    for (a, b) in text.iter().zip(&text[1..]) {
        let (x, y) = (blank(*a), blank(*b));
        any |= y;
        runs |= (x & (y | comma(*b))) | (y & comma(*a));
    }
    match (any | runs, runs) {
        (0, _) => Survey::Plain,
        (_, 0) => Survey::Single,
        _ => Survey::Mixed,
    }
}

fn blank(byte: u8) -> u8 {
    u8::from(byte == b' ') | u8::from(byte.wrapping_sub(b'\t') < 5)
}

fn comma(byte: u8) -> u8 {
    u8::from(byte == b',')
}

/// Rewrites the text with single commas, byte by byte.
fn compact(text: &mut Vec<u8>, comments: bool) {
    let (mut from, mut to) = (0, 0);
    // The separator since the last name, if any.
    let (mut gap, mut commas) = (true, false);
    while let Some(byte) = text.get(from).copied() {
        from += 1;
        if blank(byte) != 0 {
            gap = true;
        } else if comments && byte == b'#' && gap {
            from += memchr::memchr(b'\n', &text[from..]).unwrap_or(text.len() - from);
        } else if byte == b',' {
            if commas {
                text[to] = b',';
                to += 1;
            }
            (gap, commas) = (false, true);
        } else {
            if commas || (gap && to > 0) {
                text[to] = b',';
                to += 1;
            }
            text[to] = byte;
            to += 1;
            (gap, commas) = (false, false);
        }
    }
    if commas {
        text[to] = b',';
        to += 1;
    }
    text.truncate(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str, comments: bool) -> String {
        let mut bytes = text.as_bytes().to_vec();
        normalise(&mut bytes, comments);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn a_run_of_blanks_with_one_comma_is_one_separator() {
        for text in [
            "a,b",
            "a b",
            "a\nb\n",
            " a , b ",
            "a,\n\tb\r\n",
            "a \n\n b",
            "\na\r\nb",
        ] {
            assert_eq!(normal(text, false), "a,b", "{text:?}");
        }
    }

    #[test]
    fn two_commas_enclose_an_empty_name() {
        assert_eq!(normal("a,,b", false), "a,,b");
        assert_eq!(normal("a, ,b", false), "a,,b");
        assert_eq!(normal(" , a ,\n, b,", false), ",a,,b,");
        assert_eq!(normal(",", false), ",");
        assert_eq!(normal(" , , ", false), ",,");
        assert_eq!(normal(" \n ", false), "");
    }

    #[test]
    fn comments_end_with_their_line_and_begin_after_a_blank() {
        assert_eq!(normal("# all\na # first\nb#2\n#end", true), "a,b#2");
        assert_eq!(normal("a, # one\nb", true), "a,b");
        assert_eq!(normal("# a\nb", false), "#,a,b");
    }

    #[test]
    fn fast_and_slow_paths_agree() {
        for text in ["a", "a,b", "a b", "a\nb,c d", "a  b", ",a", "a,", " a"] {
            let mut fast = text.as_bytes().to_vec();
            normalise(&mut fast, false);
            let mut slow = text.as_bytes().to_vec();
            compact(&mut slow, false);
            assert_eq!(fast, slow, "{text:?}");
        }
    }
}

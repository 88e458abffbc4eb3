// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines with the prefix that a pull requests.

use std::time::SystemTime;

use pmix_types::{IofChannel, Proc};

use super::directives::{Form, Tag};

/// The maximum length of a line in bytes; a longer line is written in parts.
const LONGEST: usize = 64 << 10;

/// The lines of a stream.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not arrived yet.
    rest: Vec<u8>,
}

impl Lines {
    /// Adds output and returns the bytes to write now. Empty `data` is the end of the stream.
    pub(super) fn push(
        &mut self,
        form: Form,
        source: &Proc<'_>,
        channel: IofChannel,
        data: &[u8],
    ) -> Vec<u8> {
        if form.is_plain() {
            return data.to_vec();
        }
        let prefix = Prefix::of(form, source, channel);
        let mut out = Vec::new();
        for piece in data.split_inclusive(|&byte| byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") || form.is_raw || self.rest.len() >= LONGEST {
                prefix.write(&std::mem::take(&mut self.rest), &mut out);
            }
        }
        if data.is_empty() {
            self.finish(&prefix, &mut out);
        }
        out
    }

    /// Returns the unfinished line when the stream ends.
    pub(super) fn end(&mut self, form: Form, source: &Proc<'_>, channel: IofChannel) -> Vec<u8> {
        let mut out = Vec::new();
        self.finish(&Prefix::of(form, source, channel), &mut out);
        out
    }

    fn finish(&mut self, prefix: &Prefix, out: &mut Vec<u8>) {
        if !self.rest.is_empty() {
            prefix.write(&std::mem::take(&mut self.rest), out);
            // Ends the line, so that the next output starts on a line of its own.
            if !out.ends_with(b"\n") {
                out.push(b'\n');
            }
        }
    }
}

/// The prefix and suffix of the lines of a stream that arrive together.
struct Prefix {
    before: String,
    /// The end tag of an XML element; `None` for text.
    after: Option<String>,
}

impl Prefix {
    fn of(form: Form, source: &Proc<'_>, channel: IofChannel) -> Self {
        let Proc { nspace, rank } = source;
        let word = word(channel);
        let time = form.has_time.then(|| pmix_proto::ctime(SystemTime::now()));
        if form.is_xml {
            let name = match form.tag {
                Tag::Name => format!(" nspace=\"{}\"", escaped(&nspace.to_string())),
                Tag::None | Tag::Rank => String::new(),
            };
            let time = time.map_or_else(String::new, |time| format!(" timestamp=\"{time}\""));
            return Self {
                before: format!("<{word}{name} rank=\"{rank}\"{time}>"),
                after: Some(format!("</{word}>\n")),
            };
        }
        let time = time.map_or_else(String::new, |time| format!("[{time}]"));
        let tag = match form.tag {
            Tag::Name => format!("[{nspace},{rank}]"),
            Tag::Rank => format!("[{rank}]"),
            Tag::None => String::new(),
        };
        Self {
            before: format!("{time}{tag}<{word}>: "),
            after: None,
        }
    }

    fn write(&self, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.before.as_bytes());
        match &self.after {
            None => out.extend_from_slice(line),
            Some(after) => {
                let text = escaped(&String::from_utf8_lossy(line));
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(after.as_bytes());
            }
        }
    }
}

/// Escapes text for XML. A control character becomes its number, as in OpenPMIx.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other if other.is_control() => out.push_str(&format!("&#{:03};", u32::from(other))),
            other => out.push(other),
        }
    }
    out
}

fn word(channel: IofChannel) -> &'static str {
    if channel.contains(IofChannel::STDOUT_CHANNEL) {
        "stdout"
    } else if channel.contains(IofChannel::STDERR_CHANNEL) {
        "stderr"
    } else {
        "stddiag"
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    const OUT: IofChannel = IofChannel::STDOUT_CHANNEL;

    fn formatted(form: Form, pieces: &[&[u8]]) -> String {
        let (source, mut lines) = (Proc::new("a\"b", Rank::new(3)), Lines::default());
        let mut out = Vec::new();
        for piece in pieces {
            out.extend(lines.push(form, &source, OUT, piece));
        }
        out.extend(lines.end(form, &source, OUT));
        String::from_utf8(out).unwrap()
    }

    fn tagged(tag: Tag) -> Form {
        Form {
            tag,
            ..Form::default()
        }
    }

    #[test]
    fn output_split_across_deliveries_is_tagged_once_per_line() {
        let pieces: [&[u8]; 4] = [b"one", b"\ntwo\nth", b"ree", b""];
        let rank = "[3]<stdout>: one\n[3]<stdout>: two\n[3]<stdout>: three\n";
        assert_eq!(formatted(tagged(Tag::Rank), &pieces), rank);
        let name = rank.replace("[3]", "[a\"b,3]");
        assert_eq!(formatted(tagged(Tag::Name), &pieces), name);
        assert_eq!(formatted(tagged(Tag::None), &pieces), "one\ntwo\nthree");
        let raw = Form {
            is_raw: true,
            ..tagged(Tag::Rank)
        };
        assert_eq!(
            formatted(raw, &[b"a", b"b\n"]),
            "[3]<stdout>: a[3]<stdout>: b\n"
        );
    }

    #[test]
    fn a_timestamp_precedes_the_tag() {
        let timed = Form {
            has_time: true,
            ..tagged(Tag::Rank)
        };
        let line = formatted(timed, &[b"one\n"]);
        let (time, rest) = line.split_once(']').unwrap();
        assert_eq!(rest, "[3]<stdout>: one\n");
        // The format of `ctime`: `Tue Nov 24 20:13:20 2026`.
        assert_eq!(time.len(), 25, "{time}");
    }

    #[test]
    fn characters_that_xml_forbids_are_escaped() {
        let xml = |tag| Form {
            is_xml: true,
            ..tagged(tag)
        };
        let pieces: [&[u8]; 1] = [b"a<b>&\x01\xff\n"];
        let text = "a&lt;b&gt;&amp;&#001;\u{fffd}&#010;</stdout>\n";
        let rank = format!("<stdout rank=\"3\">{text}");
        assert_eq!(formatted(xml(Tag::None), &pieces), rank);
        let name = format!("<stdout nspace=\"a&quot;b\" rank=\"3\">{text}");
        assert_eq!(formatted(xml(Tag::Name), &pieces), name);
    }

    #[test]
    fn an_unterminated_line_is_buffered_only_up_to_its_limit() {
        let (source, mut lines) = (Proc::new("a", Rank::new(0)), Lines::default());
        let mut bytes = 0;
        for _ in 0..100 {
            let out = lines.push(tagged(Tag::Rank), &source, OUT, &[b'x'; 4096]);
            bytes += out.iter().filter(|&&byte| byte == b'x').count();
            assert!(lines.rest.len() < LONGEST);
        }
        assert_eq!(bytes + lines.rest.len(), 409_600);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inverse of the conversion of line ends by a pseudo terminal.

/// The filter that removes the carriage returns that a pseudo terminal adds.
///
/// A terminal with `OPOST` and `ONLCR` writes each line feed as carriage return and line feed. Without exactly this
/// carriage return, the bytes are those that the process has written. The terminal of the host can then convert them
/// as if the process had written to it, and files get them unchanged.
#[derive(Debug, Default)]
pub(super) struct LineEnds {
    /// `true` while the pseudo terminal converts line ends.
    pub(super) is_converted: bool,
    /// `true` if the last byte was a carriage return, which may belong to a line feed that was not read yet.
    is_return_held: bool,
    restored: Vec<u8>,
}

impl LineEnds {
    /// Returns the bytes as the process has written them. A carriage return at the end may be held back for the next
    /// call.
    pub(super) fn restore(&mut self, bytes: &[u8]) -> &[u8] {
        self.restored.clear();
        if std::mem::take(&mut self.is_return_held)
            && !(self.is_converted && bytes.starts_with(b"\n"))
        {
            self.restored.push(b'\r');
        }
        if !self.is_converted {
            self.restored.extend_from_slice(bytes);
            return &self.restored;
        }
        let mut rest = bytes;
        while let Some(place) = memchr::memchr(b'\r', rest) {
            let (before, after) = rest.split_at(place);
            self.restored.extend_from_slice(before);
            let after = after.get(1..).unwrap_or_default();
            match after.first() {
                None => self.is_return_held = true,
                Some(b'\n') => {}
                Some(_) => self.restored.push(b'\r'),
            }
            rest = after;
        }
        self.restored.extend_from_slice(rest);
        &self.restored
    }

    /// Returns `true` once if a carriage return was held back. The terminal writes both bytes of a line end at once, so
    /// without a further byte the process has written the carriage return.
    pub(super) fn take_held(&mut self) -> bool {
        std::mem::take(&mut self.is_return_held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts as a terminal with `ONLCR` does.
    fn convert(written: &[u8]) -> Vec<u8> {
        let convert = |byte: &u8| match byte {
            b'\n' => b"\r\n".to_vec(),
            byte => vec![*byte],
        };
        written.iter().flat_map(convert).collect()
    }

    #[test]
    fn bytes_are_those_that_the_process_has_written_however_they_are_split() {
        let written = b"a\nb\r\nc\r\r\n\r\rd\n\n\re\r";
        let converted = convert(written);
        for len in 1..=converted.len() {
            let mut ends = LineEnds {
                is_converted: true,
                ..LineEnds::default()
            };
            let mut restored = Vec::new();
            for piece in converted.chunks(len) {
                restored.extend_from_slice(ends.restore(piece));
            }
            assert!(ends.take_held() && !ends.take_held());
            restored.push(b'\r');
            assert_eq!(restored, written, "pieces of {len}");
        }
    }

    #[test]
    fn without_a_conversion_nothing_is_removed() {
        let mut ends = LineEnds::default();
        assert_eq!(ends.restore(b"a\r\nb\r"), b"a\r\nb\r");
        assert!(!ends.take_held());
        // A carriage return that was held back before the change is not lost.
        ends.is_converted = true;
        assert_eq!(ends.restore(b"x\r"), b"x");
        ends.is_converted = false;
        assert_eq!(ends.restore(b"\n"), b"\r\n");
    }
}

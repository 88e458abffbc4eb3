// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of each stream of a pull: unfinished lines, and the bytes buffered for one call of the callback.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_types::{Info, IofChannel, Proc};

use super::directives::{Buffering, Directives, Form};
use super::lines::Lines;

/// The maximum number of bytes that are buffered for all streams of a pull.
const MAX_TOTAL: usize = 16 << 20;

/// Output of a stream; empty data are its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The process that wrote it.
    pub source: Proc<'static>,
    /// The stream.
    pub channel: IofChannel,
    /// The attributes of this piece of output alone.
    pub infos: Vec<Info<'static>>,
    /// The bytes; none at the end of the stream.
    pub data: Vec<u8>,
}

/// A stream; the order is that of the processes.
type Stream = (Proc<'static>, u16);

/// The streams of a pull.
#[derive(Debug)]
pub struct Streams {
    directives: Directives,
    /// The unfinished lines, if the process writes the output.
    lines: BTreeMap<Stream, Lines>,
    /// The buffered bytes, if the pull has a callback.
    buffered: BTreeMap<Stream, Vec<u8>>,
    num_bytes: usize,
    is_timed: bool,
}

impl Streams {
    /// Creates the streams of a pull with these directives.
    #[must_use]
    pub fn new(directives: Directives) -> Self {
        Self {
            directives,
            lines: BTreeMap::new(),
            buffered: BTreeMap::new(),
            num_bytes: 0,
            is_timed: false,
        }
    }

    /// Adds output, and returns the output that is due now.
    #[must_use]
    pub fn push(&mut self, output: Output) -> Vec<Output> {
        if self.directives.form != Form::default() {
            return self.format(output);
        }
        if self.directives.buffering == Buffering::default() {
            return vec![output];
        }
        self.buffer(output)
    }

    fn format(&mut self, output: Output) -> Vec<Output> {
        let form = self.directives.form;
        let stream = (output.source.clone(), output.channel.as_raw());
        let lines = self.lines.entry(stream.clone()).or_default();
        let data = lines.push(form, &output.source, output.channel, &output.data);
        if output.data.is_empty() {
            self.lines.remove(&stream);
        }
        vec![formatted(form, output.source, output.channel, data)]
    }

    fn buffer(&mut self, output: Output) -> Vec<Output> {
        let stream = (output.source.clone(), output.channel.as_raw());
        if output.data.is_empty() || !output.infos.is_empty() {
            // Infos apply to this output alone, and the end of a stream has no bytes. Either is delivered separately,
            // after the buffered bytes.
            let before = self.buffered.remove(&stream).unwrap_or_default();
            self.num_bytes -= before.len();
            let before = Some(before).filter(|before| !before.is_empty());
            return { before.map(|data| buffered(stream, data)).into_iter() }
                .chain([output])
                .collect();
        }
        self.num_bytes += output.data.len();
        let bytes = self.buffered.entry(stream.clone()).or_default();
        bytes.extend_from_slice(&output.data);
        if bytes.len() >= self.directives.buffering.size {
            let data = self.buffered.remove(&stream).unwrap_or_default();
            self.num_bytes -= data.len();
            return vec![buffered(stream, data)];
        }
        match self.num_bytes > MAX_TOTAL {
            true => self.flush(),
            false => Vec::new(),
        }
    }

    /// Returns the time after which the buffered bytes must be delivered. Returns `None` if a timer already runs or
    /// nothing is buffered.
    #[must_use]
    pub fn timer(&mut self) -> Option<Duration> {
        let time = self.directives.buffering.time?;
        let begins = self.num_bytes > 0 && !self.is_timed;
        self.is_timed |= begins;
        begins.then_some(time)
    }

    /// Returns all buffered output, because its time has output.
    #[must_use]
    pub fn flush(&mut self) -> Vec<Output> {
        self.is_timed = false;
        self.num_bytes = 0;
        let all = std::mem::take(&mut self.buffered);
        all.into_iter()
            .map(|(stream, data)| buffered(stream, data))
            .collect()
    }

    /// Returns all output that is kept, because the pull ends.
    #[must_use]
    pub fn end(&mut self) -> Vec<Output> {
        let form = self.directives.form;
        let lines = std::mem::take(&mut self.lines);
        let rests = lines.into_iter().map(|((source, channel), mut lines)| {
            let channel = IofChannel::from_raw(channel);
            let data = lines.end(form, &source, channel);
            formatted(form, source, channel, data)
        });
        let rests: Vec<_> = rests.filter(|rest| !rest.data.is_empty()).collect();
        rests.into_iter().chain(self.flush()).collect()
    }
}

/// Returns formatted output for the stream on which it is written.
fn formatted(form: Form, source: Proc<'static>, channel: IofChannel, data: Vec<u8>) -> Output {
    Output {
        source,
        channel: match form.is_merged {
            true => IofChannel::STDOUT_CHANNEL,
            false => channel,
        },
        infos: Vec::new(),
        data,
    }
}

fn buffered((source, channel): Stream, data: Vec<u8>) -> Output {
    Output {
        source,
        channel: IofChannel::from_raw(channel),
        infos: Vec::new(),
        data,
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::{Rank, keys};

    use super::super::directives::Abilities;
    use super::*;

    const OUT: IofChannel = IofChannel::STDOUT_CHANNEL;
    const ERR: IofChannel = IofChannel::STDERR_CHANNEL;

    fn streams(has_function: bool, infos: &[Info<'static>]) -> Streams {
        let able = Abilities {
            has_function,
            has_timers: true,
        };
        Streams::new(Directives::of(&mut infos.to_vec(), able).unwrap())
    }

    fn from(rank: u32, channel: IofChannel, data: &str) -> Output {
        buffered(
            (Proc::new("job", Rank::new(rank)), channel.as_raw()),
            data.into(),
        )
    }

    #[test]
    fn output_is_delivered_when_the_buffering_size_is_reached() {
        let size = Info::new(keys::IOF_BUFFERING_SIZE, 5_u32);
        let mut streams = streams(true, &[size]);
        assert_eq!(streams.push(from(0, OUT, "abc")), []);
        assert_eq!(streams.push(from(1, OUT, "xyz")), []);
        assert_eq!(streams.push(from(0, ERR, "err")), []);
        let whole = streams.push(from(0, OUT, "def"));
        assert_eq!(whole, [from(0, OUT, "abcdef")]);
        // The end of a stream, and output with infos, follow the buffered output.
        let end = streams.push(from(1, OUT, ""));
        assert_eq!(end, [from(1, OUT, "xyz"), from(1, OUT, "")]);
        assert_eq!(streams.push(from(1, OUT, "")), [from(1, OUT, "")]);
        assert_eq!(streams.timer(), None);
        assert_eq!(streams.end(), [from(0, ERR, "err")]);
        assert_eq!((streams.end(), streams.num_bytes), (vec![], 0));
    }

    #[test]
    fn all_buffered_streams_share_one_buffering_timer() {
        let time = Info::new(keys::IOF_BUFFERING_TIME, 3_u32);
        let mut streams = streams(true, &[time]);
        assert_eq!(streams.timer(), None);
        assert_eq!(streams.push(from(0, OUT, "a")), []);
        assert_eq!(streams.timer(), Some(Duration::from_secs(3)));
        assert_eq!(streams.push(from(1, OUT, "b")), []);
        assert_eq!(streams.timer(), None);
        assert_eq!(streams.flush(), [from(0, OUT, "a"), from(1, OUT, "b")]);
        assert_eq!(streams.push(from(0, OUT, "c")), []);
        assert_eq!(streams.timer(), Some(Duration::from_secs(3)));
    }

    #[test]
    fn the_output_buffered_for_all_streams_is_bounded() {
        let size = Info::new(keys::IOF_BUFFERING_SIZE, u32::MAX);
        let mut streams = streams(true, &[size]);
        let much = "x".repeat(1 << 19);
        let mut num_out = 0;
        for rank in 0..200 {
            num_out += streams.push(from(rank, OUT, &much)).len();
            assert!(streams.num_bytes <= MAX_TOTAL);
        }
        assert_eq!(num_out + streams.end().len(), 200);
    }

    #[test]
    fn tagged_stderr_goes_to_stderr_unless_the_streams_are_merged() {
        let rank = Info::new(keys::IOF_RANK_OUTPUT, true);
        let merged = Info::new(keys::IOF_MERGE_STDERR_STDOUT, true);
        let mut apart = streams(false, std::slice::from_ref(&rank));
        let line = from(0, ERR, "[0]<stderr>: a\n");
        assert_eq!(apart.push(from(0, ERR, "a\nb")), [line]);
        assert_eq!(apart.end(), [from(0, ERR, "[0]<stderr>: b\n")]);
        let mut streams = streams(false, &[rank, merged]);
        let line = from(0, OUT, "[0]<stderr>: a\n");
        assert_eq!(streams.push(from(0, ERR, "a\n")), [line]);
        assert_eq!(streams.push(from(0, ERR, "b")), [from(0, OUT, "")]);
        assert_eq!(
            streams.push(from(0, ERR, "")),
            [from(0, OUT, "[0]<stderr>: b\n")]
        );
        assert_eq!(streams.end(), []);
    }
}

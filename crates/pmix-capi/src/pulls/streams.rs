// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of each stream of a pull: unfinished lines, and the bytes buffered for one call of the callback.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_types::{Info, IofChannel, Proc};

use super::directives::{Directives, Form, Gathering};
use super::shown::Lines;

/// The maximum number of bytes that are buffered for all streams of a pull.
const MOST_OF_ALL: usize = 16 << 20;

/// Output of a stream; empty data are its end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Output {
    pub(super) source: Proc<'static>,
    pub(super) channel: IofChannel,
    pub(super) infos: Vec<Info<'static>>,
    pub(super) data: Vec<u8>,
}

/// A stream; the order is that of the processes.
type Stream = (Proc<'static>, u16);

/// The streams of a pull.
#[derive(Debug)]
pub(super) struct Streams {
    directives: Directives,
    /// The unfinished lines, if the library writes the output.
    lines: BTreeMap<Stream, Lines>,
    /// The buffered bytes, if the pull has a callback.
    gathered: BTreeMap<Stream, Vec<u8>>,
    num_bytes: usize,
    is_timed: bool,
}

impl Streams {
    pub(super) fn new(directives: Directives) -> Self {
        Self {
            directives,
            lines: BTreeMap::new(),
            gathered: BTreeMap::new(),
            num_bytes: 0,
            is_timed: false,
        }
    }

    /// Adds output, and returns the output that is due now.
    pub(super) fn take(&mut self, come: Output) -> Vec<Output> {
        if self.directives.form != Form::default() {
            return self.show(come);
        }
        if self.directives.gathering == Gathering::default() {
            return vec![come];
        }
        self.gather(come)
    }

    fn show(&mut self, come: Output) -> Vec<Output> {
        let form = self.directives.form;
        let stream = (come.source.clone(), come.channel.as_raw());
        let lines = self.lines.entry(stream.clone()).or_default();
        let data = lines.push(form, &come.source, come.channel, &come.data);
        if come.data.is_empty() {
            self.lines.remove(&stream);
        }
        vec![shown(form, come.source, come.channel, data)]
    }

    fn gather(&mut self, come: Output) -> Vec<Output> {
        let stream = (come.source.clone(), come.channel.as_raw());
        if come.data.is_empty() || !come.infos.is_empty() {
            // Infos apply to this output alone, and the end of a stream has no bytes. Either is delivered separately,
            // after the buffered bytes.
            let before = self.gathered.remove(&stream).unwrap_or_default();
            self.num_bytes -= before.len();
            let before = Some(before).filter(|before| !before.is_empty());
            return { before.map(|data| gathered(stream, data)).into_iter() }
                .chain([come])
                .collect();
        }
        self.num_bytes += come.data.len();
        let there = self.gathered.entry(stream.clone()).or_default();
        there.extend_from_slice(&come.data);
        if there.len() >= self.directives.gathering.size {
            let data = self.gathered.remove(&stream).unwrap_or_default();
            self.num_bytes -= data.len();
            return vec![gathered(stream, data)];
        }
        match self.num_bytes > MOST_OF_ALL {
            true => self.flush(),
            false => Vec::new(),
        }
    }

    /// Returns the time after which the buffered bytes must be delivered. Returns `None` if a timer already runs or
    /// nothing is buffered.
    pub(super) fn timer(&mut self) -> Option<Duration> {
        let time = self.directives.gathering.time?;
        let begins = self.num_bytes > 0 && !self.is_timed;
        self.is_timed |= begins;
        begins.then_some(time)
    }

    /// Returns all buffered output, because its time has come.
    pub(super) fn flush(&mut self) -> Vec<Output> {
        self.is_timed = false;
        self.num_bytes = 0;
        let all = std::mem::take(&mut self.gathered);
        all.into_iter()
            .map(|(stream, data)| gathered(stream, data))
            .collect()
    }

    /// Returns all output that is kept, because the pull ends.
    pub(super) fn end(&mut self) -> Vec<Output> {
        let form = self.directives.form;
        let lines = std::mem::take(&mut self.lines);
        let rests = lines.into_iter().map(|((source, channel), mut lines)| {
            let channel = IofChannel::from_raw(channel);
            let data = lines.end(form, &source, channel);
            shown(form, source, channel, data)
        });
        let rests: Vec<_> = rests.filter(|rest| !rest.data.is_empty()).collect();
        rests.into_iter().chain(self.flush()).collect()
    }
}

/// Returns output of the library for the stream on which it is written.
fn shown(form: Form, source: Proc<'static>, channel: IofChannel, data: Vec<u8>) -> Output {
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

fn gathered((source, channel): Stream, data: Vec<u8>) -> Output {
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
        gathered(
            (Proc::new("job", Rank::new(rank)), channel.as_raw()),
            data.into(),
        )
    }

    #[test]
    fn output_is_delivered_when_the_buffering_size_is_reached() {
        let size = Info::new(keys::IOF_BUFFERING_SIZE, 5_u32);
        let mut streams = streams(true, &[size]);
        assert_eq!(streams.take(from(0, OUT, "abc")), []);
        assert_eq!(streams.take(from(1, OUT, "xyz")), []);
        assert_eq!(streams.take(from(0, ERR, "err")), []);
        let whole = streams.take(from(0, OUT, "def"));
        assert_eq!(whole, [from(0, OUT, "abcdef")]);
        // The end of a stream, and output with infos, follow the buffered output.
        let end = streams.take(from(1, OUT, ""));
        assert_eq!(end, [from(1, OUT, "xyz"), from(1, OUT, "")]);
        assert_eq!(streams.take(from(1, OUT, "")), [from(1, OUT, "")]);
        assert_eq!(streams.timer(), None);
        assert_eq!(streams.end(), [from(0, ERR, "err")]);
        assert_eq!((streams.end(), streams.num_bytes), (vec![], 0));
    }

    #[test]
    fn all_buffered_streams_share_one_buffering_timer() {
        let time = Info::new(keys::IOF_BUFFERING_TIME, 3_u32);
        let mut streams = streams(true, &[time]);
        assert_eq!(streams.timer(), None);
        assert_eq!(streams.take(from(0, OUT, "a")), []);
        assert_eq!(streams.timer(), Some(Duration::from_secs(3)));
        assert_eq!(streams.take(from(1, OUT, "b")), []);
        assert_eq!(streams.timer(), None);
        assert_eq!(streams.flush(), [from(0, OUT, "a"), from(1, OUT, "b")]);
        assert_eq!(streams.take(from(0, OUT, "c")), []);
        assert_eq!(streams.timer(), Some(Duration::from_secs(3)));
    }

    #[test]
    fn the_output_buffered_for_all_streams_is_bounded() {
        let size = Info::new(keys::IOF_BUFFERING_SIZE, u32::MAX);
        let mut streams = streams(true, &[size]);
        let much = "x".repeat(1 << 19);
        let mut num_out = 0;
        for rank in 0..200 {
            num_out += streams.take(from(rank, OUT, &much)).len();
            assert!(streams.num_bytes <= MOST_OF_ALL);
        }
        assert_eq!(num_out + streams.end().len(), 200);
    }

    #[test]
    fn tagged_stderr_goes_to_stderr_unless_the_streams_are_merged() {
        let rank = Info::new(keys::IOF_RANK_OUTPUT, true);
        let merged = Info::new(keys::IOF_MERGE_STDERR_STDOUT, true);
        let mut apart = streams(false, std::slice::from_ref(&rank));
        let line = from(0, ERR, "[0]<stderr>: a\n");
        assert_eq!(apart.take(from(0, ERR, "a\nb")), [line]);
        assert_eq!(apart.end(), [from(0, ERR, "[0]<stderr>: b\n")]);
        let mut streams = streams(false, &[rank, merged]);
        let line = from(0, OUT, "[0]<stderr>: a\n");
        assert_eq!(streams.take(from(0, ERR, "a\n")), [line]);
        assert_eq!(streams.take(from(0, ERR, "b")), [from(0, OUT, "")]);
        assert_eq!(
            streams.take(from(0, ERR, "")),
            [from(0, OUT, "[0]<stderr>: b\n")]
        );
        assert_eq!(streams.end(), []);
    }
}

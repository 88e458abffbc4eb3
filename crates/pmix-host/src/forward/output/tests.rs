// SPDX-License-Identifier: MIT OR Apache-2.0

use std::fs::File;
use std::io::Read as _;
use std::io::{PipeReader, PipeWriter, Write as _};
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use mio::{Events, Poll};

use pmix_types::{IofChannel, Rank};

use super::*;
use crate::forward::OutputFile;

/// Time after which a step counts as stuck.
const LIMIT: Duration = Duration::from_secs(60);

fn pipe() -> (Receiver, PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    let reader = Receiver::from(OwnedFd::from(reader));
    reader.set_nonblocking(true).unwrap();
    (reader, writer)
}

/// Lets the forwarder work until all pipes are closed and everything is written.
fn finish(forwarder: &mut OutputForwarder<'_>, poll: &mut Poll) {
    let end = Instant::now() + LIMIT;
    let mut events = Events::with_capacity(16);
    loop {
        forwarder.turn(poll.registry());
        if forwarder.num_open() == 0 && forwarder.is_drained() {
            return;
        }
        let left = end.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "{} pipes stay open", forwarder.num_open());
        let wait = if forwarder.is_busy() {
            Duration::ZERO
        } else {
            left
        };
        poll.poll(&mut events, Some(wait)).unwrap();
        for event in &events {
            assert!(forwarder.handle_ready(event.token()), "{event:?}");
        }
    }
}

fn read(mut reader: PipeReader) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn lines_of_both_streams_are_tagged_and_kept_for_pulls() {
    let mut poll = Poll::new().unwrap();
    let (output, output_end) = io::pipe().unwrap();
    let (errors, errors_end) = io::pipe().unwrap();
    {
        let mut forwarder =
            OutputForwarder::new(3, output_end.as_fd(), errors_end.as_fd()).keep_chunks_if(true);
        for (rank, kind) in [(0, OutputStream::Output), (1, OutputStream::Errors)] {
            let (reader, mut writer) = pipe();
            writer
                .write_all(format!("one {rank}\ntwo").as_bytes())
                .unwrap();
            let (source, form) = (Proc::new("job", Rank::new(rank)), LineForm::Tagged);
            let added = forwarder.add(poll.registry(), source, form, kind, reader);
            added.unwrap();
        }
        finish(&mut forwarder, &mut poll);
        let chunks = forwarder.take_chunks();
        let ends = chunks.iter().filter(|chunk| chunk.bytes.is_empty()).count();
        assert_eq!(ends, 2, "{chunks:?}");
        let of_rank_1 = chunks
            .iter()
            .filter(|chunk| chunk.source.rank == Rank::new(1));
        let bytes: Vec<u8> = of_rank_1
            .clone()
            .flat_map(|chunk| chunk.bytes.clone())
            .collect();
        assert_eq!(bytes, b"one 1\ntwo");
        assert!(
            of_rank_1
                .clone()
                .all(|chunk| chunk.kind.channel() == IofChannel::STDERR_CHANNEL)
        );
        assert_eq!(forwarder.take_chunks(), []);
    }
    drop((output_end, errors_end));
    assert_eq!(
        read(output),
        "[job,0]<stdout>: one 0\n[job,0]<stdout>: two\n"
    );
    assert_eq!(
        read(errors),
        "[job,1]<stderr>: one 1\n[job,1]<stderr>: two\n"
    );
}

#[test]
fn a_held_pipe_is_closed_after_its_contents_are_read() {
    let mut poll = Poll::new().unwrap();
    let (output, output_end) = io::pipe().unwrap();
    let (_errors, errors_end) = io::pipe().unwrap();
    let (reader, mut held) = pipe();
    held.write_all(b"last words").unwrap();
    {
        let mut forwarder = OutputForwarder::new(0, output_end.as_fd(), errors_end.as_fd());
        let kind = OutputStream::Output;
        let source = Proc::new("job", Rank::new(7));
        let form = LineForm::Plain;
        let added = forwarder.add(poll.registry(), source.clone(), form, kind, reader);
        added.unwrap();
        assert_eq!(forwarder.drain_and_close(&Nspace::new("other")), []);
        let expected = HeldStream {
            source,
            kind,
            num_bytes: 10,
        };
        assert_eq!(forwarder.drain_and_close(&Nspace::new("job")), [expected]);
        assert!(forwarder.has_open(&Nspace::new("job")));
        finish(&mut forwarder, &mut poll);
    }
    drop(output_end);
    assert_eq!(read(output), "last words");
    drop(held);
}

#[test]
fn output_of_a_full_file_is_still_kept_for_pulls() {
    let mut poll = Poll::new().unwrap();
    let (output, output_end) = io::pipe().unwrap();
    let (errors, errors_end) = io::pipe().unwrap();
    let text = "x".repeat(1 << 20);
    let mut forwarder =
        OutputForwarder::new(3, output_end.as_fd(), errors_end.as_fd()).keep_chunks_if(true);
    let path = PathBuf::from("/dev/full");
    let file = File::options().write(true).open(&path).unwrap();
    let delivery = Delivery {
        shown: None,
        file: Some(OutputFile {
            path,
            file: Arc::new(file),
        }),
    };
    let (reader, mut writer) = pipe();
    let (source, kind) = (Proc::new("job", Rank::new(0)), OutputStream::Output);
    let added = forwarder.add(poll.registry(), source, delivery, kind, reader);
    added.unwrap();
    let written = text.clone();
    let writing = std::thread::spawn(move || writer.write_all(written.as_bytes()));
    finish(&mut forwarder, &mut poll);
    writing.join().unwrap().unwrap();
    let kept: Vec<_> = { forwarder.take_chunks().into_iter() }
        .flat_map(|chunk| chunk.bytes)
        .collect();
    assert_eq!(kept.len(), text.len());
    drop(forwarder);
    drop((output_end, errors_end));
    assert_eq!(read(output), "");
    assert!(read(errors).contains("is no longer written to /dev/full"));
}

#[test]
fn parts_of_lines_wait_for_their_end_and_not_for_ever() {
    let mut poll = Poll::new().unwrap();
    let (mut output, output_end) = io::pipe().unwrap();
    let (_errors, errors_end) = io::pipe().unwrap();
    let mut forwarder = OutputForwarder::new(3, output_end.as_fd(), errors_end.as_fd());
    let patience = Duration::from_secs(3600);
    let mut writers = Vec::new();
    for rank in 0..2 {
        let (reader, writer) = pipe();
        let (source, form) = (
            Proc::new("job", Rank::new(rank)),
            LineForm::WholeWithin(patience),
        );
        let kind = OutputStream::Output;
        let added = forwarder.add(poll.registry(), source, form, kind, reader);
        added.unwrap();
        writers.push(writer);
    }
    // Writes, and reads what goes out by that.
    let mut write = |forwarder: &mut OutputForwarder<'_>, rank: usize, text: &str| {
        writers[rank].write_all(text.as_bytes()).unwrap();
        forwarder.handle_ready(Token(5 + rank));
        forwarder.turn(poll.registry());
        forwarder.turn(poll.registry());
    };
    let mut expect = |text: &str| {
        let mut got = vec![0; text.len()];
        output.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), text);
        assert_eq!(rustix::io::ioctl_fionread(&output).unwrap(), 0);
    };
    let start = Instant::now();
    assert_eq!(forwarder.deadline(), None);
    write(&mut forwarder, 0, "a");
    write(&mut forwarder, 1, "b");
    expect("");
    let first = forwarder.deadline().unwrap();
    assert!(first >= start + patience);
    write(&mut forwarder, 0, "a\nc");
    expect("aa\n");
    // The part after the completed line gets a new deadline, the other stream keeps its deadline.
    let second = forwarder.deadline().unwrap();
    assert!(second >= first);
    write(&mut forwarder, 1, "b\n");
    expect("bb\n");
    let third = forwarder.deadline().unwrap();
    forwarder.tick(third - Duration::from_nanos(1));
    write(&mut forwarder, 1, "");
    expect("");
    forwarder.tick(third);
    assert_eq!(forwarder.deadline(), None);
    write(&mut forwarder, 1, "");
    expect("c");
    // As much as all pipes take at once.
    let long = "long".repeat(16 << 10);
    write(&mut forwarder, 1, &long);
    expect(&long);
    write(&mut forwarder, 1, "end");
    drop(writers);
    finish(&mut forwarder, &mut poll);
    expect("end");
    assert_eq!(forwarder.deadline(), None);
}

#[test]
fn a_tagged_text_stops_when_its_stream_is_full_and_continues_at_a_line() {
    let mut poll = Poll::new().unwrap();
    let (output, output_end) = io::pipe().unwrap();
    let (_errors, errors_end) = io::pipe().unwrap();
    let reader = std::thread::spawn(|| read(output));
    let text = "\n".repeat(1 << 16);
    let source = Proc::new("job", Rank::new(0));
    let mut most = 0;
    {
        let mut forwarder = OutputForwarder::new(3, output_end.as_fd(), errors_end.as_fd());
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let kind = OutputStream::Output;
            let taken = forwarder.write_as(&source, LineForm::Tagged, kind, rest);
            rest = &rest[taken..];
            most = most.max(forwarder.sinks[0].num_waiting());
            finish(&mut forwarder, &mut poll);
        }
    }
    drop(output_end);
    assert!(most < 512 << 10, "{most} bytes waited");
    assert_eq!(
        reader.join().unwrap(),
        "[job,0]<stdout>: \n".repeat(1 << 16)
    );
}

#[test]
fn bytes_of_other_nodes_are_shown_and_counted_for_their_feeder() {
    let mut poll = Poll::new().unwrap();
    let (output, output_end) = io::pipe().unwrap();
    let (_errors, errors_end) = io::pipe().unwrap();
    {
        let mut forwarder = OutputForwarder::new(3, output_end.as_fd(), errors_end.as_fd());
        let source = Proc::new("job", Rank::new(7));
        let kind = OutputStream::Output;
        assert!(!forwarder.feed(&source, kind, b"no stream"));
        forwarder.add_fed(
            (5, "n5"),
            source.clone(),
            LineForm::Detailed { pid: 4711 },
            kind,
        );
        assert!(forwarder.feed(&source, kind, b"one\ntw"));
        forwarder.turn(poll.registry());
        assert_eq!(forwarder.take_fed(), [(5, 6)].into());
        assert_eq!(forwarder.num_open(), 1);
        assert!(forwarder.feed(&source, kind, b"o"));
        assert!(forwarder.feed(&source, kind, b""));
        finish(&mut forwarder, &mut poll);
        assert_eq!(forwarder.take_fed(), [(5, 1)].into());
        // The rest of a stream that is closed is lost, and its feeder has room again.
        forwarder.add_fed((5, "n5"), source.clone(), LineForm::Plain, kind);
        assert!(forwarder.feed(&source, kind, b"lost"));
        forwarder.close_stream(&source, kind);
        assert_eq!(forwarder.take_fed(), [(5, 4)].into());
        assert!(!forwarder.feed(&source, kind, b"late"));
    }
    drop(output_end);
    assert_eq!(
        read(output),
        "[job,7][n5:4711]<stdout>: one\n[job,7][n5:4711]<stdout>: two\n"
    );
}

#[test]
fn pipes_are_not_read_while_they_are_held() {
    let poll = Poll::new().unwrap();
    let (_output, output_end) = io::pipe().unwrap();
    let (_errors, errors_end) = io::pipe().unwrap();
    let mut forwarder =
        OutputForwarder::new(3, output_end.as_fd(), errors_end.as_fd()).keep_chunks_if(true);
    let (reader, mut writer) = pipe();
    let source = Proc::new("job", Rank::new(0));
    let delivery = crate::forward::Delivery {
        shown: None,
        file: None,
    };
    forwarder
        .add(
            poll.registry(),
            source,
            delivery,
            OutputStream::Output,
            reader,
        )
        .unwrap();
    writer.write_all(b"text").unwrap();
    forwarder.hold(true);
    assert!(forwarder.handle_ready(Token(5)));
    forwarder.turn(poll.registry());
    assert!(!forwarder.is_busy() && forwarder.take_chunks().is_empty());
    forwarder.hold(false);
    assert!(forwarder.is_busy());
    forwarder.turn(poll.registry());
    assert_eq!(forwarder.take_chunks()[0].bytes, b"text");
}

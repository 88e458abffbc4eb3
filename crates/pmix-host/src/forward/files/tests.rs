// SPDX-License-Identifier: MIT OR Apache-2.0

use std::io::Read as _;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use super::*;

fn output(path: &str, file: File) -> OutputFile {
    OutputFile {
        path: path.into(),
        file: Arc::new(file),
    }
}

#[test]
fn a_file_is_written_by_a_thread_in_order_and_forgotten_when_its_streams_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let (woken, wakes) = channel();
    let woken = Mutex::new(woken);
    let mut files = Files::default();
    files.write_by(Helpers::new("test", 2, move || {
        let _ = woken.lock().unwrap().send(());
    }));
    let file = output("file", File::create(&path).unwrap());
    let first = files.add(file.clone());
    assert_eq!(files.add(file), first);
    for number in 0..1000 {
        assert_eq!(files.push(first, format!("{number}\n").as_bytes()), None);
    }
    files.release(first);
    files.release(first);
    while !files.is_drained() {
        wakes.recv().unwrap();
        assert_eq!(files.turn(Instant::now()), []);
    }
    let text: String = (0..1000).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
    assert!(files.queues.iter().all(Option::is_none));
}

#[test]
fn an_unread_pipe_fills_without_blocking() {
    let (mut reader, writer) = io::pipe().unwrap();
    let mut files = Files::default();
    let id = files.add(output(
        "fifo",
        File::from(std::os::fd::OwnedFd::from(writer)),
    ));
    let mut pushed = 0;
    while !files.is_full(id) {
        assert_eq!(files.push(id, &[7; 10_000]), None);
        pushed += 10_000;
    }
    assert!(files.deadline().is_some() && !files.is_drained());
    let now = Instant::now();
    assert_eq!(files.give_up(Duration::from_secs(60), now), []);
    let mut piece = vec![0; 60_000];
    while !files.is_drained() {
        pushed -= reader.read(&mut piece).unwrap();
        assert_eq!(files.turn(Instant::now()), []);
    }
    assert!(files.deadline().is_none());
    while pushed > 0 {
        pushed -= reader.read(&mut piece).unwrap();
    }
}

#[test]
fn a_blocked_file_is_closed_and_named() {
    let (_reader, writer) = io::pipe().unwrap();
    let mut files = Files::default();
    let id = files.add(output(
        "fifo",
        File::from(std::os::fd::OwnedFd::from(writer)),
    ));
    while files.is_drained() {
        assert_eq!(files.push(id, &[7; 10_000]), None);
    }
    let later = Instant::now() + Duration::from_secs(1);
    let failures = files.give_up(Duration::from_millis(200), later);
    let [failure] = &failures[..] else {
        panic!("{failures:?}");
    };
    assert_eq!(
        (failure.file, failure.path.as_os_str()),
        (id, "fifo".as_ref())
    );
    assert!(failure.why.contains("bytes are lost"), "{}", failure.why);
    assert!(files.is_drained());
}

#[test]
fn a_pipe_without_a_reader_is_an_error() {
    let (reader, writer) = io::pipe().unwrap();
    let mut files = Files::default();
    let id = files.add(output(
        "fifo",
        File::from(std::os::fd::OwnedFd::from(writer)),
    ));
    drop(reader);
    // A process that another test starts has a copy of the reader until it executes its program.
    let end = Instant::now() + Duration::from_secs(10);
    let failure = loop {
        if let Some(failure) = files.push(id, b"x") {
            break failure;
        }
        assert!(Instant::now() < end, "the reader is still there");
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(failure.why.contains("Broken pipe"), "{}", failure.why);
    assert_eq!(files.push(id, b"x"), None);
}

/// Adds a pipe to which writes wait for room, like writes to a disk.
fn add_slow(files: &mut Files, path: &str) -> (FileId, io::PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    let id = files.add(output(path, std::os::fd::OwnedFd::from(writer).into()));
    let queue = files.queues[id.0].as_mut().unwrap();
    rustix::fs::fcntl_setfl(&queue.file, OFlags::WRONLY).unwrap();
    queue.way = WriteMethod::Blocking;
    (id, reader)
}

fn wait_for_progress(files: &Files, least: u64) {
    while files.writers.progress.load(Ordering::Relaxed) < least {
        std::thread::yield_now();
    }
}

#[test]
fn a_file_without_a_thread_is_written_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut files = Files::default();
    let helpers = Helpers::new("test", 1, || ());
    let (open, gate) = channel::<()>();
    let (say, begun) = channel();
    let hold = move |_: &_| {
        let _ = say.send(());
        let _ = gate.recv();
    };
    let mut held = vec![helpers.run(hold).unwrap()];
    // The first work leaves room for more when the thread takes it.
    begun.recv().unwrap();
    while let Ok(task) = helpers.run(|_| ()) {
        held.push(task);
    }
    files.write_by(helpers);
    let id = files.add(output("file", File::create(&path).unwrap()));
    assert_eq!(files.push(id, b"kept "), None);
    assert_eq!(files.push(id, b"in order"), None);
    assert_eq!(files.turn(Instant::now()), []);
    assert!(files.deadline().is_some() && !files.is_drained());
    let later = Instant::now() + Duration::from_secs(100);
    assert_eq!(files.give_up(Duration::from_millis(200), later), []);
    drop(open);
    while !files.is_drained() {
        assert_eq!(files.turn(Instant::now()), []);
        std::thread::yield_now();
    }
    assert!(files.deadline().is_none());
    assert_eq!(std::fs::read_to_string(path).unwrap(), "kept in order");
}

#[test]
fn a_file_is_written_at_once_if_no_thread_can_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let mut files = Files::default();
    files.write_by(Helpers::without_threads());
    let id = files.add(output("file", File::create(&path).unwrap()));
    assert_eq!(files.push(id, b"written "), None);
    assert_eq!(files.push(id, b"here"), None);
    assert!(files.is_drained() && files.deadline().is_none());
    assert_eq!(std::fs::read_to_string(path).unwrap(), "written here");
}

#[test]
fn a_file_is_given_up_only_when_no_thread_makes_progress() {
    let patience = Duration::from_millis(200);
    let mut files = Files::default();
    files.write_by(Helpers::new("test", 2, || ()));
    let (slow, mut reader) = add_slow(&mut files, "slow");
    let (dead, _dead_reader) = add_slow(&mut files, "dead");
    let pushed = 400_000;
    for id in [slow, dead] {
        assert_eq!(files.push(id, &vec![7; pushed]), None);
    }
    // Each pipe has room for one piece.
    wait_for_progress(&files, 4);
    let mut now = Instant::now();
    let mut piece = vec![0; 64 << 10];
    for num_pieces in 1..4 {
        assert_eq!(files.give_up(patience, now), []);
        reader.read_exact(&mut piece).unwrap();
        wait_for_progress(&files, 4 + num_pieces);
        now += Duration::from_secs(1);
    }
    assert_eq!(files.give_up(patience, now), []);
    let failures = files.give_up(patience, now + patience);
    let whys: Vec<_> = failures.iter().map(|failure| &*failure.why).collect();
    let lost = |num_pieces: usize| {
        let num_bytes = pushed - num_pieces * (64 << 10);
        format!("it accepted no data for 200 ms, and {num_bytes} bytes are lost")
    };
    assert_eq!(whys, [lost(4), lost(1)]);
}

#[test]
fn a_waiting_file_is_closed_with_the_files_that_block_the_threads() {
    let patience = Duration::from_millis(200);
    let mut files = Files::default();
    files.write_by(Helpers::new("test", 1, || ()));
    let (dead, reader) = add_slow(&mut files, "dead");
    assert_eq!(files.push(dead, &vec![7; 400_000]), None);
    wait_for_progress(&files, 2);
    let queued = files.add(output("queued", tempfile::tempfile().unwrap()));
    assert_eq!(files.push(queued, b"x"), None);
    let now = Instant::now();
    assert_eq!(files.give_up(patience, now), []);
    let failures = files.give_up(patience, now + patience);
    assert_eq!(failures.len(), 2, "{failures:?}");
    // The thread is still held.
    let late = files.add(output("late", tempfile::tempfile().unwrap()));
    assert_eq!(files.push(late, b"x"), None);
    let now = Instant::now();
    assert_eq!(files.give_up(patience, now), []);
    assert_eq!(files.give_up(patience, now + patience).len(), 1);
    drop(reader);
}

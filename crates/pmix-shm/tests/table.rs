// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading tables, for any behavior of the writer and for forged objects.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use pmix_shm::{Address, Error, Reader, Writer};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};

const MIB: usize = 1 << 20;

fn table() -> (Writer, Reader) {
    let writer = Writer::create(MIB).unwrap();
    let reader = Reader::open(&writer.address()).unwrap();
    (writer, reader)
}

/// Returns the parts of an address: process, descriptor, token.
fn parts(address: &Address) -> (String, String, String) {
    let text = address.to_string();
    let mut parts = text.split('.').map(str::to_owned);
    let mut next = || parts.next().unwrap();
    (next(), next(), next())
}

/// Returns the bytes of the object at an address.
fn bytes_of(address: &Address) -> Vec<u8> {
    let (pid, fd, _) = parts(address);
    std::fs::read(format!("/proc/{pid}/fd/{fd}")).unwrap()
}

/// Creates an object with these bytes and seals. Returns its address with the token of `like`.
fn forged(like: &Address, bytes: &[u8], seals: SealFlags) -> (OwnedFd, Address) {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let object = rustix::fs::memfd_create("pmix-rs", flags).unwrap();
    let mut left = bytes;
    while !left.is_empty() {
        let len = rustix::io::write(&object, left).unwrap();
        left = &left[len..];
    }
    rustix::fs::fcntl_add_seals(&object, seals).unwrap();
    let (pid, _, token) = parts(like);
    let address = format!("{pid}.{}.{token}", object.as_raw_fd());
    (object, address.parse().unwrap())
}

fn all_seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL
}

#[test]
fn finds_the_last_value_of_a_key_and_no_removed_one() {
    let (mut writer, reader) = table();
    assert_eq!(reader.get(b"a"), Ok(None));
    for value in [&b"one"[..], b"", b"a longer one", b"8 bytes.", &[7; 5000]] {
        writer.put(b"a", value).unwrap();
        assert_eq!(reader.get(b"a").unwrap().as_deref(), Some(value));
        assert_eq!(reader.get(b"b"), Ok(None));
    }
    writer.put(b"", b"no key").unwrap();
    assert_eq!(reader.get(b"").unwrap().as_deref(), Some(&b"no key"[..]));
    writer.remove(b"a");
    writer.remove(b"never there");
    assert_eq!(reader.get(b"a"), Ok(None));
    writer.put(b"a", b"again").unwrap();
    assert_eq!(reader.get(b"a").unwrap().as_deref(), Some(&b"again"[..]));
}

#[test]
fn distinguishes_more_keys_than_chains() {
    let mut writer = Writer::create(4 * MIB).unwrap();
    let reader = Reader::open(&writer.address()).unwrap();
    for key in 0..20_000_u32 {
        writer
            .put(&key.to_le_bytes(), &(!key).to_le_bytes())
            .unwrap();
    }
    for key in 0..20_000_u32 {
        let value = reader.get(&key.to_le_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&(!key).to_le_bytes()[..]));
    }
    assert_eq!(reader.get(&20_000_u32.to_le_bytes()), Ok(None));
}

#[test]
fn repeated_puts_take_no_more_room() {
    let (mut writer, reader) = table();
    for round in 0..10_000_u32 {
        let len = 100 + usize::try_from(round % 900).unwrap();
        writer.put(b"key", &vec![1; len]).unwrap();
    }
    assert!(writer.memory_bytes() < 128 << 10, "{writer:?}");
    assert_eq!(
        reader.get(b"key").unwrap().map(|value| value.len()),
        Some(199)
    );
}

#[test]
fn a_full_table_keeps_its_values() {
    let (mut writer, reader) = table();
    let value = vec![5; 1000];
    let put = (0..u32::MAX).take_while(|key| writer.put(&key.to_le_bytes(), &value).is_ok());
    let num_put = u32::try_from(put.count()).unwrap();
    assert!((800..1050).contains(&num_put), "{num_put}");
    assert_eq!(writer.put(b"one more", &value), Err(Error::Full));
    for key in 0..num_put {
        assert_eq!(reader.get(&key.to_le_bytes()).unwrap(), Some(value.clone()));
    }
    // If a new value does not fit, the old value is removed, because it is outdated.
    assert_eq!(
        writer.put(&0_u32.to_le_bytes(), &[1; 2000]),
        Err(Error::Full)
    );
    assert_eq!(reader.get(&0_u32.to_le_bytes()), Ok(None));
    assert!(writer.put(&0_u32.to_le_bytes(), b"short").is_ok());
    assert!(Writer::create(usize::MAX).is_err());
}

#[test]
fn readers_never_see_partial_writes() {
    let (mut writer, reader) = table();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (reader, is_done) = (&reader, &is_done);
        let readers = [0_u8, 1].map(|key| {
            scope.spawn(move || {
                let mut num_read = 0_u64;
                let mut last = 0;
                while !is_done.load(Ordering::Relaxed) || num_read == 0 {
                    let value = match reader.get(&[key]) {
                        Ok(Some(value)) => value,
                        Ok(None) | Err(Error::Busy) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    let round = u64::from_le_bytes(*value.first_chunk().unwrap());
                    assert!(value.chunks(8).all(|word| word == &round.to_le_bytes()[..]));
                    assert!(round >= last, "{round} after {last}");
                    (last, num_read) = (round, num_read + 1);
                }
                num_read
            })
        });
        for round in 0..100_000_u64 {
            // Lengths vary, and values are sometimes removed. A partially written value would
            // contain words of two rounds.
            let words = 1 + usize::try_from(round % 61).unwrap();
            let value = round.to_le_bytes().repeat(words);
            writer.put(&[0], &value).unwrap();
            if round % 7 == 0 {
                writer.remove(&[1]);
            }
            writer.put(&[1], &value).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
    });
}

#[test]
fn a_value_that_grows_is_never_absent() {
    const NUM_KEYS: u32 = 24;
    const MOST: usize = 256 << 10;
    let mut writer = Writer::create(64 * MIB).unwrap();
    for key in 0..NUM_KEYS {
        writer.put(&key.to_le_bytes(), &[1]).unwrap();
    }
    let reader = Reader::open(&writer.address()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (reader, is_done) = (&reader, &is_done);
        let readers = [0, 1].map(|_| {
            scope.spawn(move || {
                let mut num_read = 0_u64;
                while !is_done.load(Ordering::Relaxed) || num_read == 0 {
                    for key in 0..NUM_KEYS {
                        // The reader finds either the old or the new value, unless the writer waits for a processor in
                        // the middle of a write.
                        let value = match reader.get(&key.to_le_bytes()) {
                            Err(pmix_shm::Error::Busy) => continue,
                            found => found.unwrap().unwrap(),
                        };
                        assert!(value.iter().all(|byte| *byte == 1), "{}", value.len());
                        num_read += 1;
                    }
                }
            })
        });
        // Each value is longer than the capacity of the previous one.
        let lengths = std::iter::successors(Some(3_usize), |len| Some(2 * len + 1));
        for len in lengths.take_while(|len| *len < MOST) {
            for key in 0..NUM_KEYS {
                writer.put(&key.to_le_bytes(), &vec![1; len]).unwrap();
            }
        }
        is_done.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn a_table_without_values_takes_a_page() {
    let mut writer = Writer::create(256 * MIB).unwrap();
    let reader = Reader::open(&writer.address()).unwrap();
    assert_eq!(reader.get(b"a"), Ok(None));
    assert!(writer.memory_bytes() <= 4096, "{writer:?}");
    writer.put(b"a", b"1").unwrap();
    assert_eq!(reader.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(writer.memory_bytes() <= 64 << 10, "{writer:?}");
}

#[test]
fn no_process_can_shorten_or_write_an_object_of_another() {
    let (mut writer, reader) = table();
    writer.put(b"a", b"1").unwrap();
    let (pid, fd, _) = parts(&writer.address());
    let path = format!("/proc/{pid}/fd/{fd}");
    // Only root may open the object for writing.
    if let Ok(object) = rustix::fs::open(&path, OFlags::RDWR, Mode::empty()) {
        assert!(rustix::fs::ftruncate(&object, 0).is_err());
        assert!(rustix::fs::ftruncate(&object, 1 << 30).is_err());
        assert!(rustix::io::pwrite(&object, b"x", 0).is_err());
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&object, punch, 0, 4096).is_err());
        assert!(rustix::fs::fcntl_add_seals(&object, SealFlags::WRITE).is_err());
    } else {
        assert!(!rustix::process::geteuid().is_root());
    }
    assert_eq!(reader.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_closed_table_is_empty() {
    let (mut writer, reader) = table();
    writer.put(b"a", b"1").unwrap();
    let address = writer.address();
    drop(writer);
    assert!(!reader.is_open());
    assert_eq!(reader.get(b"a"), Ok(None));
    assert!(Reader::open(&address).is_err());
}

#[test]
fn rejects_objects_other_than_that_of_the_address() {
    let (mut writer, _reader) = table();
    writer.put(b"a", b"1").unwrap();
    let address = writer.address();
    let (pid, fd, token) = parts(&address);
    let open = |text: String| Reader::open(&text.parse().unwrap()).map(|_| ());
    let is_foreign = |opened: Result<(), Error>| matches!(opened, Err(Error::Foreign(_)));
    let other = format!("{:032x}", 5);
    assert_eq!(open(format!("{pid}.{fd}.{token}")), Ok(()));
    assert!(is_foreign(open(format!("{pid}.{fd}.{other}"))));
    // A missing process, and a missing descriptor.
    assert!(open(format!("{}.{fd}.{token}", u32::MAX)).is_err());
    assert!(open(format!("{pid}.{}.{token}", u32::MAX)).is_err());
    // Objects that are rejected: a pipe, whose opening would block, a file, and memory that is not
    // sealed.
    let (pipe, _end) = rustix::pipe::pipe().unwrap();
    assert!(is_foreign(open(format!(
        "{pid}.{}.{token}",
        pipe.as_raw_fd()
    ))));
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(is_foreign(open(format!(
        "{pid}.{}.{token}",
        file.as_raw_fd()
    ))));
    let bytes = bytes_of(&address);
    for missing in [SealFlags::SHRINK, SealFlags::FUTURE_WRITE] {
        let (_object, forged) = forged(&address, &bytes, all_seals() - missing);
        assert!(is_foreign(Reader::open(&forged).map(|_| ())), "{missing:?}");
    }
    let (_object, empty) = forged(&address, b"", all_seals());
    assert!(matches!(Reader::open(&empty), Err(Error::Damaged(_))));
}

#[test]
fn damage_is_an_error_or_changes_nothing() {
    let mut writer = Writer::create(0).unwrap();
    let keys: Vec<Vec<u8>> = (1..8_u8).map(|len| vec![len; len.into()]).collect();
    for key in &keys {
        writer.put(key, &key.repeat(5)).unwrap();
    }
    let address = writer.address();
    let good = bytes_of(&address);
    let mut num_noticed = 0;
    let used = 128 + 4096 * 8..128 + 4096 * 8 + 600;
    let head = 0..64;
    for at in head.chain(used) {
        for wrong in [0x01, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= wrong;
            let (_object, forged) = forged(&address, &bytes, all_seals());
            let Ok(reader) = Reader::open(&forged) else {
                num_noticed += 1;
                continue;
            };
            for key in &keys {
                match reader.get(key) {
                    Ok(Some(value)) => assert_eq!(value, key.repeat(5), "byte {at}"),
                    // With a damaged key or position, the record seems to belong to another key.
                    Ok(None) => num_noticed += 1,
                    Err(error) => {
                        assert!(matches!(error, Error::Damaged(_) | Error::Busy), "{error}");
                        num_noticed += 1;
                    }
                }
            }
        }
    }
    assert!(num_noticed > 500, "{num_noticed}");
}

#[test]
fn a_circular_chain_ends() {
    let mut writer = Writer::create(0).unwrap();
    writer.put(b"a", b"1").unwrap();
    let address = writer.address();
    let mut bytes = bytes_of(&address);
    let record: u64 = 128 + 4096 * 8;
    let at = usize::try_from(record).unwrap();
    // Makes the record refer to itself as the next one, and changes its key.
    bytes[at + 8..at + 16].copy_from_slice(&record.to_ne_bytes());
    bytes[at + 56] = b'b';
    let (_object, forged) = forged(&address, &bytes, all_seals());
    let reader = Reader::open(&forged).unwrap();
    assert!(matches!(reader.get(b"a"), Err(Error::Damaged(_))));
}

/// Creates the object of a table with one value, with the length `len`, and seals it. The record
/// claims a value of `value_len` bytes.
fn with_claimed_length(len: u64, value_len: u64) -> (OwnedFd, Address) {
    let mut writer = Writer::create(0).unwrap();
    writer.put(b"a", b"1").unwrap();
    let address = writer.address();
    let mut bytes = bytes_of(&address);
    let record: usize = 128 + 4096 * 8;
    bytes[32..40].copy_from_slice(&len.to_ne_bytes());
    for at in [record + 32, record + 40] {
        bytes[at..at + 8].copy_from_slice(&value_len.to_ne_bytes());
    }
    let (object, forged) = forged(&address, &bytes, SealFlags::SHRINK);
    rustix::fs::ftruncate(&object, len).unwrap();
    rustix::fs::fcntl_add_seals(&object, all_seals()).unwrap();
    (object, forged)
}

#[test]
fn rejects_values_whose_stated_length_exceeds_the_limit() {
    for (len, value_len) in [
        (8_u64 << 40, 4_u64 << 40),
        (16 << 30, 12 << 30),
        (2 << 20, 1 << 20),
    ] {
        let (_object, address) = with_claimed_length(len, value_len);
        let reader = Reader::open(&address).unwrap();
        let reader = reader.with_max_value_bytes((1 << 20) - 1);
        let refused = Error::TooLong(value_len, (1 << 20) - 1);
        assert_eq!(reader.get(b"a"), Err(refused));
    }
    // Without a limit set by the caller, for a length that no process can allocate.
    let (_object, address) = with_claimed_length(8 << 40, 4 << 40);
    let reader = Reader::open(&address).unwrap();
    let reader = reader.with_max_value_bytes(usize::MAX);
    let room = 4 << 40;
    // Skipped on a system that overcommits memory, which would try to fill it.
    if Vec::<u8>::new().try_reserve_exact(room).is_err() {
        assert_eq!(reader.get(b"a"), Err(Error::NoMemory(room)));
    }
}

/// Runs as a child of [`a_limit_of_files_ends_no_process`], with a file size limit of 100 KiB.
#[test]
#[ignore = "run by another test in a process with a limit"]
fn with_a_limit_of_files() {
    // Either the header alone exceeds the limit, or the table is as large as the limit allows.
    match Writer::create(1 << 28) {
        Ok(mut table) => {
            let put = (0..1000_u32).map(|key| table.put(&key.to_be_bytes(), &[0; 1000]));
            assert!(put.into_iter().any(|put| put == Err(Error::Full)));
        }
        Err(error) => assert_eq!(error, Error::Full),
    }
}

#[test]
fn a_limit_of_files_ends_no_process() {
    for blocks in ["1", "200", "600"] {
        let program = std::env::current_exe().unwrap();
        let script =
            format!("ulimit -f {blocks} && exec \"$0\" --exact with_a_limit_of_files --ignored");
        let mut shell = std::process::Command::new("sh");
        let output = shell.arg("-c").arg(script).arg(program).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{blocks}: {said}"
        );
    }
}

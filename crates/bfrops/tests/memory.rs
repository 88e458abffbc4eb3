// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory for unpacking. A separate test binary, because its allocator counts the memory of
//! every thread.
//!
//! Unpacking allocates at most eight times the size of the message plus 64 KiB, for any bytes.

#[path = "it/records.rs"]
#[allow(dead_code, reason = "not every test of the records needs all of them")]
mod records;

mod meter;

use std::path::{Path, PathBuf};

use bfrops::{BufferKind, Decoder, Encoder, Integers, Layout, Module, WireType, wire_type};
use pmix_random::{Seeded, Source as _};
use pmix_types::{DataArray, DataType, Info, InfoFlags, Proc, Rank, Status, Value};
use records::{Framer, Record};

#[global_allocator]
static METER: meter::Meter = meter::Meter;

/// Returns every layout.
fn layouts() -> Vec<Layout> {
    let mut layouts = Vec::new();
    for module in Module::ALL {
        for buffer in [BufferKind::NonDescribed, BufferKind::Described] {
            for integers in [Integers::Fixed, Integers::Flex] {
                let layout = Layout::new(module).with_buffer(buffer);
                layouts.push(layout.with_integers(integers));
            }
        }
    }
    layouts.dedup();
    layouts
}

/// Unpacks data, checks the memory that this takes, and returns `true` if unpacking succeeds.
#[track_caller]
fn affordable(layout: Layout, data_type: DataType, bytes: &[u8]) -> bool {
    let (result, cost) = meter::of(|| {
        Decoder::new(layout, bytes)
            .with_framer(&Framer)
            .array(data_type)
    });
    let most = 8 * bytes.len() + 64 * 1024;
    assert!(
        cost.peak <= most,
        "{data_type} in {layout:?}: {} bytes held for {}: {:02x?}",
        cost.peak,
        bytes.len(),
        bytes.get(..64).unwrap_or(bytes)
    );
    result.is_ok()
}

/// A generator of the same pseudo-random numbers in every run.
struct Numbers(Seeded);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0.take(8)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).expect("a small number");
        usize::try_from(self.next() % end).expect("a small number")
    }

    fn of<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }
}

/// Large lengths or counts as packed bytes, in groups of seven bits and with fixed width.
const LARGE: [&[u8]; 6] = [
    &[0xfe, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x80, 0x80, 0x80, 0x01],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff],
    &[0, 0x0f, 0xff, 0xff],
];

/// Returns a damaged copy of a record.
fn mutation(numbers: &mut Numbers, records: &[Record], bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        match numbers.below(5) {
            // Flips one bit.
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << numbers.below(8);
                }
            }
            // Replaces the end by the end of another record.
            1 => {
                let other = &numbers.of(records).bytes;
                let from = numbers.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            // Overwrites some bytes with a large length.
            2 => {
                let large = *numbers.of(&LARGE);
                let end = bytes.len().min(at + numbers.below(large.len() + 1));
                bytes.splice(at..end, large.iter().copied());
            }
            // Overwrites the count.
            3 => {
                let large = *numbers.of(&LARGE);
                let end = bytes.len().min(large.len());
                bytes.splice(..end, large.iter().copied());
            }
            // Repeats some bytes.
            _ => {
                let end = bytes.len().min(at + 1 + numbers.below(12));
                let part = bytes[at.min(end)..end].to_vec();
                bytes.extend(part.repeat(1 + numbers.below(200)));
            }
        }
    }
    bytes
}

// Planted: memory is taken for the count in packed data before the data are read.
#[test]
fn every_record_is_affordable_in_every_layout() {
    let mut unpacked = 0;
    for file in records::FILES {
        for record in records::of(file) {
            for layout in layouts() {
                unpacked += usize::from(affordable(layout, record.data_type, &record.bytes));
            }
        }
    }
    assert!(unpacked > 3_000, "only {unpacked} were unpacked");
}

#[test]
fn ten_thousand_mutations_of_each_file_are_affordable() {
    let layouts = layouts();
    for file in records::FILES {
        let records = records::of(file);
        let mut numbers = Numbers(Seeded::new(
            u64::try_from(file.len()).expect("a short name"),
        ));
        let mut unpacked = 0;
        for _ in 0..10_000 {
            let record = numbers.of(&records);
            let bytes = mutation(&mut numbers, &records, &record.bytes);
            let layout = match numbers.below(4) {
                0 => *numbers.of(&layouts),
                _ => record.layout,
            };
            unpacked += u32::from(affordable(layout, record.data_type, &bytes));
        }
        // Some mutations are still valid, most are not.
        assert!((1_000..9_000).contains(&unpacked), "{file}: {unpacked}");
    }
}

/// Returns the files with inputs that fuzzers found, and the local corpus if there is one.
fn fuzzed() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let folders = ["regressions", "corpus"].map(|name| std::fs::read_dir(top.join(name)));
    let folders = folders.into_iter().flatten().flatten().flatten();
    let mut files = Vec::new();
    for folder in folders {
        let name = folder.file_name();
        if name.to_string_lossy().starts_with("bfrops") {
            let inputs = std::fs::read_dir(folder.path()).expect("a folder");
            // A corpus may be large.
            files.extend(inputs.flatten().take(300).map(|input| input.path()));
        }
    }
    files
}

#[test]
fn findings_of_fuzzers_are_affordable() {
    let types = [DataType::VALUE, DataType::INFO, DataType::DATA_ARRAY];
    for path in fuzzed() {
        let input = std::fs::read(path).expect("a readable file");
        // The first two bytes of an input select the layout and the type.
        let (choice, bytes) = input.split_at(input.len().min(2));
        let chosen = choice.get(1).map(|byte| DataType::from_raw((*byte).into()));
        for layout in layouts() {
            for data_type in types.into_iter().chain(chosen) {
                affordable(layout, data_type, bytes);
            }
        }
    }
}

/// Returns the number of bytes that the count of a call takes if it is small.
fn count_len(layout: Layout) -> usize {
    match layout.integers {
        Integers::Fixed => 4,
        Integers::Flex => 1,
    }
}

/// Returns a packed number.
fn number<K: WireType>(layout: Layout, item: K::Item<'_>) -> Vec<u8> {
    let layout = layout.with_buffer(BufferKind::NonDescribed);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(layout, &mut out);
    encoder.one::<K>(&item).expect("a number");
    out.split_off(count_len(layout))
}

/// Returns the start of a call with `count` data but without the data, or `None` if the module does
/// not have the type.
fn said(layout: Layout, data_type: DataType, count: i32) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let mut encoder = Encoder::new(layout, &mut head);
    encoder.array(&DataArray::empty(data_type)).ok()?;
    let code = match (layout.buffer, layout.module, layout.integers) {
        (BufferKind::NonDescribed, ..) => 0,
        (_, Module::V12, _) => 4,
        (_, _, Integers::Fixed) => 2,
        (_, _, Integers::Flex) => 1,
    };
    let count = number::<wire_type::Int32>(layout, count);
    head.splice(code..code + count_len(layout), count);
    Some(head)
}

/// Returns bytes of this length to follow a false count.
fn fills(len: usize) -> [Vec<u8>; 5] {
    [
        vec![0; len],
        vec![1; len],
        vec![0xff; len],
        [0, 0, 0, 1].repeat(len / 4),
        [2, 0, 24, 1, 39, 1].repeat(len / 6),
    ]
}

#[test]
fn false_counts_are_affordable_for_every_type() {
    let fills = fills(1 << 12);
    for layout in layouts() {
        for data_type in (1..=75).map(DataType::from_raw) {
            for count in [1 << 8, 1 << 12, 1 << 20, i32::MAX] {
                let Some(head) = said(layout, data_type, count) else {
                    continue;
                };
                for fill in &fills {
                    affordable(layout, data_type, &[&head[..], fill].concat());
                }
            }
        }
    }
}

#[test]
fn a_megabyte_of_equal_bytes_is_affordable() {
    let fills = fills(1 << 20);
    for layout in layouts() {
        for data_type in [
            DataType::STRING,
            DataType::VALUE,
            DataType::INFO,
            DataType::DATA_ARRAY,
            DataType::COORD,
            DataType::POINTER,
        ] {
            for (fill, count) in fills.iter().zip([1 << 20, 1 << 18, 1 << 16].iter().cycle()) {
                if let Some(head) = said(layout, data_type, *count) {
                    affordable(layout, data_type, &[&head[..], fill].concat());
                }
            }
        }
    }
}

#[test]
fn small_things_in_large_numbers_are_affordable() {
    let layout = Layout::new(Module::V41);
    let most = 20_000;
    let count = i32::try_from(most).expect("a small number");
    for (data_type, item) in [
        // A view without dimensions; a view with one dimension.
        (DataType::COORD, &[0, 0][..]),
        (DataType::COORD, &[0, 1, 7]),
        // An app of nulls, an empty query, an array of one pointer, an array of one coord.
        (DataType::APP, &[0, 0, 0, 0, 0, 0]),
        (DataType::QUERY, &[0, 0]),
        (DataType::DATA_ARRAY, &[31, 1, 1]),
        (DataType::DATA_ARRAY, &[47, 1, 0, 0]),
        // A value whose boxed datum takes more memory than its bytes.
        (DataType::VALUE, &[52, 0]),
        (DataType::VALUE, &[48, 0, 0, 0, 0]),
        (DataType::VALUE, &[39, 47, 1, 0, 0]),
    ] {
        let head = said(layout, data_type, count).expect("a type of the module");
        let bytes = [&head[..], &item.repeat(most)].concat();
        affordable(layout, data_type, &bytes);
        let few = said(layout, data_type, 100).expect("a type of the module");
        let bytes = [&few[..], &item.repeat(100)].concat();
        assert!(affordable(layout, data_type, &bytes), "{data_type}");
    }
}

#[test]
fn nested_arrays_are_affordable() {
    let layout = Layout::new(Module::V41);
    for levels in [1, 10, 63, 64, 65, 10_000, 300_000] {
        let mut bytes = vec![2];
        bytes.extend([39, 1].repeat(levels));
        let fits = affordable(layout, DataType::DATA_ARRAY, &bytes);
        assert!(!fits, "{levels} levels and nothing in them");
        // Each level states a size equal to the remaining bytes.
        let mut bytes = vec![2];
        for level in (0..levels.min(2_000)).rev() {
            let left = u64::try_from(3 * level).expect("a small number");
            bytes.push(39);
            bytes.extend(number::<wire_type::Size>(layout, left));
        }
        affordable(layout, DataType::DATA_ARRAY, &bytes);
    }
}

/// Packs items, and checks that unpacking them one by one allocates nothing.
#[track_caller]
fn costs_nothing<K: WireType>(items: &[K::Item<'_>]) {
    let mut measured = 0;
    for layout in layouts() {
        let mut bytes = Vec::new();
        let packed = Encoder::new(layout, &mut bytes).call::<K>(items);
        if let Err(error) = packed {
            // Some modules do not have the type.
            assert_ne!(error.status(), Status::ERR_BAD_PARAM, "{error}");
            continue;
        }
        let (count, cost) = meter::of(|| {
            let mut decoder = Decoder::new(layout, &bytes);
            let call = decoder.call::<K>().expect("our own call");
            call.map(|item| item.map(drop).expect("our own datum"))
                .count()
        });
        assert_eq!(count, items.len());
        assert_eq!((cost.calls, cost.peak), (0, 0), "{} {layout:?}", K::TYPE);
        measured += 1;
    }
    assert!(measured >= 16, "{} in {measured} layouts", K::TYPE);
}

#[test]
fn borrowed_data_allocate_nothing() {
    costs_nothing::<wire_type::String>(&[Some("a string".into()), Some("".into()), None]);
    costs_nothing::<wire_type::ByteObject>(&[b"some bytes".as_slice().into()]);
    costs_nothing::<wire_type::Proc>(&[
        Proc::new("a.job", Rank::new(3)),
        Proc::new("a.job", Rank::WILDCARD),
    ]);
    let values = [
        Value::Bool(true),
        Value::Uint32(7),
        Value::Int64(-7),
        Value::Size(1 << 40),
        Value::Pid(4711),
        Value::String(Some("text".into())),
        Value::ByteObject(b"bytes".as_slice().into()),
        Value::Double(2.5),
    ];
    costs_nothing::<wire_type::Value>(&values);
    let infos = values.map(|value| Info {
        flags: InfoFlags::from_raw(1),
        ..Info::new("pmix.key", value)
    });
    costs_nothing::<wire_type::Info>(&infos);
    costs_nothing::<wire_type::Uint32>(&[0, 1, u32::MAX]);
    // Not every module allows these two types in a value.
    costs_nothing::<wire_type::Value>(&[Value::Proc(Proc::new("job", Rank::new(0)))]);
    costs_nothing::<wire_type::Value>(&[Value::Rank(Rank::new(0)), Value::Status(Status::SUCCESS)]);
}

#[test]
fn the_meter_counts() {
    let (held, cost) = meter::of(|| {
        drop(vec![0_u8; 1_000]);
        vec![0_u8; 100]
    });
    assert_eq!(held.len(), 100);
    assert_eq!((cost.peak, cost.calls), (1_000, 2));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes that no correct peer sends: each is rejected with a status, the offset and the reason.

use crate::records;
use crate::records::Framer;
use bfrops::{BufferKind, Decoder, Encoder, Error, Integers, Layout, Limits, Module, wire_type};
use pmix_types::{DataArray, DataType, Info, NodePid, Proc, Rank, Status, Value};

const PAST_END: Status = Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER;
const V41: Layout = Layout::new(Module::V41);

/// Returns the error of unpacking one datum.
fn refused<K: bfrops::WireType>(layout: Layout, bytes: &[u8]) -> Error {
    match Decoder::new(layout, bytes).one::<K>() {
        Ok(_) => panic!("{bytes:02x?} was unpacked as {}", K::TYPE),
        Err(error) => error,
    }
}

#[track_caller]
fn says(error: &Error, status: Status, offset: usize, message: &str) {
    let text = error.to_string();
    assert_eq!(error.status(), status, "{text}");
    assert_eq!(error.offset(), Some(offset), "{text}");
    assert!(text.contains(message), "{text}");
}

/// Checks that every prefix of every record of a file is rejected, and returns the number of
/// prefixes.
fn truncated(file: &str) -> usize {
    let mut tried = 0;
    for record in records::of(file) {
        let mut whole = Decoder::new(record.layout, &record.bytes).with_framer(&Framer);
        if let Err(error) = whole.array(record.data_type) {
            // v12 packs only the number of these data, which no release unpacks.
            assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{}", record.name);
            continue;
        }
        for len in 0..record.bytes.len() {
            let mut decoder =
                Decoder::new(record.layout, &record.bytes[..len]).with_framer(&Framer);
            let error = match decoder.array(record.data_type) {
                // The support after a topology is optional.
                Ok(_) if record.name.contains("PMIX_TOPO") => continue,
                Ok(array) => panic!("{}: {len} bytes gave {array:?}", record.name),
                Err(error) => error,
            };
            // A truncated encoded map is not a map. It is unpacked as a string.
            if !record.name.contains("PMIX_REGEX") {
                assert_eq!(error.status(), PAST_END, "{}: {error}", record.name);
            }
            let offset = error.offset().expect("a place");
            assert!(offset <= len, "{}: {error} of {len}", record.name);
            tried += 1;
        }
    }
    tried
}

#[test]
fn no_prefix_of_a_message_is_a_message() {
    for file in records::FILES {
        let tried = truncated(file);
        assert!(tried > 10_000, "{file}: only {tried} prefixes");
    }
}

#[test]
fn bytes_after_a_message_are_reported() {
    let mut decoder = Decoder::new(V41, &[2, 7, 0xaa, 0xbb]);
    decoder.one::<wire_type::Uint32>().expect("one number");
    assert_eq!(decoder.rest(), [0xaa, 0xbb]);
    let error = decoder.finish().expect_err("two bytes are left");
    says(&error, Status::ERR_UNPACK_FAILURE, 2, "2 bytes are left");
}

#[test]
fn an_unknown_type_is_named_with_its_place_and_the_module() {
    let unknown = Status::ERR_UNKNOWN_DATA_TYPE;
    // Type 200 in a value, type 74 in the value of an info and as the elements of an array.
    let error = refused::<wire_type::Value>(V41, &[2, 0xc8, 1]);
    says(&error, unknown, 1, "type 200");
    says(&error, unknown, 1, "v41");
    let error = refused::<wire_type::Info>(V41, b"\x02\x04k\0\0\x4a\0\0");
    says(&error, unknown, 5, "PMIX_REGEX2 (type 74)");
    let error = refused::<wire_type::DataArray>(V41, &[2, 74, 1, 0, 0]);
    says(&error, unknown, 1, "PMIX_REGEX2 (type 74)");
    // A complete call whose type the peer's module does not have.
    let error = Decoder::new(V41, &[2, 0, 0]).array(DataType::REGEX2);
    says(&error.expect_err("no such type"), unknown, 0, "v41");
    let described = Layout::new(Module::V4).with_buffer(BufferKind::Described);
    let error = Decoder::new(described, &[9, 2, 60, 2, 0]).described();
    says(&error.expect_err("no such type"), unknown, 2, "v4");
}

#[test]
fn a_type_that_no_value_can_hold_is_a_bad_parameter() {
    for data_type in [DataType::VALUE, DataType::APP, DataType::INFO] {
        let number = u8::try_from(data_type.as_raw()).expect("a small number");
        let error = refused::<wire_type::Value>(V41, &[2, number, 0, 0, 0, 0]);
        says(&error, Status::ERR_BAD_PARAM, 1, "cannot hold");
    }
}

/// Returns nested arrays with one element each.
fn towers(levels: usize) -> Vec<u8> {
    let mut bytes = vec![2];
    bytes.extend([39, 1].repeat(levels));
    bytes.extend([3, 0]);
    bytes
}

/// Returns an info whose value is an array of one info whose value is an array, and so on.
fn infos(levels: usize) -> Vec<u8> {
    let mut bytes = vec![2];
    bytes.extend([4, b'k', 0, 0, 39, 24, 1].repeat(levels));
    bytes.extend([4, b'k', 0, 0, 1, 1]);
    bytes
}

#[test]
fn rejects_packing_of_data_that_no_peer_unpacks() {
    let most = usize::try_from(Limits::default().depth).expect("a small number");
    for module in [V41, Layout::new(Module::V12), Layout::new(Module::V20)] {
        let packed = |levels: usize| {
            let leaf = Value::from(1_u32);
            let nested = (0..levels).fold(leaf, |value, _| vec![Info::new("k", value)].into());
            let mut bytes = Vec::new();
            let done = Encoder::new(module, &mut bytes).one::<wire_type::Value>(&nested);
            done.map(|()| bytes)
        };
        let bytes = packed(most).expect("nested to the limit");
        Decoder::new(module, &bytes)
            .one::<wire_type::Value>()
            .expect("nested to the limit");
        for levels in [most + 1, 10 * most] {
            let error = packed(levels).expect_err("too deep");
            assert_eq!(error.status(), Status::ERR_BAD_PARAM);
            assert!(error.to_string().contains("64 deep"), "{error}");
        }
    }
}

#[test]
fn nesting_has_a_configurable_limit() {
    let most = usize::try_from(Limits::default().depth).expect("a small number");
    for levels in [1, 2, most] {
        Decoder::new(V41, &towers(levels))
            .one::<wire_type::DataArray>()
            .expect("nested to the limit");
        Decoder::new(V41, &infos(levels))
            .one::<wire_type::Info>()
            .expect("nested to the limit");
    }
    for levels in [most + 1, 100_000] {
        let error = refused::<wire_type::DataArray>(V41, &towers(levels));
        says(
            &error,
            Status::ERR_OUT_OF_RESOURCE,
            1 + 2 * (most + 1),
            "64 deep",
        );
        let error = refused::<wire_type::Info>(V41, &infos(levels));
        says(
            &error,
            Status::ERR_OUT_OF_RESOURCE,
            1 + 7 * (most + 1),
            "64 deep",
        );
    }
    let limits = Limits {
        depth: 1,
        ..Limits::default()
    };
    let bytes = towers(2);
    let mut decoder = Decoder::new(V41, &bytes).with_limits(limits);
    let error = decoder.one::<wire_type::DataArray>();
    says(
        &error.expect_err("two levels"),
        Status::ERR_OUT_OF_RESOURCE,
        5,
        "1 deep",
    );
}

#[test]
fn the_limit_of_processes_counts_all_lists() {
    let proc = Proc::new("job", Rank::new(1));
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(V41, &mut bytes);
    let list = Info::new("list", vec![proc.clone(); 3]);
    let infos = [list, Info::new("one", proc.clone())];
    encoder.call::<wire_type::Info>(&infos).expect("infos");
    encoder
        .call::<wire_type::Proc>(&[proc.clone(), proc])
        .expect("a list");
    let read = |most: usize| {
        let mut decoder = Decoder::new(V41, &bytes).with_max_procs(most);
        let infos = decoder.all::<wire_type::Info>()?;
        decoder
            .all::<wire_type::Proc>()
            .map(|procs| infos.len() + procs.len())
    };
    assert_eq!(read(5).expect("five in lists"), 4);
    let error = read(4).expect_err("one too many");
    let said = "5 processes are listed, more than 4";
    let start = error.offset().expect("a place");
    says(&error, Status::ERR_OUT_OF_RESOURCE, start, said);
    assert!(error.to_string().contains("PMIX_RANK_WILDCARD"));
}

#[test]
fn an_integer_wider_than_its_type_is_refused() {
    let failure = Status::ERR_UNPACK_FAILURE;
    let error = refused::<wire_type::Uint16>(V41, &[2, 0x80, 0x80, 0x04]);
    says(&error, failure, 1, "65536 does not fit 16 bits");
    let error = refused::<wire_type::Int16>(V41, &[2, 0x80, 0x80, 0x04]);
    says(&error, failure, 1, "32768 does not fit 16 bits");
    let error = refused::<wire_type::Uint32>(V41, &[2, 0x80, 0x80, 0x80, 0x80, 0x10]);
    says(&error, failure, 1, "4294967296 does not fit 32 bits");
    let error = refused::<wire_type::Int32>(V41, &[2, 0x81, 0x80, 0x80, 0x80, 0x10]);
    says(&error, failure, 1, "-2147483649 does not fit 32 bits");
    // A type code above 16 bits, and a count above 32 bits.
    let error = refused::<wire_type::Value>(V41, &[2, 0x81, 0x80, 0x04, 0]);
    says(&error, failure, 1, "65537 does not fit 16 bits");
    let error = refused::<wire_type::Bool>(V41, &[0xff; 9]);
    says(&error, failure, 0, "does not fit 32 bits");
    // The greatest numbers that fit.
    let top = Decoder::new(V41, &[2, 0xff, 0xff, 0xff, 0xff, 0x0f]).one::<wire_type::Uint32>();
    assert_eq!(top, Ok(u32::MAX));
    let top =
        Decoder::new(V41, &[[2; 1].as_slice(), &[0xff; 9]].concat()).one::<wire_type::Uint64>();
    assert_eq!(top, Ok(u64::MAX));
}

#[test]
fn an_integer_that_never_ends_is_past_the_end() {
    for len in 0..8 {
        let bytes = [[2].as_slice(), &vec![0x80; len]].concat();
        let error = refused::<wire_type::Uint64>(V41, &bytes);
        says(&error, PAST_END, 1, "Uint64");
    }
}

#[test]
fn rejects_negative_lengths_and_counts_with_their_offset() {
    let failure = Status::ERR_UNPACK_FAILURE;
    let negative = Decoder::new(V41, &[1]).all::<wire_type::Bool>();
    says(
        &negative.expect_err("-1"),
        failure,
        0,
        "count -1 is negative",
    );
    let error = refused::<wire_type::String>(V41, &[2, 1]);
    says(&error, failure, 1, "string length -1 is negative");
    let error = refused::<wire_type::Query>(V41, &[2, 1]);
    says(&error, failure, 1, "count -1 is negative");
    // No command, then the arguments, whose number is a C int.
    let error = refused::<wire_type::App>(V41, &[2, 0, 3]);
    says(&error, failure, 2, "count -2 is negative");
    let native = V41.with_integers(Integers::Fixed);
    let error = refused::<wire_type::String>(native, &[0, 0, 0, 1, 0x80, 0, 0, 0]);
    says(&error, failure, 4, "string length -2147483648 is negative");
}

#[test]
fn rejects_lengths_past_the_end_before_reserving_memory() {
    let error = refused::<wire_type::String>(V41, b"\x02\xfe\xff\xff\xff\x0fabc");
    says(&error, PAST_END, 6, "2147483647 bytes and there are 3");
    let error =
        refused::<wire_type::ByteObject>(V41, b"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xffabc");
    says(&error, PAST_END, 10, "18446744073709551615");
    for data_type in (1..=69).map(DataType::from_raw) {
        let count = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        let bytes = [&count[..], &[0; 64]].concat();
        let mut decoder = Decoder::new(V41, &bytes);
        let error = decoder
            .array(data_type)
            .expect_err("2^31-1 data in 64 bytes");
        let expected = match data_type {
            // Pointers take no bytes, but their memory is bounded as well.
            DataType::POINTER => Status::ERR_OUT_OF_RESOURCE,
            // A process id begins with the code of its actual type, which is invalid here.
            DataType::PID => Status::ERR_NOT_FOUND,
            // Current modules no longer have these types.
            DataType::MODEX | DataType::INFO_ARRAY => Status::ERR_UNKNOWN_DATA_TYPE,
            _ => PAST_END,
        };
        assert_eq!(error.status(), expected, "{data_type}: {error}");
    }
}

#[test]
fn a_string_without_its_nul_is_refused() {
    let error = refused::<wire_type::String>(V41, b"\x02\x06abc");
    says(&error, Status::ERR_UNPACK_FAILURE, 1, "without the NUL");
    let error = refused::<wire_type::Proc>(V41, b"\x02\x06abc\x01");
    says(&error, Status::ERR_UNPACK_FAILURE, 1, "without the NUL");
    // Bytes after an inner NUL are neither part of the text nor unpacked as the next datum.
    let mut decoder = Decoder::new(V41, b"\x04\x08a\0b\0\x04c\0");
    let texts = decoder.all::<wire_type::String>().expect("two strings");
    assert_eq!(texts, [Some("a".into()), Some("c".into())]);
}

#[test]
fn rejects_null_pointers_that_are_not_allowed() {
    let error = refused::<wire_type::Query>(V41, &[2, 2, 0, 0]);
    says(&error, Status::ERR_UNPACK_FAILURE, 2, "null pointer");
}

#[test]
fn rejects_names_longer_than_peers_accept() {
    let text = |len: usize| {
        let folded = 2 * (len + 1);
        let low = u8::try_from(folded & 0x7f).expect("seven bits");
        let high = u8::try_from(folded >> 7).expect("seven bits");
        [&[2, 0x80 | low, high], &vec![b'n'; len][..], &[0, 1, 1, 1]].concat()
    };
    Decoder::new(V41, &text(255))
        .one::<wire_type::Proc>()
        .expect("an nspace as long as can be");
    let error = refused::<wire_type::Proc>(V41, &text(256));
    says(&error, Status::ERR_UNPACK_FAILURE, 1, "256 bytes");
    Decoder::new(V41, &text(511))
        .one::<wire_type::Kval>()
        .expect("a key as long as can be");
    let error = refused::<wire_type::Info>(V41, &text(512));
    says(&error, Status::ERR_UNPACK_FAILURE, 1, "512 bytes");
}

#[test]
fn a_described_call_of_another_type_is_a_mismatch() {
    let described = V41.with_buffer(BufferKind::Described);
    let mismatch = Status::ERR_PACK_MISMATCH;
    let error = refused::<wire_type::Uint32>(described, &[9, 2, 15, 1]);
    says(
        &error,
        mismatch,
        2,
        "expected PMIX_UINT32, found PMIX_UINT64",
    );
    // In a described buffer the count has a type code, too.
    let error = refused::<wire_type::Uint32>(described, &[14, 2, 14, 1]);
    says(&error, Status::ERR_UNPACK_FAILURE, 0, "PMIX_INT32");
    // The buffer has the type code, so that the reader need not know the type.
    let mut decoder = Decoder::new(described, &[9, 2, 15, 1]);
    assert_eq!(decoder.described(), Ok(DataArray::Uint64(vec![1])));
    let error = Decoder::new(V41, &[2, 1]).described();
    says(
        &error.expect_err("not described"),
        Status::ERR_UNPACK_FAILURE,
        0,
        "the buffer does not say",
    );
}

#[test]
fn the_real_type_of_an_integer_must_be_one() {
    let error = refused::<wire_type::Pid>(V41, &[2, 3, 1]);
    says(&error, Status::ERR_NOT_FOUND, 1, "found PMIX_STRING");
    // An integer of another width is converted as in C.
    let narrow = Decoder::new(V41, &[2, 7, 0xfb]).one::<wire_type::Pid>();
    assert_eq!(narrow, Ok(-5));
}

#[test]
fn one_datum_is_one_datum() {
    for bytes in [&[0][..], &[4, 1, 1]] {
        let error = refused::<wire_type::Bool>(V41, bytes);
        says(&error, Status::ERR_UNPACK_FAILURE, 0, "expected one");
    }
}

#[test]
fn rejects_text_that_is_not_a_number_with_a_short_message() {
    let mut bytes = [&[2, 0x82, 0x80, 0x08][..], &[0xff; 1 << 16]].concat();
    bytes.push(0);
    let error = refused::<wire_type::Double>(V41, &bytes);
    assert!(error.to_string().len() < 300, "{}", error.to_string().len());
    says(&error, Status::ERR_UNPACK_FAILURE, 1, "expected a number");
}

#[test]
fn empty_arrays_of_unknown_types_are_passed_on() {
    // Type 300 without data.
    let bytes = [2, 0xac, 0x02, 0];
    for module in [Module::V4, Module::V41, Module::V51, Module::V61] {
        let layout = Layout::new(module);
        let array = Decoder::new(layout, &bytes).one::<wire_type::DataArray>();
        let array = array.expect("an array of nothing");
        let mut out = Vec::new();
        let mut encoder = Encoder::new(layout, &mut out);
        encoder
            .one::<wire_type::DataArray>(&array)
            .expect("the same");
        assert_eq!(out, bytes, "{module}");
        // The stated number of data must be present.
        let empty = DataArray::Untyped {
            data_type: DataType::from_raw(300),
            len: 5,
        };
        let mut encoder = Encoder::new(layout, &mut out);
        let error = encoder
            .one::<wire_type::DataArray>(&empty)
            .expect_err("no data");
        assert_eq!(error.status(), Status::ERR_PACK_FAILURE);
        assert_eq!(out, bytes);
    }
}

#[test]
fn arrays_of_no_type_without_a_number_take_one_byte() {
    let bytes = [4, 0, 0];
    let mut decoder = Decoder::new(Layout::new(Module::V51), &bytes);
    let arrays = decoder.all::<wire_type::DataArray>().expect("two arrays");
    assert_eq!(arrays, [DataArray::default(), DataArray::default()]);
    decoder.finish().expect("nothing is left");
}

#[test]
fn a_damaged_message_does_not_affect_the_next() {
    let good = [2, 4, b'k', 0, 0, 1, 1];
    let bad = [2, 0xc8, 1, 9, 9];
    for message in [&good[..], &bad, &good] {
        let info = Decoder::new(V41, message).one::<wire_type::Info>();
        assert_eq!(info.is_ok(), message == good);
        if let Ok(info) = info {
            assert_eq!(info.value, Value::Bool(true));
        }
    }
}

#[test]
fn with_all_types_adds_types_and_keeps_the_form_of_others() {
    let pid = NodePid {
        hostname: Some("n1".into()),
        nodeid: 3,
        pid: 4711,
    };
    let newer = Value::NodePid(Box::new(pid));
    let mut out = Vec::new();
    let refused = Encoder::new(V41, &mut out).one::<wire_type::Value>(&newer);
    assert_eq!(refused.unwrap_err().status(), Status::ERR_UNKNOWN_DATA_TYPE);
    assert!(out.is_empty());
    // Later modules neither pack the length of an array of type `PMIX_UNDEF` nor have statistics.
    let older = Value::DataArray(DataArray::Untyped {
        data_type: DataType::UNDEF,
        len: 2,
    });
    let disk = Value::DiskStats(Box::default());
    let all = DataArray::Value(vec![newer, older.clone(), disk]);
    let mut encoder = Encoder::new(V41, &mut out).with_all_types();
    encoder.array(&all).unwrap();
    let mut plain = Vec::new();
    let mut encoder = Encoder::new(V41, &mut plain);
    encoder.one::<wire_type::Value>(&older).unwrap();
    assert!(out.windows(plain.len() - 1).any(|part| part == &plain[1..]));
    let back = Decoder::new(V41, &out)
        .with_all_types()
        .array(DataType::VALUE);
    assert_eq!(back.unwrap(), all);
    let refused = Decoder::new(V41, &out).array(DataType::VALUE);
    assert_eq!(refused.unwrap_err().status(), Status::ERR_UNKNOWN_DATA_TYPE);
    // `with_all_types` has no effect for the first modules.
    let mut old = Vec::new();
    let mut encoder = Encoder::new(Layout::new(Module::V3), &mut old).with_all_types();
    assert!(encoder.array(&all).is_err());
}

#[test]
fn a_reader_without_encoders_unpacks_only_text_maps() {
    let read = |bytes: &[u8]| {
        let value = Decoder::new(V41, bytes).one::<wire_type::Value>();
        value.map(pmix_types::IntoOwned::into_owned)
    };
    let text = |map: &'static [u8]| Value::Regex(pmix_types::RegexBytes(map.into()));
    // A value that a scheme recognizes, and one that no scheme recognizes.
    assert_eq!(read(b"\x02\x31raw:n1,n2\0").unwrap(), text(b"raw:n1,n2"));
    assert_eq!(read(b"\x02\x31\x02\x0cn1,n2\0").unwrap(), text(b"n1,n2"));
    let error = read(b"\x02\x31blob:\0component=zlib:\0").unwrap_err();
    says(&error, Status::ERR_UNPACK_FAILURE, 2, "only its encoder");
    let error = read(b"\x02\x31raw:n1").unwrap_err();
    assert_eq!(error.status(), PAST_END, "{error}");
}

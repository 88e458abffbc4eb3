// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the exact bytes of requests.

use bfrops::{BufferKind, Layout, Module};
use pmix_proto::{Command, ListLimits, PeerForm, Request, reply, request};
use pmix_types::{DataArray, DataType, Info, Proc, Rank, Status, Value, keys};

fn form(version: &str) -> PeerForm {
    PeerForm::new(Layout::new(Module::V41), version.as_bytes())
}

fn fence() -> Request<'static> {
    Request::Fence(request::Fence {
        procs: vec![
            Proc::new("job", Rank::new(0)),
            Proc::new("job", Rank::new(1)),
        ],
        infos: vec![Info::new(keys::COLLECT_DATA, Value::Bool(true))],
    })
}

fn lookup() -> Request<'static> {
    Request::Lookup(request::Lookup {
        uid: 1000,
        keys: vec!["a".into(), "b".into()],
        infos: vec![],
    })
}

#[test]
fn a_fence_is_a_command_and_two_counted_lists() {
    let bytes = fence().encode(&form("4.2.2"), None).unwrap();
    let expected =
        b"\x02\x03\x02\x02\x04\x08job\0\0\x08job\0\x01\x02\x01\x02\x1apmix.collect\0\0\x01\x01";
    assert_eq!(bytes, expected);
    assert_eq!(Request::decode(&form("4.2.2"), None, &bytes), Ok(fence()));
}

#[test]
fn every_key_of_a_lookup_is_a_call_of_its_own() {
    let bytes = lookup().encode(&form("4.2.2"), None).unwrap();
    assert_eq!(
        bytes,
        b"\x02\x07\x02\xe8\x07\x02\x02\x02\x04a\0\x02\x04b\0\x02\0"
    );
    assert_eq!(Request::decode(&form("4.2.2"), None, &bytes), Ok(lookup()));
}

#[test]
fn a_destruct_has_members_since_5_0() {
    let end = |procs| {
        Request::GroupDestruct(request::GroupDestruct {
            group: Some("g".into()),
            procs,
            infos: vec![],
        })
    };
    let named = end(vec![Proc::new("j", Rank::new(0))]);
    let old = named.encode(&form("4.2.2"), None).unwrap();
    assert_eq!(old, b"\x02\x1c\x02\x04g\0\x02\0");
    assert_eq!(Request::decode(&form("4.2.2"), None, &old), Ok(end(vec![])));
    let new = named.encode(&form("5.0.11"), None).unwrap();
    assert_eq!(new, b"\x02\x1c\x02\x04g\0\x02\x01\x02\x04j\0\0\x02\0");
    assert_eq!(Request::decode(&form("5.0.11"), None, &new), Ok(named));
}

#[test]
fn a_get_of_everything_has_no_key() {
    let get = Request::Get(request::Get {
        nspace: "job".into(),
        rank: Rank::WILDCARD,
        ..request::Get::default()
    });
    let bytes = get.encode(&form("4.2.2"), None).unwrap();
    assert_eq!(
        bytes,
        b"\x02\x04\x02\x08job\0\x02\xfe\xff\xff\xff\x0f\x02\0"
    );
    assert_eq!(Request::decode(&form("4.2.2"), None, &bytes), Ok(get));
}

#[test]
fn a_commit_passes_on_its_blocks() {
    let bytes = b"\x02\x02\x02\x01 whatever";
    let Ok(Request::Commit(commit)) = Request::decode(&form("5.0.11"), None, bytes) else {
        panic!("no commit");
    };
    assert_eq!(commit.blocks, b"\x02\x01 whatever");
}

#[test]
fn a_truncated_request_names_the_field_and_the_offset() {
    for request in [fence(), lookup()] {
        let bytes = request.encode(&form("5.0.11"), None).unwrap();
        for len in 0..bytes.len() {
            let error = Request::decode(&form("5.0.11"), None, &bytes[..len]).unwrap_err();
            assert!(!error.status().is_success());
            assert!(error.offset().unwrap() <= len, "{error}");
            assert!(!error.part().is_empty());
        }
        let long = [&bytes[..], &[7]].concat();
        let error = Request::decode(&form("5.0.11"), None, &long).unwrap_err();
        assert_eq!(error.offset(), Some(bytes.len()));
        assert_eq!(error.part(), request.command().to_string());
    }
}

#[test]
fn rejects_false_lengths_before_reserving_memory() {
    let huge = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    for start in [&b"\x02\x03\x02"[..], b"\x02\x07\x02\x00\x02"] {
        let bytes = [start, huge].concat();
        let error = Request::decode(&form("5.0.11"), None, &bytes).unwrap_err();
        assert!(error.offset().unwrap() <= bytes.len(), "{error}");
    }
    // The stated count exceeds the data.
    let bytes = b"\x02\x03\x02\x05\x02\x04j\0\0\x02\0";
    let error = Request::decode(&form("5.0.11"), None, bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "FENCENB procs: 5 are announced and 1 are there at byte 2"
    );
}

#[test]
fn an_unknown_command_is_not_an_error() {
    let bytes = b"\x02\x63 and what it has";
    let request = Request::decode(&form("5.0.11"), None, bytes).unwrap();
    assert_eq!(request, Request::Unknown(Command(0x63)));
    assert_eq!(
        Request::command_of(&form("5.0.11"), bytes),
        Some(Command(0x63))
    );
    assert_eq!(Request::command_of(&form("5.0.11"), b""), None);
}

#[test]
fn a_described_request_has_its_types() {
    let layout = Layout::new(Module::V41).with_buffer(BufferKind::Described);
    let form = PeerForm::new(layout, b"5.0.11");
    let bytes = Request::Finalize.encode(&form, None).unwrap();
    assert_eq!(bytes, [9, 2, 34, 5]);
    assert_eq!(Request::decode(&form, None, &bytes), Ok(Request::Finalize));
    let refusal = reply::status(&form, Status::ERR_NOT_SUPPORTED).unwrap();
    assert_eq!(refusal, [9, 2, 20, 0x5d]);
}

#[test]
fn fields_that_a_newer_peer_appends_are_ignored_and_counted() {
    for request in [fence(), lookup()] {
        let known = form("99.0.0");
        let bytes = request.encode(&known, None).unwrap();
        for extra in [&b""[..], b"\xff", b"\x02\x07what a later release says"] {
            let long = [&bytes[..], extra].concat();
            let decoded = Request::decode_measured(&known, None, &long, ListLimits::NONE).unwrap();
            assert_eq!(decoded.request, request);
            assert_eq!(decoded.num_ignored, extra.len());
            // The known part must still be whole.
            let cut = &bytes[..bytes.len() - 1];
            assert!(Request::decode(&known, None, cut).is_err());
        }
    }
}

#[test]
fn a_connect_of_6_0_may_end_with_the_data_that_its_process_shares() {
    let array = |key: &'static str, inner: Info<'static>| Info::new(key, vec![inner]);
    let endpoint = array(keys::PROC_INFO_ARRAY, Info::new("nic", 7_u64));
    let job = array(keys::JOB_INFO_ARRAY, Info::new(keys::JOB_SIZE, 2_u32));
    for shared in [
        vec![],
        vec![job.clone()],
        vec![endpoint.clone(), job.clone()],
    ] {
        let request = Request::Connect(request::Connect {
            procs: vec![Proc::new("job", Rank::WILDCARD)],
            infos: vec![],
            shared: shared.clone(),
        });
        let bytes = request.encode(&form("6.1.0"), None).unwrap();
        assert_eq!(
            Request::decode(&form("6.1.0"), None, &bytes),
            Ok(request.clone())
        );
        // A server of an earlier release gets what it knows.
        let old = request.encode(&form("5.0.11"), None).unwrap();
        assert!(bytes.starts_with(&old));
        assert_eq!(bytes.len() == old.len(), shared.is_empty());
        assert_eq!(
            Request::decode(&form("5.0.11"), None, &bytes).is_ok(),
            shared.is_empty()
        );
    }
}

#[test]
fn shared_data_beyond_the_limits_of_a_request_are_dropped() {
    let infos = vec![Info::new("nic", 7_u64); 5];
    let request = request::Connect {
        procs: vec![Proc::new("job", Rank::WILDCARD)],
        infos: vec![],
        shared: vec![Info::new(keys::JOB_INFO_ARRAY, infos)],
    };
    let bytes = Request::Connect(request.clone())
        .encode(&form("6.1.0"), None)
        .unwrap();
    let limits = ListLimits { procs: 8, infos: 4 };
    let decoded = Request::decode_measured(&form("6.1.0"), None, &bytes, limits).unwrap();
    let shared = Vec::new();
    assert_eq!(
        decoded.request,
        Request::Connect(request::Connect { shared, ..request })
    );
}

#[test]
fn an_array_without_a_type_is_one_code_since_6_1() {
    let untyped = DataArray::Untyped {
        data_type: DataType::UNDEF,
        len: 0,
    };
    let request = Request::Notify(request::Notify {
        infos: vec![Info::new("a", Value::DataArray(untyped))],
        ..Default::default()
    });
    for (version, array) in [
        ("4.2.2", &[0, 0][..]),
        ("5.0.11", &[0, 0]),
        ("6.1.0", &[0]),
        ("7.0.0rc1", &[0]),
    ] {
        let form = form(version);
        let bytes = request.encode(&form, None).unwrap();
        // The flags of the info, and the type of its value.
        let end = [&[0, 0x27][..], array].concat();
        assert!(bytes.ends_with(&end), "{version}: {bytes:?}");
        assert_eq!(
            Request::decode(&form, None, &bytes),
            Ok(request.clone()),
            "{version}"
        );
    }
}

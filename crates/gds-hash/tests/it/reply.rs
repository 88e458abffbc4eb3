// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the reply to a client contains the values of the job, and those of a real server's
//! reply.

mod property;
mod told;

use bfrops::{BufferKind, Layout, Module};
use gds_hash::{Codec, JobInfoReplies, Remote};
use pmix_types::{Info, QualifiedValue, Rank, Release, Text, Value, keys};

use self::told::{array, assert_answers, assert_complete, layout, register, take};

/// Returns the first message with this header in a captured connection.
fn captured(file: &str, header: &str) -> Vec<u8> {
    let path = format!("{}/../../testdata/wire/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let raw = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("RAW "));
    let mut payload = raw.filter_map(|line| line.split_once(' '));
    let (_, payload) = payload.rfind(|(h, _)| h.starts_with(header)).unwrap();
    let digits: Vec<u32> = payload.chars().map(|c| c.to_digit(16).unwrap()).collect();
    let bytes = digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]);
    bytes.map(|byte| u8::try_from(byte).unwrap()).collect()
}

#[test]
fn replies_contain_everything_of_a_real_server() {
    let proc = |rank: u32| {
        let rank = Info::new(keys::RANK, Value::Rank(Rank::new(rank)));
        array(keys::PROC_DATA, vec![rank, Info::new(keys::APPNUM, 0_u32)])
    };
    for file in ["client-4.2.2.hex", "client-5.0.11.hex"] {
        let real = take(layout(), &captured(file, "0000000000000065"));
        let univ = real.session.iter().find(|info| info.key == keys::UNIV_SIZE);
        let registered = [
            Info::new(keys::NODE_MAP, "vm"),
            Info::new(keys::PROC_MAP, "0,1"),
            Info::new(keys::JOBID, "1234"),
            Info::new(keys::UNIV_SIZE, univ.unwrap().value.clone()),
            proc(0),
            proc(1),
        ];
        let job = register(&registered);
        let ours = job
            .reply(&Codec::new(layout()), Release::V4_2_2, Remote::Whole)
            .unwrap();
        let ours = take(layout(), &ours);
        assert_eq!(ours.nspace, real.nspace);
        // The release of the server is not a value of the job.
        let real_job = real
            .job
            .iter()
            .filter(|(key, _)| key != keys::BFROPS_MODULE);
        for pair in real_job {
            assert!(ours.job.contains(pair), "{file} {pair:?} {:?}", ours.job);
        }
        let pairs = |infos: &[Info<'static>]| -> Vec<_> {
            let pairs = infos
                .iter()
                .map(|info| (info.key.clone(), info.value.clone()));
            pairs.collect()
        };
        assert_eq!(pairs(&ours.session), pairs(&real.session));
        assert_eq!(ours.nodes.len(), real.nodes.len());
        for (ours, real) in ours.nodes.iter().zip(&real.nodes) {
            for pair in pairs(real) {
                assert!(pairs(ours).contains(&pair), "{file} {pair:?}");
            }
        }
        assert!(ours.procs.keys().eq(real.procs.keys()));
        for (rank, values) in &real.procs {
            for pair in values {
                assert!(ours.procs[rank].contains(pair), "{file} {rank} {pair:?}");
            }
        }
    }
}

pub(crate) fn full() -> Vec<Info<'static>> {
    let mut speed = QualifiedValue::new(Info::new("speed", 100_u32));
    speed.qualify("unit", "gbps");
    let app = |number: u32, first: u32| {
        array(
            keys::APP_INFO_ARRAY,
            vec![
                Info::new(keys::APPNUM, number),
                Info::new(keys::APPLDR, Value::Rank(Rank::new(first))),
                Info::new(keys::APP_SIZE, 4_u32),
                Info::new(keys::WDIR, "/scratch/run"),
            ],
        )
    };
    vec![
        Info::new(keys::NODE_MAP, "n0.site,n1.site,n2.site"),
        Info::new(keys::PROC_MAP, "0-3;4-6;7"),
        Info::new(keys::NPROC_OFFSET, Value::Rank(Rank::new(100))),
        Info::new(keys::HOSTNAME_KEEP_FQDN, false),
        Info::new("site.note", "one"),
        speed.into_info(),
        app(0, 0),
        app(1, 4),
        array(
            keys::SESSION_INFO_ARRAY,
            vec![
                Info::new(keys::SESSION_ID, 9_u32),
                Info::new(keys::UNIV_SIZE, 64_u32),
            ],
        ),
        array(
            keys::NODE_INFO_ARRAY,
            vec![
                Info::new(keys::HOSTNAME, "n1.site"),
                Info::new(keys::HOSTNAME_ALIASES, "one,eins"),
                Info::new(keys::NODE_SIZE, 16_u32),
            ],
        ),
        array(
            keys::PROC_DATA,
            vec![
                Info::new(keys::RANK, Value::Rank(Rank::new(5))),
                Info::new(keys::LOCAL_RANK, Value::Uint16(9)),
                Info::new("app.color", "red"),
            ],
        ),
        array(
            keys::PROC_DATA,
            vec![
                Info::new(keys::RANK, Value::Rank(Rank::new(20))),
                Info::new("app.color", "blue"),
            ],
        ),
    ]
}

#[test]
fn a_reply_has_the_values_of_the_job() {
    let job = register(&full());
    for layout in [
        layout(),
        layout().with_buffer(BufferKind::Described),
        Layout::new(Module::V61),
    ] {
        let reply = job
            .reply(&Codec::new(layout), Release::V5_0_11, Remote::Whole)
            .unwrap();
        let told = take(layout, &reply);
        assert_answers(&job, &told);
        assert_complete(&job, &told, 21);
        assert_eq!(told.nodes.len(), 3);
        assert_eq!(told.apps.len(), 2);
        assert_eq!(told.session[0], Info::new(keys::SESSION_ID, 9_u32));
        assert_eq!(told.procs.len(), 9);
        assert!(told.job.iter().any(|(key, _)| key == keys::QUALIFIED_VALUE));
    }
}

#[test]
fn a_4_2_client_is_sent_no_unknown_keys() {
    let unknown = "pmix.of.another.time";
    let mut infos = full();
    infos.insert(0, Info::new(unknown, 1_u32));
    let job = register(&infos);
    for (release, expected) in [(Release::V4_2_2, false), (Release::V5_0_11, true)] {
        let told = take(
            layout(),
            &job.reply(&Codec::new(layout()), release, Remote::Whole)
                .unwrap(),
        );
        assert_eq!(told.job.iter().any(|(key, _)| key == unknown), expected);
        assert!(told.job.iter().any(|(key, _)| key == "site.note"));
    }
}

#[test]
fn omits_only_values_that_a_client_cannot_unpack() {
    let regex2 = Value::Regex2(Box::new(pmix_types::WireRegex2 {
        kind: Some(Text::from("raw")),
        bytes: (&b"n1"[..]).into(),
    }));
    let mut infos = full();
    infos.push(Info::new("site.regex", regex2.clone()));
    infos.push(array(
        keys::NODE_INFO_ARRAY,
        vec![
            Info::new(keys::HOSTNAME, "n0.site"),
            Info::new("site.regex", regex2),
        ],
    ));
    let job = register(&infos);
    for (module, expected) in [(Module::V41, 0), (Module::V61, 2)] {
        let layout = Layout::new(module);
        let reply = job
            .reply(&Codec::new(layout), Release::Master, Remote::Whole)
            .unwrap();
        let told = take(layout, &reply);
        assert_eq!(told.nodes.len(), 3);
        let of_node = told.nodes[0].iter().filter(|info| info.key == "site.regex");
        let of_job = told.job.iter().filter(|(key, _)| key == "site.regex");
        assert_eq!(of_node.count() + of_job.count(), expected, "{module}");
        assert_complete(&job, &told, 21);
    }
}

#[test]
fn a_node_named_twice_is_sent_once() {
    let infos = [
        Info::new(keys::NODE_MAP, "a,b,a"),
        Info::new(keys::PROC_MAP, "0;1;2"),
    ];
    let job = register(&infos);
    let told = take(
        layout(),
        &job.reply(&Codec::new(layout()), Release::V4_2_2, Remote::Whole)
            .unwrap(),
    );
    assert_eq!(told.nodes.len(), 2);
    assert_eq!(told.procs.len(), 3);
    assert_answers(&job, &told);
}

#[test]
fn a_job_without_data_is_sent_as_its_name() {
    let job = register(&[]);
    let reply = job
        .reply(&Codec::new(layout()), Release::V4_2_2, Remote::Whole)
        .unwrap();
    assert_eq!(reply, b"\x02\x0aJOB1\0");
}

#[test]
fn clients_of_one_kind_share_a_reply() {
    let job = register(&full());
    let replies = JobInfoReplies::default();
    let of = |layout, release, remote| replies.get(&job, &Codec::new(layout), release, remote);
    let get = |layout, release| of(layout, release, Remote::Whole).unwrap();
    let first = get(layout(), Release::V4_2_2);
    assert!(std::sync::Arc::ptr_eq(
        &first,
        &get(layout(), Release::V4_2_2)
    ));
    let described = get(layout().with_buffer(BufferKind::Described), Release::V4_2_2);
    assert_ne!(first, described);
    let of_larger = of(layout(), Release::V4_2_2, Remote::Places).unwrap();
    assert_ne!(first, of_larger);
    replies.clear();
    let again = get(layout(), Release::V4_2_2);
    assert!(!std::sync::Arc::ptr_eq(&first, &again));
    assert_eq!(first, again);
}

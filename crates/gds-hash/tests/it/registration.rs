// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of valid and invalid registrations.

use gds_hash::{Error, Job, LocalNode, Registration, Request};
use pmix_map::{Limits, NodeList, ProcMap};
use pmix_types::{DataArray, Info, QualifiedValue, Rank, Status, Value, keys};
use preg_core::Params;

const JOB: Rank = Rank::WILDCARD;

fn register(infos: &[Info<'_>]) -> Result<Job, Error> {
    let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
    Job::register(&preg, &LocalNode::new("n2.site.org"), "job@1", infos)
}

fn maps(nodes: &'static str, procs: &'static str) -> Vec<Info<'static>> {
    vec![
        Info::new(keys::NODE_MAP, nodes),
        Info::new(keys::PROC_MAP, procs),
    ]
}

fn array(key: &'static str, infos: Vec<Info<'static>>) -> Info<'static> {
    Info::new(key, Value::DataArray(DataArray::Info(infos)))
}

fn proc(rank: u32, more: Vec<Info<'static>>) -> Info<'static> {
    let rank = Info::new(keys::RANK, Rank::new(rank));
    array(keys::PROC_INFO_ARRAY, [vec![rank], more].concat())
}

#[track_caller]
fn ask(job: &Job, rank: Rank, key: &str, qualifiers: &[Info<'_>]) -> Option<Value<'static>> {
    match job.get(&Request::new(rank, key).with(qualifiers)) {
        Ok(value) => Some(value.into_owned()),
        Err(error) => {
            assert_eq!(error.status(), Status::ERR_NOT_FOUND, "{error}");
            None
        }
    }
}

#[track_caller]
fn refused(infos: &[Info<'_>]) -> String {
    register(infos).unwrap_err().to_string()
}

#[test]
fn without_data_only_the_name_is_known() {
    let mut infos = maps("a,b", "0;1");
    infos.push(Info::new(keys::REGISTER_NODATA, true));
    let job = register(&infos).unwrap();
    assert_eq!(ask(&job, JOB, keys::JOB_SIZE, &[]), None);
    infos[2] = Info::new(keys::REGISTER_NODATA, false);
    let job = register(&infos).unwrap();
    assert_eq!(ask(&job, JOB, keys::JOB_SIZE, &[]), Some(Value::Uint32(2)));
}

#[test]
fn removes_domains_only_if_the_host_requests_it() {
    let mut infos = maps("n1.site.org,n2.site.org,10.0.0.7", "0;1;2");
    infos.push(proc(2, vec![Info::new(keys::HOSTNAME, "10.0.0.7")]));
    infos.push(array(
        keys::NODE_INFO_ARRAY,
        vec![
            Info::new(keys::HOSTNAME, "n1.site.org"),
            Info::new(keys::NODE_SIZE, 7_u32),
        ],
    ));
    let full = register(&infos).unwrap();
    let name = |job: &Job, rank| ask(job, Rank::new(rank), keys::HOSTNAME, &[]);
    assert_eq!(name(&full, 0), Some("n1.site.org".into()));
    let by = |job: &Job, name: &'static str, key| {
        let qualifiers = [
            Info::new(keys::NODE_INFO, true),
            Info::new(keys::HOSTNAME, name),
        ];
        ask(job, JOB, key, &qualifiers)
    };
    assert_eq!(by(&full, "n1", keys::LOCAL_PEERS), None);

    infos.push(Info::new(keys::HOSTNAME_KEEP_FQDN, false));
    let short = register(&infos).unwrap();
    assert_eq!(name(&short, 0), Some("n1".into()));
    assert_eq!(name(&short, 2), Some("10.0.0.7".into()));
    let list = ask(&short, JOB, keys::NODE_LIST, &[]);
    assert_eq!(list, Some("n1,n2,10.0.0.7".into()));
    for asked in ["n1", "n1.site.org"] {
        assert_eq!(by(&short, asked, keys::LOCAL_PEERS), Some("0".into()));
        assert_eq!(by(&short, asked, keys::NODE_SIZE), Some(Value::Uint32(7)));
    }
    // The operating system determines the name of this server's node.
    assert_eq!(ask(&short, JOB, keys::LOCAL_PEERS, &[]), Some("1".into()));
    assert_eq!(ask(&short, JOB, keys::NSPACE, &[]), Some("job@1".into()));
}

#[test]
fn rejects_duplicate_ranks() {
    let entry = "entry [1] pmix.pmap: rank 1 occurs twice in the map";
    assert_eq!(refused(&maps("a,b", "0,1;1")), entry);
    let infos = [
        proc(3, vec![]),
        array(keys::JOB_INFO_ARRAY, vec![proc(4, vec![]), proc(3, vec![])]),
    ];
    assert_eq!(
        refused(&infos),
        "entry [1] pmix.job.arr [1] pmix.pdata: rank 3 is described twice"
    );
}

#[test]
fn maps_of_different_length_name_the_process_map() {
    let job = array(keys::JOB_INFO_ARRAY, maps("a,b,c", "0;1"));
    assert_eq!(
        refused(&[Info::new("x", 1_u8), job]),
        "entry [1] pmix.job.arr [1] pmix.pmap: the node map has 3 nodes, the process map 2"
    );
    let infos = [
        Info::new(keys::ANL_MAP, "(vector,(1,2,4))"),
        Info::new(keys::NODE_MAP, "a,b"),
    ];
    assert_eq!(
        refused(&infos),
        "entry [0] pmix.anlmap: the map names node 2, and there are 2"
    );
    let infos = [Info::new(keys::ANL_MAP, "(vector,(1,2)")];
    assert!(refused(&infos).starts_with("entry [0] pmix.anlmap: expected `,` at byte"));
}

/// MPICH, the origin of the notation, repeats the map until every process has a node.
#[test]
fn a_pmi2_map_shorter_than_the_job_repeats() {
    let size = Info::new(keys::JOB_SIZE, 5_u32);
    let map = Info::new(keys::ANL_MAP, "(vector,(0,2,1))");
    let nodes = Info::new(keys::NODE_MAP, "a,b");
    for infos in [
        vec![size.clone(), map.clone(), nodes.clone()],
        vec![
            nodes.clone(),
            array(keys::JOB_INFO_ARRAY, vec![map.clone()]),
            size,
        ],
    ] {
        let job = register(&infos).unwrap();
        let peers = [
            Info::new(keys::NODE_INFO, true),
            Info::new(keys::HOSTNAME, "a"),
        ];
        assert_eq!(
            ask(&job, JOB, keys::LOCAL_PEERS, &peers),
            Some("0,2,4".into())
        );
        assert_eq!(
            ask(&job, Rank::new(3), keys::HOSTNAME, &[]),
            Some("b".into())
        );
        let told = ask(&job, JOB, keys::ANL_MAP, &[]);
        assert_eq!(told, Some("(vector,(0,2,1))".into()));
    }
    let job = register(&[map, nodes]).unwrap();
    assert_eq!(ask(&job, JOB, keys::JOB_SIZE, &[]), Some(Value::Uint32(2)));
}

#[test]
fn rejects_unknown_arrays_and_accepts_other_keys() {
    let inside = vec![Info::new("a", 1_u8)];
    assert_eq!(
        refused(&[array("pmix.rack.arr", inside.clone())]),
        "entry [0] pmix.rack.arr: an array of infos under a key that is not known"
    );
    let job = register(&[array("site.rack.arr", inside.clone())]).unwrap();
    let found = ask(&job, JOB, "site.rack.arr", &[]);
    assert_eq!(found, Some(Value::DataArray(DataArray::Info(inside))));
}

#[test]
fn a_session_may_describe_other_jobs() {
    let about = |nspace: &'static str, size: u32| {
        let infos = vec![
            Info::new(keys::NSPACE, nspace),
            Info::new(keys::JOB_SIZE, size),
        ];
        array(keys::JOB_INFO_ARRAY, infos)
    };
    let session = array(
        keys::SESSION_INFO_ARRAY,
        vec![
            Info::new(keys::SESSION_ID, 5_u32),
            about("other", 7),
            about("job@1", 3),
            Info::new(keys::NODE_MAP, "a,b,c"),
        ],
    );
    let job = register(&[session]).unwrap();
    assert_eq!(ask(&job, JOB, keys::JOB_SIZE, &[]), Some(Value::Uint32(3)));
    let of_session = [Info::new(keys::SESSION_INFO, true)];
    let nodes = ask(&job, JOB, keys::NUM_NODES, &of_session);
    assert_eq!(nodes, Some(Value::Uint32(3)));
    assert!(refused(&[about("other", 7)]).contains("it is about other"));
}

#[test]
fn an_application_has_its_own_nodes_or_those_of_its_job() {
    let app = |number: u32, more: Vec<Info<'static>>| {
        let number = Info::new(keys::APPNUM, number);
        array(keys::APP_INFO_ARRAY, [vec![number], more].concat())
    };
    let mut infos = maps("a,b,c", "0,1;2,5;3,4");
    infos.push(app(0, maps("a,b", "0,1;2")));
    infos.push(app(1, vec![Info::new(keys::PROC_MAP, ";5;3,4")]));
    let job = register(&infos).unwrap();
    let of_app = |number: u32| {
        let number = Info::new(keys::APPNUM, number);
        [Info::new(keys::APP_INFO, true), number]
    };
    let number = |value| Some(Value::Uint32(value));
    assert_eq!(ask(&job, JOB, keys::APP_SIZE, &of_app(1)), number(3));
    assert_eq!(ask(&job, JOB, keys::NUM_NODES, &of_app(0)), number(2));
    let leader = ask(&job, JOB, keys::APPLDR, &of_app(1));
    assert_eq!(leader, Some(Value::Rank(Rank::new(3))));
    for (rank, app, place) in [(1, 0, 1), (2, 0, 2), (5, 1, 2), (3, 1, 0)] {
        assert_eq!(ask(&job, Rank::new(rank), keys::APPNUM, &[]), number(app));
        let found = ask(&job, Rank::new(rank), keys::APP_RANK, &[]);
        assert_eq!(found, Some(Value::Rank(Rank::new(place))), "{rank}");
    }
    let [yes, number] = of_app(1);
    let on_c = [yes, number, Info::new(keys::HOSTNAME, "c")];
    assert_eq!(ask(&job, JOB, keys::LOCAL_PEERS, &on_c), Some("3,4".into()));
}

#[test]
fn an_update_keeps_what_it_does_not_state() {
    let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
    let mut infos = maps("n1.x,n2.x", "0;1");
    infos.push(Info::new(keys::HOSTNAME_KEEP_FQDN, false));
    infos.push(array(
        keys::SESSION_INFO_ARRAY,
        vec![
            Info::new(keys::SESSION_ID, 5_u32),
            Info::new(keys::NODE_MAP, "n1.x,n2.x,n3.x"),
        ],
    ));
    let job = register(&infos).unwrap();
    let job = job.updated(&preg, &maps("n3.x", "0,1")).unwrap();
    assert_eq!(
        ask(&job, Rank::new(1), keys::HOSTNAME, &[]),
        Some("n3".into())
    );
    let of_session = [Info::new(keys::SESSION_INFO, true)];
    let nodes = ask(&job, JOB, keys::NODE_LIST, &of_session);
    assert_eq!(nodes, Some("n1,n2,n3".into()));
    let fewer = array(
        keys::SESSION_INFO_ARRAY,
        vec![
            Info::new(keys::SESSION_ID, 5_u32),
            Info::new(keys::NODE_MAP, "n9.x"),
        ],
    );
    let job = job.updated(&preg, &[fewer]).unwrap();
    assert_eq!(
        ask(&job, JOB, keys::NODE_LIST, &of_session),
        Some("n9".into())
    );
}

#[test]
fn allocated_nodes_default_to_those_of_the_session() {
    let session = |more| {
        array(
            keys::SESSION_INFO_ARRAY,
            [vec![Info::new(keys::SESSION_ID, 5_u32)], more].concat(),
        )
    };
    let nodes = |text: &'static str| Info::new(keys::ALLOCATED_NODELIST, text);
    let job = register(&[session(vec![nodes("a,b,c")])]).unwrap();
    let all = Some("a,b,c".into());
    let of_session = [Info::new(keys::SESSION_INFO, true)];
    for rank in [JOB, Rank::new(1)] {
        assert_eq!(ask(&job, rank, keys::ALLOCATED_NODELIST, &[]), all);
        assert_eq!(ask(&job, rank, keys::ALLOCATED_NODELIST, &of_session), all);
    }
    for [yes, no] in [
        ["pmix.job.info", "pmix.ssn.info"],
        ["pmix.node.info", "pmix.app.info"],
    ] {
        let of_another = [Info::new(yes, true), Info::new(no, false)];
        assert_eq!(ask(&job, JOB, keys::ALLOCATED_NODELIST, &of_another), None);
    }
    let other = [Info::new(keys::SESSION_ID, 6_u32)];
    assert_eq!(ask(&job, JOB, keys::ALLOCATED_NODELIST, &other), None);
    let answers = job.answers().answers;
    let known = answers
        .iter()
        .find(|known| known.kval.key.is(keys::ALLOCATED_NODELIST));
    assert!(known.is_some_and(|known| known.is_for_all), "{known:?}");
    // A list that is registered for the job takes precedence over that of the session.
    let job = register(&[session(vec![nodes("a,b,c")]), nodes("a")]).unwrap();
    assert_eq!(
        ask(&job, JOB, keys::ALLOCATED_NODELIST, &[]),
        Some("a".into())
    );
    assert_eq!(ask(&job, JOB, keys::ALLOCATED_NODELIST, &of_session), all);
}

#[test]
fn a_session_array_names_its_session() {
    let values = vec![Info::new(keys::UNIV_SIZE, 9_u32)];
    let nameless = array(keys::SESSION_INFO_ARRAY, values);
    assert!(refused(&[nameless]).contains("a session array without pmix.session.id"));
}

/// Returns a speed for each unit.
fn speeds(of: u32) -> Vec<Info<'static>> {
    let speed = |(unit, speed): (&'static str, u32)| {
        let mut value = QualifiedValue::new(Info::new("speed", speed));
        value.qualify("unit", unit);
        value.into_info()
    };
    [("kb", of), ("mb", of + 1)].map(speed).to_vec()
}

#[test]
fn qualifiers_distinguish_values_at_every_level() {
    let about = |key, who: Info<'static>, of| array(key, [vec![who], speeds(of)].concat());
    let node = || Info::new(keys::HOSTNAME, "b");
    let infos = |of: u32| {
        let session = Info::new(keys::SESSION_ID, 5_u32);
        let described = [
            about(keys::SESSION_INFO_ARRAY, session, of),
            about(
                keys::APP_INFO_ARRAY,
                Info::new(keys::APPNUM, 0_u32),
                of + 10,
            ),
            about(keys::NODE_INFO_ARRAY, node(), of + 20),
            about(
                keys::PROC_INFO_ARRAY,
                Info::new(keys::RANK, Rank::new(1)),
                of + 30,
            ),
        ];
        [speeds(of + 40), described.to_vec()].concat()
    };
    let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
    let job = register(&[maps("a,b", "0;1"), infos(0)].concat()).unwrap();
    let flag = |key: &'static str| vec![Info::new(key, true)];
    let levels = [
        (JOB, flag(keys::SESSION_INFO), 0),
        (JOB, flag(keys::APP_INFO), 10),
        (JOB, [flag(keys::NODE_INFO), vec![node()]].concat(), 20),
        (Rank::new(1), Vec::new(), 30),
        (JOB, Vec::new(), 40),
    ];
    let updated = job.updated(&preg, &infos(500)).unwrap();
    for (rank, how, of) in levels {
        let speed = |job: &Job, unit: Option<&'static str>| {
            let unit = unit.map(|unit| Info::new("unit", unit).qualifier());
            ask(
                job,
                rank,
                "speed",
                &[how.clone(), unit.into_iter().collect()].concat(),
            )
        };
        for (job, of) in [(&job, of), (&updated, of + 500)] {
            assert_eq!(speed(job, Some("kb")), Some(Value::Uint32(of)));
            assert_eq!(speed(job, Some("mb")), Some(Value::Uint32(of + 1)));
            assert_eq!(speed(job, Some("gb")), None);
            assert_eq!(speed(job, None), None);
        }
    }
    let all = updated.known(&Request::all(Rank::new(1))).unwrap();
    let qualified = all.iter().filter(|info| info.key.is(keys::QUALIFIED_VALUE));
    assert_eq!(qualified.count(), 2, "an update replaces them");
    let broken = vec![
        Info::new(keys::RANK, Rank::new(1)),
        Info::new(keys::QUALIFIED_VALUE, 1_u32),
    ];
    assert!(refused(&[array(keys::PROC_INFO_ARRAY, broken)]).contains("qualified"));
}

fn folded(nodes: &str, procs: &str) -> (NodeList, ProcMap) {
    let limits = Limits::default();
    let nodes = NodeList::parse_text(nodes.as_bytes(), &limits).unwrap();
    let procs = ProcMap::parse_text(procs.as_bytes(), &limits).unwrap();
    (nodes, procs)
}

#[test]
fn folded_maps_give_the_values_of_their_text() {
    let size = [Info::new(keys::UNIV_SIZE, 9_u32)];
    let (nodes, procs) = folded("n1,n2,n3", "0,3;1,4;2,5");
    let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
    let host = LocalNode::new("n2.site.org");
    let registration = Registration::new(&size).with_maps(nodes, procs);
    let job = Job::register(&preg, &host, "job@1", registration).unwrap();
    let text = register(&[maps("n1,n2,n3", "0,3;1,4;2,5"), size.to_vec()].concat()).unwrap();
    for rank in [JOB, Rank::new(0), Rank::new(4)] {
        for key in [
            keys::JOB_SIZE,
            keys::NODE_LIST,
            keys::PROC_MAP_RAW,
            keys::UNIV_SIZE,
            keys::HOSTNAME,
            keys::LOCAL_RANK,
            keys::LOCAL_PEERS,
        ] {
            assert_eq!(
                ask(&job, rank, key, &[]),
                ask(&text, rank, key, &[]),
                "{key}"
            );
        }
    }

    // An update may replace the maps. Without maps it keeps them.
    let (nodes, procs) = folded("n7", "0,1");
    let maps = Registration::default().with_maps(nodes, procs);
    let job = job.updated(&preg, maps).unwrap();
    assert_eq!(ask(&job, JOB, keys::JOB_SIZE, &[]), Some(Value::Uint32(2)));
    let job = job.updated(&preg, &size).unwrap();
    assert_eq!(ask(&job, JOB, keys::JOB_SIZE, &[]), Some(Value::Uint32(2)));
    let no_data = [Info::new(keys::REGISTER_NODATA, true)];
    let (nodes, procs) = folded("n7", "0,1");
    let registration = Registration::new(&no_data).with_maps(nodes, procs);
    let job = Job::register(&preg, &host, "job@1", registration).unwrap();
    assert_eq!(ask(&job, JOB, keys::JOB_SIZE, &[]), None);
}

#[test]
fn folded_maps_are_checked_like_their_text() {
    let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
    let refused = |nodes, procs, infos: &[Info<'_>]| {
        let (nodes, procs) = folded(nodes, procs);
        let registration = Registration::from(infos).with_maps(nodes, procs);
        let job = Job::register(&preg, &LocalNode::new("n2"), "job@1", registration);
        job.unwrap_err().to_string()
    };
    assert_eq!(
        refused("a,b,c", "0;1", &[]),
        "the node map has 3 nodes, the process map 2"
    );
    assert_eq!(
        refused("n[1-2]", "0;1", &[]),
        "the node map has 1 nodes, the process map 2; a list names every node: n[1-2] is one \
         node, not a bracket list"
    );
    assert_eq!(
        refused("a,b", "0,1;1", &[]),
        "rank 1 occurs twice in the map"
    );
    assert_eq!(
        refused("a,b", "0;1", &maps("a,b", "0;1")),
        "entry [0] pmix.nmap: the map is given twice"
    );
}

#[test]
fn contradictions_are_found_by_name() {
    let found = |infos: &[Info<'static>]| -> Vec<String> {
        let job = register(infos).unwrap();
        job.contradictions()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    for (nodes, procs) in [
        ("n00", "0-3"),
        ("n00,n01", "0,2;1"),
        ("a,n1,n2,b", "0;1;2;3"),
    ] {
        assert_eq!(found(&maps(nodes, procs)), [""; 0], "{nodes}");
    }
    let with = |mut infos: Vec<Info<'static>>, size: Value<'static>| {
        infos.push(Info::new(keys::JOB_SIZE, size));
        infos
    };
    assert_eq!(found(&with(maps("n00", "0-3"), Value::Uint64(4))), [""; 0]);
    let nine = found(&with(maps("n00", "0-3"), Value::Uint32(9)));
    assert!(
        nine.len() == 1 && nine[0].contains("pmix.job.size says 9"),
        "{nine:?}"
    );
    let text = found(&with(Vec::new(), Value::from("4")));
    assert!(
        text.len() == 1 && text[0].contains("PMIX_STRING"),
        "{text:?}"
    );
    let both = found(&with(maps("n1,n2,n1", "0;1;2"), Value::Uint32(2)));
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(
        both[1].contains("node n1 twice, as number 0 and 2"),
        "{both:?}"
    );
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `pmix get` prints the results of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::command::{Outcome, pmix, pmix_with};

const MAPS: [&str; 5] = ["get", "--nodes", "n[1-3]", "--procs", "0-1;2,4;3"];

fn ask(more: &[&str]) -> Outcome {
    pmix(&[&MAPS[..], more].concat())
}

/// Returns the replies to requests, one per line.
fn replay(args: &[&str], requests: &[Json]) -> Vec<Json> {
    let lines: Vec<String> = requests.iter().map(Json::to_string).collect();
    let outcome = pmix_with(
        &[&["get", "--jsonl"], args].concat(),
        lines.join("\n").as_bytes(),
    );
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = outcome.text();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an answer is JSON"))
        .collect()
}

fn job(infos: Json) -> Json {
    json!({ "nspace": "j@1", "nlocalprocs": 1, "info": infos })
}

#[test]
fn one_key_is_answered_bare_and_several_with_their_names() {
    assert_eq!(ask(&["JOB_SIZE"]).text(), "5");
    assert_eq!(ask(&["pmix.nlist"]).text(), "n1,n2,n3");
    assert_eq!(
        ask(&["PMIX_JOB_SIZE", "NUM_NODES"]).text(),
        "PMIX_JOB_SIZE\t5\nPMIX_NUM_NODES\t3"
    );
    assert_eq!(ask(&["--rank", "4", "HOSTNAME"]).text(), "n2");
    assert_eq!(ask(&["--rank", "4", "LOCAL_RANK"]).text(), "1");
    assert_eq!(
        ask(&["--rank", "4", "LOCAL_PROCS", "--nspace", "x"]).text(),
        "x:2,x:4"
    );
    assert_eq!(ask(&["--host", "n2", "LOCAL_PEERS"]).text(), "2,4");
}

#[test]
fn a_node_is_named_or_numbered() {
    assert_eq!(ask(&["--node", "n3", "LOCAL_PEERS"]).text(), "3");
    assert_eq!(ask(&["--node", "1", "LOCAL_PEERS"]).text(), "2,4");
    assert_eq!(
        ask(&["--node", "1", "HOSTNAME", "NODEID"]).text(),
        "PMIX_HOSTNAME\tn2\nPMIX_NODEID\t1"
    );
    let numbers = ["get", "--nodes", "7,0", "--procs", "0;1", "LOCAL_PEERS"];
    let named = pmix(&[&numbers[..], &["--node", "0"]].concat());
    assert_eq!(named.text(), "1", "a name goes before a number");
}

#[test]
fn unknown_keys_are_a_negative_answer() {
    let outcome = ask(&["JOB_SIZE", "no.such.key"]);
    assert_eq!(outcome.code, 1);
    assert_eq!(outcome.text(), "PMIX_JOB_SIZE\t5");
    assert!(
        outcome
            .stderr
            .contains("no.such.key is unknown at job level of job")
    );
    let outcome = ask(&["--rank", "9", "HOSTNAME"]);
    let said = "error: the job has no rank 9: it has 5\n";
    assert!(outcome.stderr.starts_with(said), "{}", outcome.stderr);
    assert_eq!(outcome.code, 1);
    let outcome = ask(&["--json", "no.such.key"]);
    assert_eq!(
        (outcome.code, outcome.json_error()["status"].as_i64()),
        (1, Some(-46))
    );
    let outcome = pmix(&["get", "--nodes", "a,b", "--procs", "0", "JOB_SIZE"]);
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains("2 nodes"), "{}", outcome.stderr);
    assert_eq!(pmix(&["get", "JOB_SIZE"]).code, 2);
    assert_eq!(ask(&[]).code, 2);
}

#[test]
fn everything_is_listed_level_by_level() {
    let all = ask(&["--all"]).text();
    let subjects: Vec<_> = all.lines().filter_map(|l| l.split('\t').next()).collect();
    for subject in ["job", "node n1", "node n3", "rank 0", "rank 4"] {
        assert!(subjects.contains(&subject), "{subject} in {all}");
    }
    assert!(all.contains("node n2\tPMIX_LOCAL_PEERS\t2,4\n"), "{all}");
    assert_eq!(
        ask(&["--all", "--rank", "4"]).text(),
        "PMIX_HOSTNAME\tn2\nPMIX_NODEID\t1\nPMIX_LOCAL_RANK\t1\nPMIX_NODE_RANK\t1"
    );
    let json = ask(&["--all", "--rank", "4", "--json"]).text();
    let first: Json = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["rank"], 4);
    assert_eq!(
        first["value"],
        json!({"data": "n2", "type": "PMIX_STRING", "type_id": 3})
    );
}

#[test]
fn a_file_has_jobs_line_by_line_or_one_over_many() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("jobs.json");
    let named = |nspace: &str, size: &str| {
        let info = json!([{"key": "pmix.job.size", "type": "u32", "value": size}]);
        json!({"job": nspace, "registered": {"nspace": nspace, "info": info}})
    };
    let path_text = path.to_str().expect("a name").to_owned();
    let ask = |more: &[&str]| pmix(&[&["get", "--job", &path_text, "JOB_SIZE"], more].concat());
    std::fs::write(
        &path,
        format!("{}\n\n{}\n", named("a", "4"), named("b", "5")),
    )
    .unwrap();
    assert_eq!(ask(&[]).text(), "a\t4\nb\t5");
    assert_eq!(ask(&["--nspace", "b"]).text(), "5");
    assert_eq!(ask(&["--nspace", "c"]).code, 3);
    let pretty = serde_json::to_string_pretty(&named("a", "4")["registered"]).unwrap();
    std::fs::write(&path, pretty).unwrap();
    assert_eq!(ask(&[]).text(), "4");
    std::fs::write(&path, "{\"nspace\":\"a\",\n").unwrap();
    let broken = ask(&[]);
    assert_eq!(broken.code, 3);
    assert!(
        broken.stderr.contains("not a valid job"),
        "{}",
        broken.stderr
    );
}

#[test]
fn every_type_of_a_registration_is_read() {
    let info = |kind: &str, value: Json| json!({"key": "k", "type": kind, "value": value});
    let value =
        |data: Json, kind: &str, id: u32| json!({"data": data, "type": kind, "type_id": id});
    let cases = [
        (info("str", json!("7")), value(json!("7"), "PMIX_STRING", 3)),
        (info("u16", json!("7")), value(json!(7), "PMIX_UINT16", 13)),
        (info("u32", json!(7)), value(json!(7), "PMIX_UINT32", 14)),
        (
            info("u64", json!("18446744073709551615")),
            value(json!(u64::MAX), "PMIX_UINT64", 15),
        ),
        (info("i32", json!("-7")), value(json!(-7), "PMIX_INT32", 9)),
        (info("bool", json!("1")), value(json!(true), "PMIX_BOOL", 1)),
        (info("bool", json!(0)), value(json!(false), "PMIX_BOOL", 1)),
        (
            info("rank", json!("3")),
            value(json!(3), "PMIX_PROC_RANK", 40),
        ),
        (info("PMIX_SIZE", json!(9)), value(json!(9), "PMIX_SIZE", 4)),
        (
            info("double", json!("0.5")),
            value(json!("0.5"), "PMIX_DOUBLE", 17),
        ),
        (
            info("bo", json!({"hex": "00ff"})),
            value(json!({"hex": "00ff"}), "PMIX_BYTE_OBJECT", 27),
        ),
        (
            info("proc", json!({"nspace": "x", "rank": 1})),
            value(json!({"nspace": "x", "rank": 1}), "PMIX_PROC", 22),
        ),
        (
            info(
                "data_array",
                json!({"array_of": "PMIX_UINT32", "items": [1, 2]}),
            ),
            value(
                json!({"array_of": "PMIX_UINT32", "items": [1, 2]}),
                "PMIX_DATA_ARRAY",
                39,
            ),
        ),
        (
            info(
                "info_array",
                json!([{"key": "a", "type": "u16", "value": "1"}]),
            ),
            value(
                json!({"array_of": "PMIX_INFO", "items": [
                    {"key": "a", "value": {"data": 1, "type": "PMIX_UINT16", "type_id": 13}},
                ]}),
                "PMIX_DATA_ARRAY",
                39,
            ),
        ),
    ];
    let requests = cases
        .clone()
        .map(|(info, _)| json!({"job": job(json!([info])), "get": {"key": "k"}}));
    let answers = replay(&[], &requests);
    assert_eq!(answers.len(), cases.len());
    for ((_, expected), answer) in cases.into_iter().zip(answers) {
        assert_eq!(answer, json!({"id": null, "status": 0, "value": expected}));
    }
}

#[test]
fn maps_come_in_every_form_and_this_host_by_its_name() {
    for form in ["str", "noderx", "rx2", "regex"] {
        let procs = if form == "noderx" { "procrx" } else { form };
        let nodes = if form == "regex" {
            "pmix[a[1:1-1]],THISHOST"
        } else {
            "a1,THISHOST"
        };
        let nodes = if form == "regex" {
            "raw:a1,THISHOST"
        } else {
            nodes
        };
        let map = if form == "regex" {
            "raw:0;1,2"
        } else {
            "0;1,2"
        };
        let job = job(json!([
            {"key": "pmix.nmap", "type": form, "value": nodes},
            {"key": "pmix.pmap", "type": procs, "value": map},
        ]));
        let proc = json!({"nspace": "j@1", "rank": 2});
        let wildcard = json!({"nspace": "j@1", "rank": 4_294_967_294_u32});
        let answers = replay(
            &[],
            &[
                json!({"id": 1, "job": job, "get": {"key": "PMIX_HOSTNAME", "proc": proc}}),
                json!({"id": "b", "job": job, "get": {"key": "pmix.lpeers", "proc": wildcard}}),
            ],
        );
        assert_eq!(answers[0]["id"], 1);
        assert_eq!(answers[0]["value"]["data"], "THISHOST", "{form}");
        assert_eq!(answers[1]["id"], "b");
        assert_eq!(answers[1]["value"]["data"], "1,2", "{form}");
    }
}

#[test]
fn a_replay_refers_to_jobs_by_name_and_survives_faults() {
    let jobs = job(json!([{"key": "k", "type": "u32", "value": "1"}]));
    let twice = job(json!([
        {"key": "pmix.nmap", "type": "str", "value": "a"},
        {"key": "pmix.nmap", "type": "str", "value": "b"},
    ]));
    let answers = replay(
        &[],
        &[
            json!({"job": "named", "registered": jobs}),
            json!({"job": "named", "get": {"key": "k", "proc": {"nspace": "j@1", "rank": "wildcard"}}}),
            json!({"job": "named", "get": {"key": "k", "proc": {"nspace": "other", "rank": 0}}}),
            json!({"job": "unknown", "get": {"key": "k"}}),
            json!({"id": 5, "job": twice, "get": {"key": "k"}}),
            json!({"job": "named", "get": {"key": null}}),
            json!([]),
            json!({"id": 8, "job": {"info": 3}, "get": {"key": "k"}}),
            json!({"id": 9, "job": job(json!([{"key": "k", "type": "u8", "value": 300}])), "get": {}}),
        ],
    );
    let statuses: Vec<_> = answers
        .iter()
        .map(|a| a["status"].as_i64().unwrap())
        .collect();
    assert_eq!(statuses, [0, 0, -46, -27, -46, -27, -27, -27, -27]);
    assert_eq!(answers[1]["value"]["data"], 1);
    assert_eq!(answers[4]["register_status"], -27);
    assert!(
        answers[4]["error"]
            .as_str()
            .unwrap()
            .contains("[1] pmix.nmap")
    );
    assert_eq!(
        (&answers[7]["id"], &answers[8]["id"]),
        (&json!(8), &json!(9))
    );
    assert!(
        answers[8]["error"]
            .as_str()
            .unwrap()
            .contains("300 does not fit")
    );
}

#[test]
fn qualifiers_of_a_replay_tell_the_values_of_a_key_apart() {
    let of_unit = |unit: &str, value: u32| {
        json!({"key": "pmix.qual.val", "type": "info_array", "value": [
            {"key": "limit", "type": "u32", "value": value},
            {"key": "unit", "type": "str", "value": unit, "flags": 8},
        ]})
    };
    let data = [
        json!({"key": "PMIX_RANK", "type": "rank", "value": 0}),
        of_unit("MB", 7),
        of_unit("GB", 8),
    ];
    let job = job(json!([
        {"key": "pmix.nmap", "type": "str", "value": "a"},
        {"key": "pmix.pmap", "type": "str", "value": "0"},
        {"key": "PMIX_PROC_DATA", "type": "info_array", "value": data},
    ]));
    let get = |qualifiers: Json| {
        let proc = json!({"nspace": "j@1", "rank": 0});
        json!({"job": job, "get": {"key": "limit", "proc": proc, "qualifiers": qualifiers}})
    };
    let unit = |unit: &str| json!([{"key": "unit", "type": "str", "value": unit}]);
    let optional = json!([{"key": "PMIX_OPTIONAL", "type": "bool", "value": true}, unit("MB")[0]]);
    let answers = replay(
        &[],
        &[
            get(unit("MB")),
            get(unit("GB")),
            get(unit("TB")),
            get(optional),
        ],
    );
    let found: Vec<_> = answers
        .iter()
        .map(|a| (&a["status"], &a["value"]["data"]))
        .collect();
    let (ok, none) = (json!(0), json!(-46));
    assert_eq!(
        found,
        [
            (&ok, &json!(7)),
            (&ok, &json!(8)),
            (&none, &Json::Null),
            (&ok, &json!(7))
        ]
    );
}

// Every get of `testdata/gds` gives the result of at least one real library, or the result in `deviations.toml`, which
// states the reason.

#[derive(Deserialize)]
struct Deviations {
    deviation: Vec<Deviation>,
}

#[derive(Deserialize)]
struct Deviation {
    reason: String,
    gets: Vec<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/gds")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect("the vectors are there")
}

fn lines(text: &str) -> Vec<Json> {
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("every line is JSON")
}

/// Formats a get like `deviations.toml`, without the result.
fn name(record: &Json) -> String {
    let get = &record["get"];
    let rank = match get["proc"]["rank"].as_u64() {
        Some(4_294_967_294) => "*".to_owned(),
        Some(4_294_967_295) => "?".to_owned(),
        rank => rank.expect("a rank").to_string(),
    };
    // Some gets are about a job that was never registered.
    let rank = match get["proc"]["nspace"].as_str() {
        Some("nosuch-ns") => format!("nosuch-ns:{rank}"),
        _ => rank,
    };
    let qualifiers = get["qualifiers"].as_array().expect("a list");
    let text = |json: &Json| json.as_str().unwrap_or("None").to_owned();
    let qualifiers: Vec<_> = (qualifiers.iter())
        .map(|q| format!("{}={}", text(&q["key"]), text(&q["value"])))
        .collect();
    let named = format!("{} {} {rank} ", text(&record["job"]), text(&get["key"]));
    let named = named + &qualifiers.join(",");
    named.trim_end().to_owned()
}

/// Formats a result like `deviations.toml`.
fn shown(answer: &Json) -> String {
    match &answer["value"] {
        Json::Null => answer["status"].to_string(),
        value => value["data"].to_string(),
    }
}

/// Returns the reason and the result of every intended deviation.
fn deviations() -> BTreeMap<String, (String, String)> {
    let listed: Deviations = toml::from_str(&read("deviations.toml")).expect("valid TOML");
    let mut all = BTreeMap::new();
    for deviation in listed.deviation {
        for get in deviation.gets {
            let (name, answer) = get.split_once(": ").expect("a get and its answer");
            let known = (answer.to_owned(), deviation.reason.clone());
            let twice = all.insert(name.to_owned(), known);
            assert!(twice.is_none(), "{name} is listed twice");
        }
    }
    all
}

#[test]
fn every_get_is_answered_like_a_real_library_or_as_listed() {
    let gets = read("gets.jsonl");
    let path = folder().join("jobs.jsonl");
    let path = path.to_str().expect("a path");
    let outcome = pmix_with(&["get", "--jsonl", "--job", path], gets.as_bytes());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let (records, answers) = (lines(&gets), lines(&outcome.text()));
    assert_eq!(records.len(), answers.len());
    assert!(records.len() > 5_000, "{} records", records.len());
    let mut agreed = BTreeMap::new();
    for (record, answer) in records.iter().zip(&answers) {
        let alike = record["status"] == answer["status"] && record["value"] == answer["value"];
        let (agrees, _) = (agreed.entry(name(record))).or_insert_with(|| (false, shown(answer)));
        *agrees |= alike;
    }
    let deviations = deviations();
    let mut faults = BTreeSet::new();
    for (name, (agrees, answer)) in &agreed {
        match (agrees, deviations.get(name)) {
            (true, None) => {}
            (false, Some((expected, _))) if answer == expected => {}
            (false, Some((expected, reason))) => {
                faults.insert(format!("{name}: {answer}, not {expected} ({reason})"));
            }
            (false, None) => {
                faults.insert(format!("{name}: no implementation answers {answer}"));
            }
            (true, Some(_)) => {
                faults.insert(format!(
                    "{name}: {answer} is a library's answer, listed needlessly"
                ));
            }
        }
    }
    faults.extend(
        (deviations.keys())
            .filter(|name| !agreed.contains_key(*name))
            .map(|name| format!("{name}: no such get")),
    );
    let faults: Vec<_> = faults.into_iter().collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_job_is_refused_as_the_libraries_refuse_it() {
    let mut statuses = BTreeMap::new();
    for record in lines(&read("gets.jsonl")) {
        let job = record["job"].as_str().expect("a name").to_owned();
        statuses.insert(job, record["register_status"].as_i64().expect("a status"));
    }
    let requests: Vec<String> = lines(&read("jobs.jsonl"))
        .iter()
        .map(Json::to_string)
        .collect();
    let outcome = pmix_with(&["get", "--jsonl"], requests.join("\n").as_bytes());
    let answers = lines(&outcome.text());
    assert_eq!(answers.len(), statuses.len());
    for (request, answer) in requests.iter().zip(&answers) {
        let request: Json = serde_json::from_str(request).expect("JSON");
        let job = request["job"].as_str().expect("a name");
        // -157 is `PMIX_OPERATION_SUCCEEDED`.
        let expected = match (job, statuses[job]) {
            ("empty-node", _) | (_, -157) => 0,
            (_, status) => status,
        };
        assert_eq!(answer["status"], json!(expected), "{job}: {answer}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every get of `testdata/gds` gives the result of at least one real library, or the result in `deviations.toml`, which
//! states the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::command::pmix_with;
use serde::Deserialize;
use serde_json::{Value as Json, json};

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

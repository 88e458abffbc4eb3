// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix attr` and `pmix status`.

use crate::command::pmix;
use serde_json::{Value as Json, json};

/// Returns every line of the output as JSON.
fn lines(args: &[&str]) -> Vec<Json> {
    let outcome = pmix(args);
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    let text = outcome.text();
    let parse = |line: &str| serde_json::from_str(line).expect("a line is JSON");
    text.lines().map(parse).collect()
}

#[test]
fn a_status_is_found_by_number_and_by_every_spelling_of_its_name() {
    let asked = [
        "-27",
        "PMIX_ERR_BAD_PARAM",
        "ERR_BAD_PARAM",
        "err_bad_param",
        "PMIX_ERR_BAD_PARAM (-27)",
        "BAD_PAR",
    ];
    for what in asked {
        let answer = pmix(&["status", what, "--json"]).json();
        assert_eq!(answer["name"], "PMIX_ERR_BAD_PARAM", "{what}");
        assert_eq!(answer["number"], -27, "{what}");
        assert_eq!(answer["text"], "bad parameter", "{what}");
        assert_eq!(answer["since"], "4.2.2", "{what}");
    }
    assert!(
        pmix(&["status", "0"])
            .text()
            .starts_with("PMIX_SUCCESS (0)\n")
    );
}

#[test]
fn aliases_of_a_status_are_shown_both_ways() {
    let answer = pmix(&["status", "-145", "--json"]).json();
    assert_eq!(answer["name"], "PMIX_EVENT_JOB_END");
    let alias = json!([{ "name": "PMIX_ERR_JOB_TERMINATED", "deprecated": true }]);
    assert_eq!(answer["aliases"], alias);
    let answer = pmix(&["status", "ERR_JOB_TERMINATED", "--json"]).json();
    assert_eq!(answer["name"], "PMIX_ERR_JOB_TERMINATED");
    assert_eq!(answer["deprecated"], true);
    assert_eq!(answer["aliases"][0]["name"], "PMIX_EVENT_JOB_END");
}

#[test]
fn a_number_that_one_release_has_for_another_name_says_so() {
    let text = pmix(&["status", "-400"]).text();
    assert!(text.contains("PMIX_ERR_LOST_PRECISION (6.1.0)"), "{text}");
    let answer = pmix(&["status", "ERR_LOST_PRECISION", "--json"]).json();
    assert_eq!(answer["other_numbers"], json!({ "6.1.0": -400 }));
}

#[test]
fn a_forgotten_sign_is_no_answer_but_a_hint() {
    let outcome = pmix(&["status", "27"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("PMIX_ERR_BAD_PARAM (-27)"),
        "{}",
        outcome.stderr
    );
    let outcome = pmix(&["--json", "status", "-2147483648"]);
    assert_eq!(
        (outcome.code, &outcome.json_error()["status"]),
        (1, &json!(-46))
    );
}

#[test]
fn everything_is_listed_without_an_argument() {
    let all = lines(&["status", "--json"]);
    assert_eq!(all.len(), 177);
    assert_eq!(all[0]["name"], "PMIX_SUCCESS");
    let numbers: Vec<_> = all.iter().map(|row| row["number"].as_i64()).collect();
    assert!(numbers.is_sorted_by(|a, b| a >= b));
    let all = lines(&["attr", "--json"]);
    assert_eq!(all.len(), 682);
    assert!(
        all.iter()
            .all(|row| row["key"].as_str().is_some_and(|key| !key.is_empty()))
    );
    assert_eq!(pmix(&["attr"]).text().lines().count(), 682);
}

#[test]
fn an_attribute_is_found_by_name_key_and_part() {
    for what in [
        "PMIX_JOB_SIZE",
        "job_size",
        "pmix.job.size",
        "PMIX.JOB.SIZE",
        "JOB_SI*",
        "ob.siz",
    ] {
        let answer = pmix(&["attr", what, "--json"]).json();
        assert_eq!(answer["name"], "PMIX_JOB_SIZE", "{what}");
        assert_eq!(answer["key"], "pmix.job.size", "{what}");
        assert_eq!(
            (&answer["type"], &answer["data_type"]),
            (&json!("uint32_t"), &json!("PMIX_UINT32"))
        );
    }
}

#[test]
fn a_shared_key_shows_every_attribute_of_it() {
    let both = lines(&["attr", "pmix.evname", "--json"]);
    let names: Vec<_> = both.iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["PMIX_EVENT_HDLR_NAME", "PMIX_PROGRESS_THREAD_NAME"]);
    assert_eq!(
        both[1]["other_keys"],
        json!({ "7.0.0rc1": "pmix.pthrdnm", "master": "pmix.pthrdnm" })
    );
    assert_eq!(both[0]["same_key"], json!(["PMIX_PROGRESS_THREAD_NAME"]));
    let moved = pmix(&["attr", "pmix.pthrdnm", "--json"]).json();
    assert_eq!(moved["name"], "PMIX_PROGRESS_THREAD_NAME");
}

#[test]
fn nothing_found_is_a_negative_answer_with_the_nearest_names() {
    for (args, near) in [
        (["attr", "PMIX_JOB_SIEZ"], "PMIX_JOB_SIZE"),
        (["attr", "pmix.job.sise"], "pmix.job.size"),
        (["status", "ERR_BAD_PARM"], "PMIX_ERR_BAD_PARAM"),
    ] {
        let outcome = pmix(&args);
        assert_eq!(outcome.code, 1, "{args:?}");
        assert!(outcome.stdout.is_empty(), "{args:?}");
        assert!(outcome.stderr.contains(near), "{}", outcome.stderr);
    }
    let outcome = pmix(&["attr", "no such thing at all", "--json"]);
    assert_eq!(
        (outcome.code, &outcome.json_error()["status"]),
        (1, &json!(-46))
    );
    let outcome = pmix(&["attr", "\u{1b}[31m"]);
    assert!(
        outcome.code == 1 && !outcome.stderr.contains('\u{1b}'),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_dictionary_needs_no_sound_configuration() {
    assert_eq!(pmix(&["--mca", "preg", "nope", "status", "-1"]).code, 0);
    assert_eq!(
        pmix(&["--config", "/nonexistent.toml", "attr", "RANK"]).code,
        0
    );
}

#[test]
fn a_name_that_only_documents_have_is_known_as_a_status_and_as_an_attribute() {
    let status = pmix(&["status", "PMIX_DEBUG_WAIT_FOR_NOTIFY"]);
    assert!(
        status
            .text()
            .starts_with("PMIX_DEBUG_WAIT_FOR_NOTIFY (-58)"),
        "{}",
        status.text()
    );
    let attribute = pmix(&["attr", "PMIX_DEBUG_WAIT_FOR_NOTIFY"]);
    assert!(
        attribute.text().contains("pmix.dbg.notify"),
        "{}",
        attribute.text()
    );
}

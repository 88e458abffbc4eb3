// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares every record of `testdata/preg`, results of real libraries, with the framework.
//!
//! A record is run once for each kind of library that gave it. If this project's result differs,
//! `testdata/preg/deviations.toml` must cover the record with a reason and the result; every line
//! of that file must be needed.
#![cfg(feature = "compress")]

mod ask;
mod deviations;
mod record;

use std::collections::BTreeMap;

use ask::Answer;
use deviations::Deviations;
use record::Corpus;

/// Runs every record of every file.
#[test]
fn every_result_is_as_recorded_or_declared() {
    let corpus = Corpus::read();
    let mut deviations = Deviations::read();
    let mut faults = Vec::new();
    let mut asked = BTreeMap::<&str, usize>::new();
    for record in &corpus.records {
        for library in &record.libraries {
            *asked.entry(record.file).or_default() += 1;
            if deviations.excuses(record) {
                continue;
            }
            let ours = ask::ask(record, *library);
            if Answer::agrees(&record.expected, &ours, record) {
                continue;
            }
            if let Err(why) = deviations.judge(record, *library, &ours) {
                faults.push(why);
            }
        }
    }
    faults.extend(deviations.unneeded());
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n")
    );
    // Detects files that were left out silently.
    let asked: Vec<_> = asked.into_iter().collect();
    assert_eq!(asked, EXPECTED_QUESTIONS);
}

/// The number of calls in each file: a record counts once for each kind of library.
const EXPECTED_QUESTIONS: &[(&str, usize)] = &[
    ("generate_ppn", 182),
    ("generate_regex", 706),
    ("nasty", 651),
    ("native", 480),
    ("parse", 883),
    ("regex2", 738),
];

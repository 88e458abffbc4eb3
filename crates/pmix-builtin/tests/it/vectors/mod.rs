// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every record of `testdata/preg`, what real libraries answered, asked of the framework.
//!
//! A record is run once for every kind of library that gave it. Where our answer differs, the
//! record must be covered by `testdata/preg/deviations.toml`, which says why and what we answer;
//! every line of that file must be needed.
#![cfg(feature = "compress")]

mod answer;
mod ask;
mod deviations;
mod record;

use std::collections::BTreeMap;

use answer::Answer;
use deviations::Deviations;
use record::Corpus;

/// Every record of every file.
#[test]
fn every_record_is_answered_as_recorded_or_as_declared() {
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
    // No file was silently left out.
    let asked: Vec<_> = asked.into_iter().collect();
    assert_eq!(asked, EXPECTED_QUESTIONS);
}

/// How many questions each file holds: a record counts once for each kind of library.
const EXPECTED_QUESTIONS: &[(&str, usize)] = &[
    ("generate_ppn", 182),
    ("generate_regex", 706),
    ("nasty", 651),
    ("native", 480),
    ("parse", 883),
    ("regex2", 738),
];

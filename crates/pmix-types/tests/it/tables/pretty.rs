// SPDX-License-Identifier: MIT OR Apache-2.0
//! The texts of two real libraries (`testdata/types/pretty.tsv`), compared with this crate's.

use pmix_types::{
    AllocDirective, Attribute, DataRange, DataType, DeviceType, InfoFlags, IofChannel, JobState,
    LinkState, Persistence, ProcState, Release, Scope, Status,
};

/// A call of both libraries.
struct Answer {
    function: String,
    argument: String,
    /// The returned texts; `None` if the library does not have the function.
    words: [(Release, Option<String>); 2],
}

fn answers() -> Vec<Answer> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/types/pretty.tsv"
    );
    let text = std::fs::read_to_string(path).expect("the answers are there");
    let answer = |line: &str| {
        let fields: Vec<_> = line.split('\t').collect();
        let [function, argument, old, new] = fields[..] else {
            panic!("four fields: {line}")
        };
        let word = |field: &str| (field != "-").then(|| field.to_owned());
        Answer {
            function: function.to_owned(),
            argument: argument.to_owned(),
            words: [(Release::V4_2_2, word(old)), (Release::V5_0_11, word(new))],
        }
    };
    text.lines().skip(1).map(answer).collect()
}

/// Returns this crate's text for a function that takes a number.
fn ours(function: &str, number: i64) -> Option<&'static str> {
    let byte = || u8::try_from(number).expect("a byte");
    let short = || u16::try_from(number).expect("sixteen bits");
    Some(match function {
        "PMIx_Proc_state_string" => ProcState::from_raw(byte()).pretty(),
        "PMIx_Job_state_string" => JobState::from_raw(byte()).pretty(),
        "PMIx_Link_state_string" => LinkState::from_raw(byte()).pretty(),
        "PMIx_Scope_string" => Scope::from_raw(byte()).pretty(),
        "PMIx_Persistence_string" => Persistence::from_raw(byte()).pretty(),
        "PMIx_Data_range_string" => DataRange::from_raw(byte()).pretty(),
        "PMIx_Alloc_directive_string" => AllocDirective::from_raw(byte()).pretty(),
        "PMIx_Data_type_string" => DataType::from_raw(short()).pretty(),
        "PMIx_IOF_channel_string" => IofChannel::from_raw(short()).pretty(),
        "PMIx_Info_directives_string" => {
            InfoFlags::from_raw(u32::try_from(number).expect("32 bits")).pretty()
        }
        "PMIx_Device_type_string" => {
            DeviceType::from_raw(u64::from_ne_bytes(number.to_ne_bytes())).pretty()
        }
        "PMIx_Error_string" => Status::from_raw(i32::try_from(number).expect("32 bits")).pretty(),
        _ => return None,
    })
}

/// Returns `true` if the number is newer than the library of a release.
fn is_later(function: &str, number: i64, release: Release) -> bool {
    let releases = match function {
        "PMIx_Data_type_string" => {
            let number = u16::try_from(number).expect("sixteen bits");
            DataType::from_raw(number)
                .constant()
                .map(|row| row.releases())
        }
        "PMIx_Error_string" => {
            let number = i32::try_from(number).expect("32 bits");
            Status::from_raw(number)
                .constant()
                .map(|row| row.releases())
        }
        _ => None,
    };
    releases.is_some_and(|known| !known.contains(release))
}

#[test]
fn numbers_have_the_texts_of_the_libraries() {
    let mut checked = 0;
    for Answer {
        function,
        argument,
        words,
    } in answers()
    {
        let Ok(number) = argument.parse() else {
            continue;
        };
        let Some(ours) = ours(&function, number) else {
            continue;
        };
        for (release, theirs) in &words {
            // Release 4 had its own texts for status codes; release 5 replaced them by names.
            if function == "PMIx_Error_string" && *release == Release::V4_2_2 {
                continue;
            }
            let Some(theirs) = theirs else { continue };
            let unknown = matches!(theirs.as_str(), "UNKNOWN" | "ERROR STRING NOT FOUND");
            if unknown && is_later(&function, number, *release) {
                continue;
            }
            assert_eq!(ours, theirs, "{function}({argument}) of {release}");
            checked += 1;
        }
    }
    assert!(checked > 600, "only {checked} words were compared");
}

#[test]
fn every_other_number_shares_the_word_for_unknown_ones() {
    let all = answers();
    let mut functions = 0;
    for Answer {
        function, words, ..
    } in all.iter().filter(|answer| answer.argument == "*")
    {
        let asked = match function.as_str() {
            "PMIx_Error_string" => -3989..11,
            "PMIx_Data_type_string" => 0..601,
            "PMIx_Device_type_string" => 0..81,
            _ => 0..256,
        };
        let named = |number: &i64| {
            let argument = number.to_string();
            all.iter()
                .any(|a| a.function == *function && a.argument == argument)
        };
        let [_, (newest, theirs)] = words;
        for number in asked.filter(|number| !named(number)) {
            let left_out = function == "PMIx_Error_string"
                && number == i64::from(Status::EXTERNAL_ERR_BASE.as_raw());
            if left_out {
                assert_eq!(ours(function, number), Some("PMIX_EXTERNAL_ERR_BASE"));
            } else if !is_later(function, number, *newest) {
                assert_eq!(
                    ours(function, number),
                    theirs.as_deref(),
                    "{function}({number})"
                );
            }
        }
        functions += 1;
    }
    assert_eq!(functions, 10);
}

#[test]
fn a_status_is_found_by_name_as_in_the_libraries() {
    let mut unknown_to_both = 0;
    let lookups = answers()
        .into_iter()
        .filter(|a| a.function == "PMIx_Error_code");
    for Answer {
        argument,
        words: [_, (_, theirs)],
        ..
    } in lookups
    {
        let theirs: i32 = theirs.and_then(|t| t.parse().ok()).expect("a number");
        let ours = Status::from_error_name(&argument).as_raw();
        if theirs != i32::MIN {
            assert_eq!(ours, theirs, "{argument}");
        } else if ours == theirs {
            unknown_to_both += 1;
        } else {
            // The name is newer than the library, or one of the few that the library's table lacks.
            assert!(Status::from_name(&argument).is_some(), "{argument}");
            assert!(argument.starts_with("PMIX_"), "{argument}");
        }
    }
    assert_eq!(unknown_to_both, 9);
}

#[test]
fn attributes_are_looked_up_as_in_the_libraries() {
    let mut checked = 0;
    for Answer {
        function,
        argument,
        words,
    } in answers()
    {
        let ours = match function.as_str() {
            "PMIx_Get_attribute_name" => Attribute::name_of(&argument),
            "PMIx_Get_attribute_string" => Attribute::key_of(&argument),
            _ => continue,
        };
        for (release, theirs) in &words {
            let theirs = theirs.as_deref().expect("both have the function");
            // A library returns the argument itself if it does not know it.
            let known = Attribute::by_key(&argument).or_else(|| Attribute::by_name(&argument));
            if theirs == argument && known.is_some_and(|a| !a.releases().contains(*release)) {
                continue;
            }
            // This crate returns the key of the described snapshot; an older release may have
            // another one.
            assert_eq!(ours, theirs, "{function}({argument}) of {release}");
            checked += 1;
        }
    }
    assert!(checked > 60, "only {checked} answers were compared");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the selected components, their order, and the settings that determine both.

use std::path::Path;

use pmix_mca::{Error, Header, Params, Selection, Source, select};
use pmix_types::Status;

const NAMES: [(&str, i32, bool); 4] = [
    ("raw", 50, true),
    ("native", 30, true),
    ("compress", 100, true),
    ("fold", 110, false),
];

fn choose(params: &Params) -> Result<Selection, Error> {
    let header = |(name, priority, enabled)| Header {
        name,
        priority,
        enabled,
    };
    select("preg", &NAMES.map(header), params)
}

/// Returns the settings as environment variables.
fn environment(settings: &[(&str, &str)]) -> Params {
    let vars = settings
        .iter()
        .map(|(name, value)| (format!("PMIX_MCA_{name}"), (*value).to_owned()));
    Params::builder().environment(vars).build().unwrap()
}

fn active(params: &Params) -> Vec<&'static str> {
    let selection = choose(params).unwrap();
    selection.active.iter().map(|i| NAMES[*i].0).collect()
}

fn error(settings: &[(&str, &str)]) -> String {
    choose(&environment(settings)).unwrap_err().to_string()
}

#[test]
fn the_highest_priority_comes_first() {
    assert_eq!(active(&Params::default()), ["compress", "raw", "native"]);
    let params = environment(&[("preg_native_priority", "200"), ("preg_raw_priority", "-5")]);
    assert_eq!(active(&params), ["native", "compress", "raw"]);
}

#[test]
fn ties_are_broken_by_name() {
    let params = environment(&[("preg_native_priority", "50")]);
    assert_eq!(active(&params), ["compress", "native", "raw"]);
}

#[test]
fn a_list_includes_only_what_it_names() {
    assert_eq!(
        active(&environment(&[("preg", "native, raw")])),
        ["raw", "native"]
    );
}

#[test]
fn a_caret_excludes_the_whole_list() {
    assert_eq!(
        active(&environment(&[("preg", "^raw,native")])),
        ["compress"]
    );
    assert_eq!(
        active(&environment(&[("preg", " ^ compress ")])),
        ["raw", "native"]
    );
}

#[test]
fn an_empty_value_is_the_default() {
    for empty in ["", "  "] {
        assert_eq!(
            active(&environment(&[
                ("preg", empty),
                ("preg_raw_priority", empty)
            ])),
            ["compress", "raw", "native"]
        );
    }
}

#[test]
fn an_include_list_enables_components_off_by_default() {
    assert_eq!(active(&environment(&[("preg", "fold")])), ["fold"]);
    assert_eq!(
        active(&environment(&[("preg_fold_enabled", "1")]))[0],
        "fold"
    );
    assert_eq!(
        active(&environment(&[("preg", "^raw")])),
        ["compress", "native"]
    );
}

#[test]
fn a_caret_elsewhere_is_an_error_that_names_the_variable() {
    for value in ["^raw,^native", "raw,^native", "^^raw", "raw^"] {
        let message = error(&[("preg", value)]);
        assert!(message.contains("PMIX_MCA_preg"), "{message}");
        assert!(message.contains("at the very front"), "{message}");
    }
}

#[test]
fn a_list_of_nothing_is_an_error() {
    for value in ["^", ",", "^ ,,"] {
        assert!(
            error(&[("preg", value)]).contains("no component is named"),
            "{value}"
        );
    }
}

#[test]
fn an_unknown_component_is_an_error_with_the_nearest_name() {
    let message = error(&[("preg", "raw,natve")]);
    assert!(message.contains("PMIX_MCA_preg"), "{message}");
    assert!(message.contains("did you mean \"native\"?"), "{message}");
    assert!(message.contains("compress, fold, native, raw"), "{message}");
    assert!(error(&[("preg", "^zzzzzzzz")]).contains("unknown component"));
}

#[test]
fn names_are_case_sensitive() {
    assert!(error(&[("preg", "RAW")]).contains("unknown component"));
}

#[test]
fn excluding_everything_names_components_and_settings() {
    let params = Params::builder()
        .environment([("PMIX_MCA_preg".to_owned(), "^raw,compress".to_owned())])
        .set("preg_native_enabled", "no", Source::CommandLine)
        .build()
        .unwrap();
    let error = choose(&params).unwrap_err();
    let message = error.to_string();
    assert_eq!(error.status(), Status::ERR_SILENT);
    for part in [
        "no component of the preg framework is left",
        "raw: preg = ^raw,compress (environment variable PMIX_MCA_preg)",
        "compress: preg = ^raw,compress (environment variable PMIX_MCA_preg)",
        "native: preg_native_enabled = false (command line (--mca))",
        "fold: off by default (built-in default)",
    ] {
        assert!(message.contains(part), "{part:?} is not in\n{message}");
    }
}

#[test]
fn malformed_values_are_errors_that_name_the_source() {
    for (name, value) in [
        ("preg_raw_priority", "high"),
        ("preg_raw_priority", "99999999999"),
        ("preg_raw_priority", "1.5"),
        ("preg_raw_enabled", "maybe"),
        ("preg_raw_parse", "2"),
    ] {
        let message = error(&[(name, value)]);
        assert!(message.contains(&format!("PMIX_MCA_{name}")), "{message}");
        assert!(message.contains(value), "{message}");
    }
}

#[test]
fn disabled_encoders_still_read_unless_told_otherwise() {
    let readers = |params: &Params| -> Vec<&str> {
        let selection = choose(params).unwrap();
        selection.readers.iter().map(|i| NAMES[*i].0).collect()
    };
    let params = environment(&[("preg", "raw")]);
    assert_eq!(readers(&params), ["fold", "compress", "raw", "native"]);
    let params = environment(&[("preg", "raw"), ("preg_native_parse", "false")]);
    assert_eq!(readers(&params), ["fold", "compress", "raw"]);
    let decision = &choose(&params).unwrap().decisions[1];
    assert_eq!(
        decision.parse_source.to_string(),
        "environment variable PMIX_MCA_preg_native_parse"
    );
}

#[test]
fn every_decision_has_its_source() {
    let params = environment(&[("preg", "raw"), ("preg_raw_priority", "7")]);
    let selection = choose(&params).unwrap();
    let raw = &selection.decisions[0];
    assert_eq!((raw.priority, &raw.excluded), (7, &None));
    assert_eq!(
        raw.priority_source.to_string(),
        "environment variable PMIX_MCA_preg_raw_priority"
    );
    let (why, source) = selection.decisions[1].excluded.clone().unwrap();
    assert_eq!(why, "preg = raw");
    assert_eq!(source.to_string(), "environment variable PMIX_MCA_preg");
    assert_eq!(selection.decisions[1].priority_source, Source::Default);
}

#[test]
fn the_higher_layer_decides_between_a_list_and_a_switch() {
    let toml = |text: &str| {
        Params::builder()
            .plugins_toml(Path::new("plugins.toml"), text)
            .unwrap()
    };
    let off = "[preg.raw]\nenabled = false\n";
    // The list in the environment names a component that the file disables.
    let params = toml(off).environment([("PMIX_MCA_preg".to_owned(), "raw".to_owned())]);
    assert_eq!(active(&params.build().unwrap()), ["raw"]);
    // A higher layer enables a component that the file's list excludes.
    let variable = "PMIX_MCA_preg_fold_enabled".to_owned();
    let params = toml("[preg]\nselect = \"raw\"\n").environment([(variable, "true".to_owned())]);
    assert_eq!(active(&params.build().unwrap()), ["fold", "raw"]);
}

#[test]
fn within_one_layer_exclusion_wins() {
    let settings = [("preg", "raw,native"), ("preg_raw_enabled", "false")];
    assert_eq!(active(&environment(&settings)), ["native"]);
    let settings = [("preg", "^raw"), ("preg_raw_enabled", "true")];
    assert_eq!(active(&environment(&settings)), ["compress", "native"]);
}

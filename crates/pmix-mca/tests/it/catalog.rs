// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of checking names and values against the parameters of the framework and its components.

use std::path::Path;

use pmix_mca::{Catalog, Header, ParamSpec, Params, Source};
use proptest::prelude::*;

const FRAMEWORK: &[ParamSpec] = &[
    ParamSpec {
        name: "preg",
        default: "",
        help: "the list",
    },
    ParamSpec {
        name: "preg_base_max_nodes",
        default: "100",
        help: "most nodes",
    },
];

const COMPRESS: &[ParamSpec] = &[
    ParamSpec {
        name: "pcompress_base_limit",
        default: "4096",
        help: "the smallest size",
    },
    ParamSpec {
        name: "pcompress_zlib_level",
        default: "auto",
        help: "effort",
    },
];

fn catalog() -> Catalog {
    let header = |name| Header {
        name,
        priority: 50,
        enabled: true,
    };
    let mut catalog = Catalog::new("preg", FRAMEWORK);
    catalog.component(&header("raw"), &[]);
    catalog.component(&header("compress"), COMPRESS);
    catalog.open_component(&header("acme"));
    catalog
}

fn from_toml(text: &str) -> Result<Params, pmix_mca::Error> {
    Params::builder()
        .plugins_toml(Path::new("conf/plugins.toml"), text)?
        .build()
}

fn check_toml(text: &str) -> Result<(), String> {
    let params = from_toml(text).map_err(|e| e.to_string())?;
    catalog().check(&params).map_err(|e| e.to_string())
}

#[test]
fn every_documented_shape_is_accepted() {
    let text = "[preg]\nselect = \"^raw\"\nbase_max_nodes = 5\n\
                [preg.compress]\nenabled = true\npriority = -3\nparse = false\n\
                [pcompress]\nbase_limit = -1\nzlib_level = 6\n\
                [preg.acme]\npriority = 1\nshape = \"round\"\nsides = 7\n";
    assert_eq!(check_toml(text), Ok(()));
    let params = from_toml(text).unwrap();
    let value = |name| params.get(name).map(|s| s.value.as_str());
    assert_eq!(value("preg"), Some("^raw"));
    assert_eq!(value("preg_compress_priority"), Some("-3"));
    assert_eq!(value("pcompress_base_limit"), Some("-1"));
    assert_eq!(value("preg_acme_shape"), Some("round"));
}

#[test]
fn unknown_keys_are_rejected_with_line_and_nearest_name() {
    for (text, parts) in [
        (
            "[prge]\n",
            vec!["plugins.toml:1", "\"prge\"", "did you mean \"preg\"?"],
        ),
        (
            "\n[preg]\nselct = \"raw\"\n",
            vec![":3", "preg.selct", "\"select\""],
        ),
        (
            "[preg.compres]\npriority = 1\n",
            vec![":1", "\"compres\"", "\"compress\""],
        ),
        ("[preg.compres]\n", vec![":1", "\"compress\""]),
        (
            "[preg.raw]\n\nprioritty = 1\n",
            vec![":3", "preg.raw.prioritty", "\"priority\""],
        ),
        (
            "[pcompress]\nbase_limt = 1\n",
            vec![":2", "pcompress.base_limt", "\"base_limit\""],
        ),
        ("[[plugin]]\npth = \"a\"\n", vec![":2", "`pth`", "`path`"]),
        ("preg = \"raw\"\n", vec![":1", "write [preg]"]),
        (
            "[[plugins]]\npath = \"a\"\n",
            vec![":1", "did you mean \"plugin\"?"],
        ),
    ] {
        let message = check_toml(text).unwrap_err();
        for part in parts {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
}

#[test]
fn wrong_types_are_rejected_with_line_and_kind() {
    for (text, part) in [
        ("[preg.raw]\npriority = \"high\"\n", "a whole number"),
        ("[preg.raw]\npriority = \"7\"\n", "a whole number"),
        ("[preg.raw]\nenabled = 1\n", "true or false"),
        ("[preg]\nselect = true\n", "text"),
        ("[preg.raw]\npriority = 1.5\n", "floating point"),
        ("[preg.raw]\npriority = [1]\n", "takes one value"),
        ("[preg.raw]\nx = { y = 1 }\n", "takes one value"),
        (
            "[preg.raw]\npriority = 1979-05-27\n",
            "a date is not a valid value",
        ),
    ] {
        let message = check_toml(text).unwrap_err();
        assert!(message.contains(":2: "), "{message}");
        assert!(message.contains(part), "{message}");
    }
    assert!(
        check_toml("[preg\n")
            .unwrap_err()
            .contains("plugins.toml:1")
    );
    assert!(check_toml("[preg]\n[preg]\n").unwrap_err().contains(":2"));
}

#[test]
fn unknown_names_are_errors_from_the_program_and_warnings_from_the_environment() {
    let params = Params::builder().set("preg_raw_prioritty", "1", Source::CommandLine);
    let message = catalog()
        .check(&params.build().unwrap())
        .unwrap_err()
        .to_string();
    assert!(message.contains("command line (--mca)"), "{message}");
    assert!(message.contains("\"preg_raw_priority\""), "{message}");
    let variable = ("PMIX_MCA_preg_raw_prioritty".to_owned(), "1".to_owned());
    let params = Params::builder().environment([variable]).build().unwrap();
    assert!(catalog().check(&params).is_ok());
}

#[test]
fn ignores_parameters_of_other_frameworks() {
    let params = Params::builder()
        .set("gds", "hash", Source::CommandLine)
        .set("ptl_base_max_msg_size", "x", Source::Api);
    assert!(catalog().check(&params.build().unwrap()).is_ok());
}

#[test]
fn a_parameter_of_an_unloadable_component_is_a_warning() {
    let params = from_toml("[preg.absent]\nshape = 1\n").unwrap();
    assert!(catalog().check(&params).is_err());
    let mut incomplete = catalog();
    incomplete.mark_incomplete();
    assert!(incomplete.check(&params).is_ok());
}

#[test]
fn a_description_has_value_default_source_and_overridden_values() {
    let params = Params::builder()
        .plugins_toml(Path::new("p.toml"), "[pcompress]\nbase_limit = 1\n")
        .unwrap()
        .set("pcompress_base_limit", "2", Source::Api)
        .build()
        .unwrap();
    let all = catalog().describe(&params);
    let find = |name: &str| all.iter().find(|p| p.name == name).unwrap();
    let limit = find("pcompress_base_limit");
    assert_eq!(
        (limit.setting.value.as_str(), limit.default.as_str()),
        ("2", "4096")
    );
    assert_eq!(limit.overridden[0].source.to_string(), "p.toml:2");
    assert_eq!(limit.component.as_deref(), Some("compress"));
    let parse = find("preg_raw_parse");
    assert_eq!(
        (parse.setting.value.as_str(), &parse.setting.source),
        ("true", &Source::Default)
    );
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in any_text(), value in "\\PC{0,20}", name in "(preg|pcompress)[_a-z^]{0,12}") {
        if let Ok(params) = from_toml(&text) {
            let _ = catalog().check(&params);
        }
        let params = Params::builder()
            .mca_file(Path::new("x"), &text)
            .environment([(format!("PMIX_MCA_{name}"), value)])
            .set("preg", text, Source::Api)
            .build()
            .unwrap();
        let _ = catalog().check(&params);
        let header = Header { name: "raw", priority: 1, enabled: true };
        let _ = pmix_mca::select("preg", &[header], &params);
    }
}

/// Generates arbitrary text, and text from the words and punctuation of configuration files.
fn any_text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "preg",
        "raw",
        "pcompress",
        "plugin",
        "path",
        "select",
        "priority",
        "[",
        "]",
        "[[",
        "]]",
        "=",
        ".",
        "\"",
        "\n",
        "\r\n",
        "#",
        "/*",
        "*/",
        "-mca ",
        "^",
        ",",
        "1",
        "-",
        "true",
        "é",
        " ",
        "\u{0}",
        "9223372036854775808",
        "{",
        "}",
        "'",
        "\\",
        "1979-05-27",
    ]);
    let words = prop::collection::vec(word, 0..30).prop_map(|words| words.concat());
    prop_oneof!["\\PC{0,80}", "[\\x00-\\x7f]{0,80}", words]
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of settings on the framework with every component of the tree.

use std::path::{Path, PathBuf};

use pmix_builtin::open_preg;
use pmix_mca::{Params, Source};
use preg_core::{Error, Preg, Regex2Ref, Status};

fn open(settings: &[(&str, &str)]) -> Result<Preg, Error> {
    let vars = settings
        .iter()
        .map(|(name, value)| (format!("PMIX_MCA_{name}"), (*value).to_owned()));
    open_preg(&Params::builder().environment(vars).build()?)
}

fn framing(settings: &[(&str, &str)], list: &[u8]) -> String {
    open(settings)
        .unwrap()
        .generate_node_regex(list)
        .unwrap()
        .framing
}

fn long_list() -> Vec<u8> {
    let names: Vec<String> = (0..1000).map(|i| format!("node{i:04}")).collect();
    names.join(",").into_bytes()
}

#[test]
fn the_default_order_is_compress_raw_native() {
    assert_eq!(framing(&[], &long_list()), "blob");
    assert_eq!(framing(&[], b"n1,n2"), "raw");
    let preg = open(&[]).unwrap();
    let names: Vec<_> = preg
        .modules()
        .iter()
        .filter(|m| m.decision.excluded.is_none())
        .map(|m| m.scheme.name())
        .collect();
    assert_eq!(names, ["compress", "raw", "native"]);
}

#[test]
fn a_list_and_priorities_choose_the_encoder() {
    assert_eq!(framing(&[("preg", "native")], b"n1,n2"), "pmix");
    assert_eq!(framing(&[("preg", "^compress,raw")], &long_list()), "pmix");
    assert_eq!(framing(&[("preg_native_priority", "60")], b"n1,n2"), "pmix");
    assert_eq!(
        framing(&[("preg_compress_enabled", "0")], &long_list()),
        "raw"
    );
}

#[test]
fn a_disabled_scheme_still_parses() {
    let value = open(&[])
        .unwrap()
        .generate_node_regex(&long_list())
        .unwrap();
    let preg = open(&[("preg", "raw")]).unwrap();
    assert_eq!(preg.parse_nodes(&value.bytes).unwrap().len(), 1000);
    assert_eq!(preg.parse_nodes(b"pmix[n[1:1-3]]").unwrap().len(), 3);
    let kind = preg.generate_regex(b"n1").unwrap().kind;
    assert_eq!(kind, "raw");
}

#[test]
fn values_of_a_scheme_that_may_not_parse_are_never_split() {
    let preg = open(&[("preg_native_parse", "false")]).unwrap();
    let error = preg.parse_nodes(b"pmix[n[1:1-3]]").unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    let preg = open(&[("preg", "raw"), ("preg_compress_parse", "no")]).unwrap();
    let regex = Regex2Ref {
        kind: "compress",
        bytes: b"\0\0\0\0",
    };
    assert_eq!(
        preg.parse_regex(regex).unwrap_err().status(),
        Status::ERR_NOT_SUPPORTED
    );
}

#[test]
fn limits_are_parameters() {
    let preg = open(&[("preg_base_max_nodes", "10"), ("preg_base_max_ranks", "20")]).unwrap();
    assert_eq!(preg.parse_nodes(b"pmix[n[2:1-10]]").unwrap().len(), 10);
    let error = preg.parse_nodes(b"pmix[n[2:1-11]]").unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    assert!(preg.parse_procs(b"raw:0-19").is_ok());
    assert!(preg.parse_procs(b"raw:0-20").is_err());
    let error = open(&[("preg_base_max_nodes", "many")])
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("PMIX_MCA_preg_base_max_nodes"), "{error}");
    let unlimited = open(&[("preg_base_max_nodes", "-1")]).unwrap();
    assert_eq!(unlimited.limits().max_nodes, u64::MAX);
}

#[test]
fn a_component_without_its_back_ends_is_excluded() {
    let settings = [
        ("pcompress", "none"),
        ("pcompress_base_silence_warning", "1"),
    ];
    assert_eq!(framing(&settings, &long_list()), "raw");
    let preg = open(&settings).unwrap();
    let status = preg
        .components()
        .iter()
        .find(|c| c.name == "compress")
        .unwrap();
    assert!(
        status
            .decision
            .excluded
            .as_ref()
            .unwrap()
            .0
            .contains("cannot work here")
    );
    // With no other component selected, none is left.
    let error = open(&[settings[0], settings[1], ("preg", "compress")])
        .err()
        .unwrap();
    assert_eq!(error.status(), Status::ERR_SILENT);
    let text = error.to_string();
    assert!(text.contains("compress: cannot work here"), "{text}");
    assert!(
        text.contains("raw: preg = compress (environment variable PMIX_MCA_preg)"),
        "{text}"
    );
}

#[test]
fn a_framework_shows_its_parameters_with_their_sources() {
    let vars = [("PMIX_MCA_pcompress_base_limit".to_owned(), "64".to_owned())];
    let params = Params::builder().environment(vars).build().unwrap();
    let preg = open_preg(&params).unwrap();
    let all = preg.catalog().describe(&params);
    let limit = all
        .iter()
        .find(|p| p.name == "pcompress_base_limit")
        .unwrap();
    assert_eq!(
        (limit.setting.value.as_str(), limit.default.as_str()),
        ("64", "4096")
    );
    let source = limit.setting.source.to_string();
    assert_eq!(source, "environment variable PMIX_MCA_pcompress_base_limit");
}

fn committed() -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Returns the file with its commented keys enabled; the text before the first table remains a
/// comment.
fn uncommented(text: &str) -> String {
    let mut in_table = false;
    let lines = text.lines().map(|line| {
        in_table |= line.starts_with('[');
        let bare = line.strip_prefix("# ").unwrap_or_default();
        let key = bare.split(" = ").next().unwrap_or_default();
        let is_key =
            bare.contains(" = ") && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if in_table && is_key { bare } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn params(text: &str) -> Params {
    let builder = Params::builder().plugins_toml(Path::new("plugins.toml"), text);
    builder.unwrap().build().unwrap()
}

#[test]
fn it_sets_nothing() {
    let (path, text) = committed();
    let of_process = Params::from_process(Some(&path)).unwrap().build().unwrap();
    assert_eq!(
        of_process.files().first(),
        Some(&std::path::absolute(path).unwrap())
    );
    assert_eq!(params(&text).names().count(), 0);
    assert!(params(&text).plugin_files("preg").is_empty());
}

#[test]
fn it_documents_every_key_with_its_default() {
    let (_, text) = committed();
    let params = params(&uncommented(&text));
    let catalog = preg_core::parameters(&pmix_builtin::preg_components());
    catalog.check(&params).unwrap();
    for info in catalog.describe(&params) {
        if info.name == "preg_base_plugins" {
            // Files are listed as [[plugin]].
            assert!(text.contains("[[plugin]]"));
            continue;
        }
        let shown = params.get(&info.name);
        let shown = shown.unwrap_or_else(|| panic!("{} is not documented", info.name));
        assert_eq!(shown.value, info.default, "{}", info.name);
        assert!(matches!(shown.source, Source::File { .. }));
    }
}

#[test]
fn a_framework_opened_with_it_has_the_defaults() {
    let (_, text) = committed();
    for text in [text.clone(), uncommented(&text)] {
        let preg = pmix_builtin::open_preg(&params(&text)).unwrap();
        let active: Vec<_> = preg
            .components()
            .iter()
            .filter(|c| c.decision.excluded.is_none())
            .map(|c| c.name.as_str())
            .collect();
        assert!(active.ends_with(&["raw", "native"]), "{active:?}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed `plugins.toml` documents every key with its default, and sets none.

use std::path::{Path, PathBuf};

use pmix_mca::{Params, Source};

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
    let params = Params::from_process(Some(&path)).unwrap().build().unwrap();
    assert_eq!(
        params.files().first(),
        Some(&std::path::absolute(path).unwrap())
    );
    assert_eq!(self::params(&text).names().count(), 0);
    assert!(self::params(&text).plugin_files("preg").is_empty());
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

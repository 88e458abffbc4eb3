// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings from every source: invalid settings are never applied in part, and the only failure is an error that names
//! the source.

use std::path::Path;

use pmix_mca::{Error, Params, ParamsBuilder};
use preg_core::Status;

/// Parses `plugins.toml`.
pub(crate) fn plugins_toml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let path = Path::new("fuzzed.toml");
    match Params::builder().plugins_toml(path, text) {
        Ok(builder) => open(builder, "fuzzed.toml"),
        Err(error) => named(&error, "fuzzed.toml"),
    }
}

/// Parses an MCA parameter file.
pub(crate) fn mca_file(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let path = Path::new("fuzzed.conf");
        open(Params::builder().mca_file(path, text), "fuzzed.conf");
    }
}

/// Parses environment variables, one `NAME=VALUE` per line.
pub(crate) fn environment(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let variables = text.lines().filter_map(|line| line.split_once('='));
    let variables = variables.map(|(name, value)| (format!("PMIX_MCA_{name}"), value.to_owned()));
    open(Params::builder().environment(variables), "PMIX_MCA_");
}

/// Resolves the settings and opens the framework with them.
fn open(builder: ParamsBuilder, source: &str) {
    let params = match builder.build() {
        Ok(params) => params,
        Err(error) => return named(&error, source),
    };
    // Plugin files belong to the machine and are no subject of this target.
    if !params.plugin_files("preg").is_empty() {
        return;
    }
    match pmix_builtin::open_preg(&params) {
        Ok(preg) => {
            let value = preg.generate_node_regex(b"n1,n2").expect("two plain names");
            // The settings may disable reading, even of values that a component writes, and may set a limit below the
            // two names.
            let may_read = preg.modules().iter().all(|module| module.decision.parse);
            match preg.parse_nodes(&value.bytes) {
                Ok(list) => assert_eq!(list.len(), 2),
                Err(error) if error.status() == Status::ERR_OUT_OF_RESOURCE => {}
                Err(error) => assert!(!may_read, "our own value: {error}"),
            }
        }
        Err(error) => {
            assert!(!error.status().is_success());
            let text = error.to_string();
            assert!(text.contains(source), "no source in {text:?}");
        }
    }
}

fn named(error: &Error, source: &str) {
    let text = error.to_string();
    assert!(text.contains(source), "no source in {text:?}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands about components and parameters, and global options.

use serde_json::json;

use crate::build;
use crate::command::{command, finish, pmix};

#[test]
fn plugins_list_tells_state_and_the_deciding_setting() {
    let answer = pmix(&["plugins", "list", "--json", "--mca", "preg", "^raw"]).json();
    let all = answer["components"].as_array().expect("components");
    let raw = all.iter().find(|c| c["name"] == "raw").expect("raw");
    assert_eq!(
        (&raw["state"], &raw["reads"]),
        (&json!("decode only"), &json!(true))
    );
    assert_eq!(raw["excluded"]["why"], json!("preg = ^raw"));
    assert!(
        raw["excluded"]["source"]
            .as_str()
            .is_some_and(|s| s.contains("--mca"))
    );
    let native = all.iter().find(|c| c["name"] == "native").expect("native");
    assert_eq!(
        (&native["state"], &native["tag"]),
        (&json!("active"), &json!("pmix["))
    );
    assert!(pmix(&["plugins", "list"]).text().contains("native"));
}

#[test]
fn info_shows_value_source_and_overridden_values() {
    let mut command = command(&["info", "--param", "preg", "--json", "--mca", "preg", "raw"]);
    command.env("PMIX_MCA_preg", "native");
    let outcome = finish(command, b"");
    let answer = outcome.json();
    let all = answer["params"].as_array().expect("params");
    assert!(all.iter().all(|p| p["framework"] == "preg"));
    let preg = all.iter().find(|p| p["name"] == "preg").expect("preg");
    assert_eq!(preg["value"], json!("raw"));
    assert_eq!(preg["overridden"][0]["value"], json!("native"));
    let limit = pmix(&["info", "--param", "pcompress"]).text();
    assert!(limit.contains("pcompress_base_limit = 4096"), "{limit}");
    assert_eq!(pmix(&["info", "--param", "nope"]).code, 2);
}

#[test]
fn info_finds_parameters_by_words_and_globs() {
    let names = |words: &[&str]| {
        let arguments = [&["info", "--json"], words].concat();
        let answer = pmix(&arguments).json();
        let all = answer["params"].as_array().expect("params").clone();
        let names = all
            .iter()
            .map(|p| p["name"].as_str().expect("name").to_owned());
        names.collect::<Vec<_>>()
    };
    // As `pmix_info --param all all`.
    assert_eq!(names(&["--param", "all", "all"]), names(&[]));
    assert_eq!(names(&["psec_munge_socket"]), ["psec_munge_socket"]);
    assert_eq!(names(&["PMIX_MCA_gds_hash_whole"]), ["gds_hash_whole"]);
    let some = names(&["*_priority", "whole"]);
    assert!(some.contains(&"preg_raw_priority".to_owned()), "{some:?}");
    assert!(some.contains(&"gds_hash_whole".to_owned()), "{some:?}");
    assert!(!some.contains(&"psec_munge_socket".to_owned()), "{some:?}");
    let outcome = pmix(&["info", "no-such-word"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("no-such-word"),
        "{}",
        outcome.stderr
    );
}

/// Returns the file with its commented keys enabled. The text before the first table remains a
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

/// Checks that `plugins.toml` has a key with the built-in value for every parameter of `pmix info`, and no other.
#[test]
fn plugins_toml_has_every_parameter() {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins.toml");
    let text = std::fs::read_to_string(committed).expect("the file");
    let path = format!("{}/every-parameter.toml", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, uncommented(&text)).expect("written");
    // An unknown key is an error.
    let answer = pmix(&["--config", &path, "info", "--json"]).json();
    for info in answer["params"].as_array().expect("params") {
        // Files are listed as [[plugin]].
        if info["name"] == "preg_base_plugins" {
            continue;
        }
        let source = info["source"].as_str().expect("source");
        // An empty value means the default, in any source.
        let is_there = source.contains("every-parameter.toml") || info["default"] == "";
        assert!(is_there, "{} is not in plugins.toml", info["name"]);
        assert_eq!(info["value"], info["default"], "{}", info["name"]);
    }
}

/// Checks that every parameter that a crate declares or requests is shown.
#[test]
fn info_has_every_parameter_that_is_read() {
    let answer = pmix(&["info", "--json"]).json();
    let shown: Vec<_> = answer["params"].as_array().expect("params").clone();
    let shown: Vec<_> = shown.iter().filter_map(|p| p["name"].as_str()).collect();
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut folders = vec![std::path::PathBuf::from(crates)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && name != "tests" && name != "benches" {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).expect("a source");
                let file = path.strip_prefix(crates).expect("below").to_owned();
                let asked = parameters_in(&text).into_iter();
                found.extend(asked.map(|asked| (file.display().to_string(), asked)));
            }
        }
    }
    found.sort_unstable();
    assert!(found.len() >= 35, "{found:?}");
    let (written, others): (Vec<_>, Vec<_>) =
        found.iter().partition(|(_, asked)| asked.starts_with('"'));
    for (file, asked) in written {
        let name = asked.trim_start_matches('"');
        assert!(shown.contains(&name), "{file}: {name} is not shown");
    }
    let others: Vec<_> = others
        .iter()
        .map(|(file, name)| (&**file, &**name))
        .collect();
    assert_eq!(others, NAMED_ELSEWHERE);
}

/// Places where a source requests a parameter by an expression, in the order of files and
/// expressions. The name is the name of a declaration, or `pmix info` builds it in the same way.
/// Check the requested name before adding a line.
const NAMED_ELSEWHERE: &[(&str, &str)] = &[
    ("pmix-launch/src/nodes/form.rs", "name"),
    ("pmix-mca/src/catalog.rs", "&self.name"),
    ("pmix-mca/src/select.rs", "&key("),
    ("pmix-mca/src/select.rs", "&key("),
    ("pmix-mca/src/select.rs", "&key("),
    ("pmix-mca/src/select.rs", "&key(what"),
    ("pmix-mca/src/select.rs", "framework"),
    ("pmix-mca/src/select.rs", "framework"),
    ("pmix-mca/src/select.rs", "framework"),
    ("pmix-mca/src/select.rs", "framework"),
    ("pmix-server/src/builder/limits.rs", "SHARED.name"),
    ("pmix-server/src/builder/limits.rs", "spec.name"),
    ("pmix-server/src/builder/limits.rs", "spec.name"),
    ("preg-compress/src/pcompress.rs", "NAME"),
    ("preg-core/src/dynamic/module.rs", "name"),
    ("preg-native/src/scheme.rs", "REGEX2.name"),
];

/// Returns the parameters that a source declares and those that it requests: a quoted name, or an expression.
fn parameters_in(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    // The name may be on the line after the opening parenthesis of the call.
    let lines = text.lines().map(str::trim);
    let text: String = lines.fold(String::new(), |text, line| match line.starts_with('.') {
        true => text + line,
        false => text + "\n" + line,
    });
    let mut names = Vec::new();
    for rest in text.split("ParamSpec {").skip(1) {
        let name = rest.trim_start().strip_prefix("name: \"");
        let name = name.and_then(|rest| rest.split('"').next());
        names.extend(name.map(|name| format!("\"{name}")));
    }
    for call in ["text", "flag", "number", "size", "get", "settings"] {
        for rest in text.split(&format!("params.{call}(")).skip(1) {
            let rest = rest.trim_start();
            let quoted = usize::from(rest.starts_with('"'));
            let end = rest[quoted..]
                .find(['"', ',', ')'])
                .map_or(rest.len(), |at| at + quoted);
            names.push(rest[..end].to_owned());
        }
    }
    names
}

#[test]
fn info_answers_where_the_configuration_is_broken() {
    let outcome = pmix(&["info", "--mca", "preg", "^"]);
    assert!(outcome.text().contains("preg_base_max_nodes"));
    let outcome = pmix(&["info", "--mca", "preg", "nope"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("nope") && outcome.stderr.contains("--mca"));
    // Parameters that only a server reads are checked, too.
    let outcome = pmix(&["info", "--mca", "gds_hash_whole", "many"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.text().contains("gds_hash_whole"));
    assert!(
        outcome.stderr.contains("gds_hash_whole"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_configuration_file_is_obeyed_and_its_faults_are_named() {
    let path = format!("{}/cli-plugins.toml", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, "[preg]\nselect = \"native\"\n").expect("written");
    let outcome = pmix(&["--config", &path, "map", "encode", "n[1-9]"]);
    assert_eq!(outcome.text(), "pmix[n[1:1-9]]", "{}", outcome.stderr);
    std::fs::write(&path, "[preg]\nselekt = \"native\"\n").expect("written");
    let outcome = pmix(&["--config", &path, "map", "encode", "n[1-9]"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains(":2") && outcome.stderr.contains("select"),
        "{}",
        outcome.stderr
    );
    assert_eq!(
        pmix(&["--config", "/nonexistent/plugins.toml", "map", "count", "a"]).code,
        2
    );
}

#[test]
fn completions_and_manual_pages_come_from_the_definitions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = pmix(&["completions", shell]);
        assert!(
            script.code == 0 && script.text().contains("pmix"),
            "{shell}"
        );
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = pmix(&["completions", shell]).text();
        for name in [
            "JOB_SIZE",
            "ERR_UNREACH",
            "compress",
            "preg_compress_priority",
            "psec",
            "v41",
            "uint32",
        ] {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    assert!(pmix(&["man"]).text().contains(".TH pmix 1"));
    let dir = format!("{}/man", env!("CARGO_TARGET_TMPDIR"));
    assert_eq!(pmix(&["man", &dir]).code, 0);
    for page in [
        "pmix.1",
        "pmix-map.1",
        "pmix-map-encode.1",
        "pmix-plugins-list.1",
    ] {
        assert!(std::path::Path::new(&dir).join(page).exists(), "{page}");
    }
}

#[test]
fn every_command_has_help_and_the_version_is_there() {
    assert!(pmix(&["--version"]).text().starts_with("pmix "));
    let help = pmix(&["map", "--help"]).text();
    for verb in [
        "encode", "decode", "convert", "count", "nth", "explain", "size", "verify", "where", "who",
        "draw", "batch",
    ] {
        assert!(help.contains(verb), "{verb}");
        assert_eq!(pmix(&["map", verb, "--help"]).code, 0, "{verb}");
    }
}

#[test]
fn a_file_that_is_no_plugin_is_refused_by_name() {
    let path = format!("{}/not-a-plugin.so", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, "just text").expect("written");
    for file in [path.as_str(), "/nonexistent/plugin.so"] {
        let outcome = pmix(&["plugins", "check", file, "--json"]);
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert_eq!(outcome.json()["ok"], json!(false));
        assert!(outcome.stderr.contains(file), "{}", outcome.stderr);
    }
    let list = pmix(&[
        "plugins",
        "list",
        "--json",
        "--mca",
        "preg_base_plugins",
        &path,
    ]);
    assert_eq!(list.code, 0, "{}", list.stderr);
    assert_eq!(list.json()["refused"][0]["file"], json!(path));
    assert!(list.stderr.starts_with("warning:"), "{}", list.stderr);
    assert_eq!(list.stderr.lines().count(), 1, "{}", list.stderr);
}

/// Builds the example of docs/plugins.md as a library.
fn example(dir: &std::path::Path) -> String {
    let library = build::c_library(dir, "examples/plugins/c/preg_rle.c", None);
    library.display().to_string()
}

#[test]
fn a_check_tries_the_lists_given_and_counts() {
    let dir = tempfile::tempdir().expect("a directory");
    let library = example(dir.path());
    let check = pmix(&["plugins", "check", &library]);
    assert_eq!(check.code, 0, "{}{}", check.text(), check.stderr);
    let last = check.text().lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("ok: "), "{last}");
    assert!(
        last.contains(" kept, ") && last.ends_with(" declined"),
        "{last}"
    );
    let tried = |lists: &[&str]| {
        let args = [&["plugins", "check", &library, "--json"], lists].concat();
        let outcome = pmix(&args);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.json()["counts"]["tried"].as_u64().expect("a count")
    };
    // Each list is tried in both forms of names.
    assert_eq!(tried(&["n[1-4]", "a a b"]), tried(&[]) + 4);
    let wrong = pmix(&["plugins", "check", &library, "n[1-"]);
    assert_eq!(wrong.code, 3, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("list 1"), "{}", wrong.stderr);
}

#[test]
fn parameters_of_a_plugin_are_shown_and_a_wrong_value_names_its_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let library = example(dir.path());
    let info = |more: &[&str]| {
        let plugin = ["info", "--json", "--mca", "preg_base_plugins", &library];
        pmix(&[&plugin[..], more].concat())
    };
    let answer = info(&["preg_rle_*"]).json();
    let shown = answer["params"].as_array().expect("params").clone();
    let of = |name: &str| shown.iter().find(|param| param["name"] == name).cloned();
    let least = of("preg_rle_least").expect("the parameter of the example");
    assert_eq!(
        (&least["value"], &least["default"]),
        (&json!("1"), &json!("1"))
    );
    assert_ne!(least["help"], "");
    for name in ["preg_rle_priority", "preg_rle_enabled", "preg_rle_parse"] {
        assert!(of(name).is_some(), "{name}: {shown:?}");
    }
    let wrong = info(&["--mca", "preg_rle_least", "many"]);
    let said = wrong.text() + &wrong.stderr;
    assert!(
        said.contains("preg_rle_least") && said.contains("command line (--mca)"),
        "{said}"
    );
}

#[test]
fn decisions_are_logged_on_request_only() {
    let quiet = pmix(&["map", "encode", "n1"]);
    assert_eq!(quiet.stderr, "");
    let told = pmix(&["-v", "map", "encode", "n1"]);
    assert!(
        told.stderr
            .contains("info: encoded a list of 2 bytes as 6 bytes with raw"),
        "{}",
        told.stderr
    );
    assert_eq!(told.stdout, quiet.stdout);
}

#[test]
fn usage_errors_are_reported_in_json_too() {
    for args in [
        &["map", "count", "--json", "--bogus"][..],
        &["--json", "map", "nth", "x", "n1"],
        &["--json", "map"],
        &["--json", "map", "verify", "--nodes", "n1"],
    ] {
        let outcome = pmix(args);
        assert_eq!(outcome.code, 2, "{args:?}");
        let answer = outcome.json_error();
        assert_eq!(answer["status"], -27, "{args:?}");
        let error = answer["error"].as_str().expect("it has a text");
        assert!(!error.is_empty() && !error.starts_with("error"), "{error}");
        assert!(!outcome.stderr.is_empty(), "{args:?}");
    }
    assert!(
        pmix(&["map", "--json", "--help"])
            .text()
            .starts_with("Node and")
    );
}

#[test]
fn json_members_are_in_the_documented_order() {
    let nth = pmix(&["--json", "map", "nth", "0", "b"]).text();
    assert_eq!(nth, r#"{"index":0,"name":"b","count":1}"#);
    let fault = pmix(&["--json", "map", "count", "n[1-"]).text();
    assert!(fault.starts_with(r#"{"status":-27,"error":"#), "{fault}");
}

#[test]
fn examples_of_the_help_are_right() {
    let help = pmix(&["map", "--help"]).text();
    let (_, examples) = help.split_once("Examples:").expect("there are examples");
    let words = |line: &str| -> Vec<String> {
        let words = line.split_whitespace().skip(1);
        words
            .map(|word| word.trim_matches('\'').to_owned())
            .collect()
    };
    let alone = examples
        .lines()
        .filter(|l| !l.contains('@') && !l.contains('<'));
    let alone: Vec<_> = alone.map(words).filter(|w| !w.is_empty()).collect();
    assert_eq!(alone.len(), 1, "{examples}");
    for args in alone {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        assert_eq!(pmix(&args).code, 0, "{args:?}");
    }
}

#[test]
fn a_parameter_that_the_command_does_not_use_is_warned_of() {
    let list = ["map", "count", "n[1-3]"];
    for (name, value) in [
        ("btl", "self,sm"),
        ("gds_hash_whole", "3"),
        ("nobody_knows", "1"),
    ] {
        let outcome = pmix(&[&["--mca", name, value], &list[..]].concat());
        assert_eq!((outcome.code, outcome.text().trim()), (0, "3"), "{name}");
        let said = format!("--mca {name}: this command does not use parameters of");
        assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
    }
    let outcome = pmix(&[&["--mca", "preg", "native"], &list[..]].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two example plugins work like built-in components.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Once;

use pmix_builtin::check_plugin;
use preg_core::{Limits, Outcome, Params, Regex2Ref, Scheme, Status};
use tempfile::TempDir;
use tracing::Level;

use super::build::{c_library, cpp_library, rust_library, top};
use super::open;

fn rle() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let library = c_library(directory.path(), "examples/plugins/c/preg_rle.c", None);
    (directory, library)
}

fn names(list: &preg_core::NodeList) -> Vec<String> {
    list.iter().map(|n| String::from_utf8(n).unwrap()).collect()
}

#[test]
fn a_plugin_in_c_encodes_and_decodes() {
    let (_scratch, library) = rle();
    let preg = open(&[&library], &[]).unwrap();
    let value = preg.generate_node_regex(b"n1,n1,n1,n2,n1").unwrap();
    assert_eq!(
        (value.framing.as_str(), &*value.bytes),
        ("rle", &b"rle:n1*3,n2,n1"[..])
    );
    let list = preg.parse_nodes(&value.bytes).unwrap();
    assert_eq!(names(&list), ["n1", "n1", "n1", "n2", "n1"]);
    let regex = preg.generate_regex(b"node1,node1,node1,node1").unwrap();
    assert_eq!(
        (regex.kind.as_str(), &*regex.bytes),
        ("rle", &b"node1*4"[..])
    );
    assert_eq!(
        preg.parse_regex(regex.as_view()).unwrap(),
        b"node1,node1,node1,node1"
    );
}

#[test]
fn a_plugin_in_c_has_a_parameter() {
    let (_scratch, library) = rle();
    let framing = |least: &str| {
        let preg = open(&[&library], &[("preg_rle_least", least)])?;
        Ok::<_, preg_core::Error>(preg.generate_node_regex(b"n1,n1,n1").unwrap().framing)
    };
    assert_eq!(framing("3").unwrap(), "rle");
    assert_eq!(framing("4").unwrap(), "raw");
    assert_eq!(framing("").unwrap(), "rle");
    let error = framing("three").unwrap_err().to_string();
    for part in ["preg_rle_least", "a whole number"] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    // A value that only the plugin recognizes as invalid excludes it, with its own message.
    let (left_out, warnings) = warnings_of(|| framing("0").unwrap());
    assert_eq!(left_out, "raw");
    let all = warnings.join("\n");
    assert!(all.contains("must be a number from 1 up"), "{all}");
    let preg = open(&[&library], &[]).unwrap();
    let known = preg.catalog().describe(&Params::default());
    let least = known.iter().find(|param| param.name == "preg_rle_least");
    assert_eq!(least.map(|param| &*param.default), Some("1"));
}

/// Checks the complete C++ program of docs/plugins.md.
#[test]
fn the_plugin_in_cpp_of_the_documentation_passes_its_check() {
    let text = std::fs::read_to_string(top().join("docs/plugins.md")).unwrap();
    let (_, code) = text.split_once("```cpp\n").unwrap();
    let (code, _) = code.split_once("```\n").unwrap();
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("preg_domain.cpp");
    std::fs::write(&source, code).unwrap();
    let library = cpp_library(&source);
    let lists = [("two".to_owned(), b"a.site,b.site".to_vec())];
    let report = check_plugin(&library, &Params::default(), &lists).unwrap();
    let faults = report
        .samples
        .iter()
        .filter(|s| matches!(s.outcome, Outcome::Fault(_)));
    assert_eq!(faults.count(), 0, "{report:?}");
    let preg = open(&[&library], &[]).unwrap();
    let value = preg.generate_node_regex(b"a.site,b.site").unwrap();
    assert_eq!(value.bytes, b"domain:.site;a,b");
    assert_eq!(
        names(&preg.parse_nodes(&value.bytes).unwrap()),
        ["a.site", "b.site"]
    );
    let error = preg.parse_nodes(b"domain:.site").unwrap_err();
    assert_eq!(
        (error.status(), error.offset()),
        (Status::ERR_BAD_PARAM, Some(12))
    );
}

#[test]
fn a_list_that_a_plugin_declines_goes_to_the_next_component() {
    let (_scratch, library) = rle();
    let preg = open(&[&library], &[]).unwrap();
    for list in [&b""[..], b"n1,n2", b"n*1,n*1"] {
        assert_eq!(preg.generate_node_regex(list).unwrap().framing, "raw");
    }
    assert_eq!(preg.generate_ppn(b"0,1;2,3").unwrap().framing, "raw");
}

#[test]
fn damage_is_an_error_with_the_plugins_message_and_offset() {
    let (_scratch, library) = rle();
    let preg = open(&[&library], &[]).unwrap();
    let error = preg.parse_nodes(b"rle:n1*3,n2*x").unwrap_err();
    assert_eq!(
        error.to_string(),
        "rle: expected a count of 2 or more at byte 12"
    );
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn limits_bind_a_plugin_before_it_expands() {
    let (_scratch, library) = rle();
    let settings = [("preg_base_max_nodes", "1000")];
    let preg = open(&[&library], &settings).unwrap();
    let error = preg.parse_nodes(b"rle:n1*999999999999999999").unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
    // A plugin that ignored the limit of names would still exceed the limit of bytes.
    let preg = open(&[&library], &[("preg_base_max_bytes", "1000")]).unwrap();
    let error = preg.parse_nodes(b"rle:n1*16000000").unwrap_err();
    assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE);
}

#[test]
fn copy_pack_unpack_and_release_support_plugin_values() {
    let (_scratch, library) = rle();
    let preg = open(&[&library], &[]).unwrap();
    assert_eq!(preg.copy(b"rle:n1*2\0rest").unwrap(), b"rle:n1*2\0");
    let value = preg.generate_node_regex(b"n1,n1").unwrap();
    assert!(preg.release(value).is_ok());
}

#[test]
fn settings_apply_to_a_plugin_as_to_any_component() {
    let (_scratch, library) = rle();
    let list = b"n1,n1,n1";
    let framing = |settings: &[(&str, &str)]| {
        let preg = open(&[&library], settings).unwrap();
        preg.generate_node_regex(list).unwrap().framing
    };
    assert_eq!(framing(&[("preg", "rle")]), "rle");
    assert_eq!(framing(&[("preg", "^rle")]), "raw");
    assert_eq!(framing(&[("preg_rle_enabled", "false")]), "raw");
    assert_eq!(framing(&[("preg_rle_priority", "1")]), "raw");
    // A disabled plugin still parses, unless parsing is disabled as well.
    let off = open(&[&library], &[("preg", "^rle")]).unwrap();
    assert_eq!(off.parse_nodes(b"rle:n1*2").unwrap().len(), 2);
    let silent = [("preg", "^rle"), ("preg_rle_parse", "false")];
    let error = open(&[&library], &silent).unwrap().parse_nodes(b"rle:n1*2");
    assert_eq!(error.unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn a_plugin_in_rust_encodes_and_decodes() {
    let library = rust_library();
    let preg = open(&[&library], &[]).unwrap();
    let value = preg.generate_node_regex(b"node01,node02,node10").unwrap();
    assert_eq!(value.bytes, b"prefix:4:node01,02,10");
    assert_eq!(
        names(&preg.parse_nodes(&value.bytes).unwrap()),
        ["node01", "node02", "node10"]
    );
    let error = preg.parse_nodes(b"prefix:9:n1").unwrap_err();
    assert_eq!(error.offset(), Some(11));
    let regex = Regex2Ref {
        kind: "prefix",
        bytes: b"1:n1,2",
    };
    assert_eq!(preg.parse_regex(regex).unwrap(), b"n1,n2");
}

#[test]
fn a_plugins_own_parameters_reach_it() {
    let library = rust_library();
    let framing = |value: &str| {
        let preg = open(&[&library], &[("preg_prefix_min_names", value)]).unwrap();
        preg.generate_node_regex(b"node1,node2").unwrap().framing
    };
    assert_eq!(framing("2"), "prefix");
    assert_eq!(framing("3"), "raw");
    let kind = open(&[&library], &[("preg_prefix_min_names", "x")]);
    let error = kind.err().unwrap().to_string();
    let expected = "the embedding program: preg_prefix_min_names = \"x\": expected a whole number";
    assert!(error.contains(expected), "{error}");
    // A value that only the component rejects excludes the component; the others work.
    let (preg, warnings) = warnings_of(|| open(&[&library], &[("preg_prefix_min_names", "-2")]));
    assert_eq!(
        preg.unwrap().generate_node_regex(b"n1,n2").unwrap().framing,
        "raw"
    );
    assert!(
        warnings.iter().any(|w| w.contains(
            " preg_prefix_min_names = \"-2\": expected a number from 0 up, or -1 for no limit \
             (preg_prefix_min_names is set by the embedding program)"
        ) && !w.contains("the host:")),
        "{warnings:?}"
    );
}

#[test]
fn both_plugins_work_side_by_side_from_many_threads() {
    let (_scratch, c) = rle();
    let preg = open(&[&c, &rust_library()], &[]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let preg = &preg;
            scope.spawn(move || {
                for round in 0..200 {
                    let twice = format!("t{thread}r{round},t{thread}r{round}");
                    let value = preg.generate_node_regex(twice.as_bytes()).unwrap();
                    assert!(matches!(value.framing.as_str(), "rle" | "prefix"));
                    let back = preg.parse_nodes(&value.bytes).unwrap();
                    assert_eq!(names(&back).join(","), twice);
                }
            });
        }
    });
}

#[test]
fn a_check_reports_the_plugin_and_its_operations() {
    let (_scratch, library) = rle();
    let report = check_plugin(&library, &Params::default(), &[]).unwrap();
    assert_eq!(
        (report.name.as_str(), report.priority, report.abi),
        ("rle", 120, (1, 1))
    );
    assert_eq!(
        (&*report.tag, report.kind.as_deref()),
        (&b"rle:"[..], Some("rle"))
    );
    let params = [("preg_rle_least".to_owned(), "1".to_owned())];
    assert_eq!(report.params.as_deref(), Some(&params[..]));
    assert!(!report.operations.contains(&"generate_ppn"));
    assert_eq!(report.faults().count(), 0, "{:?}", report.samples);
    let kept = |s: &&preg_core::Sample| matches!(s.outcome, Outcome::Kept(_));
    assert!(report.samples.iter().any(|s| kept(&s)));
    let counts = report.counts();
    assert!(counts.kept > 0 && counts.declined > 0, "{counts:?}");
    assert_eq!(counts.tried, counts.kept + counts.declined);
    assert_eq!(counts.encoded, counts.kept);
    assert!(report.is_sound());
    let given = [("mine".to_owned(), b"host1,host1,host1,host1,host2".to_vec())];
    let report = check_plugin(&library, &Params::default(), &given).unwrap();
    let mine = report.samples.iter().filter(|s| s.what == "mine");
    assert_eq!(
        mine.filter(|s| s.encoded).count(),
        2,
        "{:?}",
        report.samples
    );
    let report = check_plugin(&rust_library(), &Params::default(), &[]).unwrap();
    assert_eq!(report.faults().count(), 0, "{:?}", report.samples);
}

#[test]
fn modules_name_the_file_of_their_component() {
    let (_scratch, library) = rle();
    let preg = open(&[&library], &[]).unwrap();
    let status = preg.components().iter().find(|c| c.name == "rle").unwrap();
    assert_eq!(status.file.as_deref(), Some(&*library));
    assert_eq!(preg.modules()[0].scheme.name(), "rle");
    assert!(
        preg.components()
            .iter()
            .any(|c| c.name == "raw" && c.file.is_none())
    );
    let _: &Limits = preg.limits();
    let _: &dyn Scheme = &*preg.modules()[0].scheme;
}

thread_local! {
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A writer that keeps the log of each thread separately.
struct OfThisThread;

impl Write for OfThisThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.with_borrow_mut(|written| written.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the work; returns its result and the warnings that this thread logged.
///
/// The subscriber is global: with one per thread, a test without a subscriber that reached a
/// warning first would disable that warning for all tests.
pub(crate) fn warnings_of<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::WARN)
            .with_writer(|| OfThisThread)
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("the only one of this process");
    });
    let before = WRITTEN.take();
    let answer = work();
    let text = String::from_utf8(WRITTEN.replace(before)).unwrap();
    (answer, text.lines().map(str::to_owned).collect())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every fault ends in one warning that names the file and the fault, and the next component is
//! used.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pmix_builtin::check_plugin;
use preg_core::{Params, Preg, Status};
use tempfile::TempDir;

use super::build::c_library;
use super::examples::warnings_of;
use super::faults::{Fault, OF_CALLS, OF_VALUES};
use super::open;

const LIST: &[u8] = b"n2,n1,n3,n1";

fn faulty(fault: &str) -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let source = "crates/pmix-builtin/tests/it/plugins/faulty.c";
    let library = c_library(directory.path(), source, Some(fault));
    (directory, library)
}

fn framing(preg: &Preg) -> String {
    preg.generate_node_regex(LIST).unwrap().framing
}

#[test]
fn the_same_plugin_without_a_fault_is_selected() {
    let (_scratch, library) = faulty("SOUND");
    let (preg, warnings) = warnings_of(|| {
        let preg = open(&[&library], &[]).unwrap();
        assert_eq!(framing(&preg), "bad");
        assert_eq!(preg.generate_ppn(b"0-3;4,5").unwrap().framing, "bad");
        assert_eq!(preg.parse_procs(b"bad:0-3;4,5").unwrap().num_ranks(), 6);
        preg
    });
    assert_eq!(warnings, [""; 0]);
    assert!(preg.refused().is_empty());
}

/// Checks a rejected plugin: one warning, which is kept for display, and everything else works.
fn refused(library: &Path, expected: &str) {
    let (preg, warnings) = warnings_of(|| open(&[library], &[]).unwrap());
    assert_eq!(warnings.len(), 1, "{expected}: {warnings:?}");
    let file = library.file_name().unwrap().to_str().unwrap();
    for part in ["WARN", file, expected] {
        assert!(
            warnings[0].contains(part),
            "{part:?} is not in {:?}",
            warnings[0]
        );
    }
    assert_eq!(framing(&preg), "raw");
    assert_eq!(preg.refused().len(), 1);
    assert!(preg.refused()[0].to_string().contains(expected));
}

#[test]
fn rejects_invalid_headers() {
    for (fault, expected) in [
        ("NULL_TABLE", "returned NULL"),
        (
            "NUMBER_FOR_TABLE",
            "returned a number instead of an address",
        ),
        ("UNALIGNED_TABLE", "returned an unaligned address"),
        ("WRONG_MAGIC", "magic"),
        (
            "NEWER_ABI",
            "version 2.9 of the plugin ABI, this host has 1",
        ),
        (
            "SHORT_HEADER",
            "component header says it has 64 bytes, expected 128",
        ),
        (
            "HUGE_HEADER",
            "component header says it has 4294967295 bytes",
        ),
        ("OTHER_FRAMEWORK", "framework \"gds\""),
        ("OTHER_INTERFACE", "interface version 2, this host has 1"),
        ("NO_OPERATIONS", "without an operations table"),
        ("SHORT_OPERATIONS", "operations table says it has 4 bytes"),
        ("NO_SYMBOL", "exports no symbol pmixrs_component"),
        (
            "UNDEFINED_SYMBOL",
            "undefined symbol: there_is_no_such_function",
        ),
        (
            "QUERY_UNKNOWN_STATUS",
            "query: it returned the unknown status 7",
        ),
    ] {
        refused(&faulty(fault).1, expected);
    }
}

#[test]
fn rejects_invalid_names() {
    for (fault, expected) in [
        (
            "NAME_NOT_UTF8",
            "component name is not valid UTF-8 at byte 3",
        ),
        ("NAME_EMPTY", "component name is empty"),
        (
            "NAME_AT_NULL",
            "component name has 6 bytes, but its address is NULL",
        ),
        (
            "NAME_ABSURD",
            "component name has 18446744073709551615 bytes, at most 32",
        ),
        ("NAME_UPPER_CASE", "\"Faulty\" must be a lower-case letter"),
        ("NAME_RESERVED", "\"base\" is reserved"),
        ("ABOUT_NOT_UTF8", "description is not valid UTF-8 at byte 0"),
        ("TAG_LIKE_A_NAME", "tag \"bad\" must be"),
    ] {
        refused(&faulty(fault).1, expected);
    }
}

#[test]
fn rejects_invalid_parameters() {
    for (fault, expected) in [
        (
            "PARAM_AT_A_NUMBER",
            "returned a number instead of an address",
        ),
        (
            "PARAMS_TOO_MANY",
            "parameters are 18446744073709551615, at most 256 are allowed",
        ),
        ("PARAM_TOO_SMALL", "parameter says it has 16 bytes"),
        (
            "PARAM_OF_ANOTHER",
            "parameter name \"preg_raw_number\" must be preg_faulty_ and",
        ),
        (
            "PARAM_OF_ALL",
            "\"preg_faulty_priority\" is one that every component has",
        ),
        ("PARAM_TWICE", "\"preg_faulty_number\" is declared twice"),
        (
            "PARAM_ABSURD",
            "parameter name has 18446744073709551615 bytes, at most 128",
        ),
    ] {
        refused(&faulty(fault).1, expected);
    }
}

#[test]
fn declared_parameters_of_a_plugin_are_listed_and_checked() {
    let (_scratch, library) = faulty("DECLARES_PARAM");
    let set = |name: &str, value: &str| open(&[&library], &[(name, value)]);
    let preg = set("preg_faulty_number", "9").unwrap();
    let params = Params::builder().build().unwrap();
    let known = preg.catalog().describe(&params);
    let known = known.iter().find(|p| p.name == "preg_faulty_number");
    let known = known.map(|p| (p.component.as_deref(), &*p.default, &*p.help));
    assert_eq!(known, Some((Some("faulty"), "7", "a number")));
    for (name, value, expected) in [
        ("preg_faulty_number", "many", "a whole number"),
        ("preg_faulty_nubmer", "9", "preg_faulty_number"),
    ] {
        let error = set(name, value).err().unwrap().to_string();
        assert!(error.contains(name) && error.contains(expected), "{error}");
    }
}

#[test]
fn a_header_of_the_first_version_is_read_up_to_its_size() {
    let (_scratch, library) = faulty("HEADER_OF_VERSION_0");
    let preg = open(&[&library], &[("preg_faulty_mode", "on")]).unwrap();
    assert_eq!(framing(&preg), "bad");
}

#[test]
fn rejects_collisions_and_names_both_components() {
    for (fault, expected) in [
        (
            "NAME_TAKEN",
            "name \"raw\" collides with that of the built-in component \"raw\"",
        ),
        (
            "TAG_TAKEN",
            "tag \"raw:\" collides with that of the built-in component \"raw\"",
        ),
        (
            "TAG_WITHIN_ANOTHER",
            "tag \"pmix[x:\" collides with that of the built-in component",
        ),
        (
            "KIND_TAKEN",
            "regex2 type \"compress\" collides with that of the built-in component",
        ),
    ] {
        let (_scratch, library) = faulty(fault);
        // The check rejects the file for the reason for which it is not loaded.
        let error = check_plugin(&library, &Params::default(), &[]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        refused(&library, expected);
    }
}

#[test]
fn the_first_of_two_plugins_with_one_name_is_used() {
    let (_scratch, first) = faulty("SOUND");
    let (_other, second) = faulty("OLD_TABLE");
    let (preg, warnings) = warnings_of(|| open(&[&first, &second], &[]).unwrap());
    assert_eq!(framing(&preg), "bad");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for file in ["libold_table.so", "libsound.so"] {
        assert!(warnings[0].contains(file), "{warnings:?}");
    }
}

#[test]
fn one_file_named_twice_is_loaded_once() {
    let (_scratch, library) = faulty("SOUND");
    let (preg, warnings) = warnings_of(|| open(&[&library, &library], &[]).unwrap());
    assert_eq!((framing(&preg).as_str(), warnings.len()), ("bad", 0));
}

#[test]
fn rejects_files_that_another_user_could_have_written() {
    let (scratch, library) = faulty("SOUND");
    let refused = |path: &Path, expected: &str| {
        let error = open(&[path], &[]).err().unwrap();
        assert_eq!(error.status(), preg_core::Status::ERR_NO_PERMISSIONS);
        for part in [expected, "is not trusted", "named by the embedding program"] {
            assert!(
                error.to_string().contains(part),
                "{part:?} is not in {error}"
            );
        }
    };
    refused(scratch.path(), "a directory of user");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&library, 0o775);
    refused(&library, "mode 0775");
    mode(&library, 0o755);
    mode(scratch.path(), 0o777);
    refused(&library, "mode 0777");
    mode(scratch.path(), 0o1777);
    assert_eq!(framing(&open(&[&library], &[]).unwrap()), "bad");
}

#[test]
fn rejects_files_that_are_not_libraries() {
    let (scratch, library) = faulty("SOUND");
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let sound = fs::read(&library).unwrap();
    refused(
        &scratch.path().join("absent.so"),
        "cannot be read: No such file",
    );
    refused(&file("empty.so", b""), "the file is empty");
    refused(
        &file("text.so", b"#!/bin/sh\n"),
        "does not begin with an ELF header",
    );
    refused(&file("cut.so", &sound[..200]), "cannot be linked");
    refused(&file("head.so", &sound[..10]), "ends within its ELF header");
    let mut other = sound.clone();
    let machine: u16 = if cfg!(target_arch = "aarch64") {
        62
    } else {
        183
    };
    other[18..20].copy_from_slice(&machine.to_le_bytes());
    refused(&file("other.so", &other), "was built for");
    other[16] = 1;
    other[18..20].copy_from_slice(&sound[18..20]);
    refused(&file("object.so", &other), "object file");
}

/// Checks a failing encoder: one warning for any number of calls, and raw values.
fn passed_over((fault, expected, of_list): Fault) {
    let (_scratch, library) = faulty(fault);
    let (_, warnings) = warnings_of(|| {
        let preg = open(&[&library], &[]).unwrap();
        for _ in 0..3 {
            let value = preg.generate_node_regex(LIST).unwrap();
            assert_eq!(value.framing, "raw", "{fault}");
            assert_eq!(value.bytes, [b"raw:", LIST].concat());
        }
    });
    assert_eq!(warnings.len(), 1, "{fault}: {warnings:?}");
    let file = format!("lib{}.so", fault.to_lowercase());
    for part in ["generate_node_regex", &file, expected, of_list] {
        assert!(
            warnings[0].contains(part),
            "{part:?} is not in {:?}",
            warnings[0]
        );
    }
}

#[test]
fn skips_encoders_that_violate_the_interface() {
    for fault in OF_CALLS {
        passed_over(fault);
    }
}

#[test]
fn skips_values_that_do_not_survive() {
    for fault in OF_VALUES {
        passed_over(fault);
    }
}

#[test]
fn detects_ranks_in_other_positions() {
    for fault in ["LOSES_ORDER", "LOSES_A_NAME", "CHANGES_A_NAME"] {
        let (_scratch, library) = faulty(fault);
        let preg = open(&[&library], &[]).unwrap();
        // The order of ranks within a node counts as well.
        assert_eq!(
            preg.generate_ppn(b"0,1,2;3").unwrap().framing,
            "raw",
            "{fault}"
        );
    }
}

#[test]
fn a_faulty_decoder_is_an_error_for_its_own_values() {
    for fault in ["DECODER_FAILS", "DECODER_BAD_OFFSET"] {
        let (_scratch, library) = faulty(fault);
        let (error, warnings) = warnings_of(|| {
            let preg = open(&[&library], &[]).unwrap();
            preg.parse_nodes(b"bad:n1").unwrap_err()
        });
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
    }
    let (_scratch, library) = faulty("LENGTH_TOO_LONG");
    let preg = open(&[&library], &[]).unwrap();
    let error = preg.copy(b"bad:n1").unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNPACK_READ_PAST_END_OF_BUFFER);
}

#[test]
fn slots_beyond_the_size_of_the_table_are_not_read() {
    let (_scratch, library) = faulty("OLD_TABLE");
    let preg = open(&[&library], &[]).unwrap();
    assert_eq!(framing(&preg), "bad");
    assert_eq!(preg.generate_ppn(b"0;1").unwrap().framing, "raw");
    assert!(preg.parse_procs(b"bad:0;1").is_err());
}

#[test]
fn a_component_that_cannot_work_is_excluded_without_a_warning() {
    let (_scratch, library) = faulty("QUERY_DECLINES");
    let (preg, warnings) = warnings_of(|| open(&[&library], &[]).unwrap());
    assert_eq!((framing(&preg).as_str(), warnings.len()), ("raw", 0));
    let status = preg
        .components()
        .iter()
        .find(|c| c.name == "faulty")
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
}

#[test]
fn a_plugin_reads_its_settings_through_the_host() {
    let (_scratch, library) = faulty("ECHOES_PARAM");
    let framing = |settings: &[(&str, &str)]| framing(&open(&[&library], settings).unwrap());
    assert_eq!(framing(&[("preg_faulty_mode", "on")]), "bad");
    assert_eq!(framing(&[("preg_faulty_mode", "off")]), "raw");
}

#[test]
fn settings_of_a_refused_plugin_do_not_keep_the_library_from_starting() {
    let (_scratch, library) = faulty("WRONG_MAGIC");
    let preg = open(&[&library], &[("preg_faulty_mode", "on")]).unwrap();
    assert_eq!(framing(&preg), "raw");
    // Selecting it by name is an error, whose message has the reason.
    let error = open(&[&library], &[("preg", "faulty")])
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("unknown component \"faulty\""), "{error}");
    assert!(
        error.contains("libwrong_magic.so") && error.contains("magic"),
        "{error}"
    );
}

#[test]
fn a_check_finds_every_fault() {
    for fault in [
        "PANICS",
        "UNKNOWN_STATUS",
        "POSITIVE_STATUS",
        "ENCODER_ERROR",
        "WRITES_NULL",
        "WRITES_ABSURD_LENGTH",
        "FLOODS",
        "WRONG_TAG",
        "WRITES_NOTHING",
        "LOSES_ORDER",
        "LOSES_A_NAME",
        "CHANGES_A_NAME",
        "UNDECODABLE",
        "DECODER_DECLINES",
        "DECODER_FAILS",
        "DECODER_BAD_OFFSET",
        "LENGTH_TOO_LONG",
        "LENGTH_ZERO",
        "MESSAGE_NOT_UTF8",
        "NUL_INSIDE",
    ] {
        let (_scratch, library) = faulty(fault);
        let report = check_plugin(&library, &Params::default(), &[]).unwrap();
        assert!(report.faults().next().is_some(), "{fault}");
        assert!(!report.is_sound(), "{fault}");
    }
    let (_scratch, library) = faulty("SOUND");
    let report = check_plugin(&library, &Params::default(), &[]).unwrap();
    assert!(report.is_sound(), "{:?}", report.samples);
}

#[test]
fn a_check_names_the_failed_samples() {
    let (_scratch, library) = faulty("LOSES_ORDER");
    let report = check_plugin(&library, &Params::default(), &[]).unwrap();
    let wrong: Vec<_> = report.faults().map(|s| s.what.as_str()).collect();
    assert!(wrong.contains(&"names out of order"), "{wrong:?}");
    let counts = report.counts();
    assert!(counts.encoded > counts.kept, "{counts:?}");
    assert!(!report.is_sound());
    let (_scratch, library) = faulty("DECLINES_ALL");
    let report = check_plugin(&library, &Params::default(), &[]).unwrap();
    assert_eq!(report.faults().count(), 0, "{:?}", report.samples);
    assert_eq!((report.counts().kept, report.counts().encoded), (0, 0));
    assert_eq!(report.counts().declined, report.counts().tried);
    assert!(!report.is_sound());
    let (_scratch, library) = faulty("NO_SYMBOL");
    let error = check_plugin(&library, &Params::default(), &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("libno_symbol.so") && error.contains("no symbol"),
        "{error}"
    );
}

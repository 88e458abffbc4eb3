// SPDX-License-Identifier: MIT OR Apache-2.0
//! Help: in the colour that is asked for, whole or an error, and with what was probably meant.

mod command;

use std::fs::OpenOptions;

use command::{command, pmix};

const JOB: [&str; 4] = ["--nodes", "n1,n2", "--procs", "0;1"];

#[test]
fn help_has_the_colour_that_is_asked_for() {
    for args in [
        &["--color", "never", "--help"][..],
        &["--color=never", "map", "--help"],
        &["map", "--color", "never", "draw", "--help"],
    ] {
        let outcome = pmix(args);
        assert_eq!(outcome.code, 0, "{args:?}");
        assert!(!outcome.stdout.contains(&0x1b), "{args:?}");
    }
    let outcome = pmix(&["--color", "always", "map", "--help"]);
    assert!(outcome.stdout.contains(&0x1b));
    // Errors of the parser, too.
    let outcome = pmix(&["--color", "always", "map", "no-such"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains('\u{1b}'), "{}", outcome.stderr);
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for args in [&["--help"][..], &["--version"], &["run", "--help"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = "the output cannot be written: No space left";
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn a_key_that_no_attribute_has_is_asked_for_and_the_nearest_are_named() {
    for (key, meant) in [
        ("hostname", "did you mean PMIX_HOSTNAME?"),
        ("PMIX_JOB_SIEZ", "PMIX_JOB_SIZE"),
        ("pmix.job.siez", "pmix.job.size"),
    ] {
        let outcome = pmix(&[&["get"], &JOB[..], &[key]].concat());
        assert_eq!(outcome.code, 1, "{key}");
        assert!(outcome.stderr.contains(meant), "{key}: {}", outcome.stderr);
    }
    let outcome = pmix(&[&["get"], &JOB[..], &["PMIX_WDIR"]].concat());
    let expected = "--all prints what is known";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
}

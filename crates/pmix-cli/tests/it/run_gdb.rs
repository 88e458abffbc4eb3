// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` under a debugger that supports MPIR, simulated by gdb.

use std::process::Command;

use crate::command::finish;
use crate::command::launcher::assert_nothing_left;

/// Returns the gdb output for a field of a row of the table, in C syntax.
fn field(row: u32, kind: &str, offset: u32) -> String {
    let at = row * 24 + offset;
    format!("*({kind}*)(*(char**)&MPIR_proctable + {at})")
}

#[test]
#[ignore = "needs gdb"]
fn a_debugger_that_knows_mpir_finds_the_processes_before_they_begin() {
    let tmp = tempfile::tempdir().unwrap();
    let pmix = env!("CARGO_BIN_EXE_pmix");
    let mut script = vec![
        "set language c".to_owned(),
        "break main".to_owned(),
        "run".to_owned(),
        "set var *(int*)&MPIR_being_debugged = 1".to_owned(),
        "break MPIR_Breakpoint".to_owned(),
        "continue".to_owned(),
        "printf \"state %d size %d\\n\", *(int*)&MPIR_debug_state, *(int*)&MPIR_proctable_size"
            .to_owned(),
    ];
    for row in 0..2 {
        let (host, program) = (field(row, "char*", 0), field(row, "char*", 8));
        let pid = field(row, "int", 16);
        script.push(format!(
            "printf \"row {row} on %s: %s\\n\", {host}, {program}"
        ));
        script.push(format!("eval \"shell grep State: /proc/%d/status\", {pid}"));
    }
    script.push("continue".to_owned());
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "--batch"]);
    for line in &script {
        gdb.args(["-ex", line]);
    }
    gdb.args([
        "--args",
        pmix,
        "run",
        "-n",
        "2",
        "--node-name",
        "n1",
        pmix,
        "hello",
    ]);
    gdb.env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", tmp.path());
    let outcome = finish(gdb, b"");
    let text = outcome.text();
    let said = format!("{text}\n{}", outcome.stderr);
    assert!(text.contains("state 1 size 2\n"), "{said}");
    for row in 0..2 {
        assert!(
            text.contains(&format!("row {row} on n1: {pmix}\n")),
            "{said}"
        );
    }
    assert_eq!(text.matches("T (stopped)").count(), 2, "{said}");
    // The processes continue with the launcher.
    assert_eq!(text.matches(" of 2").count(), 2, "{said}");
    assert!(text.contains("exited normally"), "{said}");
    assert_nothing_left(&tmp);
}

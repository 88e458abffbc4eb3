// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that cannot be executed, with and without a terminal, and with a stop on exec.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::command::run;
use crate::run_terminal::Terminal;

/// Makes a file with this content and mode.
fn put(dir: &Path, name: &str, content: &[u8], mode: u32) {
    let path = dir.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns what a launcher writes to its terminal, and its exit code.
fn at_a_terminal(args: &[&str]) -> (String, i32) {
    let mut terminal = Terminal::start(&[&["--color", "never"], args].concat());
    let mut screen = Vec::new();
    // A terminal without programs ends with an error.
    let _ = terminal.screen.read_to_end(&mut screen);
    let screen = String::from_utf8_lossy(&screen).replace("\r\n", "\n");
    (screen, terminal.end().unwrap())
}

// Planted: the process of a terminal starts a file that is no program with a shell, or reports the error itself.
#[test]
fn a_program_that_cannot_be_executed_has_the_same_message_at_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    put(dir.path(), "mode", b"#!/bin/sh\necho ran\n", 0o644);
    put(dir.path(), "plain", b"echo ran\n", 0o755);
    put(dir.path(), "empty", b"", 0o755);
    put(dir.path(), "damaged", b"\x7fELF and no more", 0o755);
    put(dir.path(), "interpreter", b"#!/no/such\n", 0o755);
    fs::create_dir(dir.path().join("dir")).unwrap();
    let line = format!("#!{}\n", path("dir"));
    put(dir.path(), "interpreted", line.as_bytes(), 0o755);
    // The file of another machine has another number of the machine.
    let mut other = fs::read("/bin/true").unwrap();
    other[18] ^= 0xff;
    put(dir.path(), "other", &other, 0o755);
    for (name, code, what) in [
        ("absent", 127, "No such file or directory"),
        ("mode", 126, "Permission denied"),
        ("plain", 126, "Exec format error"),
        ("empty", 126, "Exec format error"),
        ("damaged", 126, "Exec format error"),
        ("other", 126, "Exec format error"),
        ("interpreter", 127, "its interpreter /no/such: No such file"),
        ("interpreted", 126, "Permission denied"),
        ("dir", 126, "Permission denied"),
    ] {
        let program = path(name);
        let args = ["-n", "2", &program];
        let plain = run(&args);
        assert_eq!(plain.code, code, "{name}: {}", plain.stderr);
        assert!(plain.stderr.contains(what), "{name}: {}", plain.stderr);
        assert!(
            plain.stderr.contains("  help: "),
            "{name}: {}",
            plain.stderr
        );
        assert_eq!(plain.text(), "", "{name}");
        // The first rank that fails is named.
        let said = plain.stderr.replace("rank 1", "rank 0");
        let (screen, code_there) = at_a_terminal(&args);
        assert_eq!(screen.replace("rank 1", "rank 0"), said, "{name}");
        assert_eq!(code_there, code, "{name}: {screen}");
        let stopped = run(&[&["--stop-on-exec"], &args[..]].concat());
        assert_eq!(stopped.stderr.replace("rank 1", "rank 0"), said, "{name}");
        assert_eq!(stopped.code, code, "{name}: {}", stopped.stderr);
    }
}

// The command that executes the program ignores SIGPIPE, and the program must not.
#[test]
fn a_program_at_a_terminal_has_the_signals_of_others() {
    let script = "grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let args = ["-n", "1", "sh", "-c", script];
    let plain = run(&args);
    let (screen, code) = at_a_terminal(&args);
    assert_eq!((code, plain.code), (0, 0), "{screen}");
    // The program of the terminal resets signals that a shell ignores for a command in the background: SIGHUP, SIGINT and
    // SIGQUIT.
    let set = |text: &str, name: &str| {
        let mut lines = text.lines();
        let found = lines.find_map(|line| line.trim().strip_prefix(name));
        u64::from_str_radix(found.unwrap().trim(), 16).unwrap() & !0b111
    };
    for name in ["SigBlk:", "SigIgn:"] {
        assert_eq!(set(&screen, name), set(&plain.text(), name), "{screen}");
    }
    // SIGPIPE has the number 13.
    assert_eq!(set(&screen, "SigIgn:") & (1 << 12), 0, "{screen}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of docs/cli.md and of the README are real: each that shows `pmix` is run, and must
//! print what the page shows.
//!
//! `PMIX_DOCS=write cargo test -p pmix-cli --test docs` writes what they print into the pages.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The page with the output of every `console` block made anew.
fn rerun(page: &str, run: impl Fn(&str) -> String) -> String {
    let mut made = String::new();
    let mut in_console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_console = line == "```console";
        } else if line.starts_with("$ cargo ") {
            // Set-up commands show no output.
            in_console = false;
        } else if in_console && !line.starts_with("$ ") {
            continue;
        }
        made.push_str(line);
        made.push('\n');
        if let (true, Some(command)) = (in_console, line.strip_prefix("$ ")) {
            let output = run(command);
            made.push_str(output.trim_end_matches('\n'));
            made.push_str(if output.trim().is_empty() { "" } else { "\n" });
        }
    }
    made
}

/// A directory with the files that the page itself shows by `$ cat FILE`, and no others: what an example reads, a
/// reader has before.
fn files(page: &str, name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("docs-{name}"));
    // What is not there need not be removed.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    let mut shown: Option<(&str, String)> = None;
    for line in page.lines() {
        if let Some((file, text)) = &mut shown {
            if !line.starts_with("$ ") && !line.starts_with("```") {
                text.push_str(line);
                text.push('\n');
                continue;
            }
            std::fs::write(dir.join(&**file), text).expect("the file");
        }
        let file = line.strip_prefix("$ cat ");
        shown = file.map(|file| (file, String::new()));
    }
    dir
}

/// What a command prints, run where the files are.
fn run(command: &str, dir: &Path) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_pmix"))
        .parent()
        .expect("a directory");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(dir)
        .env_clear()
        .env("PATH", &path)
        .env("HOME", "/nonexistent")
        .output()
        .expect("a shell");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the page is written when asked")]
fn every_example_prints_what_the_page_shows() {
    for (name, least) in [("docs/cli.md", 30), ("README.md", 10)] {
        let page = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name);
        let shown = std::fs::read_to_string(&page).expect("the page");
        let dir = files(
            &shown,
            page.file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or_default(),
        );
        let made = rerun(&shown, |command| run(command, &dir));
        if std::env::var_os("PMIX_DOCS").is_some_and(|v| v == "write") {
            std::fs::write(&page, made).expect("the page is written");
            continue;
        }
        for (line, (shown, made)) in shown.lines().zip(made.lines()).enumerate() {
            assert_eq!(shown, made, "{name} line {}", line + 1);
        }
        assert_eq!(shown.len(), made.len(), "{name} ends too early or too late");
        assert!(shown.matches("pmix ").count() > least);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of help (color, errors of writing, suggestions), of exit codes, and of the examples in the
//! documents.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{assert_nothing_left, command, finish, launcher, pmix};
use crate::console;

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
    // Errors of the parser are colored, too.
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
        let expected = "cannot write the output: No space left";
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

/// Checks that an invalid command line exits with code 2 and this text.
fn misused(args: &[&str], expected: &str) {
    let outcome = pmix(args);
    assert_eq!(outcome.code, 2, "{args:?}");
    let said = &outcome.stderr;
    assert!(said.contains(expected), "{args:?}: {said}");
}

#[test]
fn a_command_that_there_is_not_is_answered_with_the_one_that_is_meant() {
    for (args, meant) in [
        (&["convert", "n1"][..], "tip: use `pmix map convert`"),
        (&["mpa", "count"], "tip: did you mean `pmix map`?"),
        (
            &["map", "cuont", "n1"],
            "tip: did you mean `pmix map count`?",
        ),
        (&["--json", "rnu"], "tip: did you mean `pmix run`?"),
    ] {
        misused(args, meant);
    }
    misused(&["xyzzyq"], "tip: `pmix --help` lists the commands");
}

#[test]
fn an_invalid_number_is_answered_with_the_valid_ones() {
    for (args, expected) in [
        (
            &["map", "split", "0", "n1"][..],
            "expected a number of at least 1",
        ),
        (&["map", "chop", "x", "n1"], "expected a number from 1 to "),
        (
            &["map", "nth", "x", "n1"],
            "expected a position, counted from zero",
        ),
    ] {
        misused(args, expected);
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
    let expected = "--all prints all known values";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
}

#[test]
fn the_version_says_more_when_it_is_asked_to() {
    let short = pmix(&["--version"]).text();
    assert_eq!(short.lines().count(), 1, "{short}");
    for args in [&["--version", "-v"][..], &["-vV"], &["--verbose", "-V"]] {
        let text = pmix(args).text();
        for part in [
            &*short,
            "features",
            "native",
            "v41",
            "compiler     rustc 1.",
        ] {
            assert!(text.contains(part), "{args:?}: {part:?} is not in {text}");
        }
    }
}

#[test]
fn the_manual_has_a_page_for_every_command_and_two_topics() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    let outcome = pmix(&["man", pages.to_str().unwrap()]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let run = page("man1/pmix-run.1");
    for part in [
        ".TH pmix-run 1",
        ".SH OPTIONS",
        ".SH DETAILS",
        ".SH EXAMPLES",
        "pmix run \\-n 4 hostname",
        ".SH \"EXIT STATUS\"",
        ".SH \"SEE ALSO\"",
    ] {
        assert!(run.contains(part), "{part:?} is not in pmix-run.1");
    }
    let first = page("man1/pmix.1");
    for part in [".SH ENVIRONMENT", ".SH FILES", ".SH \"EXIT STATUS\""] {
        assert_eq!(first.matches(part).count(), 1, "{part:?} of pmix.1");
    }
    for part in ["ENVIRONMENT", "NO_COLOR", "plugins.toml", "EXIT STATUS"] {
        let page = page("man1/pmix.1");
        assert!(
            page.to_lowercase().contains(&part.to_lowercase()),
            "{part:?} is not in pmix.1"
        );
    }
    assert!(page("man7/pmix-maps.7").contains("Bracket lists"));
    assert!(page("man7/pmix-json.7").contains("PMIX_UINT64"));
    // Only the tree of share/man separates the sections; other directories hold all pages.
    let other = directory.path().join("pages");
    pmix(&["man", other.to_str().unwrap()]);
    assert!(other.join("pmix-maps.7").is_file());
}

#[test]
fn pages_go_into_a_directory_and_into_none_that_has_the_name_of_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("file"), "kept").unwrap();
    for name in ["file", "file/man1"] {
        let outcome = pmix(&["man", &path(name)]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        let expected = format!("{} is not a directory", path(name));
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
    }
    assert_eq!(std::fs::read(path("file")).unwrap(), b"kept");
    std::fs::create_dir_all(path("pages/pmix.1")).unwrap();
    let outcome = pmix(&["man", &path("pages")]);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let expected = format!("{} is a directory", path("pages/pmix.1"));
    assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
    assert_eq!(pmix(&["man", ""]).code, 2);
}

/// Checks that files named in the help are installed with the command.
#[test]
fn help_names_no_file_of_the_sources() {
    let mut due = vec![vec!["--help".to_owned()]];
    for name in ["map", "wire", "plugins"] {
        let text = pmix(&[name, "--help"]).text();
        let (_, commands) = text.split_once("Commands:\n").unwrap();
        let commands = commands.lines().take_while(|line| !line.is_empty());
        let words = commands.filter_map(|line| line.split_whitespace().next());
        due.extend(words.map(|word| vec![name.to_owned(), word.to_owned(), "--help".to_owned()]));
    }
    for name in [
        "get", "run", "query", "ps", "top", "kill", "release", "events", "attach", "publish",
        "lookup", "hello", "info", "attr", "status",
    ] {
        due.push(vec![name.to_owned(), "--help".to_owned()]);
    }
    for words in due {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let text = pmix(&words).text();
        assert!(!text.contains("docs/"), "{words:?}");
    }
}

// The examples of the documents and of the README: each `console` block is run, and must print the output that the
// page shows.
//
// `PMIX_DOCS=write cargo test -p pmix-cli --test it docs` writes the current output into the pages.

/// Returns a directory with exactly the files that the page shows by `$ cat FILE`: an example may only read files that
/// a reader has seen.
fn files(page: &str, name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("docs-{name}"));
    // The directory may not exist yet.
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

/// Returns the README and every document with a `console` block.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).expect("the documents");
    let mut pages: Vec<_> = docs
        .map(|entry| entry.expect("a document").path())
        .collect();
    pages.push(root.join("README.md"));
    pages.retain(|page| {
        page.extension().is_some_and(|extension| extension == "md")
            && std::fs::read_to_string(page).is_ok_and(|text| text.contains("```console"))
    });
    pages.sort();
    pages
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the page is written when asked")]
fn every_example_prints_what_the_page_shows() {
    let pages = pages();
    let all = pages
        .iter()
        .map(|page| std::fs::read_to_string(page).expect("the page"));
    let all: String = all.collect();
    // A block changed to plain text would silently not be run. `help_examples` runs those of the help and the manual pages.
    let (blocks, commands) = (
        all.matches("```console").count(),
        all.matches("\n$ ").count(),
    );
    assert!(
        pages.len() >= 3 && blocks >= 52 && commands >= 160,
        "{blocks} blocks, {commands} commands"
    );
    for page in pages {
        let name = page.file_name().and_then(|name| name.to_str());
        let name = name.expect("a name");
        let shown = std::fs::read_to_string(&page).expect("the page");
        let dir = files(&shown, name);
        let made = console::rerun(&shown, &dir);
        if std::env::var_os("PMIX_DOCS").is_some_and(|v| v == "write") {
            std::fs::write(&page, made).expect("the page is written");
            continue;
        }
        for (line, (shown, made)) in shown.lines().zip(made.lines()).enumerate() {
            assert_eq!(shown, made, "{name} line {}", line + 1);
        }
        assert_eq!(shown.len(), made.len(), "{name} ends too early or too late");
    }
}

const SOURCE: &str = r#"
#include <stdlib.h>
#if INITIALISER
__attribute__((constructor)) static void begin(void) { exit(0); }
#endif
const void *pmixrs_component(void) { exit(0); }
"#;

/// Compiles the library.
fn compile(dir: &Path, name: &str, option: &str) -> String {
    let (source, library) = (dir.join("exit.c"), dir.join(name));
    fs::write(&source, SOURCE).unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "the compiler is chosen by the environment"
    )]
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(["-shared", "-fPIC", option, "-o"]);
    compile.arg(&library).arg(&source);
    assert!(compile.status().expect("a C compiler").success());
    fs::set_permissions(&library, Permissions::from_mode(0o755)).unwrap();
    library.display().to_string()
}

#[test]
fn a_plugin_that_calls_exit_while_it_is_loaded_is_named_and_fails_the_command() {
    let dir = tempfile::tempdir().unwrap();
    for (name, option) in [
        ("begin.so", "-DINITIALISER=1"),
        ("entry.so", "-DINITIALISER=0"),
    ] {
        let library = compile(dir.path(), name, option);
        let outcome = pmix(&["plugins", "check", &library]);
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.stderr);
        let expected = format!("plugin {library}: it ended the process");
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);

        let config = dir.path().join("plugins.toml");
        fs::write(&config, format!("[[plugin]]\npath = {library:?}\n")).unwrap();
        fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
        let (mut command, tmp) = launcher(&["true"]);
        command.env("PMIX_PLUGINS", &config);
        let outcome = finish(command, b"");
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
        assert_nothing_left(&tmp);
    }
}

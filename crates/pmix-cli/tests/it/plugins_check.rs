// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix plugins check` with plugins that the test compiles: each kind of fault is reported, and a
//! plugin written by docs/plugins.md passes.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::build;
use crate::build::top;
use crate::command::{command, finish, pmix};
use crate::faults::{OF_CALLS, OF_VALUES};

/// Runs a shell command in a folder, with the built command on the path.
fn shell(folder: &Path, line: &str) -> (bool, String) {
    let command = Path::new(env!("CARGO_BIN_EXE_pmix"));
    let path = command.parent().expect("a folder").display();
    let script = format!("PATH={path}:$PATH; {line}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder);
    shell.envs(build::rust_settings());
    let output = shell.output().expect("a shell");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

/// Compiles the plugin with one fault.
fn faulty(folder: &Path, fault: &str) -> String {
    let source = "crates/pmix-builtin/tests/it/plugins/faulty.c";
    let library = build::c_library(folder, source, Some(fault));
    library.display().to_string()
}

#[test]
fn the_check_names_each_way_of_misbehaving() {
    let folder = tempfile::tempdir().expect("a folder");
    for (fault, expected, _) in OF_CALLS.into_iter().chain(OF_VALUES) {
        let library = faulty(folder.path(), fault);
        let outcome = pmix(&["plugins", "check", &library]);
        let text = outcome.text();
        assert_eq!(outcome.code, 1, "{fault}: {text}");
        let is_named =
            |line: &str| line.trim_start().starts_with("fault") && line.contains(expected);
        assert!(
            text.lines().any(is_named),
            "{fault}: {expected:?} is not in {text}"
        );
        let verdict = text.lines().last().unwrap_or_default();
        assert!(
            verdict.contains("fault") && verdict.contains("lists tried"),
            "{fault}: {verdict}"
        );
    }
    let sound = pmix(&["plugins", "check", &faulty(folder.path(), "SOUND")]);
    assert_eq!(sound.code, 0, "{}", sound.text());
}

#[test]
fn a_plugin_that_declines_every_list_fails_the_check_and_is_asked_for_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = faulty(folder.path(), "DECLINES_ALL");
    let outcome = pmix(&["plugins", "check", &library]);
    let text = outcome.text();
    assert_eq!(outcome.code, 1, "{text}");
    for part in [
        "nothing was encoded:",
        "0 encoded, 0 kept",
        "pass a list that the plugin supports",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn an_invalid_parameter_of_a_plugin_names_its_source() {
    let folder = tempfile::tempdir().expect("a folder");
    build::c_library(folder.path(), "examples/plugins/c/preg_rle.c", None);
    let toml = folder.path().join("plugins.toml");
    let encode = |value: &str, source: &str| {
        let mut args = vec!["map", "encode", "n1,n1"];
        let text = format!("[[plugin]]\npath = \"libplugin.so\"\n\n[preg.rle]\nleast = {value}\n");
        let mut settings = text.as_str();
        if source != "file" {
            settings = text.split_once("[preg.rle]").expect("a section").0;
        }
        std::fs::write(&toml, settings).expect("a file");
        args.extend(["--config", toml.to_str().expect("a path of text")]);
        if source == "option" {
            args.extend(["--mca", "preg_rle_least", value]);
        }
        let mut command = command(&args);
        if source == "variable" {
            command.env("PMIX_MCA_preg_rle_least", value);
        }
        finish(command, b"")
    };
    for (source, named) in [
        ("option", "command line (--mca)"),
        ("variable", "environment variable PMIX_MCA_preg_rle_least"),
        ("file", "plugins.toml:5"),
    ] {
        // A value that is not a number is rejected before the plugin gets it.
        let value = if source == "file" { "\"x\"" } else { "x" };
        let outcome = encode(value, source);
        assert_eq!(outcome.code, 2, "{source}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(named),
            "{source}: {}",
            outcome.stderr
        );
        // A value that only the plugin knows to be invalid excludes the plugin.
        let outcome = encode("0", source);
        assert_eq!(outcome.text(), "raw:n1,n1", "{source}");
        let expected = format!("(preg_rle_least is set by {named}");
        let flat = outcome
            .stderr
            .replace(folder.path().to_str().unwrap_or_default(), "");
        let flat = flat.replace("is set by /", "is set by ");
        assert!(flat.contains(&expected), "{source}: {}", outcome.stderr);
    }
}

/// Returns the commands of a chapter of docs/plugins.md: indented lines, where a final `\` continues a line.
fn commands(page: &str, chapter: &str) -> Vec<String> {
    let (_, rest) = page
        .split_once(&format!("\n## {chapter}\n"))
        .expect("the chapter");
    let rest = rest.split("\n## ").next().unwrap_or_default();
    let mut commands: Vec<String> = Vec::new();
    let mut in_code = false;
    for line in rest.lines() {
        in_code ^= line.starts_with("```");
        let Some(text) = line.strip_prefix("    ").filter(|_| !in_code) else {
            continue;
        };
        match commands.last_mut().filter(|last| last.ends_with('\\')) {
            Some(last) => {
                last.pop();
                last.push_str(text);
            }
            None => commands.push(text.to_owned()),
        }
    }
    commands
}

#[test]
fn the_commands_of_the_page_lead_from_an_empty_directory_to_a_passing_check() {
    let page = std::fs::read_to_string(top().join("docs/plugins.md")).expect("the page");
    for chapter in [
        "From an empty directory to a passing check",
        "Write one in C",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["include", "examples"] {
            symlink(top().join(name), folder.path().join(name)).expect("a link");
        }
        let (_, code) = page.split_once("```cpp\n").expect("the program");
        let (code, _) = code.split_once("```\n").expect("its end");
        std::fs::write(folder.path().join("preg_domain.cpp"), code).expect("a file");
        let commands = commands(&page, chapter);
        assert_eq!(commands.len(), 3, "{chapter}: {commands:?}");
        follow(&page, folder.path(), &commands);
    }
}

/// Runs the commands of a page and checks that the last one prints the shown output.
fn follow(page: &str, folder: &Path, commands: &[String]) {
    let mut last = String::new();
    for command in commands {
        let (done, said) = shell(folder, command);
        assert!(done, "{command}: {said}");
        last = said;
    }
    let prints = format!("The last command prints `{}`", last.trim_end());
    assert!(page.contains(&prints), "{prints}");
}

#[test]
fn a_crate_as_the_page_has_it_leads_to_a_passing_check() {
    let page = std::fs::read_to_string(top().join("docs/plugins.md")).expect("the page");
    let commands = commands(&page, "Write one in Rust");
    assert_eq!(commands.len(), 3, "{commands:?}");
    build::rust_library();
    follow(&page, &build::rust_crate(), &commands);
}

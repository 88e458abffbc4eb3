// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of the repository and the build, and compilers.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the directory of this test, where cargo puts the library.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("a test is in a folder").to_owned()
}

/// Returns the path of the shared library: the one under test by a tool, or else the one that cargo built.
pub(crate) fn shared() -> PathBuf {
    match variable("PMIX_TEST_LIBRARY") {
        Some(path) => PathBuf::from(path),
        None => built().join("libpmix_capi.so"),
    }
}

/// Returns `true` if `cargo xtask sanitize` runs the tests, under valgrind or a sanitizer.
pub(crate) fn is_under_tool() -> bool {
    variable("PMIX_TEST_LIBRARY").is_some()
}

/// Returns a variable of the environment that configures the tests.
#[expect(clippy::disallowed_methods, reason = "a tool looks at the same tests")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the words of a variable that a tool has set.
fn words(variable: &str) -> Vec<String> {
    let text = self::variable(variable).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The ways in which a program is linked with the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    Shared,
    Statically,
    /// Not linked: the program opens the library itself.
    Not,
}

/// Compiles a program of one source file. The directory contains the library afterwards.
pub(crate) fn cc(source: &Path, folder: &Path, flags: &[&str], linked: Linked) -> PathBuf {
    let name = source.file_stem().expect("a source has a name");
    let to = folder.join(name).with_extension(format!("{linked:?}"));
    let object = to.with_extension("o");
    let mut command = Command::new("cc");
    command.args(flags).args(words("PMIX_TEST_CFLAGS"));
    command.arg("-I").arg(root().join("include"));
    command.arg("-I").arg(folder).arg("-c").arg(source);
    must(command.arg("-o").arg(&object));
    let mut command = Command::new("cc");
    command.arg(&object).arg("-o").arg(&to);
    match linked {
        Linked::Statically => command.arg(archive()),
        Linked::Shared => command.arg("-L").arg(library(folder)).arg("-lpmix"),
        Linked::Not => &mut command,
    };
    must(
        command
            .args(["-lm", "-lpthread", "-ldl"])
            .args(words("PMIX_TEST_LDFLAGS")),
    );
    under_tool(to)
}

/// Returns the program, or a script that runs it under the tool.
fn under_tool(program: PathBuf) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let words = words("PMIX_TEST_UNDER");
    if words.is_empty() {
        return program;
    }
    let script = program.with_extension("sh");
    let (words, shown) = (words.join(" "), program.display());
    let text = format!("#!/bin/sh\nexec {words} {shown} \"$@\"\n");
    std::fs::write(&script, text).expect("a script");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("its mode");
    script
}

/// Returns the path of the static library.
pub(crate) fn archive() -> PathBuf {
    built().join("libpmix_capi.a")
}

/// Returns a column of a table in `data`.
pub(crate) fn column(table: &str, name: &str) -> Vec<String> {
    let path = root().join("data").join(format!("{table}.tsv"));
    let text = std::fs::read_to_string(&path).expect("the tables are there");
    let mut lines = text.lines();
    let head = lines.next().expect("a table has a head");
    let place = head
        .split('\t')
        .position(|column| column == name)
        .expect("a column");
    lines
        .map(|line| line.split('\t').nth(place).unwrap_or_default().to_owned())
        .collect()
}

/// The time limit for a program of a test, which also covers a slow compiler.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs a command until it exits. Panics after the time limit.
pub(crate) fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn();
    ended(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Waits for a process and returns its output. Kills it and panics after the time limit.
pub(crate) fn ended(mut child: Child) -> Output {
    let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child is waited for") {
            break status;
        }
        if begun.elapsed() > LIMIT {
            child.kill().expect("a child can be killed");
            child.wait().expect("a killed child ends");
            let said = stderr.join().expect("a reader");
            panic!(
                "a program did not end in {LIMIT:?}: {}",
                String::from_utf8_lossy(&said)
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Output {
        status,
        stdout: stdout.join().expect("a reader"),
        stderr: stderr.join().expect("a reader"),
    }
}

/// Reads all output of a process on a thread of its own, so that the caller can wait for the process.
fn read(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut said);
        }
        said
    })
}

/// Runs a command that must succeed, and returns its output.
pub(crate) fn must(command: &mut Command) -> String {
    let output = run(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}: {said}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the installed compilers among `names`; at least one must be.
pub(crate) fn compilers(names: &[&'static str]) -> Vec<&'static str> {
    let there = |name: &&&'static str| Command::new(name).arg("--version").output().is_ok();
    let found: Vec<_> = names.iter().filter(there).copied().collect();
    assert!(!found.is_empty(), "none of {names:?} is installed");
    found
}

/// Adds the library to a directory under the names by which programs load it.
pub(crate) fn library(folder: &Path) -> &Path {
    for name in ["libpmix.so.2", "libpmix.so"] {
        let link = folder.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(shared(), link).expect("a link");
        }
    }
    folder
}

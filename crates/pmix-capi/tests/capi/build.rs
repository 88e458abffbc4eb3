// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where things are, and compilers.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder where cargo put the library, beside this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("a test is in a folder").to_owned()
}

/// The shared library.
pub(crate) fn shared() -> PathBuf {
    built().join("libpmix_capi.so")
}

/// The static library.
pub(crate) fn archive() -> PathBuf {
    built().join("libpmix_capi.a")
}

/// The rows of a table: those of the columns that are named.
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

/// How long a program of a test may take; a compiler may take longer than its C program.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs a command to its end, which must come within the limit.
pub(crate) fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn();
    ended(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// What a process printed, which must end within the limit; it is killed if it does not.
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

/// Reads all that a process prints, while others wait for its end.
fn read(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut said);
        }
        said
    })
}

/// Runs a command that must succeed, and returns what it printed.
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

/// The C compilers of this machine; one must be there, others are tried if they are.
pub(crate) fn compilers(names: &[&'static str]) -> Vec<&'static str> {
    let there = |name: &&&'static str| Command::new(name).arg("--version").output().is_ok();
    let found: Vec<_> = names.iter().filter(there).copied().collect();
    assert!(!found.is_empty(), "none of {names:?} is installed");
    found
}

/// A folder with the library under the name by which programs look for it.
pub(crate) fn library(folder: &Path) -> &Path {
    for name in ["libpmix.so.2", "libpmix.so"] {
        std::os::unix::fs::symlink(shared(), folder.join(name)).expect("a link");
    }
    folder
}

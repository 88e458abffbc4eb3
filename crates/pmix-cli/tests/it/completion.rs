// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions in real shells: names of jobs, signals, parts and attributes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{Running, finish, pmix};

/// Starts a job that runs until the test ends. Returns it with its name.
fn job() -> (Running, String) {
    let mut running = Running::start(&[
        "--node-name",
        "n1",
        "-n",
        "1",
        "sh",
        "-c",
        "echo up; exec sleep 600",
    ]);
    assert_eq!(running.line(), "up");
    let names = running.tool(&["completions", "--list", "jobs"]);
    let name = names.text();
    assert!(name.ends_with("@1") && !name.contains('\n'), "{name}");
    (running, name)
}

/// Returns a shell in which `pmix` is the tested command, and its tools find the server.
fn shell(running: &Running, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    let ours = Path::new(env!("CARGO_BIN_EXE_pmix")).parent().unwrap();
    command.args(args).env_clear();
    command
        .env("PATH", format!("{}:/usr/bin:/bin", ours.display()))
        .env("HOME", running.tmp.path())
        .env("TMPDIR", running.tmp.path())
        .env("TERM", "dumb")
        .env("PMIX_HOSTNAME", "n1");
    command
}

/// Writes the script of a shell into a directory of its own.
fn script(shell: &str, dir: &Path) -> String {
    let path = dir.join("_pmix");
    fs::write(&path, pmix(&["completions", shell]).stdout).unwrap();
    path.display().to_string()
}

#[test]
fn bash_completes_jobs_signals_parts_and_attributes() {
    let (running, job) = job();
    let dir = tempfile::tempdir().unwrap();
    let script = script("bash", dir.path());
    let complete = |line: &str| {
        let text = format!(
            "source {script}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
             COMP_WORDS=($(printf '%s' \"$COMP_LINE\" | sed 's/@/ @ /g')); \
             [[ $COMP_LINE == *[\\ @] ]] && COMP_WORDS+=(''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _pmix_jobs pmix \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; \
             printf '%s ' \"${{COMPREPLY[@]}}\""
        );
        let outcome = finish(shell(&running, "bash", &["-c", &text]), b"");
        assert_eq!(outcome.stderr, "", "{line}");
        outcome.text().trim().to_owned()
    };
    for command in ["kill", "release", "attach", "ps", "top", "events"] {
        assert_eq!(complete(&format!("pmix {command} ")), job, "{command}");
    }
    assert_eq!(complete("pmix kill ru"), job);
    assert_eq!(complete("pmix kill --kill ru"), job);
    // Bash breaks the word at `@`, and replaces only the part after it.
    let (front, back) = job.split_once('@').unwrap();
    assert_eq!(complete(&format!("pmix kill {front}@")), back);
    assert_eq!(complete("pmix kill --signal U"), "USR1 USR2 URG");
    assert_eq!(complete("pmix run --map-by l3"), "l3cache");
    assert_eq!(complete("pmix events --code EVENT_JOB_E"), "EVENT_JOB_END");
    assert!(complete("pmix query ").contains(" QUERY_NAMESPACES "));
    assert!(complete("pmix kill --pa").contains("--pause"));
}

#[test]
#[ignore = "needs fish"]
fn fish_completes_jobs_and_signals() {
    let (running, job) = job();
    let dir = tempfile::tempdir().unwrap();
    let script = script("fish", dir.path());
    let complete = |line: &str| {
        let text = format!("source {script}; complete -C '{line}'");
        finish(shell(&running, "fish", &["--no-config", "-c", &text]), b"").text()
    };
    assert_eq!(complete("pmix kill ru"), job);
    assert_eq!(complete("pmix kill --signal USR"), "USR1\nUSR2");
}

/// Completes in a shell at a terminal, and waits for the completed text. The watchdog of [`finish`] ends a shell that
/// does not complete.
#[test]
#[ignore = "needs zsh"]
fn zsh_completes_jobs_and_signals() {
    let (running, job) = job();
    let dir = tempfile::tempdir().unwrap();
    script("zsh", dir.path());
    for (typed, expected) in [
        ("pmix kill ru", job.as_str()),
        ("pmix attach --tag-output ru", &job),
        ("pmix kill --signal WI", "--signal WINCH"),
    ] {
        let text = format!(
            "zmodload zsh/zpty; zpty z 'zsh -f -i'
             zpty -w z \"PS1='P%% '; fpath=({dir} \\$fpath); autoload -Uz compinit; compinit -u -D; \
             bindkey '^I' complete-word; echo REA''DY\"
             zpty -r -m z out '*READY*'
             zpty -n -w z '{typed}'$'\\t'
             zpty -r -m z out '*{expected}*' && print completed
             zpty -d z",
            dir = dir.path().display()
        );
        let outcome = finish(shell(&running, "zsh", &["-f", "-c", &text]), b"");
        assert!(
            outcome.text().contains("completed"),
            "{typed}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn names_of_jobs_are_asked_for_in_bounded_time() {
    let tmp = tempfile::tempdir().unwrap();
    // A server that accepts connections and never replies.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, pid) = (listener.local_addr().unwrap().port(), std::process::id());
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let path = tmp.path().join(format!("pmix.{host}.tool.{pid}"));
    fs::write(
        &path,
        format!("mute.0;tcp4://127.0.0.1:{port}\n5.0.11\n{pid}\n0:0\nnow\n\n"),
    )
    .unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut command = crate::command::command(&["completions", "--list", "jobs"]);
    command.env("TMPDIR", tmp.path());
    let begun = std::time::Instant::now();
    let outcome = finish(command, b"");
    assert_eq!(
        (outcome.code, &*outcome.text(), &*outcome.stderr),
        (0, "", "")
    );
    // Much less than the limit of a reply of other commands, on a busy machine too.
    assert!(begun.elapsed() < std::time::Duration::from_secs(15));
}

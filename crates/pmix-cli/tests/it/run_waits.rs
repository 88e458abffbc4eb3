// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that make no progress: what `pmix ps` and the launcher report about them.

use std::io::{BufRead as _, BufReader, Read};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::{Outcome, Running, finish, launcher};

/// Starts four processes of which rank 1 never calls the fence of the others.
fn hung(options: &[&str]) -> Running {
    let script = "test $PMIX_RANK = 1 && exec sleep 1000; exec \"$0\" hello";
    let common = ["-n", "4", "--node-name", "n1", "--nspace", "job@1"];
    let program = ["sh", "-c", script, env!("CARGO_BIN_EXE_pmix")];
    let (command, tmp) = launcher(&[&common, options, &program].concat());
    Running::of(heeding_sigquit(command), tmp)
}

/// Returns a command like this one that does not ignore SIGQUIT. A test that runs in the background of a shell does.
pub(crate) fn heeding_sigquit(command: Command) -> Command {
    let mut outer = Command::new("/usr/bin/env");
    outer
        .arg("--default-signal=QUIT")
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    let vars = command.get_envs();
    outer.envs(vars.filter_map(|(name, value)| Some((name, value?))));
    outer
}

/// Repeats a command until its output contains a text.
fn until(running: &Running, args: &[&str], text: &str) -> Outcome {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let outcome = running.tool(args);
        if outcome.text().contains(text) {
            return outcome;
        }
        assert!(Instant::now() < end, "{}{}", outcome.text(), outcome.stderr);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ps_names_the_fence_and_the_rank_that_has_not_called() {
    let running = hung(&[]);
    let outcome = until(&running, &["ps"], "called by ranks 0, 2-3");
    let text = outcome.text();
    let fence = text.lines().find(|line| line.contains("fence, ")).unwrap();
    assert!(fence.contains(" s: waits for rank 1; "), "{text}");
    let rank = text.lines().find(|line| line.contains("rank 1: ")).unwrap();
    assert!(rank.contains("rank 1: running, pid "), "{text}");
    // The time of its start may count.
    let (_, figures) = rank.split_once(" on n1, ").unwrap();
    assert!(figures.contains(" % of a processor"), "{text}");
    let outcome = running.tool(&["--json", "ps"]);
    let pending = &outcome.json()["pending"];
    let operation = &pending["operations"][0];
    assert_eq!(operation["operation"], "fence", "{pending}");
    let missing = serde_json::json!({
        "num_procs": 1,
        "runs": [{"nspace": "job@1", "first": 1, "last": 1}],
    });
    assert_eq!(operation["missing"], missing, "{pending}");
    assert_eq!(operation["callers"]["num_procs"], 3, "{pending}");
    assert!(operation["seconds"].as_f64().unwrap() < 60.0, "{pending}");
    running.signal("TERM");
    running.end();
}

#[test]
fn the_time_limit_names_the_missing_rank_before_the_job_ends() {
    // The other ranks have to reach the fence on a machine with other work.
    let running = hung(&["--timeout", "12"]);
    let (code, _, errors) = running.end();
    assert_eq!(code, Some(124), "{errors}");
    let fence = "pmix run: job@1: fence, ";
    let line = errors.lines().find(|line| line.starts_with(fence));
    let line = line.unwrap_or_else(|| panic!("{errors}"));
    assert!(
        line.ends_with(" s: waits for rank 1; called by ranks 0, 2-3"),
        "{errors}"
    );
    let rank = errors
        .lines()
        .find(|line| line.starts_with("pmix run: rank 1 (sh, pid "));
    let rank = rank.unwrap_or_else(|| panic!("{errors}"));
    assert!(
        rank.contains(" on n1): has not called PMIx_Init, sleeps, "),
        "{errors}"
    );
}

#[test]
fn at_the_time_limit_of_a_job_without_waits_the_running_ranks_are_named() {
    let script = "while :; do :; done";
    let options = ["--timeout", "1", "--node-name", "n1", "--nspace", "job@1"];
    let running = Running::start(&[&options[..], &["sh", "-c", script]].concat());
    let (code, _, errors) = running.end();
    assert_eq!(code, Some(124), "{errors}");
    let none = "pmix run: job@1: no rank waits for others in a PMIx operation; 1 rank runs";
    assert!(errors.contains(none), "{errors}");
    assert!(
        errors.contains("has not called PMIx_Init, runs, "),
        "{errors}"
    );
}

/// Terminates a job, and checks that nothing else decided its exit code.
fn terminate(mut running: Running, mut errors: impl Read) {
    running.signal("TERM");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    let code = running.child.wait().unwrap().code();
    assert_eq!(code, Some(128 + 15), "{rest}");
}

#[test]
fn after_sigquit_the_launcher_reports_and_the_job_continues() {
    let mut running = hung(&[]);
    until(&running, &["ps"], "called by ranks 0, 2-3");
    let mut errors = BufReader::new(running.child.stderr.take().unwrap());
    for _ in 0..2 {
        running.signal("QUIT");
        let mut lines = [String::new(), String::new()];
        for line in &mut lines {
            errors.read_line(line).unwrap();
        }
        assert!(lines[0].contains(" s: waits for rank 1; "), "{lines:?}");
        assert!(
            lines[1].starts_with("pmix run: rank 1 (sh, pid "),
            "{lines:?}"
        );
    }
    let text = running.tool(&["ps"]).text();
    assert_eq!(text.matches(" connected ").count(), 3, "{text}");
    terminate(running, errors);
}

#[test]
fn the_report_has_the_figures_of_each_rank_and_the_imbalance() {
    let script = "test $PMIX_RANK = 0 && i=0 && while test $i -lt 100000; do i=$((i+1)); done; exec \"$0\" hello -q";
    let program = ["sh", "-c", script, env!("CARGO_BIN_EXE_pmix")];
    let options = ["--report", "--json", "-n", "2", "--node-name", "n1"];
    let running = Running::start(&[&options[..], &program].concat());
    let (code, output, errors) = running.end();
    assert_eq!(code, Some(0), "{errors}");
    let json: serde_json::Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    let figure = |rank: usize, key: &str| {
        let figure = json["ranks"][rank][key].as_f64();
        figure.unwrap_or_else(|| panic!("rank {rank} has no {key}: {json}"))
    };
    for rank in 0..2 {
        let [init, time] = ["init_seconds", "seconds"].map(|key| figure(rank, key));
        assert!(init > 0.0 && init <= time, "{json}");
        assert!(figure(rank, "max_rss_bytes") > 1e5, "{json}");
    }
    assert!(
        figure(0, "cpu_seconds") > figure(1, "cpu_seconds"),
        "{json}"
    );
    let head = errors
        .lines()
        .find(|line| line.contains("  init        cpu     memory  end"));
    assert!(head.is_some(), "{errors}");
    let imbalance = errors
        .lines()
        .find(|line| line.starts_with("processor time: mean "));
    let imbalance = imbalance.unwrap_or_else(|| panic!("{errors}"));
    assert!(imbalance.contains(" s of rank 0, imbalance "), "{errors}");
}

/// The control group of a job with a limited memory, which is removed at the end.
struct LimitedGroup(std::path::PathBuf);

impl LimitedGroup {
    /// Creates a control group of 40 MiB. Returns `None` if this user may not.
    fn create() -> Option<Self> {
        let name = format!("pmix-test-{}", std::process::id());
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = |line: &str| line.splitn(3, ':').nth(2).map(str::to_owned);
        let memory = own.lines().find(|line| line.contains(":memory:"));
        let (mount, line, file) = match memory {
            Some(line) => ("/sys/fs/cgroup/memory", line, "memory.limit_in_bytes"),
            None => (
                "/sys/fs/cgroup",
                own.lines().find(|line| line.starts_with("0::"))?,
                "memory.max",
            ),
        };
        let dir = std::path::Path::new(mount)
            .join(path(line)?.trim_start_matches('/'))
            .join(name);
        std::fs::create_dir(&dir).ok()?;
        let group = Self(dir);
        std::fs::write(group.0.join(file), "41943040").ok()?;
        Some(group)
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        // The processes of the group have ended.
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_rank_that_exceeds_the_memory_of_its_control_group_is_named_as_such() {
    let Some(group) = LimitedGroup::create() else {
        eprintln!("skipped: no permission to create a control group with a memory limit");
        return;
    };
    let (inner, tmp) = launcher(&["--node-name", "n1", "sh", "-c", "exec tail /dev/zero"]);
    let mut command = Command::new("sh");
    let enter = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    command
        .arg("-c")
        .arg(enter)
        .arg(&group.0)
        .arg(inner.get_program());
    command.args(inner.get_args()).env("TMPDIR", tmp.path());
    let outcome = finish(command, b"");
    assert_eq!(outcome.code, 128 + 9, "{}", outcome.stderr);
    let said = &outcome.stderr;
    let expected = "was killed by SIGKILL (probably out of memory: the kernel has killed a process of control group ";
    assert!(said.starts_with("pmix run: rank 0 (sh, pid "), "{said}");
    assert!(
        said.contains(expected) && said.contains(", whose limit is 40 MiB)"),
        "{said}"
    );
}

/// Returns a directory with a program `eu-stack` that runs these lines of a shell.
pub(crate) fn stack_tool(lines: &str) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("eu-stack");
    std::fs::write(&file, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

#[test]
fn the_stacks_of_missing_ranks_are_shown_on_request() {
    let dir = stack_tool("echo '#0  0x1 pause'\necho \"#1  0x2 main of $2\"");
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let script = "test $PMIX_RANK = 1 && exec sleep 1000; exec \"$0\" hello";
    let options = [
        "--stacks",
        "-n",
        "2",
        "--node-name",
        "n1",
        "--nspace",
        "job@1",
    ];
    let program = ["sh", "-c", script, env!("CARGO_BIN_EXE_pmix")];
    let (mut command, tmp) = launcher(&[&options[..], &program].concat());
    command.env("PATH", &path);
    let mut running = Running::of(heeding_sigquit(command), tmp);
    until(&running, &["ps"], "called by rank 0");
    let expect = |text: &str| {
        let frame = text.lines().find(|line| line.contains("#1  0x2 main of "));
        assert!(frame.is_some() && text.contains(" by eu-stack:"), "{text}");
    };
    let mut tool = running.tool_command(&["ps", "--stacks", "job@1"]);
    tool.env("PATH", &path);
    expect(&finish(tool, b"").text());
    running.signal("QUIT");
    let mut errors = BufReader::new(running.child.stderr.take().unwrap());
    let mut lines = String::new();
    for _ in 0..5 {
        errors.read_line(&mut lines).unwrap();
    }
    expect(&lines);
    assert!(
        lines.lines().all(|line| line.starts_with("pmix run: ")),
        "{lines}"
    );
    terminate(running, errors);
}

#[test]
fn a_stack_program_ends_with_the_launcher_and_does_not_delay_it() {
    let dir =
        stack_tool("echo $$ >\"${0%/*}/new\"; mv \"${0%/*}/new\" \"${0%/*}/pid\"; exec sleep 1000");
    let file = dir.path().join("pid");
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let script = "until test -e \"$0\"; do sleep 0.02; done";
    let options = ["--timeout", "1", "--stacks", "--nspace", "job@1"];
    let program = ["sh", "-c", script, file.to_str().unwrap()];
    let (mut command, _tmp) = launcher(&[&options[..], &program].concat());
    command.env("PATH", &path);
    let began = Instant::now();
    let outcome = finish(command, b"");
    assert_eq!(outcome.code, 124, "{}", outcome.stderr);
    // The process has ended by itself, before its stack was complete.
    assert!(began.elapsed() < Duration::from_secs(11));
    let none = "pmix run: job@1: no rank waits for others in a PMIx operation; 1 rank runs";
    assert!(outcome.stderr.contains(none), "{}", outcome.stderr);
    let pid = std::fs::read_to_string(&file).unwrap();
    // A process that has exited has no command line.
    let command_line = format!("/proc/{}/cmdline", pid.trim());
    let end = Instant::now() + Duration::from_secs(60);
    while std::fs::read(&command_line).is_ok_and(|line| !line.is_empty()) {
        assert!(Instant::now() < end, "process {pid} still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn top_and_doctor_show_the_operations_of_a_job() {
    let running = hung(&[]);
    until(&running, &["ps"], "called by ranks 0, 2-3");
    let fence = " s: waits for rank 1; called by ranks 0, 2-3";
    let text = running.tool(&["top", "--once", "job@1"]).text();
    let line = text
        .lines()
        .find(|line| line.starts_with("  job@1: fence, "));
    assert!(line.is_some_and(|line| line.ends_with(fence)), "{text}");
    let json = running.tool(&["--json", "top", "job@1"]).json();
    let operations = &json["pending"][0]["operations"]["operations"];
    assert_eq!(operations[0]["operation"], "fence", "{json}");
    // A younger operation is no warning.
    let outcome = until(&running, &["doctor", "job@1"], "warning  waits");
    let text = outcome.text();
    assert!(text.contains("job@1: 4 processes"), "{text}");
    let line = text
        .lines()
        .find(|line| line.starts_with("warning  waits "));
    assert!(line.is_some_and(|line| line.ends_with(fence)), "{text}");
    assert!(text.contains("help: rank 1: running, pid "), "{text}");
    running.signal("TERM");
    running.end();
}

#[test]
fn other_failed_ranks_are_described_like_the_first_one() {
    let script = "test $PMIX_RANK = 0 && kill -SEGV $$; exit 3";
    let options = ["--keep-going", "-n", "2", "--node-name", "n1"];
    let (command, _tmp) = launcher(&[&options[..], &["sh", "-c", script]].concat());
    let said = finish(command, b"").stderr;
    // Either process may fail first.
    let both = ["was killed by SIGSEGV", ", rank 1 ended with exit code 3"];
    let other = ["ended with exit code 3", ", rank 0 was killed by SIGSEGV"];
    let is_said = |texts: [&str; 2]| texts.iter().all(|text| said.contains(text));
    assert!(is_said(both) || is_said(other), "{said}");
}

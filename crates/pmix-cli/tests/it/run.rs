// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` starts programs, forwards their output and its signals, and leaves no process or file.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{
    Running, assert_nothing_left, finish, launcher, pmix_with, run, run_with, sorted, without_pid,
};

#[test]
fn every_process_runs_the_program() {
    let outcome = run(&["-n", "5", "echo", "-n", "a:b "]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(outcome.text(), "a:b a:b a:b a:b a:b ");
}

#[test]
fn applications_have_options_of_their_own() {
    let outcome = run(&[
        "-n",
        "2",
        "-x",
        "V=1",
        "sh",
        "-c",
        "echo $V $PWD",
        ":",
        "--wdir",
        "/usr",
        "-x",
        "V=2",
        "sh",
        "-c",
        "echo $V $PWD",
        ":",
        "echo",
        "--",
        "-n",
    ]);
    let here = std::fs::canonicalize(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let first = format!("1 {}", here.display());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(sorted(&outcome), ["-- -n", &first, &first, "2 /usr"]);
}

#[test]
fn tags_name_job_rank_and_stream_of_each_line() {
    let outcome = run(&[
        "-n",
        "2",
        "--tag-output",
        "--nspace",
        "j@1",
        "sh",
        "-c",
        r"printf 'a\nb'; echo e >&2",
    ]);
    let expected = [
        "[j@1,0]<stdout>: a",
        "[j@1,0]<stdout>: b",
        "[j@1,1]<stdout>: a",
        "[j@1,1]<stdout>: b",
    ];
    assert_eq!(sorted(&outcome), expected);
    let mut errors: Vec<_> = outcome.stderr.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[j@1,0]<stderr>: e", "[j@1,1]<stderr>: e"]);
}

#[test]
fn much_output_of_many_arrives_whole() {
    let outcome = run(&["-n", "8", "head", "-c", "1000000", "/dev/zero"]);
    assert_eq!(outcome.code, 0);
    assert_eq!(outcome.stdout.len(), 8_000_000);
    assert!(outcome.stdout.iter().all(|&byte| byte == 0));
}

#[test]
fn a_job_that_needs_more_descriptors_than_there_are_is_refused_at_once() {
    let limited = |args: &[&str]| {
        let tmp = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        let pmix = env!("CARGO_BIN_EXE_pmix");
        command.args(["-c", "ulimit -n 100; exec \"$@\"", "sh", pmix, "run"]);
        command.args(args).env("TMPDIR", tmp.path());
        (finish(command, b""), tmp)
    };
    let (outcome, _) = limited(&["-n", "60", "true"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let (outcome, tmp) = limited(&["-n", "60", "--tag-output", "true"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("60 processes need 180 descriptors"));
    assert_nothing_left(&tmp);
}

#[test]
fn a_job_of_more_processes_than_the_system_has_is_refused_before_anything_is_made() {
    let (command, tmp) = launcher(&["-n", "5000000", "true"]);
    let outcome = finish(command, b"");
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("start fewer"), "{}", outcome.stderr);
    assert_nothing_left(&tmp);
}

#[test]
fn invalid_options_end_with_exit_code_2_and_a_message() {
    for args in [
        ["--wdir", "/no/such"],
        ["--output-dir", "/proc/no"],
        ["--trace", "/no/such/file"],
    ] {
        let outcome = run(&[&args[..], &["true"]].concat());
        assert_eq!(outcome.code, 2, "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(args[1]), "{}", outcome.stderr);
    }
    let (mut command, _) = launcher(&["true"]);
    command.env("TMPDIR", "/no/such");
    let outcome = finish(command, b"");
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("/no/such"), "{}", outcome.stderr);
}

#[test]
fn a_script_whose_interpreter_is_missing_says_which() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/no/such/python3 -u\n").unwrap();
    let mut permissions = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&script, permissions).unwrap();
    let outcome = run(&[script.to_str().unwrap()]);
    assert_eq!(outcome.code, 127, "{}", outcome.stderr);
    let expected = "script: its interpreter /no/such/python3: No such file";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
}

#[test]
fn a_file_that_may_not_grow_ends_no_launcher_and_changes_nothing_for_processes() {
    let tmp = tempfile::tempdir().unwrap();
    let limited = |args: &[&str]| {
        let mut command = Command::new("sh");
        let pmix = env!("CARGO_BIN_EXE_pmix");
        command.args(["-c", "ulimit -f 1; exec \"$@\"", "sh", pmix, "run"]);
        command.args(args).env("TMPDIR", tmp.path());
        finish(command, b"")
    };
    let path = tmp.path().join("trace");
    let trace = ["--trace", path.to_str().unwrap()];
    let hello = ["pmix", "hello", "--bytes", "100000", "--quiet"];
    let outcome = limited(&[&trace[..], &hello].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("the trace ends here"),
        "{}",
        outcome.stderr
    );
    // SIGXFSZ ends a process of the job, as it would without a launcher.
    let file = tmp.path().join("large");
    let fill = format!("exec head -c 100000 /dev/zero > {}", file.display());
    let outcome = limited(&["sh", "-c", &fill]);
    assert_eq!(outcome.code, 128 + 25, "{}", outcome.stderr);
}

#[test]
fn remaining_processes_can_finish_their_output() {
    let outcome = run(&["sh", "-c", "(sleep 0.1; echo late) & echo early"]);
    assert_eq!(
        (outcome.code, outcome.text()),
        (0, "early\nlate".to_owned())
    );
}

#[test]
fn files_hold_what_each_process_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let outcome = run(&[
        "-n",
        "2",
        "--output-dir",
        path.to_str().unwrap(),
        "sh",
        "-c",
        "echo out; echo err >&2",
    ]);
    assert_eq!((outcome.code, outcome.text().as_str()), (0, ""));
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    assert_eq!(read("rank.1.stdout"), "out\n");
    assert_eq!(read("rank.0.stderr"), "err\n");
}

#[test]
fn rank_0_reads_standard_input_and_the_others_nothing() {
    let outcome = run_with(&["-n", "3", "sh", "-c", "cat; echo end"], b"input\n");
    assert_eq!(sorted(&outcome), ["end", "end", "end", "input"]);
}

#[test]
fn the_first_failure_is_the_exit_code_and_ends_the_others() {
    // The failing process does not wait. The others would exceed the time limit.
    let outcome = run(&["-n", "3", "sleep", "1000", ":", "sh", "-c", "exit 7"]);
    assert_eq!(outcome.code, 7);
    assert_eq!(
        without_pid(&outcome.stderr),
        "pmix run: rank 3 (sh, pid N on NODE) ended with exit code 7\n"
    );
    let outcome = run(&["sleep", "1000", ":", "sh", "-c", "kill -USR1 $$"]);
    assert_eq!(outcome.code, 138);
    assert_eq!(
        without_pid(&outcome.stderr),
        "pmix run: rank 1 (sh, pid N on NODE) was killed by SIGUSR1\n"
    );
}

#[test]
fn other_processes_continue_with_keep_going() {
    let outcome = run(&[
        "--keep-going",
        "sh",
        "-c",
        "exit 7",
        ":",
        "-n",
        "2",
        "echo",
        "done",
    ]);
    assert_eq!((outcome.code, outcome.text().as_str()), (7, "done\ndone"));
    assert_eq!(
        without_pid(&outcome.stderr),
        "pmix run: rank 0 (sh, pid N on NODE) ended with exit code 7\n"
    );
    let outcome = run(&["--keep-going", "-n", "3", "sh", "-c", "exit $PMIX_RANK"]);
    // Either process may fail first.
    let expected = match outcome.code {
        1 => {
            "pmix run: rank 1 (sh, pid N on NODE) ended with exit code 1, rank 2 with exit code 2\n"
        }
        _ => {
            "pmix run: rank 2 (sh, pid N on NODE) ended with exit code 2, rank 1 with exit code 1\n"
        }
    };
    assert_eq!(without_pid(&outcome.stderr), expected);
    let outcome = run(&["--keep-going", "-n", "20", "sh", "-c", "exit 3"]);
    assert!(
        outcome.stderr.ends_with(", and 11 more ranks failed\n"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_closed_output_pipe_ends_the_job_like_other_programs() {
    let mut running = Running::start(&["-n", "2", "yes"]);
    assert_eq!(running.line(), "y");
    assert_eq!(running.end_unread(), (Some(128 + 13), String::new()));
}

#[test]
fn processes_that_ignore_sigterm_are_killed() {
    let stubborn = "trap '' TERM; while :; do sleep 1000; done";
    let outcome = run(&[
        "--grace",
        "0.05",
        "--timeout",
        "0.05",
        "-n",
        "2",
        "sh",
        "-c",
        stubborn,
    ]);
    assert_eq!(outcome.code, 124);
    assert!(outcome.stderr.contains("still running after 50ms"));
}

#[test]
fn programs_that_cannot_be_run_are_reported_like_a_shell() {
    let absent = run(&["-n", "2", "no-such-program"]);
    assert_eq!(absent.code, 127);
    assert!(
        absent
            .stderr
            .contains("cannot run no-such-program: No such file")
    );
    let outcome = run(&["/etc"]);
    assert_eq!(outcome.code, 126);
    // No process starts if one application has a fault.
    let outcome = run(&["echo", "a", ":", "no-such-program"]);
    assert_eq!((outcome.code, outcome.text().as_str()), (127, ""));
}

#[test]
fn an_invalid_command_line_is_reported_with_help() {
    for (args, why) in [
        (&["echo", ":"][..], "the following required arguments"),
        (
            &["echo", ":", "--report", "echo"],
            "unexpected argument '--report'",
        ),
        (&["--bogus", "echo"], "unexpected argument"),
        (&["-x", "=1", "true"], "missing name of a variable"),
        (&["-n", "0", "true"], "there are no processes to start"),
        (&["--wdir", "/no/such", "true"], "cannot start in /no/such"),
        (
            &["--nodes", "a,b", "--procs", "0;1", "true"],
            "use --node-name",
        ),
        (
            &[
                "--nodes",
                "a,b",
                "--procs",
                "0;1",
                "--node-name",
                "b",
                "-n",
                "3",
                "true",
            ],
            "have 3 processes",
        ),
        (
            &["--timeout=-1", "true"],
            "expected 0 or more seconds, less than 1.8e19",
        ),
        (&["--timeout=0", "true"], "omit --timeout for no limit"),
        (&["--pset", "odd", "true"], "expected NAME=RANKS"),
        (&["--pset", "odd=1-x", "true"], "\"x\" is not a rank"),
        (&["--pset", "odd=1", "true"], "process set odd has rank 1"),
        (&["--pset", "=0", "true"], "invalid name of a process set"),
        (
            &["--pset", "a,b=0", "true"],
            "invalid name of a process set",
        ),
        (&["--pset", "a=0,0", "true"], "are not in ascending order"),
        (&["--pset", "a=0", "--pset", "a=0", "true"], "defined twice"),
    ] {
        let outcome = run(args);
        assert_ne!(outcome.code, 0, "{args:?}");
        assert!(outcome.stderr.contains(why), "{args:?}: {}", outcome.stderr);
    }
}

#[test]
fn processes_that_end_badly_are_started_again_so_often() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("times");
    let again = |most: &str, fails: u32| {
        std::fs::write(&file, "").unwrap();
        let script = format!("echo x >> \"$0\"; [ $(wc -l < \"$0\") -gt {fails} ] || exit 7");
        let place = file.to_str().unwrap();
        let outcome = run(&["--max-restarts", most, "sh", "-c", &script, place]);
        let times = std::fs::read_to_string(&file).unwrap().lines().count();
        (outcome.code, times)
    };
    assert_eq!(again("2", 2), (0, 3));
    assert_eq!(again("1", 2), (7, 2));
    assert_eq!(again("0", 2), (7, 1));
}

#[test]
fn of_a_larger_job_only_the_processes_of_this_node_are_started() {
    let maps = [
        "--nodes",
        "n[1-3]",
        "--procs",
        "0-1;2,4;3,5",
        "--node-name",
        "n2",
    ];
    let outcome = run(&[&["--json"], &maps[..], &["true"]].concat());
    let json = outcome.json();
    assert_eq!(json["num_procs"], 6);
    let ranks: Vec<_> = json["ranks"].as_array().unwrap().iter().collect();
    let ranks: Vec<_> = ranks
        .iter()
        .map(|rank| rank["rank"].as_u64().unwrap())
        .collect();
    assert_eq!(ranks, [2, 4]);
}

#[test]
fn the_summary_says_how_each_process_ended() {
    let outcome = run(&[
        "--json",
        "--keep-going",
        "true",
        ":",
        "sh",
        "-c",
        "kill -9 $$",
    ]);
    let json = outcome.json();
    assert_eq!(outcome.code, 137);
    assert_eq!(outcome.stderr.lines().count(), 1);
    assert_eq!(json["exit_code"], 137);
    assert!(json["cpu_seconds"].as_f64().is_some_and(|used| used > 0.0));
    assert_eq!(json["cause"], "rank 1 ended with signal SIGKILL");
    assert_eq!(json["apps"][1]["argv"][0], "sh");
    assert_eq!(json["ranks"][0]["exit_code"], 0);
    assert_eq!(json["ranks"][1]["signal"], 9);
    assert_eq!(json["ranks"][1]["app"], 1);
}

#[test]
fn the_report_has_a_line_for_each_process() {
    let outcome = run(&["--report", "-n", "2", "--nspace", "j", "true"]);
    assert_eq!((outcome.code, outcome.text().as_str()), (0, ""));
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 7, "{}", outcome.stderr);
    // Placement is printed before the processes start.
    assert!(lines[0].starts_with("rank 0 on ") && lines[1].ends_with("not bound"));
    assert!(lines[2].starts_with("j on "));
    assert!(lines[5].trim_start().starts_with("1 ") && lines[5].ends_with("exit code 0"));
    assert!(lines[6].starts_with("processor time: mean "));
}

#[test]
fn children_do_not_see_an_outer_launcher() {
    let (mut command, _tmp) = launcher(&["-x", "SLURM_PROCID", "env"]);
    command
        .env("PMIX_RANK", "3")
        .env("PMI_RANK", "3")
        .env("OMPI_MCA_btl", "self");
    command
        .env("OMPI_COMM_WORLD_RANK", "3")
        .env("SLURM_PROCID", "4")
        .env("SLURM_STEP_ID", "5");
    let outcome = finish(command, b"");
    let text = outcome.text();
    assert!(text.contains("OMPI_MCA_btl=self") && text.contains("SLURM_PROCID=4"));
    for held_back in ["=3", "SLURM_STEP_ID"] {
        assert!(!text.contains(held_back), "{held_back} in {text}");
    }
}

#[test]
fn processes_are_bound_before_they_run() {
    let outcome = run(&[
        "-n",
        "2",
        "--bind-to",
        "hwthread",
        "--json",
        "grep",
        "Cpus_allowed_list",
        "/proc/self/status",
    ]);
    let text = outcome.text();
    let (listed, json) = text.rsplit_once('\n').unwrap();
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let mut bound: Vec<_> = listed
        .lines()
        .map(|line| line.rsplit('\t').next().unwrap())
        .collect();
    bound.sort_unstable();
    let mut told: Vec<_> = (0..2)
        .map(|rank| json["ranks"][rank]["cpus"].as_str().unwrap())
        .collect();
    told.sort_unstable();
    assert_eq!(bound, told);
    assert!(told.iter().all(|cpus| cpus.parse::<u32>().is_ok()));
}

#[test]
fn children_of_processes_are_killed_with_the_job() {
    // The child outlives the rank and keeps its output open. Only a signal ends it.
    let left = "sleep 1000 & echo $!";
    let outcome = run(&["--grace", "0.05", "-n", "2", "sh", "-c", left]);
    assert_eq!(outcome.code, 0);
    assert_eq!(outcome.text().lines().count(), 2);
    for pid in outcome.text().lines() {
        assert!(!std::fs::exists(format!("/proc/{pid}")).unwrap(), "{pid}");
    }
}

#[test]
fn processes_that_left_their_group_are_killed_too() {
    // Two daemons: one keeps the output open, the other does not.
    let left = "setsid sleep 1000 & echo $!; setsid sleep 1000 >/dev/null 2>&1 & echo $!";
    let outcome = run(&["--grace", "0.05", "sh", "-c", left]);
    assert_eq!(outcome.code, 0);
    assert_eq!(outcome.text().lines().count(), 2);
    for pid in outcome.text().lines() {
        assert!(!std::fs::exists(format!("/proc/{pid}")).unwrap(), "{pid}");
    }
}

#[test]
fn processes_and_files_end_with_a_launcher_that_is_killed_wherever_it_works() {
    // The processes and their children ignore signals and keep the output open.
    let script = "trap '' TERM HUP INT; echo $$; sleep 1000";
    for (dir, is_relative) in [(None, false), (Some("/"), false), (None, true)] {
        let (mut command, tmp) = launcher(&["-n", "2", "sh", "-c", script]);
        let parent = tmp.path().parent().unwrap();
        command.current_dir(dir.map_or(parent, Path::new));
        if is_relative {
            command.env("TMPDIR", tmp.path().file_name().unwrap());
        }
        let mut running = Running::of(command, tmp);
        let pids = [running.line(), running.line()];
        running.signal("KILL");
        running.child.wait().unwrap();
        assert_eq!(running.line(), "", "the output has ended");
        let is_running = |pid: &String| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        let has_files = || std::fs::read_dir(&running.tmp).unwrap().count() > 0;
        let begun = std::time::Instant::now();
        while pids.iter().any(is_running) || has_files() {
            let elapsed = begun.elapsed().as_secs();
            assert!(elapsed < 60, "{dir:?}, {is_relative}: something remains");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[test]
fn the_thread_that_writes_standard_error_takes_no_signals() {
    let script = "cd /proc/$PPID; until grep -q 'Blk:.0*$' status; do :; done; cat task/*/status";
    let outcome = run(&["sh", "-c", script]);
    let text = String::from_utf8_lossy(&outcome.stdout);
    let lines = text
        .lines()
        .map(|line| line.split_once('\t').unwrap_or_default());
    let (mut name, mut blocked) = ("", Vec::new());
    for (field, value) in lines {
        match field {
            "Name:" => name = value,
            "SigBlk:" => blocked.push((name, u64::from_str_radix(value, 16).unwrap())),
            _ => {}
        }
    }
    let child = 1 << (17 - 1);
    let takes = |thread| {
        let one = blocked.iter().find(|(name, _)| *name == thread);
        one.map(|(_, blocked)| blocked & child == 0)
    };
    assert_eq!(
        (takes("stderr"), takes("pmix")),
        (Some(false), Some(true)),
        "{blocked:?}"
    );
}

#[test]
fn a_reader_that_goes_away_ends_the_writers() {
    let (mut command, tmp) = launcher(&["-n", "2", "yes"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 100]).unwrap();
    drop(output);
    assert_eq!(child.wait().unwrap().code(), Some(141));
    assert_nothing_left(&tmp);
}

#[test]
fn a_slow_reader_gets_everything() {
    let mut running = Running::start(&["-n", "2", "sh", "-c", "echo go; exec seq 200000"]);
    assert_eq!(running.line(), "go");
    let (code, rest, _) = running.end();
    assert_eq!(code, Some(0));
    assert_eq!(rest.lines().count(), 2 * 200_000 + 1);
}

#[test]
fn unread_input_does_not_block() {
    let outcome = pmix_with(&["run", "/bin/true"], &vec![b'x'; 1 << 20]);
    assert_eq!(outcome.code, 0);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"one\ntwo\n").unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let (mut command, _tmp) = launcher(&["-n", "2", "head", "-n1"]);
    let output = command.stdin(file).output().unwrap();
    assert_eq!(output.stdout, b"one\n");
}

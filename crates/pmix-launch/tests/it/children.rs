// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that processes of a job spawn.

use std::path::Path;
use std::time::Duration;

use pmix_client::Client;
use pmix_launch::Cause;
use pmix_proto::{Request, reply, request};
use pmix_types::{App, Envar, Info, Rank, Status, Value, keys};

use crate::actors::spawn_one;
use crate::stage::{play_plan, play_with};

/// Spawns a job as [`spawn_one`] does, and prints the events of jobs and processes until that job ends.
pub(crate) fn listen(mut client: Client) {
    let codes = [
        Status::EVENT_JOB_START,
        Status::LAUNCH_COMPLETE,
        Status::EVENT_JOB_END,
        Status::EVENT_PROC_TERMINATED,
        Status::ERR_EXIT_NONZERO_TERM,
        Status::ERR_PROC_ABORTED_BY_SIG,
        Status::ERR_PROC_KILLED_BY_CMD,
        Status::ERR_JOB_EXE_NOT_FOUND,
        Status::ERR_JOB_FAILED_TO_LAUNCH,
    ];
    client.register_events(codes, &[]).wait().unwrap();
    spawn_one(&mut client);
    let mut is_over = false;
    while !is_over {
        let event = client.next_event(Duration::from_secs(50)).unwrap();
        let event = event.expect("an event comes in time");
        let about = |key: &str| {
            let info = event.infos.iter().find(|info| info.key.is(key));
            info.map_or_else(String::new, |info| format!(" {:?}", info.value))
        };
        let (affected, code) = (about(keys::EVENT_AFFECTED_PROC), about(keys::EXIT_CODE));
        let (status, why) = (event.status, about(keys::JOB_TERM_STATUS));
        let text = match event.status {
            Status::EVENT_JOB_END => String::new(),
            _ => about(keys::EVENT_TEXT_MESSAGE),
        };
        println!(
            "{status} of {}{affected}{code}{why}{text}",
            event.source.nspace
        );
        let is_end = [
            Status::EVENT_JOB_END,
            Status::ERR_JOB_EXE_NOT_FOUND,
            Status::ERR_JOB_FAILED_TO_LAUNCH,
        ];
        is_over = is_end.contains(&status) && event.source.nspace != client.proc().nspace;
    }
    client.finalize().unwrap();
}

/// Rank 1 fails, which terminates the job. Rank 0 survives the signal, spawns one more job when it is notified of the
/// failure, and prints the result.
pub(crate) fn asks_late(mut client: Client) {
    let codes = [Status::ERR_EXIT_NONZERO_TERM, Status::ERR_JOB_CANCELED];
    client.register_events(codes, &[]).wait().unwrap();
    crate::actors::wait_for_all(&mut client);
    if client.proc().rank == Rank::new(1) {
        client.finalize().unwrap();
        std::process::exit(3);
    }
    let heard = |client: &mut Client, status| {
        let event = client.next_event(Duration::from_secs(50)).unwrap();
        assert_eq!(event.map(|event| event.status), Some(status));
    };
    heard(&mut client, Status::ERR_EXIT_NONZERO_TERM);
    spawn_one(&mut client);
    heard(&mut client, Status::ERR_JOB_CANCELED);
    println!("canceled");
    client.finalize().unwrap();
}

/// Spawns jobs of many applications: with programs that are searched for in many directories, and with long or many
/// variables.
pub(crate) fn asks_for_much(client: Client) {
    let app = |program: String, env: Vec<String>| App {
        cmd: Some(program.into()),
        env: env.into_iter().map(Into::into).collect(),
        maxprocs: 1,
        ..App::default()
    };
    let apps = |path: String| -> Vec<_> {
        let path = format!("PATH={path}");
        (0..300)
            .map(|number| app(format!("absent-{number}"), vec![path.clone()]))
            .collect()
    };
    let set = |name: &str, value: String| {
        let envar = Envar {
            envar: Some(name.to_owned().into()),
            value: Some(value.into()),
            separator: b':',
        };
        Info::new(keys::SET_ENVAR, Value::Envar(Box::new(envar)))
    };
    let plain = || vec![app("true".to_owned(), Vec::new()); 1000];
    let own = |number: usize| app("true".to_owned(), vec![format!("N={number}")]);
    let many = (0..20_000).map(|number| set(&format!("V{number}"), String::new()));
    for (infos, apps) in [
        (Vec::new(), apps("/no/such:".repeat(5000))),
        (vec![set("LONG", "x".repeat(6 << 20))], plain()),
        (many.collect(), (0..1000).map(own).collect()),
    ] {
        let payload = client
            .request(Request::Spawn(request::Spawn { infos, apps }))
            .wait();
        let payload = payload.unwrap();
        let answer = reply::Spawned::decode(client.form(), None, &payload).unwrap();
        println!("{}", answer.status);
    }
    client.finalize().unwrap();
}

#[test]
fn requests_multiplied_by_many_applications_are_refused_cheaply() {
    let played = play_plan("asks_for_much", 1, &[], |plan| plan.max_spawned = 1000);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    // The lines are sorted.
    let bad = Status::ERR_BAD_PARAM;
    let expected = format!("{bad}\n{bad}\n{}\n", Status::ERR_JOB_INSUFFICIENT_RESOURCES);
    assert_eq!(played.output, expected, "{}", played.errors);
    assert!(
        played.outcome.processor_time < Duration::from_secs(20),
        "{:?}",
        played.outcome.processor_time
    );
}

#[test]
fn a_spawn_beyond_the_depth_of_nested_spawns_is_refused() {
    let vars = [("CHILD", Path::new("true")), ("SIZE", Path::new("2"))];
    for (most, status) in [(0, Status::ERR_OUT_OF_RESOURCE), (1, Status::SUCCESS)] {
        let played = play_plan("spawn", 1, &vars, |plan| plan.max_spawn_depth = most);
        let first = played.output.lines().next().unwrap_or_default();
        assert!(first.starts_with(&status.to_string()), "{most}: {first}");
    }
}

#[test]
fn a_job_is_started_for_a_process_and_ends_before_the_launcher() {
    let vars = [("CHILD", Path::new("true")), ("SIZE", Path::new("2"))];
    let played = play_with("spawn", 1, &vars);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(played.output, "PMIX_SUCCESS (0) spawn@2\n");
    let [child] = &played.outcome.spawned[..] else {
        panic!("{:?}", played.outcome.spawned);
    };
    assert_eq!(child.nspace, "spawn@2");
    assert_eq!(child.parent, "spawn@1,0");
    assert_eq!(
        (child.num_procs, child.num_failed, child.exit_code),
        (2, 0, 0)
    );
}

#[test]
fn a_spawned_process_knows_its_parent_and_gets_its_variables() {
    let program = std::env::current_exe().unwrap();
    let arguments = "--exact actors::actor --ignored --nocapture";
    let child = format!("{} {arguments}", program.display());
    let played = play_with("spawn", 2, &[("CHILD", Path::new(&child))]);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(played.outcome.num_spawned, 2, "{}", played.errors);
    for line in [
        "spawned Bool(true)",
        "parent Proc(Proc { nspace: \"spawn@1\", rank: 0 })",
        "parent Proc(Proc { nspace: \"spawn@1\", rank: 1 })",
        "offset Rank(2)",
        "offset Rank(3)",
        "node rank Uint16(2)",
        "GIVEN Ok(\"by the parent\")",
        "OMPI_COMM_WORLD_RANK Ok(\"0\")",
    ] {
        assert!(played.output.contains(line), "{line} in {}", played.output);
    }
}

#[test]
fn jobs_requested_together_run_concurrently() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo").display().to_string();
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    // Each job waits for the other.
    let (reads, writes) = (format!("cat {fifo}"), format!("cp /dev/null {fifo}"));
    let vars = [("CHILD", Path::new(&reads)), ("OTHER", Path::new(&writes))];
    let played = play_with("spawn", 2, &vars);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(played.outcome.num_spawned, 2);
}

#[test]
fn a_spawn_of_a_missing_program_fails_and_the_job_continues() {
    let played = play_with("spawn", 1, &[("CHILD", Path::new("/no/such/program"))]);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert_eq!(played.output, "PMIX_ERR_JOB_EXE_NOT_FOUND (-190)\n");
    assert_eq!(played.outcome.num_spawned, 0);
}

#[test]
fn a_failed_child_job_fails_the_launcher_and_its_parent_continues() {
    let played = play_with("spawn", 1, &[("CHILD", Path::new("false"))]);
    assert!(
        played.output.starts_with("PMIX_SUCCESS"),
        "{}",
        played.output
    );
    let Some(Cause::Spawned { nspace, .. }) = &played.outcome.cause else {
        panic!("{:?}: {}", played.outcome.cause, played.errors);
    };
    assert_eq!(nspace, "spawn@2");
    assert_eq!(played.outcome.exit_code(), 1);
    assert_eq!(played.outcome.spawned[0].num_failed, 1);
}

#[test]
fn spawns_over_the_limit_are_refused() {
    // The jobs run until all requests were made, even on a busy machine.
    let vars = [
        ("CHILD", Path::new("sleep 6")),
        ("SIZE", Path::new("6")),
        ("TIMES", Path::new("4")),
    ];
    let played = play_with("spawn", 1, &vars);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let refused = played.output.matches("PMIX_ERR_OUT_OF_RESOURCE").count();
    assert_eq!(refused, 2, "{}", played.output);
    assert_eq!(played.outcome.num_spawned, 2);
}

#[test]
fn a_request_of_more_applications_than_processes_may_be_is_refused_before_it_is_read() {
    // Applications without processes would be rejected for that reason when they are counted.
    let vars = [("APPS", Path::new("17")), ("SIZE", Path::new("0"))];
    let played = play_with("spawn", 1, &vars);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    assert!(
        played.output.contains("PMIX_ERR_OUT_OF_RESOURCE"),
        "{}",
        played.output
    );
    assert_eq!(played.outcome.num_spawned, 0);
}

#[test]
fn registered_processes_are_notified_of_start_and_end_of_jobs_and_processes() {
    for (child, ended) in [
        (
            "false",
            "PMIX_ERR_EXIT_NONZERO_TERM (-404) of listen@2 \
             Proc(Proc { nspace: \"listen@2\", rank: 0 }) Int32(1) String(Some(\"exit code 1\"))\n",
        ),
        (
            "true",
            "PMIX_EVENT_PROC_TERMINATED (-201) of listen@2 \
             Proc(Proc { nspace: \"listen@2\", rank: 0 })\n",
        ),
    ] {
        let played = play_with("listen", 1, &[("CHILD", Path::new(child))]);
        let over = match child {
            "true" => {
                "Proc(Proc { nspace: \"listen@2\", rank: 4294967294 }) Status(PMIX_SUCCESS (0))\n"
            }
            _ => {
                "Proc(Proc { nspace: \"listen@2\", rank: 0 }) Int32(1) \
                 Status(PMIX_ERR_JOB_NON_ZERO_TERM (-187))\n"
            }
        };
        for line in [
            "PMIX_EVENT_JOB_START (-191) of listen@2\n",
            &format!("{} of listen@2\n", Status::LAUNCH_COMPLETE),
            ended,
            &format!("(-145) of listen@2 {over}"),
        ] {
            assert!(played.output.contains(line), "{line} in {}", played.output);
        }
    }
}

#[test]
fn a_crashed_process_differs_from_one_terminated_because_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("crash");
    // The second process waits to be terminated; the first one crashes when the second has started.
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let text = format!(
        "case $PMIX_RANK in 0) read line < {0}; kill -SEGV $$;; *) echo there > {0}; exec sleep 1000;; esac\n",
        fifo.display()
    );
    std::fs::write(&script, text).unwrap();
    let child = format!("sh {}", script.display());
    let vars = [("CHILD", Path::new(&child)), ("SIZE", Path::new("2"))];
    let played = play_with("listen", 1, &vars);
    for line in [
        "PMIX_ERR_PROC_ABORTED_BY_SIG (-402) of listen@2 \
         Proc(Proc { nspace: \"listen@2\", rank: 0 }) Int32(139) String(Some(\"signal SIGSEGV",
        "PMIX_ERR_PROC_KILLED_BY_CMD (-400) of listen@2 \
         Proc(Proc { nspace: \"listen@2\", rank: 1 }) Int32(143) String(Some(\"signal SIGTERM\"))\n",
    ] {
        assert!(played.output.contains(line), "{line} in {}", played.output);
    }
}

#[test]
fn registered_processes_are_notified_of_a_failed_launch() {
    for (child, size, expected) in [
        ("/no/such/program", "1", "PMIX_ERR_JOB_EXE_NOT_FOUND (-190)"),
        ("true", "0", "PMIX_ERR_JOB_FAILED_TO_LAUNCH (-181)"),
    ] {
        let vars = [("CHILD", Path::new(child)), ("SIZE", Path::new(size))];
        let played = play_with("listen", 1, &vars);
        let line = format!("{expected} of listen@1.server String(Some(");
        assert!(played.output.contains(&line), "{line} in {}", played.output);
    }
}

#[test]
fn a_spawn_by_a_process_being_terminated_is_canceled() {
    let played = play_plan("asks_late", 2, &[], |plan| {
        // A program inherits the signals that the shell ignores.
        let app = &mut plan.apps[0];
        let program = std::mem::replace(&mut app.program, "sh".into());
        let ignore = ["-c", "trap '' TERM; exec \"$0\" \"$@\""].map(Into::into);
        app.args = [&ignore[..], &[program], &app.args].concat();
    });
    let said = format!("{}\ncanceled\n", Status::ERR_JOB_CANCELED);
    assert_eq!(played.output, said, "{}", played.errors);
    assert_eq!(played.outcome.num_spawned, 0);
    assert_eq!(played.outcome.exit_code(), 3);
}

#[test]
fn directives_of_a_spawn_are_obeyed_or_refused_by_name() {
    let played = play_with("refused", 1, &[]);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    for line in [
        "PMIX_ERR_NOT_SUPPORTED (-47)\n",
        "PMIX_ERR_JOB_FAILED_TO_MAP (-179)\n",
        "[refused@2,0]<stdout>: said\n",
    ] {
        assert!(played.output.contains(line), "{line} in {}", played.output);
    }
}

#[test]
fn output_of_a_spawned_job_goes_to_the_files_that_it_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let played = play_with("into_files", 1, &[("DIR", dir.path())]);
    assert_eq!(played.outcome.cause, None, "{}", played.errors);
    let answers = played.output.matches("PMIX_SUCCESS").count();
    assert_eq!(answers, 5, "{}", played.output);
    assert!(
        played.output.contains("PMIX_ERR_BAD_PARAM"),
        "{}",
        played.output
    );
    let copies = played.output.matches("said\n").count();
    assert_eq!(copies, 1, "{}", played.output);
    for (file, text) in [
        ("dir/into_files@2/rank.0.stdout", "said\n"),
        ("dir/into_files@2/rank.0.stderr", "also\n"),
        ("dir/into_files@3/rank.0.stdout", "said\n"),
        ("one.into_files@4.0", "said\nalso\n"),
        ("into_files@5/of.0.stdout", "said\n"),
        ("into_files@5/of.0.stderr", "also\n"),
        ("merged.0.stdout", "said\nalso\n"),
    ] {
        let written = std::fs::read_to_string(dir.path().join(file));
        assert_eq!(written.unwrap(), text, "{file}");
    }
    assert!(!dir.path().join("merged.0.stderr").exists());
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of jobs that a tool spawns. They check the status and the exit code for each way in which
//! a process and its job terminate, and the effect of directives.
#![allow(
    clippy::disallowed_methods,
    reason = "the environment selects what the processes do"
)]

use std::fs;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::command::Running;
use pmix_proto::Event;
use pmix_tool::Tool;
use pmix_types::{App, Envar, Info, Status, Value, keys};

/// The time limit of each step, which only a fault reaches.
const LIMIT: Duration = Duration::from_secs(60);

mod actors {
    use pmix_client::{Client, Settings};
    use pmix_types::{App, Info, keys};

    /// Runs as the process of a job. In a normal test run, it does nothing.
    #[test]
    #[ignore = "a process of the jobs that the other tests start"]
    fn actor() {
        let Ok(act) = std::env::var("ACT") else {
            return;
        };
        let settings = Settings::from_env().unwrap();
        if act.starts_with("parent") {
            let parent = Client::init(settings).unwrap();
            asks_for_a_child(&parent);
            if act == "parent_fails" {
                std::process::exit(3);
            }
            parent.finalize().unwrap();
            std::process::exit(0);
        }
        let client = Client::init(settings).unwrap();
        match act.as_str() {
            "exits" => std::process::exit(3),
            "leaves" => std::process::exit(0),
            "aborts" => client.abort(7, "no more fuel", &[]).wait().unwrap(),
            _ => {}
        }
        loop {
            std::thread::park();
        }
    }

    fn asks_for_a_child(parent: &Client) {
        let separate = match std::env::var("SEPARATE").as_deref() {
            Ok("") | Err(_) => Vec::new(),
            Ok(word) => vec![Info::new(keys::SPAWN_CHILD_SEP, word == "true")],
        };
        let child = App {
            cmd: Some("sh".into()),
            argv: ["sh", "-c", super::UNTIL_TOLD].map(Into::into).to_vec(),
            maxprocs: 1,
            ..App::default()
        };
        parent.spawn(separate, vec![child]).wait().unwrap();
    }
}

/// A script that runs until a file exists.
const UNTIL_TOLD: &str = "while ! test -e \"$TMPDIR/go\"; do sleep 0.05; done";

/// A launcher, and an attached tool that spawns jobs and receives events about their end.
struct Stage {
    running: Running,
    tool: Tool,
    events: Receiver<Event<'static>>,
}

impl Stage {
    fn new() -> Self {
        let wait = ["sh", "-c", "echo up; exec sleep 1000"];
        let mut running = Running::start(&[&["--node-name", "n1"][..], &wait].concat());
        assert_eq!(running.line(), "up");
        let (tool, events) = running.attach();
        let codes = vec![
            Status::EVENT_PROC_TERMINATED,
            Status::ERR_EXIT_NONZERO_TERM,
            Status::ERR_PROC_ABORTED_BY_SIG,
            Status::ERR_PROC_KILLED_BY_CMD,
            Status::ERR_PROC_TERM_WO_SYNC,
            Status::ERR_PROC_REQUESTED_ABORT,
            Status::EVENT_JOB_END,
        ];
        tool.register_events(codes, Vec::new()).wait().unwrap();
        Self {
            running,
            tool,
            events,
        }
    }

    fn start(&self, app: App<'static>, infos: Vec<Info<'static>>) -> String {
        let started = self.tool.spawn(infos, vec![app]).wait().unwrap();
        started.to_string()
    }

    /// Returns the first event with this status about the job.
    fn event_of(&self, job: &str, status: Status) -> Event<'static> {
        loop {
            let event = self.next();
            if event.status == status && is_about(&event, job) {
                return event;
            }
        }
    }

    fn next(&self) -> Event<'static> {
        self.events.recv_timeout(LIMIT).unwrap()
    }

    /// Ends everything and returns the exit code of the launcher.
    fn end(self) -> Option<i32> {
        self.tool.finalize().unwrap();
        let _ = fs::remove_file(self.running.tmp.path().join("go"));
        self.running.signal("TERM");
        self.running.end().0
    }
}

fn value<'e>(event: &'e Event<'static>, key: &str) -> Option<&'e Value<'static>> {
    let info = event.infos.iter().find(|info| info.key.is(key));
    info.map(|info| &info.value)
}

fn is_about(event: &Event<'static>, job: &str) -> bool {
    let Some(Value::Proc(proc)) = value(event, keys::EVENT_AFFECTED_PROC) else {
        panic!("{event:?}");
    };
    proc.nspace.as_bytes() == job.as_bytes()
}

fn code(event: &Event<'static>) -> Option<i32> {
    value(event, keys::EXIT_CODE).map(|code| code.to_number().unwrap())
}

fn shell(script: &str, num_procs: i32) -> App<'static> {
    App {
        cmd: Some("sh".into()),
        argv: ["sh", "-c", script]
            .map(|word| word.to_owned().into())
            .to_vec(),
        maxprocs: num_procs,
        ..App::default()
    }
}

/// Returns an application that runs this program as an actor.
fn actor(act: &str, var: &str) -> App<'static> {
    let program = std::env::current_exe().unwrap().display().to_string();
    let words = [
        &program,
        "--exact",
        "tool_ends::actors::actor",
        "--ignored",
        "--nocapture",
    ];
    App {
        cmd: Some(program.clone().into()),
        argv: words.map(|word| word.to_owned().into()).to_vec(),
        env: vec![format!("ACT={act}").into(), var.to_owned().into()],
        maxprocs: 1,
        ..App::default()
    }
}

#[test]
fn each_end_of_a_process_and_its_job_has_a_status_and_a_code() {
    let stage = Stage::new();
    let act = |act: &str| actor(act, "UNUSED=");
    let second = || vec![Info::new(keys::JOB_TIMEOUT, 1)];
    for (app, infos, of_proc, of_job) in [
        (
            shell("exit 0", 1),
            Vec::new(),
            (Status::EVENT_PROC_TERMINATED, None),
            (Status::SUCCESS, None),
        ),
        (
            act("exits"),
            Vec::new(),
            (Status::ERR_EXIT_NONZERO_TERM, Some(3)),
            (Status::ERR_JOB_NON_ZERO_TERM, Some(3)),
        ),
        (
            act("leaves"),
            Vec::new(),
            (Status::ERR_PROC_TERM_WO_SYNC, None),
            (Status::ERR_JOB_TERM_WO_SYNC, Some(1)),
        ),
        (
            act("aborts"),
            Vec::new(),
            (Status::ERR_PROC_REQUESTED_ABORT, Some(7)),
            (Status::ERR_JOB_ABORTED, Some(7)),
        ),
        (
            shell("ulimit -c 0; kill -SEGV $$", 1),
            Vec::new(),
            (Status::ERR_PROC_ABORTED_BY_SIG, Some(139)),
            (Status::ERR_JOB_ABORTED_BY_SIG, Some(139)),
        ),
        (
            act("waits"),
            second(),
            (Status::ERR_PROC_KILLED_BY_CMD, Some(143)),
            (Status::ERR_TIMEOUT, Some(124)),
        ),
    ] {
        let said = format!("{app:?}");
        let job = stage.start(app, infos);
        let first = stage.next();
        assert_eq!((first.status, code(&first)), of_proc, "{said}");
        assert!(is_about(&first, &job), "{first:?}");
        let end = stage.event_of(&job, Status::EVENT_JOB_END);
        let status = value(&end, keys::JOB_TERM_STATUS);
        assert_eq!(status, Some(&Value::Status(of_job.0)), "{said}");
        assert_eq!(code(&end), of_job.1, "{said}");
    }
    assert_eq!(stage.end(), Some(3));
}

#[test]
fn directives_say_whether_a_failure_ends_the_others_and_the_jobs_of_a_job() {
    let stage = Stage::new();
    let go = stage.running.tmp.path().join("go");
    let is = |key: &'static str, value: bool| vec![Info::new(key, value)];
    // Rank 0 fails, and rank 1 is killed with it or continues.
    let script = format!("test $PMIX_RANK = 0 && exit 3; {UNTIL_TOLD}");
    for (infos, last) in [
        (Vec::new(), Status::ERR_PROC_KILLED_BY_CMD),
        (
            is(keys::ABORT_NON_ZERO_TERM, true),
            Status::ERR_PROC_KILLED_BY_CMD,
        ),
        (
            is(keys::ABORT_NON_ZERO_TERM, false),
            Status::EVENT_PROC_TERMINATED,
        ),
        (
            is(keys::JOB_RECOVERABLE, true),
            Status::EVENT_PROC_TERMINATED,
        ),
        (
            is(keys::JOB_CONTINUOUS, true),
            Status::EVENT_PROC_TERMINATED,
        ),
        (
            vec![Info::new(keys::RUNTIME_OPTIONS, "recoverable")],
            Status::EVENT_PROC_TERMINATED,
        ),
    ] {
        let said = format!("{infos:?}");
        let job = stage.start(shell(&script, 2), infos);
        let failed = stage.next();
        assert_eq!(failed.status, Status::ERR_EXIT_NONZERO_TERM, "{said}");
        if last == Status::EVENT_PROC_TERMINATED {
            fs::write(&go, "").unwrap();
        }
        let next = stage.next();
        assert_eq!(next.status, last, "{said}");
        stage.event_of(&job, Status::EVENT_JOB_END);
        let _ = fs::remove_file(&go);
    }
    // A parent fails or succeeds, and its child is killed or continues.
    for (parent, separate, is_ended) in [
        ("parent_fails", "", true),
        ("parent_fails", "true", false),
        ("parent_ends", "", false),
        ("parent_ends", "false", true),
    ] {
        let job = stage.start(actor(parent, &format!("SEPARATE={separate}")), Vec::new());
        let (mut parent_is_over, mut child) = (false, None);
        while !parent_is_over || child.is_none() {
            let event = stage.next();
            match (
                event.status == Status::EVENT_JOB_END,
                is_about(&event, &job),
            ) {
                (true, true) => parent_is_over = true,
                (true, false) => child = value(&event, keys::JOB_TERM_STATUS).cloned(),
                _ => {}
            }
            if parent_is_over && !is_ended {
                fs::write(&go, "").unwrap();
            }
        }
        let expected = match is_ended {
            true => Status::ERR_JOB_KILLED_BY_CMD,
            false => Status::SUCCESS,
        };
        assert_eq!(child, Some(Value::Status(expected)), "{parent} {separate}");
        let _ = fs::remove_file(&go);
    }
    assert_eq!(stage.end(), Some(3));
}

#[test]
fn directives_say_where_a_job_starts_with_which_variables_and_processors() {
    let mut stage = Stage::new();
    let var = |key: &'static str, name: &'static str, value: &'static str| {
        let envar = Envar {
            envar: Some(name.into()),
            value: Some(value.into()),
            separator: b':',
        };
        Info::new(key, Value::Envar(Box::new(envar)))
    };
    let variables = vec![
        var(keys::SET_ENVAR, "S", "set"),
        var(keys::ADD_ENVAR, "S", "not added"),
        var(keys::ADD_ENVAR, "N", "added"),
        var(keys::PREPEND_ENVAR, "P", "before"),
        var(keys::APPEND_ENVAR, "A", "behind"),
        var(keys::FIRST_ENVAR, "F", "first"),
        Info::new(keys::UNSET_ENVAR, "U"),
    ];
    let with_variables = App {
        env: ["P=x", "A=x", "F=x", "U=x"].map(Into::into).to_vec(),
        ..shell("echo $S,$N,$P,$A,$F,${U-unset}", 1)
    };
    let own = allowed(&fs::read_to_string("/proc/self/status").unwrap());
    let cpu = own.split([',', '-']).next().unwrap().to_owned();
    let shown = "grep Cpus_allowed_list /proc/self/status | tr -d '\\t'";
    for (app, infos, line) in [
        (
            with_variables,
            variables,
            "set,added,before:x,x:behind,first:x,unset".to_owned(),
        ),
        (
            shell("pwd", 1),
            vec![Info::new(keys::WDIR, "/usr")],
            "/usr".to_owned(),
        ),
        (
            shell("echo error >&2", 1),
            vec![Info::new(keys::MERGE_STDERR_STDOUT, true)],
            "error".to_owned(),
        ),
        (
            shell(shown, 1),
            vec![Info::new(keys::CPU_LIST, cpu.clone())],
            format!("Cpus_allowed_list:{cpu}"),
        ),
        (
            shell(shown, 1),
            vec![
                Info::new(keys::MAPBY, "hwthread"),
                Info::new(keys::CPU_LIST, cpu.clone()),
                Info::new(keys::BINDTO, "hwthread"),
            ],
            format!("Cpus_allowed_list:{cpu}"),
        ),
        (
            shell(shown, 1),
            vec![
                Info::new(keys::MAPBY, "hwthread"),
                Info::new(keys::BINDTO, "none"),
            ],
            format!("Cpus_allowed_list:{own}"),
        ),
    ] {
        let said = format!("{infos:?}");
        let job = stage.start(app, infos);
        assert_eq!(stage.running.line(), line, "{said}");
        stage.event_of(&job, Status::EVENT_JOB_END);
    }
    assert_eq!(stage.end(), Some(128 + 15));
}

/// Returns the processors on which a process may run.
fn allowed(status: &str) -> String {
    let line = { status.lines() }.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

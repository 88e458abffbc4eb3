// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spawns with directives, and their outcomes.
#![allow(
    clippy::disallowed_methods,
    reason = "the environment selects what its processes do"
)]

use pmix_client::Client;
use pmix_proto::{Request, reply, request};
use pmix_types::{App, Info, IntoOwned as _, Nspace, Proc, ProcState, Rank, Status, Value, keys};

use crate::actors::peer;
use crate::asking::ask;
use crate::stage::{Played, play, play_plan};

/// Spawns a job and prints the status.
pub(crate) fn start(
    client: &mut Client,
    argv: &[&str],
    maxprocs: i32,
    env: &[&'static str],
    infos: Vec<Info<'static>>,
) -> Status {
    started(client, argv, maxprocs, env, infos).0
}

/// Spawns a job, prints the status, and returns it with the name of the job.
pub(crate) fn started(
    client: &mut Client,
    argv: &[&str],
    maxprocs: i32,
    env: &[&'static str],
    infos: Vec<Info<'static>>,
) -> (Status, Option<Nspace<'static>>) {
    let app = App {
        cmd: argv.first().map(|word| (*word).to_owned().into()),
        argv: argv.iter().map(|word| (*word).to_owned().into()).collect(),
        env: env.iter().map(|var| (*var).into()).collect(),
        maxprocs,
        ..App::default()
    };
    let apps = vec![app];
    let request = Request::Spawn(request::Spawn { infos, apps });
    let payload = client.request(request).wait().unwrap();
    let answer = reply::Spawned::decode(client.form(), None, &payload).unwrap();
    println!("{}", answer.status);
    (
        answer.status,
        answer.nspace.map(|nspace| nspace.into_owned()),
    )
}

fn is(key: &'static str) -> Info<'static> {
    Info::new(key, true)
}

const CMDLINE: &str = "tr '\\0' ' ' < /proc/$$/cmdline; echo";

pub(crate) fn commands(mut client: Client) {
    let agent = Info::new(keys::FORKEXEC_AGENT, "env AGENT=yes");
    start(
        &mut client,
        &["sh", "-c", "echo agent $AGENT"],
        1,
        &[],
        vec![agent],
    );
    let indexed = vec![is(keys::INDEX_ARGV)];
    start(&mut client, &["sh", "-c", CMDLINE], 2, &[], indexed);
    let missing = Info::new(keys::FORKEXEC_AGENT, "/no/such/agent -x");
    let status = start(&mut client, &["true"], 1, &[], vec![missing]);
    assert_eq!(status, Status::ERR_JOB_EXE_NOT_FOUND);
    client.finalize().unwrap();
}

pub(crate) fn shown(mut client: Client) {
    let host = |key: &'static str| Info::new(key, "elsewhere,here");
    let all = || {
        vec![
            is(keys::DISPLAY_MAP_DETAILED),
            is(keys::DISPLAY_ALLOCATION),
            host(keys::DISPLAY_TOPOLOGY),
            host(keys::DISPLAY_PROCESSORS),
        ]
    };
    let prepared = [
        all(),
        vec![is(keys::DO_NOT_LAUNCH), is(keys::DISPLAY_PARSEABLE_OUTPUT)],
    ];
    start(&mut client, &["echo", "never"], 2, &[], prepared.concat());
    let progress = [all(), vec![is(keys::SHOW_LAUNCH_PROGRESS)]].concat();
    start(&mut client, &["true"], 3, &[], progress);
    let tagged = vec![is(keys::IOF_TAG_DETAILED_OUTPUT)];
    start(&mut client, &["sh", "-c", "echo pid $$"], 1, &[], tagged);
    let elsewhere = vec![Info::new(keys::DISPLAY_TOPOLOGY, "elsewhere")];
    let status = start(&mut client, &["true"], 1, &[], elsewhere);
    assert_eq!(status, Status::ERR_JOB_FAILED_TO_MAP);
    client.finalize().unwrap();
}

pub(crate) fn counted(mut client: Client) {
    let within = vec![is(keys::NO_OVERSUBSCRIBE)];
    let status = start(&mut client, &["true"], 1_000_000, &[], within);
    assert_eq!(status, Status::ERR_JOB_FAILED_TO_MAP);
    let beside = |proc: Proc<'static>| {
        // A process that is named twice counts once.
        vec![
            Info::new(keys::COLOCATE_PROCS, vec![proc.clone(), proc]),
            Info::new(keys::COLOCATE_NPERPROC, 3u16),
        ]
    };
    let own = peer(&client, 0);
    start(&mut client, &["echo", "beside"], 1, &[], beside(own));
    // The wildcard names both processes of a job.
    let (_, two) = started(&mut client, &["cat"], 2, &[], vec![is(keys::FWD_STDIN)]);
    let two = two.unwrap();
    let all = Proc::new(two.clone(), Rank::WILDCARD);
    start(&mut client, &["echo", "beside"], 1, &[], beside(all));
    let first = Rank::new(0);
    assert_eq!(push(&mut client, &two, first, ""), Status::SUCCESS);
    let nobody = Proc::new("nobody", Rank::new(0));
    let status = start(&mut client, &["true"], 1, &[], beside(nobody));
    assert_eq!(status, Status::ERR_NOT_FOUND);
    client.finalize().unwrap();
}

/// Spawns jobs that read pushed input.
pub(crate) fn fed(mut client: Client) {
    let reader = |rank: Rank| Info::new(keys::STDIN_TGT, Value::Rank(rank));
    let second = Proc::new("any", Rank::new(1));
    for (infos, rank, data) in [
        (vec![is(keys::FWD_STDIN)], Rank::new(0), "to the first\n"),
        (
            vec![Info::new(keys::STDIN_TGT, second)],
            Rank::new(1),
            "to the second\n",
        ),
        (vec![reader(Rank::WILDCARD)], Rank::WILDCARD, "to all\n"),
    ] {
        let (_, nspace) = started(&mut client, &["cat"], 2, &[], infos);
        let nspace = nspace.unwrap();
        if rank.is_valid() {
            let other = Rank::new(1 - rank.as_raw());
            assert_eq!(
                push(&mut client, &nspace, other, "nobody"),
                Status::ERR_NOT_FOUND
            );
        }
        assert_eq!(push(&mut client, &nspace, rank, data), Status::SUCCESS);
        assert_eq!(push(&mut client, &nspace, rank, ""), Status::SUCCESS);
    }
    let beyond = vec![reader(Rank::new(2))];
    let status = start(&mut client, &["cat"], 2, &[], beyond);
    assert_eq!(status, Status::ERR_BAD_PARAM);
    client.finalize().unwrap();
}

fn push(client: &mut Client, nspace: &Nspace<'static>, rank: Rank, data: &str) -> Status {
    let push = request::IofPush {
        procs: vec![Proc::new(nspace.clone(), rank)],
        infos: Vec::new(),
        data: Some(data.as_bytes().to_vec().into()),
    };
    let payload = client.request(Request::IofPush(push)).wait().unwrap();
    let answer = reply::Done::decode(client.form(), None, &payload);
    answer.unwrap().status
}

/// Spawns a job of this program, which spawns one that fails.
pub(crate) fn apart(mut client: Client) {
    let program = std::env::current_exe().unwrap().display().to_string();
    let argv = [
        &program,
        "--exact",
        "actors::actor",
        "--ignored",
        "--nocapture",
    ];
    let apart = std::env::var_os("TOGETHER").is_none();
    let infos = vec![Info::new(keys::REPORT_CHILD_SEP, Value::Bool(apart))];
    start(&mut client, &argv, 1, &["ACT=fails_below"], infos);
    client.finalize().unwrap();
}

pub(crate) fn fails_below(mut client: Client) {
    start(&mut client, &["sh", "-c", "exit 9"], 1, &[], Vec::new());
    client.finalize().unwrap();
}

/// Spawns jobs whose processes fail, and prints the events.
pub(crate) fn restarted(mut client: Client) {
    let codes = [
        Status::ERR_PROC_RESTART,
        Status::ERR_EXIT_NONZERO_TERM,
        Status::EVENT_PROC_TERMINATED,
        Status::EVENT_JOB_END,
    ];
    client.register_events(codes, &[]).wait().unwrap();
    let place = std::env::var("PLACE").unwrap();
    let most = |number: u32| Info::new(keys::MAX_RESTARTS, number);
    // Fails twice, then succeeds.
    let script = format!("echo x >> {place}/a; echo went; [ $(wc -l < {place}/a) -gt 2 ]");
    let files = Info::new(keys::IOF_OUTPUT_TO_FILE, format!("{place}/out"));
    start(
        &mut client,
        &["sh", "-c", &script],
        1,
        &[],
        vec![most(5), files],
    );
    tell_until_end(&mut client);
    // Always fails.
    start(
        &mut client,
        &["sh", "-c", "exit 7"],
        1,
        &[],
        vec![most(2), is(keys::JOB_CONTINUOUS)],
    );
    tell_until_end(&mut client);
    let program = std::env::current_exe().unwrap().display().to_string();
    let argv = [
        &program,
        "--exact",
        "actors::actor",
        "--ignored",
        "--nocapture",
    ];
    start(&mut client, &argv, 2, &["ACT=comes_again"], vec![most(1)]);
    tell_until_end(&mut client);
    client.finalize().unwrap();
}

/// Spawns processes that always fail right after their start, and checks that queries are answered until it kills
/// them.
pub(crate) fn restarted_for_ever(mut client: Client) {
    let codes = [Status::ERR_PROC_RESTART, Status::EVENT_JOB_END];
    client.register_events(codes, &[]).wait().unwrap();
    let for_ever = vec![Info::new(keys::MAX_RESTARTS, u32::MAX)];
    let (_, job) = started(&mut client, &["sh", "-c", "exit 7"], 4, &[], for_ever);
    let job = job.unwrap();
    let next = |client: &mut Client| {
        let event = client.next_event(std::time::Duration::from_secs(50));
        event.unwrap().expect("an event comes in time").status
    };
    for _ in 0..12 {
        assert_eq!(next(&mut client), Status::ERR_PROC_RESTART);
    }
    for _ in 0..100 {
        let asked = ask(&mut client, &[keys::QUERY_JOB_STATUS], Vec::new());
        assert_eq!(asked.0, Status::SUCCESS);
    }
    let kill = Request::JobControl(request::JobControl {
        targets: vec![Proc::new(job, Rank::WILDCARD)],
        infos: vec![is(keys::JOB_CTRL_KILL)],
    });
    let payload = client.request(kill).wait().unwrap();
    let answer = reply::Infos::decode(client.form(), None, &payload);
    assert_eq!(answer.unwrap().status, Status::SUCCESS);
    while next(&mut client) != Status::EVENT_JOB_END {}
    client.finalize().unwrap();
}

pub(crate) fn tell_until_end(client: &mut Client) {
    loop {
        let event = client
            .next_event(std::time::Duration::from_secs(50))
            .unwrap();
        let event = event.expect("an event comes in time");
        println!("{} {}", event.source.nspace, event.status);
        if event.status == Status::EVENT_JOB_END {
            return;
        }
    }
}

/// The first incarnation of rank 1 exits between initialize and finalize; the second one meets rank 0 in a fence.
pub(crate) fn comes_again(mut client: Client) {
    let own = client.proc().clone();
    crate::actors::own_directory(&mut client);
    let times = client.get(&own, keys::REINCARNATION, &[]).wait().unwrap();
    if own.rank.as_raw() == 1 && times == Value::Uint32(0) {
        std::process::exit(3);
    }
    println!("rank {} was started again {times:?} times", own.rank);
    // A fence with a lost process fails until its next incarnation has connected, so rank 0 tries again.
    while client.fence([], []).wait().is_err() {}
    println!("rank {} has met the other", own.rank);
    client.finalize().unwrap();
}

/// Registers a directory with many files for removal and fails, before or after it has finalized, until its second
/// restart.
pub(crate) fn cleaned_and_restarted(client: Client) {
    let dir = std::path::PathBuf::from(std::env::var_os("PLACE").unwrap()).join("dir");
    let times = client
        .get(&client.proc().clone(), keys::REINCARNATION, &[])
        .wait();
    std::fs::create_dir(&dir).expect("the directory of the process before is removed");
    let path = dir.to_str().unwrap().to_owned();
    let infos = vec![
        Info::new(keys::REGISTER_CLEANUP_DIR, path),
        Info::new(keys::CLEANUP_RECURSIVE, true),
    ];
    let targets = vec![client.proc().clone()];
    let request = request::JobControl { targets, infos };
    let payload = client.request(Request::JobControl(request)).wait().unwrap();
    let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
    assert_eq!(answer.status, Status::SUCCESS);
    let times = times.unwrap();
    if times == Value::Uint32(2) {
        return client.finalize().unwrap();
    }
    (0..10_000).for_each(|number| std::fs::write(dir.join(number.to_string()), "").unwrap());
    if times == Value::Uint32(1) {
        client.finalize().unwrap();
    }
    std::process::exit(3);
}

#[test]
fn a_process_is_started_again_after_its_files_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let vars = [("PLACE", dir.path())];
    let change = |plan: &mut pmix_launch::Plan| plan.max_restarts = 2;
    let played = play_plan("cleaned_and_restarted", 1, &vars, change);
    assert_eq!(
        played.outcome.cause, None,
        "{}{}",
        played.output, played.errors
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Rank 2 fails, which the others survive. Then rank 1 aborts the job, which has a child job of rank 0.
pub(crate) fn fails_later(mut client: Client) {
    let both = [peer(&client, 0), peer(&client, 1)];
    let meet = |client: &mut Client| client.fence(both.clone(), []).wait();
    match client.proc().rank.as_raw() {
        0 => {
            start(&mut client, &["sleep", "1000"], 1, &[], Vec::new());
            meet(&mut client).unwrap();
            loop {
                std::thread::park();
            }
        }
        1 => {
            meet(&mut client).unwrap();
            let third = vec![Info::new(keys::PROCID, peer(&client, 2))];
            let failed = Value::ProcState(ProcState::TERM_NON_ZERO);
            loop {
                let asked = ask(&mut client, &[keys::PROC_STATE_STATUS], third.clone());
                if asked.1.first().is_some_and(|info| info.value == failed) {
                    break;
                }
            }
            client.abort(5, "enough", &[]).wait().unwrap();
        }
        _ => {
            client.finalize().unwrap();
            std::process::exit(3);
        }
    }
}

fn well(act: &str) -> Played {
    let played = play_plan(act, 1, &[], |plan| plan.max_spawned = u32::MAX);
    assert_eq!(
        played.outcome.cause, None,
        "{}{}",
        played.output, played.errors
    );
    played
}

#[test]
fn an_agent_runs_the_program_and_the_rank_follows_argv_0() {
    let played = well("commands");
    for line in ["agent yes\n", "sh-0 -c", "sh-1 -c"] {
        assert!(played.output.contains(line), "{line} in {}", played.output);
    }
}

#[test]
fn display_directives_are_obeyed_and_do_not_launch_starts_no_process() {
    let played = well("shown");
    assert!(!played.output.contains("never"), "{}", played.output);
    assert_eq!(played.outcome.num_spawned, 2);
    for line in [
        "map nspace=shown@2 rank=1 host=here cpus=none app=0 program=\"echo\" wdir=\"",
        "allocation host=here processors=",
        "topology host=here ",
        "processors host=here cpus=",
        "rank 2 on here: not bound, true of application 0 in ",
        "shown@3: 3 of 3 processes started\n",
        "here has ",
        "processes on here can run on processors ",
        "here has the topology ",
    ] {
        assert!(played.errors.contains(line), "{line} in {}", played.errors);
    }
    let tagged = played.output.lines().find(|line| line.contains("pid "));
    let (tag, pid) = tagged.unwrap().split_once("<stdout>: pid ").unwrap();
    assert_eq!(tag, format!("[4,0][here:{pid}]"));
}

#[test]
fn process_counts_obey_no_oversubscribe_and_colocation() {
    let played = well("counted");
    assert_eq!(played.output.matches("beside\n").count(), 3 + 6);
}

#[test]
fn the_exit_code_of_children_is_the_launchers_unless_reported_separately() {
    let played = play("apart", 1);
    assert_eq!(played.outcome.exit_code(), 0, "{}", played.output);
    let codes: Vec<_> = played
        .outcome
        .spawned
        .iter()
        .map(|job| job.exit_code)
        .collect();
    assert!(codes.contains(&9), "{codes:?}");
    let vars = [("TOGETHER", std::path::Path::new("yes"))];
    let played = crate::stage::play_with("apart", 1, &vars);
    assert_eq!(played.outcome.exit_code(), 9, "{}", played.output);
}

#[test]
fn a_failed_process_is_restarted_and_reconnects_with_its_peers() {
    let dir = tempfile::tempdir().unwrap();
    let played = crate::stage::play_with("restarted", 1, &[("PLACE", dir.path())]);
    let output = &played.output;
    let num_of = |line: &str| output.matches(line).count();
    assert_eq!(num_of("restarted@2 PMIX_ERR_PROC_RESTART"), 2, "{output}");
    assert_eq!(
        num_of("restarted@2 PMIX_ERR_EXIT_NONZERO_TERM"),
        2,
        "{output}"
    );
    assert_eq!(
        num_of("restarted@2 PMIX_EVENT_PROC_TERMINATED"),
        1,
        "{output}"
    );
    let written = std::fs::read_to_string(dir.path().join("out.restarted@2.0"));
    assert_eq!(written.unwrap(), "went\nwent\nwent\n");
    assert_eq!(num_of("restarted@3 PMIX_ERR_PROC_RESTART"), 2, "{output}");
    assert_eq!(
        num_of("restarted@3 PMIX_ERR_EXIT_NONZERO_TERM"),
        3,
        "{output}"
    );
    assert_eq!(num_of("restarted@4 PMIX_ERR_PROC_RESTART"), 1, "{output}");
    assert!(
        output.contains("rank 1 was started again Uint32(1) times\n"),
        "{output}"
    );
    assert_eq!(num_of("has met the other"), 2, "{output}");
    let mut restarts: Vec<_> = { played.outcome.spawned.iter() }
        .map(|job| (&*job.nspace, job.num_restarts))
        .collect();
    restarts.sort_unstable();
    let expected = [("restarted@2", 2), ("restarted@3", 2), ("restarted@4", 1)];
    assert_eq!(restarts, expected);
    let codes: Vec<_> = played
        .outcome
        .spawned
        .iter()
        .map(|job| job.exit_code)
        .collect();
    assert_eq!(codes, [0, 7, 0], "{}", played.errors);
}

#[test]
fn pushed_input_is_read_by_its_target_processes() {
    let played = well("fed");
    for (line, times) in [
        ("to the first\n", 1),
        ("to the second\n", 1),
        ("to all\n", 2),
    ] {
        let read = played.output.matches(line).count();
        assert_eq!(read, times, "{line} in {}", played.output);
    }
    assert!(!played.output.contains("nobody"), "{}", played.output);
}

#[test]
fn a_job_with_keep_going_terminates_its_children_at_its_end() {
    let played = play_plan("fails_later", 3, &[], |plan| plan.keep_going = true);
    let [child] = &played.outcome.spawned[..] else {
        panic!("{:?}", played.outcome.spawned);
    };
    let cause = child.cause.as_ref().map(ToString::to_string);
    assert_eq!(
        cause.as_deref(),
        Some("it was terminated together with fails_later@1")
    );
    // The first failure determines the exit code.
    assert_eq!(played.outcome.exit_code(), 3, "{}", played.errors);
}

#[test]
fn a_process_that_fails_repeatedly_can_be_terminated_during_restarts() {
    let played = play("restarted_for_ever", 1);
    let [job] = &played.outcome.spawned[..] else {
        panic!("{:?} {}", played.outcome, played.errors)
    };
    assert!(job.num_restarts >= 12, "{job:?}");
    let failed = job.cause.as_ref().map(pmix_launch::Cause::exit_code);
    assert!(failed == Some(7) || failed == Some(137), "{job:?}");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The acts of the processes of the jobs.
#![allow(clippy::disallowed_methods, reason = "the environment selects the act")]

use std::path::PathBuf;
use std::process::Command;

use crate::{children, credentials, logs, monitors, placed};
use pmix_client::{Client, Settings};
use pmix_proto::{Request, reply, request};
use pmix_types::{
    App, DataArray, Info, IntoOwned, IofChannel, Proc, Query, Rank, Scope, Status, Value, keys,
};

/// Plays the act that the environment names; without one it does nothing.
#[test]
#[ignore = "a process of the jobs that the other tests start"]
fn actor() {
    let Ok(act) = std::env::var("ACT") else {
        // A spawn by PMI passes no variables.
        if std::env::var("PMI_SPAWNED").is_ok_and(|spawned| spawned == "1") {
            crate::pmi::spawned();
            std::process::exit(0);
        }
        return;
    };
    let settings = Settings::from_env().unwrap();
    // Spawned jobs inherit the variables of their parents, including `ACT`.
    let is_child = !settings.proc.nspace.as_bytes().ends_with(b"@1");
    if act == "spawn" && is_child {
        child(connected(settings));
        std::process::exit(0);
    }
    let rank = settings.proc.rank.as_raw();
    // A failed act panics with its reason. A successful one exits here, so that the process is not reported as a
    // test.
    match act.as_str() {
        "leave" if rank == 0 => {}
        "leave" => connected(settings).finalize().unwrap(),
        "abort" => abort(connected(settings)),
        "bereft" => abort_without_a_peer(settings),
        "directories" if rank == 1 => {}
        "directories" => directories(connected(settings)),
        "vanish" => vanish(connected(settings)),
        "publish" => publish(connected(settings)),
        "table" => table(connected(settings)),
        "asks" => crate::asking::asks(connected(settings)),
        "requires" => {
            crate::required::requires(Client::init(settings).unwrap());
        }
        "asks_for_nothing" => {
            crate::nothing::asks_for_nothing(Client::init(settings).unwrap());
        }
        "ends_the_session" => crate::asking::ends_the_session(connected(settings)),
        "commands" => crate::directed::commands(connected(settings)),
        "shown" => crate::directed::shown(connected(settings)),
        "counted" => crate::directed::counted(connected(settings)),
        "apart" => crate::directed::apart(connected(settings)),
        "connected_parent" => crate::disconnects::parent(connected(settings)),
        "connected_child" => crate::disconnects::child(&connected(settings)),
        "fails_below" => crate::directed::fails_below(connected(settings)),
        "restarted" => crate::directed::restarted(connected(settings)),
        "restarted_for_ever" => crate::directed::restarted_for_ever(connected(settings)),
        "cleaned_and_restarted" => crate::directed::cleaned_and_restarted(connected(settings)),
        "comes_again" => crate::directed::comes_again(connected(settings)),
        "fed" => crate::directed::fed(connected(settings)),
        "placed" => placed::placed(connected(settings)),
        "on_the_node" => placed::on_the_node(connected(settings)),
        "fails_later" => crate::directed::fails_later(connected(settings)),
        "sets" => sets(connected(settings)),
        "control" => control(connected(settings)),
        "debug" => crate::debugging::act(settings, std::env::var("PART").ok().as_deref()),
        "log" => log(connected(settings)),
        "flood" => flood(connected(settings)),
        "cleanup" => cleanup(connected(settings)),
        "spawn" => spawn(connected(settings)),
        "listen" => children::listen(connected(settings)),
        "asks_for_much" => children::asks_for_much(connected(settings)),
        "opens_slowly" => crate::blocked::opens_slowly(connected(settings)),
        "restarts_slowly" => crate::blocked::restarts_slowly(connected(settings)),
        "starts_slowly" => crate::blocked::starts_slowly(connected(settings)),
        "asks_late" => children::asks_late(connected(settings)),
        "refused" => refused(connected(settings)),
        "into_files" => into_files(connected(settings)),
        "forward" => forward(connected(settings)),
        "allocates" => crate::asking::allocates(connected(settings)),
        "machine" => machine(connected(settings)),
        "credentials" => credentials::credentials(connected(settings)),
        "controls" => controls(connected(settings)),
        "channels" => logs::channels(connected(settings)),
        "no_daemon" => logs::no_daemon(connected(settings)),
        "alike" => logs::alike(connected(settings)),
        "late" => crate::waits::late(connected(settings)),
        "exits_later" => crate::waits::exits_later(connected(settings)),
        "ends_late" => crate::waits::ends_late(connected(settings)),
        "fetch" | "spread" => crate::several::act(&act, connected(settings)),
        "watch" => monitors::watch(connected(settings)),
        "used" => monitors::used(connected(settings)),
        "pmi_exchange" => crate::pmi::exchange(settings),
        "pmi_second" => crate::pmi::second(),
        "pmi_abort_alone" => crate::pmi::abort_alone(),
        "pmi_unread" => crate::pmi::unread(),
        "pmi_many" => crate::pmi::many(),
        "pmi_abort" => crate::pmi::abort(),
        "pmi_lost" => crate::pmi::lost(),
        "pmi_spawn" => crate::pmi::spawn(),
        "pmi_hostile" => crate::pmi::hostile(),
        other => panic!("no act is called {other}"),
    }
    std::process::exit(0);
}

pub(crate) fn connected(settings: Settings) -> Client {
    Client::init(settings).unwrap()
}

pub(crate) fn rank(client: &Client) -> u32 {
    client.proc().rank.as_raw()
}

pub(crate) fn peer(client: &Client, rank: u32) -> Proc<'static> {
    Proc::new(client.proc().nspace.clone(), Rank::new(rank))
}

/// Waits for all processes; returns only after each of them has called.
pub(crate) fn wait_for_all(client: &mut Client) {
    client.fence([], []).wait().unwrap();
}

fn abort(mut client: Client) {
    wait_for_all(&mut client);
    if rank(&client) == 1 {
        client.abort(7, "no more fuel", &[]).wait().unwrap();
    }
    // Block until the launcher terminates the job.
    let _ = client
        .fence([peer(&client, 0), peer(&client, 1)], [])
        .wait();
    loop {
        std::thread::park();
    }
}

/// Lets rank 1 kill rank 0 and abort while the launcher is stopped, so that the launcher learns of both at once.
fn abort_without_a_peer(settings: Settings) {
    let client = Client::init(settings).unwrap();
    let peer = |rank| Proc::new(client.proc().nspace.clone(), Rank::new(rank));
    let pid = std::process::id();
    client.put(Scope::GLOBAL, "pid", pid).unwrap();
    client.commit().unwrap();
    client
        .fence(vec![], vec![Info::new(keys::COLLECT_DATA, true)])
        .wait()
        .unwrap();
    if client.proc().rank.as_raw() == 1 {
        let found = client.get(&peer(0), "pid", &[]).wait().unwrap();
        let Value::Uint32(other) = found else {
            panic!("{found:?} is no pid")
        };
        let launcher = std::os::unix::process::parent_id();
        let script = "kill -STOP $0 && kill -KILL $1 && \
             until grep -q '^State:.Z' /proc/$1/status; do :; done";
        let mut shell = Command::new("sh");
        let ids = [launcher, other].map(|id| id.to_string());
        assert!(
            shell
                .args(["-c", script])
                .args(ids)
                .status()
                .unwrap()
                .success()
        );
        // `start` returns after the request was written.
        let abort = client.abort(14, "a peer is lost", []);
        abort.start(|_| {}).unwrap();
        let mut resume = Command::new("kill");
        let resumed = resume.args(["-CONT", &launcher.to_string()]).status();
        assert!(resumed.unwrap().success());
    }
    loop {
        std::thread::park();
    }
}

/// Returns the directory of this process, after it checked that the directory exists.
pub(crate) fn own_directory(client: &mut Client) -> PathBuf {
    let own = client.proc().clone();
    let told = client.get(&own, keys::PROCDIR, &[]).wait().unwrap();
    let Value::String(Some(text)) = told else {
        panic!("{told:?} is no path")
    };
    let path = PathBuf::from(text.to_str_lossy().into_owned());
    assert!(path.is_dir(), "{}", path.display());
    path
}

/// Checks its own directory, and that rank 1, which does not connect, has none.
fn directories(mut client: Client) {
    let own = own_directory(&mut client);
    std::fs::write(own.join("left"), "x").unwrap();
    assert!(!own.with_file_name("1").exists());
    client.finalize().unwrap();
}

fn vanish(mut client: Client) {
    wait_for_all(&mut client);
    if rank(&client) != 1 {
        loop {
            std::thread::park();
        }
    }
}

fn publish(mut client: Client) {
    match rank(&client) {
        0 => {
            // The other rank waits in its lookup, or will find the key at once.
            client.publish(&[Info::new("port", "17")]).wait().unwrap();
            wait_for_all(&mut client);
            client.unpublish(["port"], &[]).wait().unwrap();
        }
        _ => {
            let wait = Info::new(keys::WAIT, 0i32);
            let (_, found) = client.lookup(["port"], &[wait]).wait().unwrap();
            assert_eq!(found[0].value, Value::from("17"));
            assert_eq!(found[0].proc, peer(&client, 0));
            wait_for_all(&mut client);
        }
    }
    client.finalize().unwrap();
}

fn table(mut client: Client) {
    wait_for_all(&mut client);
    if rank(&client) == 0 {
        let query = Query {
            keys: vec![keys::QUERY_PROC_TABLE.into()],
            qualifiers: Vec::new(),
        };
        let queries = vec![query];
        let payload = client
            .request(Request::Query(request::Query { queries }))
            .wait();
        let payload = payload.unwrap();
        let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
        assert_eq!(answer.status, Status::SUCCESS);
        let infos = answer.infos.unwrap();
        let Value::DataArray(DataArray::ProcInfo(about)) = &infos[0].value else {
            panic!("{infos:?}");
        };
        for process in about {
            println!("{} {}", process.proc.rank, process.pid);
        }
    }
    client.finalize().unwrap();
}

fn sets(client: Client) {
    let ask = |key: &'static str, qualifiers| {
        let keys = vec![key.into()];
        let queries = vec![Query { keys, qualifiers }];
        let payload = client
            .request(Request::Query(request::Query { queries }))
            .wait();
        let payload = payload.unwrap();
        let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
        assert_eq!(answer.status, Status::SUCCESS);
        answer.infos.unwrap().remove(0).value.into_owned()
    };
    let names = ask(keys::QUERY_PSET_NAMES, vec![]);
    assert_eq!(names, Value::from("tail"));
    let name = Info::new(keys::PSET_NAME, "tail");
    let members = ask(keys::QUERY_PSET_MEMBERSHIP, vec![name]);
    let expected = [1, 2].map(|rank| peer(&client, rank)).to_vec();
    assert_eq!(members, Value::from(expected));
    client.finalize().unwrap();
}

fn control(mut client: Client) {
    wait_for_all(&mut client);
    if rank(&client) == 1 {
        loop {
            std::thread::park();
        }
    }
    let request = request::JobControl {
        targets: vec![peer(&client, 1)],
        infos: vec![Info::new(keys::JOB_CTRL_TERMINATE, true)],
    };
    let payload = client.request(Request::JobControl(request)).wait().unwrap();
    let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
    assert_eq!(answer.status, Status::SUCCESS);
    println!("asked and done");
    client.finalize().unwrap();
}

/// Requests job control without signals.
fn controls(client: Client) {
    let text = |key: &'static str, text: &'static str| Info::new(key, text);
    let yes = |key: &'static str| Info::new(key, true);
    let (success, unsupported) = (Status::SUCCESS, Status::ERR_NOT_SUPPORTED);
    for (info, status) in [
        (text(keys::JOB_CTRL_RESTART, "c1"), unsupported),
        (text(keys::JOB_CTRL_CHECKPOINT, "c1"), unsupported),
        (yes(keys::JOB_CTRL_CHECKPOINT_EVENT), unsupported),
        (text(keys::JOB_CTRL_PROVISION, "n1"), unsupported),
        (text(keys::JOB_CTRL_PROVISION_IMAGE, "image"), unsupported),
        (yes(keys::JOB_CTRL_PREEMPTIBLE), success),
        (text(keys::JOB_CTRL_ID, "r1"), success),
        (
            Info::new(keys::JOB_CTRL_CANCEL, Value::String(None)),
            success,
        ),
        (text(keys::JOB_CTRL_CANCEL, "r1"), Status::ERR_NOT_FOUND),
        (
            Info::new(keys::JOB_CTRL_SIGNAL, 1000),
            Status::ERR_BAD_PARAM,
        ),
        (Info::new(keys::JOB_CTRL_RESTART, false), unsupported),
        (text(keys::JOB_CTRL_DEFINE_PSET, "own"), success),
        (yes(keys::JOB_CTRL_DEFINE_PSET), Status::ERR_BAD_PARAM),
    ] {
        let said = format!("{info:?}");
        let request = request::JobControl {
            targets: vec![peer(&client, 0)],
            infos: vec![info],
        };
        let payload = client.request(Request::JobControl(request)).wait().unwrap();
        let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
        assert_eq!(answer.status, status, "{said}");
    }
    let queries = vec![Query {
        keys: vec![keys::QUERY_PSET_NAMES.into()],
        qualifiers: Vec::new(),
    }];
    let payload = client
        .request(Request::Query(request::Query { queries }))
        .wait()
        .unwrap();
    let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
    assert_eq!(answer.infos.unwrap()[0].value, Value::from("own"));
    client.finalize().unwrap();
}

fn log(client: Client) {
    let rank = rank(&client);
    let request = request::Log {
        time: 0,
        data: vec![
            Info::new(keys::LOG_STDOUT, format!("to output of {rank}\n")),
            Info::new(keys::LOG_STDERR, format!("to errors of {rank}\n")),
        ],
        directives: Vec::new(),
    };
    let payload = client.request(Request::Log(request)).wait().unwrap();
    let answer = reply::Done::decode(client.form(), None, &payload).unwrap();
    assert_eq!(answer.status, Status::SUCCESS);
    client.finalize().unwrap();
}

/// Lets rank 1 log for as long as the job runs, that is until rank 0 has completed its fences.
fn flood(client: Client) {
    let own = [peer(&client, 0)];
    // After this fence the output of the test runner has been written; writing it later would block, too.
    client.fence([], []).wait().unwrap();
    if rank(&client) == 0 {
        for _ in 0..100 {
            client.fence(own.clone(), []).wait().unwrap();
        }
        std::fs::write(std::env::var_os("PLACE").unwrap(), "").unwrap();
        std::process::exit(17);
    }
    loop {
        let request = request::Log {
            time: 0,
            data: vec![Info::new(keys::LOG_STDOUT, "x".repeat(100_000))],
            directives: Vec::new(),
        };
        client.request(Request::Log(request)).wait().unwrap();
    }
}

fn cleanup(client: Client) {
    let place = PathBuf::from(std::env::var_os("PLACE").unwrap());
    let path = |name: &str| place.join(name).into_os_string().into_string().unwrap();
    std::fs::write(path("file"), "").unwrap();
    std::fs::write(path("sub/file"), "").unwrap();
    for infos in [
        vec![Info::new(keys::REGISTER_CLEANUP, path("file"))],
        vec![Info::new(keys::REGISTER_CLEANUP_DIR, path("sub"))],
    ] {
        let targets = Vec::new();
        let request = request::JobControl { targets, infos };
        let payload = client.request(Request::JobControl(request)).wait().unwrap();
        let answer = reply::Infos::decode(client.form(), None, &payload).unwrap();
        assert_eq!(answer.status, Status::SUCCESS);
    }
    client.finalize().unwrap();
    assert!(place.join("file").exists());
}

/// Pulls the output of rank 0 and pushes its input.
fn forward(client: Client) {
    if rank(&client) == 0 {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        println!("rank 0 read {line:?}");
        return client.finalize().unwrap();
    }
    for (what, key) in [
        ("pull", keys::IOF_CACHE_SIZE),
        ("copy", keys::IOF_COPY),
        ("redirect", keys::IOF_REDIRECT),
    ] {
        let pull = request::IofPull {
            procs: vec![peer(&client, 0)],
            infos: vec![Info::new(key, 4096_u32).required()],
            channels: IofChannel::STDOUT_CHANNEL,
            local_id: 1,
        };
        let payload = client.request(Request::IofPull(pull)).wait().unwrap();
        let answer = reply::Pulled::decode(client.form(), None, &payload).unwrap();
        println!("{what}: {}", answer.status);
    }
    for (rank, data) in [(1, "nobody"), (0, "ping\n")] {
        let push = request::IofPush {
            procs: vec![peer(&client, rank)],
            infos: Vec::new(),
            data: Some(data.as_bytes().into()),
        };
        let payload = client.request(Request::IofPush(push)).wait().unwrap();
        let answer = reply::Done::decode(client.form(), None, &payload).unwrap();
        println!("push to {rank}: {}", answer.status);
    }
    client.finalize().unwrap();
}

fn machine(client: Client) {
    let rank = client.proc().rank;
    let own = Proc::new(client.proc().nspace.clone(), rank);
    for key in [
        keys::HWLOC_XML_V2,
        keys::UNIV_SIZE,
        keys::NPROC_OFFSET,
        keys::SERVER_NSPACE,
        keys::SERVER_RANK,
        keys::RANKBY,
        keys::SESSION_ID,
    ] {
        println!("{key} {:?}", client.get_of_job(key).wait().unwrap());
    }
    for key in [
        keys::CPUSET,
        keys::LOCALITY_STRING,
        keys::GLOBAL_RANK,
        keys::SPAWNED,
        keys::LOCAL_CPUSETS,
    ] {
        println!("{key} {:?}", client.get(&own, key, &[]).wait().unwrap());
    }
    client.finalize().unwrap();
}

/// Spawns the command in `CHILD` (rank 1: in `OTHER`, if set), as often as `TIMES` says, and prints the results.
fn spawn(mut client: Client) {
    for _ in 0..number("TIMES") {
        spawn_one(&mut client);
    }
    client.finalize().unwrap();
}

/// Returns the number in a variable, or 1.
fn number(name: &str) -> usize {
    let value = std::env::var(name).ok();
    value.and_then(|value| value.parse().ok()).unwrap_or(1)
}

pub(crate) fn spawn_one(client: &mut Client) {
    let name = match rank(client) {
        1 if std::env::var_os("OTHER").is_some() => "OTHER",
        _ => "CHILD",
    };
    let child = std::env::var(name).unwrap_or_else(|_| "true".to_owned());
    let words = child.split(' ').map(|word| word.to_owned().into());
    let argv: Vec<_> = words.collect();
    let app = App {
        cmd: argv.first().cloned(),
        argv,
        env: vec![
            "ACT=spawn".into(),
            "GIVEN=by the parent".into(),
            "OMPI_COMM_WORLD_RANK=99".into(),
        ],
        maxprocs: i32::try_from(number("SIZE")).unwrap(),
        ..App::default()
    };
    let request = request::Spawn {
        infos: Vec::new(),
        apps: vec![app; number("APPS")],
    };
    let payload = client.request(Request::Spawn(request)).wait().unwrap();
    let answer = reply::Spawned::decode(client.form(), None, &payload).unwrap();
    let name = answer.nspace.map(|name| format!(" {name}"));
    println!("{}{}", answer.status, name.unwrap_or_default());
}

/// Spawns jobs with directives that the launcher cannot obey, and with one that it obeys.
fn refused(mut client: Client) {
    for (key, value) in [
        (keys::PRELOAD_BIN, Value::Bool(true)),
        (keys::HOST, Value::from("elsewhere")),
        (keys::TAG_OUTPUT, Value::Bool(true)),
    ] {
        say(&mut client, vec![Info::new(key, value)]);
    }
    client.finalize().unwrap();
}

/// Spawns jobs whose output goes to files in the directory that a variable names.
fn into_files(mut client: Client) {
    let dir = std::env::var("DIR").unwrap();
    let path = |name: &str| Value::from(format!("{dir}/{name}"));
    let file = |name: &str| Info::new(keys::IOF_OUTPUT_TO_FILE, path(name));
    let is = |key: &'static str| Info::new(key, Value::Bool(true));
    let alone = || is(keys::IOF_FILE_ONLY);
    let pattern = || is(keys::IOF_FILE_PATTERN);
    for infos in [
        vec![Info::new(keys::IOF_OUTPUT_TO_DIRECTORY, path("dir"))],
        vec![Info::new(keys::OUTPUT_TO_DIRECTORY, path("dir")), alone()],
        vec![file("one"), alone()],
        vec![file("%n/of.%r"), pattern(), alone()],
        vec![
            file("merged.%r"),
            pattern(),
            alone(),
            is(keys::IOF_MERGE_STDERR_STDOUT),
        ],
        vec![file("all"), pattern()],
    ] {
        say(&mut client, infos);
    }
    client.finalize().unwrap();
}

/// Spawns a job that writes to both of its streams.
fn say(client: &mut Client, infos: Vec<Info<'static>>) {
    let argv = ["sh", "-c", "echo said; echo also >&2"];
    let app = App {
        cmd: Some("sh".into()),
        argv: argv.into_iter().map(Into::into).collect(),
        maxprocs: 1,
        ..App::default()
    };
    let request = request::Spawn {
        infos,
        apps: vec![app],
    };
    let payload = client.request(Request::Spawn(request)).wait().unwrap();
    let answer = reply::Spawned::decode(client.form(), None, &payload).unwrap();
    println!("{}", answer.status);
}

/// Prints the job info of a spawned process.
fn child(mut client: Client) {
    own_directory(&mut client);
    let own = client.proc().clone();
    println!(
        "spawned {:?}",
        client.get(&own, keys::SPAWNED, &[]).wait().unwrap()
    );
    let parent = client.get_of_job(keys::PARENT_ID).wait().unwrap();
    assert_eq!(
        client.get(&own, keys::PARENT_ID, &[]).wait().unwrap(),
        parent
    );
    // Clients of OpenPMIx look for the parent only in the process realm. It is therefore registered for the job and
    // for each process.
    let size = client.get_of_job(keys::JOB_SIZE).wait().unwrap();
    let told = client.request(Request::JobInfo).wait().unwrap();
    let key = keys::PARENT_ID.as_bytes();
    let times = told
        .windows(key.len())
        .filter(|bytes| *bytes == key)
        .count();
    let size = usize::from(size.to_number::<u16>().unwrap());
    assert_eq!(times, 1 + size);
    println!("parent {parent:?}");
    println!(
        "offset {:?}",
        client.get_of_job(keys::NPROC_OFFSET).wait().unwrap()
    );
    println!(
        "node rank {:?}",
        client.get(&own, keys::NODE_RANK, &[]).wait().unwrap()
    );
    for name in ["GIVEN", "OMPI_COMM_WORLD_RANK"] {
        println!("{name} {:?}", std::env::var(name));
    }
    client.finalize().unwrap();
}

// SPDX-License-Identifier: MIT OR Apache-2.0
use std::ffi::OsStr;

use pmix_types::{Envar, Rank, keys};

use super::*;
use crate::controller::directives::DIRECTIVES;

fn taken(infos: Vec<Info<'static>>) -> Result<Request, Refusal> {
    let mut request = Request::default();
    let app = SpawnApp {
        info: infos,
        ..program()
    };
    let app = request.app(&app, b"n1")?;
    request.apps.push(app);
    Ok(request)
}

fn program() -> SpawnApp<'static> {
    SpawnApp {
        cmd: Some("true".into()),
        maxprocs: 2,
        ..SpawnApp::default()
    }
}

#[test]
fn what_is_not_done_is_refused_by_its_name() {
    let all = DIRECTIVES.iter();
    for Directive { key, name, .. } in all.filter(|one| one.effect == Effect::Refused) {
        let refusal = taken(vec![Info::new(*key, true)]).unwrap_err();
        assert_eq!(refusal.status, Status::ERR_NOT_SUPPORTED, "{name}");
        assert!(refusal.why.ends_with(name), "{}", refusal.why);
        taken(vec![Info::new(*key, false)]).unwrap();
    }
    for (key, value) in [
        (keys::MAPBY, "ppr:2:board"),
        (keys::PPR, "0:node"),
        (keys::RUNTIME_OPTIONS, "no-such-option"),
        (keys::RUNTIME_OPTIONS, "fwd-environment=no"),
        (keys::MAPBY, "seq"),
        (keys::RANKBY, "node"),
        (keys::BINDTO, "board"),
    ] {
        let refusal = taken(vec![Info::new(key, value)]).unwrap_err();
        assert_eq!(refusal.status, Status::ERR_NOT_SUPPORTED, "{value}");
    }
    let elsewhere = taken(vec![Info::new(keys::DISPLAY_TOPOLOGY, "n2,n3:4")]).unwrap_err();
    assert_eq!(elsewhere.status, Status::ERR_JOB_FAILED_TO_MAP);
    let name = "PMIX_DISPLAY_TOPOLOGY ";
    assert!(elsewhere.why.starts_with(name), "{}", elsewhere.why);
    for key in [keys::HOST, keys::ADD_HOST] {
        let request = taken(vec![Info::new(key, "n2,n3:4")]).unwrap();
        let elsewhere = request.check_hosts_here(b"n1").unwrap_err();
        assert_eq!(elsewhere.status, Status::ERR_JOB_FAILED_TO_MAP);
        assert!(elsewhere.why.starts_with("PMIX_HOST "), "{}", elsewhere.why);
    }
}

#[test]
fn directives_say_where_processes_run_and_for_how_long() {
    let request = taken(vec![
        Info::new(keys::PERSONALITY, "ompi"),
        Info::new(keys::HOST, "n2,n1:4"),
        Info::new(keys::MAPBY, "core:PE=2:OVERSUBSCRIBE"),
        Info::new(keys::RANKBY, "slot"),
        Info::new(keys::BINDTO, "none"),
        Info::new(keys::TAG_OUTPUT, true),
        Info::new(keys::JOB_TIMEOUT, 9i32),
        Info::new(keys::TIMEOUT, 0i32),
        Info::new(keys::WDIR, "/tmp"),
    ]);
    let request = request.unwrap();
    assert_eq!(request.map_by, Some(MapBy::Level(Level::Core)));
    assert_eq!((request.cores_each, request.bind_to), (Some(2), Some(None)));
    assert_eq!(request.tags_output, Some(true));
    assert_eq!(request.timeout, Some(Duration::from_secs(9)));
    assert_eq!(request.apps[0].wdir, Some("/tmp".into()));
    assert_eq!(request.num_procs().unwrap(), 2);
}

#[test]
fn what_is_unknown_is_ignored_unless_it_is_required() {
    for key in ["example.unknown", keys::TIMEOUT_STACKTRACES] {
        let info = Info::new(key, false);
        taken(vec![info.clone()]).unwrap();
        let refusal = taken(vec![info.required()]).unwrap_err();
        assert_eq!(refusal.status, Status::ERR_NOT_SUPPORTED);
        assert!(refusal.why.ends_with(key), "{}", refusal.why);
    }
    for one in DIRECTIVES.iter().filter(|one| one.effect == Effect::Given) {
        taken(vec![Info::new(one.key, true).required()]).unwrap();
    }
    taken(vec![Info::new(keys::TAG_OUTPUT, true).required()]).unwrap();
}

#[test]
fn the_time_limit_of_the_spawn_is_not_that_of_the_job() {
    for key in [keys::TIMEOUT, keys::SPAWN_TIMEOUT] {
        let request = taken(vec![Info::new(key, 30i32)]).unwrap();
        assert_eq!(request.timeout, None);
        let asked = Instant::now();
        let after = |seconds| request.is_late(asked, asked + Duration::from_secs(seconds));
        assert!(!after(29) && after(30));
    }
    let unlimited = taken(vec![Info::new(keys::TIMEOUT, 0i32)]).unwrap();
    let asked = Instant::now();
    assert!(!unlimited.is_late(asked, asked + Duration::from_secs(1000)));
}

#[test]
fn what_is_said_of_the_job_holds_for_all_its_applications() {
    let unset = |name: &'static str| Info::new(keys::UNSET_ENVAR, name);
    let mut request = Request::default();
    for info in [Info::new(keys::WDIR, "/job"), unset("J")] {
        request.take(&info, b"n1").unwrap();
    }
    let first = SpawnApp {
        cwd: Some("/app".into()),
        info: vec![unset("A")],
        ..program()
    };
    let first = request.app(&first, b"n1").unwrap();
    let second = request.app(&program(), b"n1").unwrap();
    assert_eq!(first.wdir, Some("/app".into()));
    assert_eq!(second.wdir, Some("/job".into()));
    let unset = |name: &str| Export::Unset(name.into());
    let [Export::All(all), own] = &first.exports[..] else {
        panic!("{:?}", first.exports);
    };
    assert_eq!((&**all, own), (&[unset("J")][..], &unset("A")));
    // Both share one list, however many applications and variables there are.
    let [Export::All(same)] = &second.exports[..] else {
        panic!("{:?}", second.exports);
    };
    assert!(Arc::ptr_eq(all, same));
    let long = Info::new(keys::WDIR, "/".repeat(4096));
    let refused = request.take(&long, b"n1").unwrap_err();
    assert_eq!(refused.status, Status::ERR_JOB_WDIR_NOT_FOUND);
}

#[test]
fn variables_are_changed_in_the_order_of_the_directives() {
    let envar = |name: &'static str, value: &'static str| {
        Value::Envar(Box::new(Envar {
            envar: Some(name.into()),
            value: Some(value.into()),
            separator: b':',
        }))
    };
    let request = taken(vec![
        Info::new(keys::SET_ENVAR, envar("A", "1")),
        Info::new(keys::PREPEND_ENVAR, envar("P", "front")),
        Info::new(keys::UNSET_ENVAR, "U"),
        Info::new(keys::LAUNCHER_RENDEZVOUS_FILE, "/run/launcher"),
        Info::new(keys::SPAWN_TOOL, true),
    ]);
    let rendezvous = "PMIX_LAUNCHER_RENDEZVOUS_FILE";
    let text = |text: &str| Arc::<OsStr>::from(OsStr::new(text));
    let expected = [
        Export::set("A", "1"),
        Export::Prepend(text("P"), text("front"), b':'),
        Export::Unset("U".into()),
        Export::set(rendezvous, "/run/launcher"),
    ];
    assert_eq!(request.unwrap().apps[0].exports, expected);
    assert!(taken(vec![Info::new(keys::SET_ENVAR, envar("", "1"))]).is_err());
    assert!(taken(vec![Info::new(keys::SET_ENVAR, "A=1")]).is_err());
}

#[test]
fn so_many_processes_on_each_part_are_asked_for_in_two_ways() {
    for (key, text) in [
        (keys::PPR, "2:package"),
        (keys::MAPBY, "PPR:2:Package:NoOversubscribe"),
    ] {
        let request = taken(vec![Info::new(key, text)]).unwrap();
        assert_eq!(request.map_by, Some(MapBy::Level(Level::Package)));
        assert_eq!(request.procs_each, Some(2));
        assert_eq!(request.is_within_processors, key == keys::MAPBY);
    }
}

#[test]
fn options_say_what_directives_say() {
    let options = "Error-Nonzero-Status=false, max-restarts=3,donotlaunch,exec-agent=strace -f,\
                   report-child-jobs-separately,show-progress=yes,aggregate-help";
    let request = taken(vec![Info::new(keys::RUNTIME_OPTIONS, options)]).unwrap();
    assert_eq!(request.ends_by_exit_code, Some(false));
    assert_eq!(request.max_restarts, Some(3));
    assert!(request.is_only_prepared && request.reports_children_apart && request.shows_progress);
    assert_eq!(request.form.agent, ["strace", "-f"]);
    for wrong in [
        "max-restarts",
        "max-restarts=-1",
        "recoverable=perhaps",
        "exec-agent=",
    ] {
        assert!(
            taken(vec![Info::new(keys::RUNTIME_OPTIONS, wrong)]).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn the_number_of_processes_beside_others_follows_from_these() {
    let others = vec![Proc::new("a", Rank::new(0)), Proc::new("b", Rank::new(3))];
    let beside = |number: Info<'static>| {
        let mut request = taken(vec![
            Info::new(keys::COLOCATE_PROCS, others.clone()),
            number,
        ])?;
        request
            .count_beside(2, 1)
            .map(|()| request.apps[0].num_procs)
    };
    assert_eq!(beside(Info::new(keys::COLOCATE_NPERPROC, 3u16)).unwrap(), 6);
    assert_eq!(beside(Info::new(keys::COLOCATE_NPERNODE, 3u16)).unwrap(), 3);
    let mut alone = taken(vec![Info::new(keys::COLOCATE_NPERPROC, 3u16)]).unwrap();
    assert!(
        alone.count_beside(0, 0).is_err(),
        "no processes to colocate with"
    );
    assert!(taken(vec![Info::new(keys::COLOCATE_PROCS, "a,0")]).is_err());
}

/// Returns the expected results: each obeyed key with a value and the resulting field of the request.
fn readings() -> Vec<(&'static str, Value<'static>, &'static str)> {
    let yes = || Value::Bool(true);
    let envar = || {
        Value::Envar(Box::new(Envar {
            envar: Some("A".into()),
            value: Some("1".into()),
            separator: b':',
        }))
    };
    let proc = || Value::Proc(Proc::new("job", Rank::new(3)));
    let launch = Value::DataArray(pmix_types::DataArray::Info(Vec::new()));
    vec![
        (
            keys::ABORT_NON_ZERO_TERM,
            Value::Bool(false),
            "ends_by_exit_code: Some(false)",
        ),
        (keys::ADD_ENVAR, envar(), "Default("),
        (keys::ADD_HOST, "n2".into(), "added: [NamedHost"),
        (
            keys::ADD_HOSTFILE,
            "hosts".into(),
            "files: [(\"hosts\", true)]",
        ),
        (keys::APPEND_ENVAR, envar(), "Append("),
        (keys::BINDTO, "none".into(), "bind_to: Some(None)"),
        (keys::CPUS_PER_PROC, Value::Uint16(2), "cores_each: Some(2)"),
        (keys::CPU_LIST, "0-3".into(), "cpus: Some("),
        (
            keys::COLOCATE_NPERNODE,
            Value::Uint16(2),
            "num_beside_node: Some(2)",
        ),
        (
            keys::COLOCATE_NPERPROC,
            Value::Uint16(2),
            "num_beside: Some(2)",
        ),
        (keys::COLOCATE_PROCS, proc(), "beside: [Proc"),
        (keys::DEBUGGER_DAEMONS, yes(), "has_daemons: true"),
        (
            keys::DEBUG_DAEMONS_PER_NODE,
            Value::Uint16(2),
            "per_node: Some(2)",
        ),
        (
            keys::DEBUG_DAEMONS_PER_PROC,
            Value::Uint16(2),
            "per_proc: Some(2)",
        ),
        (keys::DEBUG_JOB, "job".into(), "target: Some("),
        (keys::DEBUG_STOP_IN_APP, yes(), "point: InApp"),
        (keys::DEBUG_STOP_IN_INIT, yes(), "point: InInit"),
        (keys::DEBUG_STOP_ON_EXEC, yes(), "point: OnExec"),
        (keys::DEBUG_TARGET, proc(), "target: Some("),
        (keys::DISPLAY_ALLOCATION, yes(), "allocation: true"),
        (keys::DISPLAY_MAP, yes(), "map: true"),
        (keys::DISPLAY_MAP_DETAILED, yes(), "detailed: true"),
        (keys::DISPLAY_PARSEABLE_OUTPUT, yes(), "is_parseable: true"),
        (keys::DISPLAY_PROCESSORS, "n1".into(), "processors: true"),
        (keys::DISPLAY_TOPOLOGY, "n1".into(), "topology: true"),
        (keys::DO_NOT_LAUNCH, yes(), "is_only_prepared: true"),
        (
            keys::EXEC_AGENT,
            "env A=1".into(),
            "agent: [\"env\", \"A=1\"]",
        ),
        (keys::FIRST_ENVAR, envar(), "Prepend("),
        (
            keys::FORKEXEC_AGENT,
            "env A=1".into(),
            "agent: [\"env\", \"A=1\"]",
        ),
        (keys::FWD_STDDIAG, yes(), "needs_forwarding: true"),
        (keys::FWD_STDERR, yes(), "needs_forwarding: true"),
        (keys::FWD_STDIN, yes(), "reader: Some("),
        (keys::FWD_STDOUT, yes(), "needs_forwarding: true"),
        (keys::HOST, "n2,n1".into(), "selected: Some("),
        (
            keys::HOSTFILE,
            "hosts".into(),
            "files: [(\"hosts\", false)]",
        ),
        (keys::INDEX_ARGV, yes(), "has_rank: true"),
        (keys::IOF_FILE_ONLY, yes(), "is_in_files_alone: Some(true)"),
        (keys::IOF_FILE_PATTERN, yes(), "is_pattern: true"),
        (
            keys::IOF_MERGE_STDERR_STDOUT,
            yes(),
            "is_merged: Some(true)",
        ),
        (
            keys::IOF_OUTPUT_TO_DIRECTORY,
            "out".into(),
            "output_dir: Some(\"out\")",
        ),
        (
            keys::IOF_OUTPUT_TO_FILE,
            "out".into(),
            "output_file: Some(\"out\")",
        ),
        (
            keys::IOF_TAG_DETAILED_OUTPUT,
            yes(),
            "has_detailed_tags: true",
        ),
        (
            keys::IOF_TAG_FULLNAME_OUTPUT,
            yes(),
            "tags_output: Some(true)",
        ),
        (keys::IOF_TAG_OUTPUT, yes(), "tags_output: Some(true)"),
        (keys::JOB_CONTINUOUS, yes(), "keep_going: Some(true)"),
        (keys::JOB_RECOVERABLE, yes(), "keep_going: Some(true)"),
        (keys::JOB_TIMEOUT, Value::Int32(2), ", timeout: Some(2s)"),
        (
            keys::LAUNCHER_RENDEZVOUS_FILE,
            "/f".into(),
            "Set(\"PMIX_LAUNCHER_RENDEZVOUS_FILE\", \"/f\")",
        ),
        (keys::LAUNCH_DIRECTIVES, launch, "for_launcher: Some("),
        (keys::MAPBY, "core".into(), "map_by: Some(Level(Core))"),
        (
            keys::MAX_RESTARTS,
            Value::Uint32(2),
            "max_restarts: Some(2)",
        ),
        (keys::MERGE_STDERR_STDOUT, yes(), "is_merged: Some(true)"),
        (keys::NO_OVERSUBSCRIBE, yes(), "is_within_processors: true"),
        (keys::OUTPUT_NOCOPY, yes(), "is_in_files_alone: Some(true)"),
        (
            keys::OUTPUT_TO_DIRECTORY,
            "out".into(),
            "output_dir: Some(\"out\")",
        ),
        (
            keys::OUTPUT_TO_FILE,
            "out".into(),
            "output_file: Some(\"out\")",
        ),
        (keys::PPR, "2:core".into(), "procs_each: Some(2)"),
        (keys::PREPEND_ENVAR, envar(), "Prepend("),
        (keys::RANKBY, "slot".into(), "Request"),
        (keys::REPORT_BINDINGS, yes(), "map: true"),
        (
            keys::REPORT_CHILD_SEP,
            yes(),
            "reports_children_apart: true",
        ),
        (
            keys::RUNTIME_OPTIONS,
            "recoverable".into(),
            "keep_going: Some(true)",
        ),
        (keys::SET_ENVAR, envar(), "Set("),
        (keys::SHOW_LAUNCH_PROGRESS, yes(), "shows_progress: true"),
        (keys::SPAWN_CHILD_SEP, yes(), "is_separate: Some(true)"),
        (
            keys::SPAWN_TIMEOUT,
            Value::Int32(2),
            "spawn_timeout: Some(2s)",
        ),
        (keys::SPAWN_TOOL, yes(), "is_tool: true"),
        (keys::STDIN_TGT, Value::Rank(Rank::new(1)), "reader: Some("),
        (keys::TAG_OUTPUT, yes(), "tags_output: Some(true)"),
        (keys::TIMEOUT, Value::Int32(2), "spawn_timeout: Some(2s)"),
        (keys::UNSET_ENVAR, "A".into(), "Unset(\"A\")"),
        (keys::WDIR, "/tmp".into(), "wdir: Some(\"/tmp\")"),
    ]
}

#[test]
fn each_directive_that_is_obeyed_is_read_as_what_it_asks_for() {
    let readings = readings();
    let obeyed = DIRECTIVES.iter();
    for one in obeyed.filter(|one| matches!(one.effect, Effect::Obeyed(_))) {
        let found = readings.iter().filter(|(key, ..)| *key == one.key);
        assert_eq!(found.count(), 1, "{}", one.name);
    }
    for (key, value, field) in readings {
        let mut request = Request::default();
        let before = format!("{request:?}");
        // Forwarding changes the request only if it is required.
        let info = Info::new(key, value).required();
        request.take(&info, b"n1").unwrap();
        let after = format!("{request:?}");
        assert!(after.contains(field), "{key}: {field} in {after}");
        // This one requests the default, so the request does not change.
        let is_so = key == keys::RANKBY;
        assert_eq!(before.contains(field), is_so, "{key}: {field}");
    }
}

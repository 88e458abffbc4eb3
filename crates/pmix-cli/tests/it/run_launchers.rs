// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` with command lines and settings of other launchers that need more than a name.

use crate::command::{Outcome, assert_nothing_left, finish, launcher, run};

/// Runs `pmix run` with these variables.
fn run_in(vars: &[(&str, &str)], args: &[&str]) -> Outcome {
    let (mut command, tmp) = launcher(args);
    command.envs(vars.iter().copied());
    let outcome = finish(command, b"");
    assert_nothing_left(&tmp);
    outcome
}

fn refused(args: &[&str], hints: &[&str]) {
    let outcome = run(args);
    assert_ne!(outcome.code, 0, "{args:?}");
    for hint in hints {
        assert!(
            outcome.stderr.contains(hint),
            "{args:?}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn modifiers_of_prterun_are_accepted_or_named() {
    for map_by in [
        ":OVERSUBSCRIBE",
        "core:SPAN",
        "slot:HWTCPUS",
        ":oversub",
        "slot:INHERIT",
    ] {
        let outcome = run(&["--map-by", map_by, "echo", "x"]);
        assert_eq!((&*outcome.text(), &*outcome.stderr), ("x", ""), "{map_by}");
    }
    for bind_to in ["core:overload-allowed", "CORE:IF-SUPPORTED"] {
        let outcome = run(&["--bind-to", bind_to, "echo", "x"]);
        assert_eq!((&*outcome.text(), &*outcome.stderr), ("x", ""), "{bind_to}");
    }
    for (option, value, hint) in [
        (
            "--map-by",
            "slot:NOLOCAL",
            "the modifier nolocal is not supported",
        ),
        (
            "--map-by",
            "core:device=mlx5_0",
            "the modifier device is not supported",
        ),
        (
            "--map-by",
            "pe-list=0,1:ordered",
            "the policy pe-list is not supported: use --cpu-set",
        ),
        (
            "--map-by",
            "rankfile:file=x",
            "the policy rankfile is not supported",
        ),
        (
            "--bind-to",
            "core:no-overload",
            "the modifier no-overload is not supported",
        ),
        ("--bind-to", "core:x", "unknown modifier \"x\""),
        ("--display", "allocation", "so no allocation is shown"),
        ("--display", "topo", "use `lstopo`"),
    ] {
        refused(&[option, value, "true"], &[hint, option]);
    }
}

#[test]
fn an_unknown_option_is_reported_as_it_was_typed() {
    for (args, option, hint) in [
        (
            &["-launcher", "fork"][..],
            "'-launcher'",
            "agents on other nodes are started by ssh",
        ),
        (
            &["-prepend-rank"],
            "'-prepend-rank'",
            "`--tag-output` (`-l`)",
        ),
        (&["-configfile", "x"], "'-configfile'", "` : ` between them"),
        (&["-nolocal"], "'-nolocal'", "name the nodes of the job"),
        (&["-nosuch=1"], "'-nosuch'", ""),
        (&["-lnosuch"], "'-lnosuch'", ""),
        (
            &["--multi-prog", "x"],
            "'--multi-prog'",
            "` : ` between them",
        ),
        (&["--app", "x"], "'--app'", "` : ` between them"),
        (&["--rankfile", "x"], "'--rankfile'", "--cpu-set LIST"),
        (&["--timestamp-output"], "'--timestamp-output'", "`| ts`"),
        (
            &["--propagate=STACK"],
            "'--propagate'",
            "inherit the limits",
        ),
        (&["--nrs", "2"], "'--nrs'", "a resource set is one process"),
        (&["--depth", "2"], "'--depth'", "--cpus-per-rank N"),
        (&["--nodes=2"], "--nodes 2 is a number", "use -n N"),
        (&["--nodes", ""], "--nodes is empty", "use -n N"),
        (
            &["--host", "a:99999999999"],
            "exceeds 4294967295",
            "name this node",
        ),
    ] {
        refused(&[args, &["true"]].concat(), &[option, hint]);
    }
    refused(
        &["true", ":", "-launcher", "fork", "true"],
        &["'-launcher'", "agents on other nodes"],
    );
    let mca = ["--mca", "rmaps_base_mapping_policy", "core"];
    refused(
        &[&["true", ":"], &mca[..], &["true"]].concat(),
        &[
            "--mca rmaps_base_mapping_policy after `:`",
            "must precede the first program",
        ],
    );
}

#[test]
fn parameters_of_launchers_have_the_effect_of_options() {
    let policy = [
        "--mca",
        "rmaps_base_mapping_policy",
        "core",
        "--report-bindings",
    ];
    let outcome = run(&[&policy[..], &["true"]].concat());
    assert!(
        outcome.stderr.contains("bound to processors"),
        "{}",
        outcome.stderr
    );
    let tagged = ["--nspace", "j", "echo", "x"];
    for vars in [
        &[("OMPI_MCA_orte_tag_output", "1")][..],
        &[
            ("OMPI_MCA_orte_tag_output", "true"),
            ("OMPI_MCA_plm_rsh_agent", "sh"),
        ],
    ] {
        let outcome = run_in(vars, &tagged);
        assert_eq!(
            (&*outcome.text(), &*outcome.stderr),
            ("[j,0]<stdout>: x", "")
        );
    }
    let off = [&["--mca", "orte_tag_output", "0"], &tagged[..]].concat();
    let outcome = run_in(&[("OMPI_MCA_orte_tag_output", "1")], &off);
    assert_eq!((&*outcome.text(), &*outcome.stderr), ("x", ""));
    let vars = [("OMPI_MCA_hwloc_base_cpu_set", "0-4095")];
    let outcome = run_in(&vars, &["--bind-to", "core", "echo", "x"]);
    assert_eq!(outcome.text(), "x", "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains("OMPI_MCA_hwloc_base_cpu_set=0-4095: only the processors"),
        "{}",
        outcome.stderr
    );
    let vars = [("PRTE_MCA_rmaps_default_mapping_policy", "core")];
    let outcome = run_in(&vars, &["--report-bindings", "true"]);
    assert!(
        outcome.stderr.contains("bound to processors"),
        "{}",
        outcome.stderr
    );
    refused(
        &["--mca", "rmaps_base_mapping_policy", "x", "true"],
        &[
            "--mca rmaps_base_mapping_policy x: unknown part",
            "use `--map-by`",
        ],
    );
    for (args, vars, warning) in [
        (
            &["--mca", "plm_rsh_agent", "ssh"][..],
            None,
            "--mca plm_rsh_agent: a parameter of the launcher",
        ),
        (
            &["--mca", "orte_timestamp_output", "1"],
            None,
            "use `--tag-output`",
        ),
        (
            &[],
            Some(("OMPI_MCA_rmaps_base_mapping_policy", "x")),
            "has no effect: unknown part",
        ),
        (
            &[],
            Some(("OMPI_MCA_rmaps_nosuch", "x")),
            "OMPI_MCA_rmaps_nosuch: a parameter",
        ),
        (&[], Some(("OMPI_MCA_orte_tmpdir_base", "/x")), "set TMPDIR"),
    ] {
        let vars: Vec<_> = vars.into_iter().collect();
        let outcome = run_in(&vars, &[args, &["echo", "x"]].concat());
        assert_eq!(
            (outcome.code, &*outcome.text()),
            (0, "x"),
            "{}",
            outcome.stderr
        );
        assert!(outcome.stderr.contains(warning), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    }
}

#[test]
fn settings_of_stock_clients_cause_no_warning_and_reach_the_processes() {
    let vars = [
        ("PMIX_MCA_gds", "hash"),
        ("PMIX_MCA_gds_ds21_lock_type", "fcntl"),
        ("PMIX_MCA_gds_shmem2_segment_size_multiplier", "2"),
        ("PMIX_MCA_psec_base_verbose", "0"),
        ("PMIX_MCA_pcompress_base_limit", "4096"),
        ("PMIX_PREFIX", "/opt/pmix"),
        ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
        ("PRTE_MCA_prte_verbose", "1"),
        ("PMI_MAX_KVS_ENTRIES", "7"),
    ];
    let show = "echo $PMIX_MCA_gds $PMIX_PREFIX $PRTE_ALLOW_RUN_AS_ROOT $PRTE_MCA_prte_verbose $PMI_MAX_KVS_ENTRIES \
        $OMPI_UNIVERSE_SIZE";
    let outcome = run_in(&vars, &["sh", "-c", show]);
    assert_eq!(
        (&*outcome.text(), &*outcome.stderr),
        ("hash /opt/pmix 1 1 7 1", "")
    );
    let outcome = run_in(&[("PMIX_MCA_gds_hash_whoel", "4")], &["true"]);
    assert!(
        outcome.stderr.contains("unknown parameter gds_hash_whoel"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_misread_command_line_is_explained() {
    for (args, hints) in [
        (
            &["4", "hostname"][..],
            &["cannot run 4", "`pmix run -n 4 hostname`"][..],
        ),
        (
            &["FOO=1", "hostname"],
            &["cannot run FOO=1", "`pmix run -x FOO=1 PROGRAM`"],
        ),
        (
            &["hostname | cat"],
            &["cannot run hostname | cat", "sh -c 'hostname | cat'"],
        ),
        (&["no-such-program"], &["cannot run no-such-program"]),
        (
            &["--host", "@compute", "true"],
            &["`@compute` is a group", "nodeset -S, -e @compute"],
        ),
        (
            &["--cpu-set", "0,4000-4095", "true"],
            &[
                "processors 4000-4095 of the list 0,4000-4095 for --cpu-set",
                "name only processors in",
            ],
        ),
    ] {
        refused(args, hints);
    }
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/bin/sh\r\necho x\r\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    refused(
        &[script.to_str().unwrap()],
        &[
            "ends in a carriage return",
            "interpreter /bin/sh",
            "sed -i 's/\\r$//'",
        ],
    );
    let exported = run_in(
        &[("A", "1"), ("B", "2")],
        &["--export=A,B", "sh", "-c", "echo $A$B"],
    );
    assert_eq!((&*exported.text(), &*exported.stderr), ("12", ""));
    let exported = run(&["--export=ALLOW=1,B=2", "sh", "-c", "echo $ALLOW$B"]);
    assert_eq!((&*exported.text(), &*exported.stderr), ("12", ""));
    let exported = run(&["--export=A=1,B=2", "sh", "-c", "echo $A$B"]);
    assert_eq!((&*exported.text(), &*exported.stderr), ("12", ""));
}

#[test]
fn a_missing_directory_in_tmpdir_is_named() {
    let (mut command, _tmp) = launcher(&["true"]);
    command.env("TMPDIR", "/no/such/dir");
    let outcome = finish(command, b"");
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    for said in [
        "TMPDIR names /no/such/dir",
        "No such file",
        "create the directory",
        "TMPDIR=/tmp pmix run",
    ] {
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
}

#[test]
fn the_time_limit_of_mpiexec_is_obeyed() {
    let outcome = run_in(&[("MPIEXEC_TIMEOUT", "0.3")], &["sleep", "60"]);
    assert_eq!(outcome.code, 124, "{}", outcome.stderr);
    let outcome = run_in(
        &[("MPIEXEC_TIMEOUT", "0.3")],
        &["--timeout", "60", "sleep", "0.6"],
    );
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let outcome = run_in(&[("MPIEXEC_TIMEOUT", "soon")], &["echo", "x"]);
    assert_eq!(outcome.text(), "x");
    assert!(
        outcome.stderr.contains("MPIEXEC_TIMEOUT=soon is not used"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_rank_that_a_job_does_not_have_is_named() {
    let script = "pmix() { \"$OWN_COMMAND\" \"$@\"; }; \
        if [ $PMIX_RANK = 0 ]; then pmix kill --signal USR1 --ranks 0-99 j; echo $?; fi; \
        pmix hello --quiet";
    let vars = [("OWN_COMMAND", env!("CARGO_BIN_EXE_pmix"))];
    let outcome = run_in(&vars, &["-n", "2", "--nspace", "j", "sh", "-c", script]);
    assert_eq!(
        (outcome.code, &*outcome.text()),
        (0, "1"),
        "{}",
        outcome.stderr
    );
    for said in [
        "job \"j\" has no rank 2: it has 2 processes",
        "`pmix ps j` lists the ranks",
    ] {
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
}

#[test]
fn a_tool_without_a_server_says_what_to_start() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["ps"][..],
        &["top"],
        &["kill", "j"],
        &["attach", "j"],
        &["lookup", "a"],
    ] {
        let mut command = crate::command::command(args);
        command.env("TMPDIR", dir.path());
        let outcome = finish(command, b"");
        assert_eq!(outcome.code, 1, "{args:?}: {}", outcome.stderr);
        for said in [
            "no server has a rendezvous file in or below",
            "`pmix run -n 2 PROGRAM`",
            "same TMPDIR",
        ] {
            assert!(
                outcome.stderr.contains(said),
                "{args:?}: {}",
                outcome.stderr
            );
        }
    }
}

#[test]
fn job_info_has_the_keys_that_prterun_gives() {
    let asked = |words: &[&str]| {
        let job = [
            "--nspace",
            "j",
            "--node-name",
            "n1.cluster",
            "pmix",
            "query",
            "--nspace",
            "j",
        ];
        let outcome = run(&[&job[..], words].concat());
        assert_eq!(outcome.code, 0, "{words:?}: {}", outcome.stderr);
        outcome.text()
    };
    let line = asked(&["CMD_LINE"]);
    assert!(line.ends_with("pmix query --nspace j CMD_LINE"), "{line}");
    let of_node = ["--with", "NODEID=0", "--with", "NODE_INFO"];
    let aliases = asked(&[&of_node[..], &["HOSTNAME_ALIASES"]].concat());
    // The addresses of this node without those of the loopback and of links, as under prterun.
    let hostname = std::process::Command::new("hostname").arg("-I").output();
    let hostname = String::from_utf8(hostname.unwrap().stdout).unwrap();
    let addresses: Vec<_> = hostname.split_whitespace().collect();
    let sorted = |text: &str| {
        let (_, names) = text.trim().rsplit_once(": ").unwrap();
        let mut names: Vec<_> = names.split(',').map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    let expected = |names: &[&'static str]| {
        let all = names.iter().chain(&addresses);
        let mut all: Vec<_> = all.map(|name| (*name).to_owned()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(&aliases), expected(&["n1", "localhost"]));
    let memory = asked(&[&of_node[..], &["AVAIL_PHYS_MEMORY"]].concat());
    let memory = memory.rsplit(": ").next().unwrap().parse::<u64>().unwrap();
    // In bytes; /proc/meminfo has kB.
    let about = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = about
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let total: u64 = total
        .and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap();
    assert_eq!(memory, total * 1024);
    let job = [
        "--nspace",
        "j",
        "--node-name",
        "192.168.1.5",
        "pmix",
        "query",
    ];
    let query = ["--nspace", "j", "HOSTNAME_ALIASES"];
    let outcome = run(&[&job[..], &of_node, &query].concat());
    assert_eq!(sorted(&outcome.text()), expected(&["localhost"]));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix run` with the options and variables of other launchers.

use crate::command::{assert_nothing_left, finish, launcher, pmix, run, run_with, sorted};

fn lines(args: &[&str]) -> Vec<String> {
    let outcome = run(args);
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    sorted(&outcome)
}

#[test]
fn options_of_other_launchers_are_understood() {
    let two = ["x", "x"];
    for options in [
        &["-np", "2"][..],
        &["--np", "2"],
        &["--ntasks", "2"],
        &["--ntasks=2"],
        &["-n2", "--oversubscribe", "--allow-run-as-root"],
        &[
            "-np",
            "2",
            "--rank-by",
            "slot",
            "--map-by",
            "slot:oversubscribe",
        ],
        &["-np", "2", "--host", "localhost:2"],
        &["-H", "localhost:2"],
        &["-hosts", "localhost,localhost"],
        &["--map-by", "ppr:2:node"],
        &["-n", "2", "--host", "localhost:2", "--nooversubscribe"],
        &["--host", "localhost:2", "--map-by", "slot:NOOVERSUBSCRIBE"],
        // The last of both options has effect.
        &[
            "-n",
            "2",
            "--host",
            "localhost:1",
            "--nooversubscribe",
            "--oversubscribe",
        ],
        &[
            "-n",
            "2",
            "--host",
            "localhost:1",
            "--nooversubscribe",
            "--map-by",
            ":oversubscribe",
        ],
        // Both processes get a core of the same part, as under mpirun.
        &["-n", "2", "--map-by", "node:pe=1:oversubscribe"],
    ] {
        assert_eq!(
            lines(&[options, &["echo", "x"]].concat()),
            two,
            "{options:?}"
        );
    }
    for options in [["-wdir", "/usr"], ["--chdir", "/usr"], ["-D", "/usr"]] {
        assert_eq!(lines(&[&options[..], &["pwd"]].concat()), ["/usr"]);
    }
    let words = [
        "-genv",
        "A",
        "1",
        "--export=ALL,B=2",
        "sh",
        "-c",
        "echo $A$B",
    ];
    assert_eq!(lines(&words), ["12"]);
    let tagged = lines(&["-l", "--nspace", "j", "echo", "x"]);
    assert_eq!(tagged, ["[j,0]<stdout>: x"]);
    let behind = lines(&["true", ":", "-np", "2", "-wdir", "/usr", "pwd"]);
    assert_eq!(behind, ["/usr", "/usr"]);
    // Words after the program are its arguments.
    assert_eq!(lines(&["-np", "1", "echo", "-np", "2"]), ["-np 2"]);
}

#[test]
fn ambiguous_options_are_rejected_with_their_replacement() {
    for (options, hint) in [
        (
            &["-c", "2"][..],
            "`--cpus-per-rank N` for the number of cores",
        ),
        (&["--rank-by", "node"], "follow the order of --map-by"),
        (
            &["-n", "3", "--host", "n1.invalid,n2.invalid"],
            "3 processes need more than the 2 slots of the nodes",
        ),
        (&["--hostfile", "/no/such"], "cannot read /no/such"),
        (
            &["--stdin", "all"],
            "only one process can read standard input",
        ),
        (&["--export", "NONE"], "env -i"),
        (&["--map-by", "board"], "unknown part of a node"),
        (&["--cpu-set", "x"], "numbers and ranges"),
        (&["-N", "2"], "use `-n N` for the number of processes"),
        (&["--nspace", "a b"], "other than spaces"),
        (
            &["-n", "2", "--stdin", "2"],
            "standard input is assigned to rank 2",
        ),
        (&["--cpus-per-rank", "99999"], "99999 cores were requested"),
        (
            &["-n", "99", "--map-by", "ppr:1:package"],
            "1 on each package",
        ),
    ] {
        let outcome = run(&[options, &["true"]].concat());
        assert_eq!(outcome.code, 2, "{options:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(hint),
            "{options:?}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn options_of_other_launchers_are_rejected_with_their_replacement() {
    for (options, hint) in [
        (
            &["-o", "out.%t"][..],
            "tip: use `--output-dir DIR` to write",
        ),
        (&["--output", "tag"], "`--tag-output` to prefix"),
        (&["--output=dir=x"], "--output-name out.%r"),
        (&["-e", "err.%t"], "--output-dir DIR"),
        (&["-K"], "unless `--keep-going`"),
        (&["-q"], "use `--quiet`"),
        (&["-npernode", "2"], "on this node"),
        (&["--ntasks-per-node=2"], "on this node"),
        (&["--mpi=pmix"], "find the PMIx server automatically"),
        (&["--cpu-bind=cores"], "--bind-to PART"),
        (&["-pernode"], "on this node"),
        (&["-rf", "file"], "--cpu-set LIST"),
        (&["--display-map"], "--report-bindings"),
        (&["--use-hwthread-cpus"], "--bind-to hwthread"),
        (&["--continuous"], "--keep-going"),
        (&["-W", "3"], "--grace SECONDS"),
        (&["-W3"], "--grace SECONDS"),
        (&["-j1"], "--bind-to hwthread"),
        (&["-d2"], "--cpus-per-rank N"),
        (&["--report-uri", "-"], "shows its address"),
        (&["--personality", "ompi"], "find any MPI library"),
        (&["--gpus-per-task=1"], "salloc"),
    ] {
        let outcome = run(&[options, &["true"]].concat());
        assert_eq!(outcome.code, 2, "{options:?}: {}", outcome.stderr);
        let said = &outcome.stderr;
        assert!(said.contains(hint), "{options:?}: {said}");
        assert!(!said.contains("similar"), "{options:?}: {said}");
    }
    let mistyped = run(&["--exprt", "x", "true"]);
    assert!(
        mistyped.stderr.contains("'--export'"),
        "{}",
        mistyped.stderr
    );
    // The usage must not contain an option that only looks similar to the parser.
    let usage = "Usage: pmix run [OPTIONS] <PROGRAM [ARG]...>...";
    for option in ["--nosuch", "--personality"] {
        let outcome = run(&[option, "true"]);
        assert!(outcome.stderr.contains(usage), "{}", outcome.stderr);
    }
    let merged = run(&["--merge-stderr-to-stdout", "sh", "-c", "echo x >&2"]);
    assert_eq!((merged.text().as_str(), merged.stderr.as_str()), ("x", ""));
    // The command is recognized after any global options, and not confused with an argument.
    let outcome = pmix(&[
        "-v",
        "--mca",
        "run",
        "x",
        "--color=never",
        "run",
        "-K",
        "true",
    ]);
    assert!(
        outcome.stderr.contains("--keep-going"),
        "{}",
        outcome.stderr
    );
    for args in [&["map", "encode", "run", "-np"][..], &["attr", "run", "-K"]] {
        let outcome = pmix(args);
        assert_eq!(outcome.code, 2, "{args:?}: {}", outcome.stderr);
        let said = outcome.stderr.lines().next().unwrap_or_default();
        assert!(!said.contains("--"), "{args:?}: {said}");
        assert!(!outcome.stderr.contains("keep-going"), "{}", outcome.stderr);
    }
    // After `--`, the option would be the program.
    for options in [
        &["-o", "x"][..],
        &["--gpus", "1"],
        &["-Z"],
        &["--timestamp-output"],
    ] {
        let outcome = run(&[options, &["true"]].concat());
        assert_eq!(outcome.code, 2, "{options:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("as a value"), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("similar"), "{}", outcome.stderr);
    }
}

#[test]
fn an_application_after_a_colon_has_its_own_options() {
    let show = "echo $PMIX_RANK:$A:$OMPI_MCA_btl:$PMIX_MCA_btl";
    let first = ["-x", "A=1", "sh", "-c", show, ":"];
    let host = ["--host", "localhost:4", "-n", "1"];
    let second = [&["-x", "A=2", "-mca", "btl", "self"][..], &host].concat();
    let words = [&first[..], &second, &["sh", "-c", show]].concat();
    assert_eq!(lines(&words), ["0:1::", "1:2:self:self"]);
    // Options before the first program apply to all applications unless an application overrides them.
    let words = [&["--mca", "btl", "tcp"], &words[..]].concat();
    assert_eq!(lines(&words), ["0:1:tcp:tcp", "1:2:self:self"]);
}

#[test]
fn options_of_the_whole_job_are_rejected_after_a_colon() {
    let whole = "options of the whole job must precede the first program";
    for (options, hint) in [
        (&["--map-by", "core"][..], whole),
        (&["--map-by=core"], whole),
        (&["-map-by", "core"], whole),
        (&["--bind-to", "core"], whole),
        (&["-l"], whole),
        (&["--timeout", "5"], whole),
        (&["--allow-run-as-root"], whole),
        (&["-v"], whole),
        (&["--config", "none"], whole),
        (&["--mca", "preg", "^raw"], whole),
        (&["--gmca", "btl", "self"], "`--mca NAME VALUE`"),
        (&["-q"], "use `--quiet`"),
        (&["-npernode", "2"], "on this node"),
        (&["-c", "2"], "`--cpus-per-rank N` for the number of cores"),
        (&["-N", "2"], "use `-n N` for the number of processes"),
        (
            &["--host", "elsewhere.invalid"],
            "in the options of its first program",
        ),
        (&["--hostfile", "/no/such"], "cannot read /no/such"),
        (&["--mapby", "core"], "expected after `:`: [-n N]"),
    ] {
        let words = [&["true", ":"], options, &["true"]].concat();
        let outcome = run(&words);
        assert_eq!(outcome.code, 2, "{options:?}: {}", outcome.stderr);
        let said = &outcome.stderr;
        assert!(said.contains(hint), "{options:?}: {said}");
    }
}

#[test]
fn a_node_to_start_on_is_no_name_of_this_node() {
    let dir = tempfile::tempdir().unwrap();
    let hostfile = dir.path().join("hosts");
    std::fs::write(&hostfile, "elsewhere.invalid slots=1 # of the cluster\n").unwrap();
    let hostfile = hostfile.to_str().unwrap();
    let maps = ["--nodes", "elsewhere.invalid,n2.invalid", "--procs", "0;1"];
    let other = [&maps[..], &["--host", "elsewhere.invalid", "echo", "x"]].concat();
    let outcome = run(&other);
    assert_eq!((outcome.code, outcome.text().as_str()), (2, ""));
    for said in [
        ": elsewhere.invalid is not this node (",
        "use --node-name NAME if the list",
    ] {
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
    // `false` does not reach the node.
    let unreached = ["--launch-agent", "false"];
    for (options, said) in [
        (
            &["--host", "elsewhere.invalid"][..],
            "node elsewhere.invalid: it could not be reached",
        ),
        (
            &["--host", "elsewhere.invalid:2"],
            "node elsewhere.invalid: it could not be reached",
        ),
        (
            &["--hostfile", hostfile],
            "node elsewhere.invalid: it could not be reached",
        ),
        (
            &["--hostfile", hostfile, "--host", "localhost"],
            "localhost is not in the file of",
        ),
    ] {
        let outcome = run(&[&unreached[..], options, &["echo", "x"]].concat());
        assert_ne!(outcome.code, 0, "{options:?}");
        assert_eq!(outcome.text(), "", "{options:?}");
        assert!(
            outcome.stderr.contains(said),
            "{options:?}: {}",
            outcome.stderr
        );
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    for options in [
        &["--node-name", "elsewhere.invalid"][..],
        &["--host", "localhost"],
        &["--host", "127.0.0.1"],
        &["--host", host],
        &[
            "--host",
            "elsewhere.invalid",
            "--node-name",
            "elsewhere.invalid",
        ],
        &["--hostfile", hostfile, "--node-name", "elsewhere.invalid"],
    ] {
        let outcome = run(&[options, &["echo", "x"]].concat());
        assert_eq!(
            (outcome.text().as_str(), outcome.stderr.as_str()),
            ("x", ""),
            "{options:?}"
        );
    }
}

#[test]
fn parameters_that_are_not_ours_are_for_the_processes() {
    let script = "echo $OMPI_MCA_btl $PMIX_MCA_btl $PMIX_MCA_preg";
    let mca = ["--mca", "btl", "self,sm", "--mca", "preg", "^raw"];
    let outcome = run(&[&mca[..], &["sh", "-c", script]].concat());
    assert_eq!(
        (outcome.text().as_str(), outcome.stderr.as_str()),
        ("self,sm self,sm", "")
    );
    let outcome = run(&["--mca", "bltx", "self", "sh", "-c", "echo $OMPI_MCA_bltx"]);
    assert_eq!(outcome.text(), "self");
    assert!(outcome.stderr.contains("--mca bltx"), "{}", outcome.stderr);
}

#[test]
fn scripts_find_rank_and_size_where_mpirun_puts_them() {
    let all = "$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE \
               $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE $PMIX_RANK";
    let script = format!("echo {all}");
    let job = ["-n", "2", "sh", "-c", &script];
    assert_eq!(lines(&job), ["0/2 0/2 0", "1/2 1/2 1"]);
    let maps = [
        "--nodes",
        "n[1-2]",
        "--procs",
        "0-1;2-3",
        "--node-name",
        "n2",
        "sh",
        "-c",
        &script,
    ];
    assert_eq!(lines(&maps), ["2/4 0/2 2", "3/4 1/2 3"]);
    let without = [&["--no-compat-env"], &job[..]].concat();
    assert_eq!(lines(&without), ["/ / 0", "/ / 1"]);
}

#[test]
fn an_mpi_that_asks_which_libpmix_to_load_finds_one() {
    // This command is not installed beside a library.
    let job = ["sh", "-c", "echo $I_MPI_PMI_LIBRARY"];
    assert_eq!(lines(&job), ["libpmix.so.2"]);
    let chosen = [&["-x", "I_MPI_PMI_LIBRARY=/opt/libpmix.so"], &job[..]].concat();
    assert_eq!(lines(&chosen), ["/opt/libpmix.so"]);
    let without = [&["--no-compat-env"], &job[..]].concat();
    assert!(lines(&without).is_empty());

    let prefix = tempfile::tempdir().unwrap();
    let bin = prefix.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let command = bin.join("pmix");
    std::fs::copy(env!("CARGO_BIN_EXE_pmix"), &command).unwrap();
    let found = |inherited: Option<&str>| {
        let mut command = std::process::Command::new(&command);
        command.args(["run", "-n", "1"]).args(job);
        command.env_remove("I_MPI_PMI_LIBRARY");
        command.envs(inherited.map(|library| ("I_MPI_PMI_LIBRARY", library)));
        let output = command.output().unwrap().stdout;
        String::from_utf8(output).unwrap().trim_end().to_owned()
    };
    for place in ["lib", "lib/pmix-rs/lib"] {
        let library = prefix.path().join(place).join("libpmix.so.2");
        std::fs::create_dir_all(library.parent().unwrap()).unwrap();
        std::fs::write(&library, "").unwrap();
        assert_eq!(found(None), library.display().to_string());
    }
    assert_eq!(found(Some("/opt/libpmix.so")), "/opt/libpmix.so");
}

#[test]
fn where_processes_run_is_said_before_they_do() {
    let options = [
        "--report-bindings",
        "--cpus-per-rank",
        "2",
        "--node-name",
        "n1",
        "-n",
        "2",
    ];
    let outcome = run(&[&options[..], &["true"]].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let said: Vec<_> = outcome.stderr.lines().collect();
    assert_eq!(said.len(), 2, "{said:?}");
    for (rank, line) in said.iter().enumerate() {
        let begin = format!("rank {rank} on n1: bound to processors ");
        assert!(line.starts_with(&begin), "{line}");
    }
    let outcome = run(&["--display", "map,bind", "--node-name", "n1", "true"]);
    assert_eq!(outcome.stderr, "rank 0 on n1: not bound\n");
}

#[test]
fn only_the_named_processors_are_used() {
    // The test uses the available processors, which depend on the machine.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines_of = status.lines();
    let allowed = lines_of.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = allowed.unwrap().trim().split([',', '-']).next().unwrap();
    let show = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let bound = ["--map-by", "slot:pe=1", "--cpu-set", first];
    let outcome = lines(&[&bound[..], &show].concat());
    assert_eq!(outcome, [format!("Cpus_allowed_list:\t{first}")]);
    let outcome = run(&["--cpu-set", "4095", "true"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("processors 4095"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn another_rank_may_read_the_input_or_none() {
    let read = |rank: &str| {
        let job = [
            "-n",
            "2",
            "--stdin",
            rank,
            "sh",
            "-c",
            "echo \"$PMIX_RANK <$(cat)>\"",
        ];
        let outcome = run_with(&job, b"input\n");
        let mut lines: Vec<_> = outcome.text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(read("1"), ["0 <>", "1 <input>"]);
    assert_eq!(read("none"), ["0 <>", "1 <>"]);
}

#[test]
fn an_allocation_of_one_node_says_how_many_processes_there_are() {
    let allocated = |nodes: &str| {
        let (mut command, tmp) = launcher(&["echo", "x"]);
        command
            .env("SLURM_JOB_NUM_NODES", nodes)
            .env("SLURM_NTASKS", "3");
        let outcome = finish(command, b"");
        assert_nothing_left(&tmp);
        (outcome.text().lines().count(), outcome.stderr)
    };
    assert_eq!(allocated("1"), (3, String::new()));
    // Each process is bound to as many cores as Slurm allocated to it, if the node has enough.
    for (cores, bound) in [
        ("1", ["--bind-to", "core"]),
        ("2", ["--bind-to", "core"]),
        ("2", ["--map-by", "core"]),
    ] {
        let options = [
            &bound[..],
            &["--node-name", "n1", "--report-bindings", "true"],
        ]
        .concat();
        let said = run(&[&["--cpus-per-rank", cores], &options[..]].concat());
        let (mut command, tmp) = launcher(&options);
        command.env("SLURM_JOB_NUM_NODES", "1");
        command
            .env("SLURM_NTASKS", "1")
            .env("SLURM_CPUS_PER_TASK", cores);
        let allocated = finish(command, b"");
        assert_nothing_left(&tmp);
        assert_eq!(allocated.code, 0, "{}", allocated.stderr);
        let is_there = said.code == 0;
        assert!(is_there || cores == "2", "{}", said.stderr);
        assert!(
            !is_there || allocated.stderr == said.stderr,
            "{}",
            allocated.stderr
        );
    }
    // Like srun, the launcher starts one process without an explicit number of tasks. This does not
    // depend on the size of the node.
    let (mut command, tmp) = launcher(&["echo", "x"]);
    command
        .env("SLURM_JOB_NUM_NODES", "1")
        .env("SLURM_TASKS_PER_NODE", "8")
        .env("SLURM_JOB_CPUS_PER_NODE", "8")
        .env_remove("SLURM_NTASKS");
    let outcome = finish(command, b"");
    assert_nothing_left(&tmp);
    assert_eq!((outcome.text().as_str(), outcome.code), ("x", 0));
    let (processes, said) = allocated("2");
    assert_eq!(processes, 1);
    assert!(
        said.contains("use srun to start processes on all nodes"),
        "{said}"
    );
}

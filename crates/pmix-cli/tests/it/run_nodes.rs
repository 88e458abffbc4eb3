// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes and slots of `--host`, `--hostfile` and allocations in `pmix run`.

use crate::command::{assert_nothing_left, finish, launcher, run, sorted};

fn lines(args: &[&str]) -> Vec<String> {
    let outcome = run(args);
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    sorted(&outcome)
}

#[test]
fn slots_of_this_node_are_the_number_of_processes() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let four = file("four", "localhost slots=4 max_slots=8\n");
    let blanks = file("blanks", "# mine\n127.0.1.1 slots = 3\n");
    let two = file("two", "localhost:2\nelsewhere.invalid:2\n");
    let second = file("second", "elsewhere.invalid slots=2\nlocalhost slots=3\n");
    let user = file("user", "me@localhost slots=2 # me\n");
    for (options, num_procs) in [
        (&["--hostfile", &*four][..], 4),
        (&["--machinefile", &four], 4),
        (&["--hostfile", &blanks], 3),
        (&["--host", "localhost,localhost,localhost"], 3),
        (&["--host", "localhost:3"], 3),
        (&["--host", "localhost"], 1),
        (&["--host", "localhost:2", "-n", "5"], 5),
        (&["--hostfile", &four, "--host", "localhost"], 4),
        (&["--hostfile", &four, "--host", "localhost:2"], 2),
        (&["--hostfile", &four, "--host", "localhost:1"], 1),
        (&["--hostfile", &second, "--host", "localhost"], 3),
        (&["--hostfile", &two, "-n", "2"], 2),
        (&["--host", "localhost:4", "--map-by", "ppr:2:node"], 2),
    ] {
        let words = [options, &["echo", "x"]].concat();
        assert_eq!(lines(&words).len(), num_procs, "{options:?}");
    }
    let words = [
        "--host",
        "localhost:2",
        "echo",
        "x",
        ":",
        "--host",
        "localhost:3",
        "echo",
        "y",
    ];
    assert_eq!(lines(&words), ["x", "x", "y", "y", "y"]);
    for options in [&["--hostfile", &*two][..], &["--hostfile", &two, "-n", "3"]] {
        let outcome = run(&[options, &["--launch-agent", "false", "true"]].concat());
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(
            outcome
                .stderr
                .contains("node elsewhere.invalid: it could not be reached"),
            "{}",
            outcome.stderr
        );
    }
    let outcome = run(&["--hostfile", &user, "echo", "x"]);
    assert_eq!(outcome.text(), "x\nx");
    assert!(
        outcome
            .stderr
            .contains("the user in `me@localhost` is not used"),
        "{}",
        outcome.stderr
    );
    let bad = file("bad", "localhost\nlocalhost slots=x\n");
    let outcome = run(&["--hostfile", &bad, "true"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("`slots=x` has no number"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("line 2"), "{}", outcome.stderr);
}

#[test]
fn every_address_of_this_node_names_it() {
    for host in ["::1", "ip6-localhost", "127.0.1.1", "localhost.localdomain"] {
        let outcome = run(&["--host", host, "echo", "x"]);
        // A loopback address is one of this node, even if the system has no IPv6.
        assert_eq!(
            (outcome.text().as_str(), outcome.stderr.as_str()),
            ("x", ""),
            "{host}"
        );
    }
    let outcome = run(&["--host", "me@localhost", "echo", "x"]);
    assert_eq!(outcome.text(), "x");
    assert!(
        outcome.stderr.contains("all processes run as the user"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_user_before_a_node_causes_one_warning() {
    let outcome = run(&["--host", "me@localhost", "true", ":", "true"]);
    let warnings = outcome.stderr.matches("the user in `me@localhost`").count();
    assert_eq!((outcome.code, warnings), (0, 1), "{}", outcome.stderr);
}

#[test]
fn a_default_hostfile_in_a_variable_has_the_lowest_priority() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let three = file("three", "localhost slots=3\n");
    let comments = file("comments", "# Add nodes here.\n");
    let others = file("others", "elsewhere.invalid slots=2\n");
    let variable = "OMPI_MCA_orte_default_hostfile";
    let of = |path: &str, more: &[(&str, &str)], options: &[&str]| {
        let (mut command, tmp) = launcher(&[options, &["echo", "x"]].concat());
        command.env(variable, path).envs(more.iter().copied());
        let outcome = finish(command, b"");
        assert_nothing_left(&tmp);
        assert_eq!(outcome.code, 0, "{path}: {}", outcome.stderr);
        (outcome.text().lines().count(), outcome.stderr)
    };
    let silent = |num_procs| (num_procs, String::new());
    assert_eq!(of(&three, &[], &[]), silent(3));
    assert_eq!(of(&three, &[], &["true", ":"]), silent(3));
    assert_eq!(of(&three, &[], &["-n", "2"]), silent(2));
    assert_eq!(of(&three, &[], &["--host", "localhost"]), silent(1));
    assert_eq!(of(&comments, &[], &[]), silent(1));
    let slurm = [
        ("SLURM_JOB_NODELIST", "localhost"),
        ("SLURM_JOB_NUM_NODES", "1"),
        ("SLURM_NTASKS", "2"),
    ];
    for path in [&*three, &others, "/no/such/file"] {
        assert_eq!(of(path, &slurm, &[]), silent(2));
    }
    for (path, why) in [
        (&*others, "no entry for this node"),
        ("/no/such/file", "cannot read"),
    ] {
        let (num_procs, stderr) = of(path, &[], &[]);
        assert_eq!(num_procs, 1);
        assert!(
            stderr.contains(&format!("{variable}={path} is not used: ")),
            "{stderr}"
        );
        assert!(stderr.contains(why), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_rank_does_not_start_a_process_for_each_slot() {
    for vars in [
        &[("LSB_HOSTS", "localhost localhost localhost")][..],
        &[("SLURM_JOB_NUM_NODES", "1"), ("SLURM_NTASKS", "3")],
    ] {
        let (mut command, _tmp) = launcher(&["-n", "1", "pmix", "run", "echo", "x"]);
        command.envs(vars.iter().copied());
        let outcome = finish(command, b"");
        assert_eq!(outcome.text(), "x", "{}", outcome.stderr);
    }
}

#[test]
fn an_allocation_without_this_node_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = dir.path().join("nodes");
    std::fs::write(&nodes, "elsewhere.invalid\nelsewhere.invalid\n").unwrap();
    let here = dir.path().join("here");
    std::fs::write(&here, "localhost\nlocalhost\n").unwrap();
    let in_allocation = |name: &str, value: &str, options: &[&str]| {
        let (mut command, tmp) = launcher(&[options, &["echo", "x"]].concat());
        command.env(name, value);
        let outcome = finish(command, b"");
        assert_nothing_left(&tmp);
        outcome
    };
    let nodes = nodes.to_str().unwrap();
    for (name, value, hint) in [
        (
            "SLURM_JOB_NODELIST",
            "elsewhere[1-2].invalid",
            "`srun -N 1 -n 1 pmix run -n N PROGRAM`",
        ),
        (
            "PBS_NODEFILE",
            nodes,
            "`pbsdsh -n 0 -- pmix run -n N PROGRAM`",
        ),
        (
            "LSB_MCPU_HOSTS",
            "elsewhere.invalid 4",
            "`blaunch elsewhere.invalid pmix run",
        ),
    ] {
        for options in [&[][..], &["-n", "2"]] {
            let outcome = in_allocation(name, value, options);
            assert_eq!((outcome.code, &*outcome.text()), (2, ""), "{name}");
            assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
            assert!(
                outcome.stderr.contains("but not this node"),
                "{}",
                outcome.stderr
            );
        }
        let outcome = in_allocation(name, value, &["--host", "localhost"]);
        assert_eq!(
            (outcome.code, &*outcome.text()),
            (0, "x"),
            "{}",
            outcome.stderr
        );
    }
    let outcome = in_allocation("PBS_NODEFILE", here.to_str().unwrap(), &[]);
    assert_eq!(
        (outcome.code, &*outcome.text()),
        (0, "x\nx"),
        "{}",
        outcome.stderr
    );
    for path in ["/no/such/file", "/dev/zero", "-"] {
        let outcome = in_allocation("PBS_NODEFILE", path, &[]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        for said in ["the allocation in $PBS_NODEFILE", path, "use -n N"] {
            assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
        }
        let outcome = in_allocation("PBS_NODEFILE", path, &["-n", "2"]);
        assert_eq!(outcome.text(), "x\nx", "{}", outcome.stderr);
        let warning = "the allocation in $PBS_NODEFILE is not checked";
        assert!(outcome.stderr.contains(warning), "{}", outcome.stderr);
    }
    let outcome = in_allocation("LSB_MCPU_HOSTS", "localhost 3", &[]);
    assert_eq!(outcome.text(), "x\nx\nx");
    let outcome = in_allocation("SLURM_JOB_NODELIST", "localhost", &["-n", "2"]);
    assert_eq!(outcome.text(), "x\nx");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nodes with slots, from hostfiles and resource managers, and the placement of ranks.

use crate::command::{Outcome, command, finish, pmix, pmix_with};

/// Runs a command in the environment of a resource manager's job.
fn inside(vars: &[(&str, &str)], args: &[&str]) -> Outcome {
    let mut command = command(args);
    command.envs(vars.iter().copied());
    finish(command, b"")
}

#[test]
fn hostfiles_are_node_maps() {
    let words = pmix(&["map", "decode", "--out", "list", "n1 slots=4"]);
    assert_eq!(words.text(), "n1", "{}", words.stderr);
    let hosts = b"n1:4  # rack 1\nn2\nn1\n";
    let listed = pmix_with(&["map", "decode", "--out", "list", "hostfile:-"], hosts);
    assert_eq!(listed.text(), "n1,n2", "{}", listed.stderr);
    let where_is = |args: &[&str]| pmix_with(&[&["map", "where", "5"], args].concat(), hosts);
    assert_eq!(where_is(&["--nodes", "hostfile:-"]).text(), "5\tn2");
    let fault = pmix_with(&["map", "count", "-"], b"n1 slots=2\nn2 slots=two\n");
    assert_eq!(fault.code, 3);
    assert!(fault.stderr.contains("`slots=two`"), "{}", fault.stderr);
    assert!(fault.stderr.contains("line 2"), "{}", fault.stderr);
    let procs = pmix(&["map", "count", "--procs", "n1 slots=4"]);
    assert_eq!(procs.code, 2, "{}", procs.stderr);
}

#[test]
fn resource_managers_tell_nodes_and_slots() {
    let slurm = [
        ("SLURM_JOB_NODELIST", "n[1-3],x"),
        ("SLURM_TASKS_PER_NODE", "2(x3),1"),
    ];
    let who = |vars: &[(&str, &str)], word: &str, more: &[&str]| {
        let args = [&["map", "who", "x", "--nodes", word], more].concat();
        let outcome = inside(vars, &args);
        (outcome.code, outcome.text())
    };
    assert_eq!(who(&slurm, "slurm:", &[]), (0, "x\t6".to_owned()));
    let cyclic = who(&slurm, "slurm:", &["--layout", "cyclic"]);
    assert_eq!(cyclic, (0, "x\t3".to_owned()));
    let outranked = who(&slurm, "slurm:", &["--ppn", "4"]);
    assert_eq!(outranked, (0, "x\t12-15".to_owned()));
    let lsf = [("LSB_MCPU_HOSTS", "a 2 x 3")];
    assert_eq!(who(&lsf, "lsf:", &[]), (0, "x\t2-4".to_owned()));
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pbs-nodes");
    std::fs::write(&file, "a\na\nx\nx\nx\n").expect("the file");
    let pbs = [("PBS_NODEFILE", file.to_str().expect("a path"))];
    assert_eq!(who(&pbs, "pbs:", &[]), (0, "x\t2-4".to_owned()));
    let listed = inside(&slurm, &["map", "convert", "--to", "slurm", "slurm:", "y"]);
    assert_eq!(listed.text(), "n[1-3],x,y");

    let none = pmix(&["map", "count", "slurm:"]);
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("SLURM_JOB_NODELIST is not set"));
    let torn = [slurm[0], ("SLURM_TASKS_PER_NODE", "2(x3)")];
    let torn = inside(&torn, &["map", "count", "slurm:"]);
    assert_eq!(torn.code, 3);
    assert!(torn.stderr.contains("4 nodes"), "{}", torn.stderr);
}

#[test]
fn ranks_are_laid_out_wherever_a_process_map_is_asked_for() {
    let laid = ["--nodes", "n[1-4]", "--ppn", "4", "--layout", "plane=2"];
    let of = |head: &[&str]| pmix(&[head, &laid].concat());
    assert_eq!(of(&["map", "where", "9"]).text(), "9\tn1");
    assert_eq!(of(&["map", "verify"]).text(), "ok: 4 nodes, 16 ranks");
    assert!(of(&["map", "draw"]).text().contains("plane"));
    assert_eq!(of(&["get", "--rank", "9", "HOSTNAME"]).text(), "n1");
    let more = ["--new-nodes", "n[1-3],n5"];
    let diff = pmix(&[&["map", "diff"], &laid[..], &more].concat());
    assert_eq!(diff.code, 1, "{}", diff.stderr);
    assert!(diff.text().contains("ranks 6-7 moved from n4 to n5"));
    let run = pmix(&[
        "run",
        "--nodes",
        "n[1-2]",
        "--ppn",
        "2",
        "--node-name",
        "n2",
        "sh",
        "-c",
        "echo $PMIX_RANK",
    ]);
    let mut ranks: Vec<_> = run.text().lines().map(str::to_owned).collect();
    ranks.sort();
    assert_eq!(ranks, ["2", "3"], "{}", run.stderr);

    for wrong in [
        &["map", "verify", "--nodes", "n1"][..],
        &["map", "verify", "--nodes", "n1", "--ppn", "2(x2)"],
        &["map", "verify", "--nodes", "n1", "--ppn", "x"],
        &[
            "map", "verify", "--nodes", "n1", "--ppn", "2", "--layout", "plane=0",
        ],
        &[
            "map", "verify", "--nodes", "n1", "--ppn", "2", "--procs", "0-1",
        ],
        &["map", "draw", "--ppn", "2"],
        &["get", "--nodes", "n1", "JOB_SIZE"],
        &["run", "--ppn", "2", "true"],
    ] {
        let outcome = pmix(wrong);
        assert_eq!(outcome.code, 2, "{wrong:?}: {}", outcome.stderr);
    }
    let many = pmix(&["map", "verify", "--nodes", "n[1-4]", "--ppn", "4294967295"]);
    assert_eq!(many.code, 3);
    assert!(
        many.stderr.contains("preg_base_max_ranks"),
        "{}",
        many.stderr
    );
}

#[test]
fn flux_tells_nodes_and_cores_in_the_order_of_ranks() {
    let set = |entries: &str, hosts: &str| {
        format!(
            r#"{{"version":1,"execution":{{"R_lite":[{entries}],"nodelist":[{hosts}],
                "starttime":0,"expiration":0}},"attributes":{{"system":{{"scheduler":{{}}}}}}}}"#
        )
    };
    let entry = |rank: &str, core: &str| {
        format!(r#"{{"rank":"{rank}","children":{{"core":"{core}","gpu":"0"}}}}"#)
    };
    let read = |args: &[&str], set: &str| pmix_with(&[&["map"], args].concat(), set.as_bytes());
    // Rank 2 is listed first, but still is the third host.
    let entries = [entry("2", "[0-1]"), entry("0-1", "0-2,5")].join(",");
    let all = set(&entries, r#""n[10-11]","x""#);
    let drawn = read(&["who", "x", "n10", "--nodes", "flux:-"], &all);
    assert_eq!(drawn.text(), "x\t8-9\nn10\t0-3", "{}", drawn.stderr);
    assert_eq!(read(&["count", "flux:-"], &all).text(), "3");
    for (set, why) in [
        (set(&entries, r#""n[1-2]""#), "2 hosts for 3 ranks"),
        (
            set(&[entry("0-1", "0"), entry("1", "0")].join(","), r#""a""#),
            "rank 1 twice",
        ),
        (set(&entry("1-0", "0"), r#""a""#), "\"1-0\""),
        (set(&entry("0", "zero"), r#""a""#), "\"zero\""),
        (
            set(&entry("0-4294967295", "0"), r#""a""#),
            "1 hosts for 4294967296 ranks",
        ),
        (set(&entry("0", "0-4294967295"), r#""a""#), "0-4294967295"),
        (set(&entry("0", "0"), r#""a[""#), "nodelist"),
        (all.replace(":1,", ":2,"), "version 2"),
        ("n1,n2".to_owned(), "not a Flux resource set"),
        (
            "{\n\"version\": 1\n}".to_owned(),
            "missing field `execution`",
        ),
    ] {
        let outcome = read(&["count", "flux:-"], &set);
        assert_eq!(outcome.code, 3, "{set}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(why), "{why}: {}", outcome.stderr);
    }
    let none = pmix(&["map", "count", "flux:"]);
    assert_eq!(none.code, 2, "{}", none.stderr);
}

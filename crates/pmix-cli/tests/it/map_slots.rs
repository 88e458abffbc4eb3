// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nodes with slots, from hostfiles and resource managers, and the placement of ranks.

use serde_json::json;

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
    // Rank 2 is listed first, but is still the third host.
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

#[test]
fn lists_are_sets_that_keep_their_order() {
    let of = |args: &[&str]| pmix(&[&["map"], args].concat()).text();
    assert_eq!(of(&["sort", "n10,n2", "n1"]), "n[1-2,10]");
    assert_eq!(of(&["unique", "b,a,b"]), "b,a");
    assert_eq!(of(&["union", "n[1-4]", "n[3-6]"]), "n[1-6]");
    assert_eq!(of(&["minus", "n[1-8]", "n[3-4]", "n8"]), "n[1-2,5-7]");
    assert_eq!(of(&["intersection", "n[1-8]", "n[3-40]"]), "n[3-8]");
    assert_eq!(of(&["xor", "n[1-4]", "n[3-6]"]), "n[1-2,5-6]");
    let list = of(&["minus", "--to", "list", "pmix[n[1:1-3]]", "n2"]);
    assert_eq!(list, "n1,n3");
    assert_eq!(pmix_with(&["map", "sort"], b"b\na # c\n").text(), "a,b");
    assert_eq!(pmix(&["map", "union", "-", "-"]).code, 2);
}

#[test]
fn lists_are_cut_by_places_and_lengths() {
    let of = |args: &[&str]| pmix(&[&["map"], args].concat()).text();
    assert_eq!(of(&["slice", "7,0-1", "n[1-8]"]), "n[8,1-2]");
    assert_eq!(of(&["split", "3", "n[1-8]"]), "n[1-3]\nn[4-6]\nn[7-8]");
    assert_eq!(of(&["split", "3", "n[1-2]"]), "n1\nn2");
    assert_eq!(
        of(&["chop", "5", "n[1-8]", "login"]),
        "n[1-5]\nn[6-8],login"
    );
    assert_eq!(
        of(&["position", "n3,n1", "n[1-3],n3"]),
        "n3\t2\nn3\t3\nn1\t0"
    );
    for places in ["1-", "-1", "x"] {
        let wrong = pmix(&["map", "slice", places, "a,b"]);
        assert_eq!(wrong.code, 2, "{places}: {}", wrong.stderr);
        let said = wrong
            .stderr
            .starts_with("error: not a position in a list\n");
        assert!(said && wrong.stderr.contains("counted from zero: 3, 8-15"));
    }
    let beyond = pmix(&["map", "slice", "1-9", "a,b"]);
    assert_eq!((beyond.code, beyond.text().as_str()), (1, "b"));
    assert!(
        beyond.stderr.contains("no element 2: the list has 2"),
        "{}",
        beyond.stderr
    );
    assert_eq!(pmix(&["map", "position", "x", "a,b"]).code, 1);
    assert_eq!(pmix(&["map", "split", "0", "a,b"]).code, 2);
}

#[test]
fn a_difference_names_nodes_and_ranks() {
    let maps = [
        "map",
        "diff",
        "--nodes",
        "n[1-3]",
        "--procs",
        "0-3;4-7;8-11",
        "--new-nodes",
        "n[1-2],n4",
        "--new-procs",
        "0-3;4-6,12;8-11",
    ];
    let outcome = pmix(&maps);
    let expected = "node lost: n3\nnode added: n4\nranks 8-11 moved from n3 to n4\n\
                    rank 7 lost, previously on n2\nrank 12 added on n2";
    assert_eq!((outcome.code, outcome.text().as_str()), (1, expected));
    assert_eq!(
        pmix(&[&maps[..], &["--json"]].concat()).json(),
        json!({"same": false, "nodes_added": ["n4"], "nodes_lost": ["n3"],
            "moved": [{"ranks": "8-11", "from": "n3", "to": "n4"}],
            "ranks_lost": [{"ranks": "7", "node": "n2"}],
            "ranks_added": [{"ranks": "12", "node": "n2"}]})
    );
    let same = pmix(&["map", "diff", "--nodes", "n[1-2]", "--new-nodes", "n2,n1"]);
    assert_eq!((same.code, same.text().as_str()), (0, ""));
}

/// Checks that a product of five columns of any size is written as one.
#[test]
fn clustershell_products_have_any_number_of_columns() {
    let product = "x[1000-1024]c[0-7]s[0-7]b[0-1]n[0-3]";
    let names = pmix(&["map", "decode", product]).stdout;
    let convert = ["map", "convert", "--to", "clustershell"];
    assert_eq!(pmix_with(&convert, &names).text(), product);
    // 200,000 names, which no single product covers.
    let many = [
        "x[1000-1780]c[0-7]s[0-7]b[0-1]n[0-1]",
        "x1781c[0-7]s[0-7]b0n0",
    ];
    let names = pmix(&[&["map", "decode"], &many[..]].concat()).stdout;
    let folded = pmix_with(&convert, &names).text();
    assert_eq!(folded, many.join(","));
    assert!(folded.len() <= 96, "{} bytes: {folded}", folded.len());
    assert_eq!(pmix(&["map", "count", &folded]).text(), "200000");
    let steps = pmix(&["map", "convert", "--to", "clustershell", "n1,n3,n5,n7,n10"]);
    assert_eq!(steps.text(), "n[1-7/2,10]");
    let slurm = pmix(&["map", "convert", "--to", "slurm", "n[1-7/2]"]);
    assert_eq!(slurm.text(), "n[1,3,5,7]");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Set operations on lists and differences of maps, as an administrator uses them.

use serde_json::json;

use crate::command::{pmix, pmix_with};

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

/// Checks that a product of five columns is written as one, whatever its size.
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

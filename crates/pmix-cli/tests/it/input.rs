// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accepted forms of maps, and the errors for others.

use crate::command::{pmix, pmix_with};

fn lines(args: &[&str], input: &str) -> Vec<String> {
    let outcome = pmix_with(&[&["map", "decode"], args].concat(), input.as_bytes());
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome.text().split('\n').map(str::to_owned).collect()
}

#[test]
fn names_come_from_words_files_and_standard_input() {
    let path = format!("{}/hosts.txt", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, "# two racks\nn1, n2\n\nn3 # the last\n").expect("the file is written");
    let file = format!("@{path}");
    assert_eq!(lines(&[&file], ""), ["n1", "n2", "n3"]);
    assert_eq!(
        lines(&["a", &file, "-"], "x y"),
        ["a", "n1", "n2", "n3", "x", "y"]
    );
    assert_eq!(lines(&[], "n1\r\nn2\r\n"), ["n1", "n2"]);
    assert_eq!(lines(&["n#1"], ""), ["n#1"]);
}

#[test]
fn arguments_join_like_one_text_with_blanks_between() {
    assert_eq!(lines(&["n1,", "n2", ",n3"], ""), ["n1", "n2", "n3"]);
    assert_eq!(lines(&["n[1-2],", "m"], ""), ["n1", "n2", "m"]);
    assert_eq!(lines(&["n1,", ",n2"], ""), ["n1", "", "n2"]);
    // The comma is part of a value with a tag.
    assert_eq!(lines(&["raw:n1,", "n2"], ""), ["n1", "", "n2"]);
}

#[test]
fn a_byte_order_mark_in_a_file_is_no_part_of_a_name() {
    let marked = |text: &str| format!("\u{feff}{text}");
    assert_eq!(lines(&[], &marked("n1\nn2\n")), ["n1", "n2"]);
    assert_eq!(lines(&[], &marked("pmix[n[1:1-2]]\r\n")), ["n1", "n2"]);
    assert_eq!(lines(&["--procs"], &marked("0-1\r\n2\r\n")), ["0,1", "2"]);
}

#[test]
fn bracket_lists_expand_in_order() {
    assert_eq!(
        lines(&["n[008-010,3],x,n[1,1]"], "").join(" "),
        "n008 n009 n010 n3 x n1 n1"
    );
    assert_eq!(
        lines(&["r[1-2]n[09-10]-ib.c"], "").join(" "),
        "r1n09-ib.c r1n10-ib.c r2n09-ib.c r2n10-ib.c"
    );
    assert_eq!(
        lines(&["n[0-10/5]", "[3-4]", "a[1-2]b[5,7]"], "").join(" "),
        "n0 n5 n10 3 4 a1b5 a1b7 a2b5 a2b7"
    );
    assert_eq!(
        lines(&[], "n[1,\n 3-4] # rest\nm1\n").join(" "),
        "n1 n3 n4 m1"
    );
}

#[test]
fn values_are_distinguished_from_bracket_lists_by_their_tag() {
    assert_eq!(lines(&["pmix[n[1:1-3]]"], "").join(" "), "n1 n2 n3");
    assert_eq!(lines(&["raw:n[1-3],m"], "").join(" "), "n[1-3] m");
    assert_eq!(lines(&["--procs", "pmix[0-1;2]"], "").join(" "), "0,1 2");
    assert_eq!(
        lines(&["m[1-2]", "pmix[n[1:1-2]]", "raw:a,b", "c"], "").join(" "),
        "m1 m2 n1 n2 a b c"
    );
    assert_eq!(
        lines(&[], "a\nraw:b,c\nn[1-2]\npmix[n[1:3-4]]\n").join(" "),
        "a b c n1 n2 n3 n4"
    );
}

#[test]
fn binary_values_come_raw_hex_base64_and_as_json() {
    for out in ["text", "hex", "base64", "json"] {
        let value = pmix(&["map", "encode", "--out", out, "n[1-4000]"]);
        assert_eq!(value.code, 0);
        let count = pmix_with(&["map", "count"], &value.stdout);
        assert_eq!(count.text(), "4000", "{out}");
    }
    let json = pmix(&["map", "encode", "--form", "regex2", "--json", "n[1-4000]"]);
    assert_eq!(pmix_with(&["map", "count"], &json.stdout).text(), "4000");
    let bytes = pmix(&["map", "encode", "--form", "regex2", "n[1-4000]"]);
    let kind = json.json()["type"].as_str().expect("a type").to_owned();
    let decoded = pmix_with(&["map", "decode", "--type", &kind], &bytes.stdout);
    assert_eq!(decoded.text().lines().count(), 4000);
    assert_eq!(lines(&["hex:61002c62"], ""), ["a\0", "b"]);
    assert_eq!(lines(&["--type", "raw", "6e312c6e3200"], ""), ["n1", "n2"]);
    assert_eq!(lines(&["--type", "raw", "n1,n2"], ""), ["n1", "n2"]);
    assert_eq!(lines(&["deadbeef", "cafe"], ""), ["deadbeef", "cafe"]);
}

#[test]
fn process_maps_take_semicolons_newlines_and_arguments() {
    assert_eq!(lines(&["--procs", "0-2;;5"], ""), ["0,1,2", "", "5"]);
    assert_eq!(
        lines(&["--procs"], "0-1\n2 3,4\n\n# idle\n5 - 6\n"),
        ["0,1", "2,3,4", "", "5,6"]
    );
    assert_eq!(lines(&["--procs"], "0\n# end\n"), ["0"]);
    assert_eq!(lines(&["--procs", "0-1", "2-3"], ""), ["0,1", "2,3"]);
}

#[test]
fn ranges_of_ranks_are_written_out_before_they_are_encoded() {
    let encode = |scheme: &str, map: &str| {
        pmix(&["map", "encode", "--procs", "--scheme", scheme, map]).text()
    };
    assert_eq!(encode("raw", "0-2;;3 - 4"), "raw:0,1,2;;3,4");
    assert_eq!(encode("native", "0-7;8-15"), "pmix[0-7;8-15]");
}

#[test]
fn empty_names_and_the_empty_list_are_kept_apart() {
    assert_eq!(pmix(&["map", "count", "a,,b,"]).text(), "4");
    assert_eq!(pmix(&["map", "count", ""]).text(), "0");
    assert_eq!(pmix(&["map", "count", ","]).text(), "2");
    assert_eq!(
        pmix(&["map", "decode", "--out", "json", "a,,n[1-2],"]).text(),
        r#"["a","","n1","n2",""]"#
    );
}

#[test]
fn faults_show_the_place_with_a_caret_and_the_cure() {
    let cases = [
        ("n[1-x]", 4, "not a number"),
        ("n[1-3", 1, "never closed"),
        ("n1-3]", 4, "never opened"),
        ("n[1[2]]", 3, "inside brackets"),
        ("n[1:1-3]", 3, "colon"),
        ("abc,n[5-3]", 6, "backwards"),
        ("n[]", 2, "empty"),
        ("n[1-3/0]", 6, "step"),
    ];
    for (text, byte, what) in cases {
        let outcome = pmix(&["map", "encode", text]);
        assert_eq!(outcome.code, 3, "{text}");
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert!(lines[0].contains(what), "{text}: {}", outcome.stderr);
        assert!(
            lines[1].ends_with(&format!("byte {byte}")),
            "{text}: {}",
            outcome.stderr
        );
        assert_eq!(lines[2].trim(), text);
        assert_eq!(lines[3].find('^'), Some(4 + byte), "{}", outcome.stderr);
        assert!(lines[4].trim().starts_with("help:"), "{}", outcome.stderr);
    }
    let damaged = pmix(&["map", "decode", "pmix[n[1:1-3]"]);
    assert_eq!(damaged.code, 3);
    assert!(damaged.stderr.contains('^'), "{}", damaged.stderr);
    let rank = pmix(&["map", "count", "--procs", "0-3;4-x"]);
    assert_eq!(
        (
            rank.code,
            rank.stderr.lines().nth(3).and_then(|l| l.find('^'))
        ),
        (3, Some(10))
    );
}

#[test]
fn huge_ranges_are_errors_and_allocate_nothing() {
    let cases = [
        "n[0-999999999999999999]",
        "a[1-99999]b[1-99999]c[1-99999]",
        "a[0-1]b[0-1]c[0-1]d[0-1]e[0-1]f[0-1]g[0-1]h[0-1]i[0-1]j[0-1]k[0-1]l[0-1]m[0-1]n[0-1]o[0-1]p[0-1]q[0-1]",
        "pmix[n[10:0-4294967295]]",
    ];
    for text in cases {
        let outcome = pmix(&["map", "count", text]);
        assert_eq!(outcome.code, 3, "{text}: {}", outcome.stderr);
    }
    assert_eq!(
        pmix(&[
            "map",
            "count",
            "n[1-3]",
            "--mca",
            "preg_base_max_nodes",
            "2"
        ])
        .code,
        3
    );
    assert_eq!(
        pmix(&[
            "map",
            "count",
            "n[1-3]",
            "--mca",
            "preg_base_max_nodes",
            "3"
        ])
        .text(),
        "3"
    );
}

#[test]
fn hex_that_is_none_is_named() {
    let outcome = pmix(&["map", "decode", "hex:6x"]);
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains("hexadecimal"), "{}", outcome.stderr);
    assert_eq!(pmix(&["map", "decode", "base64:Zg="]).code, 0);
    assert_eq!(pmix(&["map", "decode", "{\"a\":1}"]).code, 3);
    assert_eq!(pmix(&["map", "decode", "@/nonexistent/hosts"]).code, 3);
    assert_eq!(pmix(&["map", "count", "-", "-"]).code, 2);
}

#[test]
fn a_fault_in_a_file_of_process_maps_names_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("procs");
    std::fs::write(&path, "0-3  # first\n4-7\n8,x\n12\n").unwrap();
    let file = format!("@{}", path.display());
    let outcome = pmix(&["map", "decode", "--procs", &file]);
    assert_eq!(outcome.code, 3);
    let place = format!("in {}, line 3, byte 19\n    8,x\n      ^\n", path.display());
    assert!(outcome.stderr.contains(&place), "{}", outcome.stderr);
}

#[test]
fn maps_that_do_not_belong_together_are_not_drawn_either() {
    let maps = ["--nodes", "n[1-4]", "--procs", "0-3"];
    let outcome = pmix(&[&["map", "draw"], &maps[..]].concat());
    assert_eq!((outcome.code, outcome.text().as_str()), (3, ""));
    let expected = "the node map has 4 nodes, the process map 1";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
}

#[test]
fn long_names_are_distinguished_in_pictures() {
    let nodes = "verylongclustername-rack01-node[001-002]";
    for kind in ["text", "svg"] {
        let maps = ["--nodes", nodes, "--procs", "0;1", "--of", kind];
        let text = pmix(&[&["map", "draw"], &maps[..]].concat()).text();
        assert!(
            text.contains("-node001") && text.contains("-node002"),
            "{text}"
        );
    }
}

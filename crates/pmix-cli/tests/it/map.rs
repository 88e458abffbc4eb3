// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every command under `pmix map`, with its exit codes.

use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use crate::command;
use crate::command::{command, pmix, pmix_with};

#[test]
fn encode_answers_like_the_library_or_like_one_scheme() {
    assert_eq!(pmix(&["map", "encode", "n1,n2"]).text(), "raw:n1,n2");
    assert_eq!(
        pmix(&["map", "encode", "--scheme", "native", "n[1-3]"]).text(),
        "pmix[n[1:1-3]]"
    );
    let native = pmix(&[
        "map", "encode", "--mca", "preg", "native", "n[1-3]", "--json",
    ]);
    assert_eq!(
        native.json(),
        json!({"form": "string", "type": "pmix", "len": 14,
        "bytes_hex": "706d69785b6e5b313a312d335d5d"})
    );
    let regex2 = pmix(&["map", "encode", "--form", "regex2", "--out", "json", "n1"]);
    assert_eq!(
        regex2.json(),
        json!({"form": "regex2", "type": "raw", "len": 3, "bytes_hex": "6e3100"})
    );
}

#[test]
fn a_scheme_that_declines_is_a_negative_answer_and_an_unknown_one_is_misuse() {
    let declined = pmix(&["map", "encode", "--scheme", "compress", "--json", "a"]);
    assert_eq!(
        (declined.code, declined.json_error()["status"].as_i64()),
        (1, Some(-1366))
    );
    let unknown = pmix(&["map", "encode", "--scheme", "nope", "a"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("native"), "{}", unknown.stderr);
    assert_eq!(
        pmix(&["map", "encode", "--mca", "preg", "nope", "a"]).code,
        2
    );
    assert_eq!(pmix(&["map", "encode", "--frm", "string", "a"]).code, 2);
    assert_eq!(pmix(&["map"]).code, 2);
}

#[test]
fn decode_prints_lines_a_list_or_json() {
    let decode = |args: &[&str]| pmix(&[&["map", "decode", "raw:b,a,b"], args].concat()).text();
    assert_eq!(decode(&[]), "b\na\nb");
    assert_eq!(decode(&["--out", "list"]), "b,a,b");
    assert_eq!(decode(&["--out", "json"]), r#"["b","a","b"]"#);
    assert_eq!(
        decode(&["--json"]),
        r#"{"procs":false,"count":3,"list":["b","a","b"]}"#
    );
    assert_eq!(pmix(&["map", "decode", "--type", "nope", "00"]).code, 3);
}

#[test]
fn convert_writes_every_format() {
    let to = |format: &str, args: &[&str]| {
        pmix(&[&["map", "convert", "--to", format], args].concat()).text()
    };
    assert_eq!(to("list", &["n[9-11]"]), "n9,n10,n11");
    assert_eq!(to("json", &["n[9-10]"]), r#"["n9","n10"]"#);
    assert_eq!(to("pmix", &["n[9-30]"]), "pmix[n9,n[2:10-30]]");
    assert_eq!(
        to("slurm", &["n9,n10,n11,n011,x,a1-b,a2-b"]),
        "n[9-11,011],x,a1-b,a2-b"
    );
    assert_eq!(
        to("clustershell", &["n9,n10,n11,n011,x,a1-b,a2-b"]),
        "n[9-11,011],x,a[1-2]-b"
    );
    assert_eq!(to("slurm", &["--procs", "0,1,2;4,6;;8"]), "0-2;4,6;;8");
    assert_eq!(
        to("pmix", &["--procs", "0-99;100-199"]),
        "pmix[0-99;100-199]"
    );
}

/// Compares with the expansion of `scontrol show hostnames` of Slurm 22.05.
#[test]
fn lists_of_slurm_are_read_in_its_order() {
    let three = "a[1-2]b[1-2]c[1-2],d";
    let theirs = "a1b1c1,a1b1c2,a2b1c1,a2b1c2,a1b2c1,a1b2c2,a2b2c1,a2b2c2,d";
    let convert = ["map", "convert", "--to", "list"];
    let from = |writer: &str, args: &[&str]| {
        let outcome = pmix(&[&convert[..], &["--from", writer], args].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.text());
        outcome.text()
    };
    assert_eq!(from("slurm", &[three]), theirs);
    assert_eq!(
        pmix(&[&convert[..], &[&format!("slurm:{three}")]].concat()).text(),
        theirs
    );
    let text = format!("# rack 1\n{three}\nx  # last\n");
    let read = pmix_with(
        &[&convert[..], &["--from", "slurm"]].concat(),
        text.as_bytes(),
    );
    assert_eq!(read.text(), format!("{theirs},x"));
    let own = "a1b1c1,a1b1c2,a1b2c1,a1b2c2,a2b1c1,a2b1c2,a2b2c1,a2b2c2,d";
    assert_eq!(from("clustershell", &[three]), own);
    assert_eq!(
        pmix(&["map", "nth", "2", &format!("slurm:{three}")]).text(),
        "a2b1c1"
    );
    let procs = [&convert[..], &["--from", "slurm", "--procs", "0,1"]].concat();
    assert_eq!(pmix(&procs).code, 2);
}

#[test]
fn names_that_no_bracket_list_can_hold_are_refused() {
    for name in [
        "raw:n[1]",
        "raw:a b",
        "raw:raw:x",
        "raw:#a",
        "raw:@a",
        "hex:61092c62",
    ] {
        let outcome = pmix(&["map", "convert", "--to", "slurm", name]);
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.text());
    }
}

#[test]
fn count_and_nth_answer_without_expanding() {
    assert_eq!(
        pmix(&["map", "count", "pmix[n[7:1-1000000]]"]).text(),
        "1000000"
    );
    assert_eq!(
        pmix(&["map", "count", "--procs", "0-3;4"]).text(),
        "2 nodes, 5 ranks"
    );
    assert_eq!(
        pmix(&["map", "count", "--procs", "--json", "0-3;4"]).json(),
        json!({"count": 2, "ranks": 5})
    );
    assert_eq!(
        pmix(&["map", "nth", "999999", "pmix[n[7:1-1000000]]"]).text(),
        "n1000000"
    );
    assert_eq!(pmix(&["map", "nth", "-1", "a", "b"]).text(), "b");
    assert_eq!(pmix(&["map", "nth", "1", "--procs", "0;1-2"]).text(), "1,2");
    for index in ["2", "-3"] {
        let outcome = pmix(&["map", "nth", index, "a", "b", "--json"]);
        assert_eq!((outcome.code, &outcome.json()["name"]), (1, &json!(null)));
    }
}

#[test]
fn explain_names_fields_and_the_reason_of_a_rejection() {
    let sound = pmix(&["map", "explain", "pmix[n[3:1-128],login]", "--json"]);
    assert_eq!(sound.code, 0);
    let fields = sound.json()["fields"].as_array().expect("fields").clone();
    let width = fields
        .iter()
        .find(|f| f["name"] == "width")
        .expect("a width");
    assert_eq!(
        (width["offset"].as_u64(), width["len"].as_u64()),
        (Some(7), Some(1))
    );
    let damaged = pmix(&["map", "explain", "pmix[n[3:1-1x]]", "--json"]);
    assert_eq!(
        (damaged.code, damaged.json()["fault"]["offset"].as_u64()),
        (3, Some(12))
    );
    let list = pmix(&["map", "explain", "n[1-3]"]);
    assert!(list.text().contains("bracket list") && list.text().contains("n1 to n3"));
    let typed = pmix(&["map", "explain", "--type", "raw", "6e3100"]);
    assert!(typed.text().contains("n1"), "{}", typed.text());
}

#[test]
fn size_marks_the_selected_scheme() {
    let outcome = pmix(&["map", "size", "n[1-500]", "--json"]);
    let answer = outcome.json();
    let winner = |form: &str| {
        let all = answer["schemes"].as_array().expect("schemes");
        let wins = all
            .iter()
            .find(|s| s[form]["wins"] == true)
            .expect("a winner");
        (wins["scheme"].clone(), wins[form]["len"].clone())
    };
    let auto = pmix(&["map", "encode", "n[1-500]", "--json"]).json();
    assert_eq!(winner("string").1, auto["len"]);
    let auto = pmix(&["map", "encode", "n[1-500]", "--form", "regex2", "--json"]).json();
    assert_eq!(
        winner("regex2"),
        (auto["type"].clone(), auto["len"].clone())
    );
    assert!(pmix(&["map", "size", "n[1-500]"]).text().contains('*'));
}

#[test]
fn verify_finds_each_fault_with_its_place() {
    let verify = |nodes: &str, procs: &str| {
        pmix(&[
            "map", "verify", "--nodes", nodes, "--procs", procs, "--json",
        ])
    };
    let sound = verify("n[1-3]", "0-3;;4-7");
    assert_eq!((sound.code, &sound.json()["ok"]), (0, &json!(true)));
    assert_eq!(
        sound.json()["notes"],
        json!([{"kind": "empty", "node": 1, "name": "n2"}])
    );
    let broken = verify("n[1-2],n1", "0-3;2,9");
    assert_eq!(broken.code, 1);
    assert_eq!(
        broken.json()["faults"],
        json!([
            {"kind": "count", "nodes": 3, "procs": 2},
            {"kind": "doubled", "first": 2, "last": 2, "on": {"node": 0, "name": "n1"},
                "again": {"node": 1, "name": "n2"}},
            {"kind": "missing", "first": 4, "last": 8,
                "before": {"node": 0, "name": "n1", "rank": 3},
                "after": {"node": 1, "name": "n2", "rank": 9}},
            {"kind": "host", "name": "n1", "node": 0, "again": 2},
        ])
    );
    let text = pmix(&["map", "verify", "--nodes", "n1,n1", "--procs", "0;2"]).text();
    assert!(text.contains("rank 1 is missing: rank 0 is on node 0 (n1), rank 2 is on node 1 (n1)"));
    assert!(text.contains("host n1 is both node 0 and node 1"), "{text}");
}

#[test]
fn where_and_who_use_both_maps() {
    let maps = ["--nodes", "n[1-3]", "--procs", "0-3;4-7;8"];
    let ask = |args: &[&str]| pmix(&[&["map"], args, &maps[..]].concat());
    assert_eq!(ask(&["where", "3", "7-8"]).text(), "3\tn1\n7\tn2\n8\tn3");
    assert_eq!(ask(&["who", "n[2-3]"]).text(), "n2\t4-7\nn3\t8");
    let absent = ask(&["where", "8", "99", "--json"]);
    assert_eq!(absent.code, 1);
    assert_eq!(
        absent.json(),
        json!({"ranks": [{"rank": 8, "node": 2, "name": "n3"},
        {"rank": 99, "node": null, "name": null}]})
    );
    assert_eq!(ask(&["who", "x"]).code, 1);
    let unpaired = pmix(&["map", "who", "a", "--nodes", "a", "--procs", "0;1"]);
    assert_eq!(unpaired.code, 3);
    let twice = pmix(&["map", "who", "a", "--nodes", "a,b,a", "--procs", "0;1;2"]);
    assert_eq!(twice.text(), "a\t0\na\t2");
}

#[test]
fn draw_takes_words_as_names() {
    let words = pmix(&["map", "draw", "n1", "n[2-3]", "n4", "--ppn", "2"]).text();
    let option = ["map", "draw", "--nodes", "n[1-4]", "--ppn", "2"];
    assert_eq!(words, pmix(&option).text());
    assert!(words.contains("4 nodes, 8 ranks: block"), "{words}");
    let outcome = pmix(&["map", "draw", "n1", "@hosts", "--ppn", "2"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("@hosts"), "{}", outcome.stderr);
}

/// Returns the picture of 200 ranks on a terminal with this number of columns.
fn drawn_on_a_terminal(columns: u16) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&controller).expect("granted");
    unlockpt(&controller).expect("unlocked");
    let size = rustix::termios::Winsize {
        ws_row: 50,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&controller, size).expect("a size");
    let name = ptsname(&controller, Vec::new()).expect("a name");
    let name = name.to_str().expect("a path").to_owned();
    let side = std::fs::OpenOptions::new().write(true).open(name);
    let nodes = ["--nodes", "a-long-name-of-a-node-[1-2]"];
    let arguments = [&["map", "draw", "--procs", "0-99;100-199"], &nodes[..]].concat();
    let mut command = command::command(&arguments);
    command.env("NO_COLOR", "1");
    let status = command.stdout(side.expect("its other side")).status();
    assert!(status.expect("the command runs").success());
    // Every writer has closed the pipe, and the output before is complete.
    let mut text = vec![0; 64 << 10];
    let mut len = 0;
    drop(command);
    while let Ok(more) = rustix::io::read(&controller, &mut text[len..]) {
        len += more;
        if more == 0 {
            break;
        }
    }
    String::from_utf8_lossy(&text[..len]).into_owned()
}

#[test]
fn draw_uses_the_width_of_the_terminal() {
    for (columns, cells, name) in [(80, 50, "node-1 "), (240, 200, "a-long-name-of-a-node-1 ")] {
        let text = drawn_on_a_terminal(columns);
        let row = text.lines().find(|line| line.contains('█')).expect("a row");
        assert!(row.contains(name), "{columns}: {text}");
        let drawn = row.chars().filter(|c| "·░▒▓█".contains(*c)).count();
        assert!(drawn >= cells, "{columns}: {drawn} cells in {row:?}");
        assert!(
            row.trim_end().chars().count() <= usize::from(columns),
            "{row:?}"
        );
    }
}

#[test]
fn draw_shows_block_cyclic_and_holes() {
    let draw = |procs: &str| pmix(&["map", "draw", "--procs", procs, "--nodes", "a,b"]).text();
    assert!(draw("0-3;4-7").contains("block, 4 per node"));
    assert!(draw("0-3;4-7").contains("a ████····"));
    assert!(draw("0,2;1,3").contains("cyclic") && draw("0,2;1,3").contains("a █·█·"));
    let holes = draw("0-1;4-5");
    assert!(
        holes.contains("2 missing") && holes.contains("??"),
        "{holes}"
    );
    let piped = pmix_with(&["map", "draw"], b"0-3\n4-7\n");
    assert!(piped.text().contains("node 1 ····████"), "{}", piped.text());
    let json = pmix(&["map", "draw", "--procs", "0,1,4;2,3", "--json"]).json();
    assert_eq!(json["layout"], json!("plane"));
    assert!(
        json["picture"]
            .as_str()
            .is_some_and(|p| p.contains("node 0 ██··█"))
    );
    let colour = pmix(&["map", "draw", "--procs", "0;1", "--color", "always"]);
    assert!(colour.text().contains('\u{1b}'));
    assert!(!draw("0;1").contains('\u{1b}'));
}

#[test]
fn pictures_are_balanced_xml_with_names_escaped() {
    let args = [
        "map",
        "draw",
        "--of",
        "svg",
        "--nodes",
        "raw:a<b,\"&c",
        "--procs",
        "0-3;5",
    ];
    let svg = pmix(&args).text();
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>"));
    assert!(svg.contains("a&lt;b") && svg.contains("&amp;c"));
    assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("class=\"missing\""));
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let tag = tag.split('>').next().expect("a tag ends");
        let name = tag
            .split([' ', '/'])
            .next()
            .expect("a tag has a name")
            .to_owned();
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty());
    let path = format!("{}/map.svg", env!("CARGO_TARGET_TMPDIR"));
    let file = pmix(&["map", "draw", "--of", "svg", "--procs", "0", "-o", &path]);
    assert_eq!((file.code, file.text().as_str()), (0, ""));
    assert!(
        std::fs::read_to_string(&path)
            .expect("the picture")
            .contains("<svg")
    );
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let mut child = command(&["map", "decode", "n[1-1000000]"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut some = [0; 16];
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut some).expect("some output comes");
    drop(stdout);
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.status.success());
    assert_eq!(output.stderr, b"");
}

#[test]
fn a_failure_with_json_is_json_too() {
    let outcome = pmix(&["map", "decode", "--json", "pmix[n[1:1-3]"]);
    assert_eq!(outcome.code, 3);
    assert_eq!(outcome.json_error()["status"], json!(-27));
    assert_eq!(outcome.json_error()["offset"], json!(12));
}

#[test]
fn faults_of_two_maps_name_the_option_and_a_rank_that_is_none_is_misuse() {
    let maps = |nodes: &str, procs: &str| {
        pmix(&["map", "where", "0", "--nodes", nodes, "--procs", procs]).stderr
    };
    assert!(maps("n[1-", "0").contains("in --nodes, byte 1"));
    assert!(maps("n1", "0;x").contains("in --procs, byte 2"));
    let wrong = pmix(&["map", "where", "x", "--nodes", "n1", "--procs", "0"]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.stderr.contains("a rank is a number"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_limit_names_its_own_cure() {
    let outcome = pmix(&["map", "count", "--procs", "0-4294967245"]);
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains("pmix info"), "{}", outcome.stderr);
}

#[test]
fn pictures_of_large_maps_fit_80_columns_and_show_a_corner_in_both_kinds() {
    let cyclic: Vec<_> = (0..300).map(|n| format!("{n},{}", n + 300)).collect();
    let input = cyclic.join("\n");
    let nodes = "node[00000001-00000300].example.com";
    let draw = |kind: &str| {
        let args = ["map", "draw", "--of", kind, "--nodes", nodes];
        pmix_with(&args, input.as_bytes()).text()
    };
    let text = draw("text");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert_eq!(widest, Some(80), "{text}");
    for picture in [text, draw("svg")] {
        assert!(picture.contains("each cell: up to "), "{picture}");
        assert!(
            picture.contains("the first 12 nodes and 64 ranks"),
            "{picture}"
        );
    }
}

#[test]
fn one_is_no_plural() {
    assert_eq!(
        pmix(&["map", "count", "--procs", "0"]).text(),
        "1 node, 1 rank"
    );
    let verify = pmix(&["map", "verify", "--nodes", "n1", "--procs", "0;1"]);
    assert!(
        verify.text().contains("has 1 node, the process map 2"),
        "{}",
        verify.text()
    );
}

#[test]
fn a_list_is_printed_at_any_length_and_made_as_text_up_to_a_limit() {
    let ranks: Vec<_> = (0..40_000).map(|rank| rank.to_string()).collect();
    let (ranks, tight) = (ranks.join(","), "preg_base_max_text");
    let decode = |more: &[&str]| {
        let args = ["map", "decode", "--mca", tight, "1000", "--procs"];
        pmix(&[&args, more, &["0-39999", "40000"]].concat())
    };
    assert_eq!(decode(&[]).text(), format!("{ranks}\n40000"));
    assert_eq!(decode(&["--out", "list"]).text(), format!("{ranks};40000"));
    assert_eq!(decode(&["--out", "json"]).json(), json!([ranks, "40000"]));
    for procs in [false, true] {
        let input = if procs { "0-39999" } else { "n[0-39999]" };
        let kind: &[&str] = if procs { &["--procs"] } else { &[] };
        let args = ["map", "convert", "--mca", tight, "1000", "--to", "pmix"];
        let refused = pmix(&[&args, kind, &[input]].concat());
        assert_ne!(refused.code, 0);
        let said = &refused.stderr;
        assert!(
            said.contains("1000 bytes of text") && said.contains(tight),
            "{said}"
        );
    }
}

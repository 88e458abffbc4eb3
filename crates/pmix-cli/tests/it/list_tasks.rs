// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks with lists that users of nodeset, scontrol, pdsh and nodeattr have on a day, each done with their command and
//! with `pmix map`. The results are the same words in the same order.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::command::{Outcome, finish};
use tempfile::TempDir;

/// The command of another program, the command of this project, and the words that both print.
#[rustfmt::skip]
const TASKS: &[(&str, &str, &str)] = &[
    ("nodeset -c 'n[1-128]'", "pmix map count 'n[1-128]'", "128"),
    ("nodeset -c 'n[001-128],login'", "pmix map count 'n[001-128],login'", "129"),
    ("nodeset -c 'r[1-4]n[01-16]'", "pmix map count 'r[1-4]n[01-16]'", "64"),
    ("nodeset -c 'n[0-100/5]'", "pmix map count 'n[0-100/5]'", "21"),
    ("nodeset -c 'n[1-3],n2'", "pmix map fold 'n[1-3],n2' | pmix map count", "3"),
    ("nodeset -c 'n[1-10]!n[3-4]'", "pmix map count 'n[1-10]!n[3-4]'", "8"),
    ("nodeset -c @compute", "pmix map count @compute", "8"),
    (r"nodeset -e -S '\n' 'n[8-11]'", "pmix map expand 'n[8-11]'", "n8 n9 n10 n11"),
    (r"nodeset -e -S '\n' 'n[08-11]'", "pmix map expand 'n[08-11]'", "n08 n09 n10 n11"),
    (r"nodeset -e -S '\n' 'n[098-101]'", "pmix map expand 'n[098-101]'", "n098 n099 n100 n101"),
    ("nodeset -e 'n[1-3]'", "pmix map convert --to list -S ' ' 'n[1-3]'", "n1 n2 n3"),
    ("nodeset -e -S , 'n[1-3]'", "pmix map convert --to list 'n[1-3]'", "n1,n2,n3"),
    (r"nodeset -e -S '\n' 'r[1-2]n[1-2]'", "pmix map convert --to lines 'r[1-2]n[1-2]'", "r1n1 r1n2 r2n1 r2n2"),
    (r"nodeset -e -S '\n' 'n[1-2]-ib'", "pmix map expand 'n[1-2]-ib'", "n1-ib n2-ib"),
    (r"nodeset -e -S '\n' 'n[0-10/5]'", "pmix map expand 'n[0-10/5]'", "n0 n5 n10"),
    ("nodeset -f n3 n1 n2", "pmix map fold n3 n1 n2", "n[1-3]"),
    ("nodeset -f n1 n2 n2", "pmix map fold n1 n2 n2", "n[1-2]"),
    ("nodeset -f n008 n009 n010", "pmix map fold n008 n009 n010", "n[008-010]"),
    ("nodeset -f n8 n9 n10 login", "pmix map fold n8 n9 n10 login", "login,n[8-10]"),
    ("nodeset -f n1-ib n2-ib n3-ib", "pmix map fold n1-ib n2-ib n3-ib", "n[1-3]-ib"),
    ("nodeset -f r1n1 r1n2 r2n1 r2n2", "pmix map fold r1n1 r1n2 r2n1 r2n2", "r[1-2]n[1-2]"),
    ("nodeset -f 'n[1-4]' 'n[3-8]'", "pmix map fold 'n[1-4]' 'n[3-8]'", "n[1-8]"),
    (r"printf 'n2\nn1\nn3\n' | nodeset -f", r"printf 'n2\nn1\nn3\n' | pmix map fold", "n[1-3]"),
    (r"printf 'n[1-3]\nn5\n' | nodeset -c", r"printf 'n[1-3]\nn5\n' | pmix map count", "4"),
    ("nodeset -f 'n[1-8]' -x 'n[3-4]'", "pmix map minus 'n[1-8]' 'n[3-4]'", "n[1-2,5-8]"),
    ("nodeset -f 'n[1-8]' -x n3 -x n5", "pmix map minus 'n[1-8]' n3 n5", "n[1-2,4,6-8]"),
    ("nodeset -f 'n[1-8]' -i 'n[3-40]'", "pmix map intersection 'n[1-8]' 'n[3-40]'", "n[3-8]"),
    ("nodeset -f 'n[1-4]' -X 'n[3-6]'", "pmix map xor 'n[1-4]' 'n[3-6]'", "n[1-2,5-6]"),
    ("nodeset -f 'n[1-8]!n[3-4]'", "pmix map fold 'n[1-8]!n[3-4]'", "n[1-2,5-8]"),
    ("nodeset -f 'n[1-8]&n[3-40]'", "pmix map fold 'n[1-8]&n[3-40]'", "n[3-8]"),
    ("nodeset -f 'n[1-4]^n[3-6]'", "pmix map fold 'n[1-4]^n[3-6]'", "n[1-2,5-6]"),
    ("nodeset -f 'n[1-10]!n[2-3]&n[1-5]^n20'", "pmix map fold 'n[1-10]!n[2-3]&n[1-5]^n20'", "n[1,4-5,20]"),
    ("nodeset -f 'n[1-4],m1!n2'", "pmix map fold 'n[1-4],m1!n2'", "m1,n[1,3-4]"),
    ("nodeset -f -I 0 'n[1-9]'", "pmix map slice 0 'n[1-9]'", "n1"),
    ("nodeset -f -I 2-4 'n[1-9]'", "pmix map slice 2-4 'n[1-9]'", "n[3-5]"),
    ("nodeset -f -I 0,3,5 'n[1-9]'", "pmix map slice 0,3,5 'n[1-9]'", "n[1,4,6]"),
    ("nodeset -f -I 0-8/3 'n[1-9]'", "pmix map slice 0-8/3 'n[1-9]'", "n[1,4,7]"),
    ("nodeset -e -I 0-3/2 'n[1-9]'", "pmix map slice 0-3/2 'n[1-9]' --to list -S ' '", "n1 n3"),
    ("nodeset --split 3 -f 'n[1-8]'", "pmix map split 3 'n[1-8]'", "n[1-3] n[4-6] n[7-8]"),
    ("nodeset --split 4 -f 'n[1-4]'", "pmix map split 4 'n[1-4]'", "n1 n2 n3 n4"),
    ("nodeset --split 2 -e -S , 'n[1-5]'", "pmix map split 2 'n[1-5]' --to list", "n1,n2,n3 n4,n5"),
    ("nodeset -f --contiguous 'n[1-3,5,7-9]'", "pmix map fold --contiguous 'n[1-3,5,7-9]'", "n[1-3] n5 n[7-9]"),
    ("nodeset -f --contiguous 'n[01-03,05]'", "pmix map fold --contiguous 'n[01-03,05]'", "n[01-03] n05"),
    ("nodeset --pick 3 -f 'n[1-9]' | nodeset -c", "pmix map pick 3 'n[1-9]' | pmix map count", "3"),
    ("nodeset --pick 20 -f 'n[1-9]'", "pmix map pick 20 'n[1-9]'", "n[1-9]"),
    ("nodeset -e -O '%s-ib' 'n[1-3]'", "pmix map convert --to list -S ' ' -O '%s-ib' 'n[1-3]'", "n1-ib n2-ib n3-ib"),
    ("nodeset -f -O '%s.example.org' 'n[1-3]'", "pmix map fold -O '%s.example.org' 'n[1-3]'", "n[1-3].example.org"),
    ("nodeset -f @rack1", "pmix map fold @rack1", "n[1-4]"),
    ("nodeset -f '@rack[1-2]!n3'", "pmix map fold '@rack[1-2]!n3'", "n[1-2,4-8]"),
    ("nodeset -f '@racks:r1,login'", "pmix map fold '@racks:r1,login'", "login,n[1-4]"),
    // The files of two directories are one configuration.
    ("nodeset -f @site:s1", "pmix map fold @site:s1", "n[3-4]"),
    ("nodeset -s site -ll | sort", "pmix map groups -s site | sort", "@site:s1 n[3-4] @site:s2 n[7-8]"),
    ("nodeset -f @nested", "pmix map fold @nested", "n[1,3-4],x1"),
    ("nodeset -f '@*'", "pmix map fold '@*'", "n[1-8]"),
    ("nodeset -ll | sort", "pmix map groups -s local | sort", "@all n[1-8] @compute n[1-8] @nested n[1,3-4],x1 @rack1 n[1-4] @rack2 n[5-8]"),
    ("nodeset -r 'n[1-6]'", "pmix map regroup 'n[1-6]'", "@rack1,n[5-6]"),
    ("nodeset -r -s racks 'n[1-8],login'", "pmix map regroup -s racks 'n[1-8],login'", "@racks:r[1-2],login"),
    ("nodeset -f 'n[1-4]' -i @rack1 -x n2", "pmix map fold 'n[1-4]&@rack1!n2'", "n[1,3-4]"),
    ("scontrol show hostnames 'n[1-3],login'", "pmix map expand 'n[1-3],login'", "n1 n2 n3 login"),
    ("scontrol show hostnames 'n[08-11]'", "pmix map expand 'n[08-11]'", "n08 n09 n10 n11"),
    ("scontrol show hostnames 'r[1-2]n[1-2]'", "pmix map expand 'r[1-2]n[1-2]'", "r1n1 r1n2 r2n1 r2n2"),
    ("scontrol show hostnames 'a[1-2]b[1-2]c[1-2]'", "pmix map convert --from slurm --to lines 'a[1-2]b[1-2]c[1-2]'", "a1b1c1 a1b1c2 a2b1c1 a2b1c2 a1b2c1 a1b2c2 a2b2c1 a2b2c2"),
    ("scontrol show hostnames 'n[1-2],n2'", "pmix map expand 'n[1-2],n2'", "n1 n2 n2"),
    ("scontrol show hostlist n1,n2,n3", "pmix map convert --to slurm n1,n2,n3", "n[1-3]"),
    ("scontrol show hostlist n3,n1,n2", "pmix map convert --to slurm n3,n1,n2", "n[3,1-2]"),
    ("scontrol show hostlist n08,n09,n10", "pmix map convert --to slurm n08,n09,n10", "n[08-10]"),
    ("scontrol show hostlistsorted n3,n1,n2", "pmix map sort --to slurm n3,n1,n2", "n[1-3]"),
    ("scontrol show hostlistsorted login,n10,n9", "pmix map sort --to slurm login,n10,n9", "login,n[9-10]"),
    ("pdsh -R exec -w 'a[1-5],-a3' echo %h | sed 's/.*: //' | sort", "pmix map expand 'a[1-5],-a3'", "a1 a2 a4 a5"),
    ("pdsh -R exec -w 'a[1-5],-a[2-3],b1' echo %h | sed 's/.*: //' | sort", "pmix map expand 'a[1-5],-a[2-3],b1'", "a1 a4 a5 b1"),
    ("pdsh -R exec -w 'a[1-5]' -x a2 echo %h | sed 's/.*: //' | sort", "pmix map minus --to lines 'a[1-5]' a2", "a1 a3 a4 a5"),
    ("pdsh -R exec -w ^hosts echo %h | sed 's/.*: //' | sort", "pmix map expand @hosts", "n1 n2"),
    ("pdsh -R exec -g gpu echo %h | sed 's/.*: //' | sort", "pmix map expand @genders:gpu", "n5 n6 n7"),
    ("nodeattr -f genders -n gpu", "pmix map expand @genders:gpu", "n5 n6 n7"),
    ("nodeattr -f genders -n rack=2", "pmix map expand @genders:rack=2", "n5 n6 n7"),
    ("nodeattr -f genders -q all", "pmix map convert --to slurm @genders:all", "n[1-7]"),
];

/// A directory with groups of nodes in all files that the programs read.
fn node() -> TempDir {
    let top = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(top.path().join(name), text).unwrap();
    let file = top.path().join("groups");
    let file = file.display();
    write(
        "groups.conf",
        &format!(
            "[Main]\ndefault: local\nautodir: $CFGDIR/groups.d\n\n[local]\n\
            map: sed -n 's/^$GROUP:\\(.*\\)/\\1/p' {file}\n\
            all: sed -n 's/^all:\\(.*\\)/\\1/p' {file}\n\
            list: sed -n 's/^\\([0-9A-Za-z_-]*\\):.*/\\1/p' {file}\n\n\
            [outside]\nmap: touch {file}.run; echo n1\n"
        ),
    );
    write(
        "groups",
        "all: n[1-8]\ncompute: n[1-8]\nrack1: n[1-4]\nrack2: n[5-8]\nnested: @rack1,x1!n2\n",
    );
    fs::create_dir_all(top.path().join(".config/clustershell")).unwrap();
    let site = top.path().join(".config/clustershell/site");
    let site = site.display();
    write(".config/clustershell/site", "s1: n[3-4]\ns2: n[7-8]\n");
    write(
        ".config/clustershell/groups.conf",
        &format!(
            "[Main]\ndefault: site\n\n[local]\nmap: echo x9\n\n[site]\n\
            map: sed -n 's/^$GROUP:\\(.*\\)/\\1/p' {site}\n\
            list: sed -n 's/^\\([0-9A-Za-z_-]*\\):.*/\\1/p' {site}\n"
        ),
    );
    fs::create_dir(top.path().join("groups.d")).unwrap();
    write(
        "groups.d/racks.yaml",
        "racks:\n  r1: 'n[1-4]'\n  r2: 'n[5-8]'\n",
    );
    write(
        "genders",
        "n[1-4] all,rack=1\nn[5-6]  all,gpu,rack=2 # two\nn7 all,gpu=a100,rack=2\n",
    );
    write("hosts", "n1\nn2\n");
    write(
        "slurm.conf",
        "ClusterName=x\nSlurmctldHost=localhost\nNodeName=n[1-4]\nPartitionName=p Nodes=ALL\n",
    );
    top
}

#[expect(
    clippy::disallowed_methods,
    reason = "the programs are where the caller has them"
)]
fn shell(top: &Path, line: &str) -> Outcome {
    let ours = Path::new(env!("CARGO_BIN_EXE_pmix")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.args(["-c", line]).env_clear().current_dir(top);
    command
        .env("PATH", format!("{}:{path}", ours.display()))
        .env("HOME", top)
        .env("CLUSTERSHELL_CFGDIR", top)
        .env("PDSH_GENDERS_DIR", top)
        .env("PDSH_GENDERS_FILE", "genders")
        .env("SLURM_CONF", top.join("slurm.conf"));
    finish(command, b"")
}

fn words(outcome: &Outcome) -> String {
    let text = outcome.text();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn at_least_56_tasks_have_the_recorded_result() {
    assert!(TASKS.len() >= 56);
    let top = node();
    for (_, ours, expected) in TASKS {
        let outcome = shell(top.path(), ours);
        assert_eq!((outcome.code, &*outcome.stderr), (0, ""), "{ours}");
        assert_eq!(words(&outcome), *expected, "{ours}");
    }
}

/// Compares the tasks of a program with its results.
#[track_caller]
fn compare(program: &str) {
    let top = node();
    let is_of = |line: &str| line.split(['|', ' ']).any(|word| word == program);
    let tasks: Vec<_> = TASKS.iter().filter(|(theirs, ..)| is_of(theirs)).collect();
    assert!(!tasks.is_empty());
    for (theirs, _, expected) in tasks {
        let outcome = shell(top.path(), theirs);
        assert_eq!(words(&outcome), *expected, "{theirs}: {}", outcome.stderr);
    }
}

#[test]
#[ignore = "needs nodeset"]
fn lists_are_those_of_nodeset() {
    compare("nodeset");
}

#[test]
#[ignore = "needs scontrol"]
fn lists_are_those_of_scontrol() {
    compare("scontrol");
}

#[test]
#[ignore = "needs pdsh"]
fn lists_are_those_of_pdsh() {
    compare("pdsh");
}

#[test]
#[ignore = "needs nodeattr"]
fn lists_are_those_of_nodeattr() {
    compare("nodeattr");
}

/// Runs a command line that must fail. Returns its messages.
#[track_caller]
fn fault(top: &Path, line: &str) -> String {
    let outcome = shell(top, line);
    assert_eq!(outcome.text(), "", "{line}");
    assert!(matches!(outcome.code, 2 | 3), "{line}: {}", outcome.stderr);
    outcome.stderr
}

#[test]
fn groups_that_do_not_exist_are_errors() {
    let top = node();
    for (group, expected) in [
        ("@rack3", "no group `rack3` in source `local`"),
        ("@rack3", "did you mean `@rack1`?"),
        ("n1,@rack[1-3]", "no group `rack3` in source `local`"),
        ("@r1", "did you mean `@racks:r1`?"),
        ("@nowhere:a", "the sources are racks, local, site, genders"),
        ("@none*", "no group of source `local` matches `none*`"),
        ("@outside:a", "pmix runs no such commands"),
        ("@outside:a", "nodeset -f @outside:NAME"),
        ("@./hosts.txt", "cannot read ./hosts.txt: No such file"),
    ] {
        let said = fault(top.path(), &format!("pmix map count '{group}'"));
        assert!(said.contains(expected), "{group}: {said}");
    }
    assert!(!top.path().join("groups.run").exists(), "no command ran");
    let said = fault(
        top.path(),
        "CLUSTERSHELL_CFGDIR=/none pmix map count @racks:r1",
    );
    assert!(
        said.contains("no source of groups is named `racks`"),
        "{said}"
    );
    fs::write(top.path().join("compute"), "m1\n").unwrap();
    let outcome = shell(top.path(), "pmix map fold @compute");
    assert_eq!(outcome.text(), "m1");
    let expected = "@compute is a file and a group; the file is read. @local:compute is the group";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    assert_eq!(
        shell(top.path(), "pmix map fold @local:compute").text(),
        "n[1-8]"
    );
    // Neither a directory nor the file of another user takes the place of a group.
    fs::remove_file(top.path().join("compute")).unwrap();
    fs::create_dir(top.path().join("compute")).unwrap();
    assert_eq!(shell(top.path(), "pmix map fold @compute").text(), "n[1-8]");
}

#[test]
fn hostile_files_of_groups_are_bounded() {
    let top = node();
    let write = |text: &str| fs::write(top.path().join("groups"), text).unwrap();
    write("a: @b\nb: @c\nc: n1,@a\n");
    let said = fault(top.path(), "pmix map count @a");
    assert!(
        said.contains("the groups contain each other: @a > @b > @c > @a"),
        "{said}"
    );
    let chain: String = (0..100).map(|n| format!("g{n}: @g{}\n", n + 1)).collect();
    write(&chain);
    let said = fault(top.path(), "pmix map count @g0");
    assert!(
        said.contains("the groups are nested more than 64 deep, beginning with @g0"),
        "{said}"
    );
    // Each group has the one before it 16 times.
    let doubled: String = (1..60)
        .map(|n| {
            format!(
                "g{n}:{}\n",
                format!("@g{},", n - 1).repeat(15) + &format!("@g{}", n - 1)
            )
        })
        .collect();
    write(&format!("g0: n[1-3]\n{doubled}"));
    assert_eq!(shell(top.path(), "pmix map count @g59").text(), "3");
    write("a: n[1-999999999999]\n");
    assert!(fault(top.path(), "pmix map count @a").contains("limit"));
    write("a: n[1\n");
    let said = fault(top.path(), "pmix map count @a");
    assert!(said.contains("in group `a` in "), "{said}");
    fs::write(top.path().join("groups.d/racks.yaml"), "racks: [").unwrap();
    let said = fault(top.path(), "pmix map count @a");
    assert!(
        said.contains("racks.yaml: ") && said.contains("line 1"),
        "{said}"
    );
    fs::remove_file(top.path().join("groups.d/racks.yaml")).unwrap();
    let file = fs::File::create(top.path().join("groups")).unwrap();
    file.set_len(1 << 40).unwrap();
    let said = fault(top.path(), "pmix map count @a");
    assert!(said.contains("cannot read groups from"), "{said}");
}

#[test]
fn operators_without_a_list_and_notations_of_pdsh_are_errors() {
    let top = node();
    for (list, expected) in [
        ("n1!", "nothing follows the operator `!`"),
        ("!n1", "a list is missing before the operator `!`"),
        ("n1&^n2", "a list is missing before the operator `^`"),
        ("^hosts", "write @FILE as an argument of its own"),
        ("n[1-9],-/n3/", "filter names with grep"),
        ("n[1-9]!n[x]", "this is not a number"),
    ] {
        for command in ["count", "fold", "minus"] {
            let said = fault(top.path(), &format!("pmix map {command} '{list}'"));
            assert!(said.contains(expected), "{list}: {said}");
        }
    }
    let said = fault(top.path(), "pmix map count 'n1,n[1-9]!n[x]'");
    assert!(said.contains("in argument 1, byte 12\n"), "{said}");
    assert_eq!(
        shell(top.path(), "pmix map count 'n[1-4],a-b,-'").text(),
        "6"
    );
}

#[test]
fn options_of_nodeset_name_the_command_to_use() {
    let top = node();
    for (line, expected) in [
        (
            "pmix map fold -x n1 n2",
            "use pmix map minus LIST LIST, or LIST!LIST",
        ),
        (
            "pmix map count --slice=1 n2",
            "use pmix map slice PLACES LIST",
        ),
        (
            "pmix map expand -w n1",
            "use the list as an argument without an option",
        ),
        ("pmix map -f n1", "use pmix map fold LIST"),
    ] {
        let said = fault(top.path(), line);
        assert!(said.contains(expected), "{line}: {said}");
    }
}

#[test]
fn notations_of_others_are_not_silently_names() {
    let top = node();
    for (line, expected) in [
        ("pmix map count 'n*'", "`n*` is a name here, not a pattern"),
        (
            "echo @rack1 | pmix map count",
            "`@rack1` is a name here; only an argument",
        ),
        (
            "echo 'n1!n2' | pmix map count",
            "`n1!n2` is a name here; only an argument",
        ),
        (
            "pmix map convert --from slurm --to lines @rack1",
            "`@rack1` is a name for Slurm; leave out `--from slurm`",
        ),
        (
            "pmix map convert --from slurm --to hostfile 'n[1-4]!n3'",
            "`n[1-4]!n3` is a name for Slurm",
        ),
        (
            "pmix map count n1,,n2",
            "a comma of `n1,,n2` has no name beside it",
        ),
        (
            "pmix map count n1,",
            "which counts as a node with an empty name",
        ),
        (
            "pmix map count 'n<1-3>'",
            "`n<1-3>` is a name here, not a range",
        ),
        ("pmix map count 'n1;n2'", "`n1;n2` is one name here"),
        ("pmix map count n1 n1", "2 names, of which 1 are different"),
    ] {
        let outcome = shell(top.path(), line);
        assert_eq!(outcome.code, 0, "{line}");
        assert!(
            outcome.stderr.contains(expected),
            "{line}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn hostfiles_have_the_slots_of_their_source() {
    let top = node();
    let text = |line: &str| shell(top.path(), line).text();
    assert_eq!(
        text("pmix map convert --to hostfile 'n[1-2],n1'"),
        "n1 slots=2\nn2"
    );
    let slurm = "SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' pmix map convert --to hostfile slurm:";
    assert_eq!(text(slurm), "n1 slots=2\nn2 slots=2");
    fs::write(top.path().join("slots"), "n1:2\nn2\nn1 slots=3\n").unwrap();
    let hosts = "pmix map convert --to hostfile hostfile:slots";
    assert_eq!(text(hosts), "n1 slots=5\nn2 slots=1");
    assert_eq!(
        text(&format!(
            "{hosts} | pmix map convert --to hostfile hostfile:-"
        )),
        text(hosts)
    );
    let said = fault(top.path(), "pmix map convert --to hostfile --procs '0;1'");
    assert!(
        said.contains("a hostfile has names of nodes, not ranks"),
        "{said}"
    );
}

#[test]
#[ignore = "needs root"]
fn a_file_that_the_user_may_not_read_leaves_out_its_groups_alone() {
    let top = node();
    let secret = top.path().join("groups.d/secret.yaml");
    fs::write(&secret, "secret:\n  a: n1\n").unwrap();
    for (path, mode) in [(top.path(), 0o755), (&*secret, 0o600)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    // The target directory may be out of the reach of another user.
    let program = top.path().join("pmix");
    fs::copy(env!("CARGO_BIN_EXE_pmix"), &program).unwrap();
    let other = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let outcome = shell(top.path(), &format!("{other} ./pmix map fold @rack1"));
    assert_eq!(outcome.text(), "n[1-4]", "{}", outcome.stderr);
    let expected = "secret.yaml: Permission denied (os error 13); its groups are left out";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
}

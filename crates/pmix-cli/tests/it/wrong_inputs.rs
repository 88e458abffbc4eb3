// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wrong inputs of all commands: each message says what is wrong, where, and what to do.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::command::{Outcome, finish};
use tempfile::TempDir;

/// A command line, its exit code, a part of the message, and a part of the advice.
#[rustfmt::skip]
const WRONG: &[(&str, i32, &str, &str)] = &[
    ("pmix mpa", 2, "unrecognized subcommand 'mpa'", "did you mean `pmix map`?"),
    ("pmix rnu -n 2 hostname", 2, "unrecognized subcommand 'rnu'", "did you mean `pmix run`?"),
    ("pmix --jsno ps", 2, "unexpected argument '--jsno' found", "a similar argument exists: '--json'"),
    ("pmix map cuont n1", 2, "unrecognized subcommand 'cuont'", "did you mean `pmix map count`?"),
    ("pmix nodeset -f n1", 2, "unrecognized subcommand 'nodeset'", "use a command under `pmix map`: fold, expand,"),
    ("pmix scontrol show hostnames n1", 2, "unrecognized subcommand 'scontrol'", "use `pmix map expand LIST`"),
    ("pmix mpirun -n 2 hostname", 2, "unrecognized subcommand 'mpirun'", "use `pmix run -n N PROGRAM`"),
    ("pmix scancel 12", 2, "unrecognized subcommand 'scancel'", "use `pmix kill JOB`"),
    ("pmix map show hostnames n1", 2, "unrecognized subcommand 'show'", "use `pmix map expand LIST`"),
    ("pmix map list n1", 2, "unrecognized subcommand 'list'", "use `pmix map expand LIST` for the names"),
    ("pmix map expand -S , n1", 2, "unexpected argument '-S' found", "use pmix map convert --to list -S SEPARATOR LIST"),
    ("pmix map fold --autostep=2 n1", 2, "unexpected argument '--autostep' found", "which writes no steps"),
    ("pmix map -R n1", 2, "unexpected argument '-R' found", "names in place of bare numbers"),
    ("pmix run -n 1 ./damaged", 126, "cannot run ./damaged as rank 0: Exec format error", "the file is no program for this machine"),
    ("pmix run -np -1 hostname", 2, "invalid value '-1' for '--num-procs <N>'", "expected a number of processes"),
    ("pmix map count 'n[1-'", 3, "this bracket is never closed", "a bracket list looks like n[001-128,200] or"),
    ("pmix map count 'n[1-x]'", 3, "this is not a number", "brackets hold numbers and ranges: n[1-4,7],"),
    ("pmix map count 'n[5-3]'", 3, "the range runs backwards", "put the smaller number first; for descending"),
    ("pmix map count 'n[1-3/0]'", 3, "a step of 0 never ends", "brackets hold numbers and ranges: n[1-4,7],"),
    ("pmix map count 'n[]'", 3, "the brackets are empty", "brackets hold numbers and ranges: n[1-4,7],"),
    ("pmix map count 'n1]'", 3, "this bracket was never opened", "a bracket list looks like n[001-128,200] or"),
    ("pmix map count 'n[1-010]'", 3, "only the end of the range has leading zeros", "write n[001-010] for three digits, n[1-10] f"),
    ("pmix map count 'n[1-99999999999999999999]'", 3, "the number has more than 18 digits", "move the leading digits in front of the brac"),
    ("pmix map count 'n[1-999999999999]'", 3, "more than 16777216 nodes; raise preg_base_max_nodes if this is meant", "the limits are parameters: see `pmix info --"),
    ("pmix map count @nowhere/hosts", 3, "cannot read nowhere/hosts: No such file or directory", "check the path, which begins at the current"),
    ("pmix map count @dir", 3, "cannot read dir: Is a directory", "name a file in the directory"),
    ("pmix map count 'n1!'", 3, "nothing follows the operator `!`", "operators are between two lists: n[1-8]!n3 w"),
    ("pmix map count '^hosts'", 3, "`^FILE` is a file of nodes for pdsh, and `^` is an operator between tw", "write @FILE as an argument of its own"),
    ("pmix map count - -", 2, "standard input can be read only once", "write one input to a file, and use @FILE"),
    ("pmix map decode hex:6x", 3, "not a hexadecimal digit", "a byte has two digits of 0-9 and a-f"),
    ("pmix map decode 'pmix[n[3:1-1x8]]'", 3, "native: expected `,`, `-` or `]` after the number", "`pmix map explain VALUE` shows the value byt"),
    ("pmix map convert n1", 2, "the following required arguments were not provided:", "Usage: pmix map convert --to <FORMAT> <I"),
    ("pmix map convert --to slurmm n1", 2, "invalid value 'slurmm' for '--to <FORMAT>'", "a similar value exists: 'slurm'"),
    ("pmix map convert --to list -O name n1", 2, "invalid value 'name' for '--output-format <FORMAT>': expected %s for t", "expected %s for the name, as in %s-ib"),
    ("pmix map convert --to slurm -S : n1", 2, "--separator is for --to list", "add --to list"),
    ("pmix map convert --to hostfile --procs '0;1'", 2, "a hostfile has names of nodes, not ranks", "leave out --procs, or use --to list"),
    ("pmix map nth x n1", 2, "invalid value 'x' for '<INDEX>': expected a position, counted from zer", "expected a position, counted from zero, or f"),
    ("pmix map split 0 n1", 2, "invalid value '0' for '<N>': expected a number of at least 1", "expected a number of at least 1"),
    ("pmix map split -1 n1", 2, "unexpected argument '-1' found", "to pass '-1' as a value, use '-- -1'"),
    ("pmix map slice 1-x n1", 2, "not a position in a list", "a position is a number or a range, counted f"),
    ("pmix map slice 5 n1", 1, "no element 5: the list has 1", "positions are counted from zero; `pmix map c"),
    ("pmix map fold -x n1 n2", 2, "unexpected argument '-x' found", "for -x of nodeset or pdsh, use pmix map minu"),
    ("pmix map verify --nodes n1 --procs 'a'", 3, r#"expected a rank (0 to 4294967245), found "a""#, "a process map looks like 0-3;4-7: ranks sepa"),
    ("pmix map where x --nodes n1 --procs 0", 2, r#"expected a rank (0 to 4294967245), found "x""#, "a rank is a number or a range: 3, 8-15"),
    ("pmix map where 9 --nodes n1 --procs 0", 1, "rank 9 is on no node", "`pmix map draw` with the same maps shows all"),
    ("pmix map where 0 --nodes 'n[1-2]' --ppn 2,x", 2, "`x` is not a number of slots", "for example --ppn 16, or --ppn '2(x3),1'"),
    ("pmix map where 0 --nodes 'n[1-2]' --ppn 2,3,4", 2, "--ppn describes 3 nodes, but the node map has 2", "give one number for all nodes, or one for ea"),
    ("pmix map where 0 --nodes 'n[1-2]' --ppn 2 --layout snake", 2, "invalid value 'snake' for '--layout <ORDER>': expected block, cyclic o", "expected block, cyclic or plane=N"),
    ("pmix map who n9 --nodes n1 --ppn 1", 1, "node n9 is not in the node map", "`pmix map draw` with the same maps shows all"),
    ("pmix map draw --nodes hostfile:badhosts", 3, "`slots=x` has no number", "a line of a hostfile is n1, n1:4 or n1 slots"),
    ("pmix map count slurm:", 2, "the variable SLURM_JOB_NODELIST is not set", "a resource manager sets it within a job"),
    ("pmix map count hostfile:nowhere", 3, "cannot read nowhere: No such file or directory", "check the path, which begins at the current"),
    ("pmix map draw --nodes 'n1 slots=4294967296'", 3, "`slots=4294967296` has a number that exceeds 4294967295", "a line of a hostfile is n1, n1:4 or n1 slots"),
    ("pmix get --nodes n1 --procs 0 JOB_SIEZ", 1, "JOB_SIEZ is unknown at job level of job", "did you mean PMIX_JOB_SIZE?"),
    ("pmix get JOB_SIZE", 2, "no job is given", "give --nodes and --procs, or --job with a fi"),
    ("pmix get --nodes n1 --ppn 1 --rank 7 HOSTNAME", 1, "the job has no rank 7: it has 1", "--all prints all known values; --rank, --nod"),
    ("pmix get --job bad.json JOB_SIZE", 3, "not a valid job: EOF while parsing a value at line 1 column 5", r#"a job is {"nspace":…,"info":[{"key":…,"type""#),
    ("pmix get --job nowhere JOB_SIZE", 3, "cannot read nowhere: No such file or directory", "check the path, which begins at the current"),
    ("pmix get --nodes n1 --ppn 1 --node n7 --all", 1, "no values", "`pmix get --all` without --rank, --node and"),
    ("pmix run -n x hostname", 2, "invalid value 'x' for '--num-procs <N>': expected a number of processe", "expected a number of processes up to 4294967"),
    ("pmix run -n 0 hostname", 2, "there are no processes to start: give -n N with a number above 0", "give -n N with a number above 0"),
    ("pmix run -n -1 hostname", 2, "invalid value '-1' for '--num-procs <N>'", "as in -n 4"),
    ("pmix run -n 99999999999 hostname", 2, "invalid value '99999999999' for '--num-procs <N>': expected a number o", "expected a number of processes up to 4294967"),
    ("pmix run -n 2 no-such-program", 127, "cannot run no-such-program: No such file or directory", "give the path of the program, or add its dir"),
    ("pmix run -n 2 ./dir", 126, "cannot run ./dir: Permission denied", "a program is a file, not a directory, whose"),
    ("pmix run -n 2 ./empty", 126, "cannot run ./empty: Permission denied", "a program is a file, not a directory, whose"),
    ("pmix run -n 1 --map-by cores hostname", 2, r#"invalid value 'cores' for '--map-by <PART>': unknown part of a node "c"#, "expected for example slot, core or package"),
    ("pmix run -n 1 --bind-to nothing hostname", 2, "invalid value 'nothing' for '--bind-to <PART>'", "[possible values: none, package, numa, l3cache,"),
    ("pmix run -n 1 --timeout soon hostname", 2, "invalid value 'soon' for '--timeout <SECONDS>': expected a number of s", "expected a number of seconds"),
    ("pmix run -n 1 --hostfile nowhere hostname", 2, "cannot read nowhere: No such file or directory", "give the path of a file with a node on each"),
    ("pmix run -n 1 --hostfile badhosts hostname", 2, "`slots=x` has no number", "a line of a hostfile is n1, n1:4 or n1 slots"),
    ("pmix run -n 1 --hostfile dir hostname", 2, "cannot read dir: it is a directory", "give the path of a file with a node on each"),
    ("pmix run -n 1 --wdir /no/such/dir hostname", 2, "cannot start in /no/such/dir (--wdir needs a directory that this user", "--wdir needs a directory that this user can"),
    ("pmix run -n 1 --nope hostname", 2, "unexpected argument '--nope' found", "Usage: pmix run"),
    ("pmix run -n 1 --cpu-set 0-9999 hostname", 2, "of the list 0-9999 for --cpu-set are not available", "name only processors in "),
    ("pmix run -np 2 hostname : -n", 2, "after `:`: a value is required for '--num-procs <N>' but none was supp", "expected after `:`: [-n N] [-x VAR[=VALUE]]"),
    ("pmix run 4 hostname", 127, "cannot run 4: No such file or directory", "use -n for the number of processes: `pmix ru"),
    ("pmix run -n 1 ''", 126, "cannot run : Permission denied", "the name of the program is empty: give a pro"),
    ("pmix run -n 1 --host '' hostname", 2, "`` is not a name of a node", "name this node, for example --host localhost"),
    ("pmix run -n 1 --mca pmix hostname", 2, "the following required arguments were not provided:", "Usage: pmix run --num-procs <N> --mca <N"),
    ("pmix run -n 1 --procs '0;1' --nodes n1 hostname", 2, "the node map has 1 nodes, the process map 2", "`pmix map verify` checks the maps"),
    ("pmix --config nowhere.toml map count n1", 2, "nowhere.toml: No such file or directory", "`pmix info` shows every parameter and the so"),
    ("pmix --config bad.toml map count n1", 2, r#"bad.toml:2: preg.native.enabled = "perhaps": expected true or false"#, "`pmix info` shows every parameter"),
    ("pmix --mca preg nosuch map encode n1", 2, r#"command line (--mca): preg names the unknown component "nosuch"; known"#, "`pmix info` shows every parameter and the so"),
    ("pmix --mca preg_base_max_nodes many map count n1", 2, r#"command line (--mca): preg_base_max_nodes = "many": expected a number"#, "`pmix info` shows every parameter and the so"),
    ("pmix --color pink map count n1", 2, "invalid value 'pink' for '--color <WHEN>'", "[possible values: auto, never, always"),
    ("pmix ps nosuchjob", 1, r#"no server has a job "nosuchjob"; it may have ended: no server has a re"#, "start a job, for example with `pmix run -n 2"),
    ("pmix ps --pid 1", 1, "process 1 has no rendezvous file below", "start a job, for example with `pmix run -n 2"),
    ("pmix ps --pid x", 2, "invalid value 'x' for '--pid <PID>': expected a whole number", "expected a whole number"),
    ("pmix ps --uri nonsense", 1, r#""nonsense" is not the address of a server: no `;` (PMIX_ERR_BAD_PARAM"#, "select one with --pid N or --server NAME; `p"),
    ("pmix ps --file nowhere", 1, "nowhere: no such file (PMIX_ERR_UNREACH (-25))", "start a job, for example with `pmix run -n 2"),
    ("pmix ps --server absent", 1, "no server absent has a rendezvous file below", "start a job, for example with `pmix run -n 2"),
    ("pmix kill nosuchjob", 1, r#"no server has a job "nosuchjob"; it may have ended: no server has a re"#, "start a job, for example with `pmix run -n 2"),
    ("pmix kill --signal SIGNOPE job", 2, "invalid value 'SIGNOPE' for '--signal <SIGNAL>': expected the name or", "expected the name or the number of a signal,"),
    ("pmix kill --signal 999 job", 2, "invalid value '999' for '--signal <SIGNAL>': expected the name or the", "expected the name or the number of a signal,"),
    ("pmix kill --ranks x job", 2, r#"invalid value 'x' for '--ranks <RANKS>': "x" is not a rank; expected n"#, "expected numbers and ranges, such as 0,2-4"),
    ("pmix kill --kill --pause job", 2, "the argument '--kill' cannot be used with '--pause'", "Usage: pmix kill --kill <NSPACE>"),
    ("pmix query NO_SUCH_KEY", 1, "no server has a rendezvous file in or below", "start a job, for example with `pmix run -n 2"),
    ("pmix query --rank 1 JOB_SIZE", 2, "the following required arguments were not provided:", "Usage: pmix query --nspace <NAME> --rank"),
    ("pmix query --with =x JOB_SIZE", 1, "no server has a rendezvous file in or below", "start a job, for example with `pmix run -n 2"),
    ("pmix top --interval 0", 2, "invalid value '0' for '--interval <SECONDS>': expected a time above 0", "expected a time above 0"),
    ("pmix top --sort size", 2, "invalid value 'size' for '--sort <BY>'", "[possible values: cpu, time, memory, rank"),
    ("pmix events --code NO_SUCH", 2, "invalid value 'NO_SUCH' for '--code <STATUS>': expected the name or th", "expected the name or the number of a status;"),
    ("pmix events --count x", 2, "invalid value 'x' for '--count <N>': expected a whole number", "expected a whole number"),
    ("pmix attach --stream all job", 2, "invalid value 'all' for '--stream <STREAM>'", "[possible values: stdout, stderr, both"),
    ("pmix release nosuchjob", 1, r#"no server has a job "nosuchjob"; it may have ended: no server has a re"#, "start a job, for example with `pmix run -n 2"),
    ("pmix publish novalue", 2, "novalue: expected KEY=TEXT", "expected KEY=TEXT"),
    ("pmix publish =x", 2, "=x: expected KEY=TEXT", "expected KEY=TEXT"),
    ("pmix lookup nokey", 1, "no server has a rendezvous file in or below", "start a job, for example with `pmix run -n 2"),
    ("pmix attr NO_SUCH_ATTRIBUTE", 1, r#"no attribute matches "NO_SUCH_ATTRIBUTE""#, "part of a name is enough; `*` matches any ch"),
    ("pmix status NO_SUCH_STATUS", 1, r#"no status matches "NO_SUCH_STATUS""#, "part of a name is enough; `*` matches any ch"),
    ("pmix status 99999999999999", 1, r#"no status matches "99999999999999""#, "part of a name is enough; `*` matches any ch"),
    ("pmix info --param nosuch", 2, r#"unknown framework "nosuch""#, "known frameworks: gds, pcompress, preg, psec"),
    ("pmix info nosuch", 1, "no parameter matches nosuch", "`pmix info` without a pattern shows all para"),
    ("pmix plugins check nowhere.so", 1, "nowhere.so: cannot be read: No such file or directory", "see pmix_plugin.h for the symbols that a plu"),
    ("pmix plugins check empty", 1, "empty: is not a shared library: the file is empty", "see pmix_plugin.h for the symbols that a plu"),
    ("pmix plugins lsit", 2, "unrecognized subcommand 'lsit'", "a similar subcommand exists: 'list'"),
    ("pmix wire encode --type uint8 '[300]'", 3, "value[0]: 300 does not fit PMIX_UINT8 (0 to 255)", "pmix-json(7) describes every type"),
    ("pmix wire encode --type uint8 '[x'", 3, "expected value at line 1 column 2", "pmix-json(7) describes every type"),
    ("pmix wire decode --module v99 --type string --hex 00", 2, r#"invalid value 'v99' for '--module <NAME>': unknown module "v99", expec"#, "expected one of v12, v20, v21, v3, v4, v41,"),
    ("pmix completions tcsh", 2, "invalid value 'tcsh' for '[SHELL]'", "a similar value exists: 'zsh'"),
    ("pmix doctor --timeout never", 2, "invalid value 'never' for '--timeout <SECONDS>': expected a number of", "expected a number of seconds"),
    ("pmix hello --bytes lots", 2, "invalid value 'lots' for '--bytes <N>': expected a whole number", "expected a whole number"),
    ("pmix hello", 2, "this process was not started by a PMIx launcher: PMIX_NAMESPACE or PMI", "start it with a launcher, for example `pmix"),
    ("pmix map decode 'blob:x'", 3, "it begins like a value of scheme compress, but is not one", "`pmix map explain VALUE` shows the value"),
    ("pmix map decode --type nope 00", 3, "no scheme reads type \"nope\"", "`pmix plugins list` the schemes"),
    ("pmix kill --ranks 5-1 job", 2, "invalid range 5-1: its start is above its end", "expected the smaller number first"),
    ("pmix man empty", 2, "empty is not a directory, and the manual pages need one", "name another directory"),
    ("pmix run -n 1 --output-dir empty hostname", 2, "cannot make the directory empty for output files", "name a directory, not a file"),
    ("pmix run -n 2 --map-by ppr:1:node hostname", 2, "2 processes with 1 on each node need more than the 1 that is", "a larger one for ppr:N:PART, or `--oversubscribe`"),
    ("pmix run -n 1 --map-by core:pe=9999 hostname", 2, "9999 cores were requested for each process, but only", "use a smaller number for -n, pe=N"),
    ("pmix run --cpus-per-rank 9999 hostname", 2, "9999 cores were requested for each process, but only", "use a smaller number for -n, pe=N"),
    ("pmix run -n 9999 --map-by core:pe=1 hostname", 2, "9999 processes with 1 core each need more than the", "or `--oversubscribe` to let processes share"),
    ("pmix run -n 3 --host localhost:2 --map-by :NOOVERSUBSCRIBE hostname", 2, "3 processes were requested, but there are only 2 slots", "use -n 2 or less, or `--oversubscribe`"),
    ("pmix run -n 9999 --nooversubscribe hostname", 2, "9999 processes were requested, but there", "or less, or `--oversubscribe`"),
    ("pmix info --al", 2, "unexpected argument '--al' found", "a similar argument exists: '--all'"),
    ("pmix info --parsable", 2, "unexpected argument '--parsable' found", "use `pmix --json info`"),
    ("pmix map diff n1 n2", 2, "unexpected argument 'n1' found", "pmix map diff --nodes OLD --new-nodes NEW"),
    ("pmix map verify n1", 2, "unexpected argument 'n1' found", "pmix map verify --nodes NODES --procs PROCS"),
    ("pmix map batch requests", 2, "unexpected argument 'requests' found", "pmix map batch < FILE"),
    ("pmix map first n1", 2, "unrecognized subcommand 'first'", "`pmix map --help` lists the commands"),
    ("pmix ps j1 j2", 2, "unexpected argument 'j2' found", "name one job, or none for all jobs"),
    ("pmix attach j1 j2", 2, "unexpected argument 'j2' found", "`pmix ps` lists the jobs"),
    ("pmix kill -9 job", 2, "unexpected argument '-9' found", "use `--signal 9`"),
    ("pmix kill -KILL job", 2, "unexpected argument", "use `--signal KILL`"),
    ("pmix hello x", 2, "unexpected argument 'x' found", "`pmix run -n 4 pmix hello`"),
    ("pmix doctor a b", 2, "unexpected argument 'b' found", "name one job or program"),
    ("pmix query --colour", 2, "unexpected argument '--colour' found", "a similar argument exists: '--color'"),
    ("pmix top --everything", 2, "unexpected argument '--everything' found", "`pmix top --help` lists the options"),
    ("pmix map count --everything n1", 2, "unexpected argument '--everything' found", "`pmix map count --help` lists the options"),
    ("pmix plugins list x", 2, "unexpected argument 'x' found", "this command has options only: `pmix plugins list --help`"),
    ("pmix -n 2 hostname", 2, "unexpected argument '-n' found", "this is an option of `pmix run`: pmix run -n"),
    ("pmix --hostfile f a.out", 2, "unexpected argument '--hostfile' found", "pmix run --hostfile"),
    ("pmix hostname", 2, "unrecognized subcommand 'hostname'", "use `pmix run -n N hostname`"),
    ("pmix ./damaged", 2, "unrecognized subcommand './damaged'", "use `pmix run -n N ./damaged`"),
    ("pmix zzzzz", 2, "unrecognized subcommand 'zzzzz'", "`pmix --help` lists the commands"),
    ("pmix run -n 1 --nspace '' hostname", 2, "invalid value '' for '--nspace <NAME>'", "a job name has 1 to 248 printable characters"),
];

/// A directory with the files that the command lines name.
fn files() -> TempDir {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir(top.path().join("dir")).unwrap();
    for (name, text) in [
        ("badhosts", "n1 slots=x\n"),
        ("empty", ""),
        ("bad.json", "{\"a\":"),
        ("bad.toml", "[preg.native]\nenabled = \"perhaps\"\n"),
    ] {
        fs::write(top.path().join(name), text).unwrap();
    }
    let damaged = top.path().join("damaged");
    fs::write(&damaged, "\x7fELF and no more").unwrap();
    fs::set_permissions(&damaged, fs::Permissions::from_mode(0o755)).unwrap();
    top
}

fn prepared(top: &Path, program: &str) -> Command {
    let ours = Path::new(env!("CARGO_BIN_EXE_pmix")).parent().unwrap();
    let mut command = Command::new(program);
    command.env_clear().current_dir(top);
    command
        .env("PATH", format!("{}:/usr/bin:/bin", ours.display()))
        .env("HOME", top)
        .env("TMPDIR", top.join("dir"))
        .env("PMIX_PLUGINS", "none")
        .env("CLUSTERSHELL_CFGDIR", "/none");
    command
}

fn shell(top: &Path, line: &str) -> Outcome {
    let mut command = prepared(top, "sh");
    command.args(["-c", line]);
    finish(command, b"")
}

/// The commands that have others below them, and those of the table whose names are in messages of others.
const COMMANDS: &[&str] = &[
    "map", "run", "get", "ps", "kill", "query", "wire", "info", "plugins",
];

/// Returns `true` if the message has a position, or names a word of the command line other than its command.
fn names_place(line: &str, message: &str) -> bool {
    let message = message.to_lowercase();
    let said: Vec<_> = message
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .collect();
    let lower = line.to_lowercase();
    let words = lower.split([' ', '\'', '@', ':', '[', ']']).skip(1);
    let mut words = words.filter(|word| !COMMANDS.contains(word));
    let is_said = |word: &str| match word.len() {
        0 => false,
        1 => said.contains(&word),
        _ => message.contains(word),
    };
    message.contains("\n  in ") || words.any(is_said)
}

#[test]
fn at_least_90_wrong_inputs_are_answered_with_what_where_and_what_to_do() {
    assert!(WRONG.len() >= 90);
    let top = files();
    let mut without_place = Vec::new();
    for (line, code, what, advice) in WRONG {
        let Outcome {
            code: found,
            stderr,
            ..
        } = shell(top.path(), line);
        assert_eq!(found, *code, "{line}: {stderr}");
        assert!(stderr.contains(what), "{line}: {what:?} is not in {stderr}");
        assert!(
            stderr.contains(advice),
            "{line}: {advice:?} is not in {stderr}"
        );
        assert!(!stderr.contains("panicked"), "{line}: {stderr}");
        let is_label = |text: &&str| text.starts_with("error:") || text.starts_with("pmix run: ");
        let number = stderr.lines().filter(is_label).count();
        assert_eq!(number, 1, "{line}: one message, not {stderr}");
        if !names_place(line, &stderr) {
            without_place.push(*line);
        }
    }
    // A message about the whole command names no part of it.
    let most = WRONG.len() / 18;
    assert!(without_place.len() <= most, "{without_place:#?}");
}

#[test]
fn words_that_are_not_utf8_are_named_or_used() {
    let top = files();
    let word = OsStr::from_bytes(b"n\xff[");
    for before in [
        &["map", "count"][..],
        &["map", "fold"],
        &["map", "position", "n1"],
        &["map", "slice"],
        &["map", "draw", "--nodes"],
        &["get", "--job"],
        &["get", "--nodes"],
        &["run"],
        &["run", "--hostfile"],
        &["kill"],
        &["ps"],
        &["attr"],
        &["query"],
        &["wire", "decode", "--hex"],
        &["plugins", "check"],
        &["--config"],
    ] {
        let mut command = prepared(top.path(), env!("CARGO_BIN_EXE_pmix"));
        command.args(before).arg(word);
        let outcome = finish(command, b"");
        let said = &outcome.stderr;
        assert!(
            matches!(outcome.code, 1..=3 | 126 | 127),
            "{before:?}: {} {said}",
            outcome.code
        );
        assert!(
            !said.is_empty() && !said.contains("panicked"),
            "{before:?}: {said}"
        );
    }
}

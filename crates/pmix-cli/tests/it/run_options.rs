// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every option of other launchers in docs/launchers.md, typed on a command line.

use std::fs;
use std::path::Path;

use crate::command::{Outcome, finish, launcher};

/// An option of another launcher, as docs/launchers.md lists it.
struct Listed {
    name: String,
    from: Vec<String>,
    /// The advice, for an option that is refused.
    advice: Option<String>,
}

/// Returns the options of docs/launchers.md, which is generated from the table of the parser.
fn listed() -> Vec<Listed> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/launchers.md");
    let page = fs::read_to_string(page).unwrap().replace("\\|", "\u{0}");
    let mut listed = Vec::new();
    for line in page.lines() {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, from, handling] = cells[..] else {
            continue;
        };
        let advice = handling.strip_prefix("refused: ");
        if advice.is_none() && !handling.starts_with("accepted: ") {
            continue;
        }
        let names = names.split(", ").map(|name| name.trim_matches('`'));
        listed.extend(names.map(|name| Listed {
            name: name.to_owned(),
            from: from.split(", ").map(str::to_owned).collect(),
            advice: advice.map(|advice| advice.replace('\u{0}', "|")),
        }));
    }
    listed
}

/// The words after an accepted option that has values.
const VALUES: &[(&[&str], &[&str])] = &[
    (&["-n", "-np", "--np", "--n", "--ntasks", "--pes"], &["1"]),
    (
        &["--host", "-host", "-H", "--hosts", "-hosts"],
        &["localhost"],
    ),
    (&["--hostfile", "--machinefile"], &["hosts"]),
    (&["--map-by", "--bind-to"], &["core"]),
    (&["--rank-by"], &["slot"]),
    (
        &["--cpus-per-task", "--cpus-per-proc", "--cpus-per-rank"],
        &["1"],
    ),
    (&["--display"], &["map"]),
    (&["--output-filename"], &["out"]),
    (&["--stdin"], &["none"]),
    (&["-x", "--export"], &["A=1"]),
    (&["-genv"], &["A", "1"]),
    (&["-D", "--wdir", "--wd", "--chdir"], &["."]),
    (&["--timeout"], &["60"]),
    (&["--max-restarts"], &["0"]),
    (&["--mca"], &["btl", "self"]),
];

/// Returns the words after an accepted option.
fn values(name: &str) -> Vec<String> {
    if ["--cpu-set", "--cpu-list"].contains(&name) {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let mut lines = status.lines();
        let allowed = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        return vec![allowed.unwrap().trim().to_owned()];
    }
    let listed = VALUES.iter().find(|(names, _)| names.contains(&name));
    let values = listed.map_or(&[][..], |(_, values)| values);
    values.iter().map(|&value| value.to_owned()).collect()
}

/// Runs a program after an option, in a directory with a hostfile.
fn run_with(option: &str, values: &[&str]) -> Outcome {
    let program = ["sh", "-c", "echo ran"];
    let words = [&[option], values, &program].concat();
    let (mut command, tmp) = launcher(&words);
    let dir = tmp.path().join("work");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("hosts"), "localhost slots=1\n").unwrap();
    finish(
        {
            command.current_dir(&dir);
            command
        },
        b"",
    )
}

// An accepted option runs the program. The message about a refused option has the option as it was typed, and the advice
// of the page.
#[test]
fn at_least_230_options_of_launchers_are_accepted_or_refused_by_name_with_advice() {
    let listed = listed();
    for launcher in [
        "mpirun 4", "mpirun 5", "srun", "Hydra", "aprun", "PALS", "jsrun", "flux run",
    ] {
        let of_launcher = |option: &&Listed| option.from.iter().any(|from| from == launcher);
        assert!(
            listed.iter().any(|option| of_launcher(&option)),
            "{launcher}"
        );
    }
    assert!(listed.len() >= 230, "{} options", listed.len());
    let (mut num_accepted, mut num_refused) = (0, 0);
    for Listed { name, advice, .. } in &listed {
        let values = values(name);
        let values: Vec<_> = values.iter().map(String::as_str).collect();
        let outcome = run_with(name, &values);
        let said = &outcome.stderr;
        assert!(!said.contains("panicked"), "{name}: {said}");
        match advice {
            None => {
                num_accepted += 1;
                assert_eq!(outcome.code, 0, "{name}: {said}");
                let in_file = name == "--output-filename";
                assert_eq!(outcome.text().contains("ran"), !in_file, "{name}: {said}");
            }
            Some(advice) => {
                num_refused += 1;
                assert_eq!(outcome.code, 2, "{name}: {said}");
                assert_eq!(outcome.text(), "", "{name}");
                assert_says(name, said, advice);
            }
        }
    }
    assert!(
        num_accepted >= 40 && num_refused >= 190,
        "{num_accepted} and {num_refused}"
    );
}

/// Asserts that a message names the option as it was typed, and has the advice.
fn assert_says(name: &str, said: &str, advice: &str) {
    let first = said.lines().next().unwrap_or_default();
    let typed = [format!("'{name}'"), format!("{name} "), format!("'{name} ")];
    assert!(
        first.starts_with("error: ") && typed.iter().any(|typed| first.contains(typed)),
        "{name} is not named: {said}"
    );
    assert!(said.contains(advice), "{name}: {advice:?} is not in {said}");
}

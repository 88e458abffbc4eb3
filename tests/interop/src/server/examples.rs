// SPDX-License-Identifier: MIT OR Apache-2.0
//! The unmodified example programs of libpmix-dev. They always exit with 0, so their output is checked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::case::{Case, Judge};
use super::launcher::Launcher;
use super::programs::home;
use crate::peers::{Library, package_files};
use xtask::process;

/// A phrase, and how often it appears for a job of a given size.
type Phrase = (&'static str, fn(usize) -> usize);

/// An example: its expected output for a job of a given size, and its output on failure.
struct Example {
    name: &'static str,
    says: &'static [Phrase],
    never: &'static [&'static str],
}

fn once(_: usize) -> usize {
    1
}

fn three(_: usize) -> usize {
    3
}

fn each(size: usize) -> usize {
    size
}

fn each_but_one(size: usize) -> usize {
    size - 1
}

fn each_pair(size: usize) -> usize {
    size * size
}

const FINALIZED: &str = "PMIx_Finalize successfully completed";
const FAULTS: &[&str] = &["failed", "FAILED", "wrong"];

const EXAMPLES: &[Example] = &[
    Example {
        name: "hello",
        says: &[(FINALIZED, each), ("Query returned", each)],
        never: FAULTS,
    },
    Example {
        name: "client",
        says: &[(FINALIZED, each), ("returned correct", each_pair)],
        never: FAULTS,
    },
    Example {
        name: "client2",
        says: &[(FINALIZED, each)],
        never: FAULTS,
    },
    Example {
        name: "dmodex",
        says: &[(FINALIZED, once)],
        never: FAULTS,
    },
    Example {
        name: "pub",
        says: PUBLISHES,
        never: FAULTS,
    },
    Example {
        name: "pubi",
        says: PUBLISHES,
        never: FAULTS,
    },
    Example {
        name: "jctrl",
        says: &[(FINALIZED, each)],
        never: FAULTS,
    },
    // This example gets fabric coordinates twice, which are not available.
    Example {
        name: "nodeinfo",
        says: &[
            (FINALIZED, each),
            (" is on host ", each),
            ("Host list", once),
            ("PMIx_Get coordinates for rank", each),
            ("PMIx_Get coordinates with directive", each),
        ],
        never: &["PMIx_Get hostname", "node list failed", "job size failed"],
    },
    // This example spawns a program that does not exist.
    Example {
        name: "dynamic",
        says: &[(FINALIZED, each), ("PMIx_Spawn failed: -190", once)],
        never: &["PMIx_Fence failed", "PMIx_Get job size failed"],
    },
    // Ranks 0, 2 and 3 form the group.
    Example {
        name: "group",
        says: &[
            (FINALIZED, each),
            ("Group construct complete with status", three),
            ("executing Group_destruct", three),
        ],
        never: FAULTS,
    },
    Example {
        name: "group_dmodex",
        says: &[
            (" COMPLETE", each),
            ("Group construct complete with status", each),
        ],
        never: FAULTS,
    },
    Example {
        name: "group_lcl_cid",
        says: &[(" COMPLETE", each), ("SUCCESS value", each_pair)],
        never: FAULTS,
    },
    Example {
        name: "asyncgroup",
        says: &[
            (FINALIZED, each),
            ("Group invite complete with status", once),
            // Some releases print the prefix of the name, others do not.
            ("SUCCESS!", once),
            ("Executing Group_destruct", three),
        ],
        never: FAULTS,
    },
    // Each process gets the size of its job, which its arguments state.
    Example {
        name: "tool",
        says: &[("JOB SIZE FOR NSPACE ", each), (": 4\n", each)],
        never: FAULTS,
    },
    Example {
        name: "abi_no_init",
        says: &[("ABI (Stable)", each)],
        never: &["failed"],
    },
];

const PUBLISHES: &[Phrase] = &[
    (FINALIZED, each),
    ("PUBLISH-LOOKUP SUCCEEDED", each_but_one),
    ("UNPUBLISH SUCCEEDED", once),
];

/// Returns the job sizes of an example.
fn sizes(name: &str) -> &'static [u32] {
    match name.contains("group") {
        true => &[4, 8],
        false => &[4],
    }
}

/// Returns the reason why an example proves nothing about a launcher, if any.
fn left_out(name: &str, release: &str, launcher: &Launcher) -> Option<&'static str> {
    match (name, launcher) {
        ("abi_no_init", _) if release.starts_with("5.") => {
            Some("the library of 5.0 answers nothing before it is initialised")
        }
        ("group_lcl_cid", _) if release.starts_with("5.") => {
            Some("it takes the first result for the context id, which 5.0 gives after the name")
        }
        ("asyncgroup", _) if release.starts_with("5.") => {
            Some("the library of 5.0 cannot destruct a group that was formed by invitation")
        }
        (name, Launcher::Prterun(..)) if name.contains("group") => {
            Some("prterun does not serve it")
        }
        ("dynamic", Launcher::Host(..)) => Some("the host does not spawn"),
        ("tool", Launcher::Host(..)) => {
            Some("the host says nothing of job sizes to who queries them")
        }
        ("tool", Launcher::Prterun(..)) => {
            Some("prterun does not end after processes of its own attached")
        }
        ("group_lcl_cid", Launcher::Host(_, server)) if server.starts_with("4.") => {
            Some("the server of 4.2.2 keeps no local context ids of groups")
        }
        ("group_lcl_cid", Launcher::Host(_, server)) if server.starts_with("5.") => Some(
            "a server of 5.0 keeps what members share if the host gives it back, which this one does not",
        ),
        ("jctrl", Launcher::Prterun(..)) => Some("prterun does not take it"),
        ("dynamic", Launcher::Prterun(..)) => Some("prterun does spawn"),
        _ => None,
    }
}

/// Returns every run of every example under these launchers.
///
/// # Errors
/// Returns a message if the examples are not installed, or if one does not compile.
pub(crate) fn cases(
    release: &str,
    library: &Library,
    launchers: &[Launcher],
) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for example in EXAMPLES {
        let path = compile(release, library, example.name)?;
        for launcher in launchers {
            if let Some(why) = left_out(example.name, release, launcher) {
                let (who, name) = (launcher.title(), example.name);
                println!("left out: {name} of {release} under {who}: {why}");
                continue;
            }
            for num_procs in sizes(example.name) {
                let mut command = launcher.command(*num_procs);
                if example.name == "tool" {
                    let script = r#"exec "$0" --nspace "$PMIX_NAMESPACE""#;
                    command.args(["sh", "-c", script]);
                }
                command.arg(&path);
                let size = usize::try_from(*num_procs).unwrap_or(0);
                let says = example.says.iter();
                let says = says.map(|(phrase, times)| (*phrase, times(size)));
                cases.push(Case {
                    what: format!("server: examples with {release} under {}", launcher.title()),
                    name: format!("{} on {num_procs}", example.name),
                    command,
                    limit: Duration::from_secs(30),
                    judge: Judge::Says(says.collect(), example.never),
                    is_control: launcher.is_control_for(release),
                });
            }
        }
    }
    Ok(cases)
}

/// Returns repeated runs of every example about groups. Examples that prove nothing about a launcher only have to end.
///
/// # Errors
/// Returns a message if the examples are not installed, or if one does not compile.
pub(super) fn groups(
    release: &str,
    library: &Library,
    launcher: &Launcher,
    times: usize,
) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    let examples = EXAMPLES.iter();
    for example in examples.filter(|example| example.name.contains("group")) {
        let path = compile(release, library, example.name)?;
        let why = left_out(example.name, release, launcher);
        if let Some(why) = why {
            println!("{} of {release} ends, and no more: {why}", example.name);
        }
        for num_procs in sizes(example.name) {
            let size = usize::try_from(*num_procs).unwrap_or(0);
            for run in 1..=times {
                let mut command = launcher.command(*num_procs);
                command.arg(&path);
                let says = example.says.iter();
                let says = says.map(|(phrase, times)| (*phrase, times(size)));
                cases.push(Case {
                    what: format!("server: {} of {release} on {num_procs}", example.name),
                    name: format!("run {run}"),
                    command,
                    limit: Duration::from_secs(30),
                    judge: match why {
                        None => Judge::Says(says.collect(), example.never),
                        Some(_) => Judge::Ends,
                    },
                    is_control: false,
                });
            }
        }
    }
    Ok(cases)
}

/// A script `SCRIPT PMIX PROGRAM APP` whose process drops the variables of its server and finds the launcher as the
/// system server. It spawns 128 processes of the first `app` in `PATH`.
const OF_SYSTEM: &str = r#"
dir=$(mktemp -d) || exit 1
export TMPDIR="$dir" PATH="$dir:$PATH"
printf '#!/bin/sh\necho one of $OMPI_COMM_WORLD_SIZE\n' >"$dir/app" && chmod +x "$dir/app"
"$1" run --system-server -n 1 sh -c 'unset $(env | sed -n "s/^\(PMIX_[A-Z0-9_]*\)=.*/\1/p"); exec "$0"' "$2"
echo "the launcher ends with $?"
rm -r "$dir"
"#;

/// Returns the run of the launcher example, which connects only to the system server.
///
/// # Errors
/// Returns a message if it is not installed or does not compile.
pub(crate) fn of_system(release: &str, library: &Library, pmix: &Path) -> Result<Case, String> {
    let program = compile(release, library, "launcher")?;
    let mut command = Command::new("sh");
    Launcher::clean(&mut command);
    command.args(["-c", OF_SYSTEM, "sh"]);
    command.arg(pmix).arg(program);
    let says = vec![("one of 128", 128), ("the launcher ends with 0", 1)];
    Ok(Case {
        what: format!("server: examples with {release} at the server of the system"),
        name: "launcher".to_owned(),
        command,
        limit: Duration::from_secs(60),
        judge: Judge::Says(says, &["failed", "FAILED"]),
        is_control: false,
    })
}

/// Compiles an installed example.
pub(super) fn compile(release: &str, library: &Library, name: &str) -> Result<PathBuf, String> {
    let file = format!("examples/{name}.c");
    let source = package_files(&["libpmix-dev"])
        .into_iter()
        .find(|path| path.ends_with(&file) && path.exists())
        .ok_or_else(|| format!("no {file} of libpmix-dev: is documentation left out here?"))?;
    let program = home(release)?.join(name);
    let parts = process::root().join("tests/server");
    library.compile_with(&program, &parts, &[source])?;
    Ok(program)
}

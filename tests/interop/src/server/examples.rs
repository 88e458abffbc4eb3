// SPDX-License-Identifier: MIT OR Apache-2.0
//! The example programs that libpmix-dev installs, compiled as they are. They end with 0 whatever
//! happens, so what they say is counted.

use std::path::PathBuf;
use std::time::Duration;

use super::case::{Case, Judge};
use super::launcher::Launcher;
use super::programs::home;
use crate::peers::{Library, package_files};
use xtask::process;

/// A phrase, and how often it is said in a job of so many.
type Phrase = (&'static str, fn(usize) -> usize);

/// One example: what it says, how often in a job of so many, and what it says when it fails.
struct Example {
    name: &'static str,
    says: &'static [Phrase],
    never: &'static [&'static str],
}

fn once(_: usize) -> usize {
    1
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
    // Asks twice for coordinates in a fabric that is not there.
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
    // Spawns, which is answered with not supported.
    Example {
        name: "dynamic",
        says: &[(FINALIZED, each), ("PMIx_Spawn failed: -47", once)],
        never: &["PMIx_Fence failed", "PMIx_Get job size failed"],
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

/// How many processes each has.
const SIZE: u32 = 4;

/// Why an example says nothing about a launcher.
fn left_out(name: &str, release: &str, launcher: &Launcher) -> Option<&'static str> {
    match (name, launcher) {
        ("abi_no_init", _) if release.starts_with("5.") => {
            Some("the library of 5.0 answers nothing before it is initialised")
        }
        ("client", _) if release == "ours" => Some("our C library reads no topology"),
        ("abi_no_init", _) if release == "ours" => {
            Some("our C library answers no query before it is initialised")
        }
        ("jctrl", Launcher::Prterun(..)) => Some("prterun does not take it"),
        ("dynamic", Launcher::Prterun(..)) => Some("prterun does spawn"),
        _ => None,
    }
}

/// Every run of every example under these launchers.
///
/// # Errors
/// They are not installed, or one does not compile.
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
            let mut command = launcher.command(SIZE);
            command.arg(&path);
            let size = usize::try_from(SIZE).unwrap_or(0);
            let says = example.says.iter();
            let says = says.map(|(phrase, times)| (*phrase, times(size)));
            cases.push(Case {
                what: format!("server: examples with {release} under {}", launcher.title()),
                name: example.name.to_owned(),
                command,
                limit: Duration::from_secs(30),
                judge: Judge::Says(says.collect(), example.never),
            });
        }
    }
    Ok(cases)
}

/// Compiles an example from where it is installed.
fn compile(release: &str, library: &Library, name: &str) -> Result<PathBuf, String> {
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

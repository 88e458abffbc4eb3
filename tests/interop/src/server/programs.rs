// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs of `tests/server/programs`, which check their own results.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::case::{Case, Judge};
use super::launcher::Launcher;
use crate::peers::{Library, Peer};
use xtask::install;
use xtask::process;

/// A program and its runs.
struct Program {
    source: &'static str,
    args: &'static [&'static str],
    /// The options of our launcher.
    options: &'static [&'static str],
    /// The numbers of processes.
    sizes: &'static [u32],
    judge: Judge,
    /// A function that returns the reason why a real server fails the program, given the launcher and the release of
    /// the client.
    left_out: fn(&Launcher, &str) -> Option<&'static str>,
}

fn nowhere(_: &Launcher, _: &str) -> Option<&'static str> {
    None
}

const fn program(source: &'static str, sizes: &'static [u32]) -> Program {
    Program {
        source,
        args: &[],
        options: &[],
        sizes,
        judge: Judge::Code(0),
        left_out: nowhere,
    }
}

/// Returns every program.
fn programs() -> Vec<Program> {
    vec![
        program("short", &[4]),
        program("exchange", &[1, 4, 24]),
        program("direct", &[4]),
        Program {
            args: &["16384"],
            left_out: large,
            ..program("together", &[13])
        },
        Program {
            args: &["1024"],
            left_out: large,
            ..program("together", &[81])
        },
        Program {
            left_out: refusing,
            ..program("refused", &[12])
        },
        Program {
            left_out: bringing,
            ..program("unasked", &[4, 24])
        },
        program("fences", &[4, 24]),
        program("events", &[4]),
        Program {
            args: &["default"],
            left_out: default_handlers,
            ..program("events", &[4])
        },
        Program {
            left_out: relaying,
            ..program("relayed", &[2])
        },
        program("order", &[2]),
        program("publish", &[4]),
        program("jobinfo", &[1, 4, 24]),
        Program {
            left_out: launched,
            ..program("launched", &[1, 4])
        },
        program("resolve", &[4]),
        Program {
            args: &["null"],
            left_out: resolving,
            ..program("resolve", &[4])
        },
        program("control", &[4]),
        Program {
            left_out: watching,
            ..program("watched", &[1, 4])
        },
        program("beats", &[2]),
        Program {
            judge: Judge::Says(
                vec![(
                    "queried PMIX_QUERY_QUEUE_LIST, which pmix run does not support",
                    4,
                )],
                &[],
            ),
            left_out: asking,
            ..program("asked", &[4])
        },
        Program {
            judge: Judge::Says(
                vec![(
                    " asked to allocate resources (PMIx_Allocation_request), which pmix run does not support\n",
                    2,
                )],
                &[],
            ),
            left_out: allocating,
            ..program("allocated", &[2])
        },
        Program {
            left_out: adding,
            ..program("added", &[4, 8])
        },
        Program {
            left_out: naming,
            ..program("named", &[4])
        },
        Program {
            options: &["--pset", "odd=1,3", "--pset", "low=0-2"],
            left_out: defining,
            ..program("sets", &[4])
        },
        Program {
            options: &["--report"],
            judge: Judge::Says(
                vec![
                    ("groups constructed: 1\n", 1),
                    ("ocean: members all; PMIX_ERR_TIMEOUT (-24); missing 2\n", 1),
                    ("ice: members 0-1; not destructed\n", 1),
                ],
                &[],
            ),
            left_out: reporting,
            ..program("left", &[4])
        },
        Program {
            options: &["--report", "--json"],
            judge: Judge::Says(
                vec![
                    (", restarted 2 times: exit code 0\n", 1),
                    (r#""num_restarts":2,"exit_code":0,"#, 1),
                ],
                &[],
            ),
            left_out: restarting,
            ..program("restarts", &[1])
        },
        program("tool", &[2]),
        Program {
            args: &["by-pid"],
            left_out: attaching,
            ..program("tool", &[2])
        },
        Program {
            options: &["--forward-io"],
            left_out: forwarding,
            ..program("forward", &[2, 4])
        },
        Program {
            options: &["--forward-io"],
            left_out: pulling,
            ..program("pulled", &[2])
        },
        Program {
            left_out: spawning,
            ..program("spawn", &[4])
        },
        Program {
            judge: Judge::Code(7),
            left_out: aborting,
            ..program("abort", &[4])
        },
    ]
}

fn default_handlers(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("real servers forget a default handler that is the first of all")
}

fn relaying(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let is_host = matches!(launcher, Launcher::Host(..));
    (!is_host).then_some("it has no other node to carry events to")
}

fn reporting(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("it has no report of groups")
}

fn restarting(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("the host spawns nothing, and prterun reports otherwise")
}

fn resolving(launcher: &Launcher, client: &str) -> Option<&'static str> {
    let shares = matches!(launcher, Launcher::Host(_, release) if release.starts_with("4."));
    let why = "a client of 4.2 takes no name for this node only in memory that it shares";
    (!shares && client.starts_with("4.")).then_some(why)
}

fn large(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let crashes = matches!(launcher, Launcher::Host(_, release) if release.starts_with("4."));
    crashes.then_some("a server of 4.2.2 crashes at times when so much is asked for at once")
}

fn refusing(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("real servers have other limits, or none")
}

fn bringing(launcher: &Launcher, client: &str) -> Option<&'static str> {
    match launcher {
        Launcher::Ours(_) if client != "ours" => None,
        Launcher::Ours(_) => Some("our client says how much more it is to be sent"),
        _ => Some("real servers answer what was asked for"),
    }
}

fn allocating(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("the host has nothing to allocate, and prterun refuses otherwise")
}

fn adding(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("releases before 6 add no members to groups")
}

fn naming(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("real servers find no data by the rank in a group, and end at times")
}

fn defining(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("no option of others names process sets by their ranks")
}

fn aborting(launcher: &Launcher, _: &str) -> Option<&'static str> {
    matches!(launcher, Launcher::Prterun(..)).then_some("prterun does not always end then")
}

fn watching(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("the host has no monitors and makes no credentials, prterun neither")
}

fn asking(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some("the host answers no such queries, and prterun others")
}

fn launched(launcher: &Launcher, _: &str) -> Option<&'static str> {
    match launcher {
        Launcher::Ours(_) => None,
        Launcher::Host(..) | Launcher::Example(_) => Some("the host says nothing beyond the maps"),
        Launcher::Prterun(..) => Some("prterun's PMIX_NODE_SIZE is any number at times"),
    }
}

fn forwarding(launcher: &Launcher, _: &str) -> Option<&'static str> {
    matches!(launcher, Launcher::Host(..)).then_some("the host forwards nothing")
}

fn pulling(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let ours = matches!(launcher, Launcher::Ours(_));
    (!ours).then_some(
        "the host forwards nothing, and prterun does not end after its processes attached",
    )
}

fn attaching(launcher: &Launcher, _: &str) -> Option<&'static str> {
    let why = "prterun does not end after processes of its own attached as tools";
    matches!(launcher, Launcher::Prterun(..)).then_some(why)
}

fn spawning(launcher: &Launcher, _: &str) -> Option<&'static str> {
    (!matches!(launcher, Launcher::Host(..))).then_some("it does spawn")
}

/// Compiles a file of `tests/server/programs` against a peer's library.
///
/// # Errors
/// Returns the message of the compiler.
pub fn compile(peer: &Peer, name: &str) -> Result<PathBuf, String> {
    compile_for(&peer.version, &peer.library, name)
}

/// Compiles a file of `tests/server/programs` against a library.
///
/// # Errors
/// Returns the message of the compiler.
pub fn compile_for(release: &str, library: &Library, name: &str) -> Result<PathBuf, String> {
    let source = process::root().join("tests/server/programs");
    let program = home(release)?.join(format!("own-{name}"));
    let sources = [source.join(format!("{name}.c")), source.join("check.c")];
    library.compile_with(&program, &source, &sources)?;
    Ok(program)
}

/// Returns the folder of the programs for the library of a release.
///
/// # Errors
/// Returns a message if it cannot be created.
pub fn home(release: &str) -> Result<PathBuf, String> {
    install::scratch(&format!("interop/server/{release}"))
}

/// Returns every run of every program under these launchers.
///
/// # Errors
/// Returns a message if a program does not compile.
pub fn cases(
    release: &str,
    library: &Library,
    launchers: &[Launcher],
) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for program in programs() {
        let path = compile_for(release, library, program.source)?;
        for launcher in launchers {
            if let Some(why) = (program.left_out)(launcher, release) {
                let (who, name) = (launcher.title(), program.source);
                println!("left out: {name} of {release} under {who}: {why}");
                continue;
            }
            for size in program.sizes {
                cases.push(case(&program, &path, release, launcher, *size));
            }
        }
    }
    Ok(cases)
}

fn case(program: &Program, path: &Path, release: &str, launcher: &Launcher, size: u32) -> Case {
    let mut command = launcher.command(size);
    if matches!(launcher, Launcher::Ours(_)) {
        command.args(program.options);
    }
    command.arg(path).args(program.args);
    if program.source == "jobinfo" {
        command.arg(size.to_string());
    }
    let judge = match (&program.judge, launcher) {
        // Our launcher prints the message that the process passes to `PMIx_Abort`.
        (Judge::Code(7), Launcher::Ours(_)) => Judge::CodeSaying(7, "the reason of the test"),
        (judge, _) => judge.clone(),
    };
    Case {
        what: format!("server: programs of {release} under {}", launcher.title()),
        name: format!("{} {} on {size}", program.source, program.args.join(" ")),
        command,
        limit: Duration::from_secs(30),
        judge,
        is_control: launcher.is_control_for(release),
    }
}

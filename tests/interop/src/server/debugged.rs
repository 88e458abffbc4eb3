// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs under `pmix run` that stop for a debugger until `pmix release` releases them: a program of
//! ours at each point where processes can stop, and Debian's unmodified example of a debugger. The
//! example itself releases no process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::case::{Case, Judge};
use super::launcher::Launcher;
use super::{examples, programs};
use crate::peers::Library;

/// A script that runs `pmix run ARGS...`, prints its output, and releases the job when the sign appears: `SCRIPT PMIX
/// JOB SIGN EARLY ARGS...`. It reports output that a process may write only after the release.
const SCRIPT: &str = r#"
pmix=$1 job=$2 sign=$3 early=$4
shift 4
dir=$(mktemp -d) || exit 1
export TMPDIR="$dir"
{ "$pmix" run "$@"; echo "the launcher ends with $?"; } 2>&1 |
while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
    *"$sign"*)
        early=
        "$pmix" release "$job" && echo "the job is released"
        ;;
    *"${early:-nothing is early}"*) echo "too early" ;;
    esac
done
rm -r "$dir"
"#;

/// The launcher's message when all processes of the job have stopped.
const STOPPED: &str = " for a debugger: ";

/// The points where processes stop: the option, the launcher's message, and the output of processes after the release.
const POINTS: [(&str, &str, &str); 3] = [
    (
        "--stop-on-exec",
        "is waiting before its first instruction for",
        "a process begins",
    ),
    (
        "--stop-in-init",
        "is waiting in PMIx_Init for",
        "has initialised",
    ),
    ("--stop-in-app", "is waiting in its program for", "goes on"),
];

/// Returns the runs of programs with a library.
///
/// # Errors
/// Returns a message if a program does not compile.
pub(crate) fn cases(release: &str, library: &Library, pmix: &Path) -> Result<Vec<Case>, String> {
    let program = programs::compile_for(release, library, "stopped")?;
    let case = |(option, place, early): (&'static str, &'static str, &str)| {
        let mut command = releasing(pmix, "stopped@1", STOPPED, early);
        command.args(["--nspace", "stopped@1", "-n", "4", option]);
        command.arg(&program);
        let says = vec![
            (place, 1),
            ("the job is released", 1),
            ("a process begins", 4),
            ("has initialised", 4),
            ("goes on", 4),
            ("the launcher ends with 0", 1),
        ];
        let judge = Judge::Says(says, &["too early"]);
        named(release, option, command, judge)
    };
    Ok(POINTS.into_iter().map(case).collect())
}

/// Returns the test case of a tool that has its own server and starts a launcher. The launcher
/// connects to the server of the tool. PRRTE's launchers do not forward the output of such a job.
///
/// # Errors
/// Returns a message if a program does not compile.
pub(crate) fn initiator(
    release: &str,
    library: &Library,
    launcher: &Launcher,
) -> Result<Case, String> {
    let program = programs::compile_for(release, library, "stopped")?;
    let mut command = Command::new(programs::compile_for(release, library, "initiator")?);
    Launcher::clean(&mut command);
    let job = launcher.command(4);
    command.arg(job.get_program()).args(job.get_args());
    command.arg(program);
    let mut says = vec![
        ("the launcher has connected", 1),
        ("4 processes wait", 1),
        ("the launcher has ended", 1),
    ];
    if matches!(launcher, Launcher::Ours(_)) {
        says.extend([("has initialised", 4), ("goes on", 4)]);
    }
    let name = format!("initiator of {}", launcher.title());
    Ok(named(release, &name, command, Judge::Says(says, &[])))
}

/// Returns the run of the example. It starts `client` stopped and a daemon beside it, which waits for 10 seconds and
/// exits.
///
/// # Errors
/// Returns a message if the example is not installed or does not compile.
pub(crate) fn example(release: &str, library: &Library, pmix: &Path) -> Result<Case, String> {
    for name in ["client", "debuggerd"] {
        examples::compile(release, library, name)?;
    }
    let debugger = examples::compile(release, library, "debugger")?;
    let folder = debugger.parent().map(PathBuf::from).unwrap_or_default();
    let mut command = releasing(pmix, "debugged@2", "SPAWNED DEBUGGERD", ": Running");
    command.args(["--nspace", "debugged@1", "--wdir"]);
    command.arg(folder).arg(debugger);
    let says = vec![
        ("Tool ns debugged@1 rank 0: Running", 1),
        ("Transferring", 2),
        ("I AM HERE", 1),
        ("the job is released", 1),
        ("returned correct", 4),
        ("PMIx_Finalize successfully completed", 2),
        ("the launcher ends with 0", 1),
    ];
    let judge = Judge::Says(says, &["failed", "FAILED"]);
    Ok(named(release, "debugger", command, judge))
}

/// Returns a command that runs the arguments added to it, and releases the job when the launcher reports that it has
/// stopped.
fn releasing(pmix: &Path, job: &str, sign: &str, early: &str) -> Command {
    let mut command = Command::new("sh");
    Launcher::clean(&mut command);
    command.args(["-c", SCRIPT, "sh"]).arg(pmix);
    command.args([job, sign, early]);
    command
}

fn named(release: &str, name: &str, command: Command, judge: Judge) -> Case {
    Case {
        what: format!("server: jobs of {release} that are debugged"),
        name: name.to_owned(),
        command,
        limit: Duration::from_secs(60),
        judge,
        is_control: false,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask dist --musl`: only the command, as one file without dependencies.
//!
//! Such a file cannot open libraries at run time: plugins and MUNGE's library are not supported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::Outcome;
use xtask::install;
use xtask::process::{cargo, output, root, run};

use crate::files::{copy, directory};
use crate::sbom;

use super::{bills, command_files, host, run_of, strip_command};

/// The Debian packages that this task needs, the last two for its checks.
const PACKAGES: &[&str] = &[
    "gcc",
    "libc6-dev",
    "binutils",
    "groff-base",
    "libopenmpi-dev",
    "openmpi-bin",
];

/// The compiler wrapper of Debian's Open MPI.
const MPICC: &str = "/usr/bin/mpicc.openmpi";

/// Installs the command and its manual pages into a directory and checks them there.
pub(crate) fn dist(folder: &Path, profile: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let folder = &std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    install::packages(PACKAGES);
    let target = match target() {
        Ok(target) => target,
        Err(why) => {
            outcome.check("static command", Err(why));
            return outcome;
        }
    };
    if let Err(why) = has_std(&target) {
        outcome.skip("static command", &why);
        return outcome;
    }
    let installed = installed(folder, profile, &target);
    let there = installed.is_ok();
    outcome.check("static command", installed);
    if !there {
        return outcome;
    }
    let command = folder.join("bin/pmix");
    bills(&mut outcome, folder, &[sbom::COMMAND], Ok(target));
    outcome.check("needs nothing", alone(&command));
    outcome.check("plugin", says_what_it_lacks(&command));
    match install::is_root() {
        true => outcome.check("in an empty root", empty_root(&command)),
        false => outcome.skip("in an empty root", "only root changes the root"),
    }
    outcome.check(
        "job",
        run_of(&command, &["pmix", "hello"], "4 peers replied"),
    );
    match Path::new(MPICC).exists() {
        true => outcome.check("Open MPI", open_mpi(&command)),
        false => outcome.skip("Open MPI", "there is no Open MPI of Debian"),
    }
    outcome
}

/// Returns the target triple of this machine with musl as the C library.
fn target() -> Result<String, String> {
    let host = host()?;
    match host.strip_suffix("-gnu") {
        Some(machine) => Ok(format!("{machine}-musl")),
        None if host.ends_with("-musl") => Ok(host),
        None => Err(format!("{host} has no counterpart with musl")),
    }
}

/// Installs the standard library for a target, a component of the toolchain, if it is missing.
fn has_std(target: &str) -> Result<(), String> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    let said = output(rustc.current_dir(root()))?;
    let libraries = String::from_utf8_lossy(&said).trim().to_owned();
    if Path::new(&libraries).is_dir() {
        return Ok(());
    }
    if !install::may_install() {
        return Err(format!(
            "no standard library: `rustup target add {target}`, or `--install`"
        ));
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", target]);
    let added = output(rustup.current_dir(root())).map(drop);
    added.map_err(|why| format!("rustup does not get the standard library: {why}"))
}

fn installed(folder: &Path, profile: &str, target: &str) -> Result<(), String> {
    let mut build = cargo(["build", "--locked", "--package", "pmix-cli"]);
    build.args(["--profile", profile, "--target", target]);
    run(&mut build)?;
    let built = install::target().join(target);
    let built = built.join(install::profile_folder(profile)).join("pmix");
    let command = folder.join("bin/pmix");
    copy(&built, &command, 0o755)?;
    strip_command(&command)?;
    let bytes = fs::metadata(&command).map_or(0, |found| found.len());
    println!("{}: {bytes} bytes", command.display());
    command_files(folder)
}

/// Checks that the file names no loader and no library.
fn alone(command: &Path) -> Result<(), String> {
    let said = output(Command::new("readelf").args(["-l", "-d"]).arg(command))?;
    let said = String::from_utf8_lossy(&said);
    let needs = |line: &&str| line.contains("(NEEDED)") || line.contains("interpreter");
    match said.lines().find(needs) {
        None => Ok(()),
        Some(line) => Err(format!("it needs something: {}", line.trim())),
    }
}

/// Checks that a plugin is refused because of the static command, not because of the file.
fn says_what_it_lacks(command: &Path) -> Result<(), String> {
    let mut check = Command::new(command);
    match output(check.args(["plugins", "check"]).arg(command)) {
        Err(why) if why.contains("linked statically") => Ok(()),
        said => Err(format!("it does not say why: {said:?}")),
    }
}

/// Checks that the command starts a job in a root that contains only itself and a directory for temporary files.
fn empty_root(command: &Path) -> Result<(), String> {
    let top = install::scratch("musl")?.join("root");
    // The directory is missing in the first run.
    let _ = fs::remove_dir_all(&top);
    directory(&top.join("tmp"))?;
    copy(command, &top.join("pmix"), 0o755)?;
    let mut job = Command::new("/usr/sbin/chroot");
    job.env_clear().arg(&top);
    // A single rank inherits the launcher's input. Further ranks would need /dev/null.
    let said = output(job.args(["/pmix", "run", "-n", "1", "/pmix", "hello"]))?;
    let said = String::from_utf8_lossy(&said);
    match said.contains("1 peer replied") {
        true => Ok(()),
        false => Err(format!("the job says {said:?}")),
    }
}

/// Checks that an unmodified MPI program runs under the command.
fn open_mpi(command: &Path) -> Result<(), String> {
    let program: PathBuf = install::scratch("musl")?.join("hello");
    let mut compiler = Command::new(MPICC);
    compiler.arg("-o").arg(&program);
    output(compiler.arg(root().join("tests/server/mpi/hello.c")))?;
    let program = program.to_string_lossy().into_owned();
    run_of(command, &[&program, "4"], "of 4 on")
}

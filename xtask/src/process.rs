// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running other programs, and where things are.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The top of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// The cargo that runs this task, at the top of the repository.
pub fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// A command as one would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    if let Some(name) = Path::new(&words[0]).file_name() {
        words[0] = name.to_string_lossy().into_owned();
    }
    words.join(" ")
}

/// Runs a command whose output goes straight to ours.
pub fn run(command: &mut Command) -> Result<(), String> {
    println!("$ {}", shown(command));
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|e| format!("{} cannot run: {e}", shown(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} ended with {status}", shown(command)))
    }
}

/// Runs a command, showing each line of its standard output and handing it to `line`.
pub fn run_lines(command: &mut Command, mut line: impl FnMut(&str)) -> Result<(), String> {
    println!("$ {}", shown(command));
    let text = shown(command);
    let fault = |e: std::io::Error| format!("{text} cannot run: {e}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(fault)?;
    if let Some(stdout) = child.stdout.take() {
        for bytes in BufReader::new(stdout).split(b'\n') {
            let bytes = bytes.map_err(fault)?;
            let shown = String::from_utf8_lossy(&bytes);
            println!("{shown}");
            line(&shown);
        }
    }
    let status = child.wait().map_err(fault)?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{text} ended with {status}"))
    }
}

/// Runs a command and returns its standard output.
pub fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let text = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{text} cannot run: {e}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!(
            "{text} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

/// Whether this runs unattended: a missing peer is a failure there, and chance is kept out.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|v| !v.is_empty() && v != "false" && v != "0")
}

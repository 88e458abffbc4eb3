// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds of the command and the plugin files, each made once, and one run of `pmix map batch` with them.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};

use serde_json::Value;
use xtask::process::{self, cargo, root};

use super::cell::{Build, Cell, Plugin};

/// The command of a cell for `map batch`.
pub(crate) struct Pmix {
    program: PathBuf,
    config: PathBuf,
    home: PathBuf,
    environment: &'static [(&'static str, &'static str)],
}

impl Pmix {
    /// Returns the command in a directory and environment without other settings than the cell's.
    pub(crate) fn batch(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PMIX_") {
                command.env_remove(name);
            }
        }
        command
            .arg("--config")
            .arg(&self.config)
            .args(["map", "batch"])
            .current_dir(&self.home)
            .env("HOME", &self.home)
            .env("PMIX_MCA_pcompress_base_silence_warning", "true")
            .envs(self.environment.iter().copied());
        command
    }
}

/// The completed builds.
#[derive(Default)]
pub(crate) struct Builds {
    programs: Vec<(Build, PathBuf)>,
    plugins: Vec<(Plugin, PathBuf)>,
}

impl Builds {
    /// Returns the command of a cell.
    pub(crate) fn command(&mut self, cell: &Cell) -> Result<Pmix, String> {
        let home = scratch()?.join(cell.name.replace(' ', "-"));
        fs::create_dir_all(&home).map_err(|e| e.to_string())?;
        let mut text = String::new();
        for plugin in cell.plugins {
            let path = self.plugin(*plugin)?;
            text.push_str(&format!("[[plugin]]\npath = {:?}\n", path.display()));
        }
        text.push_str(cell.config);
        let config = home.join("cell.toml");
        fs::write(&config, text).map_err(|e| e.to_string())?;
        Ok(Pmix {
            program: self.program(cell.build)?,
            config,
            home,
            environment: cell.environment,
        })
    }

    fn program(&mut self, build: Build) -> Result<PathBuf, String> {
        if let Some((_, path)) = self.programs.iter().find(|(known, _)| *known == build) {
            return Ok(path.clone());
        }
        let mut command = cargo(["build", "--locked", "--quiet", "--package", "pmix-cli"]);
        process::run(command.args(build.features()))?;
        // The next build overwrites this path.
        let path = scratch()?.join(build.name());
        fs::copy(target().join("debug/pmix"), &path).map_err(|e| e.to_string())?;
        self.programs.push((build, path.clone()));
        Ok(path)
    }

    fn plugin(&mut self, plugin: Plugin) -> Result<PathBuf, String> {
        if let Some((_, path)) = self.plugins.iter().find(|(known, _)| *known == plugin) {
            return Ok(path.clone());
        }
        let path = match plugin {
            Plugin::Fold => {
                let package = ["--package", "preg-fold-plugin"];
                let mut command = cargo(["build", "--locked", "--quiet"]);
                process::run(command.args(package))?;
                target().join("debug/libpreg_fold_plugin.so")
            }
            Plugin::Rle => {
                let path = scratch()?.join("libpreg_rle.so");
                compile(&root().join("examples/plugins/c/preg_rle.c"), &path)?;
                path
            }
        };
        self.plugins.push((plugin, path.clone()));
        Ok(path)
    }
}

/// Compiles a C plugin as its documentation says.
fn compile(source: &Path, output: &Path) -> Result<(), String> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command
        .args(["-std=c11", "-Wall", "-Wextra", "-O2", "-fPIC", "-shared"])
        .arg("-I")
        .arg(root().join("include"))
        .arg("-o")
        .args([output, source]);
    process::run(&mut command)
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn scratch() -> Result<PathBuf, String> {
    let folder = target().join("matrix");
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    Ok(folder)
}

/// Sends the requests and passes each answer with its index to `take`.
pub(crate) fn run_batch(
    pmix: &Pmix,
    requests: &[Value],
    mut take: impl FnMut(usize, &Value),
) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("pmix map batch: {e}");
    let mut child = pmix
        .batch()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(fault)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut answered = 0;
    thread::scope(|scope| {
        // Write in a thread: the command answers while it still reads, and either pipe could fill up.
        let writer = scope.spawn(|| -> std::io::Result<()> {
            let Some(stdin) = stdin else { return Ok(()) };
            let mut stdin = BufWriter::new(stdin);
            for request in requests {
                writeln!(stdin, "{request}")?;
            }
            stdin.flush()
        });
        for line in stdout
            .into_iter()
            .flat_map(|out| BufReader::new(out).lines())
        {
            let line = line.map_err(fault)?;
            let answer = serde_json::from_str(&line).map_err(|e| format!("{e} in {line:?}"))?;
            take(answered, &answer);
            answered += 1;
        }
        match writer.join() {
            Ok(written) => written.map_err(fault),
            Err(_) => Err("the writer panicked".to_owned()),
        }
    })?;
    let status = child.wait().map_err(fault)?;
    if answered != requests.len() {
        let asked = requests.len();
        return Err(format!("{answered} answers to {asked} requests ({status})"));
    }
    Ok(())
}

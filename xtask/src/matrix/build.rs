// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds of the command and the plugin files, each made once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cell::{Build, Cell, Plugin};
use xtask::process::{self, cargo, root};

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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions and manual pages, made from the definitions of the command line.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory as _;
use preg_core::Status;

use crate::args::Cli;
use crate::failure::{Exit, Failure};
use crate::manual;

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    // The generator panics when it cannot write; a buffer cannot refuse.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pmix", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Exit::Ok)
}

/// Prints the page of `pmix`, or writes all pages. Those of section 7 go beside a directory that is called
/// `man1`, and otherwise into it.
pub(crate) fn man(dir: Option<&Path>) -> Result<Exit, Failure> {
    let Some(dir) = dir else {
        io::stdout().write_all(manual::first_page().as_bytes())?;
        return Ok(Exit::Ok);
    };
    let beside = dir.parent().filter(|_| dir.ends_with("man1"));
    let seventh = beside.map_or_else(|| dir.to_path_buf(), |all| all.join("man7"));
    for page in manual::pages() {
        let dir = if page.section() == "7" { &seventh } else { dir };
        let path = dir.join(&page.file);
        std::fs::create_dir_all(dir)
            .and_then(|()| std::fs::write(&path, page.text))
            .map_err(|e| unwritable(&path, &e))?;
    }
    Ok(Exit::Ok)
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    Failure::new(Exit::Data, Status::ERROR, message)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions and manual pages, made from the definitions of the command line.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory as _;
use preg_core::Status;

use crate::args::Cli;
use crate::failure::{Exit, Failure};

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    // The generator panics when it cannot write; a buffer cannot refuse.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pmix", &mut script);
    io::stdout().write_all(&script)?;
    Ok(Exit::Ok)
}

/// Prints the page of `pmix`, or writes a page for it and one for each of its commands.
pub(crate) fn man(dir: Option<&Path>) -> Result<Exit, Failure> {
    let command = Cli::command();
    let Some(dir) = dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().write_all(&page)?;
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command, dir))
        .map_err(|e| unwritable(dir, &e))?;
    Ok(Exit::Ok)
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    Failure::new(Exit::Data, Status::ERROR, message)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `pmix` command: node and process maps of PMIx for administrators and scripts.
#![forbid(unsafe_code)]

mod args;
mod excerpt;
mod failure;
mod input;
mod map;
mod octets;
mod output;
mod session;
mod style;
mod trace;

use std::io::Write as _;

use clap::Parser as _;

use args::{Cli, Command};
use failure::{Exit, Failure};
use session::Session;
use style::Style;

fn main() {
    let cli = Cli::parse();
    let stderr = Style::new(cli.global.color, &std::io::stderr());
    trace::install(cli.global.verbose, stderr);
    let json = cli.global.json;
    let exit = run(cli).unwrap_or_else(|failure| report(&failure, json, stderr));
    // Ends without unmapping what the command read: the system does that faster.
    std::process::exit(exit as i32);
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let mut session = Session::open(&cli.global)?;
    let exit = match cli.command {
        Command::Map(command) => map::run(&mut session, command)?,
    };
    session.out.flush()?;
    Ok(exit)
}

fn report(failure: &Failure, json: bool, style: Style) -> Exit {
    if !failure.is_quiet() {
        // When neither stream can be written the exit code still tells.
        let _ = std::io::stderr().write_all(failure.render(style).as_bytes());
        if json && !failure.is_answered() {
            let _ = writeln!(std::io::stdout(), "{}", failure.to_json());
        }
    }
    failure.exit()
}

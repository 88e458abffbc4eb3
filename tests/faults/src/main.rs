// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask faults`: a live server among peers that lie, stall and die, and on a machine that lacks resources.
//!
//! The server is a process of its own (`crates/pmix-server/examples/fault_host.rs`), so that the kernel reports its
//! memory and time. Each scenario prints one line with its figures.

#![forbid(unsafe_code)]

mod config;
mod good;
mod greedy;
mod identity;
mod killed;
mod launcher;
mod lied_to;
mod malformed;
mod peer;
mod raw;
mod server;
mod shortage;
mod silent;
mod tools;
mod wait;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use server::Server;
use xtask::{Outcome, install};

/// The default seed.
const SEED: u64 = 5;

/// The environment of the scenarios and their form.
struct Field {
    program: PathBuf,
    home: PathBuf,
    seed: u64,
    short: bool,
}

/// The outcome of a scenario that did not fail.
enum Verdict {
    /// The measured figures.
    Held(String),
    /// The reason why the scenario cannot run here.
    Skipped(String),
}

/// A scenario, which prints one line of the report.
struct Scenario {
    name: &'static str,
    run: fn(&Field) -> Result<Verdict, String>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "malformed",
        run: malformed::run,
    },
    Scenario {
        name: "greedy",
        run: greedy::run,
    },
    Scenario {
        name: "greedy-steps",
        run: greedy::steps::run,
    },
    Scenario {
        name: "greedy-unread",
        run: greedy::run_unread,
    },
    Scenario {
        name: "silent",
        run: silent::dropped,
    },
    Scenario {
        name: "silent-limited",
        run: silent::limited,
    },
    Scenario {
        name: "identity-forged",
        run: identity::forged,
    },
    Scenario {
        name: "identity-foreign",
        run: identity::foreign,
    },
    Scenario {
        name: "munge-hangs",
        run: silent::hangs,
    },
    Scenario {
        name: "client-killed",
        run: killed::client::run,
    },
    Scenario {
        name: "client-lied-to",
        run: lied_to::run,
    },
    Scenario {
        name: "server-killed",
        run: killed::server::run,
    },
    Scenario {
        name: "shortage-descriptors",
        run: shortage::descriptors,
    },
    Scenario {
        name: "shortage-disk",
        run: shortage::disk,
    },
    Scenario {
        name: "shortage-memory",
        run: shortage::memory,
    },
    Scenario {
        name: "directories",
        run: shortage::directories,
    },
    Scenario {
        name: "planted",
        run: shortage::planted,
    },
    Scenario {
        name: "planted-config",
        run: config::planted,
    },
    Scenario {
        name: "planted-sessions",
        run: config::sessions,
    },
    Scenario {
        name: "tool-named",
        run: tools::named,
    },
    Scenario {
        name: "tool-foreign",
        run: tools::foreign,
    },
    Scenario {
        name: "tool-lied-to",
        run: tools::lied_to,
    },
    Scenario {
        name: "tool-planted",
        run: tools::planted,
    },
    Scenario {
        name: "tool-crowded",
        run: tools::crowded,
    },
    Scenario {
        name: "tool-listing-lied-to",
        run: tools::listing_lied_to,
    },
    Scenario {
        name: "system-server-planted",
        run: tools::system_planted,
    },
    Scenario {
        name: "plugin-exits",
        run: config::exits,
    },
    Scenario {
        name: "launcher-reader-paused",
        run: launcher::paused,
    },
    Scenario {
        name: "launcher-errors-unread",
        run: launcher::errors,
    },
    Scenario {
        name: "launcher-output-unread",
        run: launcher::output,
    },
    Scenario {
        name: "launcher-attacked",
        run: launcher::attacked,
    },
    Scenario {
        name: "launcher-blocked",
        run: launcher::blocked,
    },
    Scenario {
        name: "launcher-memory",
        run: launcher::short_of_memory,
    },
    Scenario {
        name: "launcher-pulls",
        run: launcher::pulls,
    },
    Scenario {
        name: "launcher-names",
        run: launcher::names,
    },
    Scenario {
        name: "launcher-files",
        run: launcher::files,
    },
    Scenario {
        name: "launcher-too-many",
        run: launcher::too_many,
    },
    Scenario {
        name: "launcher-hang-up",
        run: launcher::hung_up,
    },
    Scenario {
        name: "launcher-ignored",
        run: launcher::ignored,
    },
    Scenario {
        name: "launcher-killed",
        run: launcher::killed,
    },
    Scenario {
        name: "churn",
        run: good::churn,
    },
];

impl Field {
    /// Returns the first count, or in the short form the second.
    fn count(&self, full: usize, short: usize) -> usize {
        if self.short { short } else { full }
    }

    /// Creates a directory for a scenario.
    fn directory(&self, name: &str) -> Result<PathBuf, String> {
        let directory = self.home.join(name);
        let fault = |e: std::io::Error| format!("{}: {e}", directory.display());
        if directory.exists() {
            std::fs::remove_dir_all(&directory).map_err(fault)?;
        }
        std::fs::create_dir_all(&directory).map_err(fault)?;
        Ok(directory)
    }

    /// Starts a server in a directory of its own.
    fn server(&self, name: &str, args: &[&str]) -> Result<Server, String> {
        Server::start(&self.program, &self.directory(name)?, args)
    }
}

/// A live server among hostile and dying peers.
#[derive(Debug, Parser, PartialEq)]
#[command(name = "cargo xtask faults")]
struct Options {
    /// Fewer rounds, for CI.
    #[arg(long)]
    short: bool,
    /// The scenarios whose name begins so.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// The seed of the random data.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Nothing is needed; every task takes this.
    #[arg(long)]
    install: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((_, what)) = words.split_first().filter(|(first, _)| *first == "peer") {
        return peer_process(what);
    }
    xtask::close(&run(&Options::parse()).unwrap_or_else(|why| {
        eprintln!("faults: {why}");
        Outcome::of(false)
    }))
}

/// Runs this process as a peer of a scenario.
fn peer_process(what: &[String]) -> ExitCode {
    match peer::main(what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the requested scenarios.
fn run(options: &Options) -> Result<Outcome, String> {
    let asked = |scenario: &&Scenario| {
        let only = options.only.as_deref();
        only.is_none_or(|only| scenario.name.starts_with(only))
    };
    let scenarios: Vec<_> = SCENARIOS.iter().filter(asked).collect();
    if scenarios.is_empty() {
        let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        return Err(format!("no such scenario; there are {}", names.join(", ")));
    }
    let field = Field {
        program: server::build(options.short)?,
        home: install::scratch("faults")?,
        seed: options.seed,
        short: options.short,
    };
    println!("faults: seed {}", field.seed);
    let mut outcome = Outcome::default();
    for scenario in scenarios {
        let begun = Instant::now();
        let verdict = (scenario.run)(&field);
        let took = wait::shown(begun.elapsed());
        let (word, said) = match verdict {
            Ok(Verdict::Held(said)) => ("ok", said),
            Ok(Verdict::Skipped(why)) => {
                outcome.skip(scenario.name, &why);
                continue;
            }
            Err(why) => ("FAILED", why),
        };
        println!("{word:7} {:24} {said} [{took}]", scenario.name);
        outcome += Outcome::of(word == "ok");
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_can_be_repeated_by_name_and_seed() {
        let parse = |line: &str| Options::try_parse_from(line.split(' '));
        let options = parse("faults --only malformed --seed 7 --short").expect("options");
        let expected = Options {
            short: true,
            only: Some("malformed".to_owned()),
            seed: 7,
            install: false,
        };
        assert_eq!(options, expected);
        assert!(parse("faults --seed soon").is_err());
        assert!(parse("faults --long").is_err());
    }

    #[test]
    fn names_are_unique_and_short() {
        for (number, scenario) in SCENARIOS.iter().enumerate() {
            let mut others = SCENARIOS[..number].iter();
            assert!(others.all(|other| other.name != scenario.name));
            assert!(scenario.name.len() <= 24, "{}", scenario.name);
        }
    }
}

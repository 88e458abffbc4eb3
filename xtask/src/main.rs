// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's tasks, in place of shell scripts.
//!
//! `cargo xtask help` lists them. Every task ends with the line `N passed, N failed, N skipped` and exits with 0 only
//! if nothing failed. With `--install`, or if the variable `CI` is set, a task installs missing dependencies.
#![forbid(unsafe_code)]

mod book;
mod check;
mod ci;
mod dist;
mod files;
mod fuzz;
mod manual;
mod matrix;
mod package;
mod sbom;
mod tables;
mod test;
mod tidy;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use xtask::{Outcome, delegate, install};

/// The project's tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lints, every test and tidy.
    Test(Install),
    /// Format, tidy, lints and quick tests of the crates that changed, and lints of the crates that depend on them.
    Check,
    /// Lints of the builds without optional features, and the tests of the second compression back end.
    Variants,
    /// The simulation of servers, processes and a host with so many seeds.
    Seeds {
        /// The number of seeds.
        count: u32,
    },
    /// The command in every build and configuration, read across.
    Matrix,
    /// Every fuzz target for some time, two at a time.
    Fuzz {
        /// Seconds for which each target runs; 0 only lints the targets.
        seconds: u32,
        /// One target; every target without it.
        target: Option<String>,
        #[command(flatten)]
        install: Install,
    },
    /// A live server among hostile and dying peers; `--help` says how.
    #[command(disable_help_flag = true)]
    Faults(Rest),
    /// Our data into real PMIx libraries, theirs into us; `--help` says how.
    #[command(disable_help_flag = true)]
    Interop(Rest),
    /// Programs of others on our C library, Slurm among them; `--help` says how.
    #[command(disable_help_flag = true)]
    Consumers(Rest),
    /// The C library as abidiff, valgrind and the sanitizers of the compiler see it; `--help` says how.
    #[command(disable_help_flag = true)]
    Sanitize(Rest),
    /// Measure costs beside the real library and others; `--help` lists the parts.
    #[command(disable_help_flag = true)]
    Bench(Rest),
    /// The checks that must hold before a change lands; docs/testing.md lists them.
    Ci {
        /// Every check, with all seeds, the long suites and the sanitizers.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        install: Install,
    },
    /// Installs the C library, its headers, the command and their pages into a directory; with --musl the command alone.
    Dist {
        /// The directory for `lib`, `include`, `bin` and `share`.
        folder: PathBuf,
        /// The cargo profile of the build.
        #[arg(long, default_value = "dist")]
        profile: String,
        /// The oldest release of glibc that it is to run with, as 2.17; it is linked by zig then.
        #[arg(long, value_name = "RELEASE", value_parser = dist::libc)]
        glibc: Option<dist::Libc>,
        /// The major number of the release that the headers and `pmix.pc` state, for programs whose configure script
        /// does not know the newest: 4, 5 or 6.
        #[arg(long = "as", value_name = "MAJOR", value_parser = clap::value_parser!(u32).range(4..=6))]
        stated: Option<u32>,
        /// The command alone, linked statically with musl: one file that needs nothing of the system.
        #[arg(long, conflicts_with_all = ["glibc", "stated"])]
        musl: bool,
        #[command(flatten)]
        install: Install,
    },
    /// Makes the documents a site by mdBook, with the documentation of the crates beside it, and looks at it.
    Book {
        /// Directory of the site.
        folder: PathBuf,
        /// Leaves out the check of the pages in a browser.
        #[arg(long)]
        no_browser: bool,
        #[command(flatten)]
        install: Install,
    },
    /// Packs every crate and compiles them from their packages.
    Crates,
    /// Makes a Debian package of the command, the C library, its headers and their pages, without root.
    /// Where packages may be installed, it is installed and removed beside Debian's own libpmix.
    Deb {
        /// Directory of the package.
        folder: PathBuf,
        /// The cargo profile of the build.
        #[arg(long, default_value = "dist")]
        profile: String,
        #[command(flatten)]
        install: Install,
    },
    /// Writes the generated constants, from the tables of data/.
    Tables {
        /// Only says which of them are not what the tables make them.
        #[arg(long)]
        check: bool,
    },
    /// The rules that no compiler checks.
    Tidy {
        /// Lists the deviations from OpenPMIx, too.
        #[arg(long)]
        deviations: bool,
    },
}

/// `true` if a task may install something.
#[derive(Args)]
struct Install {
    /// Installs what is needed and missing.
    #[arg(long)]
    install: bool,
}

impl Install {
    fn heed(&self) {
        if self.install {
            install::allow();
        }
    }
}

/// The arguments of a program that does the task.
#[derive(Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    let outcome = run(Cli::parse().task);
    println!("{outcome}");
    if outcome.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run(task: Task) -> Outcome {
    match task {
        Task::Test(install) => {
            install.heed();
            test::run()
        }
        Task::Check => check::run(),
        Task::Variants => test::run_variants(),
        Task::Seeds { count } => test::seeds(count),
        Task::Matrix => matrix::run(),
        Task::Fuzz {
            seconds,
            target,
            install,
        } => {
            install.heed();
            fuzz::run(seconds, target.as_deref())
        }
        Task::Faults(rest) => {
            // The clients of the scenarios are part of the measured times.
            let is_short = rest.arguments.iter().any(|word| word == "--short");
            let profile = if is_short { "dev" } else { "release" };
            delegate("pmix-faults", profile, &rest.arguments)
        }
        Task::Interop(rest) => delegate("pmix-interop", "dev", &rest.arguments),
        Task::Consumers(mut rest) => {
            rest.arguments.insert(0, OsString::from("consumers"));
            delegate("pmix-interop", "dev", &rest.arguments)
        }
        Task::Sanitize(mut rest) => {
            rest.arguments.insert(0, OsString::from("sanitize"));
            delegate("pmix-interop", "dev", &rest.arguments)
        }
        Task::Bench(rest) => delegate("pmix-bench", "dev", &rest.arguments),
        Task::Ci { all, install } => {
            install.heed();
            ci::run(if all { ci::Form::All } else { ci::Form::Short })
        }
        Task::Dist {
            folder,
            profile,
            glibc,
            stated,
            musl,
            install,
        } => {
            install.heed();
            let profile = &*profile;
            let build = dist::Build {
                profile,
                glibc,
                stated,
            };
            match musl {
                true => dist::musl::dist(&folder, profile),
                false => dist::dist(&folder, build),
            }
        }
        Task::Book {
            folder,
            no_browser,
            install,
        } => {
            install.heed();
            book::book(&folder, !no_browser)
        }
        Task::Crates => package::crates(),
        Task::Deb {
            folder,
            profile,
            install,
        } => {
            install.heed();
            package::deb(&folder, &profile)
        }
        Task::Tables { check } => tables::run(check),
        Task::Tidy { deviations } => tidy::run(deviations),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_program_of_its_own_gets_every_argument() {
        let line = [
            "xtask",
            "interop",
            "gds",
            "--seed",
            "7",
            "--install",
            "--help",
        ];
        let Ok(Task::Interop(rest)) = Cli::try_parse_from(line).map(|cli| cli.task) else {
            panic!("another task");
        };
        assert_eq!(rest.arguments, line[2..]);
    }
}

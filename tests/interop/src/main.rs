// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program of `cargo xtask interop` and `cargo xtask consumers`.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use pmix_interop::{Options, capi, peers, seeds};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, folder, targets @ ..] = words.as_slice()
        && first == "fuzz-inputs"
    {
        return fuzz_inputs(Path::new(folder), targets);
    }
    if words.first().is_some_and(|word| word == "consumers") {
        // The task name takes the place of the program's name.
        let options = capi::Options::parse_from(words);
        if options.install {
            xtask::install::allow();
        }
        return xtask::close(&pmix_interop::consumers(&options));
    }
    let options = Options::parse();
    if options.install {
        xtask::install::allow();
    }
    xtask::close(&pmix_interop::run(&options))
}

/// The fuzz target that compares with an installed library.
const WITH_PEER: &str = "bfrops_peer";

/// Writes the seeds of the fuzz targets, each into a folder with its name. If a target needs an installed library,
/// prints the path of its peer program, or the reason why there is none on stderr.
fn fuzz_inputs(folder: &Path, targets: &[String]) -> ExitCode {
    for target in targets {
        if let Err(why) = seeds::write(target, folder) {
            eprintln!("seeds of {target}: {why}");
            return ExitCode::FAILURE;
        }
    }
    if !targets.iter().any(|target| target == WITH_PEER) {
        return ExitCode::SUCCESS;
    }
    let mut reasons = Vec::new();
    for peer in peers::find() {
        match peer {
            Ok(peer) => {
                println!("{}", peer.bfrops.display());
                return ExitCode::SUCCESS;
            }
            Err(why) => reasons.push(why),
        }
    }
    eprintln!("{}", reasons.join("; "));
    ExitCode::SUCCESS
}

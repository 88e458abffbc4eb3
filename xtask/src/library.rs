// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building the C library, for the tasks that install it or run programs on it.

use std::path::PathBuf;

use crate::install;
use crate::process::{cargo, run};

/// Builds the C library, both files for C, and returns the directory that they are in.
///
/// The crate is one for Rust, too, for its tests, and cargo optimises no program as a whole that is a library for
/// Rust: where the profile does so, the forms for C are built alone. `dev` does not, and shares what tests build.
///
/// # Errors
/// Cargo fails, with what it said.
pub fn build(profile: &str) -> Result<PathBuf, String> {
    let profile = profile_beside(profile);
    let package = ["--quiet", "--locked", "--package", "pmix-capi", "--profile"];
    if profile == "dev" {
        run(cargo(["build"]).args(package).arg(profile))?;
    } else {
        let forms = ["--lib", "--crate-type", "cdylib,staticlib"];
        run(cargo(["rustc"]).args(package).arg(profile).args(forms))?;
    }
    Ok(install::built(profile))
}

/// Returns the profile of the C library that goes with this profile of programs: `library` of `Cargo.toml` for `dist`.
pub fn profile_beside(profile: &str) -> &str {
    match profile {
        "dist" => "library",
        other => other,
    }
}

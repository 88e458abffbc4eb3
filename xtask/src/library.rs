// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds of the C library, for tasks that install it or run programs on it.

use std::path::PathBuf;

use crate::install;
use crate::process::{cargo, run, selection};

/// Builds the C library, shared and static, and returns its directory.
///
/// The tests of the crate use it as a Rust library, and cargo applies no link-time optimization to
/// a crate that is also a Rust library. If the profile enables this optimization, only the C forms
/// are built. `dev` does not enable it, and uses the build of the tests.
///
/// # Errors
/// Returns the message of cargo if the build fails.
pub fn build(profile: &str) -> Result<PathBuf, String> {
    let profile = profile_beside(profile);
    let package = selection(profile, "pmix-capi");
    if profile == "dev" {
        run(cargo(["build", "--lib"]).args(package))?;
    } else {
        let forms = ["--lib", "--crate-type", "cdylib,staticlib"];
        run(cargo(["rustc"]).args(package).args(forms))?;
    }
    Ok(install::built(profile))
}

/// Returns the profile of the C library that belongs to a profile of programs: `library` of `Cargo.toml` for `dist`.
pub fn profile_beside(profile: &str) -> &str {
    match profile {
        "dist" => "library",
        other => other,
    }
}

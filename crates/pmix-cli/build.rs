// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets variables with the compiler, target and features of the build, for `pmix --version -v`.

use std::process::Command;

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script by its environment"
)]
fn main() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(compiler).arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let compiler = said.unwrap_or_else(|_| "an unknown compiler".to_owned());
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=PMIX_COMPILER={compiler}");
    println!("cargo::rustc-env=PMIX_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}

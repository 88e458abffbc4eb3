// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building plugins with the real compilers. A compiler that is missing fails the test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The top of the repository.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a C file of the repository to a shared library in a scratch directory.
pub(crate) fn c_library(directory: &Path, source: &str, fault: Option<&str>) -> PathBuf {
    let library = directory.join(format!(
        "lib{}.so",
        fault.unwrap_or("plugin").to_lowercase()
    ));
    let mut flags = vec!["-fPIC".to_owned(), "-shared".to_owned()];
    flags.extend(fault.map(|fault| format!("-DFAULT={fault}")));
    cc(&top().join(source), &library, &flags);
    library
}

/// Runs the C compiler, warnings being errors.
#[expect(
    clippy::disallowed_methods,
    reason = "the compiler is chosen by the environment"
)]
pub(crate) fn cc(source: &Path, output: &Path, flags: &[String]) {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let result = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"])
        .arg("-I")
        .arg(top().join("include"))
        .args(flags)
        .arg("-o")
        .arg(output)
        .arg(source)
        .output()
        .unwrap_or_else(|e| panic!("cannot run the C compiler {compiler:?}: {e}"));
    assert!(
        result.status.success(),
        "{} {flags:?}:\n{}",
        source.display(),
        String::from_utf8_lossy(&result.stderr)
    );
}

/// Compiles a file in C++17 to a shared library beside it, with the flags of docs/plugins.md, warnings
/// being errors.
#[expect(
    clippy::disallowed_methods,
    reason = "the compiler is chosen by the environment"
)]
pub(crate) fn cpp_library(source: &Path) -> PathBuf {
    let library = source.with_extension("so");
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let result = Command::new(&compiler)
        .args(["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(["-O2", "-fPIC", "-shared", "-I"])
        .arg(top().join("include"))
        .arg("-o")
        .args([&library, source])
        .output()
        .unwrap_or_else(|e| panic!("cannot run the C++ compiler {compiler:?}: {e}"));
    let said = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{}:\n{said}", source.display());
    library
}

/// Builds a cdylib package of the workspace, into the target directory of this test.
pub(crate) fn rust_library(package: &str) -> PathBuf {
    // target/PROFILE/deps/TEST
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--package", package])
        .arg("--manifest-path")
        .arg(top().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let result = cargo.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "cargo build {package}:\n{errors}");
    let name = format!(
        "{}{}{}",
        std::env::consts::DLL_PREFIX,
        package.replace('-', "_"),
        std::env::consts::DLL_SUFFIX
    );
    let directory = if profile.ends_with("release") {
        "release"
    } else {
        "debug"
    };
    profile.with_file_name(directory).join(name)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds plugins with the real compilers. A missing compiler fails the test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the repository.
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

/// Runs the C compiler with warnings as errors.
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
    // Sets the mode regardless of the umask: files that others may write are not trusted.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(output, mode).expect("the mode is set");
}

/// Compiles a C++17 file to a shared library beside it, with the flags of docs/plugins.md and
/// warnings as errors.
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

/// Returns the crate that the chapter on Rust plugins in docs/plugins.md describes: its manifest
/// and the example. The crate is kept, so that all tests share its build.
pub(crate) fn rust_crate() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preg-prefix");
    let read = |file: &str| std::fs::read_to_string(top().join(file)).expect("a file of ours");
    let page = read("docs/plugins.md");
    let (_, chapter) = page
        .split_once("\n## Write one in Rust\n")
        .expect("the chapter");
    let (_, manifest) = chapter.split_once("```toml\n").expect("the manifest");
    let (manifest, _) = manifest.split_once("```\n").expect("its end");
    let top = top().canonicalize().expect("the top");
    let manifest = manifest.replace('…', top.to_str().expect("a path of text"));
    // The crate is below this repository, unlike that of an author, so it needs its own workspace.
    let manifest = format!("{manifest}\n[workspace]\n");
    std::fs::create_dir_all(folder.join("src")).expect("a directory");
    for (file, text) in [
        ("Cargo.toml", manifest),
        ("src/lib.rs", read("examples/plugins/rust/src/lib.rs")),
    ] {
        let file = folder.join(file);
        if std::fs::read_to_string(&file).ok() != Some(text.clone()) {
            replace(&file, &text);
        }
    }
    // The dependencies have the locked releases of this repository.
    if !folder.join("Cargo.lock").exists() {
        replace(&folder.join("Cargo.lock"), &read("Cargo.lock"));
    }
    folder
}

/// Writes a file atomically, so that concurrent readers see it as a whole.
fn replace(file: &Path, text: &str) {
    let beside = file.with_extension(std::process::id().to_string());
    std::fs::write(&beside, text).expect("a file");
    std::fs::rename(&beside, file).expect("in its place");
}

/// Returns the environment for cargo in that crate.
pub(crate) fn rust_settings() -> Vec<(&'static str, std::ffi::OsString)> {
    let beside = Path::new(env!("CARGO")).parent().expect("a directory");
    let mut folders = vec![beside.to_owned()];
    folders.extend(path_of_process());
    let path = std::env::join_paths(folders).expect("a path");
    vec![
        ("PATH", path),
        ("CARGO_TARGET_DIR", "target".into()),
        ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0".into()),
        ("CARGO_PROFILE_RELEASE_DEBUG", "0".into()),
    ]
}

/// Returns the directories of programs.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo is found as it was by who called it"
)]
fn path_of_process() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect()
}

/// Builds that crate as the chapter describes.
pub(crate) fn rust_library() -> PathBuf {
    let folder = rust_crate();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release"]);
    cargo.current_dir(&folder).envs(rust_settings());
    let result = cargo.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "cargo build:\n{errors}");
    folder.join("target/release/libpreg_prefix.so")
}

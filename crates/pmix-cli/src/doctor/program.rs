// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check of a program: the MPI library that it is linked with, and the interface by which that library finds the
//! other processes of its job.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::libraries::LARGEST;
use super::{Finding, Subject};

/// The interface of a library in which no function of one is found.
const UNKNOWN: &str = "an interface that is not known";

/// The interface of Slurm's library for PMI-1.
const OF_SLURM: &str = "requests of Slurm, which only srun serves";

/// The name of the check.
const CHECK: &str = "program";

/// The advice for a program whose library is not known.
const LATER: &str =
    "if it loads an MPI library later, check that library: pmix doctor /path/to/libmpi.so";

/// A library whose file name identifies its interface.
struct Library {
    /// The beginning of the file name.
    name: &'static str,
    title: &'static str,
    interface: Interface,
}

/// The interface that a library uses.
#[derive(Clone, Copy)]
enum Interface {
    Pmix,
    /// That of Slurm's library, which sends its requests to srun.
    OfSlurm,
    Pmi2,
    /// The interface of an MPICH library, which depends on its build.
    OfMpich,
}

/// The libraries in the order of their precedence: an MPI library is linked with one of the others.
const LIBRARIES: &[Library] = &[
    Library {
        name: "libmpi.so.40",
        title: "Open MPI",
        interface: Interface::Pmix,
    },
    Library {
        name: "libmpi.so.12",
        title: "MPICH",
        interface: Interface::OfMpich,
    },
    Library {
        name: "libmpich.so.12",
        title: "MPICH",
        interface: Interface::OfMpich,
    },
    Library {
        name: "libmpi_abi.so",
        title: "an MPI library with the standard ABI",
        interface: Interface::OfMpich,
    },
    Library {
        name: "libpmix.so.2",
        title: "a PMIx library",
        interface: Interface::Pmix,
    },
    Library {
        name: "libpmi2.so.0",
        title: "a PMI-2 library",
        interface: Interface::Pmi2,
    },
    Library {
        name: "libpmi.so.0",
        title: "a PMI-1 library",
        interface: Interface::OfSlurm,
    },
];

/// Reports the interface of a program.
pub(super) fn check(subject: &Subject<'_>, program: &Path) -> Finding {
    let Some(file) = find(subject, program) else {
        let message = format!("{}: no such program", program.display());
        return Finding::fault(
            CHECK,
            message,
            "give its path, or add its directory to PATH",
        );
    };
    let shown = file.display();
    let mut start = [0; 4];
    let read = File::open(&file).and_then(|mut file| file.read_exact(&mut start));
    if let Err(error) = read {
        let help = "the program must be a readable file";
        return Finding::fault(CHECK, format!("{shown}: {error}"), help);
    }
    if start != *b"\x7fELF" {
        return Finding::new(
            CHECK,
            super::Verdict::Ok,
            format!("{shown}: not a binary, so its libraries are not known"),
            Some(LATER.to_owned()),
        );
    }
    // The loader knows the search path of the program, and prints the libraries without running it.
    let listed = Command::new("ldd").arg(&file).output();
    let listed = match listed {
        Ok(listed) => String::from_utf8_lossy(&listed.stdout).into_owned(),
        Err(error) => {
            let message = format!("{shown}: cannot run ldd: {error}");
            return Finding::warning(
                CHECK,
                message,
                "install the package with ldd (Debian: libc-bin)",
            );
        }
    };
    let Some((library, path)) = linked(&listed) else {
        return Finding::new(
            CHECK,
            super::Verdict::Ok,
            format!("{shown}: ldd finds none of the known libraries of MPI, PMIx and PMI"),
            Some(LATER.to_owned()),
        );
    };
    let Some(path) = path else {
        let message = format!("{shown}: {} is not found", library.name);
        return Finding::fault(CHECK, message, "add its directory to LD_LIBRARY_PATH");
    };
    let (title, interface) = described(library, &path);
    let found = format!("{shown}: {title} ({}) uses {interface}", path.display());
    match interface {
        UNKNOWN => Finding::warning(CHECK, found, "try pmix run --pmi pmi1, then --pmi pmix"),
        OF_SLURM => Finding::warning(CHECK, found, "start the program with srun"),
        _ => Finding::ok(CHECK, found),
    }
}

/// Returns the file of a program, as a shell finds it.
fn find(subject: &Subject<'_>, program: &Path) -> Option<PathBuf> {
    match program.components().count() > 1 || program.is_absolute() {
        true => program.is_file().then(|| program.to_owned()),
        false => subject.program(program),
    }
}

/// Returns the first known library in the output of `ldd`, and its file if the loader finds it.
fn linked(listed: &str) -> Option<(&'static Library, Option<PathBuf>)> {
    let lines = || listed.lines().map(str::trim);
    LIBRARIES.iter().find_map(|library| {
        let line = lines().find(|line| line.starts_with(library.name))?;
        let (_, found) = line.split_once("=> ")?;
        let file = found.split(" (").next().unwrap_or(found);
        let is_found = !file.starts_with("not found");
        Some((library, is_found.then(|| PathBuf::from(file))))
    })
}

/// Returns the name of a library and of the interface that it uses under `pmix run`.
fn described(library: &Library, file: &Path) -> (&'static str, &'static str) {
    match library.interface {
        Interface::Pmix => (library.title, "PMIx"),
        Interface::OfSlurm => (library.title, OF_SLURM),
        Interface::Pmi2 => (library.title, "PMI-2"),
        Interface::OfMpich => {
            let content = pmix_files::read_regular(file, LARGEST).unwrap_or_default();
            let has = |name: &str| memchr::memmem::find(&content, name.as_bytes()).is_some();
            match () {
                () if has("I_MPI_PMI_LIBRARY") => (
                    "Intel MPI",
                    "PMIx, by I_MPI_PMI_LIBRARY, which pmix run sets",
                ),
                () if has("PMI_KVS_Get") => (library.title, "PMI-1"),
                () if has("PMI2_KVS_Get") => (library.title, "PMI-2"),
                () if has("PMIx_Init") => (library.title, "PMIx"),
                () => (library.title, UNKNOWN),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mpi_library_precedes_the_library_that_it_is_linked_with() {
        let listed = "\tlinux-vdso.so.1 (0x1)\n\tlibpmix.so.2 => /lib/libpmix.so.2 (0x2)\n\
            \tlibmpi.so.40 => /opt/lib/libmpi.so.40 (0x3)\n";
        let (library, file) = linked(listed).unwrap();
        assert_eq!(library.title, "Open MPI");
        assert_eq!(file.unwrap(), Path::new("/opt/lib/libmpi.so.40"));
        let (_, file) = linked("\tlibmpi.so.12 => not found\n").unwrap();
        assert_eq!(file, None);
        assert!(linked("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n").is_none());
    }

    #[test]
    fn a_library_of_mpich_uses_the_interface_whose_functions_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("libmpi.so.12");
        for (content, expected) in [
            ("…PMI_KVS_Get…PMIx_Init", "PMI-1"),
            ("…PMI2_KVS_Get", "PMI-2"),
            ("…PMIx_Init", "PMIx"),
            ("…", "an interface that is not known"),
        ] {
            std::fs::write(&file, content).unwrap();
            let library = &LIBRARIES[1];
            assert_eq!(described(library, &file), ("MPICH", expected));
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search for programs.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pmix_host::helpers::Cancel;
use rustix::fs::{Access, Mode, OFlags, access};
use rustix::io::Errno;

use crate::Error;

/// The largest number of directories of a `PATH` that are searched.
const MOST_DIRECTORIES: usize = 4096;

/// The largest number of file lookups for all applications of one job.
const MOST_LOOKUPS: usize = 100_000;

/// The search for the programs of the applications of a job. It is made once and not by each process, and a missing
/// program is an error before any process starts.
///
/// A program that several applications name is searched for once. The rest can take as long as the disks in `PATH`
/// need. The search is therefore bounded and can be canceled, and a helper thread does it for spawned jobs.
pub(crate) struct Search<'c> {
    cancel: &'c Cancel,
    num_lookups: usize,
    found: HashMap<Name, PathBuf>,
    entered: HashSet<PathBuf>,
}

/// The input of a search: the name of the program, `PATH`, and the working directory.
type Name = (OsString, Option<Arc<OsStr>>, PathBuf);

impl<'c> Search<'c> {
    /// Returns a search without results.
    pub(crate) fn new(cancel: &'c Cancel) -> Self {
        Self {
            cancel,
            num_lookups: 0,
            found: HashMap::new(),
            entered: HashSet::new(),
        }
    }

    /// Checks that processes can start in a directory.
    ///
    /// # Errors
    /// Returns [`Error`] if it does not exist, is not a directory, or may not be entered, or if the search was
    /// canceled or takes too many lookups.
    pub(crate) fn enter(&mut self, wdir: &Path) -> Result<(), Error> {
        if wdir.as_os_str().is_empty() || self.entered.contains(wdir) {
            return Ok(());
        }
        self.count_lookup()?;
        let entered = std::fs::metadata(wdir).and_then(|about| match about.is_dir() {
            true => Ok(access(wdir, Access::EXEC_OK)?),
            false => Err(Errno::NOTDIR.into()),
        });
        let cannot = || {
            format!(
                "cannot start in {} (--wdir needs a directory that this user can enter)",
                wdir.display()
            )
        };
        entered.map_err(|e| Error::wdir(cannot(), e))?;
        self.entered.insert(wdir.to_owned());
        Ok(())
    }

    /// Returns the file that a shell would execute for this name in `wdir` with this `PATH`.
    ///
    /// # Errors
    /// Returns [`Error`] if no directory contains it, if it is not executable, or if its interpreter is missing.
    /// Returns it also if the search takes too many lookups or was canceled.
    pub(crate) fn program(
        &mut self,
        program: &OsStr,
        path: Option<&Arc<OsStr>>,
        wdir: &Path,
    ) -> Result<PathBuf, Error> {
        let name = (program.to_owned(), path.cloned(), wdir.to_owned());
        if let Some(found) = self.found.get(&name) {
            return Ok(found.clone());
        }
        let cannot = || format!("cannot run {}", program.display());
        let found = self.find(program, path.map(|path| &**path), wdir)?;
        let found = found.map_err(|e| Error::program(cannot(), e))?;
        self.count_lookup()?;
        if let Some(interpreter) = missing_interpreter(&found, wdir) {
            let name = interpreter.as_os_str().as_bytes();
            if let Some(name) = name.strip_suffix(b"\r") {
                // The message would otherwise contain the carriage return.
                let (file, name) = (found.display(), OsStr::from_bytes(name).display());
                let what = format!(
                    "{}: its first line ends in a carriage return, so the system looks for an interpreter {name} with one; \
                    `sed -i 's/\\r$//' {file}` removes the carriage returns of Windows",
                    cannot()
                );
                return Err(Error::program(what, Errno::NOENT.into()));
            }
            let what = format!("{}: its interpreter {}", cannot(), interpreter.display());
            return Err(Error::program(what, Errno::NOENT.into()));
        }
        // The working directory may be relative to that of the launcher, but the child resolves paths in its own.
        let found = std::path::absolute(&found).unwrap_or(found);
        self.found.insert(name, found.clone());
        Ok(found)
    }

    /// Searches for a program. The outer error is that of the search, the inner one that of the program.
    fn find(
        &mut self,
        program: &OsStr,
        path: Option<&OsStr>,
        wdir: &Path,
    ) -> Result<io::Result<PathBuf>, Error> {
        if program.as_bytes().contains(&b'/') {
            self.count_lookup()?;
            let found = wdir.join(program);
            return Ok(check(&found).map(|()| found));
        }
        // `execvp` has the same default.
        let path = path.unwrap_or_else(|| OsStr::new("/bin:/usr/bin"));
        let num = memchr::memchr_iter(b':', path.as_bytes()).count() + 1;
        if num > MOST_DIRECTORIES {
            return Err(Error::request(format!(
                "PATH has {num} directories, but at most {MOST_DIRECTORIES} are searched: give the path of \
                the program {}, or shorten PATH",
                program.display()
            )));
        }
        let mut refused = None;
        for dir in std::env::split_paths(path) {
            self.count_lookup()?;
            let found = wdir.join(dir).join(program);
            match check(&found) {
                Ok(()) => return Ok(Ok(found)),
                // As in `execvp`, the search continues, and the error counts only if no other file is found.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => refused = Some(e),
                Err(_) => {}
            }
        }
        // As with mpirun, the last candidate is the working directory of the application, never that of the launcher.
        let here = wdir.join(program);
        if refused.is_none() && !wdir.as_os_str().is_empty() && check(&here).is_ok() {
            return Ok(Ok(here));
        }
        Ok(Err(refused.unwrap_or_else(|| Errno::NOENT.into())))
    }

    /// Counts a lookup. Returns an error if the limit is exceeded or the search was canceled.
    fn count_lookup(&mut self) -> Result<(), Error> {
        if self.cancel.is_cancelled() {
            return Err(Error::cancelled());
        }
        self.num_lookups += 1;
        match self.num_lookups {
            ..=MOST_LOOKUPS => Ok(()),
            _ => Err(Error::no_room(format!(
                "the search for the programs of the job stopped after {MOST_LOOKUPS} lookups: give their \
                paths, or shorten PATH"
            ))),
        }
    }
}

/// Checks that a path is an executable file.
fn check(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_dir() {
        return Err(Errno::ACCESS.into());
    }
    Ok(access(path, Access::EXEC_OK)?)
}

/// Returns the interpreter in the first line of a script if it does not exist. `execve` reports such a script itself
/// as missing, which would mislead the user.
pub(crate) fn missing_interpreter(program: &Path, wdir: &Path) -> Option<PathBuf> {
    // The kernel reads as many bytes (`BINPRM_BUF_SIZE`).
    let mut head = [0; 256];
    // `NONBLOCK`: opening a pipe without a writer must not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(program, flags, Mode::empty()).ok()?;
    let len = File::from(opened).read(&mut head).ok()?;
    let line = head[..len].strip_prefix(b"#!")?;
    // Like the kernel, this removes blanks and tabs only, not a carriage return.
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| b" \t".contains(byte));
    let word = words.find(|word| !word.is_empty())?;
    if word == b"\r" {
        return None;
    }
    let named = Path::new(OsStr::from_bytes(word));
    let missing = wdir.join(named).metadata().err()?;
    (missing.kind() == io::ErrorKind::NotFound).then(|| named.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Status;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn put(path: &Path, mode: u32) {
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn find(program: &str, path: &OsStr, wdir: &Path) -> Result<PathBuf, Status> {
        let cancel = Cancel::never();
        let found = Search::new(&cancel).program(program.as_ref(), Some(&path.into()), wdir);
        found.map_err(|error| error.status())
    }

    #[test]
    fn a_name_is_searched_in_path_and_a_relative_path_in_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&second).unwrap();
        put(&second.join("prog"), 0o755);
        fs::create_dir(first.join("prog")).unwrap();
        let path = std::env::join_paths([&first, &second]).unwrap();
        let find = |program: &str| find(program, &path, dir.path());
        assert_eq!(find("prog").unwrap(), second.join("prog"));
        assert_eq!(find("b/prog").unwrap(), second.join("prog"));
        put(&dir.path().join("here"), 0o755);
        assert_eq!(find("here").unwrap(), dir.path().join("here"));
        let missing = Err(Status::ERR_JOB_EXE_NOT_FOUND);
        assert_eq!(super::tests::find("here", &path, Path::new("")), missing);
        assert_eq!([find("absent"), find("./prog")], [missing.clone(), missing]);
    }

    #[test]
    fn a_missing_interpreter_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        for (line, missing) in [
            ("#!/bin/sh", None),
            ("#! /no/such/python3 -u\nx", Some("/no/such/python3")),
            ("#!/no/such", Some("/no/such")),
            ("#!sh", Some("sh")),
            ("#!/bin/sh\r\nx\r\n", Some("/bin/sh\r")),
            ("#!/bin/sh -e\r\n", None),
            ("#!\n", None),
            ("no script", None),
        ] {
            fs::write(&script, line).unwrap();
            let found = missing_interpreter(&script, dir.path());
            assert_eq!(found.as_deref(), missing.map(Path::new), "{line}");
        }
    }

    #[test]
    fn a_file_that_is_not_executable_differs_from_a_missing_file() {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("text"), 0o644);
        for program in ["text", "./text", "./"] {
            let found = find(program, dir.path().as_os_str(), dir.path());
            assert_eq!(found, Err(Status::ERR_JOB_APP_NOT_EXECUTABLE), "{program}");
        }
    }

    #[test]
    fn a_program_of_many_applications_is_searched_for_once() {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("prog"), 0o755);
        let mut path: OsString = "/no/such:".repeat(1000).into();
        path.push(dir.path());
        let path: Arc<OsStr> = path.into();
        let cancel = Cancel::never();
        let mut search = Search::new(&cancel);
        for _ in 0..1000 {
            let found = search.program("prog".as_ref(), Some(&path), Path::new(""));
            assert_eq!(found.unwrap(), dir.path().join("prog"));
            search.enter(dir.path()).unwrap();
        }
        assert_eq!(search.num_lookups, 1003);
    }

    #[test]
    fn a_search_is_bounded_and_can_be_cancelled() {
        let (cancel, never) = (Cancel::default(), Cancel::never());
        let long: Arc<OsStr> = OsStr::new(&"/no/such:".repeat(MOST_DIRECTORIES)).into();
        let mut search = Search::new(&never);
        let error = search.program("prog".as_ref(), Some(&long), Path::new(""));
        let error = error.unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        assert!(error.to_string().contains("4097 directories"), "{error}");
        let path: Arc<OsStr> = OsStr::new(&"/no/such:".repeat(1000)).into();
        let statuses: Vec<_> = (0..200)
            .map(|number| {
                let name = OsString::from(format!("prog{number}"));
                let found = search.program(&name, Some(&path), Path::new(""));
                found.unwrap_err().status()
            })
            .collect();
        assert_eq!(statuses[0], Status::ERR_JOB_EXE_NOT_FOUND);
        assert_eq!(statuses[199], Status::ERR_JOB_INSUFFICIENT_RESOURCES);
        assert!(search.num_lookups <= 2 * MOST_LOOKUPS);
        cancel.cancel();
        let found = Search::new(&cancel).program("sh".as_ref(), None, Path::new(""));
        assert_eq!(found.unwrap_err().status(), Status::ERR_JOB_CANCELED);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding a program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags, access};
use rustix::io::Errno;

/// Where the shell would find a program for somebody in `wdir` with this `PATH`.
///
/// Found once here, so that the children of an application do not each search, and a name that no
/// directory has is told before any process starts.
pub(crate) fn find(program: &OsStr, path: Option<&OsStr>, wdir: &Path) -> io::Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        let found = wdir.join(program);
        return check(&found).map(|()| found);
    }
    // What `execvp` does where the variable is not set.
    let path = path.unwrap_or_else(|| OsStr::new("/bin:/usr/bin"));
    let mut refused = None;
    for dir in std::env::split_paths(path) {
        let found = wdir.join(dir).join(program);
        match check(&found) {
            Ok(()) => return Ok(found),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => refused = Some(e),
            Err(_) => {}
        }
    }
    // Where the application starts is looked in last, as mpirun does; not where the launcher happens to be.
    let here = wdir.join(program);
    if refused.is_none() && !wdir.as_os_str().is_empty() && check(&here).is_ok() {
        return Ok(here);
    }
    Err(refused.unwrap_or_else(|| Errno::NOENT.into()))
}

/// Whether this is a file that may be run.
fn check(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_dir() {
        return Err(Errno::ACCESS.into());
    }
    Ok(access(path, Access::EXEC_OK)?)
}

/// The interpreter that a script names in its first line, if it is not there. The system says of such
/// a script that it is not there itself.
pub(crate) fn missing_interpreter(program: &Path, wdir: &Path) -> Option<PathBuf> {
    // What the kernel looks at.
    let mut head = [0; 256];
    // A pipe has nothing to wait for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(program, flags, Mode::empty()).ok()?;
    let len = File::from(opened).read(&mut head).ok()?;
    let line = head[..len].strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let word = line.split(|byte| b" \t".contains(byte)).next()?;
    if word.is_empty() {
        return None;
    }
    let named = Path::new(OsStr::from_bytes(word));
    let missing = wdir.join(named).metadata().err()?;
    (missing.kind() == io::ErrorKind::NotFound).then(|| named.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn put(path: &Path, mode: u32) {
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_name_is_searched_for_and_a_path_is_taken_from_where_it_starts() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&second).unwrap();
        put(&second.join("prog"), 0o755);
        fs::create_dir(first.join("prog")).unwrap();
        let path = std::env::join_paths([&first, &second]).unwrap();
        let find = |program: &str| super::find(program.as_ref(), Some(&path), dir.path());
        assert_eq!(find("prog").unwrap(), second.join("prog"));
        assert_eq!(find("b/prog").unwrap(), second.join("prog"));
        put(&dir.path().join("here"), 0o755);
        assert_eq!(find("here").unwrap(), dir.path().join("here"));
        let elsewhere = super::find("here".as_ref(), Some(&path), Path::new(""));
        assert_eq!(elsewhere.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(find("absent").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(find("./prog").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn an_interpreter_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        for (line, missing) in [
            ("#!/bin/sh", None),
            ("#! /no/such/python3 -u\nx", Some("/no/such/python3")),
            ("#!/no/such", Some("/no/such")),
            ("#!sh", Some("sh")),
            ("#!\n", None),
            ("no script", None),
        ] {
            fs::write(&script, line).unwrap();
            let found = missing_interpreter(&script, dir.path());
            assert_eq!(found.as_deref(), missing.map(Path::new), "{line}");
        }
    }

    #[test]
    fn what_may_not_be_run_is_told_apart_from_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("text"), 0o644);
        for program in ["text", "./text", "./"] {
            let path = Some(dir.path().as_os_str());
            let error = find(program.as_ref(), path, dir.path()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{program}");
        }
    }
}

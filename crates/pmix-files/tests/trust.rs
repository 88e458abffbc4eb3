// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of trust in files, and of creating files in shared directories.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use pmix_files::{Fault, Trust, append, create, read_regular};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

const MOST: u64 = 1 << 20;

/// The id of a user who is neither root nor the one who runs the test.
const STRANGER: u32 = 54_321;

struct Place {
    root: TempDir,
}

impl Place {
    /// Creates a private directory of this user, with a subdirectory `sub`.
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("sub")).unwrap();
        let place = Self { root };
        place.mode("sub", 0o755);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn file(&self, name: &str) -> PathBuf {
        fs::write(self.path(name), "text").unwrap();
        self.mode(name, 0o644);
        self.path(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    fn me(&self) -> u32 {
        fs::metadata(self.root.path()).unwrap().uid()
    }

    /// Returns the trust of a user who does not own these files. As root, gives the files to
    /// another user.
    fn other(&self, names: &[&str]) -> Trust {
        if self.me() != 0 {
            return Trust::in_user(STRANGER);
        }
        for name in names {
            chown(self.path(name), Some(STRANGER), None).unwrap();
        }
        Trust::of_process()
    }
}

fn read(path: &Path) -> Result<String, Fault> {
    Trust::of_process().read(path, MOST)
}

/// Returns the path and the mode of the fault.
fn culprit(result: Result<String, Fault>) -> (PathBuf, u32) {
    match result {
        Err(Fault::Untrusted { path, mode, .. }) => (path, mode),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_own_file_is_trusted_even_below_a_sticky_directory() {
    let place = Place::new();
    assert_eq!(read(&place.file("a")).unwrap(), "text");
    place.mode("sub", 0o1777);
    assert_eq!(read(&place.file("sub/a")).unwrap(), "text");
    assert_eq!(
        read(Path::new("/etc/passwd")).unwrap(),
        fs::read_to_string("/etc/passwd").unwrap()
    );
}

// Planted: a file of any owner is trusted.
#[test]
fn a_file_of_another_user_is_not_trusted() {
    let place = Place::new();
    let path = place.file("sub/a");
    let fault = place.other(&["sub/a"]).read(&path, MOST).unwrap_err();
    let text = fault.to_string();
    assert!(
        text.contains("mode 0644") && text.contains("belongs to"),
        "{text}"
    );
    // A file that another user created in a shared directory is not trusted, either.
    place.mode("sub", 0o1777);
    let fault = place.other(&["sub/a"]).read(&path, MOST).unwrap_err();
    assert!(matches!(fault, Fault::Untrusted { .. }), "{fault:?}");
}

#[test]
fn a_file_in_a_directory_of_another_user_is_not_trusted() {
    let place = Place::new();
    let path = place.file("sub/a");
    let trust = place.other(&["sub"]);
    let (at, _) = culprit(trust.read(&path, MOST));
    let theirs = if place.me() == 0 { "sub" } else { "" };
    assert_eq!(at, place.path(theirs));
}

#[test]
fn files_writable_by_others_are_not_trusted() {
    let place = Place::new();
    let path = place.file("sub/a");
    for mode in [0o664, 0o646, 0o666] {
        place.mode("sub/a", mode);
        assert_eq!(culprit(read(&path)), (path.clone(), mode));
    }
    place.mode("sub/a", 0o600);
    for mode in [0o775, 0o757, 0o777] {
        place.mode("sub", mode);
        assert_eq!(culprit(read(&path)), (place.path("sub"), mode));
        assert!(matches!(read(&place.path("sub/b")), Err(Fault::Missing)));
    }
    place.mode("sub", 0o1777);
    assert_eq!(read(&path).unwrap(), "text");
}

#[test]
fn irregular_files_are_neither_opened_nor_waited_for() {
    let place = Place::new();
    let fifo = place.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let socket = place.path("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for (path, what) in [
        (fifo.as_path(), "a pipe"),
        (&socket, "a socket"),
        (&place.path("sub"), "a directory"),
        (Path::new("/dev/zero"), "a device"),
        (Path::new("/"), "a directory"),
    ] {
        let fault = read(path).unwrap_err();
        assert!(
            matches!(fault, Fault::NotRegular { kind, .. } if kind == what),
            "{fault:?}"
        );
    }
}

#[test]
fn follows_links_only_if_no_other_user_could_have_made_them() {
    let place = Place::new();
    let target = place.file("a");
    symlink("../a", place.path("sub/link")).unwrap();
    symlink(place.path("sub"), place.path("way")).unwrap();
    let opened = Trust::of_process()
        .open(&place.path("way/link"), MOST)
        .unwrap();
    assert_eq!(opened.path, target.canonicalize().unwrap());
    symlink("loop", place.path("loop")).unwrap();
    assert_eq!(read(&place.path("loop")), Err(Fault::Links));
    symlink("nowhere", place.path("dangling")).unwrap();
    assert_eq!(read(&place.path("dangling")), Err(Fault::Missing));
    place.mode("sub", 0o777);
    assert_eq!(
        culprit(read(&place.path("sub/link"))),
        (place.path("sub"), 0o777)
    );
    // Other users can write to `sub` and so replace `sub/inner`, although they cannot write to `sub/inner`.
    fs::create_dir(place.path("sub/inner")).unwrap();
    place.file("sub/inner/a");
    symlink("sub/inner/a", place.path("into")).unwrap();
    assert_eq!(
        culprit(read(&place.path("into"))),
        (place.path("sub"), 0o777)
    );
}

#[test]
fn a_large_file_is_refused_by_its_size() {
    let place = Place::new();
    let path = place.file("a");
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    assert_eq!(read(&path), Err(Fault::TooLarge { most: MOST }));
    assert!(Trust::of_process().open(&path, 1 << 40).is_ok());
}

// Planted: all users may read traces and output files.
#[test]
fn created_files_are_private() {
    let place = Place::new();
    let path = place.path("sub/out");
    for before in [None, Some(0o666)] {
        if let Some(mode) = before {
            fs::write(&path, "the previous content").unwrap();
            place.mode("sub/out", mode);
        }
        create(&path).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }
    create(Path::new("/dev/null"))
        .unwrap()
        .write_all(b"gone")
        .unwrap();
    assert!(create(&place.path("sub")).is_err());
}

#[test]
fn does_not_write_to_objects_of_others() {
    let place = Place::new();
    let precious = place.file("precious");
    symlink(&precious, place.path("sub/link")).unwrap();
    fs::hard_link(&precious, place.path("sub/name")).unwrap();
    // In an own directory, both the link and the file are trusted.
    create(&place.path("sub/link")).unwrap();
    fs::write(&precious, "text").unwrap();
    place.mode("sub", 0o777);
    for name in ["sub/link", "sub/name"] {
        let error = create(&place.path(name)).unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::PermissionDenied,
            "{name}: {error}"
        );
    }
    assert_eq!(fs::read(&precious).unwrap(), b"text");
    create(&place.path("sub/new")).unwrap();
    if place.me() == 0 {
        place.mode("sub", 0o1777);
        place.file("sub/theirs");
        chown(place.path("sub/theirs"), Some(STRANGER), None).unwrap();
        let error = create(&place.path("sub/theirs")).unwrap_err().to_string();
        assert!(error.contains("belongs to user 54321"), "{error}");
        std::os::unix::fs::lchown(place.path("sub/link"), Some(STRANGER), None).unwrap();
        assert!(create(&place.path("sub/link")).is_err());
    }
}

#[test]
fn input_is_a_bounded_regular_file_of_any_owner() {
    let place = Place::new();
    let path = place.file("input");
    place.mode("input", 0o666);
    fs::write(&path, "12345678").unwrap();
    assert_eq!(read_regular(&path, 8).unwrap(), b"12345678");
    assert_eq!(
        read_regular(&path, 7).unwrap_err(),
        Fault::TooLarge { most: 7 }
    );
    // The pipe has no writer, but opening it must not block.
    let pipe = place.path("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for path in [
        pipe.as_path(),
        place.path("sub").as_path(),
        Path::new("/dev/zero"),
    ] {
        let fault = read_regular(path, 8).unwrap_err();
        assert!(matches!(fault, Fault::NotRegular { .. }), "{fault}");
    }
    assert_eq!(
        read_regular(&place.path("absent"), 8).unwrap_err(),
        Fault::Missing
    );
}

#[test]
fn appending_keeps_the_content_under_every_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, "a").unwrap();
    let open = File::open(&path).unwrap();
    let of_descriptor = format!("/dev/fd/{}", open.as_raw_fd());
    for (name, text) in [(path.as_path(), "b"), (Path::new(&of_descriptor), "c")] {
        let mut file = append(name).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "abc");
    create(Path::new(&of_descriptor)).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "");
}

// SPDX-License-Identifier: MIT OR Apache-2.0

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use pmix_types::Status;
use tempfile::TempDir;

use super::*;

const ALL: Offers = Offers {
    tools: true,
    session: true,
    system: true,
    scheduler: true,
    controller: true,
};

/// The start time of the server of these tests, the same for all tests.
static STARTED: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

fn contact() -> Contact {
    Contact {
        uri: "server.0;tcp4://127.0.0.1:4711".to_owned(),
        release: "5.0.11".to_owned(),
        pid: std::process::id(),
        user: (1, 2),
        started: *STARTED,
    }
}

fn open(top: &TempDir, offers: Offers) -> Result<Rendezvous, Error> {
    let places = Locations {
        server_dir: &top.path().join("session"),
        system_dir: top.path(),
        host: "n01",
        nspace: "server".to_owned(),
        mode: 0o600,
    };
    Rendezvous::open(offers, &places, &contact())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

/// Writes the file of a server that has exited.
fn leave(path: &Path) {
    let dead = Contact {
        pid: i32::MAX.unsigned_abs() - 7,
        ..contact()
    };
    fs::write(path, dead.text()).unwrap();
}

#[test]
fn files_are_there_while_the_server_is() {
    let top = tempfile::tempdir().unwrap();
    let files = open(&top, ALL).unwrap();
    let pid = format!("pmix.n01.tool.{}", std::process::id());
    let session = ["pmix.n01.tool", pid.as_str(), "pmix.n01.tool.server"];
    assert_eq!(names(&top.path().join("session")), session);
    assert_eq!(
        names(top.path()),
        [
            "pmix.sched.n01",
            "pmix.sys.n01",
            "pmix.sysctrlr.n01",
            "session"
        ]
    );
    let sys = top.path().join("pmix.sys.n01");
    assert_eq!(fs::read_to_string(&sys).unwrap(), contact().text());
    assert_eq!(
        fs::metadata(&sys).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    assert_eq!(files.paths().len(), 6);
    drop(files);
    assert_eq!(names(top.path()), [""; 0]);
}

#[test]
fn a_server_that_offers_nothing_touches_nothing() {
    let top = tempfile::tempdir().unwrap();
    let files = open(&top, Offers::default()).unwrap();
    assert!(files.paths().is_empty());
    assert_eq!(names(top.path()), [""; 0]);
}

#[test]
fn a_second_server_reports_the_first_one() {
    let top = tempfile::tempdir().unwrap();
    let first = open(&top, ALL).unwrap();
    let error = open(&top, ALL).unwrap_err();
    assert_eq!(error.status(), Status::ERR_EXISTS);
    let pid = format!("process {}", std::process::id());
    for part in [
        "pmix.sys.n01",
        "in use by another server",
        &pid,
        "server.0;tcp4://127.0.0.1:4711",
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(first.paths().iter().filter(|path| path.exists()).count(), 6);
}

#[test]
fn files_of_killed_servers_are_removed() {
    let top = tempfile::tempdir().unwrap();
    let session = top.path().join("session");
    fs::create_dir(&session).unwrap();
    for name in ["pmix.n01.tool.99", "pmix.n01.tool.gone", "pmix.n02.tool.99"] {
        leave(&session.join(name));
    }
    // An incomplete file of a killed server, and files of other programs.
    leave(&session.join(".pmix.n01.tool.7.99.123"));
    fs::write(session.join("pmix.n01.tool.mine"), "mine").unwrap();
    symlink("pmix.n02.tool.99", session.join("pmix.n01.tool.link")).unwrap();
    drop(open(&top, ALL).unwrap());
    let kept = [
        "pmix.n01.tool.link",
        "pmix.n01.tool.mine",
        "pmix.n02.tool.99",
    ];
    assert_eq!(names(&session), kept);
}

#[test]
fn files_of_dead_servers_are_replaced() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("pmix.sys.n01");
    for left in [contact().text().replace("4711\n", "4711\n5"), String::new()] {
        fs::write(&path, left).unwrap();
        leave(&path);
        let files = open(
            &top,
            Offers {
                system: true,
                ..Offers::default()
            },
        )
        .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), contact().text());
        drop(files);
        assert_eq!(names(top.path()), [""; 0]);
    }
}

#[test]
fn a_reused_process_id_is_not_a_running_server() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("pmix.sys.n01");
    fs::write(&path, contact().text()).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(30 * 86_400);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(long_ago).unwrap();
    let system = Offers {
        system: true,
        ..Offers::default()
    };
    assert!(open(&top, system).is_ok());
}

#[test]
fn planted_links_and_other_files_are_neither_followed_nor_replaced() {
    let system = Offers {
        system: true,
        ..Offers::default()
    };
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("pmix.sys.n01");
    let victim = top.path().join("victim");
    for target in [&victim, &top.path().join("nowhere")] {
        fs::write(&victim, "precious").unwrap();
        symlink(target, &path).unwrap();
        let error = open(&top, system).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(names(top.path()), ["pmix.sys.n01", "victim"]);
        fs::remove_file(&path).unwrap();
    }
    fs::create_dir(&path).unwrap();
    let error = open(&top, system).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

/// A user that owns no other file.
const NOBODY: u32 = 65_534;

#[test]
#[ignore = "needs root"]
fn root_replaces_files_of_other_users_at_its_path() {
    let system = Offers {
        system: true,
        ..Offers::default()
    };
    let top = tempfile::tempdir().unwrap();
    fs::set_permissions(top.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let path = top.path().join("pmix.sys.n01");
    let victim = top.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    type Plant<'a> = &'a dyn Fn();
    let plants: [Plant<'_>; 5] = [
        // It names a live process that does not belong to that user.
        &|| fs::write(&path, contact().text()).unwrap(),
        &|| fs::write(&path, "").unwrap(),
        &|| symlink(&victim, &path).unwrap(),
        &|| fs::create_dir(&path).unwrap(),
        &|| drop(std::os::unix::net::UnixListener::bind(&path).unwrap()),
    ];
    for plant in plants {
        plant();
        std::os::unix::fs::lchown(&path, Some(NOBODY), None).unwrap();
        let files = open(&top, system).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), contact().text());
        assert_eq!(names(top.path()), ["pmix.sys.n01", "victim"]);
        drop(files);
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
#[ignore = "needs root"]
fn a_live_server_of_another_user_keeps_its_place_and_is_named() {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    let top = tempfile::tempdir().unwrap();
    fs::set_permissions(top.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let path = top.path().join("pmix.sys.n01");
    // The kernel's owner of a listening socket is the user of the process that opened it.
    let program = "import os, socket, sys\n\
                   s = socket.create_server(('127.0.0.1', 0))\n\
                   print(s.getsockname()[1], flush=True)\n\
                   sys.stdin.read()";
    let mut server = Command::new("python3")
        .args(["-c", program])
        .uid(NOBODY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    let output = server.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut port).unwrap();
    let contact = Contact {
        uri: format!("other.0;tcp4://127.0.0.1:{}", port.trim()),
        pid: server.id(),
        ..contact()
    };
    fs::write(&path, contact.text()).unwrap();
    std::os::unix::fs::chown(&path, Some(NOBODY), None).unwrap();
    let system = Offers {
        system: true,
        ..Offers::default()
    };
    let error = open(&top, system).unwrap_err().to_string();
    let expected = format!(
        "in use by another server: process {} of user {NOBODY}, other.0;",
        server.id()
    );
    assert!(error.contains(&expected), "{error}");
    drop(server.stdin.take());
    server.wait().unwrap();
    assert!(open(&top, system).is_ok());
}

#[test]
fn a_replaced_file_is_kept() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("pmix.sys.n01");
    let files = open(
        &top,
        Offers {
            system: true,
            ..Offers::default()
        },
    )
    .unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "of another server").unwrap();
    drop(files);
    assert_eq!(fs::read_to_string(&path).unwrap(), "of another server");
}

#[test]
fn one_file_can_be_put_anywhere() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("uri");
    let mut files = Rendezvous::default();
    files.add(&path, &contact(), 0o666).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o644
    );
    assert_eq!(files.paths(), [path]);
}

#[test]
fn servers_that_start_at_once_over_a_stale_file_leave_one() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("pmix.sys.n01");
    for _ in 0..50 {
        leave(&path);
        let won: Vec<bool> = std::thread::scope(|scope| {
            let one = || {
                let files = open(
                    &top,
                    Offers {
                        system: true,
                        ..Offers::default()
                    },
                );
                let won = files.is_ok();
                // The winner keeps its files until all have tried.
                std::mem::forget(files);
                won
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        assert_eq!(names(top.path()), ["pmix.sys.n01"]);
        fs::remove_file(&path).unwrap();
    }
}

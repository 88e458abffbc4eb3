// SPDX-License-Identifier: MIT OR Apache-2.0
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// A directory with servers' files in it, for a node `n01`.
struct Node {
    top: TempDir,
    vars: Vec<(String, String)>,
}

impl Node {
    fn new() -> Self {
        Self {
            top: tempfile::tempdir().unwrap(),
            vars: Vec::new(),
        }
    }

    /// Writes the file of a server that runs as long as this process.
    fn live(&self, path: &str, name: &str) -> PathBuf {
        self.file(path, &text(name, std::process::id()))
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.top.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn search(&self, target: Target) -> Search {
        let vars = self.vars.iter();
        let environment = Environment {
            vars: vars
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: "/".into(),
            home: None,
            system: "/etc".into(),
        };
        Search::of(&environment)
            .host("n01")
            .server_dir(self.top.path())
            .system_dir(self.top.path().join("system"))
            .target(target)
    }

    fn find(&self, target: Target) -> Result<String, Error> {
        let found = self.search(target).find()?;
        Ok(found.uri.server.nspace.to_string())
    }
}

fn text(name: &str, pid: u32) -> String {
    format!("{name}.0;tcp4://127.0.0.1:4711\n5.0.11\n{pid}\n1000:100\nThu Jan  1 00:00:00 1970\n\n")
}

/// No process has this number: they end far below.
const DEAD: u32 = i32::MAX.unsigned_abs() - 7;

#[test]
fn the_environment_comes_first_then_the_system_then_the_only_session() {
    let mut node = Node::new();
    node.live("session.1/pmix.n01.tool.77", "session");
    assert_eq!(node.find(Target::Any).unwrap(), "session");
    node.live("system/pmix.sys.n01", "system");
    assert_eq!(node.find(Target::Any).unwrap(), "system");
    assert_eq!(node.find(Target::SystemFirst).unwrap(), "system");
    assert_eq!(node.find(Target::Session).unwrap(), "session");
    let uri = |name: &str| format!("{name}.0;tcp4://127.0.0.1:1");
    node.vars = vec![("PMIX_SERVER_URI41".to_owned(), uri("parent"))];
    assert_eq!(node.find(Target::Any).unwrap(), "parent");
    assert_eq!(node.find(Target::SystemFirst).unwrap(), "system");
    assert_eq!(node.find(Target::Uri(uri("other"))).unwrap(), "other");
    node.vars[0].1 = "nonsense".to_owned();
    let error = node.find(Target::Any).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn several_sessions_are_an_error_that_lists_them() {
    let node = Node::new();
    let first = node.live("a/dvm.1/pmix.n01.tool.77", "first");
    // The same server, by its other files.
    node.live("a/dvm.1/pmix.n01.tool", "first");
    assert_eq!(node.find(Target::Any).unwrap(), "first");
    node.live("b/pmix.n01.tool.second", "second");
    node.live("b/pmix.n02.tool.78", "of another node");
    let error = node.find(Target::Any).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    let said = error.to_string();
    let pid = std::process::id().to_string();
    for part in ["2 servers", "first", "second", &pid] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(node.find(Target::Pid(77)).unwrap(), "first");
    assert_eq!(
        node.find(Target::Nspace("second".into())).unwrap(),
        "second"
    );
    assert_eq!(node.find(Target::File(first.clone())).unwrap(), "first");
    let by_file = format!("file:{}", first.display());
    assert_eq!(node.find(Target::Uri(by_file)).unwrap(), "first");
    let listing = node.search(Target::Any).list();
    let names = listing
        .servers
        .iter()
        .map(|found| found.uri.server.nspace.to_string());
    assert_eq!(names.collect::<Vec<_>>(), ["first", "second"]);
    let error = node.find(Target::Pid(79)).unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNREACH);
}

#[test]
fn servers_with_the_same_name_are_distinguished_by_their_addresses() {
    let node = Node::new();
    node.live("a/pmix.n01.tool.77", "mine");
    // The same server, by its other file, and as that of the system.
    node.live("a/pmix.n01.tool", "mine");
    node.live("system/pmix.sys.n01", "mine");
    let other = text("mine", std::process::id()).replace("4711", "4712");
    node.file("b/pmix.n01.tool.78", &other);
    let servers = node.search(Target::Any).list().servers;
    let ports: Vec<_> = { servers.iter() }
        .map(|found| found.uri.address.port())
        .collect();
    assert_eq!(ports, [4711, 4712]);
}

#[test]
fn files_of_dead_servers_are_recognized() {
    let node = Node::new();
    let dead = node.file("a/pmix.n01.tool.77", &text("gone", DEAD));
    for target in [Target::Any, Target::Pid(77), Target::File(dead)] {
        let error = node.find(target).unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNREACH);
        assert!(error.to_string().contains("gone is not running"), "{error}");
    }
    // A dead server does not hide one that is running.
    node.live("b/pmix.n01.tool.78", "session");
    assert_eq!(node.find(Target::Any).unwrap(), "session");
    assert_eq!(node.search(Target::Any).list().passed_over.len(), 1);
}

#[test]
fn planted_files_are_refused() {
    let node = Node::new();
    let planted = node.live("a/pmix.n01.tool.77", "planted");
    let writable = fs::Permissions::from_mode(0o666);
    fs::set_permissions(&planted, writable).unwrap();
    for target in [Target::Any, Target::Pid(77), Target::File(planted.clone())] {
        let error = node.find(target).unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNREACH);
        assert!(error.to_string().contains("it is rejected"), "{error}");
    }
    // Neither is one in a directory where others may replace it.
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(node.find(Target::Pid(77)).unwrap(), "planted");
    let parent = planted.parent().unwrap();
    fs::set_permissions(parent, fs::Permissions::from_mode(0o777)).unwrap();
    let error = node.find(Target::Pid(77)).unwrap_err();
    assert!(error.to_string().contains("it is rejected"), "{error}");
}

#[test]
fn other_files_are_ignored() {
    let node = Node::new();
    node.file("a/pmix.n01.tool.1", "");
    node.file("a/pmix.n01.tool.2", "no uri\n5\n6\n");
    node.file("a/pmix.n01.tool.3", "s.0;usock:/tmp/x\n5\n6\n");
    node.file("a/pmix.n01.tool.4", &"x".repeat(5000));
    fs::create_dir(node.top.path().join("a/pmix.n01.tool.5")).unwrap();
    symlink("/tmp", node.top.path().join("a/link")).unwrap();
    let listing = node.search(Target::Any).list();
    assert_eq!((listing.servers.len(), listing.passed_over.len()), (0, 4));
    let said = node.find(Target::Any).unwrap_err().to_string();
    for number in 1..=4 {
        assert!(
            said.contains(&format!("pmix.n01.tool.{number}: ")),
            "{said}"
        );
    }
}

#[test]
fn a_server_that_starts_between_two_attempts_is_found() {
    let node = Node::new();
    let search = node
        .search(Target::Any)
        .tries(1500, Duration::from_millis(20));
    let made = std::thread::scope(|scope| {
        let found = scope.spawn(|| search.find());
        std::thread::sleep(Duration::from_millis(50));
        // Whole at once, as servers put it in its place.
        let path = node.live("late", "late");
        fs::rename(path, node.top.path().join("pmix.n01.tool.77")).unwrap();
        found.join().unwrap()
    });
    assert_eq!(made.unwrap().uri.server.nspace, "late");
}

#[test]
fn files_of_other_nodes_are_ignored_unless_named() {
    let node = Node::new();
    // No node has an address that is reserved for documentation (RFC 5737).
    let elsewhere = text("elsewhere", std::process::id()).replace("127.0.0.1", "192.0.2.1");
    let path = node.file("session.1/pmix.n01.tool.5", &elsewhere);
    let error = node.find(Target::Any).unwrap_err();
    assert_eq!(error.status(), Status::ERR_UNREACH);
    let said = error.to_string();
    assert!(
        said.contains("192.0.2.1:4711 is not an address of this node"),
        "{said}"
    );
    assert_eq!(
        node.find(Target::Pid(5)).unwrap_err().status(),
        Status::ERR_UNREACH
    );
    assert_eq!(node.find(Target::File(path)).unwrap(), "elsewhere");
    node.live("session.2/pmix.n01.tool.6", "here");
    assert_eq!(node.find(Target::Any).unwrap(), "here");
}

#[test]
fn files_that_fill_a_directory_are_counted_in_one_line() {
    let node = Node::new();
    for number in 0..100 {
        node.file(
            &format!("pmix.n01.tool.{number}"),
            &text("dead", 2_147_483_640),
        );
    }
    node.live("session/pmix.n01.tool.1", "live");
    let listing = node.search(Target::Any).list();
    assert_eq!(listing.servers.len(), 1);
    assert_eq!(listing.passed_over.len(), MAX_PASSED_OVER + 1);
    let last = listing.passed_over.last().unwrap();
    assert_eq!((last.path.as_path(), last.is_dead), (node.top.path(), true));
    assert_eq!(
        last.reason,
        "84 more files below it belong to servers that have exited"
    );
    let error = node.find(Target::Pid(7)).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 2, "{error}");
}

#[test]
#[ignore = "needs root"]
fn files_of_another_user_that_fill_a_directory_are_not_opened() {
    let node = Node::new();
    fs::set_permissions(node.top.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    for number in 0..100 {
        let path = node.live(&format!("pmix.n01.tool.{number}"), "planted");
        std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
    }
    node.live("session/pmix.n01.tool.1", "live");
    let listing = node.search(Target::Any).list();
    assert_eq!(listing.servers.len(), 1);
    let reasons: Vec<_> = listing
        .passed_over
        .iter()
        .map(|passed| &passed.reason)
        .collect();
    assert_eq!(reasons.len(), 5, "{reasons:?}");
    assert!(reasons[0].contains("65534"), "{reasons:?}");
    assert!(
        reasons[4].starts_with("96 more files below it are ignored"),
        "{reasons:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn root_uses_a_file_of_another_user_only_for_that_users_process_and_socket() {
    let node = Node::new();
    fs::set_permissions(node.top.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let give = |path: &Path, user| std::os::unix::fs::chown(path, Some(user), None).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut sleep = Command::new("sleep")
        .arg("1000")
        .uid(65_534)
        .spawn()
        .unwrap();
    let of = |pid| text("planted", pid).replace("127.0.0.1:4711", &address);
    let (of_root, of_other) = (of(std::process::id()), of(sleep.id()));
    // In the shared directory, and in a directory of the other user.
    let paths = ["pmix.n01.tool.1", "mine/pmix.n01.tool.2"];
    for (text, why) in [
        (&of_root, "belongs to user 0"),
        (&of_other, "no socket of this user listens at 127.0.0.1:"),
    ] {
        for path in paths {
            let path = node.file(path, text);
            give(&path, 65_534);
            give(
                path.parent().unwrap(),
                if path.ends_with(paths[0]) { 0 } else { 65_534 },
            );
        }
        let listing = node.search(Target::Any).all_users().list();
        assert_eq!((listing.servers.len(), listing.passed_over.len()), (0, 2));
        let are_named = { listing.passed_over.iter() }.all(|passed| passed.reason.contains(why));
        assert!(are_named, "{:?}", listing.passed_over);
        let file = node.top.path().join(paths[0]);
        for target in [Target::Pid(1), Target::File(file)] {
            let error = node.search(target).all_users().find().unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
    // A file of root in a directory of the other user could have been moved there.
    let moved = node.live("mine/pmix.n01.tool.4", "moved");
    give(&moved, 0);
    symlink(node.top.path(), node.top.path().join("mine/link")).unwrap();
    let listing = node.search(Target::Any).all_users().list();
    assert_eq!((listing.servers.len(), listing.passed_over.len()), (0, 2));
    sleep.kill().unwrap();
    sleep.wait().unwrap();
}

#[test]
#[ignore = "needs root"]
fn files_of_one_user_do_not_hide_those_of_another_from_root() {
    let node = Node::new();
    fs::set_permissions(node.top.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    for number in 0..200 {
        let path = node.live(&format!("pmix.n01.tool.{number}"), "planted");
        std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
    }
    let path = node.live("pmix.n01.tool.zzz", "other");
    std::os::unix::fs::chown(&path, Some(65_533), None).unwrap();
    let listing = node.search(Target::Any).all_users().list();
    assert_eq!(listing.passed_over.len(), MAX_PASSED_OVER + 1);
    // The second file that is looked at is the only one of the second user.
    let first: Vec<_> = listing.passed_over[..2]
        .iter()
        .map(|passed| &passed.path)
        .collect();
    assert!(first.contains(&&path), "{first:?}");
    let last = &listing.passed_over[MAX_PASSED_OVER].reason;
    assert!(last.starts_with("185 more files"), "{last}");
}

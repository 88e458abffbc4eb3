// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with a configuration of another user in the working directory. Its libraries must not be
//! loaded, its settings must be ignored, and the command must work as without it.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Outcome, command, finish};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};
use rustix::process::geteuid;
use tempfile::TempDir;

/// A user that is neither root nor the user of the tests.
const STRANGER: u32 = 54_321;

/// Commands that read the configuration.
const COMMANDS: &[&[&str]] = &[
    &["map", "count", "n[1-3]"],
    &["info"],
    &["plugins", "list"],
    &["run", "-n", "1", "true"],
    &["wire", "decode", "--hex", "00"],
];

/// A directory with a library that creates a file when it is loaded.
struct Trap {
    root: TempDir,
}

impl Trap {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        let trap = Self { root };
        for directory in ["cwd", "user", "user/.pmix"] {
            fs::create_dir(trap.path(directory)).unwrap();
            trap.mode(directory, 0o755);
        }
        // Every user can create the marker file.
        fs::create_dir(trap.path("mark")).unwrap();
        trap.mode("mark", 0o777);
        let source = format!(
            "#include <stdio.h>\n\
             __attribute__((constructor)) static void left(void)\n\
             {{ FILE *f = fopen(\"{}\", \"w\"); if (f) fclose(f); }}\n",
            trap.path("mark/ran").display()
        );
        fs::write(trap.path("trap.c"), source).unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "the compiler is chosen by the environment"
        )]
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built = Command::new(compiler)
            .args(["-shared", "-fPIC", "-o"])
            .args([trap.path("trap.so"), trap.path("trap.c")])
            .status();
        assert!(built.expect("a C compiler").success());
        trap.mode("trap.so", 0o755);
        trap
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns a copy of the command that every user can reach.
    fn copy_of_command(&self, name: &str) -> PathBuf {
        let program = self.path(name);
        // Copy in another process. If this process wrote the file, children of other threads could
        // inherit the descriptor, and a file that is open for writing cannot be executed.
        let mut copy = Command::new("cp");
        copy.arg(env!("CARGO_BIN_EXE_pmix")).arg(&program);
        assert!(copy.status().unwrap().success());
        self.mode(name, 0o755);
        program
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    /// Writes a configuration that names the library.
    fn plant(&self, name: &str) {
        let library = self.path("trap.so").display().to_string();
        let text = format!("[[plugin]]\npath = {library:?}\n[preg]\nselect = \"raw\"\n");
        fs::write(self.path(name), text).unwrap();
        self.mode(name, 0o644);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.current_dir(self.path("cwd"));
        command
            .env("HOME", self.path("user"))
            .env("PATH", "/usr/bin:/bin");
        command
    }

    /// Returns `true` if the library was loaded, and removes the marker file.
    fn ran(&self) -> bool {
        fs::remove_file(self.path("mark/ran")).is_ok()
    }

    /// Runs every command. Each must print one warning about the file and continue without it.
    fn is_left_out(&self, file: &str, parts: &[&str]) {
        for args in COMMANDS {
            let without = self.without(args);
            let outcome = finish(self.command(args), b"");
            assert!(!self.ran(), "{args:?}: code of another user ran");
            assert_eq!(outcome.code, without.code, "{args:?}: {}", outcome.stderr);
            assert_eq!(outcome.text(), without.text(), "{args:?}");
            let about = |line: &&str| line.starts_with("warning:") && line.contains("is not read");
            let warnings: Vec<_> = outcome.stderr.lines().filter(about).collect();
            assert_eq!(warnings.len(), 1, "{args:?}: {}", outcome.stderr);
            let path = self.path(file).display().to_string();
            for part in parts.iter().chain([&path.as_str()]) {
                assert!(
                    warnings[0].contains(part),
                    "{args:?}: {} in {}",
                    part,
                    warnings[0]
                );
            }
        }
    }

    fn without(&self, args: &[&str]) -> Outcome {
        let mut command = self.command(args);
        command.current_dir("/");
        finish(command, b"")
    }
}

#[test]
fn configuration_of_the_user_is_obeyed() {
    let trap = Trap::new();
    for file in ["cwd/plugins.toml", "user/.pmix/plugins.toml"] {
        trap.plant(file);
        let outcome = finish(trap.command(&["map", "encode", "n1,n2"]), b"");
        assert_eq!(outcome.text(), "raw:n1,n2", "{file}: {}", outcome.stderr);
        assert!(trap.ran(), "{file}");
        fs::remove_file(trap.path(file)).unwrap();
    }
}

#[test]
fn a_file_that_others_may_write_to_is_left_out() {
    let trap = Trap::new();
    trap.plant("cwd/plugins.toml");
    trap.mode("cwd/plugins.toml", 0o664);
    trap.is_left_out("cwd/plugins.toml", &["mode 0664", "chmod go-w"]);
}

#[test]
fn a_directory_that_others_may_write_to_configures_nothing() {
    let trap = Trap::new();
    trap.plant("cwd/plugins.toml");
    for mode in [0o775, 0o777] {
        trap.mode("cwd", mode);
        trap.is_left_out(
            "cwd/plugins.toml",
            &["cwd belongs to", &format!("mode {mode:04o}")],
        );
    }
    // As in /tmp, own files in a sticky directory are trusted.
    trap.mode("cwd", 0o1777);
    let outcome = finish(trap.command(&["map", "encode", "n1,n2"]), b"");
    assert_eq!(outcome.text(), "raw:n1,n2", "{}", outcome.stderr);
    assert!(trap.ran());
}

#[test]
#[ignore = "needs root"]
fn a_file_of_another_user_is_left_out_in_every_directory() {
    let trap = Trap::new();
    trap.plant("cwd/plugins.toml");
    chown(trap.path("cwd/plugins.toml"), Some(STRANGER), None).unwrap();
    let parts = [
        "belongs to user 54321, mode 0644",
        "only what belongs to root is trusted",
    ];
    trap.is_left_out("cwd/plugins.toml", &parts);
    trap.mode("cwd", 0o1777);
    trap.is_left_out("cwd/plugins.toml", &parts);
    chown(trap.path("cwd"), Some(STRANGER), None).unwrap();
    chown(trap.path("cwd/plugins.toml"), Some(0), None).unwrap();
    trap.mode("cwd", 0o755);
    trap.is_left_out(
        "cwd/plugins.toml",
        &["cwd belongs to user 54321, mode 0755"],
    );
}

#[test]
fn special_files_are_ignored_immediately() {
    let trap = Trap::new();
    let at = trap.path("cwd/plugins.toml");
    mknodat(CWD, &at, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    trap.is_left_out("cwd/plugins.toml", &["a pipe of user", "mode 0600"]);
    fs::remove_file(&at).unwrap();
    fs::create_dir(&at).unwrap();
    trap.is_left_out("cwd/plugins.toml", &["a directory of user"]);
    fs::remove_dir(&at).unwrap();
    symlink("/dev/zero", &at).unwrap();
    trap.is_left_out("cwd/plugins.toml", &["a device of user 0"]);
    fs::remove_file(&at).unwrap();
    File::create(&at).unwrap().set_len(1 << 42).unwrap();
    trap.mode("cwd/plugins.toml", 0o644);
    trap.is_left_out("cwd/plugins.toml", &["more than 4194304 bytes"]);
}

#[test]
fn a_link_is_followed_only_if_no_other_user_can_create_it() {
    let trap = Trap::new();
    trap.plant("user/other.toml");
    symlink("../user/other.toml", trap.path("cwd/plugins.toml")).unwrap();
    let outcome = finish(trap.command(&["map", "encode", "n1,n2"]), b"");
    assert_eq!(outcome.text(), "raw:n1,n2", "{}", outcome.stderr);
    assert!(trap.ran());
    trap.mode("cwd", 0o777);
    trap.is_left_out("cwd/plugins.toml", &["cwd belongs to", "mode 0777"]);
}

#[test]
fn a_named_file_that_is_not_trusted_is_an_error() {
    let trap = Trap::new();
    trap.plant("cwd/evil.toml");
    trap.plant("cwd/good.toml");
    trap.mode("cwd/evil.toml", 0o666);
    let map = ["map", "count", "a"];
    let refused = |code, command: Command, parts: &[&str]| {
        let outcome = finish(command, b"");
        assert!(!trap.ran());
        assert_eq!(outcome.code, code, "{}", outcome.stderr);
        for part in parts {
            assert!(
                outcome.stderr.contains(part),
                "{part} in {}",
                outcome.stderr
            );
        }
    };
    let args: Vec<_> = ["--config", "evil.toml"].into_iter().chain(map).collect();
    refused(2, trap.command(&args), &["evil.toml", "mode 0666"]);
    let mut command = trap.command(&map);
    command.env("PMIX_PLUGINS", "evil.toml");
    refused(2, command, &["PMIX_PLUGINS", "evil.toml", "mode 0666"]);
    // A trusted configuration that names an untrusted library.
    trap.mode("trap.so", 0o777);
    let args: Vec<_> = ["--config", "good.toml"].into_iter().chain(map).collect();
    refused(
        2,
        trap.command(&args),
        &["trap.so", "mode 0777", "good.toml:2"],
    );
    let mut command = trap.command(&map);
    command.env("PMIX_MCA_preg_base_plugins", trap.path("trap.so"));
    refused(
        2,
        command,
        &["trap.so", "mode 0777", "PMIX_MCA_preg_base_plugins"],
    );
    refused(
        1,
        trap.command(&["plugins", "check", "../trap.so"]),
        &["trap.so", "mode 0777"],
    );
}

#[test]
fn a_directory_that_may_not_be_searched_fails_no_command() {
    let trap = Trap::new();
    let mut shell = Command::new("/bin/sh");
    shell.args([
        "-c",
        "mkdir d && cd d && chmod 0 ../d && \"$0\" map count a,b; s=$?; chmod 700 \"$PWD\"; exit $s",
    ]);
    // The same, in a directory that another user can access.
    let program = trap.copy_of_command("pmix");
    shell.arg(program).env_clear().env("PATH", "/usr/bin:/bin");
    trap.mode("cwd", 0o777);
    shell.current_dir(trap.path("cwd"));
    if geteuid().is_root() {
        shell.uid(STRANGER).gid(STRANGER);
    }
    let outcome = finish(shell, b"");
    assert_eq!(
        (outcome.code, outcome.text().as_str()),
        (0, "2"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stderr, "");
}

#[test]
#[ignore = "needs root"]
fn a_process_that_gained_rights_obeys_neither_environment_nor_directory() {
    let trap = Trap::new();
    trap.plant("cwd/plugins.toml");
    trap.plant("user/.pmix/plugins.toml");
    type Give = fn(&Path);
    let ways: [(&str, Give); 3] = [
        ("setuid", |program| {
            fs::set_permissions(program, Permissions::from_mode(0o4755)).unwrap()
        }),
        ("setgid", |program| {
            fs::set_permissions(program, Permissions::from_mode(0o2755)).unwrap()
        }),
        // CAP_NET_BIND_SERVICE, permitted and effective: linux/capability.h, revision 2.
        ("capability", |program| {
            let value = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            rustix::fs::setxattr(program, "security.capability", &value, XattrFlags::empty())
                .unwrap();
        }),
    ];
    for (what, give) in ways {
        let program = trap.copy_of_command(what);
        let run = |args: &[&str]| {
            let mut command = Command::new(&program);
            command.args(args).current_dir(trap.path("cwd")).env_clear();
            command.env("HOME", trap.path("user"));
            command.env("PMIX_MCA_preg_base_max_nodes", "3");
            command.env("PMIX_PLUGINS", trap.path("cwd/plugins.toml"));
            command.uid(STRANGER).gid(STRANGER);
            finish(command, b"")
        };
        // Without the privilege the environment is used, which proves that the test has an effect.
        let outcome = run(&["map", "count", "n[1-4]"]);
        assert_eq!(outcome.code, 3, "{what}: {}", outcome.stderr);
        assert!(trap.ran());
        give(&program);
        let outcome = run(&["map", "count", "n[1-4]"]);
        assert_eq!(
            (outcome.code, outcome.text().as_str()),
            (0, "4"),
            "{what}: {}",
            outcome.stderr
        );
        assert!(!trap.ran(), "{what}");
        let config = trap.path("cwd/plugins.toml").display().to_string();
        for args in [["--config", &config], ["--mca", "preg"]] {
            let mut args = args.to_vec();
            if args[0] == "--mca" {
                args.push("raw");
            }
            args.extend(["map", "count", "n1"]);
            let outcome = run(&args);
            assert_eq!(outcome.code, 2, "{what}: {}", outcome.stderr);
            assert!(
                outcome
                    .stderr
                    .contains("privileges that its caller does not have"),
                "{}",
                outcome.stderr
            );
            assert!(!trap.ran(), "{what}");
        }
    }
}

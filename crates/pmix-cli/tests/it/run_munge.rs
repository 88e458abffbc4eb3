// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients and tools of a server that accepts only credentials of MUNGE. The test starts a daemon of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::command::{Running, assert_nothing_left, finish, launcher};

/// A MUNGE daemon in a directory of its own.
struct Daemon {
    home: TempDir,
    child: Child,
}

impl Daemon {
    /// Starts a daemon with a key of this byte.
    fn start(key: u8) -> Self {
        let home = TempDir::new().unwrap();
        // The daemon refuses a directory of its socket that other users cannot search.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let file = |name: &str| home.path().join(name);
        fs::write(file("key"), [key; 1024]).unwrap();
        fs::set_permissions(file("key"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new("/usr/sbin/munged");
        command.args(["--force", "--foreground"]);
        for (option, name) in [
            ("--key-file", "key"),
            ("--socket", "socket"),
            ("--pid-file", "pid"),
            ("--log-file", "log"),
            ("--seed-file", "seed"),
        ] {
            command.arg(format!("{option}={}", file(name).display()));
        }
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let daemon = Self { home, child };
        let began = Instant::now();
        while !daemon.socket().exists() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "munged has no socket"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        daemon
    }

    fn socket(&self) -> PathBuf {
        self.home.path().join("socket")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs munged"]
fn clients_and_tools_prove_their_user_by_munge() {
    let daemon = Daemon::start(7);
    let socket = daemon.socket().display().to_string();
    let program = env!("CARGO_BIN_EXE_pmix");
    // The ranks have the socket from the server.
    let words = [
        "-n",
        "2",
        "--node-name",
        "n1",
        "--nspace",
        "job@1",
        program,
        "hello",
        "--fences",
        "2",
    ];
    let (mut command, tmp) = launcher(&words);
    command
        .env("PMIX_MCA_psec", "munge")
        .env("PMIX_MCA_psec_munge_socket", &socket);
    let outcome = finish(command, b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(
        outcome.text().matches("2 peers replied").count(),
        2,
        "{}",
        outcome.text()
    );
    assert_nothing_left(&tmp);

    let script =
        "echo \"$PMIX_SECURITY_MODE $PMIX_MCA_psec_munge_socket\"; while :; do sleep 0.05; done";
    let words = [
        "-n",
        "1",
        "--node-name",
        "n1",
        "--nspace",
        "job@1",
        "sh",
        "-c",
        script,
    ];
    let (mut command, tmp) = launcher(&words);
    command
        .env("PMIX_MCA_psec", "munge")
        .env("PMIX_MCA_psec_munge_socket", &socket);
    let mut running = Running::of(command, tmp);
    assert_eq!(running.line(), format!("munge {socket}"));
    let tool = |socket: Option<&str>| {
        let mut command = running.tool_command(&["ps", "job@1"]);
        if let Some(socket) = socket {
            command
                .env("PMIX_MCA_psec", "munge")
                .env("PMIX_MCA_psec_munge_socket", socket);
        }
        finish(command, b"")
    };
    let shown = tool(Some(&socket));
    assert!(
        shown.text().contains("  job job@1\n"),
        "{} {}",
        shown.text(),
        shown.stderr
    );
    let native = tool(None);
    assert_eq!(native.code, 1);
    assert!(
        native.stderr.contains("another security module"),
        "{}",
        native.stderr
    );
    let missing = tool(Some("/nonexistent/munge"));
    assert_eq!(missing.code, 1);
    let said = "the MUNGE daemon (munged) at /nonexistent/munge makes no credential";
    assert!(missing.stderr.contains(said), "{}", missing.stderr);
    // A daemon with another key makes credentials that the daemon of the server rejects.
    let other = Daemon::start(8);
    let rejected = tool(Some(&other.socket().display().to_string()));
    assert_eq!(rejected.code, 1);
    assert!(
        rejected.stderr.contains("PMIX_ERR_INVALID_CRED"),
        "{}",
        rejected.stderr
    );
    let mut end = running.tool_command(&["kill", "job@1"]);
    end.env("PMIX_MCA_psec", "munge")
        .env("PMIX_MCA_psec_munge_socket", &socket);
    assert_eq!(finish(end, b"").code, 0);
    assert_eq!(running.end().0, Some(128 + 15));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credentials of MUNGE, with a daemon of the test. `cargo xtask test` runs this if MUNGE is installed, and counts it
//! as skipped otherwise.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pmix_mca::{Params, Source};
use pmix_proto::{Hello, Role};
use pmix_types::{Proc, Rank};

use super::peer::{self, JOB, Peer};

/// A daemon that is killed on drop.
struct Daemon {
    process: Child,
    directory: tempfile::TempDir,
}

impl Daemon {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let key: Vec<u8> = (0..=u8::MAX).cycle().take(1024).collect();
        let mut command = Command::new("munged");
        std::fs::write(at("key"), key).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(at("key"), private).unwrap();
        for (option, file) in [
            ("key-file", "key"),
            ("socket", "socket"),
            ("pid-file", "pid"),
        ] {
            command.arg(format!("--{option}={}", at(file).display()));
        }
        command.arg(format!("--seed-file={}", at("seed").display()));
        // `--force` overrides the daemon's check of its directory, which only one user can access.
        command.args(["--foreground", "--force", "--num-threads=1"]);
        let spawned = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut process = spawned.expect("munged runs");
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("work thread") {
            line.clear();
            let read = log.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "munged ended: {:?}", process.wait());
        }
        // Read the log to its end, so that the daemon does not block on a full pipe.
        std::thread::spawn(move || log.read_to_end(&mut Vec::new()));
        Self { process, directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Returns a credential as clients send it, with its NUL.
    fn credential(&self) -> Vec<u8> {
        let mut munge = Command::new("munge");
        munge
            .arg("-n")
            .arg(format!("--socket={}", self.socket().display()));
        let mut credential = munge.output().unwrap().stdout;
        credential.truncate(credential.trim_ascii_end().len());
        credential.push(0);
        credential
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn params(socket: &Path) -> Params {
    let socket = socket.to_str().unwrap();
    let params = Params::builder().set("psec", "munge,native", Source::Api);
    params
        .set("psec_munge_socket", socket, Source::Api)
        .build()
        .unwrap()
}

#[test]
#[ignore = "needs munged"]
fn a_credential_of_munge_is_good_once() {
    let daemon = Daemon::start();
    let server = peer::serve(peer::builder().params(params(&daemon.socket())), 1);
    let environment = server.setup_fork(&Proc::new(JOB, Rank::new(0))).unwrap();
    assert!(environment.contains(&("PMIX_SECURITY_MODE".into(), "munge,native".into())));
    let connect = |credential: &[u8]| {
        let client = Some(Proc::new(JOB, Rank::new(0)));
        let hello = peer::hello(Role::CLIENT, client, credential);
        let munge = Hello {
            psec: "munge".into(),
            ..hello
        };
        Peer::with(peer::address(&server), &munge)
    };
    let credential = daemon.credential();
    drop(connect(&credential).unwrap());
    assert!(connect(&credential).is_err(), "it was used before");
    assert!(connect(b"MUNGE:AAAA:\0").is_err());
    assert!(connect(b"").is_err());
    assert!(connect(&daemon.credential()).is_ok());
    assert!(
        Peer::client(&server, 0).is_ok(),
        "native is accepted as well"
    );
    let fresh = daemon.credential();
    drop(daemon);
    assert!(connect(&fresh).is_err(), "no daemon is running");
}

#[test]
#[ignore = "needs munged"]
fn a_munge_credential_is_accepted_once() {
    let daemon = Daemon::start();
    let library = std::ffi::OsStr::new("libmunge.so.2");
    let mut munge = pmix_mca::Munge::open(library, Some(&daemon.socket())).unwrap();
    let credential = munge.encode().unwrap();
    assert!(credential.starts_with(b"MUNGE:") && credential.ends_with(b"\0"));
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    assert_eq!(munge.decode(&credential).unwrap(), own);
    let again = munge.decode(&credential).unwrap_err();
    assert_eq!(again.status(), pmix_types::Status::ERR_INVALID_CRED);
    let mut silent = pmix_mca::Munge::open(library, Some(Path::new("/no-such/socket"))).unwrap();
    assert!(silent.encode().unwrap_err().to_string().contains("munge:"));
}

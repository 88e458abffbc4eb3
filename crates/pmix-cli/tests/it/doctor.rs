// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix doctor` reports planted faults, and no fault of a node without one.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use crate::command::{command, finish};
use serde_json::Value as Json;
use tempfile::TempDir;

/// A simulated node without faults.
struct Node {
    top: TempDir,
    vars: Vec<(&'static str, String)>,
    args: Vec<String>,
}

impl Node {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let mut node = Self {
            top,
            vars: Vec::new(),
            args: Vec::new(),
        };
        let tmp = node.dir("tmp", 0o700).display().to_string();
        let shm = node.dir("shm", 0o1777).display().to_string();
        node.set("TMPDIR", tmp);
        node.set("PMIX_PLUGINS", "none".to_owned());
        let plugins = node.dir("slurm", 0o755);
        node.file("slurm/mpi_pmix.so", b"\x7fELF", 0o755);
        node.slurm(&format!(
            "PluginDir={}\nMpiDefault=pmix\n",
            plugins.display()
        ));
        node.args = vec!["--shm".to_owned(), shm];
        node
    }

    fn set(&mut self, name: &'static str, value: String) {
        self.vars.retain(|(known, _)| *known != name);
        self.vars.push((name, value));
    }

    fn slurm(&mut self, text: &str) {
        let path = self.file("slurm.conf", text.as_bytes(), 0o644);
        self.set("SLURM_CONF", path.display().to_string());
    }

    fn dir(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.top.path().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn file(&self, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let path = self.top.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Writes the rendezvous file of a server with this process ID into the session directory.
    fn rendezvous(&self, name: &str, port: u16, pid: u32, mode: u32) {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().into_owned();
        let text = format!("{name}.0;tcp4://127.0.0.1:{port}\n5.0.11\n{pid}\n0:0\nnow\n\n");
        self.file(
            &format!("tmp/pmix.{host}.tool.{pid}"),
            text.as_bytes(),
            mode,
        );
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut all = words.to_vec();
        all.extend(self.args.iter().map(String::as_str));
        let mut command = command(&all);
        command.envs(self.vars.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the command. Returns the findings and the exit code.
    fn look(&self) -> (Vec<Json>, i32) {
        let outcome = finish(self.command(&["--json", "doctor"]), b"");
        assert_eq!(outcome.stderr, "");
        let lines = outcome.text();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        (lines.collect(), outcome.code)
    }

    /// Asserts that the check reports a fault with this text.
    #[track_caller]
    fn has_fault(&self, check: &str, said: &str) {
        let (found, code) = self.look();
        let is_fault = |one: &&Json| one["verdict"] == "fault";
        let faults: Vec<_> = found.iter().filter(is_fault).collect();
        let expected = faults.iter().any(|one| is_it(one, check, said));
        assert!(expected, "no fault of {check} says {said:?}: {found:#?}");
        assert!(
            faults.iter().all(|one| one["help"].is_string()),
            "{faults:?}"
        );
        assert_eq!(code, 1);
    }

    /// Asserts that the check reports a warning with this text.
    #[track_caller]
    fn has_warning(&self, check: &str, said: &str) {
        let (found, code) = self.look();
        let is_warning = |one: &&Json| one["verdict"] == "warning";
        let mut warnings = found.iter().filter(is_warning);
        let expected = warnings.any(|one| is_it(one, check, said));
        assert!(expected, "no warning of {check} says {said:?}: {found:#?}");
        assert_eq!(code, 0, "{found:#?}");
    }
}

fn is_it(finding: &Json, check: &str, said: &str) -> bool {
    finding["check"] == check && finding["found"].as_str().unwrap().contains(said)
}

/// A process ID that does not exist, because process IDs are far smaller.
const DEAD: u32 = i32::MAX.unsigned_abs() - 7;

/// A port without a listener: only root can listen on it, and its service is obsolete.
const CLOSED: u16 = 1;

#[test]
fn where_all_is_well_no_fault_is_found() {
    let node = Node::new();
    let (found, code) = node.look();
    assert_eq!(code, 0, "{found:#?}");
    for check in [
        "system",
        "hostname",
        "descriptors",
        "processes",
        "interfaces",
        "tmpdir",
        "shm",
        "parameters",
        "server",
        "munge",
        "slurm",
        "libpmix",
        "servers",
    ] {
        assert!(found.iter().any(|one| one["check"] == check), "{check}");
    }
    let outcome = finish(node.command(&["doctor"]), b"");
    let text = outcome.text();
    assert_eq!(outcome.code, 0, "{text}");
    assert!(text.contains("\nfaults: 0, warnings: "), "{text}");
    // The command leaves no files.
    assert_eq!(
        fs::read_dir(node.top.path().join("tmp")).unwrap().count(),
        0
    );
}

#[test]
fn directories_that_cannot_be_used_are_found() {
    let path = |node: &Node, name: &str| node.top.path().join(name).display().to_string();
    let mut node = Node::new();
    node.set("TMPDIR", path(&node, "nowhere"));
    node.has_fault("tmpdir", "No such file");
    let mut node = Node::new();
    node.file("file", b"", 0o600);
    node.set("TMPDIR", path(&node, "file"));
    node.has_fault("tmpdir", "is not a directory");
    let node = Node::new();
    node.dir("tmp", 0o777);
    node.has_fault("tmpdir", "writable by other users");
    let mut node = Node::new();
    node.set("PMIX_SYSTEM_TMPDIR", path(&node, "nowhere"));
    node.has_fault("system-tmpdir", "No such file");
    let mut node = Node::new();
    node.args = vec!["--shm".to_owned(), path(&node, "nowhere")];
    node.has_fault("shm", "No such file");
}

#[test]
fn a_prterun_without_the_store_that_our_library_uses_is_found() {
    let mut node = Node::new();
    let library = node.top.path().join("lib");
    fs::create_dir(&library).unwrap();
    // An ELF file with the version text of our library, which the check searches for.
    let stated = b"\x7fELF\0pmix-rs 0.1.0 (PMIx Standard: 5.1)\0";
    fs::write(library.join("libpmix.so.2"), stated).unwrap();
    node.file("prterun", b"#!/bin/sh\n", 0o755);
    node.set("LD_LIBRARY_PATH", library.display().to_string());
    node.set("PATH", node.top.path().display().to_string());
    node.has_warning("prterun", "PMIX_MCA_gds is not set to hash");
    node.set("PMIX_MCA_gds", "hash".to_owned());
    let (found, _) = node.look();
    assert!(
        found.iter().all(|one| one["check"] != "prterun"),
        "{found:#?}"
    );
}

#[test]
fn limits_that_are_too_low_are_found() {
    let node = Node::new();
    for (limit, verdict, check) in [
        ("ulimit -n 40", "fault", "descriptors"),
        ("ulimit -n 200", "warning", "descriptors"),
        ("ulimit -u 40", "warning", "processes"),
    ] {
        let own = env!("CARGO_BIN_EXE_pmix");
        let mut limited = Command::new("bash");
        limited.args([
            "-c",
            &format!("{limit}; exec {own} --json doctor \"$@\""),
            "bash",
        ]);
        limited
            .args(&node.args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        limited.envs(node.vars.iter().map(|(name, value)| (name, value)));
        let outcome = finish(limited, b"");
        let text = outcome.text();
        let mut found = text
            .lines()
            .map(|line| serde_json::from_str::<Json>(line).unwrap());
        let found = found.find(|one| one["check"] == check).expect(limit);
        assert_eq!(found["verdict"], verdict, "{limit}: {found}");
    }
}

#[test]
fn settings_that_cannot_be_obeyed_are_found() {
    let mut node = Node::new();
    node.set("PMIX_MCA_psec", "kerberos".to_owned());
    node.has_fault("server", "unknown component \"kerberos\"");
    let mut node = Node::new();
    let nowhere = node.top.path().join("munge.socket").display().to_string();
    node.set("PMIX_MCA_psec", "munge,native".to_owned());
    node.set("PMIX_MCA_psec_munge_socket", nowhere.clone());
    node.has_fault("munge", &nowhere);
    let mut node = Node::new();
    node.set("PMIX_MCA_psec", "munge".to_owned());
    node.set("PMIX_MCA_psec_munge_library", "libnone.so.9".to_owned());
    node.has_fault("server", "libnone.so.9");
    let mut node = Node::new();
    let config = node.file(
        "plugins.toml",
        b"[preg.native]\nenabled = \"perhaps\"\n",
        0o600,
    );
    node.set("PMIX_PLUGINS", config.display().to_string());
    node.has_fault("parameters", "plugins.toml");
    let mut node = Node::new();
    node.set(
        "OMPI_MCA_btl_tcp_if_include",
        "no-such-if,127.0.0.0/8".to_owned(),
    );
    node.has_fault("interfaces", "names no-such-if, which");
    let mut node = Node::new();
    node.set("HWLOC_XMLFILE", "/no/such/file.xml".to_owned());
    node.has_fault("topology", "/no/such/file.xml");
    let mut node = Node::new();
    node.set("PMIX_HOSTNAME", "another-node".to_owned());
    node.has_warning("hostname", "another-node");
}

#[test]
fn variables_of_an_ended_launcher_are_found() {
    let mut node = Node::new();
    node.set("PMIX_NAMESPACE", "gone@1".to_owned());
    node.has_fault("environment", "PMIX_NAMESPACE is set");
    let mut node = Node::new();
    node.set("PMIX_SERVER_URI41", "nonsense".to_owned());
    node.has_fault("environment", "nonsense");
    let mut node = Node::new();
    node.set("PMIX_NAMESPACE", "gone@1".to_owned());
    node.set("PMIX_RANK", "0".to_owned());
    node.set(
        "PMIX_SERVER_URI41",
        format!("gone.0;tcp4://127.0.0.1:{CLOSED}"),
    );
    node.has_fault("environment", "cannot be reached");
}

#[test]
fn libraries_that_cannot_be_loaded_or_are_several_are_found() {
    let library = |version: &str| {
        let mut bytes = b"\x7fELF and so on\0".to_vec();
        bytes.extend_from_slice(format!("OpenPMIx {version} (PMIx Standard: 5.1)\0").as_bytes());
        bytes
    };
    let mut node = Node::new();
    let dir = node.dir("lib", 0o755);
    symlink("libpmix.so.2.9.9", dir.join("libpmix.so.2")).unwrap();
    node.set("LD_LIBRARY_PATH", dir.display().to_string());
    node.has_fault("libpmix", "cannot be loaded");
    let mut node = Node::new();
    let dir = node.dir("lib", 0o755);
    node.file("lib/libpmix.so.2", b"not a library", 0o755);
    node.set("LD_LIBRARY_PATH", dir.display().to_string());
    node.has_fault("libpmix", "not a shared library");
    let mut node = Node::new();
    let dirs: [PathBuf; 2] = ["one", "two"].map(|name| node.dir(name, 0o755));
    node.file("one/libpmix.so.2", &library("8.0.1"), 0o755);
    node.file("two/libpmix.so.2", &library("8.0.2"), 0o755);
    let list = dirs.each_ref().map(|dir| dir.display().to_string());
    node.set("LD_LIBRARY_PATH", list.join(":"));
    node.has_warning("libpmix", "OpenPMIx 8.0.1 in ");
    node.has_warning("libpmix", "also OpenPMIx 8.0.2 in ");
}

#[test]
fn a_slurm_without_its_plug_in_is_found() {
    let mut node = Node::new();
    node.set("SLURM_CONF", "/no/such/slurm.conf".to_owned());
    node.has_fault("slurm", "/no/such/slurm.conf");
    let mut node = Node::new();
    node.slurm("PluginDir=/no/such/dir\n");
    node.has_fault("slurm", "PluginDir /no/such/dir does not exist");
    let mut node = Node::new();
    let empty = node.dir("empty", 0o755).display().to_string();
    node.slurm(&format!(
        "# all\nplugindir = {empty} # here\nMpiDefault=pmix_v4\n"
    ));
    node.has_fault("slurm", "the plug-in mpi_pmix.so is not installed");
    node.slurm(&format!("PluginDir={empty}\nMpiDefault=none\n"));
    node.has_warning("slurm", "the plug-in mpi_pmix.so is not installed");
    node.set("SLURM_MPI_TYPE", "pmix".to_owned());
    node.has_fault("slurm", "the plug-in mpi_pmix.so is not installed");
}

#[test]
fn the_library_that_a_plug_in_of_slurm_opens_is_named() {
    let node = Node::new();
    let dir = node.dir("pmix/lib", 0o755);
    let plugin = format!(
        "\x7fELF\0libpmix.so\0/stepd.slurm.pmix.%d\0/dev/null\0{}\0",
        dir.display()
    );
    node.file("slurm/mpi_pmix.so", plugin.as_bytes(), 0o755);
    let opens = format!("which opens {}/libpmix.so: ", dir.display());
    node.has_fault("slurm", &opens);
    let library = b"\x7fELF\0pmix-rs 0.1.0 (PMIx Standard: 5.1)\0";
    node.file("pmix/lib/libpmix.so", library, 0o644);
    // Programs load another library, so that the result does not depend on the libraries of this machine.
    let other = node.dir("other", 0o755);
    node.file(
        "other/libpmix.so.2",
        b"\x7fELF\0OpenPMIx 8.0.1 (PMIx Standard: 5.1)\0",
        0o644,
    );
    let mut node = node;
    node.set("LD_LIBRARY_PATH", other.display().to_string());
    let different = format!(
        "but programs load OpenPMIx 8.0.1 in {}/libpmix.so.2",
        other.display()
    );
    node.has_warning("slurm", &different);
    node.file("other/libpmix.so.2", library, 0o644);
    let (found, _) = node.look();
    let opens = format!("which opens pmix-rs 0.1.0 in {}/libpmix.so", dir.display());
    let is_named = found.iter().any(|one| is_it(one, "slurm", &opens));
    assert!(is_named, "{found:#?}");
}

#[test]
fn dead_and_unresponsive_servers_are_found() {
    let node = Node::new();
    node.rendezvous("gone", 1, DEAD, 0o600);
    node.has_warning("servers", "gone is not running");
    let node = Node::new();
    let own = std::process::id();
    node.rendezvous("planted", 1, own, 0o666);
    node.has_fault("servers", "it is rejected");
    let node = Node::new();
    node.rendezvous("deaf", CLOSED, own, 0o600);
    node.has_fault("servers", "deaf, process ");
    // The command waits only until the time limit for a server that does not reply.
    let mut node = Node::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    node.rendezvous("mute", listener.local_addr().unwrap().port(), own, 0o600);
    node.args.extend(["--timeout".to_owned(), "0.2".to_owned()]);
    node.has_fault("servers", "mute, process ");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The topology of this machine: from hwloc, if it is installed.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pmix_topology::Topology;

use pmix_host::helpers::Cancel;

use crate::process::Search;

/// The commands of hwloc that export a topology.
const COMMANDS: [&str; 2] = ["lstopo-no-graphics", "lstopo"];

/// The largest size of a description in bytes.
const MAX_LEN: u64 = 64 << 20;

/// The time limit of the hwloc command.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the topology of this machine, from hwloc if it is installed, else from `/sys`.
///
/// The environment determines where hwloc's `lstopo` is (`PATH`), or which file replaces its output (`HWLOC_XMLFILE`,
/// as for all users of hwloc).
#[must_use]
pub fn this_machine(environment: &[(OsString, OsString)]) -> Topology {
    by_hwloc(environment).unwrap_or_else(Topology::of_system)
}

/// Returns the memory of the node in kB. The kernel reports it without disk access.
pub(crate) fn memory_kb() -> Option<u64> {
    number_behind("/proc/meminfo", "MemTotal:")
}

/// Returns the number after a word at the start of a line of a file.
fn number_behind(path: &str, word: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the topology from hwloc, or `None` if hwloc is not installed or fails.
fn by_hwloc(environment: &[(OsString, OsString)]) -> Option<Topology> {
    let var = |wanted: &str| {
        let mut vars = environment.iter();
        let found = vars.find(|(name, value)| name == wanted && !value.is_empty());
        found.map(|(_, value)| value.as_os_str())
    };
    let told = match var("HWLOC_XMLFILE") {
        Some(file) => Topology::of_xml_file(file.as_ref()).map_err(|error| error.to_string()),
        None => {
            let (cancel, path) = (Cancel::never(), var("PATH").map(Into::into));
            let mut search = Search::new(&cancel);
            let mut find = |name: &str| search.program(name.as_ref(), path.as_ref(), Path::new(""));
            let command = COMMANDS.iter().find_map(|name| find(name).ok())?;
            run(&command, environment)
                .and_then(|text| String::from_utf8(text).map_err(io::Error::other))
                .map_err(|error| error.to_string())
                .and_then(|xml| Topology::of_xml(xml).map_err(|error| error.to_string()))
                .map_err(|error| format!("lstopo: {error}"))
        }
    };
    told.map_err(|error| tracing::warn!("{error}")).ok()
}

fn run(command: &Path, environment: &[(OsString, OsString)]) -> io::Result<Vec<u8>> {
    let mut command = Command::new(command);
    command.args(["--of", "xml", "--no-io", "-"]);
    command.env_clear().envs(environment.iter().cloned());
    output_within(&mut command, MAX_LEN, PATIENCE)
}

/// Runs a command and returns its output. It is killed if the output exceeds `most` bytes or `time` passes.
fn output_within(command: &mut Command, most: u64, time: Duration) -> io::Result<Vec<u8>> {
    let until = Instant::now() + time;
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let (done, written) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        // A descendant may keep the pipe open, so a separate thread reads it.
        let begun = thread::Builder::new().spawn(move || {
            let mut bytes = Vec::new();
            let mut stdout = stdout.take(most.saturating_add(1));
            let read = stdout.read_to_end(&mut bytes).map(|_| bytes);
            // Sending fails if the time limit passed and the receiver was dropped.
            let _ = done.send(read);
        });
        if let Err(error) = begun {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    }
    let read = written.recv_timeout(time);
    let ended = read.is_ok().then(|| wait_until(&mut child, until));
    let status = match ended.transpose()?.flatten() {
        Some(status) => status,
        None => {
            child.kill()?;
            child.wait()?
        }
    };
    let late = || {
        let message = format!("no result within {} s", time.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, message)
    };
    let bytes = read.map_err(|_| late())??;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > most) {
        return Err(io::Error::other(format!("its output exceeds {most} bytes")));
    }
    match status.success() {
        true => Ok(bytes),
        false => Err(io::Error::other(status.to_string())),
    }
}

/// Waits until a child exits. Returns `None` if it has not exited in time.
fn wait_until(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            None if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
            ended => return Ok(ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_writes_so_much_in_so_much_time_and_no_more() {
        let long = Duration::from_secs(60);
        let run = |script: &str, time| {
            let mut command = Command::new("sh");
            output_within(command.args(["-c", script]), 1000, time)
        };
        assert_eq!(run("echo all", long).unwrap(), b"all\n");
        let error = run("exec yes", long).unwrap_err();
        assert!(error.to_string().contains("exceeds 1000 bytes"), "{error}");
        assert!(run("echo all; exit 3", long).is_err());
        let error = run("exec sleep 600", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_file_that_is_named_is_a_regular_one_of_so_much() {
        let folder = tempfile::tempdir().unwrap();
        let read = |path: &Path| {
            let told = by_hwloc(&[("HWLOC_XMLFILE".into(), path.into())])?;
            told.xml().map(str::to_owned)
        };
        let path = folder.path().join("topology.xml");
        std::fs::write(&path, XML).unwrap();
        assert_eq!(read(&path).as_deref(), Some(XML));
        // The file is sparse, so it takes no space.
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(MAX_LEN + 1).unwrap();
        assert_eq!(read(&path), None);
        for other in [folder.path(), Path::new("/dev/null")] {
            assert_eq!(read(other), None, "{}", other.display());
        }
        assert_eq!(read(&folder.path().join("missing")), None);
    }

    const XML: &str = r#"<topology version="2.0">
  <object type="Machine" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object>
</topology>"#;
}

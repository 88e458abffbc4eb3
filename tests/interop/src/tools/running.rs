// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running server for tools, and its rendezvous file.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use xtask::install;

/// The time limit for a server to accept tools.
const START: Duration = Duration::from_secs(30);

/// The script of both processes of the job: print the name of the job, and wait until the parent has exited.
const JOB: &str = "echo \"job $PMIX_NAMESPACE\"; n=0; \
     while kill -0 $PPID 2>/dev/null && [ $n -lt 120 ]; do sleep 1; n=$((n+1)); done";

/// A running server, which is killed with everything that it started on drop.
pub struct Running {
    /// The name in reports.
    pub title: String,
    child: Child,
    /// The directory below which it writes its rendezvous files.
    pub home: PathBuf,
    /// The rendezvous file with its process ID in the name.
    pub file: PathBuf,
    /// The URI in the file.
    pub uri: String,
    /// The namespace of its job, if any.
    pub nspace: Option<String>,
    is_killed: bool,
}

impl Running {
    /// Starts a server without a job, or a launcher with a job of two processes, which are added to its command.
    ///
    /// # Errors
    /// Returns a message if no tool can attach in time.
    pub fn start(title: &str, mut command: Command, has_job: bool) -> Result<Self, String> {
        let home = install::scratch("interop/tools")?.join(title.replace(' ', "-"));
        let fault = |e: io::Error| format!("{title}: {}: {e}", home.display());
        if home.exists() {
            fs::remove_dir_all(&home).map_err(fault)?;
        }
        fs::create_dir_all(&home).map_err(fault)?;
        if has_job {
            command.args(["sh", "-c", JOB]);
        }
        let output = fs::File::create(home.join("output")).map_err(fault)?;
        command
            .env("TMPDIR", &home)
            .current_dir(&home)
            .stdin(Stdio::null())
            .stderr(output.try_clone().map_err(fault)?)
            .stdout(output)
            .process_group(0);
        let child = command.spawn().map_err(fault)?;
        let mut running = Self {
            title: title.to_owned(),
            child,
            home,
            file: PathBuf::new(),
            uri: String::new(),
            nspace: None,
            is_killed: false,
        };
        running.wait(has_job)?;
        Ok(running)
    }

    /// Returns the process ID of the server.
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Waits for the file, and for both processes of the job.
    fn wait(&mut self, has_job: bool) -> Result<(), String> {
        let begun = Instant::now();
        let end = format!(".tool.{}", self.child.id());
        loop {
            let said = fs::read_to_string(self.home.join("output")).unwrap_or_default();
            let jobs: Vec<_> = said
                .lines()
                .filter_map(|l| l.strip_prefix("job "))
                .collect();
            let file = found(&self.home, &end, 3);
            let uri = file.as_deref().and_then(first_line);
            if let (Some(file), Some(uri), true) = (file, uri, !has_job || jobs.len() == 2) {
                self.nspace = jobs.first().map(|name| (*name).to_owned());
                (self.file, self.uri) = (file, uri);
                return Ok(());
            }
            let ended = self.child.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || begun.elapsed() > START {
                let title = &self.title;
                return Err(format!("{title} takes no tools ({ended:?}): {said:.400}"));
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Kills the server and its children, as in a crash, and leaves its files.
    ///
    /// # Errors
    /// Returns a message if the system does not report its exit.
    pub fn kill(&mut self) -> Result<(), String> {
        if self.is_killed {
            return Ok(());
        }
        self.is_killed = true;
        let group = format!("-{}", self.child.id());
        // Processes in other groups exit with their launcher, or by themselves.
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        self.child.wait().map(drop).map_err(|e| e.to_string())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// Returns the file whose name ends with `end`, at this depth below a directory.
fn found(folder: &Path, end: &str, levels: u32) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && levels > 0 {
            if let Some(file) = found(&path, end, levels - 1) {
                return Some(file);
            }
        } else if path.to_string_lossy().ends_with(end) {
            return Some(path);
        }
    }
    None
}

/// Returns the first line of a file once the line is complete.
fn first_line(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let (line, _) = text.split_once('\n')?;
    Some(line.to_owned())
}

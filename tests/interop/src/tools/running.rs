// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server that runs for tools to ask, and its rendezvous file.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use xtask::install;

/// How long a server may take until tools can attach to it.
const START: Duration = Duration::from_secs(30);

/// What the two processes of its job do: they say what their job is called, and wait until their parent has ended.
const JOB: &str = "echo \"job $PMIX_NAMESPACE\"; n=0; \
     while kill -0 $PPID 2>/dev/null && [ $n -lt 120 ]; do sleep 1; n=$((n+1)); done";

/// A server that runs, with all that it started, until this is dropped.
pub struct Running {
    /// What it is called in reports.
    pub title: String,
    child: Child,
    /// The directory below which it writes its rendezvous files.
    pub home: PathBuf,
    /// The file that has its process id in its name.
    pub file: PathBuf,
    /// What the file says where it is.
    pub uri: String,
    /// The name of its job, if it has one.
    pub nspace: Option<String>,
    is_killed: bool,
}

impl Running {
    /// Starts a launcher with a job of two processes, to be added to its command, or a server without a job.
    ///
    /// # Errors
    /// No tool can attach to it in time.
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

    /// The process of the server.
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

    /// Kills it and what it started, as a crash would, and leaves its files.
    ///
    /// # Errors
    /// The operating system does not say that it has ended.
    pub fn kill(&mut self) -> Result<(), String> {
        if self.is_killed {
            return Ok(());
        }
        self.is_killed = true;
        let group = format!("-{}", self.child.id());
        // Processes that have a group of their own end with their launcher, or by themselves.
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

/// The file below a directory whose name ends so, so many levels down.
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

/// The first line of a file that is written as a whole: it has an end.
fn first_line(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let (line, _) = text.split_once('\n')?;
    Some(line.to_owned())
}

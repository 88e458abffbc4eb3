// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line protocol of the peer program: one request, one answer; restarted when the library crashes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The peer program under one configuration.
pub struct Harness {
    program: PathBuf,
    settings: Vec<(String, String)>,
    running: Option<Running>,
}

impl Harness {
    /// Creates a harness with the library's default parameters.
    pub fn new(program: &Path) -> Self {
        Self {
            program: program.to_path_buf(),
            settings: Vec::new(),
            running: None,
        }
    }

    /// Sets an MCA parameter for the library.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings
            .push((format!("PMIX_MCA_{name}"), value.to_owned()));
        self
    }

    fn start(&self) -> Result<Running, String> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PMIX_") {
                command.env_remove(name);
            }
        }
        // The `hash` module: a killed run then leaves no shared segments behind.
        command.env("PMIX_MCA_gds", "hash");
        // Without this parameter, a release cuts host names at the first dot.
        command.env("PMIX_MCA_pmix_keep_fqdn_hostnames", "1");
        command.envs(self.settings.iter().map(|(n, v)| (n, v)));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Running {
                child,
                input,
                output: BufReader::new(output),
            }),
            _ => Err("the peer has no pipes".to_owned()),
        }
    }

    /// Sends one request and waits for the answer.
    ///
    /// # Errors
    /// Returns a message if the program cannot start, exits instead of answering, or rejects the request.
    pub fn ask(&mut self, request: &str) -> Result<String, String> {
        // Take the program out: if it crashes, the next request starts a new one.
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let mut line = String::new();
        let sent = running
            .input
            .write_all(format!("{request}\n").as_bytes())
            .and_then(|()| running.input.flush());
        if sent.is_ok() && running.output.read_line(&mut line).is_ok_and(|n| n > 0) {
            self.running = Some(running);
            return match line.trim_end().strip_prefix("error ") {
                Some(why) => Err(why.to_owned()),
                None => Ok(line.trim_end().to_owned()),
            };
        }
        let ended = running.child.wait().map_err(|e| e.to_string())?;
        Err(format!("the library ended the program: {ended}"))
    }

    /// Sends requests while it reads the expected number of answers. Returns the answers that came before the program
    /// ended.
    ///
    /// # Errors
    /// Returns a message if the program cannot start.
    pub fn batch(&mut self, requests: Vec<String>, expected: usize) -> Result<Vec<String>, String> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let input = &mut running.input;
        let output = &mut running.output;
        let mut answers = Vec::with_capacity(expected);
        std::thread::scope(|scope| {
            // Write in a thread: if both sides only wrote, both pipes would fill up.
            scope.spawn(move || {
                // A failed write shows as a missing answer.
                let text = requests.concat();
                drop(
                    input
                        .write_all(text.as_bytes())
                        .and_then(|()| input.flush()),
                );
            });
            let mut line = String::new();
            while answers.len() < expected && output.read_line(&mut line).is_ok_and(|n| n > 0) {
                answers.push(line.trim_end_matches('\n').to_owned());
                line.clear();
            }
            if answers.len() < expected {
                // Killing the program also ends the writer thread, whose write then fails.
                drop(running.child.kill());
            }
        });
        if answers.len() == expected {
            self.running = Some(running);
        } else {
            drop(running.child.wait());
        }
        Ok(answers)
    }

    /// Sends one request and returns the status and the values of the answer.
    ///
    /// # Errors
    /// See [`Self::ask`]; also returns a message if the answer cannot be parsed.
    pub fn request(&mut self, request: &str) -> Result<(i32, Vec<Vec<u8>>), String> {
        let line = self.ask(request)?;
        let mut words = line.split(' ');
        let status = words.next().and_then(|s| s.parse().ok());
        let values = words.map(from_hex).collect::<Option<Vec<_>>>();
        status
            .zip(values)
            .ok_or_else(|| format!("the peer answered {line:?}"))
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        if let Some(Running {
            mut child, input, ..
        }) = self.running.take()
        {
            // The program finalizes and exits at the end of its input.
            drop(input);
            drop(child.wait());
        }
    }
}

/// Returns bytes in lower-case hexadecimal, or `-` for no bytes.
pub fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    HEXLOWER.encode(bytes)
}

/// Returns the bytes of a hexadecimal word.
pub fn from_hex(word: &str) -> Option<Vec<u8>> {
    if word == "-" {
        return Some(Vec::new());
    }
    HEXLOWER_PERMISSIVE.decode(word.as_bytes()).ok()
}

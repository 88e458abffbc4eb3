// SPDX-License-Identifier: MIT OR Apache-2.0
//! Talking to the peer program: one line out, one line back, restarted when the library crashes.

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
    /// The program with the library's own defaults.
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
        // The plain datastore, so that no run leaves shared segments behind.
        command.env("PMIX_MCA_gds", "hash");
        // Whole host names, where a release cuts them at the first dot unless told.
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

    /// Sends one request and waits for its line.
    ///
    /// # Errors
    /// The program cannot start, ended instead of answering, or did not understand.
    pub fn ask(&mut self, request: &str) -> Result<String, String> {
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

    /// Sends requests while it reads the answers, as many as are expected; what came before the
    /// program ended, if it did.
    ///
    /// # Errors
    /// The program cannot start.
    pub fn batch(&mut self, requests: Vec<String>, expected: usize) -> Result<Vec<String>, String> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let input = &mut running.input;
        let output = &mut running.output;
        let mut answers = Vec::with_capacity(expected);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // What cannot be written shows as an answer that does not come.
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
                // The end of the program ends the writer, too.
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

    /// Sends one request; the answer's status and its values.
    ///
    /// # Errors
    /// As [`Self::ask`], or the answer cannot be read.
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
            // The end of its input is the program's signal to finalize and leave.
            drop(input);
            drop(child.wait());
        }
    }
}

/// Lower-case hex, `-` for nothing.
pub fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    HEXLOWER.encode(bytes)
}

/// The bytes of a hex word.
pub fn from_hex(word: &str) -> Option<Vec<u8>> {
    if word == "-" {
        return Some(Vec::new());
    }
    HEXLOWER_PERMISSIVE.decode(word.as_bytes()).ok()
}

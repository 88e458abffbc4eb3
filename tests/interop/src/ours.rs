// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our side: the `pmix` command, called as `pmix map batch`.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::harness::{from_hex, hex};
use xtask::install;
use xtask::process;

/// The status of an encoder that declines a list and leaves it to the next one.
pub const DECLINED: i64 = -1366;

/// The release build of the command.
pub struct Ours {
    /// The path of the binary.
    pub program: PathBuf,
}

/// An encoded value in the string form, or an error.
pub struct Encoded {
    /// The PMIx status.
    pub status: i64,
    /// The value without its terminating NUL.
    pub bytes: Vec<u8>,
    /// The message of a status that is not 0.
    pub error: String,
}

/// A decoded list, or an error.
pub struct Decoded {
    /// The PMIx status.
    pub status: i64,
    /// The names, or the ranks of each node.
    pub list: Vec<String>,
    /// The message of a status that is not 0.
    pub error: String,
}

impl Ours {
    /// Builds the command with a cargo profile.
    ///
    /// # Errors
    /// Returns a message if the build fails.
    pub fn build(profile: &str) -> Result<Self, String> {
        let package = process::selection(profile, "pmix-cli");
        process::run(process::cargo(["build", "--bin", "pmix"]).args(package))?;
        let program = install::built(profile).join("pmix");
        Ok(Self { program })
    }

    /// Encodes each text into the string form with a scheme (`auto` for the framework's choice).
    ///
    /// # Errors
    /// Returns a message if the command failed as a whole.
    pub fn encode(
        &self,
        scheme: &str,
        settings: &[(&str, &str)],
        texts: &[(bool, &str)],
    ) -> Result<Vec<Encoded>, String> {
        let requests = texts.iter().map(|(procs, text)| {
            json!({"op": "encode", "procs": procs, "scheme": scheme, "form": "string",
                   "input": text})
        });
        let answers = self.batch(settings, requests.collect())?;
        answers.iter().map(encoded).collect()
    }

    /// Decodes each value of the string form.
    ///
    /// # Errors
    /// Returns a message if the command failed as a whole.
    pub fn decode(&self, values: &[(bool, &[u8])]) -> Result<Vec<Decoded>, String> {
        let requests = values.iter().map(|(procs, value)| {
            let digits = if value.is_empty() {
                String::new()
            } else {
                hex(value)
            };
            json!({"op": "decode", "procs": procs, "form": "string", "bytes_hex": digits})
        });
        let answers = self.batch(&[], requests.collect())?;
        answers.iter().map(decoded).collect()
    }

    /// Runs the command once with numbered requests, and returns the answers in the same order.
    fn batch(&self, set: &[(&str, &str)], requests: Vec<Value>) -> Result<Vec<Value>, String> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PMIX_") {
                command.env_remove(name);
            }
        }
        for (name, value) in set {
            command.env(format!("PMIX_MCA_{name}"), value);
        }
        // Run outside of the source tree, so that the tree's plugins.toml is not read.
        command.current_dir(install::scratch("interop")?);
        let mut child = command
            .args(["map", "batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the command has no pipes".to_owned());
        };
        let count = requests.len();
        let writer = std::thread::spawn(move || {
            for (id, mut request) in requests.into_iter().enumerate() {
                request["id"] = json!(id);
                input.write_all(format!("{request}\n").as_bytes())?;
            }
            Ok::<(), std::io::Error>(())
        });
        let mut text = String::new();
        output
            .read_to_string(&mut text)
            .map_err(|e| e.to_string())?;
        let status = child.wait().map_err(|e| e.to_string())?;
        let written = writer.join().map_err(|_| "the writer panicked")?;
        written.map_err(|e| format!("pmix map batch stopped reading ({status}): {e}"))?;
        let answers = text.lines().enumerate().map(|(id, line)| answer(id, line));
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        if answers.len() == count {
            Ok(answers)
        } else {
            let got = answers.len();
            Err(format!("{count} requests, {got} answers ({status})"))
        }
    }
}

/// Reads an answer and checks its number.
fn answer(id: usize, line: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("{line:.200}: {e}"))?;
    if value["id"] == json!(id) {
        Ok(value)
    } else {
        Err(format!("expected the answer to request {id}: {line:.200}"))
    }
}

fn status_and_error(answer: &Value) -> Result<(i64, String), String> {
    let status = answer["status"]
        .as_i64()
        .ok_or_else(|| format!("no status: {answer}"))?;
    let error = answer["error"].as_str().unwrap_or_default().to_owned();
    Ok((status, error))
}

fn encoded(answer: &Value) -> Result<Encoded, String> {
    let (status, error) = status_and_error(answer)?;
    let mut bytes = match answer["bytes_hex"].as_str() {
        Some(digits) => from_hex(digits).ok_or_else(|| format!("not hex: {digits:.80}"))?,
        None => Vec::new(),
    };
    // Values of the text forms may include the NUL that a C caller sees.
    if bytes.last() == Some(&0) && !bytes.starts_with(b"blob:") {
        bytes.pop();
    }
    Ok(Encoded {
        status,
        bytes,
        error,
    })
}

fn decoded(answer: &Value) -> Result<Decoded, String> {
    let (status, error) = status_and_error(answer)?;
    let words = answer["list"].as_array();
    let list = words
        .into_iter()
        .flatten()
        .map(|w| w.as_str().map(str::to_owned))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| format!("a list of other than strings: {answer:.200}"))?;
    Ok(Decoded {
        status,
        list,
        error,
    })
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the processor time that the kernel alone takes for a fence, the lower bound for every server.

use std::path::PathBuf;
use std::process::Command;

use super::runs::{Field, Figures};
use crate::table::{Row, Verdict, factor, time};
use xtask::install;
use xtask::process;

/// The compiled loop of `tests/server/floor.c`.
pub(super) struct Floor(PathBuf);

impl Floor {
    /// Compiles the loop.
    ///
    /// # Errors
    /// Returns the compiler's error.
    pub(super) fn compile() -> Result<Self, String> {
        let program = install::scratch("bench/server")?.join("floor");
        let mut command = Command::new("gcc");
        command.args(["-std=gnu11", "-O2", "-o"]).arg(&program);
        command.arg(process::root().join("tests/server/floor.c"));
        process::output(&mut command)?;
        Ok(Self(program))
    }

    /// Returns the processor time of a round of `clients` clients, in nanoseconds.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    fn time(&self, field: &Field, clients: u32) -> Result<f64, String> {
        let rounds = (20_000 / clients).to_string();
        let mut command = Command::new(&self.0);
        let text = field.run(command.args([clients.to_string(), rounds]))?;
        Figures::of_text(text.trim())?.get("cpu_ns")
    }

    /// Adds the row beside those of the servers.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(super) fn row(&self, field: &Field, clients: u32) -> Result<Row, String> {
        Ok(Row {
            figure: "empty fence, server time".to_owned(),
            input: format!("{clients} ranks, without PMIx"),
            ours: String::new(),
            peer: format!("loop in C: {}", time(self.time(field, clients)?)),
            ratio: String::new(),
            bound: String::new(),
            verdict: Verdict::Shown,
        })
    }

    /// Compares the cost of a client among many with the cost among few.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(super) fn growth(&self, field: &Field) -> Result<Row, String> {
        let each = |clients: u32| Ok::<_, String>(self.time(field, clients)? / f64::from(clients));
        let (few, many) = (each(64)?, each(1000)?);
        Ok(Row {
            figure: "server time of a fence for each rank".to_owned(),
            input: "64 and 1000 clients, without PMIx".to_owned(),
            ours: String::new(),
            peer: format!("loop in C: {} and {}", time(few), time(many)),
            ratio: factor(many / few),
            bound: String::new(),
            verdict: Verdict::Shown,
        })
    }
}

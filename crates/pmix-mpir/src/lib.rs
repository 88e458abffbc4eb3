// SPDX-License-Identifier: MIT OR Apache-2.0
//! The symbols by which debuggers that know MPIR, and not PMIx, find the processes of a launcher.
//!
//! A debugger runs the launcher, sets `MPIR_being_debugged` and a breakpoint at `MPIR_Breakpoint`, and reads
//! `MPIR_proctable` when it is there; or it attaches to a launcher that runs and reads the table. All of them
//! are symbols of the program that this crate is a part of, of which there is one each in a process.
//!
//! Source: "The MPIR Process Acquisition Interface", version 1.1.
#![deny(unsafe_code)]

mod symbols;

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

/// The description of a process for debuggers (`MPIR_PROCDESC`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcDesc {
    /// The node that it runs on.
    pub host: CString,
    /// The executable of the process.
    pub program: CString,
    /// The process id on that node.
    pub pid: i32,
}

/// The rows of the table, and the texts that they point to.
type Table = (Box<[symbols::Row]>, Vec<ProcDesc>);

/// Holds them as long as they are the table.
static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Returns whether a debugger has said that it debugs the processes of this program. It does so at any time
/// before these are started.
#[must_use]
pub fn is_being_debugged() -> bool {
    symbols::is_being_debugged()
}

/// Makes these processes, in the order of their ranks, the table (`MPIR_proctable`). A debugger that reads it
/// meanwhile finds none.
pub fn set_table(processes: Vec<ProcDesc>) {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    symbols::publish(&[]);
    let rows: Box<[_]> = processes.iter().map(symbols::Row::of).collect();
    let (rows, _) = table.insert((rows, processes));
    symbols::publish(rows);
}

/// Says that the processes of the table are there, and calls the function at which a debugger stops. Returns
/// when the debugger lets this program go on, at once if there is none.
pub fn spawned() {
    symbols::spawned();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_processes_that_were_set_last() {
        let process = |pid| ProcDesc {
            host: c"n1".to_owned(),
            program: c"./solver".to_owned(),
            pid,
        };
        set_table(vec![process(7), process(8), process(9)]);
        assert_eq!(symbols::read(), [7, 8, 9]);
        set_table(vec![process(10)]);
        assert_eq!(symbols::read(), [10]);
        assert!(!is_being_debugged());
        spawned();
        set_table(Vec::new());
        assert_eq!(symbols::read(), []);
    }
}

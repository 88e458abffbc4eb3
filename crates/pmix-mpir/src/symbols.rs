// SPDX-License-Identifier: MIT OR Apache-2.0
//! The symbols themselves. Names, types and numbers are those of the specification: frozen, append only.
//!
//! A debugger reads and writes the symbols while the program is stopped. Each symbol is an atomic of the size of its C
//! type, so the compiler assumes nothing about its value. Only the C names (`no_mangle`) are unsafe code.
#![allow(
    unsafe_code,
    non_upper_case_globals,
    reason = "the MPIR specification defines these C names; no other library defines them"
)]

use std::ffi::{c_char, c_int};
use std::hint::black_box;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::ProcDesc;

/// `MPIR_DEBUG_SPAWNED`: the processes of the table were started.
const SPAWNED: c_int = 1;

/// A row of the table (`MPIR_PROCDESC`).
#[repr(C)]
pub(crate) struct Row {
    host_name: AtomicPtr<c_char>,
    executable_name: AtomicPtr<c_char>,
    pid: AtomicI32,
}

/// The rows; null if there are none.
#[used]
// SAFETY: no other part of a program has this name of the MPIR interface.
#[unsafe(no_mangle)]
static MPIR_proctable: AtomicPtr<Row> = AtomicPtr::new(std::ptr::null_mut());

/// Number of rows of the table.
#[used]
// SAFETY: no other part of a program has this name of the MPIR interface.
#[unsafe(no_mangle)]
static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);

/// A number other than 0 if a debugger, which sets it, debugs the processes.
#[used]
// SAFETY: no other part of a program has this name of the MPIR interface.
#[unsafe(no_mangle)]
static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);

/// The reason for the call of the function at which the debugger stops.
#[used]
// SAFETY: no other part of a program has this name of the MPIR interface.
#[unsafe(no_mangle)]
static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);

/// A symbol whose presence says that this program is not a process of the job.
#[used]
// SAFETY: no other part of a program has this name of the MPIR interface.
#[unsafe(no_mangle)]
static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);

/// A symbol whose presence says that a debugger need not attach to every process.
#[used]
// SAFETY: no other part of a program has this name of the MPIR interface.
#[unsafe(no_mangle)]
static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// The function on which debuggers set a breakpoint.
// SAFETY: no other part of a program has this name of the MPIR interface.
#[unsafe(no_mangle)]
#[inline(never)]
#[allow(non_snake_case, reason = "as above")]
extern "C" fn MPIR_Breakpoint() {
    black_box(());
}

impl Row {
    /// Creates a row that points to the strings of a process.
    pub(crate) fn of(process: &ProcDesc) -> Self {
        Self {
            host_name: AtomicPtr::new(process.host.as_ptr().cast_mut()),
            executable_name: AtomicPtr::new(process.program.as_ptr().cast_mut()),
            pid: AtomicI32::new(process.pid),
        }
    }
}

pub(crate) fn is_being_debugged() -> bool {
    MPIR_being_debugged.load(Ordering::SeqCst) != 0
}

/// Makes the symbols name the rows, which have to stay where they are until others are published.
pub(crate) fn publish(rows: &[Row]) {
    MPIR_proctable_size.store(0, Ordering::SeqCst);
    let first = rows.first().map_or(std::ptr::null(), std::ptr::from_ref);
    MPIR_proctable.store(first.cast_mut(), Ordering::SeqCst);
    let size = i32::try_from(rows.len()).unwrap_or(i32::MAX);
    MPIR_proctable_size.store(size, Ordering::SeqCst);
}

pub(crate) fn spawned() {
    MPIR_debug_state.store(SPAWNED, Ordering::SeqCst);
    MPIR_Breakpoint();
}

/// Returns the process IDs in the table, as a debugger reads them.
#[cfg(test)]
pub(crate) fn read() -> Vec<i32> {
    let first = MPIR_proctable.load(Ordering::SeqCst);
    let size = usize::try_from(MPIR_proctable_size.load(Ordering::SeqCst)).unwrap();
    if size == 0 {
        assert!(first.is_null());
        return Vec::new();
    }
    // SAFETY: what was published stays until something else is.
    let rows = unsafe { std::slice::from_raw_parts(first.cast_const(), size) };
    rows.iter()
        .map(|row| row.pid.load(Ordering::SeqCst))
        .collect()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `libpmix.so.2`: the PMIx interface for C.
//!
//! Every function that any release of OpenPMIx since 4.2 exports is a symbol of this library, and so are the twelve
//! functions of the extension header of release 3. The only other symbol is the array `pmix_framework_names`, which
//! Open MPI 5 looks up. A function checks its arguments and converts them to the data model. It then calls [`pmix_client`], [`pmix_server`] or [`pmix_tool`], and converts the result back. The
//! headers in `include/` and the types in `abi` are generated from the tables in `data/`, and each function is
//! compared with its prototype at compile time.
//!
//! Invariants:
//!
//! 1. No panic crosses to C or ends the process: every function is guarded.
//! 2. Memory that crosses the interface is allocated and freed by the C library, in both directions.
//! 3. Signals, the locale, the environment and `atexit` functions of the program are not changed.
//! 4. Only the part of a host's module that all releases have in common is read, unless the host states its size.
//! 5. Callbacks of the program run without any lock held, and after the call that registered them has returned.
//! 6. The child of a fork begins without the state of its parent, and waits for no lock that a thread of the parent
//!    held.
//! 7. Nothing is logged unless the environment asks for it, except errors in settings that no status names.
//!
//! Rust programs use the crates above instead.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod abi;
#[allow(unsafe_code)]
mod args;
#[allow(unsafe_code)]
mod argv;
mod binding;
#[allow(unsafe_code)]
mod callback;
#[allow(unsafe_code)]
mod client;
#[allow(unsafe_code)]
mod convert;
#[allow(unsafe_code)]
mod cpuset;
#[allow(unsafe_code)]
mod datum;
mod depth;
#[allow(unsafe_code)]
mod events;
#[allow(unsafe_code)]
mod extension;
#[allow(unsafe_code)]
mod families;
#[allow(unsafe_code)]
mod gets;
#[allow(unsafe_code)]
mod groups;
#[allow(unsafe_code)]
mod guard;
#[allow(unsafe_code)]
mod iof;
mod later;
#[allow(unsafe_code)]
mod lists;
mod log;
#[allow(unsafe_code)]
mod maps;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod model;
#[allow(unsafe_code)]
mod names;
#[allow(unsafe_code)]
mod owned;
#[allow(unsafe_code)]
mod packed;
#[allow(unsafe_code)]
mod per_process;
#[allow(unsafe_code)]
mod process;
#[allow(unsafe_code)]
mod pulls;
#[allow(unsafe_code)]
mod record;
#[allow(unsafe_code)]
mod regex;
#[allow(unsafe_code)]
mod replies;
mod requester;
#[allow(unsafe_code)]
mod requests;
#[allow(unsafe_code)]
mod resolve;
#[allow(unsafe_code)]
mod resources;
#[allow(unsafe_code)]
mod server;
#[allow(unsafe_code)]
mod state;
#[allow(unsafe_code)]
mod strings;
#[allow(unsafe_code)]
mod tool;
#[allow(unsafe_code)]
mod topology;
#[allow(unsafe_code)]
mod valid;
#[allow(unsafe_code)]
mod values;

use std::ffi::c_char;

/// The type of [`FRAMEWORKS`].
#[repr(transparent)]
struct Names<const N: usize>([*const c_char; N]);

// SAFETY: the pointers lead to string constants, which are never written.
#[allow(unsafe_code)]
unsafe impl<const N: usize> Sync for Names<N> {}

/// The names of the frameworks of this library, with NULL after the last. Open MPI 5 looks up the symbol.
#[allow(unsafe_code)]
#[unsafe(export_name = "pmix_framework_names")]
static FRAMEWORKS: Names<6> = Names([
    c"bfrops".as_ptr(),
    c"gds".as_ptr(),
    c"preg".as_ptr(),
    c"psec".as_ptr(),
    c"ptl".as_ptr(),
    std::ptr::null(),
]);

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls to C functions, for plugin files, for the MUNGE library, and for the rights of the
//! process.
#![allow(unsafe_code)]

#[cfg(feature = "plugins")]
mod munge;
#[cfg(feature = "plugins")]
mod plugin;

#[cfg(feature = "plugins")]
pub use munge::Munge;
#[cfg(feature = "plugins")]
pub use plugin::{ExitGuard, Loaded, LoadedParam, load};

/// Returns `true` if the kernel requested secure execution of this program, because the program
/// gained rights by a set-id bit, by capabilities of its file, or by a security module. Source:
/// getauxval(3).
#[cfg(target_os = "linux")]
pub(crate) fn is_secure_execution() -> bool {
    use std::ffi::c_ulong;

    const AT_SECURE: c_ulong = 23;
    unsafe extern "C" {
        fn getauxval(kind: c_ulong) -> c_ulong;
    }
    // SAFETY: the C library has this function with this type; it accepts any number and only reads
    // data that the kernel stored at the start of the process.
    unsafe { getauxval(AT_SECURE) != 0 }
}

/// Returns `false`: on other systems only the user and group ids are compared.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_secure_execution() -> bool {
    false
}

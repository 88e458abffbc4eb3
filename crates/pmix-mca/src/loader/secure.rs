// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel says of the rights of this process.

/// Whether the kernel asked for secure execution when this program was started: it gained rights by
/// a set-id bit, by capabilities of its file, or by a security module. Source: getauxval(3).
#[cfg(target_os = "linux")]
pub(crate) fn is_secure_execution() -> bool {
    use std::ffi::c_ulong;

    const AT_SECURE: c_ulong = 23;
    unsafe extern "C" {
        fn getauxval(kind: c_ulong) -> c_ulong;
    }
    // SAFETY: the C library has this function with this type; it takes any number and reads what
    // the kernel left at the start of the process.
    unsafe { getauxval(AT_SECURE) != 0 }
}

/// Elsewhere only the user and group ids tell.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_secure_execution() -> bool {
    false
}

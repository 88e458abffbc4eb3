// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the library the name by which programs look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
}

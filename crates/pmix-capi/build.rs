// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets the soname by which programs load the library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
}

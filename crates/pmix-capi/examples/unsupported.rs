// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the functions of the C library that answer `PMIX_ERR_NOT_SUPPORTED` whatever they are
//! given.
//!
//!     cargo run -p pmix-capi --example unsupported

fn main() {
    for name in pmix_capi::UNSUPPORTED {
        println!("{name}");
    }
}

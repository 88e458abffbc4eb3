// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that are there and that this library cannot serve yet.

/// Defines them: each answers `PMIX_ERR_NOT_SUPPORTED`, and is one of the list.
macro_rules! not_supported {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(crate::guard::exported! {
            fn $name($($arg: $type),*) -> crate::abi::pmix_status_t {
                let _ = ($($arg,)*);
                pmix_types::Status::ERR_NOT_SUPPORTED.as_raw()
            }
        })*

        /// The functions that answer `PMIX_ERR_NOT_SUPPORTED` whatever they are given.
        pub const UNSUPPORTED: &[&str] = &[$(stringify!($name)),*];
    };
}

// None: what a release adds stands here until it is served.
not_supported! {}

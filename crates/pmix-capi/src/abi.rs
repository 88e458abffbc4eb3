// SPDX-License-Identifier: MIT OR Apache-2.0
//! The types of the C interface. The modules are generated and not formatted.
#![allow(non_camel_case_types, non_snake_case, dead_code, unused_imports)]
#![allow(clippy::let_unit_value, clippy::type_complexity)]

/// Checks at compile time that each exported function has the signature of the headers.
macro_rules! signatures {
    ($(fn $name:ident($($param:ty),*) $(-> $returns:ty)?;)*) => {
        $(const _: unsafe extern "C" fn($($param),*) $(-> $returns)? = functions::$name;)*

        /// A call of each function with NULL and zero for all arguments.
        #[cfg(test)]
        pub(crate) const CALLS: &[(&str, fn())] = &[$((stringify!($name), || {
            // SAFETY: zero is valid for every type of a parameter, and each function accepts NULL and zero.
            let _ = unsafe { functions::$name($(std::mem::zeroed::<$param>()),*) };
        })),*];
    };
}

/// All exported functions by their names.
mod functions {
    pub(crate) use crate::{
        argv::*, client::*, events::*, extension::*, families::*, gets::*, groups::*, iof::*,
        lists::*, maps::*, names::*, packed::*, requests::*, resolve::*, resources::*, server::*,
        strings::*, tool::*, topology::*, values::*,
    };
}

#[rustfmt::skip]
mod callbacks;
#[rustfmt::skip]
pub(crate) mod signatures;
#[rustfmt::skip]
mod types;

pub(crate) use callbacks::*;
pub(crate) use types::*;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the header `pmix_extend.h` of OpenPMIx 3. Later releases have the same functions with the prefix
//! `PMIx_`. Programs that were built for release 3 still call these names, for example the bootstrap of NVSHMEM.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{pmix_data_type_t, pmix_status_t, pmix_value_t};
use crate::argv::{
    PMIx_Argv_append_nosize, PMIx_Argv_append_unique_nosize, PMIx_Argv_copy, PMIx_Argv_count,
    PMIx_Argv_free, PMIx_Argv_join, PMIx_Argv_prepend_nosize, PMIx_Argv_split, PMIx_Setenv,
};
use crate::values::{PMIx_Value_load, PMIx_Value_unload, PMIx_Value_xfer};

/// Defines exported functions that call the function of later releases.
macro_rules! renamed {
    ($(fn $name:ident($($arg:ident: $of:ty),*) $(-> $returns:ty)? = $call:expr;)*) => {
        $(
            /// # Safety
            ///
            /// Each argument obeys the contract of the function that this function calls.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($arg: $of),*) $(-> $returns)? {
                // SAFETY: the caller guarantees the contract of the called function, whose parameters these are.
                unsafe { $call }
            }
        )*
    };
}

renamed! {
    fn pmix_value_load(v: *mut pmix_value_t, data: *const c_void, of: pmix_data_type_t) = {
        // Release 3 returns no status. A value whose datum cannot be copied has the type `PMIX_UNDEF`.
        PMIx_Value_load(v, data, of);
    };
    fn pmix_value_unload(kv: *mut pmix_value_t, data: *mut *mut c_void, sz: *mut usize) -> pmix_status_t =
        PMIx_Value_unload(kv, data, sz);
    fn pmix_value_xfer(kv: *mut pmix_value_t, src: *const pmix_value_t) -> pmix_status_t =
        PMIx_Value_xfer(kv, src);
    fn pmix_argv_append_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t =
        PMIx_Argv_append_nosize(argv, arg);
    fn pmix_argv_prepend_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> pmix_status_t =
        PMIx_Argv_prepend_nosize(argv, arg);
    fn pmix_argv_append_unique_nosize(argv: *mut *mut *mut c_char, arg: *const c_char, _overwrite: bool) -> pmix_status_t =
        // An overwritten element would have the same text.
        PMIx_Argv_append_unique_nosize(argv, arg);
    fn pmix_argv_free(argv: *mut *mut c_char) = PMIx_Argv_free(argv);
    fn pmix_argv_split(src_string: *const c_char, delimiter: c_int) -> *mut *mut c_char =
        PMIx_Argv_split(src_string, delimiter);
    fn pmix_argv_count(argv: *mut *mut c_char) -> c_int = PMIx_Argv_count(argv);
    fn pmix_argv_join(argv: *mut *mut c_char, delimiter: c_int) -> *mut c_char = PMIx_Argv_join(argv, delimiter);
    fn pmix_argv_copy(argv: *mut *mut c_char) -> *mut *mut c_char = PMIx_Argv_copy(argv);
    fn pmix_setenv(name: *const c_char, value: *const c_char, overwrite: bool, env: *mut *mut *mut c_char) -> pmix_status_t =
        PMIx_Setenv(name, value, overwrite, env);
}

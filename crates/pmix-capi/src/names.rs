// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: keys, namespaces, ranks and processes.

use std::ffi::c_char;
use std::ptr;

use pmix_types::{Key, Nspace, Proc, Rank, Text};

use crate::abi::*;
use crate::guard::exported;
use crate::memory::{fill, text_within};
use crate::model::Model;

/// Returns a namespace from a string; an empty one for NULL.
///
/// # Safety
/// `at` is NULL, a string, or an array of the size of a namespace.
pub(crate) unsafe fn nspace_at(at: *const c_char) -> Nspace<'static> {
    // SAFETY: the caller guarantees a string or 256 readable bytes.
    let bytes = unsafe { text_within(at, 256) }.unwrap_or_default();
    Nspace::new(Text::new(bytes.to_vec()))
}

/// Converts a C process; `None` for NULL.
///
/// # Safety
/// `at` is NULL or points to a valid process.
pub(crate) unsafe fn proc_at(at: *const pmix_proc_t) -> Option<Proc<'static>> {
    // SAFETY: the caller guarantees that `at` is NULL or valid.
    unsafe { at.as_ref().and_then(|proc| Proc::from_c(proc).ok()) }
}

/// Fills an array of characters that C passes as a pointer.
///
/// # Safety
/// `at` is NULL or has room for `N` characters.
unsafe fn fill_at<const N: usize>(at: *mut c_char, from: &[u8]) {
    // SAFETY: the caller guarantees NULL or room for `N` characters.
    if let Some(to) = unsafe { at.cast::<[c_char; N]>().as_mut() } {
        fill(to, from);
    }
}

exported! {
    fn PMIx_Load_key(key: *mut c_char, src: *const c_char) {
        // SAFETY: the header requires `key` to have room for 512 characters, and `src` to be NULL or a string.
        unsafe { fill_at::<512>(key, text_within(src, 512).unwrap_or_default()) };
    }

    fn PMIx_Load_nspace(nspace: *mut c_char, str: *const c_char) {
        // SAFETY: the header requires `nspace` to have room for 256 characters, and `str` to be NULL or a string.
        unsafe { fill_at::<256>(nspace, text_within(str, 256).unwrap_or_default()) };
    }

    fn PMIx_Load_procid(p: *mut pmix_proc_t, ns: *const c_char, rk: pmix_rank_t) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        unsafe { load(p, ns, rk) };
    }

    fn PMIx_Proc_load(p: *mut pmix_proc_t, nspace: *const c_char, rank: pmix_rank_t) {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        unsafe { load(p, nspace, rank) };
    }

    fn PMIx_Xfer_procid(dst: *mut pmix_proc_t, src: *const pmix_proc_t) {
        if !dst.is_null() && !src.is_null() {
            // SAFETY: the header requires both to be valid; neither is NULL. `ptr::copy` allows that they are the
            // same.
            unsafe { ptr::copy(src, dst, 1) };
        }
    }

    fn PMIx_Check_key(key: *const c_char, str: *const c_char) -> bool {
        // SAFETY: the header requires both to be NULL, strings, or arrays of the size of a key.
        match unsafe { (text_within(key, 512), text_within(str, 512)) } {
            (Some(one), Some(other)) => Key::from(one).is(other),
            _ => false,
        }
    }

    fn PMIx_Check_reserved_key(key: *const c_char) -> bool {
        // SAFETY: the header requires `key` to be NULL, a string, or an array of the size of a key.
        unsafe { text_within(key, 512) }.is_some_and(|key| Key::from(key).is_reserved())
    }

    fn PMIx_Check_nspace(key1: *const c_char, key2: *const c_char) -> bool {
        // SAFETY: the header requires both to be NULL, strings, or arrays of the size of a namespace.
        unsafe { nspace_at(key1).matches(&nspace_at(key2)) }
    }

    fn PMIx_Nspace_invalid(nspace: *const c_char) -> bool {
        // SAFETY: the header requires `nspace` to be NULL or to have at least one character.
        unsafe { text_within(nspace, 1) }.is_none_or(<[u8]>::is_empty)
    }

    fn PMIx_Check_rank(a: pmix_rank_t, b: pmix_rank_t) -> bool {
        Rank::new(a).matches(Rank::new(b))
    }

    fn PMIx_Rank_valid(a: pmix_rank_t) -> bool {
        Rank::new(a) < Rank::MAX_VALID
    }

    fn PMIx_Check_procid(a: *const pmix_proc_t, b: *const pmix_proc_t) -> bool {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        match unsafe { (proc_at(a), proc_at(b)) } {
            (Some(one), Some(other)) => one.matches(&other),
            _ => false,
        }
    }

    fn PMIx_Procid_invalid(p: *const pmix_proc_t) -> bool {
        // SAFETY: the header requires each pointer to be NULL or valid for its type.
        unsafe { proc_at(p) }.is_none_or(|proc| proc.is_invalid())
    }

    fn PMIx_Multicluster_nspace_construct(target: *mut c_char, cluster: *mut c_char, nspace: *mut c_char) {
        // SAFETY: the header requires both to be NULL, strings, or arrays of the size of a namespace.
        let joined = unsafe { Nspace::of_cluster(&nspace_at(cluster), &nspace_at(nspace)) };
        // SAFETY: the header requires `target` to be NULL or to have room for 256 characters.
        unsafe { fill_at::<256>(target, joined.unwrap_or_default().as_bytes()) };
    }

    fn PMIx_Multicluster_nspace_parse(target: *mut c_char, cluster: *mut c_char, nspace: *mut c_char) {
        // SAFETY: the header requires `target` to be NULL, a string, or an array of the size of a namespace.
        let joined = unsafe { nspace_at(target) };
        let (first, second) = joined.split_cluster();
        // SAFETY: the header requires `cluster` and `nspace` to be NULL or to have room for 256 characters.
        unsafe {
            fill_at::<256>(cluster, first.as_bytes());
            fill_at::<256>(nspace, second.as_bytes());
        }
    }
}

unsafe fn load(at: *mut pmix_proc_t, nspace: *const c_char, rank: pmix_rank_t) {
    // SAFETY: the callers pass pointers of the program, which the header requires to be NULL or valid.
    unsafe {
        if let Some(to) = at.as_mut() {
            let name = text_within(nspace, 256).unwrap_or_default().to_vec();
            fill(&mut to.nspace, &name);
            to.rank = rank;
        }
    }
}

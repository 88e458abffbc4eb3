// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of a host when memory is short.

use std::ffi::{c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pmix_server::upcall;
use pmix_types::{Proc, Rank, Status};

use super::CHost;
use crate::abi::*;
use crate::memory::{Result, release, shortage};
use crate::server::pending::ReplyTo;

/// The number of calls of the host's fence function.
static CALLED: AtomicUsize = AtomicUsize::new(0);
/// The status of each completed fence.
static ENDED: Mutex<Vec<Status>> = Mutex::new(Vec::new());

unsafe extern "C" fn fence_nb(
    _: *const pmix_proc_t,
    _: usize,
    _: *const pmix_info_t,
    _: usize,
    data: *mut c_char,
    ndata: usize,
    _: pmix_modex_cbfunc_t,
    _: *mut c_void,
) -> pmix_status_t {
    assert_eq!(ndata, 1000);
    CALLED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the host owns the data of a fence, which the C library allocated.
    unsafe { release(data) };
    Status::ERR_UNREACH.as_raw()
}

#[test]
fn a_fence_without_memory_for_it_fails_and_its_host_is_not_called() {
    let host = CHost::new(Some(&pmix_server_module_t {
        fence_nb: Some(fence_nb),
        // SAFETY: zeros are a module without functions.
        ..unsafe { std::mem::zeroed() }
    }));
    let fence = |most, num_procs| {
        let procs = vec![Proc::new("job", Rank::new(0)); num_procs];
        let note = |answer: Result<_>| {
            let answer = answer.map(|(status, _): (_, Vec<u8>)| status);
            ENDED
                .lock()
                .unwrap()
                .push(answer.unwrap_or_else(|status| status));
        };
        shortage::with_most(most, || {
            let call = upcall::Fence::new(procs, Vec::new(), vec![7; 1000]);
            host.fence_nb(call, ReplyTo::Own(Box::new(note)))
        });
    };
    fence(usize::MAX, 1);
    assert_eq!(CALLED.load(Ordering::Relaxed), 1);
    // Too little memory for the data, and too little for the processes.
    fence(999, 1);
    fence(2000, 100);
    assert_eq!(CALLED.load(Ordering::Relaxed), 1);
    let ended = [Status::ERR_UNREACH, Status::ERR_NOMEM, Status::ERR_NOMEM];
    assert_eq!(*ENDED.lock().unwrap(), ended);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wrapper for every exported function: no panic crosses to C or ends the process, and no thread is canceled
//! during a call.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pmix_types::Status;

use crate::callback::Entered;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// The value of `PTHREAD_CANCEL_DISABLE` in `pthread.h`.
const CANCEL_DISABLE: c_int = 1;

/// A guard that disables cancellation of its thread until it is dropped. A cancellation unwinds the stack of the
/// thread, and C must not unwind frames of this library.
struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    fn new() -> Self {
        let mut before = CANCEL_DISABLE;
        // SAFETY: the call changes only the calling thread, and `before` is valid for writes.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        Self { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // A call made from a callback finds cancellation disabled, and leaves it disabled for the outer call.
        if self.before != CANCEL_DISABLE {
            // SAFETY: the call changes only the calling thread; glibc and musl accept NULL for the old state.
            unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
        }
    }
}

/// The return value of an exported function whose body panicked.
pub(crate) trait Fallback {
    /// Returns that value.
    fn fallback() -> Self;

    /// Returns the status if the value reports a failure.
    fn failure(&self) -> Option<Status> {
        None
    }
}

macro_rules! fallbacks {
    ($($type:ty = $value:expr;)*) => {
        $(impl Fallback for $type {
            fn fallback() -> Self {
                $value
            }
        })*
    };
}

fallbacks! {
    () = ();
    // The values of C enumerations: `PMIX_NON_BOOL`, and `PMIX_VALUE2_GREATER`, which at least is not `PMIX_EQUAL`.
    u32 = 2;
    usize = 0;
    bool = false;
}

impl Fallback for i32 {
    fn fallback() -> Self {
        Status::ERROR.as_raw()
    }

    fn failure(&self) -> Option<Status> {
        let status = Status::from_raw(*self);
        (*self < 0 && status != Status::OPERATION_SUCCEEDED).then_some(status)
    }
}

impl<T> Fallback for *mut T {
    fn fallback() -> Self {
        std::ptr::null_mut()
    }
}

impl<T> Fallback for *const T {
    fn fallback() -> Self {
        std::ptr::null()
    }
}

/// Runs the body of an exported function.
pub(crate) fn guard<R: Fallback>(name: &'static str, body: impl FnOnce() -> R) -> R {
    // Dropped last: the fewer instructions between its drop and the return, the shorter a callback must wait.
    let _entered = Entered::new();
    let _uncancelled = Uncancelled::new();
    let run = AssertUnwindSafe(|| {
        #[cfg(test)]
        tests::panic_if_asked();
        body()
    });
    let answer = catch_unwind(run).unwrap_or_else(|payload| {
        // Dropping the payload may panic again, so the few bytes are leaked.
        std::mem::forget(payload);
        tracing::error!(name, "a function of the C library panicked");
        R::fallback()
    });
    if let Some(status) = answer.failure() {
        tracing::debug!("{name} returns {status}");
    }
    answer
}

/// Defines exported functions: each is a symbol of the library, with its body run by [`guard`].
macro_rules! exported {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $returns:ty)? $body:block)*) => {
        $(
            $(#[$meta])*
            /// # Safety
            ///
            /// Each pointer is NULL or valid for its type, and each array has as many elements as its count says
            /// (header contract).
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub(crate) unsafe extern "C" fn $name($($arg: $type),*) $(-> $returns)? {
                crate::guard::guard(stringify!($name), move || $body)
            }
        )*
    };
}

pub(crate) use exported;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::abi::signatures::CALLS;

    thread_local! {
        static ASKED: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn panic_if_asked() {
        if ASKED.take() {
            panic!("as asked");
        }
    }

    #[test]
    fn a_panic_in_any_function_ends_in_it() {
        std::panic::set_hook(Box::new(|_| {}));
        for (name, call) in CALLS {
            ASKED.set(true);
            call();
            assert!(!ASKED.take(), "{name} is not guarded");
        }
        let _ = std::panic::take_hook();
    }
}

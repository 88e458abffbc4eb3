// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wraps every exported function, so that no panic crosses to C or ends the process, and no thread is
//! cancelled during a call.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pmix_types::Status;

use crate::callback::Entered;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// The value of `PTHREAD_CANCEL_DISABLE` in `pthread.h`.
const CANCEL_DISABLE: c_int = 1;

/// Keeps its thread from being cancelled, until it is dropped: a cancellation unwinds what waits, and no
/// frame of this library may be unwound by C.
struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    fn new() -> Self {
        let mut before = CANCEL_DISABLE;
        // SAFETY: it changes the caller's thread alone, and there is room for what was before.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        Self { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // A call that a callback makes finds cancellation disabled, and leaves it so for the call around it.
        if self.before != CANCEL_DISABLE {
            // SAFETY: as above; nobody asks what was before.
            unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
        }
    }
}

/// What a function answers when its body panicked.
pub(crate) trait Fallback {
    /// The answer.
    fn fallback() -> Self;

    /// The status, if the answer is one of a failure.
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
    // The numbers of C enumerations: a value is no truth value, two values cannot be compared.
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
    // Ends last: the fewer instructions come between its end and the return, the better.
    let _entered = Entered::new();
    let _uncancelled = Uncancelled::new();
    let run = AssertUnwindSafe(|| {
        #[cfg(test)]
        tests::panic_if_asked();
        body()
    });
    let answer = catch_unwind(run).unwrap_or_else(|payload| {
        // What was thrown may panic when it is dropped; it is small and there is none after it.
        std::mem::forget(payload);
        tracing::error!(name, "a function of the C library panicked");
        R::fallback()
    });
    if let Some(status) = answer.failure() {
        tracing::debug!("{name} returns {status}");
    }
    answer
}

/// Defines exported functions: each is a symbol of the library, and guarded.
macro_rules! exported {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $returns:ty)? $body:block)*) => {
        $(
            $(#[$meta])*
            /// # Safety
            ///
            /// As the header says: every pointer is NULL or points to what its type says, as many
            /// as the number beside it says.
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

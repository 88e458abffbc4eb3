// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wrapper for every exported function: no panic crosses to C or ends the process, and no thread is canceled
//! during a call.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pmix_types::Status;

use crate::callback::Entered;
use crate::memory::Result;

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

/// The return type of an exported function.
pub(crate) trait Returned {
    /// Returns the value for a failure.
    fn failed(status: Status) -> Self;

    /// Returns the status if the value reports a failure.
    fn failure(&self) -> Option<Status> {
        None
    }
}

macro_rules! returned {
    ($($type:ty = $value:expr;)*) => {
        $(impl Returned for $type {
            fn failed(_: Status) -> Self {
                $value
            }
        })*
    };
}

returned! {
    () = ();
    // The values of C enumerations: `PMIX_NON_BOOL`, and `PMIX_VALUE2_GREATER`, which at least is not `PMIX_EQUAL`.
    u32 = 2;
    usize = 0;
    bool = false;
}

impl Returned for i32 {
    fn failed(status: Status) -> Self {
        status.as_raw()
    }

    fn failure(&self) -> Option<Status> {
        let status = Status::from_raw(*self);
        (*self < 0 && status != Status::OPERATION_SUCCEEDED).then_some(status)
    }
}

impl<T> Returned for *mut T {
    fn failed(_: Status) -> Self {
        std::ptr::null_mut()
    }
}

impl<T> Returned for *const T {
    fn failed(_: Status) -> Self {
        std::ptr::null()
    }
}

/// A result of a body that has a form in C.
pub(crate) trait IntoC<R> {
    fn into_c(self) -> R;
}

impl<R: Returned> IntoC<R> for R {
    fn into_c(self) -> R {
        self
    }
}

impl IntoC<i32> for () {
    fn into_c(self) -> i32 {
        Status::SUCCESS.as_raw()
    }
}

impl IntoC<i32> for Status {
    fn into_c(self) -> i32 {
        self.as_raw()
    }
}

/// Runs the body of an exported function.
pub(crate) fn guard<R: Returned, T: IntoC<R>>(
    name: &'static str,
    body: impl FnOnce() -> Result<T>,
) -> R {
    // Dropped last: the fewer instructions between its drop and the return, the shorter a callback must wait.
    let _entered = Entered::new();
    let _uncancelled = Uncancelled::new();
    let run = AssertUnwindSafe(|| {
        #[cfg(test)]
        tests::panic_if_asked();
        body().map_or_else(R::failed, T::into_c)
    });
    let answer = catch_unwind(run).unwrap_or_else(|payload| {
        // Dropping the payload may panic again, so the few bytes are leaked.
        std::mem::forget(payload);
        tracing::error!(name, "a function of the C library panicked");
        R::failed(Status::ERROR)
    });
    if let Some(status) = answer.failure() {
        tracing::debug!("{name} returns {status}");
    }
    answer
}

/// Defines exported functions: each is a symbol of the library, with its body run by [`guard`].
///
/// A parameter is written as `name: Kind`, or as `(name, second): Kind` if it is two parameters in C, with a kind of
/// [`args`](crate::args). `name = expression;` before the parameters gets a role that the function needs, whose error
/// comes before those of the arguments. The body is a `Result`, which becomes the return value.
macro_rules! exported {
    ($($(#[$meta:meta])* fn $name:ident($($params:tt)*) $(-> $returns:ty)? $body:block)*) => {
        $(crate::guard::exported! {
            @roles { $(#[$meta])* fn $name $(-> $returns)? $body } [] $($params)*
        })*
    };
    (@roles $function:tt [$($roles:tt)*] $role:ident = $get:expr; $($rest:tt)*) => {
        crate::guard::exported! { @roles $function [$($roles)* { $role $get }] $($rest)* }
    };
    (@roles $function:tt $roles:tt $($rest:tt)*) => {
        crate::guard::exported! { @params $function $roles [] $($rest)* }
    };
    (@params $function:tt $roles:tt [$($params:tt)*]
        ($first:ident, $second:ident): $kind:ty $(, $($rest:tt)*)?) => {
        crate::guard::exported! {
            @params $function $roles [$($params)* { $first $second; $kind }] $($($rest)*)?
        }
    };
    (@params $function:tt $roles:tt [$($params:tt)*] $arg:ident: $kind:ty $(, $($rest:tt)*)?) => {
        crate::guard::exported! { @params $function $roles [$($params)* { $arg; $kind }] $($($rest)*)? }
    };
    (@params { $(#[$meta:meta])* fn $name:ident $(-> $returns:ty)? $body:block }
        [$({ $role:ident $get:expr })*] [$({ $arg:ident $($second:ident)?; $kind:ty })*]) => {
        $(#[$meta])*
        /// # Safety
        ///
        /// Each argument obeys the contract of the header, which the module `args` states.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        #[allow(unused_mut, reason = "most bodies do not change their arguments")]
        pub(crate) unsafe extern "C" fn $name(
            $($arg: crate::guard::exported!(@first [$($second)?] $kind)$(, $second: <$kind as crate::args::Pair>::Second)?),*
        ) $(-> $returns)? {
            let _scope = crate::args::CallScope::new();
            crate::guard::guard(stringify!($name), || {
                // SAFETY: the arguments are those that the program passed, which the header obliges to its contract
                // until this function returns, and so for the whole scope.
                $(unsafe { crate::guard::exported!(@call reset [$kind] $arg $(, $second)?) };)*
                $(let $role = $get;)*
                // SAFETY: `reset` has left only values that the header lets this function read, and the program keeps its
                // arguments valid until this function returns.
                $(let mut $arg = unsafe { crate::guard::exported!(@call take [$kind] $arg $(, $second)?; &_scope)? };)*
                $body
            })
        }
    };
    (@first [] $kind:ty) => { <$kind as crate::args::Parameter>::C };
    (@first [$second:ident] $kind:ty) => { <$kind as crate::args::Pair>::First };
    (@call $method:ident [$kind:ty] $arg:ident $(; $scope:expr)?) => {
        <$kind as crate::args::Parameter>::$method($arg $(, $scope)?)
    };
    (@call $method:ident [$kind:ty] $arg:ident, $second:ident $(; $scope:expr)?) => {
        <$kind as crate::args::Pair>::$method($arg, $second $(, $scope)?)
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

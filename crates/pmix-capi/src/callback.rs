// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delays a callback until the call that registered it has returned to the program.
//!
//! The PMIx Standard forbids the library to invoke a callback before the function has returned: a program may
//! store the result of the function, or take a lock, right after the call. A call leaves the library with a store to
//! [`Call::left`]. No later instruction of this library can be observed from another thread. The thread that runs the
//! callback therefore observes the calling thread. It waits until that thread calls another function of the library,
//! sleeps in a system call, or has used [`RUN_ON`] of CPU time since.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::convert::Data;
use crate::later::put_off;

/// The CPU time after which a thread must have executed the few instructions between the end of [`Entered`] and the
/// `ret` of the exported function. The kernel charges the time of an interrupt between them to the thread: with 5
/// microseconds, 1 of 100,000 callbacks came early.
const RUN_ON: Duration = Duration::from_micros(100);

/// The time for which a callback may delay the callbacks after it, if its own call has not returned.
const HOLD_OTHERS: Duration = Duration::from_millis(10);

/// The longest wait for a thread that is runnable but does not run, because other threads use its CPU.
const RUNNABLE_LIMIT: Duration = Duration::from_secs(1);

/// The longest wait for a thread whose state cannot be read, or that a debugger has stopped.
const UNKNOWN_LIMIT: Duration = Duration::from_millis(20);

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

unsafe extern "C" {
    fn pthread_self() -> *mut c_void;
    fn pthread_getcpuclockid(thread: *mut c_void, clock: *mut c_int) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

/// A call of an exported function that has a callback.
struct Call {
    thread: ThreadId,
    /// The CPU-time clock of `thread`; 0 if the system has none.
    clock: c_int,
    /// The number of calls that `thread` has made to this library.
    num_entered: Arc<AtomicU64>,
    /// The value of `num_entered` when the call left the library; 0 until then.
    left: AtomicU64,
    /// The time at which the call left the library, set before `left`.
    left_at: OnceLock<Instant>,
    /// The CPU time of `thread` when another thread first saw that the call has left.
    first_seen: OnceLock<Option<Duration>>,
}

/// The calls of a thread.
struct Caller {
    num_entered: Arc<AtomicU64>,
    /// The nesting depth of calls: a callback may call the library.
    depth: Cell<u32>,
    /// The call that the thread is in, if a callback belongs to it.
    current: Cell<Option<Arc<Call>>>,
    /// The call that left last. The next call frees it, because freeing may take a lock that would delay the return.
    last: Cell<Option<Arc<Call>>>,
}

thread_local! {
    static CALLER: Caller = Caller {
        num_entered: Arc::default(),
        depth: Cell::new(0),
        current: Cell::new(None),
        last: Cell::new(None),
    };
}

/// A guard that exists while a thread is in an exported function.
pub(crate) struct Entered {
    /// The call around this one, if this one was made from a callback.
    outer: Option<Arc<Call>>,
}

impl Entered {
    pub(crate) fn new() -> Self {
        // A thread that is ending has no thread-local data; its callbacks are not delayed.
        let outer = CALLER.try_with(|caller| {
            let number = caller.num_entered.load(Ordering::Relaxed) + 1;
            // Release: another thread that reads the number sees everything that this thread did between the two
            // calls.
            caller.num_entered.store(number, Ordering::Release);
            caller.depth.set(caller.depth.get().saturating_add(1));
            caller.current.take()
        });
        Self {
            outer: outer.unwrap_or_default(),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = CALLER.try_with(|caller| {
            caller.depth.set(caller.depth.get().saturating_sub(1));
            let Some(call) = caller.current.replace(self.outer.take()) else {
                return;
            };
            // The store is the last action, after which a callback may run. Nothing may be freed after it, so `last`
            // keeps the call.
            let left: *const AtomicU64 = &raw const call.left;
            let _ = call.left_at.set(Instant::now());
            drop(caller.last.replace(Some(call)));
            let number = caller.num_entered.load(Ordering::Relaxed);
            // SAFETY: `last` owns the call, and only this thread changes `last`.
            unsafe { &*left }.store(number, Ordering::Release);
        });
    }
}

/// A type of callback, and how its result is delivered. NULL delivers nothing.
pub(crate) trait Deliver: Copy + Send + 'static {
    /// The result that the callback receives.
    type Result: Send + 'static;

    fn is_null(&self) -> bool;

    /// Calls the callback with the result in its C form.
    ///
    /// # Safety
    /// The program passed the function with this `cbdata`, as the header declares it.
    unsafe fn deliver(self, result: Self::Result, cbdata: *mut c_void);
}

/// A callback of a program, and the call that registered it.
///
/// Invariant: the program passed the function with this `cbdata`.
#[derive(Clone)]
pub(crate) struct Callback<F> {
    function: F,
    data: Data,
    call: Option<Arc<Call>>,
}

impl<F: Copy + Send + 'static> Callback<F> {
    /// Wraps the callback of the exported function that this thread is in.
    ///
    /// # Safety
    /// The invariant of [`Callback`] holds.
    pub(crate) unsafe fn new(function: F, data: Data) -> Self {
        Self {
            function,
            data,
            call: Call::current(),
        }
    }

    /// Calls `with` once the call that registered the callback has returned. A call that takes long does not delay
    /// other callbacks: it is put at the end of the queue and tried again.
    fn call(self, with: impl FnOnce(F, *mut c_void) + Send + 'static) {
        let Some(call) = &self.call else {
            return with(self.function, self.data.get());
        };
        if call.is_of_this_thread() || call.has_returned(HOLD_OTHERS) {
            return with(self.function, self.data.get());
        }
        let job = Arc::new(Mutex::new(Some((self, with))));
        let take =
            |job: &Mutex<Option<_>>| job.lock().unwrap_or_else(PoisonError::into_inner).take();
        let again = Arc::clone(&job);
        let queued = put_off(move || {
            if let Some((callback, with)) = take(&again) {
                callback.call(with);
            }
        });
        // There is no queue, or it is ending. An early callback is better than none, and better than one after
        // finalize.
        if queued.is_err()
            && let Some((callback, with)) = take(&job)
        {
            with(callback.function, callback.data.get());
        }
    }
}

impl<F: Deliver> Callback<F> {
    pub(crate) fn is_null(&self) -> bool {
        self.function.is_null()
    }

    /// Delivers the result, but not before the call that registered the callback has returned.
    pub(crate) fn complete(self, result: F::Result) {
        if !self.is_null() {
            self.complete_then(result, || {});
        }
    }

    /// Delivers the result, then calls `then`.
    pub(crate) fn complete_then(self, result: F::Result, then: impl FnOnce() + Send + 'static) {
        self.call(move |function, cbdata| {
            // SAFETY: the invariant of `Callback`.
            unsafe { function.deliver(result, cbdata) };
            then();
        });
    }
}

impl Call {
    /// Returns the call that this thread is in, if any.
    fn current() -> Option<Arc<Self>> {
        let current = CALLER.try_with(|caller| {
            if caller.depth.get() == 0 {
                return None;
            }
            let call = caller.current.take().unwrap_or_else(|| {
                Arc::new(Self {
                    thread: thread::current().id(),
                    clock: own_clock(),
                    num_entered: Arc::clone(&caller.num_entered),
                    left: AtomicU64::new(0),
                    left_at: OnceLock::new(),
                    first_seen: OnceLock::new(),
                })
            });
            caller.current.set(Some(Arc::clone(&call)));
            Some(call)
        });
        current.unwrap_or_default()
    }

    fn is_of_this_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// Waits until the call has returned to the program. Returns `false` if that is not certain after `limit`.
    fn has_returned(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        let mut pause = Pause::default();
        let left = loop {
            match self.left.load(Ordering::Acquire) {
                0 if begun.elapsed() > limit => return time_of(self.clock).is_none(),
                0 => pause.wait(),
                left => break left,
            }
        };
        let left_at = *self.left_at.get_or_init(Instant::now);
        // A call that left so long ago has returned, whatever state its thread has now.
        if left_at.elapsed() > RUNNABLE_LIMIT {
            return true;
        }
        let Some(first) = *self.first_seen.get_or_init(|| time_of(self.clock)) else {
            return true;
        };
        let mut last = first;
        pause = Pause::default();
        while self.num_entered.load(Ordering::Acquire) == left {
            match time_of(self.clock) {
                None => return true,
                // A CPU time below the first one belongs to a new thread that reuses the number of the ended one.
                Some(now) if now < first || now - first >= RUN_ON => return true,
                Some(now) if now != last && begun.elapsed() <= limit => last = now,
                Some(_) if pause.is_long() && self.thread_rests(left_at) => return true,
                Some(_) if begun.elapsed() > limit => return false,
                Some(_) => {}
            }
            pause.wait();
        }
        true
    }

    /// Returns `true` if the thread, which has left the library, sleeps in a system call and so has returned. Returns
    /// `true` as well after [`RUNNABLE_LIMIT`] if the thread is runnable but does not run.
    fn thread_rests(&self, left_at: Instant) -> bool {
        let limit = match state_of(self.clock) {
            Some(b'S' | b'Z' | b'X') => return true,
            Some(b'R') => RUNNABLE_LIMIT,
            _ => UNKNOWN_LIMIT,
        };
        left_at.elapsed() > limit
    }
}

/// A wait for another thread. It spins first, because the other thread usually needs less than a microsecond.
#[derive(Default)]
struct Pause {
    num_waits: u32,
}

impl Pause {
    const NUM_SPINS: u32 = 16;
    const NUM_YIELDS: u32 = 4;

    fn wait(&mut self) {
        self.num_waits = self.num_waits.saturating_add(1);
        match self.num_waits.checked_sub(Self::NUM_SPINS) {
            None => std::hint::spin_loop(),
            Some(0..Self::NUM_YIELDS) => thread::yield_now(),
            Some(waits) => {
                let most = waits.min(10);
                thread::sleep(Duration::from_micros(1 << most));
            }
        }
    }

    const fn is_long(&self) -> bool {
        self.num_waits > Self::NUM_SPINS
    }
}

/// Returns the CPU-time clock of this thread.
fn own_clock() -> c_int {
    let mut clock = 0;
    // SAFETY: `pthread_self` is a live thread, and `clock` is valid for writes.
    match unsafe { pthread_getcpuclockid(pthread_self(), &raw mut clock) } {
        0 => clock,
        _ => 0,
    }
}

/// Returns the CPU time that a thread has used; `None` if the thread has ended.
fn time_of(clock: c_int) -> Option<Duration> {
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: `time` is valid for writes and has the layout of `struct timespec`.
    if clock == 0 || unsafe { clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let seconds = Duration::from_secs(u64::try_from(time.seconds).ok()?);
    Some(seconds + Duration::from_nanos(u64::try_from(time.nanoseconds).ok()?))
}

/// Returns the state of a thread from `/proc`. On Linux the number of the thread is part of the number of its clock.
fn state_of(clock: c_int) -> Option<u8> {
    let thread = !(clock >> 3);
    let stat = std::fs::read(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The name of the thread, in parentheses, may contain any byte, so the last `)` ends it.
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_end + 2).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    use super::*;

    impl Callback<fn()> {
        fn of_test() -> Self {
            // SAFETY: the function is never called.
            unsafe { Self::new(|| {}, Data(std::ptr::null_mut())) }
        }
    }

    /// Registers a callback in a call that lasts for `stay`. Returns `true` if the callback ran inside that call.
    fn was_in_call(stay: Duration, after: impl FnOnce() + Send) -> bool {
        static IS_IN: AtomicBool = AtomicBool::new(false);
        let (sender, receiver) = mpsc::channel::<Callback<fn()>>();
        thread::scope(|scope| {
            let seen = scope.spawn(move || {
                let (answer, answered) = mpsc::channel();
                let callback = receiver.recv().unwrap();
                callback.call(move |_, _| answer.send(IS_IN.load(Ordering::Acquire)).unwrap());
                answered.recv().unwrap()
            });
            IS_IN.store(true, Ordering::Release);
            {
                let _entered = Entered::new();
                let callback = Callback::<fn()>::of_test();
                sender.send(callback).unwrap();
                thread::sleep(stay);
            }
            IS_IN.store(false, Ordering::Release);
            after();
            seen.join().unwrap()
        })
    }

    type InCall = (Callback<fn()>, mpsc::Sender<()>, thread::JoinHandle<()>);

    /// Returns a callback of a call that lasts until the returned sender is used or dropped.
    fn in_call() -> InCall {
        let (sender, receiver) = mpsc::channel();
        let (leave, leaves) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let _entered = Entered::new();
            let callback = Callback::<fn()>::of_test();
            sender.send(callback).unwrap();
            let _ = leaves.recv();
        });
        (receiver.recv().unwrap(), leave, thread)
    }

    #[test]
    fn a_callback_that_is_held_back_is_called_before_the_thread_that_calls_back_has_ended() {
        let _lock = crate::later::ENDS
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (callback, leave, thread) = in_call();
        let is_called = Arc::new(AtomicBool::new(false));
        let called = Arc::clone(&is_called);
        put_off(move || callback.call(move |_, _| called.store(true, Ordering::SeqCst))).unwrap();
        // The callback is put off at least once before the queue ends.
        thread::sleep(HOLD_OTHERS * 2);
        assert!(!is_called.load(Ordering::SeqCst));
        crate::later::end();
        assert!(is_called.load(Ordering::SeqCst));
        drop(leave);
        thread.join().unwrap();
    }

    #[test]
    fn a_call_that_left_long_ago_has_returned() {
        let (callback, leave, thread) = in_call();
        drop(leave);
        thread.join().unwrap();
        let mut call = Arc::into_inner(callback.call.unwrap()).unwrap();
        // The clock of a thread that still runs.
        call.clock = own_clock();
        let ago = Instant::now().checked_sub(RUNNABLE_LIMIT * 2).unwrap();
        call.left_at = OnceLock::from(ago);
        assert!(call.has_returned(HOLD_OTHERS));
        assert!(call.first_seen.get().is_none(), "it is not observed");
    }

    #[test]
    fn a_callback_waits_until_its_call_has_returned() {
        let _lock = crate::later::ENDS
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for stay in [0, 1, 5, 50] {
            assert!(!was_in_call(Duration::from_millis(stay), || {}), "{stay}");
        }
        // A thread that runs on without a system call, and a thread that calls the library again.
        let spins = || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(20) {}
        };
        assert!(!was_in_call(Duration::ZERO, spins));
        assert!(!was_in_call(Duration::ZERO, || drop(Entered::new())));
        crate::later::end();
    }

    #[test]
    fn a_callback_in_the_thread_of_its_call_or_outside_of_calls_is_not_held_back() {
        let (sender, receiver) = mpsc::channel();
        let _entered = Entered::new();
        let callback = Callback::<fn()>::of_test();
        callback.call(move |_, _| sender.send(()).unwrap());
        receiver.try_recv().unwrap();
    }

    #[test]
    fn the_callback_of_a_thread_that_has_ended_is_called() {
        let callback = thread::spawn(|| {
            let _entered = Entered::new();
            Callback::<fn()>::of_test()
        });
        let callback = callback.join().unwrap();
        let (sender, receiver) = mpsc::channel();
        callback.call(move |_, _| sender.send(()).unwrap());
        receiver.try_recv().unwrap();
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The delivery of an event from handler to handler. Each handler reports its completion at once or later, from any
//! thread, and may end the chain.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_client::GroupDecision;
use pmix_proto::Event;
use pmix_types::{DataType, Info, Key, Status, Text, Value, keys};

use super::{Turn, handlers};
use crate::abi::*;
use crate::callback::Deliver as _;
use crate::convert::infos_of;
use crate::groups::decision;
use crate::memory::fill;
use crate::model::Model;
use crate::per_process::PerProcess;
use crate::record::Record;
use crate::valid::Valid;

/// An event that is being delivered.
pub(super) struct Chain {
    event: Event<'static>,
    /// The numbers of the handlers that have not been called.
    left: VecDeque<usize>,
    /// The name of the current handler.
    name: Option<Text<'static>>,
    /// The results of the handlers called so far.
    results: Vec<pmix_info_t>,
    /// The infos passed to the current handler, valid until it completes.
    infos: Vec<pmix_info_t>,
    source: pmix_proc_t,
    /// The group construct that waits for a decision of the handlers, if any.
    decision: Option<GroupDecision>,
}

// SAFETY: the pointers lead to memory that this chain alone owns, except those of the program, which the library
// never dereferences.
unsafe impl Send for Chain {}

/// The chains whose current handler has not completed, by number. The number makes a second completion harmless.
static OPEN: PerProcess<Mutex<Open>> = PerProcess::new(Mutex::new(Open {
    last: 0,
    chains: BTreeMap::new(),
}));

#[derive(Default)]
struct Open {
    last: usize,
    chains: BTreeMap<usize, Box<Chain>>,
}

/// A handler call on this thread. If the handler completes before it returns, the next handler is called after the
/// return, so the stack does not grow with the number of handlers.
struct HandlerCall {
    number: usize,
    ended: Option<Box<Chain>>,
}

thread_local! {
    /// The innermost call last: a handler may complete a handler of another chain.
    static CALLS: RefCell<Vec<HandlerCall>> = const { RefCell::new(Vec::new()) };
}

/// Continues a chain whose handler has completed. If that handler has not returned, the thread that runs it
/// continues.
fn resume(number: usize, chain: Box<Chain>) {
    let elsewhere = CALLS.with_borrow_mut(|calls| {
        match calls.iter_mut().rev().find(|turn| turn.number == number) {
            Some(turn) => {
                turn.ended = Some(chain);
                None
            }
            None => Some(chain),
        }
    });
    if let Some(chain) = elsewhere {
        chain.next();
    }
}

fn open() -> MutexGuard<'static, Open> {
    OPEN.get().lock().unwrap_or_else(PoisonError::into_inner)
}

impl Chain {
    /// Creates the chain and calls the first handler.
    pub(super) fn begin(
        event: Event<'static>,
        handlers: Vec<usize>,
        decision: Option<GroupDecision>,
    ) {
        if handlers.is_empty() {
            return;
        }
        let source = event
            .source
            .to_c()
            .unwrap_or_else(|_| pmix_proc_t::initial());
        Box::new(Self {
            event,
            left: handlers.into(),
            name: None,
            results: Vec::new(),
            infos: Vec::new(),
            source,
            decision,
        })
        .next();
    }

    /// Calls the next handlers as long as each completes before it returns. The chain is dropped after the last one.
    fn next(self: Box<Self>) {
        let mut left = Some(self);
        while let Some(chain) = left {
            left = chain.call_next();
        }
    }

    /// Calls the next handler. Returns the chain if the handler has already completed.
    fn call_next(mut self: Box<Self>) -> Option<Box<Self>> {
        let (id, name, turn, function) = loop {
            let id = self.left.pop_front()?;
            // A handler that was deregistered after the event arrived is skipped.
            let Some((name, turn)) = handlers().begin_turn(id) else {
                continue;
            };
            if let Some(function) = turn.function {
                break (id, name, turn, function);
            }
        };
        self.name = name.clone();
        self.set_infos(name, turn);
        let (status, source) = (self.event.status.as_raw(), ptr::from_ref(&self.source));
        let (info, ninfo) = list_of(&mut self.infos);
        let (results, nresults) = list_of(&mut self.results);
        // Stored before the call: the handler may complete on another thread before it returns.
        let number = {
            let mut open = open();
            open.last += 1;
            let number = open.last;
            open.chains.insert(number, self);
            number
        };
        let cbdata = ptr::without_provenance_mut::<c_void>(number);
        let turn = HandlerCall {
            number,
            ended: None,
        };
        CALLS.with_borrow_mut(|calls| calls.push(turn));
        // SAFETY: the program passed this function with this `cbdata`, as the header declares it. The chain, which
        // owns all arguments, is kept in `OPEN` until the handler completes.
        unsafe {
            function(
                id,
                status,
                source,
                info,
                ninfo,
                results,
                nresults,
                Some(done),
                cbdata,
            )
        };
        CALLS.with_borrow_mut(Vec::pop)?.ended
    }

    /// Builds the infos for a handler: those of the event, the name of the handler, and its return object.
    fn set_infos(&mut self, name: Option<Text<'static>>, turn: Turn) {
        self.clear_infos();
        let name = name.map(|name| Info::new(keys::EVENT_HDLR_NAME, Value::String(Some(name))));
        self.infos = { self.event.infos.iter().chain(&name) }
            .filter_map(|info: &Info<'_>| info.to_c().ok())
            .collect();
        if let Some(object) = turn.object {
            let mut back = pmix_info_t::initial();
            fill(&mut back.key, keys::EVENT_RETURN_OBJECT.as_bytes());
            back.value.r#type = DataType::POINTER.as_raw();
            back.value.data.ptr = object.get();
            self.infos.push(back);
        }
    }

    fn clear_infos(&mut self) {
        for info in &mut self.infos {
            // SAFETY: `set_infos` made the infos with `to_c`. The return object is a plain pointer, which `empty` does not
            // free.
            unsafe { info.empty() };
        }
        self.infos.clear();
    }

    /// Applies the decision in the results of a handler to the group construct.
    fn decide(&self, status: Status, results: Valid<'_, [pmix_info_t]>) {
        let Some(group) = &self.decision else { return };
        let infos = infos_of(results).unwrap_or_default();
        if let Some(decision) = decision(status, &infos)
            && let Err(error) = group.decide(decision)
        {
            tracing::warn!("cannot carry out the result of a group event handler: {error}");
        }
    }

    /// Adds the results of a handler: the status that it returned, under its name, and its infos.
    ///
    /// DEVIATION: OpenPMIx gives the code of the event in place of that status;
    /// `a_program_drives_progress_itself`.
    fn keep(&mut self, status: Status, results: Valid<'_, [pmix_info_t]>) {
        let name = self.name.take().unwrap_or_else(|| Text::from("UNKNOWN"));
        let key = Key::new(name.as_bytes().to_vec());
        if let Ok(returned) = Info::new(key, Value::Status(status)).to_c() {
            self.results.push(returned);
        }
        let copies = results.iter().map(Valid::duplicate);
        self.results.extend(copies.map_while(Result::ok));
    }
}

/// Returns a slice as a C array; NULL if it is empty.
fn list_of(infos: &mut [pmix_info_t]) -> (*mut pmix_info_t, usize) {
    match infos {
        [] => (ptr::null_mut(), 0),
        infos => (infos.as_mut_ptr(), infos.len()),
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.clear_infos();
        for info in &mut self.results {
            // SAFETY: the results were made by `to_c` or `copies`, and nothing else owns them.
            unsafe { info.empty() };
        }
    }
}

/// Completes the current handler of a chain. Handlers call it as `pmix_event_notification_cbfunc_fn_t`.
unsafe extern "C" fn done(
    status: pmix_status_t,
    results: *mut pmix_info_t,
    nresults: usize,
    cbfunc: pmix_op_cbfunc_t,
    thiscbdata: *mut c_void,
    notification_cbdata: *mut c_void,
) {
    let complete = move || {
        let number = notification_cbdata as usize;
        let chain = open().chains.remove(&number);
        let Some(mut chain) = chain else {
            tracing::warn!("an event handler completed twice");
            return Ok(());
        };
        let status = Status::from_raw(status);
        // SAFETY: the header requires `results` to be NULL or to have `nresults` valid infos.
        if let Ok(results) = unsafe { Valid::slice(results, nresults) } {
            chain.decide(status, results);
            chain.keep(status, results);
        }
        // SAFETY: the program passed this function with this `cbdata`, as the header declares it.
        unsafe { cbfunc.deliver(Ok(()), thiscbdata) };
        if status != Status::EVENT_ACTION_COMPLETE {
            resume(number, chain);
        }
        Ok(())
    };
    crate::guard::guard::<(), _>("an event handler", complete);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pmix_client::driver::EventHandler;
    use pmix_types::{Proc, Rank};

    use super::*;

    static CALLED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn done_at_once(
        _: usize,
        _: pmix_status_t,
        _: *const pmix_proc_t,
        _: *mut pmix_info_t,
        _: usize,
        _: *mut pmix_info_t,
        _: usize,
        done: pmix_event_notification_cbfunc_fn_t,
        data: *mut c_void,
    ) {
        CALLED.fetch_add(1, Ordering::Relaxed);
        let done = done.unwrap();
        // SAFETY: the arguments are those that the header allows; `done` ignores a second call for the same chain.
        unsafe {
            done(0, ptr::null_mut(), 0, None, ptr::null_mut(), data);
            done(0, ptr::null_mut(), 0, None, ptr::null_mut(), data);
        }
    }

    /// The thread that runs callbacks has a small stack.
    #[test]
    fn a_long_chain_is_no_deeper_than_a_short_one() {
        const HANDLERS: usize = 10_000;
        let turn = Turn {
            function: Some(done_at_once),
            object: None,
        };
        let mut handler = EventHandler::new([Status::ERR_PROC_ABORTED]);
        handler.order = pmix_client::driver::HandlerOrder::Append;
        let ids: Vec<_> = (0..HANDLERS)
            .map(|_| handlers().register(handler.clone(), turn).unwrap())
            .collect();
        let event = Event {
            status: Status::ERR_PROC_ABORTED,
            source: Proc::new("job", Rank::new(1)),
            infos: Vec::new(),
            range: None,
        };
        let called = ids.clone();
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        let thread = thread.spawn(move || Chain::begin(event, called, None));
        thread.unwrap().join().unwrap();
        assert_eq!(CALLED.load(Ordering::Relaxed), HANDLERS);
        assert!(open().chains.is_empty());
        let mut handlers = handlers();
        for id in ids {
            handlers.deregister(id);
        }
    }
}

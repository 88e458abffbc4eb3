// SPDX-License-Identifier: MIT OR Apache-2.0
//! One event on its way from handler to handler. Each says when it is done, at once or later and
//! from any thread, and may end the chain.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_client::GroupDecision;
use pmix_types::{DataType, Info, Key, Status, Text, Value, keys};

use super::{Happened, Turn, handlers};
use crate::abi::*;
use crate::convert::infos_at;
use crate::families::copies;
use crate::groups::decision;
use crate::memory::fill;
use crate::model::Model;
use crate::per_process::PerProcess;
use crate::record::Record;

/// An event on its way.
pub(super) struct Chain {
    event: Happened,
    /// The numbers of the handlers whose turn is still to come.
    left: VecDeque<usize>,
    /// The name of the handler whose turn it is.
    name: Option<Text<'static>>,
    /// What the handlers so far said.
    results: Vec<pmix_info_t>,
    /// What the current handler looks at until it is done.
    shown: Vec<pmix_info_t>,
    source: pmix_proc_t,
    /// Who hears how the construction of a group is to go on, if the event asks for that.
    decision: Option<GroupDecision>,
}

// SAFETY: the pointers lead to memory that this chain alone owns, but for those of the program,
// which the library does not look at.
unsafe impl Send for Chain {}

/// Chains whose current handler is not done, by number: who is done twice is not heard twice.
static OPEN: PerProcess<Mutex<Open>> = PerProcess::new(Mutex::new(Open {
    last: 0,
    chains: BTreeMap::new(),
}));

#[derive(Default)]
struct Open {
    last: usize,
    chains: BTreeMap<usize, Box<Chain>>,
}

/// The turn that a thread is in: a handler that is done before it returns is followed by the next one
/// when it has returned, so that a long chain is no deeper than a short one.
struct Telling {
    number: usize,
    ended: Option<Box<Chain>>,
}

thread_local! {
    /// The innermost last: a handler may say that one of another chain is done.
    static TELLING: RefCell<Vec<Telling>> = const { RefCell::new(Vec::new()) };
}

/// Goes on with a chain whose handler is done.
fn go_on(number: usize, chain: Box<Chain>) {
    let elsewhere = TELLING.with_borrow_mut(|telling| {
        match telling.iter_mut().rev().find(|turn| turn.number == number) {
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
    /// Tells the first handler.
    pub(super) fn begin(event: Happened, handlers: Vec<usize>, decision: Option<GroupDecision>) {
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
            shown: Vec::new(),
            source,
            decision,
        })
        .next();
    }

    /// Tells the next handlers, as long as each is done when it returns; with the last one the chain ends.
    fn next(self: Box<Self>) {
        let mut left = Some(self);
        while let Some(chain) = left {
            left = chain.tell_one();
        }
    }

    /// Tells the next handler; returns the chain if it is done already.
    fn tell_one(mut self: Box<Self>) -> Option<Box<Self>> {
        let (id, name, turn, function) = loop {
            let id = self.left.pop_front()?;
            // One that was deregistered meanwhile has no turn.
            let Some((name, turn)) = handlers().begin_turn(id) else {
                continue;
            };
            if let Some(function) = turn.function {
                break (id, name, turn, function);
            }
        };
        self.name = name.clone();
        self.show(name, turn);
        let (status, source) = (self.event.status.as_raw(), ptr::from_ref(&self.source));
        let (info, ninfo) = list_of(&mut self.shown);
        let (results, nresults) = list_of(&mut self.results);
        let number = {
            let mut open = open();
            open.last += 1;
            let number = open.last;
            open.chains.insert(number, self);
            number
        };
        let cbdata = ptr::without_provenance_mut::<c_void>(number);
        let turn = Telling {
            number,
            ended: None,
        };
        TELLING.with_borrow_mut(|telling| telling.push(turn));
        // SAFETY: C gave the function; what it looks at stays until it says that it is done.
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
        TELLING.with_borrow_mut(Vec::pop)?.ended
    }

    /// Makes what a handler looks at: the infos of the event, its own name, and what it wants back.
    fn show(&mut self, name: Option<Text<'static>>, turn: Turn) {
        self.clear_shown();
        let name = name.map(|name| Info::new(keys::EVENT_HDLR_NAME, Value::String(Some(name))));
        self.shown = { self.event.infos.iter().chain(&name) }
            .filter_map(|info: &Info<'_>| info.to_c().ok())
            .collect();
        if let Some(object) = turn.object {
            let mut back = pmix_info_t::initial();
            fill(&mut back.key, keys::EVENT_RETURN_OBJECT.as_bytes());
            back.value.r#type = DataType::POINTER.as_raw();
            back.value.data.ptr = object.get();
            self.shown.push(back);
        }
    }

    fn clear_shown(&mut self) {
        for info in &mut self.shown {
            // SAFETY: they were made here.
            unsafe { info.empty() };
        }
        self.shown.clear();
    }

    /// Hands on what a handler says about a group that is being formed.
    unsafe fn decide(&self, status: Status, at: *const pmix_info_t, count: usize) {
        let Some(group) = &self.decision else { return };
        // SAFETY: the caller says so.
        let said = unsafe { infos_at(at, count) }.unwrap_or_default();
        if let Some(decision) = decision(status, &said)
            && let Err(error) = group.decide(decision)
        {
            tracing::warn!("cannot carry out the result of a group event handler: {error}");
        }
    }

    /// Keeps what a handler said: the status that it returned, under its name, and its infos.
    ///
    /// DEVIATION: OpenPMIx gives the code of the event in place of that status;
    /// `a_program_makes_the_progress_itself`.
    unsafe fn keep(&mut self, status: Status, at: *const pmix_info_t, count: usize) {
        let name = self.name.take().unwrap_or_else(|| Text::from("UNKNOWN"));
        let key = Key::new(name.as_bytes().to_vec());
        if let Ok(returned) = Info::new(key, Value::Status(status)).to_c() {
            self.results.push(returned);
        }
        // SAFETY: the caller says so.
        let (copy, count) = unsafe { copies(at, count) };
        for place in 0..count {
            // SAFETY: there are so many; what they own moves on.
            self.results.push(unsafe { *copy.add(place) });
        }
        // SAFETY: the members moved on.
        unsafe { crate::memory::release(copy) };
    }
}

/// A list as C sees it: NULL if there is nothing in it.
fn list_of(infos: &mut [pmix_info_t]) -> (*mut pmix_info_t, usize) {
    match infos {
        [] => (ptr::null_mut(), 0),
        infos => (infos.as_mut_ptr(), infos.len()),
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.clear_shown();
        for info in &mut self.results {
            // SAFETY: they are copies that were made here.
            unsafe { info.empty() };
        }
    }
}

/// What a handler calls when it is done.
unsafe extern "C" fn done(
    status: pmix_status_t,
    results: *mut pmix_info_t,
    nresults: usize,
    cbfunc: pmix_op_cbfunc_t,
    thiscbdata: *mut c_void,
    notification_cbdata: *mut c_void,
) {
    let ended = move || {
        let number = notification_cbdata as usize;
        let chain = open().chains.remove(&number);
        let Some(mut chain) = chain else {
            return tracing::warn!("an event handler completed twice");
        };
        // SAFETY: C says that there are so many.
        unsafe {
            chain.decide(Status::from_raw(status), results, nresults);
            chain.keep(Status::from_raw(status), results, nresults);
        }
        if let Some(callback) = cbfunc {
            // SAFETY: C gave the function and what it is given.
            unsafe { callback(Status::SUCCESS.as_raw(), thiscbdata) };
        }
        if Status::from_raw(status) != Status::EVENT_ACTION_COMPLETE {
            go_on(number, chain);
        }
    };
    crate::guard::guard("an event handler", ended);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pmix_client::EventHandler;
    use pmix_types::{Proc, Rank};

    use super::*;

    static TOLD: AtomicUsize = AtomicUsize::new(0);

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
        TOLD.fetch_add(1, Ordering::Relaxed);
        let done = done.unwrap();
        // SAFETY: as the interface says; the second call is for nobody.
        unsafe {
            done(0, ptr::null_mut(), 0, None, ptr::null_mut(), data);
            done(0, ptr::null_mut(), 0, None, ptr::null_mut(), data);
        }
    }

    /// The thread of the callbacks has a small stack.
    #[test]
    fn a_long_chain_is_no_deeper_than_a_short_one() {
        const HANDLERS: usize = 10_000;
        let turn = Turn {
            function: Some(done_at_once),
            object: None,
        };
        let mut handler = EventHandler::new([Status::ERR_PROC_ABORTED]);
        handler.order = pmix_client::HandlerOrder::Append;
        let ids: Vec<_> = (0..HANDLERS)
            .map(|_| handlers().register(handler.clone(), turn).unwrap())
            .collect();
        let event = Happened {
            status: Status::ERR_PROC_ABORTED,
            source: Proc::new("job", Rank::new(1)),
            infos: Vec::new(),
        };
        let told = ids.clone();
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        let thread = thread.spawn(move || Chain::begin(event, told, None));
        thread.unwrap().join().unwrap();
        assert_eq!(TOLD.load(Ordering::Relaxed), HANDLERS);
        assert!(open().chains.is_empty());
        let mut handlers = handlers();
        for id in ids {
            handlers.deregister(id);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event handlers: registration, the choice of the handlers to notify, and the chain from one handler to the next.

mod chain;

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_client::{Ask, ClientEvent, EventHandler, GroupDecision, Handlers, SharedClient};
use pmix_proto::Event;
use pmix_types::{DataArray, DataRange, Info, Proc, Rank, Status, Value, keys};

use crate::abi::*;
use crate::answers::op;
use crate::callback::Callback;
use crate::convert::{Data, fault, infos_at};
use crate::guard::exported;
use crate::later::later;
use crate::memory::{Result, cloned, slice};
use crate::names::proc_at;
use crate::per_process::PerProcess;
use crate::pulls;
use crate::state::{client, server, state};
use crate::status::code;

use chain::Chain;

/// The function of an event handler, which is called when the handlers before it are done.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    function: pmix_notification_fn_t,
    /// The object that the program passed for each event (`PMIX_EVENT_RETURN_OBJECT`).
    object: Option<Data>,
}

static HANDLERS: PerProcess<Mutex<Handlers<Turn>>> = PerProcess::new(Mutex::new(Handlers::new()));

fn handlers() -> MutexGuard<'static, Handlers<Turn>> {
    HANDLERS
        .get()
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Drops all event handlers and output pulls. The last finalize of the process calls it.
pub(crate) fn forget_all() {
    handlers().clear();
    pulls::forget_all();
}

/// An event with its source and infos.
#[derive(Clone)]
pub(crate) struct Happened {
    pub(crate) status: Status,
    pub(crate) source: Proc<'static>,
    pub(crate) infos: Vec<Info<'static>>,
}

impl Happened {
    fn into_event(self) -> Event<'static> {
        Event {
            status: self.status,
            source: self.source,
            infos: self.infos,
            range: None,
        }
    }
}

/// Notifies the handlers of an event, one after the other. An event without a handler is kept for a handler that is
/// registered later.
pub(crate) fn tell(event: Happened) {
    tell_and_ask(event, None);
}

/// Notifies the handlers of an event. If `decision` is given, the handlers may decide how a group construct
/// continues. Such an event is not kept, because the decision cannot wait for a later handler.
fn tell_and_ask(event: Happened, decision: Option<GroupDecision>) {
    let Ok(own) = crate::state::proc() else {
        return;
    };
    let is_local = is_local(&event.source, &own);
    let event = event.into_event();
    let told = {
        let mut handlers = handlers();
        let told = handlers.chain(&event, &own, |_| is_local);
        if told.is_empty() && decision.is_none() {
            return handlers.keep(event);
        }
        told
    };
    // The lock is released before the handlers run, because a handler may register another one.
    Chain::begin(happened(event), told, decision);
}

/// Notifies a new handler of the events that were kept for it.
fn tell_kept(id: usize) {
    let Ok(own) = crate::state::proc() else {
        return;
    };
    let kept = handlers().take_kept(id, &own, |_| true);
    for event in kept {
        Chain::begin(happened(event), vec![id], None);
    }
}

/// Returns `true` if a process is known to run on the node of this process.
fn is_local(proc: &Proc<'static>, own: &Proc<'static>) -> bool {
    if proc == own {
        return true;
    }
    let Ok(client) = client() else {
        // A server delivers only events of its node to its own handlers.
        return true;
    };
    let only_here = [Info::new(keys::OPTIONAL, true)];
    let node = |proc: &Proc<'static>| client.get(proc, &keys::HOSTNAME.into(), &only_here).ok();
    node(own).is_some_and(|own| node(proc) == Some(own))
}

/// Returns `true` if the range of an event includes the process that reports it.
fn includes(range: DataRange, infos: &[Info<'_>], own: &Proc<'_>) -> bool {
    if range == DataRange::RM {
        return false;
    }
    if range != DataRange::CUSTOM {
        return true;
    }
    let is_own = |proc: &Proc<'_>| {
        proc.nspace == own.nspace && (proc.rank == own.rank || proc.rank == Rank::WILDCARD)
    };
    infos
        .iter()
        .filter(|info| info.key.is(keys::EVENT_CUSTOM_RANGE))
        .any(|info| match &info.value {
            Value::Proc(proc) => is_own(proc),
            Value::DataArray(DataArray::Proc(procs)) => procs.iter().any(is_own),
            _ => false,
        })
}

fn happened(event: Event<'static>) -> Happened {
    Happened {
        status: event.status,
        source: event.source,
        infos: event.infos,
    }
}

/// Handles a message that the server sent without a request: notifies the event handlers or delivers output.
pub(crate) fn client_event(event: ClientEvent) {
    match event {
        ClientEvent::Event(event) => tell(happened(event)),
        ClientEvent::Group(event, decision) => tell_and_ask(happened(event), Some(decision)),
        ClientEvent::Output(come) => pulls::output(come),
        ClientEvent::Lost => {
            let own = state()
                .client
                .as_ref()
                .map(|(client, _)| client.proc().clone());
            // The client was taken from the state by finalize, which closes the connection itself: no event is due.
            if let Some(source) = own {
                tell(Happened {
                    status: Status::ERR_LOST_CONNECTION,
                    source,
                    infos: Vec::new(),
                });
            }
        }
        // `ClientEvent` is non-exhaustive; no event code exists for other variants.
        _ => {}
    }
}

/// Registers the codes of all handlers of this process with a server that became the primary server.
pub(crate) fn tell_server(client: &SharedClient) {
    let (codes, has_default) = {
        let handlers = handlers();
        (handlers.codes(), handlers.has_default())
    };
    let some = (!codes.is_empty()).then_some(codes);
    for codes in some.into_iter().chain(has_default.then(Vec::new)) {
        // An error is not fatal, as in a registration: the server still sends its own events.
        if let Err(error) = client.wait(Ask::register_events(codes, Vec::new())) {
            tracing::debug!("a server rejected the registration for events: {error}");
        }
    }
}

/// Returns the value of `PMIX_EVENT_RETURN_OBJECT`, if given.
fn object_of(given: &[pmix_info_t]) -> Option<Data> {
    let object = given
        .iter()
        .find(|info| crate::memory::filled(&info.key) == keys::EVENT_RETURN_OBJECT.as_bytes());
    // SAFETY: the attribute is a pointer by definition, and any bits of the union are a valid raw pointer.
    object.map(|info| Data(unsafe { info.value.data.ptr }))
}

/// Returns `true` if the server needs this attribute of a registration. The order of handlers concerns only this
/// process.
fn is_for_server(info: &Info<'_>) -> bool {
    let here = [
        keys::EVENT_HDLR_FIRST,
        keys::EVENT_HDLR_LAST,
        keys::EVENT_HDLR_FIRST_IN_CATEGORY,
        keys::EVENT_HDLR_LAST_IN_CATEGORY,
        keys::EVENT_HDLR_BEFORE,
        keys::EVENT_HDLR_AFTER,
        keys::EVENT_HDLR_PREPEND,
        keys::EVENT_HDLR_APPEND,
        keys::EVENT_HDLR_NAME,
        keys::EVENT_ONESHOT,
        keys::EVENT_RETURN_OBJECT,
        keys::RANGE,
        keys::EVENT_CUSTOM_RANGE,
    ];
    !matches!(info.value, Value::Pointer(())) && !here.iter().any(|key| info.key.is(key))
}

/// Registers a handler in this process. Returns its number, and the request to register its codes with the server, if
/// there is one.
///
/// # Safety
/// Each array is NULL or has as many valid elements as its count says.
unsafe fn register(
    codes: *mut pmix_status_t,
    ncodes: usize,
    info: *mut pmix_info_t,
    ninfo: usize,
    function: pmix_notification_fn_t,
) -> Result<(usize, Option<Ask<'static>>)> {
    // SAFETY: the caller guarantees that each array is NULL or has as many valid elements as its count says.
    let (codes, given, infos) = unsafe {
        (
            slice(codes, ncodes)?,
            slice(info, ninfo)?,
            infos_at(info, ninfo)?,
        )
    };
    let codes: Vec<_> = codes.iter().copied().map(Status::from_raw).collect();
    if function.is_none() {
        return Err(Status::ERR_BAD_PARAM);
    }
    let is_client = {
        let state = state();
        if !state.is_any() {
            return Err(Status::ERR_INIT);
        }
        state.connection().is_some()
    };
    let handler = EventHandler::from_infos(codes.clone(), &infos).map_err(|error| fault(&error))?;
    let turn = Turn {
        function,
        object: object_of(given),
    };
    let id = { handlers().register(handler, turn) }.map_err(|error| fault(&error))?;
    let told: Vec<_> = infos.into_iter().filter(is_for_server).collect();
    Ok((id, is_client.then(|| Ask::register_events(codes, told))))
}

fn forget(id: usize) -> Result<()> {
    let codes: Vec<_> = {
        let mut handlers = handlers();
        let gone = handlers.deregister(id).ok_or(Status::ERR_NOT_FOUND)?;
        if gone.codes.is_empty() && handlers.has_default() {
            return Ok(());
        }
        let is_default = gone.codes.is_empty();
        // The server keeps sending the codes that another handler of this process still needs.
        let unwanted = gone.codes.into_iter();
        let codes: Vec<_> = unwanted.filter(|code| !handlers.has_code(*code)).collect();
        if codes.is_empty() && !is_default {
            return Ok(());
        }
        codes
    };
    match client() {
        Ok(client) => client
            .deregister_events(&codes)
            .map_err(|error| fault(&error)),
        Err(_) => Ok(()),
    }
}

exported! {
    fn PMIx_Register_event_handler(codes: *mut pmix_status_t, ncodes: usize, info: *mut pmix_info_t, ninfo: usize, evhdlr: pmix_notification_fn_t, cbfunc: pmix_hdlr_reg_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        // SAFETY: the header requires each array to be NULL or to have as many valid elements as its count says.
        let made = unsafe { register(codes, ncodes, info, ninfo, evhdlr) };
        let (id, ask) = match (made, cbfunc) {
            (Ok(made), _) => made,
            // The requested place in the order of handlers is not available. The callback reports it, if there is one.
            (Err(status @ Status::ERR_EVENT_REGISTRATION), Some(callback)) => {
                let callback = Callback::new(callback, cbdata);
                return code(later(move || callback.call(move |callback, data| {
                    // SAFETY: the program passed this function with this `cbdata`, as the header declares it.
                    unsafe { callback(status.as_raw(), usize::MAX, data) };
                })));
            }
            (Err(status), _) => return status.as_raw(),
        };
        let Some(callback) = cbfunc else {
            let asked = ask.map_or(Ok(()), |ask| client().and_then(|client| client.wait(ask).map_err(|error| fault(&error))));
            return match asked {
                // A host that does not support events sends none. The handler stays registered for the events of the
                // server itself.
                Ok(()) | Err(Status::ERR_NOT_SUPPORTED) => {
                    let _ = later(move || tell_kept(id));
                    i32::try_from(id).unwrap_or(i32::MAX)
                }
                Err(status) => {
                    let _ = forget(id);
                    status.as_raw()
                }
            };
        };
        let callback = Callback::new(callback, cbdata);
        let answer = move |status: Status| callback.call(move |callback, data| {
            // SAFETY: the program passed this function with this `cbdata`, as the header declares it.
            unsafe { callback(status.as_raw(), id, data) };
            if status == Status::SUCCESS {
                tell_kept(id);
            }
        });
        let begun = match ask {
            None => later(move || answer(Status::SUCCESS)),
            Some(ask) => client().and_then(|client| {
                let then = move |asked: std::result::Result<(), pmix_client::Error>| match asked {
                    Err(error) if error.status() != Status::ERR_NOT_SUPPORTED => {
                        let _ = forget(id);
                        answer(fault(&error));
                    }
                    _ => answer(Status::SUCCESS),
                };
                client.start(ask, then).map_err(|error| fault(&error))
            }),
        };
        if begun.is_err() {
            // The callback will not run, so the program never learns the number of the handler.
            let _ = forget(id);
        }
        code(begun)
    }

    fn PMIx_Deregister_event_handler(evhdlr_ref: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        if !state().is_any() {
            return Status::ERR_INIT.as_raw();
        }
        let gone = forget(evhdlr_ref);
        match cbfunc {
            // As in OpenPMIx, the callback runs even if the handler was not registered: programs wait for it whatever
            // the function returned.
            Some(callback) => {
                let callback = Callback::new(callback, cbdata);
                // SAFETY: the program passed this function with this `cbdata`, as the header declares it.
                code(later(move || callback.call(move |callback, data| unsafe { callback(code(gone), data) })))
            }
            None => code(gone),
        }
    }

    fn PMIx_Notify_event(status: pmix_status_t, source: *const pmix_proc_t, range: pmix_data_range_t, info: *const pmix_info_t, ninfo: usize, cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> pmix_status_t {
        code((|| {
            let (status, range) = (Status::from_raw(status), DataRange::from_raw(range));
            // SAFETY: the header requires each pointer to be NULL or valid, and each array to have as many elements
            // as its count says.
            let (named, infos) = unsafe { (proc_at(source), infos_at(info, ninfo)?) };
            let own = crate::state::proc()?;
            let source = named.unwrap_or_else(|| own.clone());
            let event = Happened { status, source: source.clone(), infos: cloned(&infos)? };
            let here = includes(range, &infos, &own);
            let tell_here = move || {
                if here {
                    tell(event);
                }
            };
            if let Ok(server) = server() {
                server.notify(status, &source, range, &infos).map_err(|error| error.status())?;
                // Without a connection there is no other server to notify, as in a tool whose launcher has exited.
                if client().is_err() {
                    later(tell_here)?;
                    return answer_now(cbfunc, cbdata);
                }
            }
            let client = client()?;
            if range == DataRange::PROC_LOCAL {
                client.later(tell_here).map_err(|error| fault(&error))?;
                return answer_now(cbfunc, cbdata);
            }
            let (aborting, infos_said) = (client.clone(), cloned(&infos)?);
            let ask = Ask::notify(status, range, infos);
            match cbfunc {
                Some(_) => client.start(ask, op(cbfunc, cbdata)?),
                None => client.wait(ask),
            }
            .map_err(|error| fault(&error))?;
            if status == Status::GROUP_CONSTRUCT_ABORT {
                crate::groups::aborted(&aborting, &infos_said);
            }
            // The server notifies all processes but the one that reports the event.
            client.later(tell_here).map_err(|error| fault(&error))
        })())
    }
}

/// Reports success by the callback, if there is one.
pub(crate) fn answer_now(cbfunc: pmix_op_cbfunc_t, cbdata: *mut c_void) -> Result<()> {
    let Some(callback) = cbfunc else {
        return Ok(());
    };
    let callback = Callback::new(callback, cbdata);
    later(move || {
        // SAFETY: the program passed this function with this `cbdata`, as the header declares it.
        callback.call(|callback, data| unsafe { callback(Status::SUCCESS.as_raw(), data) });
    })
}

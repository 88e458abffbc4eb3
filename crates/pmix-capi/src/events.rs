// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event handlers: registration, the choice of the handlers to notify, and the chain from one handler to the next.

mod chain;

use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_client::driver::{EventHandler, Handlers};
use pmix_client::{Client, ClientEvent, GroupDecision};
use pmix_proto::Event;
use pmix_types::{DataArray, DataRange, Info, Proc, Rank, Status, Value, keys};

use crate::abi::*;
use crate::args::{self, Infos, Maybe, Mut, Slice};
use crate::callback::Callback;
use crate::convert::{Data, fault, infos_of};
use crate::guard::exported;
use crate::later::later;
use crate::memory::{Result, cloned, filled};
use crate::per_process::PerProcess;
use crate::pulls;
use crate::replies;
use crate::state::{client, server, state};
use crate::valid::Valid;

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

/// Notifies the handlers of an event, one after the other. An event without a handler is kept for a handler that is
/// registered later.
pub(crate) fn deliver(event: Event<'static>) {
    deliver_and_decide(event, None);
}

/// Notifies the handlers of an event. If `decision` is given, the handlers may decide how a group construct
/// continues. Such an event is not kept, because the decision cannot wait for a later handler.
fn deliver_and_decide(event: Event<'static>, decision: Option<GroupDecision>) {
    let Ok(own) = crate::state::proc() else {
        return;
    };
    let is_local = is_local(&event.source, &own);
    // The range was applied before the event was sent or delivered here.
    let event = Event {
        range: None,
        ..event
    };
    let chain = {
        let mut handlers = handlers();
        let chain = handlers.chain(&event, &own, |_| is_local);
        if chain.is_empty() && decision.is_none() {
            return handlers.keep(event);
        }
        chain
    };
    // The lock is released before the handlers run, because a handler may register another one.
    Chain::begin(event, chain, decision);
}

/// Notifies a new handler of the events that were kept for it.
fn deliver_kept(id: usize) {
    let Ok(own) = crate::state::proc() else {
        return;
    };
    let kept = handlers().take_kept(id, &own, |_| true);
    for event in kept {
        Chain::begin(event, vec![id], None);
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
    let node = |proc: &Proc<'static>| client.get(proc, keys::HOSTNAME, &only_here).wait().ok();
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

/// Delivers the event that the connection to a server was lost.
pub(crate) fn deliver_loss(source: Proc<'static>) {
    deliver(Event {
        status: Status::ERR_LOST_CONNECTION,
        source,
        infos: Vec::new(),
        range: None,
    });
}

/// Handles a message that the server sent without a request: notifies the event handlers or delivers output.
pub(crate) fn client_event(event: ClientEvent) {
    match event {
        ClientEvent::Event(event) => deliver(event),
        ClientEvent::Group(event, decision) => deliver_and_decide(event, Some(decision)),
        ClientEvent::Output(output) => pulls::deliver(output),
        ClientEvent::Lost => {
            let own = state()
                .client
                .as_ref()
                .map(|(client, _)| client.proc().clone());
            // The client was taken from the state by finalize, which closes the connection itself: no event is due.
            if let Some(source) = own {
                deliver_loss(source);
            }
        }
        // `ClientEvent` is non-exhaustive; no event code exists for other variants.
        _ => {}
    }
}

/// Registers the codes of all handlers of this process with a server that became the primary server.
pub(crate) fn register_with(client: &Client) {
    let (codes, has_default) = {
        let handlers = handlers();
        (handlers.codes(), handlers.has_default())
    };
    let some = (!codes.is_empty()).then_some(codes);
    for codes in some.into_iter().chain(has_default.then(Vec::new)) {
        // An error is not fatal, as in a registration: the server still sends its own events.
        if let Err(error) = client.register_events(codes, []).wait() {
            tracing::debug!("a server rejected the registration for events: {error}");
        }
    }
}

/// Returns the value of `PMIX_EVENT_RETURN_OBJECT`, if given.
fn object_of(infos: Valid<'_, [pmix_info_t]>) -> Option<Data> {
    let key = keys::EVENT_RETURN_OBJECT.as_bytes();
    let mut named = infos.iter().filter(|info| filled(&info.key) == key);
    // SAFETY: the attribute is a pointer by definition, and any bits of the union are a valid raw pointer.
    named
        .next()
        .map(|info| Data(unsafe { info.value.data.ptr }))
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

/// A handler that is registered in this process, and its registration with the server, if there is one.
struct Registered {
    id: usize,
    at_server: Option<(Vec<Status>, Vec<Info<'static>>)>,
}

/// Registers a handler in this process.
fn register(
    codes: &[pmix_status_t],
    given: Valid<'_, [pmix_info_t]>,
    function: pmix_notification_fn_t,
) -> Result<Registered> {
    let infos = infos_of(given)?;
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
    let for_server: Vec<_> = infos.into_iter().filter(is_for_server).collect();
    let at_server = is_client.then_some((codes, for_server));
    Ok(Registered { id, at_server })
}

fn deregister(id: usize) -> Result<()> {
    let codes: Vec<_> = {
        let mut handlers = handlers();
        let removed = handlers.deregister(id).ok_or(Status::ERR_NOT_FOUND)?;
        if removed.codes.is_empty() && handlers.has_default() {
            return Ok(());
        }
        let is_default = removed.codes.is_empty();
        // The server keeps sending the codes that another handler of this process still needs.
        let unwanted = removed.codes.into_iter();
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

/// Registers the codes of a handler with the server, and waits for the reply. Returns the number of the handler as the
/// return value of the function.
fn register_and_wait(Registered { id, at_server }: Registered) -> Result<i32> {
    let registered = at_server.map_or(Ok(()), |(codes, infos)| {
        replies::wait(client()?.register_events(codes, infos))
    });
    match registered {
        // A host that does not support events sends none. The handler stays registered for the events of the server
        // itself.
        Ok(()) | Err(Status::ERR_NOT_SUPPORTED) => {
            let _ = later(move || deliver_kept(id));
            Ok(i32::try_from(id).unwrap_or(i32::MAX))
        }
        Err(status) => {
            let _ = deregister(id);
            Err(status)
        }
    }
}

/// Registers the codes of a handler with the server, and delivers the number of the handler to a callback.
fn register_and_call_back(
    Registered { id, at_server }: Registered,
    callback: Callback<pmix_hdlr_reg_cbfunc_t>,
) -> Result<()> {
    let succeed = move |callback: Callback<_>| {
        callback.complete_then((Status::SUCCESS, id), move || deliver_kept(id));
    };
    let begun = match at_server {
        None => later(move || succeed(callback)),
        Some((codes, infos)) => client().and_then(|client| {
            let register = client.register_events(codes, infos);
            replies::start(register, move |registered| match registered {
                Err(status) if status != Status::ERR_NOT_SUPPORTED => {
                    let _ = deregister(id);
                    callback.complete((status, id));
                }
                _ => succeed(callback),
            })
        }),
    };
    begun.inspect_err(|_| {
        // The callback will not run, so the program never learns the number of the handler.
        let _ = deregister(id);
    })
}

/// Sends an event to the servers and to the handlers of this process. The callback, if there is one, receives the
/// result of the server.
fn notify(
    event: Event<'static>,
    range: DataRange,
    callback: Callback<pmix_op_cbfunc_t>,
) -> Result<()> {
    let own = crate::state::proc()?;
    let (status, infos) = (event.status, cloned(&event.infos)?);
    let is_local = includes(range, &infos, &own);
    let source = event.source.clone();
    let deliver_here = move || {
        if is_local {
            deliver(event);
        }
    };
    if let Ok(server) = server() {
        let notified = server.notify(status, &source, range, &infos);
        notified.map_err(|error| error.status())?;
        // Without a connection there is no other server to notify, as in a tool whose launcher has exited.
        if client().is_err() {
            later(deliver_here)?;
            return succeed_later(callback);
        }
    }
    let client = client()?;
    if range == DataRange::PROC_LOCAL {
        client.later(deliver_here).map_err(|error| fault(&error))?;
        return succeed_later(callback);
    }
    // The participants of an invitation receive the event of its end, so that of the program would be a second one.
    if status == Status::GROUP_CONSTRUCT_ABORT && crate::groups::abort(&client, &infos) {
        return succeed_later(callback);
    }
    let notify = client.notify(status, range, infos);
    match callback.is_null() {
        true => replies::wait(notify),
        false => replies::call_back(notify, callback),
    }?;
    // The server notifies all processes but the one that reports the event.
    client.later(deliver_here).map_err(|error| fault(&error))
}

/// Reports success by the callback, if there is one.
pub(crate) fn succeed_later(callback: Callback<pmix_op_cbfunc_t>) -> Result<()> {
    match callback.is_null() {
        true => Ok(()),
        false => later(move || callback.complete(Ok(()))),
    }
}

exported! {
    fn PMIx_Register_event_handler((codes, ncodes): Slice<pmix_status_t, Mut>, (info, ninfo): Slice<pmix_info_t, Mut>, evhdlr: pmix_notification_fn_t, (cbfunc, cbdata): args::Callback<pmix_hdlr_reg_cbfunc_t>) -> pmix_status_t {
        let registered = match register(&codes, info, evhdlr) {
            // The requested place in the order of handlers is not available. The callback reports it, if there is one.
            Err(status @ Status::ERR_EVENT_REGISTRATION) if !cbfunc.is_null() => {
                later(move || cbfunc.complete((status, usize::MAX)))?;
                return Ok(0);
            }
            registered => registered?,
        };
        match cbfunc.is_null() {
            true => register_and_wait(registered),
            false => register_and_call_back(registered, cbfunc).map(|()| 0),
        }
    }

    fn PMIx_Deregister_event_handler(evhdlr_ref: usize, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        if !state().is_any() {
            return Err(Status::ERR_INIT);
        }
        let result = deregister(evhdlr_ref);
        match cbfunc.is_null() {
            true => result,
            // As in OpenPMIx, the callback runs even if the handler was not registered: programs wait for it whatever
            // the function returned.
            false => later(move || cbfunc.complete(result)),
        }
    }

    fn PMIx_Notify_event(status: Status, source: Maybe<args::Proc>, range: DataRange, (info, ninfo): Infos, (cbfunc, cbdata): args::Callback<pmix_op_cbfunc_t>) -> pmix_status_t {
        let source = match source {
            Some(source) => source,
            None => crate::state::proc()?,
        };
        notify(Event { status, source, infos: info, range: None }, range, cbfunc)
    }
}

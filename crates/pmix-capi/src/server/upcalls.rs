// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upcalls to a C host: for each, the slot of the module and the C form of the arguments.
//!
//! The copies of the arguments live until the host replies. If one cannot be made, the call fails: a call with fewer
//! processes or without data would be a different request.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;

use pmix_server::{Completion, Credential, Host, HostObject, ServerEvent, upcall};
use pmix_types::{Bytes, Info, IntoOwned as _, Measure, Nspace, Pdata, Proc, Status, keys};

use super::attributes;
use super::files::FileMonitors;
use super::host::{CHost, report};
use super::pending::{self, Expected, ReplyTo, call};
use crate::memory::{self, CString, CStrings, Result};
use crate::owned::CArray;

#[cfg(test)]
mod tests;

/// Bytes that the host frees, so they are copied last.
struct HostBytes(*mut c_char);

// SAFETY: no other pointer leads to the bytes.
unsafe impl Send for HostBytes {}

impl HostBytes {
    fn of(from: &[u8]) -> Result<Self> {
        memory::bytes(from).map(Self)
    }
}

fn one(proc: &Proc<'_>) -> Result<CArray<crate::abi::pmix_proc_t>> {
    CArray::of(std::slice::from_ref(proc))
}

fn object(bytes: &[u8]) -> Result<CArray<crate::abi::pmix_byte_object_t>> {
    CArray::of(&[Bytes::from(bytes)])
}

fn pointer(object: HostObject) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::try_from(object.0).unwrap_or(0))
}

/// Defines the methods of [`CHost`] that call the host.
///
/// `slot(call: Upcall) -> Reply, Expected(callback) { copy = ...; } (argument, ...)` calls the function of the slot with
/// the arguments, the callback and its `cbdata`. `or void slot` names the slot of older releases whose function returns
/// nothing.
macro_rules! upcalls {
    (
        $($slot:ident($asked:ident: $upcall:ident) -> $reply:ty, $expected:ident($callback:ident) $(or void $void:ident)?
          { $($copy:ident = $make:expr;)* } ($($argument:expr),* $(,)?))*
    ) => {
        impl CHost {
            $(pub(crate) fn $slot(&self, $asked: upcall::$upcall, done: ReplyTo<$reply>) {
                let module = self.module();
                if module.$slot.is_none() $(&& module.$void.is_none())? {
                    return done.not_supported();
                }
                $(let $copy = match $make {
                    Ok(copy) => copy,
                    Err(status) => return done.fail(status),
                };)*
                let host = upcalls!(@call [module.$slot $(, module.$void)?] $callback [] $($argument),*);
                call(Expected::$expected(done), Box::new(($($copy,)*)), host);
            })*
        }
    };
    // Evaluates the arguments one by one, because the copies to which they point are moved before the call.
    (@call $functions:tt $callback:ident [$($argument:ident)*] $next:expr $(, $rest:expr)*) => {{
        let argument = $next;
        upcalls!(@call $functions $callback [$($argument)* argument] $($rest),*)
    }};
    (@call [$slot:expr] $callback:ident [$($argument:ident)*]) => {
        move |cbdata: *mut c_void| match $slot {
            // SAFETY: the host declared the function for this slot; `call` keeps the arguments until the host replies.
            Some(function) => unsafe { function($($argument,)* Some(pending::$callback), cbdata) },
            None => Status::ERR_NOT_SUPPORTED.as_raw(),
        }
    };
    (@call [$slot:expr, $void:expr] $callback:ident [$($argument:ident)*]) => {
        move |cbdata: *mut c_void| match ($slot, $void) {
            // SAFETY: the host declared the function for this slot; `call` keeps the arguments until the host replies.
            (Some(function), _) => unsafe { function($($argument,)* Some(pending::$callback), cbdata) },
            (None, Some(function)) => {
                // SAFETY: the host declared the function for this slot; `call` keeps the arguments until the host replies.
                unsafe { function($($argument,)* Some(pending::$callback), cbdata) };
                Status::SUCCESS.as_raw()
            }
            (None, None) => Status::ERR_NOT_SUPPORTED.as_raw(),
        }
    };
}

type Infos = Vec<Info<'static>>;

upcalls! {
    client_connected2(call: ClientConnected) -> (), Op(op)
        { proc = one(&call.proc); infos = CArray::of(&call.infos); }
        (proc.as_mut_ptr(), pointer(call.object), infos.as_mut_ptr(), infos.len())
    client_finalized(call: ClientFinalized) -> (), Op(op)
        { proc = one(&call.proc); } (proc.as_mut_ptr(), pointer(call.object))
    abort(call: Abort) -> (), Op(op)
        { proc = one(&call.proc); message = CString::of(call.message.as_ref()); targets = CArray::of(&call.targets); }
        (proc.as_mut_ptr(), pointer(call.object), call.status.as_raw(), message.as_mut_ptr(), targets.as_mut_ptr(), targets.len())
    // The host takes ownership of the data and frees them.
    fence_nb(call: Fence) -> Vec<u8>, Modex(modex)
        { procs = CArray::of(&call.procs); infos = CArray::of(&call.infos); data = HostBytes::of(&call.data); }
        (procs.as_mut_ptr(), procs.len(), infos.as_mut_ptr(), infos.len(), data.0, call.data.len())
    direct_modex(call: DirectModex) -> Vec<u8>, Modex(modex)
        { proc = one(&call.proc); infos = CArray::of(&call.infos); }
        (proc.as_mut_ptr(), infos.as_mut_ptr(), infos.len())
    publish(call: Publish) -> (), Op(op)
        { proc = one(&call.proc); infos = CArray::of(&call.infos); }
        (proc.as_mut_ptr(), infos.as_mut_ptr(), infos.len())
    lookup(call: Lookup) -> Vec<Pdata<'static>>, Lookup(lookup)
        { proc = one(&call.proc); keys = CStrings::of(&call.keys); infos = CArray::of(&call.infos); }
        (proc.as_mut_ptr(), keys.as_mut_ptr(), infos.as_mut_ptr(), infos.len())
    unpublish(call: Unpublish) -> (), Op(op)
        { proc = one(&call.proc); keys = CStrings::of(&call.keys); infos = CArray::of(&call.infos); }
        (proc.as_mut_ptr(), keys.as_mut_ptr(), infos.as_mut_ptr(), infos.len())
    spawn(call: Spawn) -> Nspace<'static>, Spawn(spawn)
        { proc = one(&call.proc); infos = CArray::of(&call.infos); apps = CArray::of(&call.apps); }
        (proc.as_mut_ptr(), infos.as_mut_ptr(), infos.len(), apps.as_mut_ptr(), apps.len())
    connect(call: Connect) -> (), Op(op)
        { procs = CArray::of(&call.procs); infos = CArray::of(&call.infos); }
        (procs.as_mut_ptr(), procs.len(), infos.as_mut_ptr(), infos.len())
    disconnect(call: Disconnect) -> (), Op(op)
        { procs = CArray::of(&call.procs); infos = CArray::of(&call.infos); }
        (procs.as_mut_ptr(), procs.len(), infos.as_mut_ptr(), infos.len())
    register_events(call: RegisterEvents) -> (), Op(op)
        { codes = CArray::of(&call.codes); infos = CArray::of(&call.infos); }
        (codes.as_mut_ptr(), codes.len(), infos.as_mut_ptr(), infos.len())
    deregister_events(call: DeregisterEvents) -> (), Op(op)
        { codes = CArray::of(&call.codes); } (codes.as_mut_ptr(), codes.len())
    notify_event(call: NotifyEvent) -> (), Op(op)
        { source = one(&call.source); infos = CArray::of(&call.infos); }
        (call.status.as_raw(), source.as_mut_ptr(), call.range.as_raw(), infos.as_mut_ptr(), infos.len())
    query(call: Query) -> Infos, Infos(infos)
        { proc = one(&call.proc); queries = CArray::of(&call.queries); }
        (proc.as_mut_ptr(), queries.as_mut_ptr(), queries.len())
    tool_connected2(call: ToolConnected) -> Proc<'static>, Tool(tool) or void tool_connected
        { infos = CArray::of(&call.infos); } (infos.as_mut_ptr(), infos.len())
    log2(call: Log) -> (), Op(op) or void log
        { proc = one(&call.proc); data = CArray::of(&call.data); directives = CArray::of(&call.directives); }
        (proc.as_mut_ptr(), data.as_mut_ptr(), data.len(), directives.as_mut_ptr(), directives.len())
    allocate(call: Alloc) -> Infos, Infos(infos)
        { proc = one(&call.proc); infos = CArray::of(&call.infos); }
        (proc.as_mut_ptr(), call.directive.as_raw(), infos.as_mut_ptr(), infos.len())
    job_control(call: JobControl) -> Infos, Infos(infos)
        { proc = one(&call.proc); targets = CArray::of(&call.targets); directives = CArray::of(&call.directives); }
        (proc.as_mut_ptr(), targets.as_mut_ptr(), targets.len(), directives.as_mut_ptr(), directives.len())
    monitor(call: Monitor) -> Infos, Infos(infos)
        {
            proc = one(&call.proc);
            monitor = CArray::of(std::slice::from_ref(&call.monitor));
            directives = CArray::of(&call.directives);
        }
        (
            proc.as_mut_ptr(), monitor.as_mut_ptr(), call.error.as_raw(), directives.as_mut_ptr(), directives.len(),
        )
    get_credential(call: GetCredential) -> Credential, Credential(credential)
        { proc = one(&call.proc); directives = CArray::of(&call.directives); }
        (proc.as_mut_ptr(), directives.as_mut_ptr(), directives.len())
    validate_credential(call: ValidateCredential) -> Infos, Validated(validated)
        { proc = one(&call.proc); credential = object(&call.credential); directives = CArray::of(&call.directives); }
        (proc.as_mut_ptr(), credential.as_mut_ptr(), directives.as_mut_ptr(), directives.len())
    iof_pull(call: IofPull) -> (), Op(op)
        { procs = CArray::of(&call.procs); directives = CArray::of(&call.directives); }
        (procs.as_mut_ptr(), procs.len(), directives.as_mut_ptr(), directives.len(), call.channels.as_raw())
    push_stdin(call: PushStdin) -> (), Op(op)
        {
            source = one(&call.source);
            targets = CArray::of(&call.targets);
            directives = CArray::of(&call.directives);
            data = object(&call.data);
        }
        (
            source.as_mut_ptr(), targets.as_mut_ptr(), targets.len(), directives.as_mut_ptr(), directives.len(),
            data.as_mut_ptr(),
        )
    group(call: Group) -> Infos, Infos(infos)
        { id = CString::of(Some(&call.id)); procs = CArray::of(&call.procs); directives = CArray::of(&call.directives); }
        (
            call.operation.as_raw(), id.as_mut_ptr(), procs.as_mut_ptr(), procs.len(), directives.as_mut_ptr(), directives.len(),
        )
    fabric(call: Fabric) -> Infos, Infos(infos)
        { proc = one(&call.proc); directives = CArray::of(&call.directives); }
        (proc.as_mut_ptr(), call.operation.as_raw(), directives.as_mut_ptr(), directives.len())
    session_control(call: SessionControl) -> Infos, Infos(infos)
        { proc = one(&call.proc); directives = CArray::of(&call.directives); }
        (proc.as_mut_ptr(), call.session, directives.as_mut_ptr(), directives.len())
    resource_block(call: ResourceBlock) -> (), Op(op)
        {
            proc = one(&call.proc);
            block = CString::of(Some(&call.block));
            units = CArray::of(&call.units);
            directives = CArray::of(&call.directives);
        }
        (
            proc.as_mut_ptr(), call.directive.as_raw(), block.as_mut_ptr(), units.as_mut_ptr(), units.len(),
            directives.as_mut_ptr(), directives.len(),
        )
}

/// Implements [`Host`]: passes the calls of clients to the methods of [`CHost`].
macro_rules! host {
    ($($name:ident($upcall:ident) -> $reply:ty, $method:ident;)*) => {
        impl Host for CHost {
            $(fn $name(&self, call: upcall::$upcall, done: Completion<$reply>) {
                self.$method(call, ReplyTo::Server(done));
            })*

            fn server_event(&self, event: ServerEvent) {
                match &event {
                    ServerEvent::ProcessLost { proc, .. } | ServerEvent::ToolFinalized { proc } => {
                        self.files().proc_ended(proc);
                    }
                    _ => {}
                }
                report(event, self.takes_tools());
            }
        }
    };
}

host! {
    client_connected(ClientConnected) -> (), connected;
    client_finalized(ClientFinalized) -> (), finalized;
    abort(Abort) -> (), abort;
    fence(Fence) -> Vec<u8>, fence_nb;
    direct_modex(DirectModex) -> Vec<u8>, direct_modex;
    publish(Publish) -> (), publish;
    lookup(Lookup) -> Vec<Pdata<'static>>, lookup;
    unpublish(Unpublish) -> (), unpublish;
    spawn(Spawn) -> Nspace<'static>, spawn;
    connect(Connect) -> (), connect_if_whole;
    disconnect(Disconnect) -> (), disconnect_if_whole;
    register_events(RegisterEvents) -> (), register_events;
    deregister_events(DeregisterEvents) -> (), deregister_events;
    notify_event(NotifyEvent) -> (), notify_event;
    query(Query) -> Infos, answer_query;
    tool_connected(ToolConnected) -> Proc<'static>, tool_connected2;
    log(Log) -> (), log2;
    allocate(Alloc) -> Infos, allocate;
    job_control(JobControl) -> Infos, job_control;
    monitor(Monitor) -> Infos, monitor_or_watch;
    get_credential(GetCredential) -> Credential, get_credential;
    validate_credential(ValidateCredential) -> Infos, validate_credential;
    iof_pull(IofPull) -> (), iof_pull;
    push_stdin(PushStdin) -> (), push_stdin;
    group(Group) -> Infos, group;
    fabric(Fabric) -> Infos, fabric;
    session_control(SessionControl) -> Infos, session_control;
    resource_block(ResourceBlock) -> (), resource_block;
}

/// The callback of a call whose return value is the reply.
unsafe extern "C" fn ignore(_status: crate::abi::pmix_status_t, _cbdata: *mut c_void) {}

impl CHost {
    fn connected(&self, call: upcall::ClientConnected, done: ReplyTo<()>) {
        let module = self.module();
        if module.client_connected2.is_some() {
            return self.client_connected2(call, done);
        }
        let Some(function) = module.client_connected else {
            return done.succeed(());
        };
        let proc = match one(&call.proc) {
            Ok(proc) => proc,
            Err(status) => return done.fail(status),
        };
        // The return value is the reply of the host. Some hosts also call the callback, at once or later; that call is
        // ignored.
        // SAFETY: the host declared `function` for this slot; `proc` lives until it returns.
        let status = unsafe {
            function(
                proc.as_mut_ptr(),
                pointer(call.object),
                Some(ignore),
                ptr::null_mut(),
            )
        };
        match Status::from_raw(status) {
            Status::SUCCESS | Status::OPERATION_SUCCEEDED => done.succeed(()),
            other => done.fail(other),
        }
    }

    /// Passes a request to the host. The library watches a file itself if the host does not.
    fn monitor_or_watch(&self, call: upcall::Monitor, done: ReplyTo<Infos>) {
        if !FileMonitors::serves(&call) {
            return self.monitor(call, done);
        }
        if self.module().monitor.is_none() {
            return self.files().request(call, done);
        }
        let bytes = call.directives.iter();
        let bytes = bytes.map(|info| info.measure(Measure::All)).sum();
        if pmix_types::memory::check(bytes).is_err() {
            return done.fail(Status::ERR_NOMEM);
        }
        let (again, files) = (call.clone(), Arc::clone(self.files()));
        let is_cancel = call.monitor.key.is(keys::MONITOR_CANCEL);
        let then = move |reply: Result<(Status, Infos)>| match reply {
            // The monitors to cancel may be those of the host and those of the library.
            Ok((status, infos)) if is_cancel => {
                files.request(again, ReplyTo::Own(Box::new(|_| {})));
                done.partly(status, infos);
            }
            Ok((status, infos)) => done.partly(status, infos),
            Err(Status::ERR_NOT_SUPPORTED | Status::ERR_NOT_IMPLEMENTED) => {
                files.request(again, done);
            }
            Err(_) if is_cancel && files.is_active() => files.request(again, done),
            Err(status) => done.fail(status),
        };
        self.monitor(call, ReplyTo::Own(Box::new(then)));
    }

    /// A host without the function has nothing to do for a client that ends.
    fn finalized(&self, call: upcall::ClientFinalized, done: ReplyTo<()>) {
        self.files().proc_ended(&call.proc);
        match self.module().client_finalized {
            Some(_) => self.client_finalized(call, done),
            None => done.succeed(()),
        }
    }

    /// The module has no way to report a connect that failed on this server.
    fn connect_if_whole(&self, call: upcall::Connect, done: ReplyTo<()>) {
        match call.failed {
            Some(_) => done.succeed(()),
            None => self.connect(call, done),
        }
    }

    fn disconnect_if_whole(&self, call: upcall::Disconnect, done: ReplyTo<()>) {
        match call.failed {
            Some(_) => done.succeed(()),
            None => self.disconnect(call, done),
        }
    }

    /// Queries for attributes that the host has registered are answered here.
    pub(crate) fn answer_query(&self, call: upcall::Query, done: ReplyTo<Infos>) {
        match attributes::answer(&call.queries) {
            Some(found) => done.succeed(found),
            None => self.query(call, done),
        }
    }
}

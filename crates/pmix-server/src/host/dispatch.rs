// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dispatch of upcalls to the methods of the host.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use pmix_engine::{HostCall, Upcall};

use super::{Completion, Host, ServerEvent, gateway};
use crate::devices::Devices;
use crate::engine_handle::EngineHandle;

/// The state for upcalls that the library handles itself; they do not reach the host.
pub(crate) struct OwnUpcalls {
    /// `true` if the server is a gateway, which writes logged data to the standard streams.
    pub(crate) is_gateway: bool,
    pub(crate) devices: Devices,
}

/// Calls the method for an upcall, or handles it. If the method panics, only this request fails.
pub(crate) fn call(host: &dyn Host, own: &OwnUpcalls, call: HostCall, handle: &Arc<EngineHandle>) {
    let name = call.upcall.name();
    let handle = Arc::downgrade(handle);
    // Unwinding drops the completion, which fails the request.
    guarded(name, || match call.upcall {
        Upcall::Log(request) if own.is_gateway => {
            gateway::log(host, request, Completion::new(call.id, handle));
        }
        _ => dispatch(host, &own.devices, call, handle),
    });
}

/// Reports an event to the host.
pub(crate) fn server_event(host: &dyn Host, event: ServerEvent) {
    guarded("server_event", || host.server_event(event));
}

/// Runs code of the host, and logs a panic in it.
pub(crate) fn guarded(name: &str, code: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        tracing::error!(call = name, panic = text(&*panic), "the host panicked");
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    let found = panic.downcast_ref::<&str>().copied().or_else(owned);
    found.unwrap_or("no message")
}

fn dispatch(host: &dyn Host, devices: &Devices, call: HostCall, handle: Weak<EngineHandle>) {
    macro_rules! methods {
        ($($upcall:ident => $method:ident,)*) => {
            match call.upcall {
                Upcall::DeviceDistances(request) => {
                    Completion::new(call.id, handle).complete(devices.distances(&request));
                }
                $(Upcall::$upcall(request) => {
                    host.$method(request, Completion::new(call.id, handle));
                })*
                // The engine of this release makes no other upcall.
                _ => Completion::<()>::new(call.id, handle).not_supported(),
            }
        };
    }
    methods! {
        ClientConnected => client_connected,
        ClientFinalized => client_finalized,
        Abort => abort,
        Fence => fence,
        DirectModex => direct_modex,
        Publish => publish,
        Lookup => lookup,
        Unpublish => unpublish,
        Spawn => spawn,
        Connect => connect,
        Disconnect => disconnect,
        RegisterEvents => register_events,
        DeregisterEvents => deregister_events,
        NotifyEvent => notify_event,
        Query => query,
        ToolConnected => tool_connected,
        Log => log,
        Alloc => allocate,
        JobControl => job_control,
        Monitor => monitor,
        GetCredential => get_credential,
        ValidateCredential => validate_credential,
        IofPull => iof_pull,
        PushStdin => push_stdin,
        Group => group,
        Fabric => fabric,
        SessionControl => session_control,
        ResourceBlock => resource_block,
    }
}

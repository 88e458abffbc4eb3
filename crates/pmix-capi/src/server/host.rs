// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host of C: its module, and what the server tells it unasked.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use pmix_server::{Completion, Credential, Host, ServerEvent, upcall};
use pmix_types::{Info, Nspace, Pdata, Proc, Status, Value, keys};

use crate::abi::*;
use crate::events::{Happened, tell};
use crate::later::later;

use super::pending::To;

/// How many bytes of the module all releases have in common. A host of an older release has no more.
const COMMON_BYTES: usize = 224;

const _: () = assert!(std::mem::offset_of!(pmix_server_module_t, tool_connected2) == COMMON_BYTES);

/// What all releases have in common of a host's module; the slots behind it are empty.
///
/// # Safety
/// `at` is NULL or points to a module of any release.
pub(crate) unsafe fn common_part(at: *const pmix_server_module_t) -> Option<pmix_server_module_t> {
    if at.is_null() {
        return None;
    }
    let mut module = MaybeUninit::<pmix_server_module_t>::zeroed();
    // SAFETY: every release has so many bytes; the rest is zeros, which no slot minds.
    unsafe {
        ptr::copy_nonoverlapping(
            at.cast::<u8>(),
            module.as_mut_ptr().cast::<u8>(),
            COMMON_BYTES,
        );
        Some(module.assume_init())
    }
}

/// A host of C.
pub(crate) struct CHost {
    /// Its functions; the server of a tool may have them later.
    given: OnceLock<pmix_server_module_t>,
}

/// The functions of a host that has given none.
// SAFETY: a module without functions is zeros.
static NO_FUNCTIONS: pmix_server_module_t = unsafe { std::mem::zeroed() };

impl CHost {
    pub(super) fn new(module: Option<&pmix_server_module_t>) -> Self {
        Self {
            given: module.copied().map(OnceLock::from).unwrap_or_default(),
        }
    }

    /// Gives it its functions. Returns whether it had none.
    pub(super) fn give(&self, module: &pmix_server_module_t) -> bool {
        self.given.set(*module).is_ok()
    }

    pub(super) fn module(&self) -> &pmix_server_module_t {
        self.given.get().unwrap_or(&NO_FUNCTIONS)
    }
}

/// Hands each call to the function that has its name in `upcalls`: whole, or in its parts.
macro_rules! host {
    (
        whole { $($name:ident($call:ident) -> $answer:ty;)* }
        parts { $($named:ident($asked:ident: $parts:ident, $($part:expr),*) -> $answers:ty;)* }
    ) => {
        impl Host for CHost {
            $(fn $name(&self, call: upcall::$call, done: Completion<$answer>) {
                self.$name(call, To::Server(done));
            })*

            $(fn $named(&self, $asked: upcall::$parts, done: Completion<$answers>) {
                self.$named($($part),*, To::Server(done));
            })*

            fn server_event(&self, event: ServerEvent) {
                noticed(event, self.module().tool_connected.is_some());
            }
        }
    };
}

host! {
    whole {
    client_connected(ClientConnected) -> ();
    client_finalized(ClientFinalized) -> ();
    fence(Fence) -> Vec<u8>;
    direct_modex(DirectModex) -> Vec<u8>;
    connect(Connect) -> ();
    disconnect(Disconnect) -> ();
    register_events(RegisterEvents) -> ();
    deregister_events(DeregisterEvents) -> ();
    notify_event(NotifyEvent) -> ();
    tool_connected(ToolConnected) -> Proc<'static>;
    group(Group) -> Vec<Info<'static>>;
    }
    parts {
    fabric(a: Fabric, &a.proc, a.operation, &a.directives) -> Vec<Info<'static>>;
    abort(a: Abort, &a.proc, a.object, a.status, a.message.as_ref(), &a.targets) -> ();
    publish(a: Publish, &a.proc, &a.infos) -> ();
    lookup(a: Lookup, &a.proc, &a.keys, &a.infos) -> Vec<Pdata<'static>>;
    unpublish(a: Unpublish, &a.proc, &a.keys, &a.infos) -> ();
    spawn(a: Spawn, &a.proc, &a.infos, &a.apps) -> Nspace<'static>;
    query(a: Query, &a.proc, &a.queries) -> Vec<Info<'static>>;
    log(a: Log, &a.proc, &a.data, &a.directives) -> ();
    allocate(a: Alloc, &a.proc, a.directive, &a.infos) -> Vec<Info<'static>>;
    job_control(a: JobControl, &a.proc, &a.targets, &a.directives) -> Vec<Info<'static>>;
    monitor(a: Monitor, &a.proc, &a.monitor, a.error, &a.directives) -> Vec<Info<'static>>;
    get_credential(a: GetCredential, &a.proc, &a.directives) -> Credential;
    validate_credential(a: ValidateCredential, &a.proc, &a.credential, &a.directives) -> Vec<Info<'static>>;
        iof_pull(a: IofPull, &a.procs, &a.directives, a.channels) -> ();
        push_stdin(a: PushStdin, &a.source, &a.targets, &a.directives, &a.data) -> ();
    }
}

/// A process that is lost is an event to the host, as the host waits for it. A host that does not hear that tools
/// connect does not hear that they are lost: Slurm 22.05 would end the step that it takes them for a part of.
fn noticed(event: ServerEvent, takes_tools: bool) {
    match event {
        ServerEvent::ProcessLost { is_tool: true, .. } if !takes_tools => {}
        ServerEvent::ProcessLost { proc, .. } => {
            let infos = vec![Info::new(
                keys::EVENT_AFFECTED_PROC,
                Value::Proc(proc.clone()),
            )];
            let event = Happened {
                status: Status::ERR_LOST_CONNECTION,
                source: proc,
                infos,
            };
            // Without a thread for it the host learns it from the process's end.
            let _ = later(move || tell(event));
        }
        ServerEvent::Refused { reason } => tracing::warn!("a connection was refused: {reason}"),
        ServerEvent::FenceMissing {
            missing, status, ..
        } => {
            tracing::warn!("{} processes were missing: {status}", missing.len());
        }
        other => tracing::debug!(?other, "nothing follows from it"),
    }
}

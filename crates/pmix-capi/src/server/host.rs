// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host of a C server: its module, and the events that the server reports to it.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Arc, OnceLock};

use pmix_proto::Event;
use pmix_server::ServerEvent;
use pmix_types::{Info, Status, Value, keys};

use super::files::FileMonitors;
use crate::abi::*;
use crate::events::deliver;
use crate::later::later;
use crate::memory::Result;
/// The size of the module members that all releases have. The module of an older release has no more.
const COMMON_BYTES: usize = 224;

/// The size of the module of OpenPMIx 5.0, whose last slot is `session_control`.
const BYTES_OF_5: usize = 232;

const _: () = assert!(std::mem::offset_of!(pmix_server_module_t, tool_connected2) == COMMON_BYTES);

/// The attribute of `PMIx_server_init` and `PMIx_tool_init` for the size of the host's module in bytes, such as
/// `sizeof(pmix_server_module_t)`. `include/pmix_server.h` defines it.
const MODULE_SIZE: &str = "pmixrs.module.size";

/// Removes the size of the host's module from the infos of an init and returns it. Without the attribute, it is the
/// size that all releases have.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` if the value is not a number, or is smaller than the size that all releases have.
pub(crate) fn take_module_size(infos: &mut Vec<Info<'_>>) -> Result<usize> {
    let size = module_size(infos)?;
    infos.retain(|info| !info.key.is(MODULE_SIZE));
    Ok(size)
}

/// Returns the size of the host's module, like [`take_module_size`].
pub(crate) fn module_size(infos: &[Info<'_>]) -> Result<usize> {
    let Some(info) = infos.iter().find(|info| info.key.is(MODULE_SIZE)) else {
        return Ok(COMMON_BYTES);
    };
    let size = info.value.to_number::<u64>().ok();
    match size.and_then(|size| usize::try_from(size).ok()) {
        Some(size) if size >= COMMON_BYTES => Ok(size),
        _ => {
            tracing::warn!(
                "PMIXRS_SERVER_MODULE_SIZE ({MODULE_SIZE}) must be a number of at least {COMMON_BYTES}: pass \
                sizeof(pmix_server_module_t)"
            );
            Err(Status::ERR_BAD_PARAM)
        }
    }
}

/// Copies the module of a host. Slots that it does not have are empty.
///
/// # Safety
/// `at` is NULL or points to a module of `size` bytes.
pub(crate) unsafe fn module_at(
    at: *const pmix_server_module_t,
    size: usize,
) -> Option<pmix_server_module_t> {
    if at.is_null() {
        return None;
    }
    let mut module = MaybeUninit::<pmix_server_module_t>::zeroed();
    let size = size.min(size_of::<pmix_server_module_t>());
    let whole_slots = size - size % size_of::<usize>();
    let copied = if size == BYTES_OF_5 {
        COMMON_BYTES
    } else {
        whole_slots
    };
    // SAFETY: the caller guarantees `size` bytes at `at`, and `copied` is at most that. Zeros are valid for every
    // slot.
    let mut module = unsafe {
        ptr::copy_nonoverlapping(at.cast::<u8>(), module.as_mut_ptr().cast::<u8>(), copied);
        module.assume_init()
    };
    if size == BYTES_OF_5 {
        // SAFETY: the caller guarantees `BYTES_OF_5` bytes. In OpenPMIx 5.0 the slot after the common ones is this
        // function.
        module.session_control = unsafe {
            at.cast::<u8>()
                .add(COMMON_BYTES)
                .cast::<pmix_server_session_control_fn_t>()
                .read()
        };
    }
    Some(module)
}

/// The host of a C server.
pub(crate) struct CHost {
    /// The functions of the host. The server of a tool may receive them after its init.
    given: OnceLock<pmix_server_module_t>,
    files: Arc<FileMonitors>,
}

/// The functions of a host that has not passed any.
// SAFETY: all members are optional functions, for which zero is `None`.
static NO_FUNCTIONS: pmix_server_module_t = unsafe { std::mem::zeroed() };

impl CHost {
    pub(super) fn new(module: Option<&pmix_server_module_t>) -> Self {
        Self {
            given: module.copied().map(OnceLock::from).unwrap_or_default(),
            files: Arc::default(),
        }
    }

    /// Stores the functions of the host. Returns `true` if it had none.
    pub(crate) fn give(&self, module: &pmix_server_module_t) -> bool {
        self.given.set(*module).is_ok()
    }

    /// Returns the monitors of files that the library serves in place of the host.
    pub(crate) const fn files(&self) -> &Arc<FileMonitors> {
        &self.files
    }

    /// Returns `true` if the host has a function for tools that connect.
    pub(super) fn takes_tools(&self) -> bool {
        let module = self.module();
        module.tool_connected.is_some() || module.tool_connected2.is_some()
    }

    pub(crate) fn module(&self) -> &pmix_server_module_t {
        self.given.get().unwrap_or(&NO_FUNCTIONS)
    }
}

/// Reports a lost process to the host as an event. A host without a function for connecting tools is not notified of
/// lost tools: Slurm 22.05 would terminate the step to which it attributes them.
pub(super) fn report(event: ServerEvent, takes_tools: bool) {
    match event {
        ServerEvent::ProcessLost { is_tool: true, .. } if !takes_tools => {}
        ServerEvent::ProcessLost { proc, .. } => {
            let infos = vec![Info::new(
                keys::EVENT_AFFECTED_PROC,
                Value::Proc(proc.clone()),
            )];
            let event = Event {
                status: Status::ERR_LOST_CONNECTION,
                source: proc,
                infos,
                range: None,
            };
            // If no thread can be started, the host still learns of the loss when the process exits.
            let _ = later(move || deliver(event));
        }
        ServerEvent::Refused { reason } => tracing::warn!("a connection was rejected: {reason}"),
        ServerEvent::FenceMissing {
            missing, status, ..
        } => {
            tracing::warn!("{} processes were missing: {status}", missing.len());
        }
        other => tracing::debug!(?other, "the result is ignored"),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The module of a loaded component: its state, and calls to its functions.

use std::ffi::c_void;
use std::ptr;

use pmix_mca::abi;
use pmix_mca::{Loaded, Params};

use super::fault::Fault;
use super::sink::{self, Sink};
use crate::{Error, Extent, Limits, Status, Terminator};

/// The checked result of a call to a component.
#[derive(Debug)]
pub(super) enum Answer<T> {
    /// Success.
    Done(T),
    /// The component declined: the value belongs to another component.
    Declined,
    /// An error status, with the reason and, if known, the offset in the value.
    Failed(Status, String, Option<usize>),
    /// A violation of the interface.
    Broken(Fault),
}

/// The module: the state that `query` created, and the functions for it.
#[derive(Debug)]
pub(super) struct Module {
    operations: abi::Operations,
    state: *mut c_void,
    name: String,
}

// SAFETY: the interface requires that its functions may be called from several threads at once; the
// host only passes the pointer back and never dereferences it.
unsafe impl Send for Module {}

// SAFETY: as for `Send`.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        if let Some(close) = self.operations.close {
            // SAFETY: `state` came from this component's `query` and is not used again.
            unsafe { close(self.state) }
        }
    }
}

/// The context of the host's functions `param` and `log`.
struct HostContext<'a> {
    params: &'a Params,
    sink: Sink,
}

impl Module {
    /// Creates the module of a component, or returns `None` if it cannot work on this machine.
    pub(super) fn query(loaded: &Loaded, params: &Params) -> Result<Option<Self>, Fault> {
        let mut module = Self {
            operations: abi::Operations::default(),
            state: ptr::null_mut(),
            name: loaded.name.clone(),
        };
        if let Some(query) = loaded.query {
            let mut context = HostContext {
                params,
                sink: Sink {
                    name: loaded.name.clone(),
                    ..Sink::default()
                },
            };
            let host = abi::Host {
                size: size_of::<abi::Host>(),
                ctx: ptr::from_mut(&mut context).cast(),
                log: host_log,
                param: host_param,
            };
            // SAFETY: the header file defines this type of the function; both pointers are valid
            // during the call.
            match unsafe { query(&raw const host, &raw mut module.state) } {
                abi::SUCCESS => {}
                abi::DECLINED | abi::ERR_NOT_SUPPORTED => return Ok(None),
                abi::PANICKED => return Err(Fault::Panicked("in query".to_owned())),
                other => return Err(Fault::UnknownStatus(other)),
            }
        }
        // `drop` closes the module through its operations. They are set only now, when the module
        // exists.
        module.operations = loaded.operations;
        Ok(Some(module))
    }

    pub(super) fn operations(&self) -> &abi::Operations {
        &self.operations
    }

    /// Calls one of the functions that convert bytes into bytes.
    pub(super) fn transform(
        &self,
        slot: Option<abi::Transform>,
        input: &[u8],
        bound: u64,
        limits: &Limits,
    ) -> Answer<Vec<u8>> {
        let Some(slot) = slot else {
            return Answer::Declined;
        };
        let mut sink = self.sink(bound);
        let call = sink.call(limits);
        // SAFETY: the header file defines this type of the function; input and call are valid
        // during the call, and this function does not touch the sink until it returns.
        let status = unsafe { slot(self.state, input.as_ptr(), input.len(), &raw const call) };
        let output = std::mem::take(&mut sink.output);
        answer(status, sink, input.len(), output)
    }

    /// Determines the extent of a value.
    pub(super) fn measure(
        &self,
        slot: abi::Measure,
        input: &[u8],
        limits: &Limits,
    ) -> Answer<Extent> {
        let mut sink = self.sink(0);
        let call = sink.call(limits);
        let mut raw = abi::ValueExtent::default();
        // SAFETY: as in `transform`; `extent` is a local variable and valid during the call.
        let status = unsafe {
            slot(
                self.state,
                input.as_ptr(),
                input.len(),
                &raw const call,
                &raw mut raw,
            )
        };
        let extent = Extent {
            len: raw.len,
            terminator: if raw.terminated == 0 {
                Terminator::None
            } else {
                Terminator::Nul
            },
        };
        answer(status, sink, input.len(), extent)
    }

    fn sink(&self, bound: u64) -> Sink {
        Sink {
            bound,
            name: self.name.clone(),
            ..Sink::default()
        }
    }
}

/// Converts the status of a call, and the data that the component sent during the call, into an
/// answer.
fn answer<T>(status: i32, sink: Sink, input_len: usize, done: T) -> Answer<T> {
    let (offset, text) = sink.reason.unwrap_or_default();
    match (sink.breach, status) {
        (_, abi::PANICKED) => Answer::Broken(Fault::Panicked(text)),
        (Some(breach), _) => Answer::Broken(breach),
        (None, abi::SUCCESS) => Answer::Done(done),
        (None, abi::DECLINED) => Answer::Declined,
        (
            None,
            abi::ERR_BAD_PARAM
            | abi::ERR_OUT_OF_RESOURCE
            | abi::ERR_NOT_FOUND
            | abi::ERR_NOT_SUPPORTED
            | abi::ERR_READ_PAST_END,
        ) => match offset {
            Some(offset) if offset > input_len => Answer::Broken(Fault::BadOffset),
            _ => Answer::Failed(Status::from_raw(status), text, offset),
        },
        (None, other) => Answer::Broken(Fault::UnknownStatus(other)),
    }
}

/// # Safety
/// `ctx` is the pointer that [`Module::query`] passes, during that call; `ptr` is valid for reads
/// of `len` bytes.
unsafe extern "C" fn host_log(ctx: *mut c_void, level: u32, ptr: *const u8, len: usize) {
    // SAFETY: `ctx` is NULL or the context of a running `query`, as the caller guarantees.
    if let Some(context) = unsafe { ctx.cast::<HostContext<'_>>().as_mut() } {
        // SAFETY: the sink lives in the context; the caller guarantees the text.
        unsafe { sink::log(ptr::from_mut(&mut context.sink).cast(), level, ptr, len) }
    }
}

/// # Safety
/// As for [`host_log`]; `write` may be called with `write_ctx`.
unsafe extern "C" fn host_param(
    ctx: *mut c_void,
    name: *const u8,
    name_len: usize,
    write: abi::Write,
    write_ctx: *mut c_void,
) -> i32 {
    // SAFETY: `ctx` is NULL or the context of a running `query`, as the caller guarantees.
    let Some(context) = (unsafe { ctx.cast::<HostContext<'_>>().as_mut() }) else {
        return abi::ERR_BAD_PARAM;
    };
    if name.is_null() || name_len > 256 {
        return abi::ERR_BAD_PARAM;
    }
    // SAFETY: the caller guarantees the bytes; the length and NULL were checked above.
    let name = unsafe { std::slice::from_raw_parts(name, name_len) };
    let setting = std::str::from_utf8(name).ok().and_then(|name| {
        let setting = context.params.get(name)?;
        context.sink.read(name, &setting.source);
        Some(setting)
    });
    match setting {
        // SAFETY: the caller passed the function together with its context.
        Some(setting) => unsafe { write(write_ctx, setting.value.as_ptr(), setting.value.len()) },
        None => abi::ERR_NOT_FOUND,
    }
}

/// The reason for which a decoder returned no text.
#[derive(Debug)]
pub(super) enum Damage {
    /// The value is damaged.
    Value(Error),
    /// The component violated the interface.
    Broken(Fault),
}

impl Damage {
    pub(super) fn of<T>(answer: Answer<T>) -> Result<Option<T>, Self> {
        match answer {
            Answer::Done(done) => Ok(Some(done)),
            Answer::Declined => Ok(None),
            Answer::Broken(fault) => Err(Self::Broken(fault)),
            Answer::Failed(status, text, offset) => {
                let text = if text.is_empty() {
                    status.text().to_owned()
                } else {
                    text
                };
                let error = Error::new(status, text);
                Err(Self::Value(match offset {
                    Some(offset) => error.at(offset),
                    None => error,
                }))
            }
        }
    }

    /// Converts the failure to decode a value into a fault of the component that encoded the value.
    pub(super) fn into_fault(self, wrap: impl Fn(String) -> Fault) -> Fault {
        match self {
            Self::Value(error) => wrap(error.to_string()),
            Self::Broken(Fault::TooMuch(_)) => wrap("it is longer than the list".to_owned()),
            Self::Broken(fault) => fault,
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's side of a call to a component: receives output, log messages and reasons for errors.
//!
//! Foreign code calls these functions. They check every pointer and length as far as possible,
//! record the first violation, and never panic.

use std::ffi::c_void;

use pmix_mca::Source;
use pmix_mca::abi;

use super::fault::Fault;

/// The maximum length of a message in bytes. Longer messages are truncated.
const MAX_MESSAGE: usize = 1024;

/// The data that a component sends during one call.
#[derive(Debug, Default)]
pub(super) struct Sink {
    /// The output.
    pub(super) output: Vec<u8>,
    /// The maximum length of the output in bytes.
    pub(super) bound: u64,
    /// The reason for an error status, with the offset in the value if the component reported one.
    pub(super) reason: Option<(Option<usize>, String)>,
    /// The first violation of the interface.
    pub(super) breach: Option<Fault>,
    /// The name of the component that sends messages.
    pub(super) name: String,
    /// The parameters that the component read, with their sources. The source is appended to
    /// messages that name the parameter.
    pub(super) settings: Vec<(String, String)>,
}

/// The maximum number of parameters whose sources are recorded.
const MAX_SETTINGS: usize = 64;

impl Sink {
    /// Records that a parameter was read, and its source.
    pub(super) fn read(&mut self, name: &str, source: &Source) {
        let is_new = self.settings.iter().all(|(known, _)| known != name);
        if is_new && self.settings.len() < MAX_SETTINGS {
            self.settings.push((name.to_owned(), source.to_string()));
        }
    }

    /// Appends the sources of the parameters that a message names.
    fn with_sources(&self, mut text: String) -> String {
        let named: Vec<_> = self
            .settings
            .iter()
            .filter(|(name, _)| text.contains(name))
            .collect();
        for (name, source) in named {
            text += &format!(" ({name} is set by {source})");
        }
        text
    }

    fn append(&mut self, ptr: *const u8, len: usize) -> i32 {
        let breach = if len == 0 {
            return abi::SUCCESS;
        } else if ptr.is_null() {
            Fault::BadWrite("bytes from the address NULL")
        } else if isize::try_from(len).is_err() {
            Fault::BadWrite("more bytes than an address space holds")
        } else if self.breach.is_some() {
            return abi::ERR_OUT_OF_RESOURCE;
        } else if !self.fits(len) || self.output.try_reserve(len).is_err() {
            Fault::TooMuch(self.bound)
        } else {
            // SAFETY: the component guarantees `len` readable bytes (header contract); the pointer
            // is not NULL and the length is valid for a slice.
            self.output
                .extend_from_slice(unsafe { std::slice::from_raw_parts(ptr, len) });
            return abi::SUCCESS;
        };
        self.breach.get_or_insert(breach);
        abi::ERR_OUT_OF_RESOURCE
    }

    fn fits(&self, len: usize) -> bool {
        let total = self.output.len().saturating_add(len);
        u64::try_from(total).is_ok_and(|total| total <= self.bound)
    }

    fn message(&mut self, ptr: *const u8, len: usize) -> String {
        if len == 0 || ptr.is_null() || isize::try_from(len).is_err() {
            return String::new();
        }
        // SAFETY: as in `append`; at most `len` bytes are read.
        let bytes = unsafe { std::slice::from_raw_parts(ptr, len.min(MAX_MESSAGE)) };
        let cut_only = |e: std::str::Utf8Error| len > MAX_MESSAGE && e.error_len().is_none();
        if std::str::from_utf8(bytes).is_err_and(|e| !cut_only(e)) {
            self.breach.get_or_insert(Fault::NotText);
        }
        String::from_utf8_lossy(bytes).replace(char::is_control, " ")
    }

    /// Returns the functions that the component may call during one call. They are valid as long as
    /// the sink is borrowed.
    pub(super) fn call(&mut self, limits: &pmix_map::Limits) -> abi::Call {
        abi::Call {
            size: size_of::<abi::Call>(),
            ctx: std::ptr::from_mut(self).cast(),
            write,
            log,
            fault,
            max_nodes: limits.max_nodes,
            max_ranks: limits.max_ranks,
            max_bytes: limits.max_text,
        }
    }
}

/// Returns the sink to which a context pointer points, or `None` for NULL.
///
/// # Safety
/// `ctx` is NULL or the pointer that the host passed with these functions, during that call.
unsafe fn sink<'a>(ctx: *mut c_void) -> Option<&'a mut Sink> {
    // SAFETY: the caller guarantees `ctx`; no other code uses the sink while the component runs.
    unsafe { ctx.cast::<Sink>().as_mut() }
}

/// # Safety
/// As for [`sink`]; `ptr` is valid for reads of `len` bytes.
pub(super) unsafe extern "C" fn write(ctx: *mut c_void, ptr: *const u8, len: usize) -> i32 {
    // SAFETY: the caller guarantees `ctx`.
    match unsafe { sink(ctx) } {
        Some(sink) => sink.append(ptr, len),
        None => abi::ERR_BAD_PARAM,
    }
}

/// # Safety
/// As for [`write`].
pub(super) unsafe extern "C" fn log(ctx: *mut c_void, level: u32, ptr: *const u8, len: usize) {
    // SAFETY: the caller guarantees `ctx`.
    let Some(sink) = (unsafe { sink(ctx) }) else {
        return;
    };
    let text = sink.message(ptr, len);
    let text = sink.with_sources(text);
    let plugin = sink.name.as_str();
    match level {
        abi::LOG_ERROR => tracing::error!(plugin, "{text}"),
        abi::LOG_WARN => tracing::warn!(plugin, "{text}"),
        abi::LOG_INFO => tracing::info!(plugin, "{text}"),
        _ => tracing::debug!(plugin, "{text}"),
    }
}

/// # Safety
/// As for [`write`].
unsafe extern "C" fn fault(ctx: *mut c_void, offset: usize, ptr: *const u8, len: usize) {
    // SAFETY: the caller guarantees `ctx`.
    if let Some(sink) = unsafe { sink(ctx) } {
        let text = sink.message(ptr, len);
        let place = (offset != abi::NO_OFFSET).then_some(offset);
        sink.reason.get_or_insert((place, text));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plugin's side: the C table of a [`Component`], which a host loads.
//!
//! [`export_component!`](crate::export_component) defines the one exported function. The functions
//! of its table are here. Every function catches panics and returns a status instead, because
//! unwinding into C is undefined.
//!
//! Source: `docs/plugins.md`.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pmix_mca::abi;
pub use pmix_mca::abi::ComponentHeader;
use pmix_mca::{ParamSpec, Params, Source};

use crate::{Component, Error, Limits, ProcMap, Regex2Ref, Scheme, Terminator};

/// Exports a component from a cdylib: `preg_core::export_component!(my_crate::COMPONENT);`.
///
/// The cdylib crate contains this line once, at its top level. It compiles under
/// `#![forbid(unsafe_code)]`. A static library or program that links two crates with this line
/// fails with a duplicate symbol. So a component that is also built in needs a separate cdylib
/// crate for the line. Registration by `inventory` has no effect in a cdylib: it fills the plugin's
/// own registry, not the host's.
#[macro_export]
macro_rules! export_component {
    ($component:path) => {
        const _: () = {
            struct Exported;

            impl $crate::export::Exported for Exported {
                fn component() -> &'static $crate::Component {
                    &$component
                }
            }

            static HEADER: ::std::sync::OnceLock<$crate::export::ComponentHeader> =
                ::std::sync::OnceLock::new();

            /// Returns the header of the component: the only symbol of the plugin interface.
            #[unsafe(no_mangle)]
            pub extern "C" fn pmixrs_component() -> *const $crate::export::ComponentHeader {
                HEADER.get_or_init($crate::export::header::<Exported>)
            }
        };
    };
}

/// The component that a cdylib exports; [`export_component!`](crate::export_component) implements
/// it.
pub trait Exported {
    /// Returns the component.
    fn component() -> &'static Component;
}

/// The state of the functions of a table.
type Module = Box<dyn Scheme>;

/// Returns the header of a component.
#[must_use]
pub fn header<E: Exported>() -> ComponentHeader {
    let component = E::component();
    // Only a created scheme knows its regex2 type, so this creates one with default parameters.
    let kind = catch_unwind(|| {
        let scheme = (component.query)(&Params::default()).ok().flatten()?;
        scheme.kind().map(|kind| &*kind.to_owned().leak())
    });
    let params = component.params.iter().map(|spec| abi::Parameter {
        name: abi::Text::of(spec.name.as_bytes()),
        default: abi::Text::of(spec.default.as_bytes()),
        help: abi::Text::of(spec.help.as_bytes()),
    });
    // A header is created once per process, so the leak is bounded.
    let params: &'static [abi::Parameter] = params.collect::<Vec<_>>().leak();
    ComponentHeader {
        magic: abi::MAGIC,
        abi_major: abi::ABI_MAJOR,
        abi_minor: abi::ABI_MINOR,
        size: u32::try_from(size_of::<ComponentHeader>()).unwrap_or(0),
        framework: abi::Text::of(b"preg"),
        name: abi::Text::of(component.name.as_bytes()),
        about: abi::Text::of(component.about.as_bytes()),
        tag: abi::Text::of(component.tag),
        kind: abi::Text::of(kind.ok().flatten().unwrap_or("").as_bytes()),
        interface: super::INTERFACE_VERSION,
        priority: component.priority,
        flags: if component.enabled {
            0
        } else {
            abi::OFF_BY_DEFAULT
        },
        reserved: 0,
        query: Some(query::<E>),
        operations: &raw const OPERATIONS,
        params: params.as_ptr(),
        num_params: params.len(),
        param_size: size_of::<abi::Parameter>(),
    }
}

static OPERATIONS: abi::Operations = abi::Operations {
    size: size_of::<abi::Operations>(),
    close: Some(close),
    generate_regex: Some(generate_regex),
    parse_regex: Some(parse_regex),
    generate_node_regex: Some(generate_node_regex),
    generate_ppn: Some(generate_ppn),
    parse_nodes: Some(parse_nodes),
    parse_procs: Some(parse_procs),
    legacy_len: Some(legacy_len),
};

/// # Safety
/// The host follows the contract of [`abi::Query`].
unsafe extern "C" fn query<E: Exported>(host: *const abi::Host, out: *mut *mut c_void) -> i32 {
    let made = catch_unwind(|| {
        let component = E::component();
        // SAFETY: the host passes NULL or a valid struct of the size in it (header contract).
        let params = match unsafe { host.as_ref() } {
            Some(host) if host.size >= size_of::<abi::Host>() => params(host, component.params)?,
            _ => Params::default(),
        };
        (component.query)(&params)
    });
    match made {
        Ok(Ok(Some(scheme))) => {
            let module: *mut Module = Box::into_raw(Box::new(scheme));
            // SAFETY: `out` is valid for writes of a module pointer (header contract).
            unsafe { out.write(module.cast()) };
            abi::SUCCESS
        }
        Ok(Ok(None)) => abi::DECLINED,
        Ok(Err(error)) => {
            // SAFETY: the host passes NULL or a struct that is valid during the whole call (header
            // contract).
            if let Some(host) = unsafe { host.as_ref() } {
                let text = error.to_string();
                // SAFETY: `log` accepts its own context and any `len` readable bytes (header
                // contract).
                unsafe { (host.log)(host.ctx, abi::LOG_ERROR, text.as_ptr(), text.len()) };
            }
            abi::ERR_NOT_SUPPORTED
        }
        Err(_) => abi::PANICKED,
    }
}

/// Asks the host for the values of the parameters that the component declares.
fn params(host: &abi::Host, specs: &[ParamSpec]) -> Result<Params, Error> {
    let mut builder = Params::builder();
    for spec in specs {
        let mut value: Vec<u8> = Vec::new();
        let name = spec.name.as_bytes();
        // SAFETY: `param` accepts its own context; the collector matches the context `&mut
        // Vec<u8>`, which lives through the call.
        let status = unsafe {
            (host.param)(
                host.ctx,
                name.as_ptr(),
                name.len(),
                collect,
                ptr::from_mut(&mut value).cast(),
            )
        };
        if status == abi::SUCCESS {
            let text = String::from_utf8_lossy(&value).into_owned();
            builder = builder.set(spec.name, text, Source::Host);
        }
    }
    Ok(builder.build()?)
}

/// # Safety
/// `ctx` is the vector that [`params`] passes; `ptr` is valid for reads of `len` bytes.
unsafe extern "C" fn collect(ctx: *mut c_void, ptr: *const u8, len: usize) -> i32 {
    // SAFETY: the caller guarantees the vector and the bytes (see `# Safety`).
    unsafe {
        match ctx.cast::<Vec<u8>>().as_mut() {
            Some(value) => value.extend_from_slice(input(ptr, len)),
            None => return abi::ERR_BAD_PARAM,
        }
    }
    abi::SUCCESS
}

/// # Safety
/// `module` was returned by [`query`] and is not used again.
unsafe extern "C" fn close(module: *mut c_void) {
    if !module.is_null() {
        // SAFETY: `module` is the box that `query` leaked, and it is not used again (see `#
        // Safety`). A panic in a destructor must not unwind into C.
        let module = unsafe { Box::from_raw(module.cast::<Module>()) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(module)));
    }
}

/// # Safety
/// `ptr` is valid for reads of `len` bytes that outlive the call, or `len` is 0.
unsafe fn input<'a>(ptr: *const u8, len: usize) -> &'a [u8] {
    if ptr.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: `ptr` is not NULL, and the caller guarantees the length.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}

/// Runs one operation. Catches panics, passes the output to the host, and reports the reason for an
/// error.
///
/// # Safety
/// The arguments are those that a host passes to an [`abi::Transform`].
unsafe fn run<T>(
    module: *mut c_void,
    (ptr, len): (*const u8, usize),
    call: *const abi::Call,
    done: impl FnOnce(T, &abi::Call) -> i32,
    work: impl FnOnce(&dyn Scheme, &[u8], &Limits) -> Result<Option<T>, Error>,
) -> i32 {
    // SAFETY: the host passes the module of `query` and a valid call (see `# Safety`).
    let (module, call) = unsafe { (module.cast::<Module>().as_ref(), call.as_ref()) };
    let (Some(module), Some(call)) = (module, call) else {
        return abi::ERR_BAD_PARAM;
    };
    if call.size < size_of::<abi::Call>() {
        return abi::ERR_NOT_SUPPORTED;
    }
    // SAFETY: the host passes an input of `len` readable bytes that outlives the call.
    let bytes = unsafe { input(ptr, len) };
    let limits = Limits {
        max_nodes: call.max_nodes,
        max_ranks: call.max_ranks,
        max_bytes: call.max_bytes,
        // The host receives a list as expanded text.
        max_text: call.max_bytes,
        ..Limits::default()
    };
    let worked = catch_unwind(AssertUnwindSafe(|| {
        work(&**module, bytes, &limits).map(|answer| answer.map(|answer| done(answer, call)))
    }));
    let (status, offset, text) = match worked {
        Ok(Ok(Some(status))) => return status,
        Ok(Ok(None)) => return abi::DECLINED,
        Ok(Err(error)) => {
            let offset = error.offset().unwrap_or(abi::NO_OFFSET);
            (error.status().as_raw(), offset, error.message().to_owned())
        }
        Err(panic) => (abi::PANICKED, abi::NO_OFFSET, panic_text(&*panic)),
    };
    // SAFETY: `fault` accepts its own context and any `len` readable bytes (header contract).
    unsafe { (call.fault)(call.ctx, offset, text.as_ptr(), text.len()) };
    status
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

fn write(bytes: impl AsRef<[u8]>, call: &abi::Call) -> i32 {
    let bytes = bytes.as_ref();
    // SAFETY: `write` accepts its own context and any `len` readable bytes (header contract).
    unsafe { (call.write)(call.ctx, bytes.as_ptr(), bytes.len()) }
}

/// Defines the functions of the table that convert bytes into bytes.
macro_rules! transforms {
    ($($name:ident: $work:expr;)*) => {$(
        /// # Safety
        /// The host follows the contract of [`abi::Transform`].
        unsafe extern "C" fn $name(
            module: *mut c_void,
            input: *const u8,
            input_len: usize,
            call: *const abi::Call,
        ) -> i32 {
            // SAFETY: the host passes the arguments that `abi::Transform` requires.
            unsafe { run(module, (input, input_len), call, write, $work) }
        }
    )*};
}

transforms! {
    generate_regex: |scheme, list, _| Ok(scheme.generate_regex(list)?.map(|regex| regex.bytes));
    parse_regex: |scheme, bytes, limits| {
        let kind = scheme.kind().unwrap_or_default();
        scheme.parse_regex(Regex2Ref { kind, bytes }, limits)
    };
    generate_node_regex: |scheme, list, _| scheme.generate_node_regex(list);
    generate_ppn: |scheme, list, _| scheme.generate_ppn(list);
    parse_nodes: |scheme, value, limits| {
        let list = scheme.parse_nodes(value, limits)?;
        Ok(list.map(|list| {
            let mut text = Vec::new();
            list.write_text(b',', &mut text);
            text
        }))
    };
    parse_procs: |scheme, value, limits| {
        Ok(scheme.parse_procs(value, limits)?.map(|map| procs_text(&map)))
    };
}

/// Returns a process map as text. The text has ranges, so a folded map stays short.
fn procs_text(map: &ProcMap) -> Vec<u8> {
    if map.num_nodes() == 1 && map.num_ranks() == 0 {
        // The empty text would be a map without nodes. A blank is one node without ranks.
        return b" ".to_vec();
    }
    let mut text = Vec::new();
    for node in 0..map.num_nodes() {
        if node > 0 {
            text.push(b';');
        }
        let start = text.len();
        for run in map.runs_of(node).unwrap_or_default() {
            let first = i64::from(run.first.as_raw());
            let (entries, last) = match run.step {
                1 if run.count > 1 => (1, Some(first + i64::from(run.count) - 1)),
                _ => (run.count, None),
            };
            for entry in 0..entries {
                if text.len() > start {
                    text.push(b',');
                }
                text.extend((first + i64::from(entry) * run.step).to_string().bytes());
            }
            text.extend(
                last.map(|last| format!("-{last}"))
                    .unwrap_or_default()
                    .bytes(),
            );
        }
    }
    text
}

/// # Safety
/// The host follows the contract of [`abi::Measure`].
unsafe extern "C" fn legacy_len(
    module: *mut c_void,
    input: *const u8,
    input_len: usize,
    call: *const abi::Call,
    extent: *mut abi::ValueExtent,
) -> i32 {
    let done = |found: crate::Extent, _: &abi::Call| {
        let found = abi::ValueExtent {
            len: found.len,
            terminated: u32::from(found.terminator == Terminator::Nul),
            reserved: 0,
        };
        // SAFETY: `extent` is valid for writes (header contract of `abi::Measure`).
        unsafe { extent.write(found) };
        abi::SUCCESS
    };
    // SAFETY: the host passes the arguments that `abi::Measure` requires.
    unsafe {
        run(
            module,
            (input, input_len),
            call,
            done,
            |scheme, bytes, _| scheme.legacy_len(bytes),
        )
    }
}

#[cfg(test)]
mod tests;

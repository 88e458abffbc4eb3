// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plugin boundary: a C table whose functions follow the input, correctly or not.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;

use pmix_mca::Loaded;
use pmix_mca::abi;
use preg_core::{Params, Regex2Ref};

use super::{LIMITS, checks};

const TAG: &[u8] = b"fuzz:";

thread_local! {
    /// The remaining actions of the functions.
    static SCRIPT: RefCell<Script> = const { RefCell::new(Script(Vec::new())) };
}

/// Bytes, taken from the end.
struct Script(Vec<u8>);

impl Script {
    fn byte(&mut self) -> u8 {
        self.0.pop().unwrap_or(0)
    }

    fn number(&mut self) -> usize {
        usize::from(self.byte()) << 8 | usize::from(self.byte())
    }

    fn bytes(&mut self) -> Vec<u8> {
        let start = self.0.len().saturating_sub(usize::from(self.byte()));
        self.0.split_off(start.min(self.0.len()))
    }
}

/// Reads the length of a list, the list, and then the actions of the functions.
pub(crate) fn boundary(data: &[u8]) {
    let Some((len, rest)) = data.split_first() else {
        return;
    };
    let (list, script) = rest.split_at(usize::from(*len).min(rest.len()));
    let loaded = Loaded {
        path: "libfuzz.so".into(),
        name: "fuzz".to_owned(),
        about: String::new(),
        tag: TAG.to_vec(),
        kind: Some("fuzz".to_owned()),
        abi: (abi::ABI_MAJOR, abi::ABI_MINOR),
        interface: preg_core::INTERFACE_VERSION,
        priority: 0,
        enabled: true,
        params: None,
        query: None,
        operations: abi::Operations {
            size: size_of::<abi::Operations>(),
            close: None,
            generate_regex: Some(encode),
            parse_regex: Some(decode),
            generate_node_regex: Some(encode_tagged),
            generate_ppn: Some(encode_tagged),
            parse_nodes: Some(decode_tagged),
            parse_procs: Some(decode_tagged),
            legacy_len: Some(measure),
        },
    };
    // SAFETY: the functions below respect the bounds of their input; the wrong lengths that they pass are beyond any
    // limit, so the host must reject them without reading.
    let made = unsafe { preg_core::adapt(&loaded, &Params::default(), &LIMITS) };
    let scheme = made.expect("there is no query").expect("nothing declines");
    let bound = 4 * list.len() + (1 << 16);
    let again = || SCRIPT.with_borrow_mut(|s| s.0 = script.to_vec());
    again();
    if let Some(value) = scheme
        .generate_node_regex(list)
        .expect("faults are declined")
    {
        assert!(value.starts_with(TAG) && value.len() <= bound);
    }
    again();
    if let Some(value) = scheme.generate_ppn(list).expect("faults are declined") {
        assert!(value.starts_with(TAG) && value.len() <= bound);
    }
    again();
    if let Some(regex) = scheme.generate_regex(list).expect("faults are declined") {
        assert!(regex.kind == "fuzz" && regex.bytes.len() <= bound);
    }
    let value = [TAG, list].concat();
    again();
    match scheme.parse_nodes(&value, &LIMITS) {
        Ok(list) => list.iter().for_each(checks::nodes),
        Err(error) => checks::error(&error, &value),
    }
    again();
    match scheme.parse_procs(&value, &LIMITS) {
        Ok(map) => map.iter().for_each(checks::procs),
        Err(error) => checks::error(&error, &value),
    }
    again();
    let regex = Regex2Ref {
        kind: "fuzz",
        bytes: list,
    };
    if let Err(error) = scheme.parse_regex(regex, &LIMITS) {
        checks::error(&error, list);
    }
    again();
    if let Ok(extent) = scheme.legacy_len(&value) {
        assert!(extent.is_none_or(|extent| extent.len >= TAG.len()));
    }
}

/// Runs the next actions of the script; `honest` is the output of a correct function.
///
/// # Safety
/// `call` must be valid for reads, with function pointers that accept its `ctx`, as a host passes it.
unsafe fn act(call: *const abi::Call, honest: &[&[u8]]) -> i32 {
    // SAFETY: the caller guarantees that `call` is valid for reads (see above).
    let call = unsafe { &*call };
    loop {
        let step = SCRIPT.with_borrow_mut(Script::byte);
        let (number, bytes) = SCRIPT.with_borrow_mut(|s| (s.number(), s.bytes()));
        // SAFETY: the host's functions receive its own context; they must reject the impossible lengths and NULL
        // without reading.
        unsafe {
            match step % 10 {
                0 => {
                    for part in honest {
                        (call.write)(call.ctx, part.as_ptr(), part.len());
                    }
                    return abi::SUCCESS;
                }
                1 => (call.write)(call.ctx, bytes.as_ptr(), bytes.len()),
                2 => (call.write)(call.ctx, ptr::null(), number),
                3 => (call.write)(call.ctx, bytes.as_ptr(), usize::MAX - number),
                4 => {
                    (call.fault)(call.ctx, number, bytes.as_ptr(), bytes.len());
                    0
                }
                5 => {
                    (call.log)(call.ctx, u32::from(step), bytes.as_ptr(), bytes.len());
                    0
                }
                6 => {
                    let block = [b','; 4096];
                    (call.write)(call.ctx, block.as_ptr(), block.len())
                }
                7 => return -i32::try_from(number).unwrap_or(0),
                8 => return abi::DECLINED,
                _ => return abi::PANICKED,
            }
        };
    }
}

/// # Safety
/// The contract of [`abi::Transform`]: `ptr` is valid for reads of `len` bytes, unless `len` is 0.
unsafe fn input<'a>(ptr: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees that `ptr` is valid for reads of `len` bytes, and `len` is not 0 here.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}

/// # Safety
/// The contract of [`abi::Transform`], which the host fulfills.
unsafe extern "C" fn encode(
    _: *mut c_void,
    ptr: *const u8,
    len: usize,
    call: *const abi::Call,
) -> i32 {
    // SAFETY: by the contract of `abi::Transform`, `call` is valid and `ptr` has `len` bytes.
    unsafe { act(call, &[input(ptr, len)]) }
}

/// # Safety
/// The contract of [`abi::Transform`], which the host fulfills.
unsafe extern "C" fn encode_tagged(
    _: *mut c_void,
    ptr: *const u8,
    len: usize,
    call: *const abi::Call,
) -> i32 {
    // SAFETY: by the contract of `abi::Transform`, `call` is valid and `ptr` has `len` bytes.
    unsafe { act(call, &[TAG, input(ptr, len)]) }
}

/// # Safety
/// The contract of [`abi::Transform`], which the host fulfills.
unsafe extern "C" fn decode(
    module: *mut c_void,
    ptr: *const u8,
    len: usize,
    call: *const abi::Call,
) -> i32 {
    // SAFETY: the contract of `encode` is the same, and the arguments are passed on unchanged.
    unsafe { encode(module, ptr, len, call) }
}

/// # Safety
/// The contract of [`abi::Transform`], which the host fulfills.
unsafe extern "C" fn decode_tagged(
    _: *mut c_void,
    ptr: *const u8,
    len: usize,
    call: *const abi::Call,
) -> i32 {
    // SAFETY: by the contract of `abi::Transform`, `ptr` has `len` bytes.
    let value = unsafe { input(ptr, len) };
    assert!(value.starts_with(TAG), "asked for a value that is not ours");
    // SAFETY: by the contract of `abi::Transform`, `call` is valid.
    unsafe { act(call, &[value.strip_prefix(TAG).unwrap_or_default()]) }
}

/// # Safety
/// The contract of [`abi::Measure`], which the host fulfills.
unsafe extern "C" fn measure(
    _: *mut c_void,
    ptr: *const u8,
    len: usize,
    call: *const abi::Call,
    extent: *mut abi::ValueExtent,
) -> i32 {
    let (lies, number) = SCRIPT.with_borrow_mut(|s| (s.byte() % 4, s.number()));
    // SAFETY: by the contract of `abi::Measure`, `call` is valid, `ptr` has `len` bytes and `extent` is valid for
    // writes.
    unsafe {
        let text = input(ptr, len);
        let honest = text.iter().position(|b| *b == 0).unwrap_or(len);
        *extent = abi::ValueExtent {
            len: if lies == 1 { number } else { honest },
            terminated: u32::from(lies != 2),
            reserved: 0,
        };
        if lies == 3 {
            act(call, &[])
        } else {
            abi::SUCCESS
        }
    }
}

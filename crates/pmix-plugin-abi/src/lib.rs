// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C ABI between a host and a dynamically loaded component: structs and numbers, no logic.
//!
//! `include/pmix_plugin.h` says the same in C and explains it to people; a test of `preg-core`
//! compiles that header and compares every offset with the ones here. All structs are frozen:
//! append only, and only where a `size` tells how much of one the other side has. A reader
//! takes a field only if `size` covers it. A change that this cannot express raises
//! [`ABI_MAJOR`].
//!
//! No Rust type crosses, nothing allocated on one side is freed on the other, and no panic may
//! leave a function of either side.
#![no_std]
#![deny(unsafe_code)]

use core::ffi::c_void;

/// What a component header begins with.
pub const MAGIC: [u8; 8] = *b"pmix-rs\0";

/// The version of this ABI; a host refuses any other.
pub const ABI_MAJOR: u16 = 1;

/// Raised when a field is appended; a host accepts every minor version.
///
/// | minor | appended |
/// | --- | --- |
/// | 1 | [`ComponentHeader::params`] and the two fields behind it |
pub const ABI_MINOR: u16 = 1;

/// The one symbol that a plugin exports: an [`Entry`].
pub const SYMBOL: &str = "pmixrs_component";

/// The type of the exported function.
pub type Entry = unsafe extern "C" fn() -> *const ComponentHeader;

/// The call succeeded.
pub const SUCCESS: i32 = 0;
/// The value or list is malformed (`PMIX_ERR_BAD_PARAM`).
pub const ERR_BAD_PARAM: i32 = -27;
/// A limit was reached (`PMIX_ERR_OUT_OF_RESOURCE`).
pub const ERR_OUT_OF_RESOURCE: i32 = -29;
/// There is no such thing (`PMIX_ERR_NOT_FOUND`).
pub const ERR_NOT_FOUND: i32 = -46;
/// It cannot be done here (`PMIX_ERR_NOT_SUPPORTED`).
pub const ERR_NOT_SUPPORTED: i32 = -47;
/// The value ends too early (`PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER`).
pub const ERR_READ_PAST_END: i32 = -50;
/// Declined: not mine, ask the next component (`PMIX_ERR_TAKE_NEXT_OPTION`).
pub const DECLINED: i32 = -1366;
/// A panic or exception was caught on the plugin's side. Not a status of PMIx.
pub const PANICKED: i32 = -100_001;

/// Log levels, as `tracing` has them.
pub const LOG_ERROR: u32 = 1;
/// Something misbehaved and work went on.
pub const LOG_WARN: u32 = 2;
/// Start and stop.
pub const LOG_INFO: u32 = 3;
/// Decisions.
pub const LOG_DEBUG: u32 = 4;

/// A header flag: the component is not active unless it is enabled by a setting.
pub const OFF_BY_DEFAULT: u32 = 1;

/// Bytes with a length and no terminator; NULL only with length 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// The first byte.
    pub ptr: *const u8,
    /// How many bytes.
    pub len: usize,
}

impl Text {
    /// The bytes of a static.
    #[must_use]
    pub const fn of(bytes: &'static [u8]) -> Self {
        Self {
            ptr: bytes.as_ptr(),
            len: bytes.len(),
        }
    }
}

/// A parameter that a component understands.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The full MCA name, which begins with the framework and the component: `preg_rle_shape`. Lower-case
    /// letters, digits and `_`; at most 128 bytes.
    pub name: Text,
    /// The built-in value as UTF-8, at most 1,024 bytes. `true` or `false`: only such a value is taken; a
    /// whole number: only one is taken; otherwise any text is.
    pub default: Text,
    /// What it does, in one line of UTF-8, at most 1,024 bytes.
    pub help: Text,
}

#[allow(unsafe_code)]
// SAFETY: as for `ComponentHeader`, of which it is a part.
unsafe impl Sync for Parameter {}
#[allow(unsafe_code)]
// SAFETY: as for `Sync`.
unsafe impl Send for Parameter {}

/// What a component says of itself; must stay valid and unchanged while the process lives.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ComponentHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`ABI_MAJOR`] of the header file it was compiled with.
    pub abi_major: u16,
    /// [`ABI_MINOR`] of the header file it was compiled with.
    pub abi_minor: u16,
    /// `sizeof` of this struct as compiled.
    pub size: u32,
    /// The framework's name: `preg`.
    pub framework: Text,
    /// The component's name: a lower-case letter, then letters, digits and `_`; at most 32.
    pub name: Text,
    /// What it is, in one line of UTF-8.
    pub about: Text,
    /// What its string form begins with.
    pub tag: Text,
    /// The type tag of its regex2 form; empty if it has none.
    pub kind: Text,
    /// The version of the framework's interface, 1 for `preg`.
    pub interface: u32,
    /// Higher is asked first.
    pub priority: i32,
    /// [`OFF_BY_DEFAULT`] or 0.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// Makes a module; NULL: there is no state and the module is NULL.
    pub query: Option<Query>,
    /// What the component can do.
    pub operations: *const Operations,
    /// The parameters that the component understands; NULL: it does not say, and any name that begins
    /// with the framework and the component is passed to it.
    pub params: *const Parameter,
    /// How many there are; at most 256.
    pub num_params: usize,
    /// `sizeof` of [`Parameter`] as compiled.
    pub param_size: usize,
}

#[allow(unsafe_code)]
// SAFETY: a header is immutable for the life of the process, as its documentation demands, and
// everything it points to is too.
unsafe impl Sync for ComponentHeader {}
#[allow(unsafe_code)]
// SAFETY: as for `Sync`; nothing in it belongs to one thread.
unsafe impl Send for ComponentHeader {}

/// Makes a module from the settings that the host knows. The host is valid during the call only.
/// [`DECLINED`] or [`ERR_NOT_SUPPORTED`]: the component cannot work here.
pub type Query = unsafe extern "C" fn(host: *const Host, module: *mut *mut c_void) -> i32;

/// Takes output; anything but [`SUCCESS`] means that the host has enough and the call should end.
pub type Write = unsafe extern "C" fn(ctx: *mut c_void, ptr: *const u8, len: usize) -> i32;

/// Takes a line of UTF-8 for the log.
pub type Log = unsafe extern "C" fn(ctx: *mut c_void, level: u32, ptr: *const u8, len: usize);

/// Writes the value of the parameter with this full MCA name; [`ERR_NOT_FOUND`] if nobody set it.
pub type Param = unsafe extern "C" fn(
    ctx: *mut c_void,
    name: *const u8,
    name_len: usize,
    write: Write,
    write_ctx: *mut c_void,
) -> i32;

/// The offset of a fault that has no place in the value.
pub const NO_OFFSET: usize = usize::MAX;

/// Says why a value is damaged, and at which byte of it; [`NO_OFFSET`] if it has no place.
pub type Fault =
    unsafe extern "C" fn(ctx: *mut c_void, offset: usize, text: *const u8, text_len: usize);

/// What the host offers during [`Query`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// `sizeof` of this struct in the host.
    pub size: usize,
    /// Passed to the functions below.
    pub ctx: *mut c_void,
    /// The log.
    pub log: Log,
    /// The parameters.
    pub param: Param,
}

/// What the host offers during one operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// `sizeof` of this struct in the host.
    pub size: usize,
    /// Passed to the functions below.
    pub ctx: *mut c_void,
    /// Takes the output, in as many pieces as is convenient.
    pub write: Write,
    /// The log.
    pub log: Log,
    /// The reason of an error status.
    pub fault: Fault,
    /// Most names of a node list and most nodes of a process map.
    pub max_nodes: u64,
    /// Most ranks of a process map.
    pub max_ranks: u64,
    /// Most bytes of decoded text.
    pub max_bytes: u64,
}

/// How far a value of the string form reaches.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueExtent {
    /// Its bytes, without a terminator.
    pub len: usize,
    /// 1 if a NUL follows in memory and on the wire, else 0.
    pub terminated: u32,
    /// 0.
    pub reserved: u32,
}

/// Turns a list into a value or a value into a list.
pub type Transform = unsafe extern "C" fn(
    module: *mut c_void,
    input: *const u8,
    input_len: usize,
    call: *const Call,
) -> i32;

/// Tells how many of the bytes are a value of this component that begins at the first.
pub type Measure = unsafe extern "C" fn(
    module: *mut c_void,
    input: *const u8,
    input_len: usize,
    call: *const Call,
    extent: *mut ValueExtent,
) -> i32;

/// What a preg component can do. A NULL slot means "not mine". Slots may be called from several
/// threads at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Operations {
    /// `sizeof` of this struct as compiled.
    pub size: usize,
    /// Gives a module back; it is not used afterwards.
    pub close: Option<unsafe extern "C" fn(module: *mut c_void)>,
    /// A list into the regex2 form.
    pub generate_regex: Option<Transform>,
    /// The regex2 form into the text of the list.
    pub parse_regex: Option<Transform>,
    /// A node list into the string form.
    pub generate_node_regex: Option<Transform>,
    /// A process map into the string form.
    pub generate_ppn: Option<Transform>,
    /// The string form into names separated by commas.
    pub parse_nodes: Option<Transform>,
    /// The string form into nodes separated by semicolons, ranks and rank ranges by commas.
    pub parse_procs: Option<Transform>,
    /// The extent of a value of the string form; NULL: it ends at the first NUL.
    pub legacy_len: Option<Measure>,
}

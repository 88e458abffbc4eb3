// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C ABI between a host and a dynamically loaded component: structs and numbers, no logic.
//!
//! `include/pmix_plugin.h` is the same in C, with explanations for authors. A test of
//! `pmix-builtin` compiles that header and compares every offset with those here. All structs are
//! frozen: append only, and only if a `size` states the size of the other side's struct. A reader
//! uses a field only if `size` covers it. A change that is impossible in this way raises
//! [`ABI_MAJOR`].
//!
//! No Rust type crosses the boundary, memory allocated on one side is not freed on the other, and
//! no panic may leave a function of either side.

use core::ffi::c_void;

/// The first bytes of a component header.
pub const MAGIC: [u8; 8] = *b"pmix-rs\0";

/// The version of this ABI. A host rejects any other.
pub const ABI_MAJOR: u16 = 1;

/// The minor version, raised when a field is appended. A host accepts every minor version.
///
/// | minor | appended |
/// | --- | --- |
/// | 1 | [`ComponentHeader::params`] and the two fields after it |
pub const ABI_MINOR: u16 = 1;

/// The symbol that a plugin exports: an [`Entry`].
pub const SYMBOL: &str = "pmixrs_component";

/// The type of the exported function.
pub type Entry = unsafe extern "C" fn() -> *const ComponentHeader;

/// Success.
pub const SUCCESS: i32 = 0;
/// The value or list is malformed (`PMIX_ERR_BAD_PARAM`).
pub const ERR_BAD_PARAM: i32 = -27;
/// A limit was reached (`PMIX_ERR_OUT_OF_RESOURCE`).
pub const ERR_OUT_OF_RESOURCE: i32 = -29;
/// An object does not exist (`PMIX_ERR_NOT_FOUND`).
pub const ERR_NOT_FOUND: i32 = -46;
/// The operation is impossible here (`PMIX_ERR_NOT_SUPPORTED`).
pub const ERR_NOT_SUPPORTED: i32 = -47;
/// The value is truncated (`PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER`).
pub const ERR_READ_PAST_END: i32 = -50;
/// The component declines; the host asks the next one (`PMIX_ERR_TAKE_NEXT_OPTION`).
pub const DECLINED: i32 = -1366;
/// The plugin caught a panic or exception. This is not a PMIx status.
pub const PANICKED: i32 = -100_001;

/// An operation is lost. The log levels are those of `tracing`.
pub const LOG_ERROR: u32 = 1;
/// A peer or component violated a rule, and the operation continued.
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
    /// The number of bytes.
    pub len: usize,
}

impl Text {
    /// Creates a text from static bytes.
    #[must_use]
    pub const fn of(bytes: &'static [u8]) -> Self {
        Self {
            ptr: bytes.as_ptr(),
            len: bytes.len(),
        }
    }
}

/// A parameter of a component.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The full MCA name, with the framework and the component as prefix: `preg_rle_shape`.
    /// Lower-case letters, digits and `_`; at most 128 bytes.
    pub name: Text,
    /// The default as UTF-8, at most 1,024 bytes. If it is `true` or `false`, only truth values are
    /// accepted; if it is a whole number, only whole numbers; otherwise any text.
    pub default: Text,
    /// The help, in one line of UTF-8, at most 1,024 bytes.
    pub help: Text,
}

#[allow(unsafe_code)]
// SAFETY: as for `ComponentHeader`, which contains it.
unsafe impl Sync for Parameter {}
#[allow(unsafe_code)]
// SAFETY: as for `Sync`.
unsafe impl Send for Parameter {}

/// The description of a component. It must stay valid and unchanged until the process ends.
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
    /// The name of the framework: `preg`.
    pub framework: Text,
    /// The name of the component: a lower-case letter, then letters, digits and `_`; at most 32
    /// bytes.
    pub name: Text,
    /// A description for users, in one line of UTF-8.
    pub about: Text,
    /// The prefix of its string form.
    pub tag: Text,
    /// The type tag of its regex2 form; empty if it has none.
    pub kind: Text,
    /// The version of the framework's interface, 1 for `preg`.
    pub interface: u32,
    /// The priority. The highest is asked first.
    pub priority: i32,
    /// [`OFF_BY_DEFAULT`] or 0.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// Creates a module; if NULL, there is no state and the module is NULL.
    pub query: Option<Query>,
    /// The operations of the component.
    pub operations: *const Operations,
    /// The parameters of the component. If NULL, it does not declare them, and any name with the
    /// framework and the component as prefix is passed to it.
    pub params: *const Parameter,
    /// The number of parameters; at most 256.
    pub num_params: usize,
    /// `sizeof` of [`Parameter`] as compiled.
    pub param_size: usize,
}

#[allow(unsafe_code)]
// SAFETY: a header and everything that it points to are immutable until the process ends, as its
// documentation requires of the plugin.
unsafe impl Sync for ComponentHeader {}
#[allow(unsafe_code)]
// SAFETY: as for `Sync`; the header is not bound to a thread.
unsafe impl Send for ComponentHeader {}

/// Creates a module from the settings of the host, which is valid only during the call.
/// [`DECLINED`] or [`ERR_NOT_SUPPORTED`] mean that the component cannot work here.
pub type Query = unsafe extern "C" fn(host: *const Host, module: *mut *mut c_void) -> i32;

/// Receives output. Any status but [`SUCCESS`] means that the host wants no more and the call
/// should end.
pub type Write = unsafe extern "C" fn(ctx: *mut c_void, ptr: *const u8, len: usize) -> i32;

/// Receives a line of UTF-8 for the log.
pub type Log = unsafe extern "C" fn(ctx: *mut c_void, level: u32, ptr: *const u8, len: usize);

/// Writes the value of the parameter with this full MCA name; [`ERR_NOT_FOUND`] if it is not set.
pub type Param = unsafe extern "C" fn(
    ctx: *mut c_void,
    name: *const u8,
    name_len: usize,
    write: Write,
    write_ctx: *mut c_void,
) -> i32;

/// The offset of an error that is not at a byte of the value.
pub const NO_OFFSET: usize = usize::MAX;

/// Receives the reason that a value is damaged, and the offset; [`NO_OFFSET`] if there is none.
pub type Fault =
    unsafe extern "C" fn(ctx: *mut c_void, offset: usize, text: *const u8, text_len: usize);

/// The services of the host during [`Query`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// `sizeof` of this struct in the host.
    pub size: usize,
    /// The context for the functions below.
    pub ctx: *mut c_void,
    /// The function for log messages.
    pub log: Log,
    /// The function for parameters.
    pub param: Param,
}

/// The services of the host during one operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// `sizeof` of this struct in the host.
    pub size: usize,
    /// The context for the functions below.
    pub ctx: *mut c_void,
    /// The function that receives the output, in any number of pieces.
    pub write: Write,
    /// The function for log messages.
    pub log: Log,
    /// The function that receives the reason of an error status.
    pub fault: Fault,
    /// The maximum number of names in a node list, and of nodes in a process map.
    pub max_nodes: u64,
    /// The maximum number of ranks in a process map.
    pub max_ranks: u64,
    /// The maximum size of decoded text in bytes.
    pub max_bytes: u64,
}

/// The extent of a value of the string form.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueExtent {
    /// The number of bytes, without a terminator.
    pub len: usize,
    /// 1 if a NUL follows in memory and on the wire, otherwise 0.
    pub terminated: u32,
    /// 0.
    pub reserved: u32,
}

/// Converts a list into a value or a value into a list.
pub type Transform = unsafe extern "C" fn(
    module: *mut c_void,
    input: *const u8,
    input_len: usize,
    call: *const Call,
) -> i32;

/// Determines the extent of a value of this component at the start of the bytes.
pub type Measure = unsafe extern "C" fn(
    module: *mut c_void,
    input: *const u8,
    input_len: usize,
    call: *const Call,
    extent: *mut ValueExtent,
) -> i32;

/// The operations of a preg component. A NULL slot declines. Slots may be called from several
/// threads at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Operations {
    /// `sizeof` of this struct as compiled.
    pub size: usize,
    /// Destroys a module. It is not used afterwards.
    pub close: Option<unsafe extern "C" fn(module: *mut c_void)>,
    /// Converts a list into the regex2 form.
    pub generate_regex: Option<Transform>,
    /// Converts the regex2 form into the text of the list.
    pub parse_regex: Option<Transform>,
    /// Converts a node list into the string form.
    pub generate_node_regex: Option<Transform>,
    /// Converts a process map into the string form.
    pub generate_ppn: Option<Transform>,
    /// Converts the string form into names separated by commas.
    pub parse_nodes: Option<Transform>,
    /// Converts the string form into nodes separated by semicolons, with ranks and rank ranges
    /// separated by commas.
    pub parse_procs: Option<Transform>,
    /// Determines the extent of a value of the string form; if NULL, a value ends at the first NUL.
    pub legacy_len: Option<Measure>,
}

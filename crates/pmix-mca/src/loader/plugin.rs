// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loader of plugin files, which checks as much as possible before the first call, and guards against exits.
//!
//! Source: `docs/plugins.md`.

use std::cell::Cell;
use std::ffi::c_int;
use std::fs::File;
use std::io::{Read, Write as _};
use std::mem::{MaybeUninit, align_of, offset_of, size_of};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, Once};

use crate::abi;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use pmix_files::{Fault, Trust};

use crate::{LoadFault, Refusal, elf};

/// The maximum length of a name in bytes.
const MAX_NAME: usize = 32;

/// The maximum length of a description in bytes.
const MAX_ABOUT: usize = 1024;

/// The maximum size in bytes of a struct in any version of the ABI.
const MAX_STRUCT: usize = 1 << 16;

/// The maximum number of parameters of a component.
const MAX_PARAMS: usize = 256;

/// The maximum length of the name of a parameter in bytes.
const MAX_PARAM_NAME: usize = 128;

/// The size in bytes of the header in minor version 0.
const HEADER_0: usize = offset_of!(abi::ComponentHeader, params);

/// The parameters that every component has.
const SWITCHES: &[&str] = &["priority", "enabled", "parse"];

/// Names that a component must not have, because parameter names would be ambiguous.
const RESERVED: &[&str] = &["base", "select"];

/// A component that was loaded from a file and passed every check.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The name.
    pub name: String,
    /// A description for users, in one line.
    pub about: String,
    /// The prefix of values in string form.
    pub tag: Vec<u8>,
    /// The regex2 type, if the component has one.
    pub kind: Option<String>,
    /// The ABI version for which it was built.
    pub abi: (u16, u16),
    /// The interface version for which it was built.
    pub interface: u32,
    /// The built-in priority.
    pub priority: i32,
    /// `true` if the component is active unless a parameter disables it.
    pub enabled: bool,
    /// The component's own parameters; `None` if it does not declare them.
    pub params: Option<Vec<LoadedParam>>,
    /// The function that creates the module.
    pub query: Option<abi::Query>,
    /// The operations. An operation is `None` if the component's version of the interface lacks it.
    pub operations: abi::Operations,
}

/// A parameter of a loaded component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedParam {
    /// The full MCA name, for example `preg_rle_least`.
    pub name: String,
    /// The default as text. It also determines the kind of value, see
    /// [`Kind::of`](crate::Kind::of).
    pub default: String,
    /// The help, in one line.
    pub help: String,
}

/// Opens a file as a component of `framework`, for this version of the framework's interface. The
/// library stays open until the process ends.
///
/// # Errors
/// The file is not a library for this machine, or its component header is invalid.
pub fn load(path: &Path, framework: &str, interface: u32) -> Result<Loaded, Refusal> {
    // Without a slash the dynamic linker would search its own directories.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let _guard = ExitGuard::new(&path);
    open(&path)
        .and_then(|header| read_header(&header, &path, framework, interface))
        .map_err(|fault| Refusal::new(&path, fault))
}

/// Checks the file, opens it, and copies the header that its function returns.
fn open(path: &Path) -> Result<abi::ComponentHeader, LoadFault> {
    let library = trusted_library(path, |file| {
        let mut header = Vec::new();
        let most = u64::try_from(elf::HEADER_LEN).unwrap_or(u64::MAX);
        let read = file.take(most).read_to_end(&mut header);
        read.map_err(|e| LoadFault::Unreadable(e.to_string()))?;
        match cfg!(any(target_os = "linux", target_os = "freebsd")) {
            true => elf::check(&header),
            false => Ok(()),
        }
    })?;
    // SAFETY: the header file gives the symbol this type; the host must trust a plugin in this,
    // because a different type cannot be detected.
    let entry = unsafe { library.get::<abi::Entry>(abi::SYMBOL) }
        .map(|symbol| *symbol)
        .map_err(|_| LoadFault::NoSymbol)?;
    // The library is never unloaded, because threads or exit handlers may still run its code.
    std::mem::forget(library);
    // SAFETY: the function has this type (see above), no arguments and no preconditions.
    let header = unsafe { entry() };
    copy_header(header)
}

/// The maximum size of a library in bytes.
const MAX_LIBRARY: u64 = 1 << 30;

/// Opens a library after checking that only root or the user could have written it.
///
/// The dynamic linker opens the checked descriptor by its name in `/proc`. Without `/proc`, it
/// opens the path without symbolic links. The check has established that no other user can replace
/// any component of the path.
pub(super) fn trusted_library(
    path: &Path,
    look: impl FnOnce(&File) -> Result<(), LoadFault>,
) -> Result<Library, LoadFault> {
    let trusted = Trust::of_process().open(path, MAX_LIBRARY);
    let trusted = trusted.map_err(|fault| match fault {
        Fault::Untrusted { .. } | Fault::NotRegular { .. } | Fault::TooLarge { .. } => {
            LoadFault::Untrusted(fault)
        }
        fault => LoadFault::Unreadable(fault.to_string()),
    })?;
    look(&trusted.file)?;
    let open = format!("/proc/self/fd/{}", trusted.file.as_raw_fd());
    let open = PathBuf::from(open);
    let name = if open.exists() { &open } else { &trusted.path };
    // SAFETY: the administrator who configures a library trusts its initializers, as
    // docs/plugins.md states.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| {
        let message = link_message(&e);
        let (open, path) = (open.display().to_string(), path.display().to_string());
        LoadFault::Link(message.replace(&open, &path))
    })?;
    // The linker identifies the library by the name of this descriptor in `/proc`. The descriptor
    // must not be reused for another file, so it is never closed.
    std::mem::forget(trusted.file);
    Ok(library)
}

pub(super) fn link_message(error: &libloading::Error) -> String {
    if IS_STATIC {
        return "this program is linked statically and opens no libraries; use one that is not"
            .to_owned();
    }
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), ToString::to_string)
}

/// `true` if musl is linked statically. Then it cannot open libraries.
const IS_STATIC: bool = cfg!(all(target_env = "musl", target_feature = "crt-static"));

/// Copies a header. First checks the fields for size and version, in the order of their offsets.
fn copy_header(header: *const abi::ComponentHeader) -> Result<abi::ComponentHeader, LoadFault> {
    check_pointer(header.cast(), align_of::<abi::ComponentHeader>())?;
    let bytes = header.cast::<u8>();
    // SAFETY: a plugin returns a header whose first 16 bytes are the same in every version; the
    // pointer is not NULL and aligned.
    let magic = unsafe { bytes.cast::<[u8; 8]>().read() };
    if magic != abi::MAGIC {
        return Err(LoadFault::Magic);
    }
    // SAFETY: the fields are within the first 16 bytes of a header, which are the same in every
    // version. The pointer is not NULL and is aligned, and the magic number shows that it leads to
    // a header.
    let (major, minor, size) = unsafe {
        (
            bytes
                .add(offset_of!(abi::ComponentHeader, abi_major))
                .cast::<u16>()
                .read(),
            bytes
                .add(offset_of!(abi::ComponentHeader, abi_minor))
                .cast::<u16>()
                .read(),
            bytes
                .add(offset_of!(abi::ComponentHeader, size))
                .cast::<u32>()
                .read(),
        )
    };
    if major != abi::ABI_MAJOR {
        return Err(LoadFault::AbiVersion { major, minor });
    }
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    check_size("component header", size, HEADER_0)?;
    let whole = size_of::<abi::ComponentHeader>();
    let covered = if size >= whole { whole } else { HEADER_0 };
    let mut copy = MaybeUninit::<abi::ComponentHeader>::zeroed();
    // SAFETY: the plugin states that the struct has at least this many bytes, and the copy has room
    // for them. All fields may be zero: functions and pointers are NULL then.
    unsafe {
        ptr::copy_nonoverlapping(bytes, copy.as_mut_ptr().cast::<u8>(), covered);
        Ok(copy.assume_init())
    }
}

fn check_pointer(pointer: *const u8, align: usize) -> Result<(), LoadFault> {
    let address = pointer.addr();
    match address {
        0 => Err(LoadFault::BadTable("NULL")),
        1..4096 => Err(LoadFault::BadTable("a number instead of an address")),
        _ if !address.is_multiple_of(align) => Err(LoadFault::BadTable("an unaligned address")),
        _ => Ok(()),
    }
}

fn check_size(what: &'static str, found: usize, least: usize) -> Result<(), LoadFault> {
    if found < least || found > MAX_STRUCT {
        return Err(LoadFault::Size { what, found, least });
    }
    Ok(())
}

fn read_header(
    header: &abi::ComponentHeader,
    path: &Path,
    framework: &str,
    interface: u32,
) -> Result<Loaded, LoadFault> {
    let found = utf8("framework name", header.framework, MAX_NAME)?;
    if found != framework {
        return Err(LoadFault::Framework(found));
    }
    if header.interface != interface {
        return Err(LoadFault::Interface {
            found: header.interface,
            expected: interface,
        });
    }
    let kind = utf8("regex2 type", header.kind, MAX_NAME)?;
    let about = utf8("description", header.about, MAX_ABOUT)?;
    let name = component_name(header.name)?;
    Ok(Loaded {
        path: path.to_path_buf(),
        params: copy_params(header, &format!("{framework}_{name}_"))?,
        name,
        about: about.replace(char::is_control, " "),
        tag: tag(header.tag)?,
        kind: (!kind.is_empty()).then_some(kind),
        abi: (header.abi_major, header.abi_minor),
        interface,
        priority: header.priority,
        enabled: header.flags & abi::OFF_BY_DEFAULT == 0,
        query: header.query,
        operations: copy_operations(header.operations)?,
    })
}

/// Copies the parameters that a component declares. Checks that their names have the required
/// prefix.
fn copy_params(
    header: &abi::ComponentHeader,
    prefix: &str,
) -> Result<Option<Vec<LoadedParam>>, LoadFault> {
    if header.params.is_null() {
        return Ok(None);
    }
    let (count, size) = (header.num_params, header.param_size);
    if count == 0 {
        // Without parameters, the pointer may have any value.
        return Ok(Some(Vec::new()));
    }
    check_pointer(header.params.cast(), align_of::<abi::Parameter>())?;
    check_size("parameter", size, size_of::<abi::Parameter>())?;
    if !size.is_multiple_of(align_of::<abi::Parameter>()) {
        let least = size_of::<abi::Parameter>();
        let what = "parameter";
        return Err(LoadFault::Size {
            what,
            found: size,
            least,
        });
    }
    if count > MAX_PARAMS {
        let why = format!("are {count}, at most {MAX_PARAMS} are allowed");
        return Err(LoadFault::Text {
            what: "parameters",
            why,
        });
    }
    let mut params: Vec<LoadedParam> = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: the plugin states the number and the size of the parameters; both are within
        // limits, and the pointer is aligned.
        let raw = unsafe { header.params.byte_add(index * size).read() };
        let name = utf8("parameter name", raw.name, MAX_PARAM_NAME)?;
        let own = name.strip_prefix(prefix).unwrap_or_default();
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let why = if own.is_empty() || !own.bytes().all(legal) {
            format!("{name:?} must be {prefix} and lower-case letters, digits and `_`")
        } else if SWITCHES.contains(&own) {
            format!("{name:?} is one that every component has")
        } else if params.iter().any(|known| known.name == name) {
            format!("{name:?} is declared twice")
        } else {
            let default = utf8("value of a parameter", raw.default, MAX_ABOUT)?;
            let help = utf8("help of a parameter", raw.help, MAX_ABOUT)?;
            params.push(LoadedParam {
                name,
                default,
                help: help.replace(char::is_control, " "),
            });
            continue;
        };
        return Err(LoadFault::Text {
            what: "parameter name",
            why,
        });
    }
    Ok(Some(params))
}

/// Copies the operations that the plugin's version of the interface has.
fn copy_operations(table: *const abi::Operations) -> Result<abi::Operations, LoadFault> {
    if table.is_null() {
        return Err(LoadFault::BadTable("a header without an operations table"));
    }
    check_pointer(table.cast(), align_of::<abi::Operations>())?;
    // SAFETY: a plugin points to a table, which begins with its size in every version.
    let size = unsafe { table.cast::<usize>().read() };
    check_size("operations table", size, size_of::<usize>())?;
    let covered = size.min(size_of::<abi::Operations>());
    let whole_slots = covered - covered % size_of::<usize>();
    let mut operations = abi::Operations::default();
    // SAFETY: the plugin states that its table has `size` bytes; the copy stays within both structs
    // and contains only whole slots. Each slot is a function or NULL, as `Option` of a function
    // requires.
    unsafe {
        ptr::copy_nonoverlapping(
            table.cast::<u8>(),
            ptr::from_mut(&mut operations).cast::<u8>(),
            whole_slots,
        );
    }
    Ok(operations)
}

/// Copies a text of a header.
fn bytes(what: &'static str, text: abi::Text, most: usize) -> Result<Vec<u8>, LoadFault> {
    let fault = |why: String| Err(LoadFault::Text { what, why });
    match text.len {
        0 => Ok(Vec::new()),
        len if len > most => fault(format!("has {len} bytes, at most {most} are allowed")),
        len if text.ptr.is_null() => fault(format!("has {len} bytes, but its address is NULL")),
        // SAFETY: the plugin states that the text has this many bytes; the number is within limits,
        // and the pointer is not NULL.
        len => Ok(unsafe { std::slice::from_raw_parts(text.ptr, len) }.to_vec()),
    }
}

fn utf8(what: &'static str, text: abi::Text, most: usize) -> Result<String, LoadFault> {
    String::from_utf8(bytes(what, text, most)?).map_err(|e| LoadFault::Text {
        what,
        why: format!(
            "is not valid UTF-8 at byte {}",
            e.utf8_error().valid_up_to()
        ),
    })
}

fn component_name(text: abi::Text) -> Result<String, LoadFault> {
    let what = "component name";
    let name = utf8(what, text, MAX_NAME)?;
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let why = if name.is_empty() {
        "is empty".to_owned()
    } else if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.bytes().all(legal) {
        format!("{name:?} must be a lower-case letter, then letters, digits and `_`")
    } else if RESERVED.contains(&name.as_str()) {
        format!("{name:?} is reserved")
    } else {
        return Ok(name);
    };
    Err(LoadFault::Text { what, why })
}

/// Copies a tag. Rejects tags with which a list could begin by accident.
fn tag(text: abi::Text) -> Result<Vec<u8>, LoadFault> {
    let what = "tag";
    let tag = bytes(what, text, MAX_NAME)?;
    let printable = tag.iter().all(|b| b.is_ascii_graphic());
    let ends_well = |last: &u8| last.is_ascii_punctuation() && !b"-._,;".contains(last);
    if tag.len() >= 2 && printable && tag.last().is_some_and(ends_well) {
        return Ok(tag);
    }
    let shown = String::from_utf8_lossy(&tag).into_owned();
    let why = format!(
        "{shown:?} must be 2 to {MAX_NAME} printable characters, the last a sign that no host \
         name begins with, as in `name:`"
    );
    Err(LoadFault::Text { what, why })
}

// A guard against libraries that call `exit` while they are loaded or checked. Without it, the
// command would end, apparently with success. Source: atexit(3), exit(3).

/// The exit code of a process that a library tried to end.
const CODE: c_int = 1;

unsafe extern "C" {
    /// Registers a function that `exit` calls.
    safe fn atexit(function: extern "C" fn()) -> c_int;
    /// Terminates the process at once, without calling registered functions.
    safe fn _exit(code: c_int) -> !;
}

thread_local! {
    /// The number of guards on this thread. The cell has no destructor, so it is usable until the
    /// thread ends.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The library for which the last guard was created.
static LIBRARY: Mutex<String> = Mutex::new(String::new());

/// A guard against a library that calls `exit` on this thread. During the lifetime of the guard,
/// `exit` with any code ends the process with code 1 and a message with the name of the library.
#[derive(Debug)]
#[must_use = "the guard holds as long as it lives"]
pub struct ExitGuard(());

impl ExitGuard {
    /// Creates a guard for the library at a path.
    pub fn new(library: &Path) -> Self {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            if atexit(at_exit) != 0 {
                tracing::debug!(
                    "a changed exit code cannot be attributed to the library: atexit failed"
                );
            }
        });
        if let Ok(mut name) = LIBRARY.lock() {
            *name = library.display().to_string();
        }
        DEPTH.set(DEPTH.get() + 1);
        Self(())
    }
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

extern "C" fn at_exit() {
    if DEPTH.get() == 0 {
        return;
    }
    let name = LIBRARY
        .try_lock()
        .map_or_else(|_| String::new(), |name| name.clone());
    let message =
        format!("error: plugin {name}: it ended the process (exit) while it was loaded or tried\n");
    let _ = std::io::stderr().write_all(message.as_bytes());
    _exit(CODE)
}

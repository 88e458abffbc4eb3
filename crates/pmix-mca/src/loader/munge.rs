// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client library of MUNGE, opened on demand. The MUNGE daemon of this node determines the user
//! who created a credential. Source: munge(3), munge_ctx(3).

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use pmix_types::Status;

use super::plugin::{link_message, trusted_library};
use crate::Error;

type Context = *mut c_void;

/// `munge_opt_t`: the socket of the daemon.
const OPT_SOCKET: c_int = 8;

/// `munge_opt_t`: the user that alone may decode a credential.
const OPT_UID_RESTRICTION: c_int = 9;

/// The MUNGE library, with a context.
///
/// The functions block until the daemon replies or the library gives up.
#[derive(Debug)]
pub struct Munge {
    context: Context,
    decode: Decode,
    /// The functions for creating credentials; `None` if the library can only decode.
    encode: Option<(Encode, Free)>,
    strerror: Strerror,
    set: Set,
    destroy: Destroy,
}

type Encode = unsafe extern "C" fn(*mut *mut c_char, Context, *const c_void, c_int) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void);
type Decode = unsafe extern "C" fn(
    *const c_char,
    Context,
    *mut *mut c_void,
    *mut c_int,
    *mut u32,
    *mut u32,
) -> c_int;
type Strerror = unsafe extern "C" fn(c_int) -> *const c_char;
type Create = unsafe extern "C" fn() -> Context;
type Set = unsafe extern "C" fn(Context, c_int, ...) -> c_int;
type Destroy = unsafe extern "C" fn(Context);

// SAFETY: a context is not bound to a thread, and the library only requires that two threads do not
// use it at the same time; it is accessed through `&mut self` and dropped once.
unsafe impl Send for Munge {}

impl Munge {
    /// Opens the MUNGE library (`libmunge.so.2`, or a trusted file given by its path), and creates
    /// a context for the daemon at `socket` or at the default socket.
    ///
    /// # Errors
    /// The library cannot be opened or does not have a function, or the name of the socket contains
    /// a NUL.
    pub fn open(library: &OsStr, socket: Option<&Path>) -> Result<Self, Error> {
        let shown = library.display();
        let fault = |why: &str| Error::new(format!("{shown}: {why}"));
        let opened = if library.as_encoded_bytes().contains(&b'/') {
            trusted_library(Path::new(library), |_| Ok(())).map_err(|e| fault(&e.to_string()))?
        } else {
            // SAFETY: the administrator who configures a library trusts its initializers, as for
            // plugins; a library without a path is searched in the library path of this program.
            let opened = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) };
            opened.map_err(|e| fault(&link_message(&e)))?
        };
        // SAFETY: these are the types of the functions in munge.h, the same in every library with
        // this soname; `uid_t` and `gid_t` have 32 bits, and an enum is an `int` on Linux.
        let (decode, strerror, create, set, destroy) = unsafe {
            (
                symbol::<Decode>(&opened, c"munge_decode")?,
                symbol::<Strerror>(&opened, c"munge_strerror")?,
                symbol::<Create>(&opened, c"munge_ctx_create")?,
                symbol::<Set>(&opened, c"munge_ctx_set")?,
                symbol::<Destroy>(&opened, c"munge_ctx_destroy")?,
            )
        };
        // SAFETY: `munge_encode` has this type in munge.h, the same in every library with this soname.
        let encode = unsafe { symbol::<Encode>(&opened, c"munge_encode") };
        // munge(3) requires that credentials are freed by free(3), which is found among the dependencies of this library.
        // SAFETY: `free` has this type in every C library.
        let free = unsafe { symbol::<Free>(&opened, c"free") };
        let encode = encode.ok().zip(free.ok());
        // The functions above are used until the process ends, so the library must stay loaded.
        std::mem::forget(opened);
        // SAFETY: the function has no arguments and no preconditions.
        let context = unsafe { create() };
        if context.is_null() {
            return Err(fault("no memory for a context").with_status(Status::ERR_NOMEM));
        }
        let munge = Self {
            context,
            decode,
            encode,
            strerror,
            set,
            destroy,
        };
        if let Some(socket) = socket {
            let name = CString::new(socket.as_os_str().as_encoded_bytes());
            let name = name.map_err(|_| fault("the name of the socket holds a NUL"))?;
            // SAFETY: this option takes a NUL-terminated string, which the library copies.
            let code = unsafe { set(munge.context, OPT_SOCKET, name.as_ptr()) };
            munge.check(code)?;
        }
        Ok(munge)
    }

    /// Requests from the daemon the user id and group id of the creator of a credential. The
    /// payload of the credential is not read.
    ///
    /// # Errors
    /// `PMIX_ERR_INVALID_CRED`: the credential is invalid on this node, has expired or was already
    /// decoded, or the daemon does not reply.
    pub fn decode(&mut self, credential: &[u8]) -> Result<(u32, u32), Error> {
        let text = credential.split(|byte| *byte == 0).next();
        let text = CString::new(text.unwrap_or_default()).unwrap_or_default();
        let (mut uid, mut gid) = (u32::MAX, u32::MAX);
        // SAFETY: the credential ends with a NUL; the context belongs to this library; no payload
        // is requested; both numbers outlive the call.
        let code = unsafe {
            (self.decode)(
                text.as_ptr(),
                self.context,
                ptr::null_mut(),
                ptr::null_mut(),
                &raw mut uid,
                &raw mut gid,
            )
        };
        self.check(code).map(|()| (uid, gid))
    }

    /// Restricts later credentials to one user, who alone can decode them. A server of another user then cannot use a
    /// credential that it got at a third server.
    ///
    /// # Errors
    /// The library rejects the option.
    pub fn restrict_to(&mut self, user: u32) -> Result<(), Error> {
        // SAFETY: this option takes a `uid_t`, which has 32 bits; the context belongs to this library.
        let code = unsafe { (self.set)(self.context, OPT_UID_RESTRICTION, user) };
        self.check(code)
    }

    /// Requests from the daemon a credential for the user and group of this process, without a
    /// payload. The credential ends with a NUL, as in handshakes.
    ///
    /// # Errors
    /// The library cannot create credentials, or the daemon does not reply.
    pub fn encode(&mut self) -> Result<Vec<u8>, Error> {
        let missing = || Error::new("munge: the library has no function munge_encode".to_owned());
        let (encode, free) = self.encode.ok_or_else(missing)?;
        let mut made: *mut c_char = ptr::null_mut();
        // SAFETY: the context belongs to this library; there is no payload; the pointer outlives
        // the call.
        let code = unsafe { encode(&raw mut made, self.context, ptr::null(), 0) };
        let checked = self.check(code);
        if made.is_null() {
            checked?;
            return Err(Error::new("munge: no credential was made".to_owned()));
        }
        // SAFETY: on success the library returned a NUL-terminated string that this function owns.
        let credential = unsafe { CStr::from_ptr(made) }.to_bytes_with_nul().to_vec();
        // SAFETY: the library allocated the string with malloc(3), and it is not used again.
        unsafe { free(made.cast()) };
        checked.map(|()| credential)
    }

    fn check(&self, code: c_int) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function accepts any number and returns a static text, or NULL.
        let text = unsafe { (self.strerror)(code) };
        let text = if text.is_null() {
            "unknown error".into()
        } else {
            // SAFETY: the text is not NULL, NUL-terminated and static.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        let message = format!("munge: {text} ({code})");
        Err(Error::new(message).with_status(Status::ERR_INVALID_CRED))
    }
}

impl Drop for Munge {
    fn drop(&mut self) {
        // SAFETY: this library created the context, and it is not used again.
        unsafe { (self.destroy)(self.context) }
    }
}

/// Returns a function of a library.
///
/// # Safety
/// The symbol must be a function of type `T`.
unsafe fn symbol<T: Copy>(library: &Library, name: &CStr) -> Result<T, Error> {
    // SAFETY: the caller guarantees the type.
    let found = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
    let missing = |_| {
        Error::new(format!(
            "the library has no function {}",
            name.to_string_lossy()
        ))
    };
    found.map(|symbol| *symbol).map_err(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named() {
        let missing = Munge::open(OsStr::new("libmunge-not-there.so.9"), None);
        let error = missing.unwrap_err().to_string();
        assert!(error.contains("libmunge-not-there.so.9"), "{error}");
    }

    #[test]
    fn rejects_libraries_without_the_functions() {
        let other = Munge::open(OsStr::new("libc.so.6"), None);
        let error = other.unwrap_err().to_string();
        assert!(error.contains("munge_decode"), "{error}");
    }
}

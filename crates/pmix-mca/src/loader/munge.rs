// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client library of MUNGE, opened when it is wanted: who made a credential, as the daemon of
//! this node says. Source: munge(3), munge_ctx(3).

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

/// Holds the MUNGE library and a context of it.
///
/// The functions block until the daemon has answered or the library gives up; one value is used by
/// one thread at a time.
#[derive(Debug)]
pub struct Munge {
    context: Context,
    decode: Decode,
    /// Not there in a library that only reads.
    encode: Option<(Encode, Free)>,
    strerror: Strerror,
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

// SAFETY: a context belongs to no thread, the library only asks that two do not use one at the
// same time; it is reached through `&mut self` and dropped once.
unsafe impl Send for Munge {}

impl Munge {
    /// Opens the MUNGE library, `libmunge.so.2` or a trusted file by its path, and a context that
    /// asks the daemon at a socket, or the usual one.
    ///
    /// # Errors
    /// The library cannot be opened or lacks a function, or the name of the socket holds a NUL.
    pub fn open(library: &OsStr, socket: Option<&Path>) -> Result<Self, Error> {
        let shown = library.display();
        let fault = |why: &str| Error::new(format!("{shown}: {why}"));
        let opened = if library.as_encoded_bytes().contains(&b'/') {
            trusted_library(Path::new(library), |_| Ok(())).map_err(|e| fault(&e.to_string()))?
        } else {
            // SAFETY: whoever configures a library trusts its initialisers, as with plugins; one
            // without a path is searched where the libraries of this program are.
            let opened = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) };
            opened.map_err(|e| fault(&link_message(&e)))?
        };
        // SAFETY: these are the types of the functions in munge.h, the same in every library of
        // this name; `uid_t` and `gid_t` have 32 bits and an enum is an `int` on Linux.
        let (decode, strerror, create, set, destroy) = unsafe {
            (
                symbol::<Decode>(&opened, c"munge_decode")?,
                symbol::<Strerror>(&opened, c"munge_strerror")?,
                symbol::<Create>(&opened, c"munge_ctx_create")?,
                symbol::<Set>(&opened, c"munge_ctx_set")?,
                symbol::<Destroy>(&opened, c"munge_ctx_destroy")?,
            )
        };
        // SAFETY: likewise; what the library hands out is freed by free(3), as munge(3) says, which
        // is found among the libraries that this one needs.
        let encode = unsafe { symbol::<Encode>(&opened, c"munge_encode") };
        // SAFETY: as above.
        let free = unsafe { symbol::<Free>(&opened, c"free") };
        let encode = encode.ok().zip(free.ok());
        // The functions above are used as long as the process lives.
        std::mem::forget(opened);
        // SAFETY: the function takes no arguments.
        let context = unsafe { create() };
        if context.is_null() {
            return Err(fault("no memory for a context").with_status(Status::ERR_NOMEM));
        }
        let munge = Self {
            context,
            decode,
            encode,
            strerror,
            destroy,
        };
        if let Some(socket) = socket {
            let name = CString::new(socket.as_os_str().as_encoded_bytes());
            let name = name.map_err(|_| fault("the name of the socket holds a NUL"))?;
            // SAFETY: this option takes a string, which the library copies.
            let code = unsafe { set(munge.context, OPT_SOCKET, name.as_ptr()) };
            munge.check(code)?;
        }
        Ok(munge)
    }

    /// Asks the daemon which user and group made a credential, and returns both. The payload of the
    /// credential is not read.
    ///
    /// # Errors
    /// `PMIX_ERR_INVALID_CRED`: the credential is not valid here, has expired or was used before, or
    /// the daemon does not answer.
    pub fn decode(&mut self, credential: &[u8]) -> Result<(u32, u32), Error> {
        let text = credential.split(|byte| *byte == 0).next();
        let text = CString::new(text.unwrap_or_default()).unwrap_or_default();
        let (mut uid, mut gid) = (u32::MAX, u32::MAX);
        // SAFETY: the credential ends with a NUL; the context is one of this library; no payload is
        // asked for; both numbers outlive the call.
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

    /// Asks the daemon for a credential of this process's user and group, without a payload. It ends with a
    /// NUL, as processes send it.
    ///
    /// # Errors
    /// The library cannot make any, or the daemon does not answer.
    pub fn encode(&mut self) -> Result<Vec<u8>, Error> {
        let missing = || Error::new("munge: the library has no function munge_encode".to_owned());
        let (encode, free) = self.encode.ok_or_else(missing)?;
        let mut made: *mut c_char = ptr::null_mut();
        // SAFETY: the context is one of this library; there is no payload; the pointer outlives the call.
        let code = unsafe { encode(&raw mut made, self.context, ptr::null(), 0) };
        let checked = self.check(code);
        if made.is_null() {
            checked?;
            return Err(Error::new("munge: no credential was made".to_owned()));
        }
        // SAFETY: the library made a string that ends with a NUL, and nobody else has it.
        let credential = unsafe { CStr::from_ptr(made) }.to_bytes_with_nul().to_vec();
        // SAFETY: it was allocated by malloc(3) and is not used any more.
        unsafe { free(made.cast()) };
        checked.map(|()| credential)
    }

    fn check(&self, code: c_int) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number and returns a text that stays, or NULL.
        let text = unsafe { (self.strerror)(code) };
        let text = if text.is_null() {
            "unknown error".into()
        } else {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        let message = format!("munge: {text} ({code})");
        Err(Error::new(message).with_status(Status::ERR_INVALID_CRED))
    }
}

impl Drop for Munge {
    fn drop(&mut self) {
        // SAFETY: the context was made by this library and is not used any more.
        unsafe { (self.destroy)(self.context) }
    }
}

/// A function of a library.
///
/// # Safety
/// The symbol has to be a function of type `T`.
unsafe fn symbol<T: Copy>(library: &Library, name: &CStr) -> Result<T, Error> {
    // SAFETY: the caller vouches for the type.
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
    fn a_library_that_is_not_there_is_named() {
        let missing = Munge::open(OsStr::new("libmunge-not-there.so.9"), None);
        let error = missing.unwrap_err().to_string();
        assert!(error.contains("libmunge-not-there.so.9"), "{error}");
    }

    #[test]
    fn a_library_without_the_functions_is_refused() {
        let other = Munge::open(OsStr::new("libc.so.6"), None);
        let error = other.unwrap_err().to_string();
        assert!(error.contains("munge_decode"), "{error}");
    }
}

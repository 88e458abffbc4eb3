// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoded maps in string form (`PMIX_REGEX`), as C functions take and return them, and the encoders of this process
//! (the preg framework), which its environment and files configure.
//!
//! A map is a `char *`. It ends at the NUL of its text, or at the length in the frame of its encoder. In this form it
//! is an element of a buffer or an array, and it is copied, printed and loaded. Only a value has it as a byte object,
//! whose size includes the NUL of a text. OpenPMIx 4.2 and 5.0 have the same forms.

use std::ffi::c_char;
use std::ptr;
use std::sync::OnceLock;

use bfrops::{RegexExtent, RegexFramer};
use pmix_types::{RegexBytes, Status};
use preg_core::{Extent, Params, Preg};

use crate::abi::pmix_byte_object_t;
use crate::log;
use crate::memory::{Result, copied, release, slice, text, zeroed};
use crate::per_process::PerProcess;
use crate::valid::Valid;

static ENCODERS: PerProcess<OnceLock<Result<Preg>>> = PerProcess::new(OnceLock::new());

/// Opens the encoders. Logs the error, because a status does not tell which setting is wrong.
fn open() -> Result<Preg> {
    let refused = |why: &dyn std::fmt::Display, status: Status| {
        log::report_setting(why);
        status
    };
    let params = Params::from_process(None).and_then(pmix_mca::ParamsBuilder::build);
    let params = params.map_err(|error| refused(&error, error.status()))?;
    pmix_builtin::open_preg(&params).map_err(|error| refused(&error, error.status()))
}

/// Returns the encoders, which are opened by the first call.
///
/// # Errors
/// Returns the status of the invalid setting, or `PMIX_ERR_SILENT` if no encoder is left.
pub(crate) fn encoders() -> Result<&'static Preg> {
    let opened = ENCODERS.get().get_or_init(open);
    opened.as_ref().map_err(|status| *status)
}

/// The encoders as the packing of messages uses them. They are opened for the first map.
pub(crate) struct Encoders;

impl RegexFramer for Encoders {
    fn regex_extent(&self, bytes: &[u8]) -> std::result::Result<Option<RegexExtent>, String> {
        // If the encoders cannot be opened, a map is read as text.
        encoders().map_or(Ok(None), |preg| preg.regex_extent(bytes))
    }
}

/// Returns the bytes of a map at a pointer, without the NUL of a text.
///
/// # Errors
/// Returns `PMIX_ERR_BAD_PARAM` for NULL, and for a damaged map with the frame of an encoder.
///
/// # Safety
/// `at` is NULL or points to a map that lives as long as the result.
pub(crate) unsafe fn map_at<'a>(at: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller guarantees NULL or a map, which has a NUL after its text or after the tag of its frame.
    let text = unsafe { text(at) }.ok_or(Status::ERR_BAD_PARAM)?;
    let Ok(preg) = encoders() else {
        return Ok(text);
    };
    // SAFETY: a scheme asks for the next byte only while it reads the header of its own frame.
    let first = |len| unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) };
    let extent = preg.unbounded_len(text.len(), first).map_err(|error| {
        tracing::debug!("an encoded map: {error}");
        error.status()
    })?;
    if i32::try_from(extent.len).is_err() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees a map, and its frame, which was read to here, states `extent.len` bytes.
    unsafe { slice(at.cast(), extent.len) }
}

/// Returns the bytes of the map in a byte object, without the NUL of a text. A damaged map is returned whole, so that
/// the function that parses it reports the error.
fn map_in(bytes: &[u8]) -> &[u8] {
    let framed = encoders().map_or(Ok(None), |preg| preg.legacy_len(bytes));
    let text = Extent::of_text(bytes).len;
    let len = match framed {
        Ok(Some(extent)) => extent.len,
        Ok(None) if text + 1 == bytes.len() => text,
        Ok(None) | Err(_) => bytes.len(),
    };
    bytes.get(..len).unwrap_or(bytes)
}

/// Returns `true` if the map, with a NUL after it, ends at that NUL for every reader of a `char *`.
///
/// [`map_at`] cannot see the end of the memory: it reads on for as long as the header of a frame is incomplete.
fn ends_at_nul(map_and_nul: &[u8]) -> bool {
    let framed = encoders().map_or(Ok(None), |preg| preg.legacy_len(map_and_nul));
    let len = match framed {
        Ok(Some(extent)) => extent.len,
        Ok(None) => Extent::of_text(map_and_nul).len,
        Err(error) => {
            tracing::debug!("an encoded map is rejected: {error}");
            return false;
        }
    };
    len + 1 == map_and_nul.len()
}

/// Returns a copy of a map with a NUL after it.
///
/// # Errors
/// Returns `PMIX_ERR_BAD_PARAM` for bytes whose end a reader of the copy would not find: a truncated frame, a frame
/// shorter than the bytes, or a text that contains a NUL. The bytes may come from a peer.
pub(crate) fn copy(map: &[u8]) -> Result<*mut c_char> {
    let len = map.len().checked_add(1).ok_or(Status::ERR_NOMEM)?;
    let at = zeroed::<u8>(len)?;
    // SAFETY: there is room for the map and the NUL, and the memory is new.
    let is_whole = unsafe {
        ptr::copy_nonoverlapping(map.as_ptr(), at, map.len());
        ends_at_nul(std::slice::from_raw_parts(at, len))
    };
    if !is_whole {
        // SAFETY: `at` was allocated here, and no other pointer to it exists.
        unsafe { release(at) };
        return Err(Status::ERR_BAD_PARAM);
    }
    Ok(at.cast())
}

/// Returns a copy of the map at a pointer.
///
/// # Safety
/// The conditions of [`map_at`].
pub(crate) unsafe fn duplicate(at: *const c_char) -> Result<*mut c_char> {
    // SAFETY: the caller guarantees that `at` is NULL or points to a map.
    copy(unsafe { map_at(at)? })
}

/// Returns a copy of the map in a byte object.
pub(crate) fn duplicate_object(from: Valid<'_, pmix_byte_object_t>) -> Result<pmix_byte_object_t> {
    object(&map_of(from)?)
}

/// Returns the map in a byte object, without the NUL of a text.
pub(crate) fn map_of(from: Valid<'_, pmix_byte_object_t>) -> Result<RegexBytes<'static>> {
    // SAFETY: the object is `Valid`: it has `size` bytes at `bytes`.
    let bytes = unsafe { slice(from.bytes.cast::<u8>(), from.size)? };
    Ok(RegexBytes(copied(map_in(bytes))?.into()))
}

/// Returns a byte object with a copy of a map. Its size includes the NUL of a text.
///
/// # Errors
/// Returns the errors of [`copy`].
pub(crate) fn object(map: &RegexBytes<'_>) -> Result<pmix_byte_object_t> {
    let map = &map.0;
    if map.is_empty() {
        return Ok(pmix_byte_object_t {
            bytes: ptr::null_mut(),
            size: 0,
        });
    }
    Ok(pmix_byte_object_t {
        bytes: copy(map)?,
        size: map.len() + usize::from(!map.contains(&0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model as _;
    use crate::record::Record as _;

    #[test]
    fn bytes_of_a_peer_that_no_char_pointer_can_end_are_no_map_of_c() {
        let damaged: [&[u8]; 6] = [
            b"blob:",
            b"blob:\0",
            b"blob:\0component=zlib:",
            b"blob:\0component=zlib:\0size=9:",
            b"blob:\0component=zlib:\0size=9:\0short",
            b"n1,n2\0n3",
        ];
        for bytes in damaged {
            let map = RegexBytes(bytes.into());
            let refused = Status::ERR_BAD_PARAM;
            assert_eq!(map.to_c().err(), Some(refused), "{map:?}");
            assert_eq!(object(&map).err(), Some(refused), "{map:?}");
        }
    }

    #[test]
    fn a_whole_map_of_a_peer_ends_for_c_where_its_bytes_end() {
        let whole: [&[u8]; 4] = [
            b"n1,n2",
            b"raw:n1,n2",
            b"pmix[n[1:1-3]]",
            b"blob:\0component=zlib:\0size=5:\0short",
        ];
        for bytes in whole {
            let map = RegexBytes(bytes.into());
            let (mut element, mut value) = (map.to_c().unwrap(), object(&map).unwrap());
            // SAFETY: both were made here and hold a map.
            unsafe {
                assert_eq!(map_at(element.0), Ok(bytes));
                assert_eq!(map_of(Valid::new(&value)).unwrap(), map);
                element.empty();
                value.empty();
            }
        }
    }
}

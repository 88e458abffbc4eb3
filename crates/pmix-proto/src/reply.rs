// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies: what stands on the tag of a request.

use pmix_types::Status;

use crate::codec::Writer;
use crate::{Error, PeerForm, kind};

/// A reply of nothing but a status, which answers every request: most of them with success, all
/// of them with an error.
///
/// # Errors
///
/// None that a status can have: every module packs it.
pub fn status(form: &PeerForm, status: Status) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(form, None);
    writer.one::<kind::Status>(&status)?;
    Ok(writer.finish())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about credentials.

use pmix_types::{Bytes, Info};

use crate::codec::{Many, One, message};
use crate::wire_type;

message! {
    /// Asks the host for a credential of the process.
    GetCredential<'a> {
        /// The kind of credential.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }

    /// Asks the host whether a credential is valid.
    ValidateCredential<'a> {
        /// The credential.
        credential: Bytes<'a> = One<wire_type::ByteObject>,
        /// The directives of the validation.
        infos: Vec<Info<'a>> = Many<wire_type::Info>,
    }
}

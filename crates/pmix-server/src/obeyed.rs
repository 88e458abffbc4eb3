// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directives that the server supports in calls of the host.
//!
//! Infos that are data, such as job info or resources, are not directives.

use pmix_proto::SupportedFunction;
use pmix_types::Info;

use crate::Error;

const SUPPORTED: &[SupportedFunction<'static>] = &[
    (
        "PMIx_server_collect_inventory",
        &["DEVICE_ID", "DEVICE_TYPE"],
    ),
    (
        "PMIx_server_setup_application",
        &[
            "MODEL_LIBRARY_NAME",
            "PROGRAMMING_MODEL",
            "SETUP_APP_ALL",
            "SETUP_APP_ENVARS",
        ],
    ),
    (
        "PMIx_server_setup_local_support",
        &["ADD_ENVAR", "APPEND_ENVAR", "PREPEND_ENVAR", "SET_ENVAR"],
    ),
];

/// Rejects required directives that the server does not support.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_SUPPORTED`, with the attribute and the function in the message, if one is not supported.
pub(crate) fn check(function: &str, infos: &[Info<'_>]) -> Result<(), Error> {
    let checked = pmix_proto::check_required(function, &[SUPPORTED], infos);
    checked.map_err(|error| Error::new(error.status(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use pmix_types::Attribute;

    use super::*;

    #[test]
    fn every_name_of_the_table_is_an_attribute() {
        for (function, attributes) in SUPPORTED {
            for name in *attributes {
                assert!(Attribute::by_name(name).is_some(), "{name} of {function}");
            }
        }
    }
}

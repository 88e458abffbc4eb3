// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes that both client and server libraries obey, by function.
//!
//! The table of each library contains these rows.
//!
//! Source: PMIx Standard, the function of each row.

use crate::SupportedFunction;

/// The attributes of `PMIx_Connect`.
pub const CONNECT: SupportedFunction<'static> = ("PMIx_Connect", &["TIMEOUT"]);

/// The attributes of `PMIx_Disconnect`.
pub const DISCONNECT: SupportedFunction<'static> = ("PMIx_Disconnect", &["TIMEOUT"]);

/// The attributes of `PMIx_Fence`.
pub const FENCE: SupportedFunction<'static> = ("PMIx_Fence", &["COLLECT_DATA", "TIMEOUT"]);

/// The attributes of `PMIx_Get` that determine the value and how long the caller waits. The client
/// obeys them for values that it has, and the server for values that the client requests from it.
pub const GET: SupportedFunction<'static> = (
    "PMIx_Get",
    &[
        "APPNUM",
        "APP_INFO",
        "DATA_SCOPE",
        "GET_REFRESH_CACHE",
        "GROUP_CONTEXT_ID",
        "HOSTNAME",
        "IMMEDIATE",
        "JOB_INFO",
        "NODEID",
        "NODE_INFO",
        "OPTIONAL",
        "SESSION_ID",
        "SESSION_INFO",
        "TIMEOUT",
    ],
);

#[cfg(test)]
mod tests {
    use pmix_types::Attribute;

    use super::*;

    #[test]
    fn every_name_of_the_rows_is_an_attribute() {
        for (function, attributes) in [CONNECT, DISCONNECT, FENCE, GET] {
            for name in attributes {
                assert!(Attribute::by_name(name).is_some(), "{name} of {function}");
            }
        }
    }
}

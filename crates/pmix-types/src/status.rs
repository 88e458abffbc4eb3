// SPDX-License-Identifier: MIT OR Apache-2.0
//! Status codes: an open newtype over the number that travels on the wire.

use std::fmt;

/// A PMIx status code (`pmix_status_t`, a signed 32-bit number; zero is success).
///
/// The type is open: any number is a valid status, named or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(i32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// The Standard's name of this status without the `PMIX_` prefix, if it has one here.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some(stringify!($name)),)* _ => None }
            }

            /// What the status says, as a lower-case fragment.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self.0 { $($number => $text,)* _ => "unknown status" }
            }
        }
    };
}

statuses! {
    /// The operation succeeded.
    SUCCESS = 0, "success";
    /// The operation failed without a more precise status.
    ERROR = -1, "error";
    /// The operation failed and its cause has already been reported.
    ERR_SILENT = -2, "already reported";
    /// A datum has a type that the receiver does not know.
    ERR_UNKNOWN_DATA_TYPE = -16, "unknown data type";
    /// A datum has another type than the caller asked for.
    ERR_TYPE_MISMATCH = -18, "type mismatch";
    /// The input is malformed.
    ERR_BAD_PARAM = -27, "bad parameter";
    /// A limit on memory or on the number of elements was reached.
    ERR_OUT_OF_RESOURCE = -29, "out of resource";
    /// The library is not initialised.
    ERR_INIT = -31, "not initialised";
    /// What was asked for is not there.
    ERR_NOT_FOUND = -46, "not found";
    /// The operation, or the form of the value, is not supported by what is active.
    ERR_NOT_SUPPORTED = -47, "not supported";
    /// A value ends before its bytes do.
    ERR_UNPACK_READ_PAST_END_OF_BUFFER = -50, "read past the end of the buffer";
    /// Declined: the next component may take the request. Internal, never on the wire.
    ERR_TAKE_NEXT_OPTION = -1366, "declined, take the next option";
}

impl Status {
    /// Wraps a raw number; every number is accepted.
    #[must_use]
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// The raw number.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// Whether this is [`Status::SUCCESS`].
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "PMIX_{name} ({})", self.0),
            None => write!(f, "PMIX_STATUS({})", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_numbers_survive() {
        assert_eq!(Status::from_raw(i32::MIN).as_raw(), i32::MIN);
        assert_eq!(Status::from_raw(-99_999).name(), None);
    }
}

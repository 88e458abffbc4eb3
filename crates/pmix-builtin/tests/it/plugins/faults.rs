// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways in which `faulty.c` violates the interface when it encodes: for each its name, its
//! report, and an addition to the report for the list `n2,n1,n3,n1`. Tests of the framework and of
//! `pmix plugins check` share them.

/// A fault, its report, and the addition for that list.
pub(crate) type Fault = (&'static str, &'static str, &'static str);

/// Encoders that violate the rules for a function.
pub(crate) const OF_CALLS: [Fault; 8] = [
    ("PANICS", "it panicked: index out of bounds", ""),
    ("UNKNOWN_STATUS", "it returned the unknown status -4242", ""),
    ("POSITIVE_STATUS", "it returned the unknown status 1", ""),
    (
        "ENCODER_ERROR",
        "it failed with PMIX_ERR_BAD_PARAM (-27): no mood for this list",
        "",
    ),
    ("WRITES_NULL", "it wrote bytes from the address NULL", ""),
    (
        "WRITES_ABSURD_LENGTH",
        "it wrote more bytes than an address space holds",
        "",
    ),
    ("FLOODS", "it wrote more than 65", "than 65580 bytes"),
    (
        "MESSAGE_NOT_UTF8",
        "it sent a message that is not valid UTF-8",
        "",
    ),
];

/// Encoders whose value does not decode to the original list.
pub(crate) const OF_VALUES: [Fault; 12] = [
    ("WRONG_TAG", "its value does not begin with its tag", ""),
    (
        "WRITES_NOTHING",
        "its value does not begin with its tag",
        "",
    ),
    (
        "LOSES_ORDER",
        "its value decodes to another list",
        "\"n2\" became \"n1\" at byte 0",
    ),
    ("LOSES_A_NAME", "its value decodes to another list", ""),
    (
        "CHANGES_A_NAME",
        "its value decodes to another list",
        "\"n1\" became \"nX\" at byte 9",
    ),
    (
        "UNDECODABLE",
        "its value does not decode: expected something else at byte 5",
        "",
    ),
    (
        "DECODER_DECLINES",
        "its value does not decode: its own decoder declines it",
        "",
    ),
    ("DECODER_FAILS", "it returned the unknown status 77", ""),
    ("DECODER_BAD_OFFSET", "it named a byte beyond the value", ""),
    (
        "LENGTH_TOO_LONG",
        "it states a length of 10",
        "1015 bytes for a value of 15",
    ),
    (
        "LENGTH_ZERO",
        "it states a length of 0 bytes",
        "a value of 15",
    ),
    (
        "NUL_INSIDE",
        "it states a length of 6 bytes",
        "a value of 16",
    ),
];

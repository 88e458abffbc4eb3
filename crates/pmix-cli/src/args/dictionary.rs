// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `attr` and `status`.

use clap::Args;

/// Arguments of `attr`.
#[derive(Args)]
pub(crate) struct Attr {
    /// A name with or without PMIX_, a key, or a pattern: a part of a name or key, or a glob.
    #[arg(value_name = "NAME|KEY|PATTERN")]
    pub(crate) what: Option<String>,
}

/// Arguments of `status`.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// A number, a name with or without PMIX_, or a pattern: a part of a name, or a glob.
    #[arg(value_name = "NUMBER|NAME|PATTERN", allow_negative_numbers = true)]
    pub(crate) what: Option<String>,
}

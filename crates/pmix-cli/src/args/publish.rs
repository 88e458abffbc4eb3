// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `publish` and `lookup`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Attach;
use super::hello::seconds;

/// Arguments of `publish`.
#[derive(Args)]
pub(crate) struct Publish {
    /// The data to publish: keys, each with a text.
    #[arg(value_name = "KEY=TEXT", required = true)]
    pub(crate) data: Vec<String>,
    /// The processes of this user that can look it up.
    #[arg(long, value_enum, default_value_t = SeenBy::Session, value_name = "RANGE")]
    pub(crate) range: SeenBy,
    /// The lifetime of the data.
    #[arg(long, value_enum, default_value_t = KeepFor::Session, value_name = "TIME")]
    pub(crate) keep: KeepFor,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Arguments of `lookup`.
#[derive(Args)]
pub(crate) struct Lookup {
    /// The keys.
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
    /// Wait up to this time for keys that are not published yet.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Processes that can look up published data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeenBy {
    /// Processes of this node.
    Local,
    /// Processes of the session.
    Session,
    /// All processes of the user.
    Global,
}

/// Lifetimes of published data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeepFor {
    /// Until the first lookup.
    FirstRead,
    /// Until the session ends.
    Session,
    /// Until the server ends.
    Indef,
}

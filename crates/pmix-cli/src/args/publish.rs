// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `publish` and `lookup`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Attach;
use super::hello::seconds;

/// Arguments of `publish`.
#[derive(Args)]
pub(crate) struct Publish {
    /// What is published: keys, each with a text.
    #[arg(value_name = "KEY=TEXT", required = true)]
    pub(crate) data: Vec<String>,
    /// Who may find it, of the processes of this user.
    #[arg(long, value_enum, default_value_t = SeenBy::Session, value_name = "RANGE")]
    pub(crate) range: SeenBy,
    /// How long it is kept.
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
    /// Wait so long for what is not published yet.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) attach: Attach,
}

/// Who may find published data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SeenBy {
    /// Processes of this node.
    Local,
    /// Processes of the session.
    Session,
    /// All.
    Global,
}

/// How long published data are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeepFor {
    /// Until they were found once.
    FirstRead,
    /// Until the session ends.
    Session,
    /// For ever, which is as long as the server goes on.
    Indef,
}

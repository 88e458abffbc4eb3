// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::hello::seconds;

/// Arguments of `doctor`.
#[derive(Args)]
pub(crate) struct Doctor {
    /// The directory in which MPI libraries share memory.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub(crate) shm: PathBuf,
    /// The time limit for the reply of each server.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

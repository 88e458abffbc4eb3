// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `pmix hello`.

use std::time::Duration;

use clap::Args;

/// Arguments of `hello`.
#[derive(Args)]
pub(crate) struct Hello {
    /// The number of consecutive fences.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) fences: u32,
    /// The number of bytes that each process puts.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) bytes: usize,
    /// Get the data of only the next N ranks instead of all other processes.
    #[arg(long, value_name = "N")]
    pub(crate) peers: Option<u32>,
    /// Do not exchange data in the fences; data is requested from each process when it is needed.
    #[arg(long)]
    pub(crate) no_collect: bool,
    /// Print nothing on success.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The time limit for each reply of the server.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

/// Parses a time in seconds, which must be above 0.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    let time = Duration::try_from_secs_f64(number).map_err(|error| error.to_string())?;
    match time.is_zero() {
        true => Err("expected a time above 0".to_owned()),
        false => Ok(time),
    }
}

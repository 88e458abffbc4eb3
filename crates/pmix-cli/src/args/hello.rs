// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `pmix hello`.

use std::time::Duration;

use clap::Args;

/// Arguments of `hello`.
#[derive(Args)]
pub(crate) struct Hello {
    /// How many fences to wait in, one behind the other.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) fences: u32,
    /// How many bytes every process puts for the others.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) bytes: usize,
    /// Ask only so many of the other processes, the next ranks, for what they put.
    #[arg(long, value_name = "N")]
    pub(crate) peers: Option<u32>,
    /// Do not exchange data in the fences; every process is asked when its data are wanted.
    #[arg(long)]
    pub(crate) no_collect: bool,
    /// Print nothing unless something goes wrong.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// How long to wait for any answer of the server.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

/// A time in seconds, of which none is not enough.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "this is no number".to_owned())?;
    let time = Duration::try_from_secs_f64(number).map_err(|error| error.to_string())?;
    match time.is_zero() {
        true => Err("no time is not enough".to_owned()),
        false => Ok(time),
    }
}

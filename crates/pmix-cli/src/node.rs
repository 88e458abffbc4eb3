// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix node`: the agent of a launcher on another node.

use std::os::fd::AsFd as _;

use pmix_launch::{MemberSettings, serve_as_member};
use pmix_mca::{Params, Source};
use preg_core::Preg;

use crate::args::NodeArgs;
use crate::failure::{Exit, Failure};
use crate::run;

/// Runs the command until the launcher ends the session.
pub(crate) fn run(args: &NodeArgs) -> Result<Exit, Failure> {
    crate::trace::speak_as("pmix node:");
    debug_assert!(args.stdio, "the only kind of link");
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let link = { input.as_fd().try_clone_to_owned() }
        .and_then(|input| Ok((input, output.as_fd().try_clone_to_owned()?)));
    let link = link.map_err(|e| Failure::usage(format!("cannot use the standard streams: {e}")))?;
    let settings = MemberSettings {
        open,
        watcher: Some(run::watcher()),
        wrapper: Some(run::wrapper()),
    };
    let served = serve_as_member(&settings, link);
    served.map_err(run::refused)?;
    Ok(Exit::Ok)
}

/// Opens the encoders of maps with the parameters of the launcher.
fn open(values: Vec<(String, String)>) -> Result<(Params, Preg), String> {
    let values = values.into_iter();
    let builder = values.fold(Params::builder(), |builder, (name, value)| {
        builder.set(&name, value, Source::Api)
    });
    let params = builder.build().map_err(|error| error.to_string())?;
    let preg = pmix_builtin::open_preg(&params).map_err(|error| error.to_string())?;
    Ok((params, preg))
}

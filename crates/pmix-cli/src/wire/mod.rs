// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands under `pmix wire`: packed data to JSON and back.

mod bytes;
mod decode;
mod encode;
mod explain;
mod json;
mod jsonl;
mod message;

use crate::args::{Wire, WireCommand};
use crate::context::Context;
use crate::failure::{Exit, Failure};

pub(crate) use message::{Side, Trace};

/// Runs one of the commands.
pub(crate) fn run(context: &mut Context, args: &Wire) -> Result<Exit, Failure> {
    let direction = match &args.command {
        None => None,
        Some(WireCommand::Decode(_)) => Some(jsonl::Direction::Decode),
        Some(WireCommand::Encode(_)) => Some(jsonl::Direction::Encode),
    };
    match &args.command {
        _ if args.jsonl => jsonl::run(context, direction),
        Some(WireCommand::Decode(args)) => decode::run(context, args),
        Some(WireCommand::Encode(args)) => encode::run(context, args),
        None => Err(Failure::usage("missing command").cure("use decode, encode, or --jsonl")),
    }
}

/// Converts an error of bfrops, with its position.
fn failure(error: &bfrops::Error, origin: &str, bytes: &[u8]) -> Failure {
    let failure = Failure::new(Exit::Data, error.status(), error.message());
    match error.offset() {
        Some(offset) => failure.at(crate::excerpt::Excerpt::new(origin, bytes, offset)),
        None => failure,
    }
}

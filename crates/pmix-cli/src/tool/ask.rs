// SPDX-License-Identifier: MIT OR Apache-2.0
//! The query of one key, which the commands that list jobs share.

use pmix_tool::Tool;
use pmix_types::{Info, Query, Status, Text, Value};

use super::is_answer;
use crate::failure::Failure;

/// Returns the value of a key, or the status with which the server refuses it.
#[allow(
    clippy::type_complexity,
    reason = "the outer error ends the command, the inner error is printed"
)]
pub(super) fn ask(
    tool: &Tool,
    key: &'static str,
    qualifiers: Vec<Info<'static>>,
) -> Result<Result<Option<Value<'static>>, Status>, Failure> {
    let query = Query {
        keys: vec![Text::from(key)],
        qualifiers,
    };
    match tool.query([query]).wait() {
        Ok((status, infos)) => {
            let found = infos.into_iter().find(|info| info.key.is(key));
            Ok(match found {
                Some(info) => Ok(Some(info.value)),
                None if status.is_success() => Ok(None),
                None => Err(status),
            })
        }
        Err(error) if is_answer(error.status()) => Ok(Err(error.status())),
        Err(error) => Err(error.into()),
    }
}

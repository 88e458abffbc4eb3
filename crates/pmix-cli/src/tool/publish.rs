// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix publish` and `pmix lookup`: publishing and looking up data.

use std::io::Write as _;
use std::time::{Duration, Instant};

use pmix_tool::Tool;
use pmix_types::{DataRange, Info, Key, Pdata, Persistence, Status, Text, Value, keys};
use serde_json::json;

use super::{find_own, is_answer, leave};
use crate::args::{Global, KeepFor, Lookup, Publish, SeenBy};
use crate::failure::{Exit, Failure};
use crate::get::{plain_text, typed_json};
use crate::output::Out;
use crate::style::printable;

/// Runs `pmix publish`.
pub(crate) fn publish(global: &Global, args: &Publish) -> Result<Exit, Failure> {
    let mut infos = Vec::new();
    for word in &args.data {
        infos.push(datum(word)?);
    }
    let names: Vec<_> = infos.iter().map(|info| show_key(&info.key)).collect();
    let range = match args.range {
        SeenBy::Local => DataRange::LOCAL,
        SeenBy::Session => DataRange::SESSION,
        SeenBy::Global => DataRange::GLOBAL,
    };
    let persistence = match args.keep {
        KeepFor::FirstRead => Persistence::FIRST_READ,
        KeepFor::Session => Persistence::SESSION,
        KeepFor::Indef => Persistence::INDEF,
    };
    infos.push(Info::new(keys::RANGE, Value::DataRange(range)));
    let persistence = Value::Persistence(persistence);
    infos.push(Info::new(keys::PERSISTENCE, persistence));
    let tool = super::attach(&find_own(&args.attach)?, &args.attach)?;
    let status = answered(tool.publish(infos).wait(), false)?.err();
    leave(tool);
    let status = status.unwrap_or(Status::SUCCESS);
    if global.json {
        let mut out = Out::new();
        out.json(&json!({ "keys": names, "status": status.as_raw() }))?;
        out.flush()?;
    }
    let message = match status {
        Status::SUCCESS => return Ok(Exit::Ok),
        Status::ERR_DUPLICATE_KEY => format!("one of these keys is already published ({status})"),
        _ => format!("the server rejected the data ({status})"),
    };
    Err(refused(global, status, message))
}

/// Runs `pmix lookup`.
pub(crate) fn lookup(global: &Global, args: &Lookup) -> Result<Exit, Failure> {
    for key in &args.keys {
        check(key)?;
    }
    let until = args.wait.and_then(|wait| Instant::now().checked_add(wait));
    let limit = args
        .attach
        .timeout
        .saturating_add(args.wait.unwrap_or_default());
    let mut tool = Tool::new().time_limit(limit);
    tool.attach(&find_own(&args.attach)?, |_| {})?;
    let mut out = Out::new();
    let mut missing = None;
    // Sends one request for each key, because the status of a request for several keys does not
    // tell which is missing.
    for key in &args.keys {
        let found = tool.lookup([key.clone()], waiting(until)).wait();
        match answered(found, args.wait.is_some())? {
            Ok((_, found)) => {
                for data in &found {
                    show_found(&mut out, global.json, data)?;
                }
            }
            Err(status) => {
                if global.json {
                    out.json(&json!({ "key": key, "status": status.as_raw() }))?;
                }
                missing.get_or_insert((key, status));
            }
        }
    }
    out.flush()?;
    leave(tool);
    match missing {
        None => Ok(Exit::Ok),
        Some((key, status)) => {
            let message = match status {
                Status::ERR_NOT_FOUND | Status::ERR_TIMEOUT => {
                    format!("{key:?} is not published for this user ({status})")
                }
                _ => format!("the server rejected the lookup of {key:?} ({status})"),
            };
            Err(refused(global, status, message))
        }
    }
}

/// Returns the directives for the time that the server waits for unpublished keys.
fn waiting(until: Option<Instant>) -> Vec<Info<'static>> {
    let Some(until) = until else {
        return Vec::new();
    };
    let left = until.saturating_duration_since(Instant::now());
    match whole_seconds(left) {
        // Without a directive, the server would wait without a limit.
        0 => Vec::new(),
        left => vec![Info::new(keys::WAIT, 1i32), Info::new(keys::TIMEOUT, left)],
    }
}

/// Returns a time in seconds, rounded up.
fn whole_seconds(time: Duration) -> i32 {
    let part = u64::from(time.subsec_nanos() > 0);
    i32::try_from(time.as_secs().saturating_add(part)).unwrap_or(i32::MAX)
}

fn show_found(out: &mut Out, json: bool, data: &Pdata<'_>) -> Result<(), Failure> {
    if json {
        let (nspace, rank) = (&data.proc.nspace, data.proc.rank);
        return out.json(&json!({
            "key": show_key(&data.key),
            "value": typed_json(&data.value),
            "publisher": { "nspace": nspace.as_text().to_str_lossy(), "rank": rank.as_raw() },
            "status": 0,
        }));
    }
    write!(out, "{}: ", printable(data.key.as_bytes()))?;
    out.foreign(&plain_text(&data.value))?;
    out.write_all(b"\n")?;
    Ok(())
}

fn show_key(key: &Key<'_>) -> String {
    key.as_text().to_str_lossy().into_owned()
}

/// Parses `KEY=TEXT`.
fn datum(word: &str) -> Result<Info<'static>, Failure> {
    let (key, text) = match word.split_once('=') {
        Some((key, text)) if !key.is_empty() => (key, text),
        _ => return Err(Failure::usage(format!("{word}: expected KEY=TEXT"))),
    };
    check(key)?;
    // A server would treat some reserved keys as directives.
    if Key::from(key).is_reserved() {
        return Err(Failure::usage(format!(
            "{key}: the prefix `pmix` is reserved for keys of the PMIx Standard"
        )));
    }
    let text = Value::String(Some(Text::from(text.to_owned())));
    Ok(Info::new(key.to_owned(), text))
}

/// Checks that a text can be a key.
fn check(key: &str) -> Result<(), Failure> {
    let most = Key::MAX_LEN;
    match key.len() {
        0 => Err(Failure::usage("a key has at least one byte")),
        len if len > most => Err(Failure::usage(format!(
            "{key}: a key has at most {most} bytes, this one has {len}"
        ))),
        _ => Ok(()),
    }
}

/// Converts the result of the server. If the server was asked to wait, an expired time limit is a negative
/// answer.
#[allow(
    clippy::type_complexity,
    reason = "one failure ends the command, the other is shown"
)]
fn answered<T>(
    answer: Result<T, pmix_client::Error>,
    waits: bool,
) -> Result<Result<T, Status>, Failure> {
    let error = match answer {
        Ok(answer) => return Ok(Ok(answer)),
        Err(error) => error,
    };
    match error.status() {
        status if is_answer(status) || (waits && status == Status::ERR_TIMEOUT) => Ok(Err(status)),
        _ => Err(error.into()),
    }
}

fn refused(global: &Global, status: Status, message: String) -> Failure {
    match global.json {
        true => Failure::answer(status, message),
        false => Failure::new(Exit::Negative, status, message),
    }
}

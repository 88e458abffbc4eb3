// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix query`: the result of a query to a server.

use std::io::Write as _;

use pmix_types::{Attribute, DataType, Info, Proc, Query, Rank, Status, Text, Value, keys};
use serde_json::json;

use super::{attach, find_job, is_answer, leave};
use crate::args::{Global, QueryArgs, key};
use crate::failure::{Exit, Failure};
use crate::get::{of_text, plain_text, typed_json};
use crate::output::Out;
use crate::style::printable;

/// Runs the command.
pub(crate) fn run(global: &Global, args: &QueryArgs) -> Result<Exit, Failure> {
    let qualifiers = qualifiers(args)?;
    let server = find_job(&args.attach, args.nspace.as_deref())?;
    let tool = attach(&server, &args.attach)?;
    let mut out = Out::new();
    let mut missing = Vec::new();
    // Sends one query for each key, because the status of a query for several keys does not tell
    // which has no value.
    for word in &args.keys {
        let query = Query {
            keys: vec![Text::from(key(word).to_owned())],
            qualifiers: qualifiers.clone(),
        };
        let found = tool.query([query]).wait();
        let (status, infos) = match found {
            Ok(answers) => answers,
            Err(error) if is_answer(error.status()) => (error.status(), Vec::new()),
            Err(error) => return Err(error.into()),
        };
        if infos.is_empty() && !status.is_success() {
            missing.push((word, status));
        }
        show_answer(&mut out, global.json, word, status, &infos)?;
    }
    out.flush()?;
    leave(tool);
    let Some((_, status)) = missing.first().copied() else {
        return Ok(Exit::Ok);
    };
    let lines = missing
        .iter()
        .map(|(word, status)| format!("{word}: the server returned no value ({status})"));
    let text = lines.collect::<Vec<_>>().join("\n  ");
    Err(match global.json {
        true => Failure::answer(status, text),
        false => Failure::new(Exit::Negative, status, text),
    })
}

fn qualifiers(args: &QueryArgs) -> Result<Vec<Info<'static>>, Failure> {
    let mut infos = Vec::new();
    if let Some(nspace) = &args.nspace {
        infos.push(Info::new(keys::NSPACE, nspace.clone()));
    }
    if let Some(rank) = args.rank {
        infos.push(Info::new(keys::RANK, rank));
    }
    for word in &args.qualifiers {
        let (name, text) = match word.split_once('=') {
            Some((name, text)) => (name, Some(text)),
            None => (word.as_str(), None),
        };
        let name = key(name).to_owned();
        let value = of_key(&name, text).map_err(|why| Failure::usage(format!("{word}: {why}")))?;
        infos.push(Info::new(name, value));
    }
    Ok(infos)
}

/// Returns a value with the type of its attribute, parsed from the text, or `true` without a text. Attributes
/// that take names of functions accept `true` as well, which requests the names.
fn of_key(key: &str, text: Option<&str>) -> Result<Value<'static>, String> {
    let wanted = Attribute::by_key(key).and_then(Attribute::data_type);
    let Some(text) = text else {
        return match wanted {
            None | Some(DataType::BOOL | DataType::STRING) => Ok(Value::Bool(true)),
            Some(wanted) => Err(format!("missing value of type {wanted}")),
        };
    };
    Ok(match wanted {
        None | Some(DataType::STRING) => Value::from(text.to_owned()),
        Some(DataType::PROC) => Value::Proc(process(text)?),
        Some(DataType::PROC_RANK) => Value::Rank(rank(text)?),
        Some(DataType::BOOL) => match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => return Err("expected true or false".to_owned()),
        },
        Some(wanted) => of_text(wanted, text)?,
    })
}

/// Parses a process in the output format: nspace, colon and rank.
fn process(text: &str) -> Result<Proc<'static>, String> {
    let Some((nspace, number)) = text.rsplit_once(':') else {
        return Err("expected a process, NSPACE:RANK".to_owned());
    };
    Ok(Proc::new(nspace.to_owned(), rank(number)?))
}

fn rank(text: &str) -> Result<Rank, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a rank, expected a number or `wildcard`"))
}

fn show_answer(
    out: &mut Out,
    json: bool,
    word: &str,
    status: Status,
    infos: &[Info<'_>],
) -> Result<(), Failure> {
    if json {
        let answers = infos.iter().map(|info| {
            json!({ "key": info.key.as_text().to_str_lossy(), "value": typed_json(&info.value) })
        });
        let answers: Vec<_> = answers.collect();
        let line = json!({
            "key": key(word),
            "status": status.as_raw(),
            "answers": answers,
        });
        return out.json(&line);
    }
    for info in infos {
        let name = printable(info.key.as_text().as_bytes());
        write!(out, "{name}: ")?;
        out.foreign(&plain_text(&info.value))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qualifier_has_the_type_of_its_attribute() {
        for (key, text, value) in [
            (keys::QUERY_REFRESH_CACHE, None, Value::Bool(true)),
            (keys::QUERY_REFRESH_CACHE, Some("false"), Value::Bool(false)),
            (keys::TIMEOUT, Some("5"), Value::Int(5)),
            (keys::NODEID, Some("5"), Value::Uint32(5)),
            (keys::RANK, Some("5"), Value::Rank(Rank::new(5))),
            (keys::HOSTNAME, Some("5"), Value::from("5")),
            ("no.such.key", Some("5"), Value::from("5")),
            ("no.such.key", None, Value::Bool(true)),
        ] {
            assert_eq!(of_key(key, text), Ok(value), "{key}");
        }
    }
}

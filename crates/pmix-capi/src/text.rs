// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data as text for people.

use pmix_types::{App, DataArray, Info, Proc, Value};

/// A value and its type.
pub(crate) fn value(of: &Value<'_>) -> String {
    let kind = of.data_type().pretty();
    match of {
        Value::Undef => kind.to_owned(),
        Value::String(Some(text)) => format!("{kind}: {text}"),
        Value::String(None) => format!("{kind}: NULL"),
        Value::Bool(truth) => format!("{kind}: {truth}"),
        Value::Rank(rank) => format!("{kind}: {rank}"),
        Value::Status(status) => format!("{kind}: {status}"),
        Value::Proc(of) => format!("{kind}: {}", proc(of)),
        Value::DataArray(data) => array(data),
        other => {
            // The name of the variant stands before the brackets.
            let shown = format!("{other:?}");
            let inner = shown
                .split_once('(')
                .and_then(|(_, rest)| rest.strip_suffix(')'));
            format!("{kind}: {}", inner.unwrap_or(&shown))
        }
    }
}

/// An info: its key and its value.
pub(crate) fn info(of: &Info<'_>) -> String {
    let directives = match of.flags.is_empty() {
        true => String::new(),
        false => format!(" [{}]", of.flags),
    };
    format!("{}{directives}: {}", of.key, value(&of.value))
}

/// A process.
pub(crate) fn proc(of: &Proc<'_>) -> String {
    format!("{}:{}", of.nspace, of.rank)
}

/// An application.
pub(crate) fn app(of: &App<'_>) -> String {
    let words: Vec<_> = of.argv.iter().map(ToString::to_string).collect();
    let cmd = of.cmd.as_ref().map(ToString::to_string).unwrap_or_default();
    let infos: Vec<_> = of.info.iter().map(info).collect();
    format!(
        "{cmd}: {} of `{}` {{{}}}",
        of.maxprocs,
        words.join(" "),
        infos.join(", ")
    )
}

/// The data of an array.
pub(crate) fn array(of: &DataArray<'_>) -> String {
    let kind = of.data_type().pretty();
    let items: Vec<_> = match of {
        DataArray::Info(infos) => infos.iter().map(info).collect(),
        DataArray::Value(values) => values.iter().map(value).collect(),
        DataArray::Proc(procs) => procs.iter().map(proc).collect(),
        DataArray::App(apps) => apps.iter().map(app).collect(),
        other => {
            let shown = format!("{other:?}");
            let inner = shown
                .split_once('(')
                .and_then(|(_, rest)| rest.strip_suffix(')'));
            return format!("{kind}: {}", inner.unwrap_or(&shown));
        }
    };
    format!("{kind}: [{}]", items.join(", "))
}

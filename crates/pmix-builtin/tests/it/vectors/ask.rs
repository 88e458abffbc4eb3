// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs records with the framework.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use pmix_mca::Source;
use preg_core::{Error, NodeList, Params, Preg, ProcMap, Regex2Ref, Scheme};

use super::record::{Library, Question, Record};

/// `PMIX_ERR_TAKE_NEXT_OPTION`: the component declined.
const DECLINED: i32 = -1366;

/// Opens the framework with the configuration of the library.
fn open(library: Library, config: &str) -> Preg {
    let mut settings = Vec::new();
    if library == Library::Four {
        settings.extend([
            ("preg_native_priority", "50"),
            ("preg_raw_priority", "40"),
            // 4.2.2 compares with a bound that is never smaller than the input.
            ("pcompress_base_limit", "-1"),
        ]);
    }
    match config {
        "default" | "direct" => {}
        "native-only" => settings.push(("preg", "native")),
        "no-compress" => settings.push(("preg", "^compress")),
        "limit64" if library == Library::Five => settings.push(("pcompress_base_limit", "64")),
        "limit64" => {}
        other => panic!("a config {other} that this test does not know"),
    }
    let mut params = Params::builder();
    for (name, value) in settings {
        params = params.set(name, value, Source::Api);
    }
    let params = params.build().expect("valid settings");
    pmix_builtin::open_preg(&params).expect("the settings can be obeyed")
}

fn framework(library: Library, config: &str) -> Rc<Preg> {
    type Opened = HashMap<(bool, String), Rc<Preg>>;
    thread_local! {
        static OPENED: RefCell<Opened> = RefCell::default();
    }
    let key = (library == Library::Four, config.to_owned());
    OPENED.with_borrow_mut(|opened| {
        Rc::clone(
            opened
                .entry(key)
                .or_insert_with(|| Rc::new(open(library, config))),
        )
    })
}

/// Returns this project's result for a record.
pub(crate) fn ask(record: &Record, library: Library) -> Answer {
    let preg = framework(library, &record.config);
    let input = record.input.as_deref().expect("an input");
    match &record.component {
        Some(name) => {
            let module = preg
                .modules()
                .iter()
                .find(|module| module.scheme.name() == name);
            let scheme = &*module.expect("the component is there").scheme;
            ask_scheme(scheme, &preg, record, input)
        }
        None => ask_framework(&preg, record, input),
    }
    .unwrap_or_else(|error| Answer::Status(error.status().as_raw()))
}

fn ask_framework(preg: &Preg, record: &Record, input: &[u8]) -> Result<Answer, Error> {
    Ok(match record.question {
        Question::GenerateNodes => {
            let value = preg.generate_node_regex(input)?;
            Answer::value(value.framing, value.bytes)
        }
        Question::GenerateProcs => {
            let value = preg.generate_ppn(input)?;
            Answer::value(value.framing, value.bytes)
        }
        Question::GenerateRegex2 => {
            let value = preg.generate_regex(input)?;
            Answer::value(value.kind, value.bytes)
        }
        Question::ParseNodes => Answer::List(names(&preg.parse_nodes(input)?)),
        Question::ParseProcs => Answer::List(nodes(&preg.parse_procs(input)?)),
        Question::ParseRegex2 => {
            let regex = Regex2Ref {
                kind: &record.kind,
                bytes: input,
            };
            Answer::Text(preg.parse_regex(regex)?)
        }
    })
}

fn ask_scheme(
    scheme: &dyn Scheme,
    preg: &Preg,
    record: &Record,
    input: &[u8],
) -> Result<Answer, Error> {
    let limits = preg.limits();
    let value = |bytes| Answer::value(scheme.framing(), bytes);
    let answer = match record.question {
        Question::GenerateNodes => scheme.generate_node_regex(input)?.map(value),
        Question::GenerateProcs => scheme.generate_ppn(input)?.map(value),
        Question::ParseNodes => scheme
            .parse_nodes(input, limits)?
            .map(|list| Answer::List(names(&list))),
        Question::ParseProcs => scheme
            .parse_procs(input, limits)?
            .map(|map| Answer::List(nodes(&map))),
        Question::GenerateRegex2 | Question::ParseRegex2 => {
            panic!("no vector asks a component for a regex2")
        }
    };
    Ok(answer.unwrap_or(Answer::Status(DECLINED)))
}

/// Returns the list text of the map in a generated value, with expanded ranks.
pub(crate) fn decode(
    record: &Record,
    library: Library,
    form: &str,
    bytes: &[u8],
) -> Result<Vec<Vec<u8>>, Error> {
    let preg = framework(library, "default");
    match record.question {
        Question::GenerateNodes => Ok(names(&preg.parse_nodes(bytes)?)),
        Question::GenerateProcs => Ok(nodes(&preg.parse_procs(bytes)?)),
        Question::GenerateRegex2 => {
            let text = preg.parse_regex(Regex2Ref { kind: form, bytes })?;
            Ok(vec![text])
        }
        _ => panic!("only generated values are decoded"),
    }
}

/// Returns the names of a node map.
fn names(list: &NodeList) -> Vec<Vec<u8>> {
    list.iter().map(|name| name.to_vec()).collect()
}

/// Returns the nodes of a process map, each as the text of its ranks.
fn nodes(map: &ProcMap) -> Vec<Vec<u8>> {
    let node = |index| {
        let ranks = map.ranks_of(index).into_iter().flatten();
        let ranks: Vec<_> = ranks.map(|rank| rank.as_raw().to_string()).collect();
        ranks.join(",").into_bytes()
    };
    (0..map.num_nodes()).map(node).collect()
}

/// A result, of a library or of this project.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The library crashed.
    Crash,
    /// A status other than success; -1366 declines.
    Status(i32),
    /// A generated value.
    Value { form: String, bytes: Vec<u8> },
    /// The length of a generated value whose bytes are not recorded.
    Length(u64),
    /// The elements of a decoded list.
    List(Vec<Vec<u8>>),
    /// The size and the ends of a long decoded list.
    Summary {
        count: u64,
        first: Vec<u8>,
        last: Vec<u8>,
    },
    /// The text of a regex2.
    Text(Vec<u8>),
}

impl Answer {
    /// Creates the result for a generated value.
    pub(crate) fn value(form: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self::Value {
            form: form.into(),
            bytes,
        }
    }

    /// Returns `true` if this project's result agrees with the library's.
    ///
    /// Compressed values agree if they have the same form and decode to the same list: two
    /// compressors may write different bytes.
    pub(crate) fn agrees(theirs: &Self, ours: &Self, record: &Record) -> bool {
        match (theirs, ours) {
            (
                Self::Value { form, bytes },
                Self::Value {
                    form: our_form,
                    bytes: our_bytes,
                },
            ) if form == our_form && matches!(form.as_str(), "blob" | "compress") => {
                let list = |bytes| decode(record, Library::Five, form, bytes);
                list(bytes).is_ok() && list(bytes) == list(our_bytes)
            }
            (Self::Length(len), Self::Value { bytes, .. }) => *len == bytes.len() as u64,
            (Self::Summary { count, first, last }, Self::List(list)) => {
                *count == list.len() as u64
                    && same_end(first, list.first())
                    && same_end(last, list.last())
            }
            _ => theirs == ours,
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash => f.write_str("crash"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Value { form, bytes } => write!(f, "{form} {}", shown(bytes)),
            Self::Length(len) => write!(f, "{len} bytes"),
            Self::List(list) => {
                let elements: Vec<_> = list.iter().take(12).map(|e| shown(e)).collect();
                write!(f, "list of {} [{}]", list.len(), elements.join(", "))
            }
            Self::Summary { count, first, last } => {
                write!(f, "list of {count} {}..{}", shown(first), shown(last))
            }
            Self::Text(text) => write!(f, "text {}", shown(text)),
        }
    }
}

/// Returns `true` if an element is the recorded one; of long elements only the beginning is
/// recorded.
fn same_end(recorded: &[u8], element: Option<&Vec<u8>>) -> bool {
    const KEPT: usize = 60;
    element.is_some_and(|element| element[..element.len().min(KEPT)] == *recorded)
}

/// Returns bytes as shortened text.
fn shown(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(100)];
    let rest = if head.len() < bytes.len() {
        format!("... ({} bytes)", bytes.len())
    } else {
        String::new()
    };
    format!("\"{}\"{rest}", head.escape_ascii())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser of the vectors.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER_PERMISSIVE;
use serde_json::Value;

use super::ask::Answer;

/// The two kinds of library, whose results differ with the default configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// 4.2.2: native before raw, and compression that is never used.
    Four,
    /// 5.0.11 and the seed: compress, raw, native.
    Five,
}

/// The kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    GenerateNodes,
    GenerateProcs,
    GenerateRegex2,
    ParseNodes,
    ParseProcs,
    ParseRegex2,
}

/// A line of a file.
pub(crate) struct Record {
    pub(crate) file: &'static str,
    pub(crate) case: String,
    pub(crate) api: String,
    pub(crate) config: String,
    pub(crate) producer: String,
    pub(crate) libraries: Vec<Library>,
    pub(crate) question: Question,
    /// The component that was called directly.
    pub(crate) component: Option<String>,
    /// The input; `None` if the vectors only have its digest.
    pub(crate) input: Option<Vec<u8>>,
    /// The type of a parsed regex2.
    pub(crate) kind: String,
    /// The list from which a parsed value was generated.
    pub(crate) list: Option<Vec<u8>>,
    pub(crate) expected: Answer,
}

impl Record {
    /// Returns the separator between the elements of a list.
    pub(crate) fn separator(&self) -> u8 {
        match self.question {
            Question::GenerateProcs | Question::ParseProcs => b';',
            Question::GenerateRegex2 | Question::ParseRegex2 if self.case.contains("proc/") => b';',
            _ => b',',
        }
    }

    /// Returns the place of the record for messages.
    pub(crate) fn name(&self) -> String {
        format!(
            "{}: case {} api {} config {} producer {}",
            self.file, self.case, self.api, self.config, self.producer
        )
    }
}

/// All records.
pub(crate) struct Corpus {
    pub(crate) records: Vec<Record>,
}

const FILES: &[&str] = &[
    "generate_ppn",
    "generate_regex",
    "nasty",
    "native",
    "parse",
    "regex2",
];

/// Returns the folder of the vectors.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/preg")
}

impl Corpus {
    /// Reads every file.
    pub(crate) fn read() -> Self {
        let raw: Vec<(&'static str, Value)> = FILES
            .iter()
            .flat_map(|file| lines(file).into_iter().map(move |line| (*file, line)))
            .collect();
        let mut reader = Reader {
            inputs: lines("inputs")
                .iter()
                .map(|r| (string(r, "id"), string(r, "input").into_bytes()))
                .collect(),
            lists: HashMap::new(),
            values: HashMap::new(),
        };
        for (_, line) in &raw {
            reader.remember(line);
        }
        let records = raw.iter().map(|(file, line)| reader.record(file, line));
        Self {
            records: records.collect(),
        }
    }
}

fn lines(file: &str) -> Vec<Value> {
    let path = folder().join(file).with_extension("jsonl");
    let text = std::fs::read_to_string(&path).expect("the vectors are in testdata/preg");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect()
}

fn string(record: &Value, key: &str) -> String {
    record[key].as_str().unwrap_or_default().to_owned()
}

/// Parses hexadecimal bytes; `NULL` is a null pointer, which has no bytes here.
fn hex(record: &Value, key: &str) -> Option<Vec<u8>> {
    let text = record[key].as_str()?;
    let text = if text == "NULL" { "" } else { text };
    let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes());
    Some(bytes.expect("hexadecimal digits"))
}

struct Reader {
    inputs: HashMap<String, Vec<u8>>,
    /// Lists by case, for records that only name their case.
    lists: HashMap<String, Vec<u8>>,
    /// Generated values by digest.
    values: HashMap<String, Vec<u8>>,
}

impl Reader {
    /// Stores data to which other records refer.
    fn remember(&mut self, line: &Value) {
        if let Some(list) = self.list_of(line) {
            if let Some(value) = output(line, &list) {
                self.values.insert(string(line, "output_sha256"), value);
            }
            self.lists.insert(string(line, "case"), list);
        }
    }

    fn list_of(&self, line: &Value) -> Option<Vec<u8>> {
        if let Some(inline) = line["input"].as_str() {
            return Some(inline.as_bytes().to_vec());
        }
        self.inputs.get(line["input_id"].as_str()?).cloned()
    }

    fn record(&self, file: &'static str, line: &Value) -> Record {
        let api = string(line, "api");
        let (component, call) = match api.split_once('.') {
            Some((component, call)) => (Some(component.to_owned()), call),
            None => (None, api.as_str()),
        };
        let question = match call {
            "generate_regex" | "generate_node_regex" => Question::GenerateNodes,
            "generate_ppn" => Question::GenerateProcs,
            "generate_regex2" => Question::GenerateRegex2,
            "parse_nodes" => Question::ParseNodes,
            "parse_procs" => Question::ParseProcs,
            "parse_regex2" => Question::ParseRegex2,
            other => panic!("an api {other} that this test does not know"),
        };
        let mut record = Record {
            file,
            case: string(line, "case"),
            config: line["config"].as_str().unwrap_or("default").to_owned(),
            producer: string(line, "producer"),
            libraries: libraries(line),
            question,
            component,
            kind: kind(line),
            input: None,
            list: None,
            expected: Answer::Status(0),
            api,
        };
        record.list = self
            .list_of(line)
            .or_else(|| self.lists.get(&record.case).cloned());
        record.input = self.input(line, &record);
        record.expected = expected(line, &record);
        record
    }

    /// Returns the input.
    fn input(&self, line: &Value, record: &Record) -> Option<Vec<u8>> {
        let encoded = ["encoded_hex", "input_hex", "bytes_hex"]
            .iter()
            .find_map(|key| hex(line, key));
        if encoded.is_some() {
            return encoded;
        }
        if let Some(digest) = line["encoded_sha256"].as_str() {
            let value = self.values.get(digest).cloned();
            return Some(value.unwrap_or_else(|| panic!("{}: unknown value", record.name())));
        }
        if let Some(len) = line["input_len"].as_u64() {
            let input = long_input(&record.case)?;
            assert_eq!(input.len() as u64, len, "{}", record.name());
            return Some(input);
        }
        self.list_of(line)
    }
}

/// Regenerates the inputs of `nasty.jsonl` that are recorded as a digest; the digests were
/// compared.
fn long_input(case: &str) -> Option<Vec<u8>> {
    let joined = |numbers: &mut dyn Iterator<Item = u32>, separator: &str| {
        let texts: Vec<_> = numbers.map(|n| n.to_string()).collect();
        texts.join(separator)
    };
    Some(match case {
        "gn/prefix8191-two" => [&[b'c'; 8191][..], b"1,", &[b'd'; 8191][..], b"1"].concat(),
        "gn/prefix8200-differ-tail" => {
            [&[b'e'; 8200][..], b"x1,", &[b'e'; 8200][..], b"y2"].concat()
        }
        "gn/name1MB" => vec![b'n'; 1_000_000],
        "gn/name1MB-digit" => [&b"n"[..], &[b'1'; 1_000_000][..]].concat(),
        "pn/ranges-2e4" => {
            let numbers = joined(&mut (0..40_000).step_by(2), ",");
            format!("pmix[n[6:{numbers}]]").into_bytes()
        }
        "pp/nodes-1e5" => format!("pmix[{}]", joined(&mut (0..100_000), ";")).into_bytes(),
        _ => return None,
    })
}

/// Returns the kinds of library that gave a record.
fn libraries(line: &Value) -> Vec<Library> {
    let others = line["same_output_from"].as_array();
    let names = others.into_iter().flatten().chain([&line["producer"]]);
    let mut found = Vec::new();
    for name in names {
        let library = match name.as_str() {
            Some("openpmix-4.2.2") => Library::Four,
            Some("openpmix-5.0.11" | "seed") => Library::Five,
            other => panic!("a producer {other:?} that this test does not know"),
        };
        if !found.contains(&library) {
            found.push(library);
        }
    }
    found
}

/// Returns the type tag of a parsed regex2.
fn kind(line: &Value) -> String {
    match hex(line, "type_hex") {
        Some(bytes) => String::from_utf8(bytes).expect("type tags are text"),
        None => string(line, "type"),
    }
}

/// Returns the bytes that a generator returned.
fn output(line: &Value, list: &[u8]) -> Option<Vec<u8>> {
    match line["output_is"].as_str() {
        Some("input") => Some(list.to_vec()),
        Some("raw:+input") => Some([b"raw:", list].concat()),
        Some("input+NUL") => Some([list, b"\0"].concat()),
        Some(other) => panic!("output_is {other:?}, which this test does not know"),
        None => hex(line, "output_hex"),
    }
}

/// Returns the result of the library.
fn expected(line: &Value, record: &Record) -> Answer {
    let Some(status) = line["status"].as_i64() else {
        return Answer::Crash;
    };
    if status != 0 {
        return Answer::Status(i32::try_from(status).expect("a status"));
    }
    let list = record.list.clone().unwrap_or_default();
    match record.question {
        Question::ParseRegex2 => match line["result"].as_str() {
            Some("input") => Answer::Text(list),
            _ => Answer::Text(hex(line, "output_hex").expect("a decoded text")),
        },
        Question::ParseNodes | Question::ParseProcs => parsed(line, record, &list),
        _ => match output(line, record.input.as_deref().unwrap_or_default()) {
            Some(bytes) => Answer::value(form(line, &bytes), bytes),
            // The output of the native generator for two huge names is recorded as a digest.
            None => Answer::Length(line["output_len"].as_u64().expect("a length")),
        },
    }
}

fn form(line: &Value, bytes: &[u8]) -> String {
    let by_tag = || {
        let tags = [("pmix[", "pmix"), ("raw:", "raw"), ("blob:\0", "blob")];
        let found = tags
            .iter()
            .find(|(tag, _)| bytes.starts_with(tag.as_bytes()));
        found.map_or("plain", |(_, form)| form)
    };
    line["type"].as_str().unwrap_or_else(by_tag).to_owned()
}

fn parsed(line: &Value, record: &Record, list: &[u8]) -> Answer {
    let result = &line["result"];
    if result == "same-as-input-list" {
        // The libraries omit empty elements, and the vectors treat both as equal.
        let elements: Vec<_> = list
            .split(|b| *b == record.separator())
            .filter(|element| !element.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        let count = line["count"].as_u64();
        assert_eq!(count, Some(elements.len() as u64), "{}", record.name());
        return Answer::List(elements);
    }
    if let Some(elements) = result.as_array() {
        let text = |e: &Value| e.as_str().expect("a name").as_bytes().to_vec();
        return Answer::List(elements.iter().map(text).collect());
    }
    if let Some(count) = result["count"].as_u64() {
        return Answer::Summary {
            count,
            first: string(result, "first").into_bytes(),
            last: string(result, "last").into_bytes(),
        };
    }
    assert!(
        result.is_null(),
        "{}: a result of another kind",
        record.name()
    );
    Answer::List(Vec::new())
}

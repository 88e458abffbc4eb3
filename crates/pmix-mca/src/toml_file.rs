// SPDX-License-Identifier: MIT OR Apache-2.0
//! `plugins.toml`: the same parameters, grouped by framework and component.
//!
//! `[framework]` contains `select` (the parameter `<framework>`) and the framework's own
//! parameters, `[framework.component]` those of one component, and `[[plugin]]` names a file to
//! load. The names of the tables and the key, joined with `_`, are the MCA name. Tables and types
//! are checked here. Names are checked after the plugins are loaded ([`crate::Catalog::check`]).

use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;
use toml::de::{DeTable, Deserializer as TomlDeserializer};

use crate::nearest::hint;
use crate::params::Section;
use crate::{Error, Kind, PluginFile, Source};

/// The frameworks that `plugins.toml` may configure.
pub(crate) const FRAMEWORKS: &[&str] = &["preg", "pcompress", "psec", "gds"];

/// The key of the list of plugin files.
const PLUGIN: &str = "plugin";

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct PluginsToml {
    pub(crate) values: Vec<Value>,
    pub(crate) sections: Vec<Section>,
    pub(crate) plugins: Vec<PluginFile>,
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Value {
    /// The MCA name.
    pub(crate) name: String,
    /// The key as written, with its tables.
    pub(crate) key: String,
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) source: Source,
}

/// A `[[plugin]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginEntry {
    path: Spanned<String>,
}

#[derive(Deserialize)]
struct PluginEntries {
    #[serde(default)]
    plugin: Vec<PluginEntry>,
}

/// Parses the text of a file.
pub(crate) fn parse(path: &Path, text: &str) -> Result<PluginsToml, Error> {
    let place = SourceFile { path, text };
    let document = DeTable::parse(text).map_err(|e| place.toml_error(&e))?;
    let tree = Tree::deserialize(TomlDeserializer::from(document.clone()));
    let tree = tree.map_err(|e| place.toml_error(&e))?;
    let mut file = PluginsToml::default();
    for (key, node) in tree.0 {
        let name = key.get_ref().as_str();
        match node.into_inner() {
            _ if name == PLUGIN => {}
            Node::Table(table) if FRAMEWORKS.contains(&name) => {
                framework(&place, name, table, &mut file)?;
            }
            _ if FRAMEWORKS.contains(&name) => {
                return Err(place.error(key.span(), format!("{name} is a table: write [{name}]")));
            }
            _ => {
                let known = FRAMEWORKS.iter().copied().chain([PLUGIN]);
                return Err(place.error(
                    key.span(),
                    format!("unknown table {name:?}{}", hint(name, known)),
                ));
            }
        }
    }
    let entries = PluginEntries::deserialize(TomlDeserializer::from(document));
    let entries = entries.map_err(|e| place.toml_error(&e))?;
    let directory = path.parent().unwrap_or_else(|| Path::new(""));
    file.plugins = entries
        .plugin
        .into_iter()
        .map(|entry| PluginFile {
            source: place.source(entry.path.span()),
            path: directory.join(entry.path.into_inner()),
        })
        .collect();
    Ok(file)
}

fn framework(
    place: &SourceFile,
    name: &str,
    table: Tree,
    file: &mut PluginsToml,
) -> Result<(), Error> {
    for (key, node) in table.0 {
        let word = key.get_ref();
        match node.into_inner() {
            Node::Table(inner) => {
                file.sections.push(Section {
                    framework: name.to_owned(),
                    component: word.clone(),
                    source: place.source(key.span()),
                });
                for (param, value) in inner.0 {
                    let words = [name, word, param.get_ref()];
                    let value = place.value(&param, &words, value.into_inner(), words.join("_"))?;
                    file.values.push(value);
                }
            }
            value => {
                let words = [name, word.as_str()];
                let mca_name = match words {
                    [framework, "select"] => framework.to_owned(),
                    _ => words.join("_"),
                };
                file.values
                    .push(place.value(&key, &words, value, mca_name)?);
            }
        }
    }
    Ok(())
}

/// A file that is being parsed: its path, for messages, and its text, for the line numbers in messages.
struct SourceFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl SourceFile<'_> {
    fn value(
        &self,
        key: &Spanned<String>,
        words: &[&str],
        node: Node,
        name: String,
    ) -> Result<Value, Error> {
        let (kind, text) = match node {
            Node::Flag(flag) => (Kind::Flag, flag.to_string()),
            Node::Number(number) => (Kind::Number, number.to_string()),
            Node::Text(text) => (Kind::Text, text),
            Node::List | Node::Table(_) => {
                let shown = words.join(".");
                let message = format!("{shown} takes one value: true, false, a number or text");
                return Err(self.error(key.span(), message));
            }
        };
        Ok(Value {
            name,
            key: words.join("."),
            kind,
            text,
            source: self.source(key.span()),
        })
    }

    fn source(&self, span: Range<usize>) -> Source {
        Source::File {
            path: self.path.to_path_buf(),
            line: self.line(span.start),
        }
    }

    fn line(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().iter().take(offset);
        1 + before.filter(|b| **b == b'\n').count()
    }

    fn error(&self, span: Range<usize>, message: String) -> Error {
        Error::new(format!("{}: {message}", self.source(span)))
    }

    fn toml_error(&self, error: &toml::de::Error) -> Error {
        let mut message = error.message().trim().replace('\n', ", ");
        if message.contains("$__toml_private_datetime") {
            // The parser represents a date as a table with a key that does not occur in the file.
            message = "a date is not a valid value here; write text in quotes".to_owned();
        }
        match error.span() {
            Some(span) => self.error(span, message),
            None => Error::new(format!("{}: {message}", self.path.display())),
        }
    }
}

/// A table with the ranges of its keys.
#[derive(Debug)]
struct Tree(Vec<(Spanned<String>, Spanned<Node>)>);

/// The types of values in `plugins.toml`.
#[derive(Debug)]
enum Node {
    Flag(bool),
    Number(i64),
    Text(String),
    List,
    Table(Tree),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Tree(entries))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, a whole number, text or a table")
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
                Ok(Node::Flag(flag))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
                Ok(Node::Number(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                Ok(Node::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Node::Table(Tree(entries)))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

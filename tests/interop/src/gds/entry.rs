// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job info of a host: keys with values, in the form of the vectors and of the peer program.

use serde_json::{Value, json};

use super::keys;
use crate::harness::hex;

/// The placeholder for the name of this node in jobs and answers.
pub(super) const THIS_HOST: &str = "THISHOST";

/// The keys of maps and identifiers, which say where the processes are or what an array describes.
const NAMES: [&str; 9] = [
    keys::NODE_MAP,
    keys::PROC_MAP,
    keys::ANL_MAP,
    keys::HOST_NAME,
    keys::NODE_ID,
    keys::RANK,
    keys::APP_NUM,
    keys::SESSION_ID,
    keys::ALIASES,
];

/// A value as the host passes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Text(String),
    Short(u16),
    Number(u32),
    Rank(u32),
    Flag(bool),
    /// A list that the library encodes itself.
    Nodes(String),
    Procs(String),
    /// A map that is already encoded.
    Regex(String),
    /// A list that our encoders put into a `PMIX_REGEX2` structure.
    Regex2(String),
    Infos(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: &'static str,
    pub(super) given: Given,
    /// `true` if the entry is a qualifier that distinguishes values of one key.
    pub(super) qualifier: bool,
}

/// Creates an entry.
pub(super) fn entry(key: &'static str, given: Given) -> Entry {
    Entry {
        key,
        given,
        qualifier: false,
    }
}

/// Creates a string entry.
pub(super) fn text(key: &'static str, value: &str) -> Entry {
    entry(key, Given::Text(value.to_owned()))
}

impl Given {
    /// The value of every text before an update.
    pub(super) const TEXT_BEFORE: &str = "of before";
    /// The difference of every number before an update.
    const MORE: u16 = 100;

    /// Returns the value of a number before an update.
    pub(super) fn number_before(number: u64) -> u64 {
        number + u64::from(Self::MORE)
    }

    /// Returns the name of the type in the vectors and in requests to the peer, and the text of the value.
    fn typed(&self) -> (&'static str, String) {
        match self {
            Self::Text(v) => ("str", v.clone()),
            Self::Short(v) => ("u16", v.to_string()),
            Self::Number(v) => ("u32", v.to_string()),
            Self::Rank(v) => ("rank", v.to_string()),
            Self::Flag(v) => ("bool", u8::from(*v).to_string()),
            Self::Nodes(v) => ("noderx", v.clone()),
            Self::Procs(v) => ("procrx", v.clone()),
            Self::Regex(v) => ("regex", v.clone()),
            Self::Regex2(v) => ("rx2", v.clone()),
            Self::Infos(_) => ("info_array", String::new()),
        }
    }

    /// Returns the answer to a get of this value, in the form of the vectors.
    pub(super) fn answer(&self) -> Value {
        match self {
            Self::Text(v) => json!({"data": v, "type": "PMIX_STRING", "type_id": 3}),
            Self::Short(v) => json!({"data": v, "type": "PMIX_UINT16", "type_id": 13}),
            Self::Number(v) => json!({"data": v, "type": "PMIX_UINT32", "type_id": 14}),
            Self::Rank(v) => json!({"data": v, "type": "PMIX_PROC_RANK", "type_id": 40}),
            Self::Flag(v) => json!({"data": v, "type": "PMIX_BOOL", "type_id": 1}),
            Self::Nodes(_) | Self::Procs(_) | Self::Regex(_) | Self::Regex2(_) | Self::Infos(_) => {
                Value::Null
            }
        }
    }
}

impl Entry {
    /// Returns an entry with the same key and another value, or an array for the same object with other values.
    pub(super) fn otherwise(&self) -> Self {
        let given = match &self.given {
            Given::Infos(infos) => Given::Infos(infos.iter().map(Self::otherwise).collect()),
            given if self.qualifier || NAMES.contains(&self.key) => given.clone(),
            Given::Text(_) => Given::Text(Given::TEXT_BEFORE.to_owned()),
            Given::Short(v) => Given::Short(v + Given::MORE),
            Given::Number(v) => Given::Number(v + u32::from(Given::MORE)),
            Given::Rank(v) => Given::Rank(v + u32::from(Given::MORE)),
            other => other.clone(),
        };
        Self {
            given,
            ..self.clone()
        }
    }

    /// Returns the entry in the form of the vectors.
    pub(super) fn json(&self) -> Value {
        let (kind, value) = self.given.typed();
        let value = match &self.given {
            Given::Infos(infos) => infos.iter().map(Self::json).collect(),
            _ => Value::from(value),
        };
        match self.qualifier {
            true => json!({"key": self.key, "type": kind, "value": value, "flags": QUALIFIER}),
            false => json!({"key": self.key, "type": kind, "value": value}),
        }
    }

    /// Returns the entry in the form of the peer program, on a node with this name.
    pub(super) fn words(&self, host: &str) -> String {
        let (kind, value) = self.given.typed();
        let mark = if self.qualifier { "?" } else { "" };
        match &self.given {
            Given::Infos(infos) => {
                let infos: Vec<_> = infos.iter().map(|e| e.words(host)).collect();
                format!("{mark}{} {kind} ( {} )", self.key, infos.join(" "))
            }
            _ => {
                let value = value.replace(THIS_HOST, host);
                format!("{mark}{} {kind} {}", self.key, hex(value.as_bytes()))
            }
        }
    }
}

/// Creates a qualifier, which distinguishes values of one key.
pub(super) fn qualifier(key: &'static str, value: &str) -> Entry {
    Entry {
        qualifier: true,
        ..text(key, value)
    }
}

/// The flag of a qualifier.
const QUALIFIER: u32 = 8;

/// Returns the value of a key, if the entries contain it.
pub(super) fn stated<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Given> {
    entries.iter().find(|e| e.key == key).map(|e| &e.given)
}

#[cfg(test)]
mod tests {
    use super::{Given, THIS_HOST, entry, text};

    #[test]
    fn the_peer_gets_nested_infos_in_parentheses_and_the_real_host() {
        let infos = vec![
            text("pmix.hname", THIS_HOST),
            entry("pmix.pmem", Given::Number(7)),
        ];
        let node = entry("pmix.node.arr", Given::Infos(infos));
        assert_eq!(
            node.words("vm"),
            "pmix.node.arr info_array ( pmix.hname str 766d pmix.pmem u32 37 )"
        );
        assert_eq!(
            node.json().to_string(),
            r#"{"key":"pmix.node.arr","type":"info_array","value":[{"key":"pmix.hname","type":"str","value":"THISHOST"},{"key":"pmix.pmem","type":"u32","value":"7"}]}"#
        );
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loadable plugin with an encoder for lists whose names share a prefix.
//!
//! It encodes `node01,node02,node03` as `prefix:5:node01,2,3`: the length of the prefix, the prefix, and the rest of
//! each name. The parameter `preg_prefix_min_names` is the least number of names for which it encodes a list.
#![forbid(unsafe_code)]

use preg_core::{
    Component, Error, Limits, NodeList, NodeListBuilder, ParamSpec, Params, Regex2, Regex2Ref,
    Scheme,
};

/// The component's description.
pub static COMPONENT: Component = Component {
    name: NAME,
    priority: 120,
    enabled: true,
    tag: TAG,
    about: "lists whose names share their beginning",
    params: &[ParamSpec {
        name: "preg_prefix_min_names",
        default: "2",
        help: "encode lists of at least this many names",
    }],
    query,
};

preg_core::export_component!(COMPONENT);

const NAME: &str = "prefix";
const TAG: &[u8] = b"prefix:";

/// Creates the scheme from the parameters.
fn query(params: &Params) -> Result<Option<Box<dyn Scheme>>, Error> {
    let min_names = params.size("preg_prefix_min_names", 2)?.max(2);
    Ok(Some(Box::new(Prefix { min_names })))
}

struct Prefix {
    min_names: u64,
}

impl Prefix {
    /// Returns `LENGTH:PREFIX` and the rests, or `None` for a list that does not pay.
    fn encode(&self, list: &[u8]) -> Option<Vec<u8>> {
        let mut names = list.split(|b| *b == b',');
        let first = names.next()?;
        let mut shared = first.len();
        let mut count = 1;
        for name in names {
            let same = first.iter().zip(name).take_while(|(a, b)| a == b);
            shared = shared.min(same.count());
            count += 1;
        }
        // A NUL would end the value early.
        if shared == 0 || count < self.min_names || list.contains(&0) {
            return None;
        }
        let (beginning, _) = first.split_at_checked(shared)?;
        let mut value = format!("{shared}:").into_bytes();
        value.extend_from_slice(beginning);
        for (index, name) in list.split(|b| *b == b',').enumerate() {
            if index > 0 {
                value.push(b',');
            }
            value.extend_from_slice(name.get(shared..)?);
        }
        Some(value)
    }

    /// Decodes a value of `encode`; `base` is its offset in the whole value, for messages.
    fn decode(text: &[u8], base: usize, limits: &Limits) -> Result<NodeList, Error> {
        let damaged = |at: usize, what: &str| Error::damaged(base + at, what);
        let colon = text.iter().position(|b| *b == b':');
        let colon = colon.ok_or_else(|| damaged(text.len(), "expected a length and `:`"))?;
        let (digits, rest) = text.split_at(colon);
        let shared: usize = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| damaged(0, "expected the length of the common beginning"))?;
        let rest = rest.get(1..).unwrap_or_default();
        let (beginning, rests) = rest
            .split_at_checked(shared)
            .ok_or_else(|| damaged(text.len(), "the value ends within the common beginning"))?;
        let mut builder = NodeListBuilder::new(limits);
        for rest in rests.split(|b| *b == b',') {
            builder.name(&[beginning, rest].concat())?;
        }
        Ok(builder.finish())
    }
}

impl Scheme for Prefix {
    fn name(&self) -> &str {
        NAME
    }

    fn tag(&self) -> &[u8] {
        TAG
    }

    fn framing(&self) -> &str {
        NAME
    }

    fn kind(&self) -> Option<&str> {
        Some(NAME)
    }

    fn generate_regex(&self, list: &[u8]) -> Result<Option<Regex2>, Error> {
        Ok(self.encode(list).map(|bytes| Regex2::new(NAME, bytes)))
    }

    fn parse_regex(&self, regex: Regex2Ref<'_>, limits: &Limits) -> Result<Option<Vec<u8>>, Error> {
        if regex.kind != NAME {
            return Ok(None);
        }
        let mut text = Vec::new();
        Self::decode(regex.bytes, 0, limits)?.write_text(b',', &mut text);
        Ok(Some(text))
    }

    fn generate_node_regex(&self, list: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.encode(list).map(|value| [TAG, &value].concat()))
    }

    fn parse_nodes(&self, regex: &[u8], limits: &Limits) -> Result<Option<NodeList>, Error> {
        match regex.strip_prefix(TAG) {
            Some(text) => Self::decode(text, TAG.len(), limits).map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let prefix = Prefix { min_names: 2 };
        let value = prefix.generate_node_regex(b"node01,node02,node0").unwrap();
        assert_eq!(value.as_deref(), Some(&b"prefix:5:node01,2,"[..]));
        let list = prefix
            .parse_nodes(&value.unwrap(), &Limits::default())
            .unwrap();
        let names: Vec<_> = list.unwrap().iter().collect();
        assert_eq!(
            names,
            [b"node01".to_vec(), b"node02".to_vec(), b"node0".to_vec()]
        );
    }

    #[test]
    fn lists_that_share_nothing_are_declined() {
        let prefix = Prefix { min_names: 3 };
        for list in [&b""[..], b"n1", b"n1,n2", b"a1,b1,c1", b"n1,,n2"] {
            assert_eq!(prefix.generate_node_regex(list).unwrap(), None);
        }
    }

    #[test]
    fn damage_is_an_error_with_its_place() {
        let at = |value: &[u8]| {
            let prefix = Prefix { min_names: 2 };
            let error = prefix.parse_nodes(value, &Limits::default()).unwrap_err();
            error.offset()
        };
        assert_eq!(at(b"prefix:5"), Some(8));
        assert_eq!(at(b"prefix:x:n1"), Some(7));
        assert_eq!(at(b"prefix:9:n1"), Some(11));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The YAML files of ClusterShell: sources, each with groups, each with a list of nodes.
//!
//! Source: <https://clustershell.readthedocs.io/en/latest/config.html>, "File-based group sources".

use saphyr_parser::{Event, Parser, ScalarStyle};

/// The groups of a file: source, group and nodes.
pub(super) type Entries = Vec<(String, String, String)>;

/// Parses the groups of a file. References to other parts of the file are errors, so that the result is not larger
/// than the file.
///
/// # Errors
/// A message with the number of the line.
pub(super) fn parse(text: &str) -> Result<Entries, String> {
    let mut entries = Vec::new();
    // The keys of the open mappings: source, then group.
    let mut keys: Vec<Option<String>> = Vec::new();
    let mut list: Option<Vec<String>> = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        let line = span.start.line();
        let fault = |why: &str| Err(format!("line {line}: {why}"));
        match event {
            Event::MappingStart(..) if list.is_none() && keys.len() < 2 => match keys.last() {
                Some(None) => return fault("a name was expected"),
                _ => keys.push(None),
            },
            Event::MappingStart(..) => {
                return fault("groups are not nested deeper than SOURCE, GROUP");
            }
            Event::MappingEnd => {
                keys.pop();
                if let Some(key) = keys.last_mut() {
                    *key = None;
                }
            }
            Event::SequenceStart(..)
                if list.is_none() && matches!(keys[..], [Some(_), Some(_)]) =>
            {
                list = Some(Vec::new());
            }
            Event::SequenceStart(..) => {
                return fault("a list of nodes must be the value of a group");
            }
            Event::SequenceEnd => {
                let nodes = list.take().unwrap_or_default().join(",");
                if let [Some(source), group] = &mut keys[..]
                    && let Some(group) = group.take()
                {
                    entries.push((source.clone(), group, nodes));
                }
            }
            Event::Scalar(value, style, ..) => {
                let is_plain = style == ScalarStyle::Plain;
                let is_null = is_plain && matches!(&*value, "" | "~" | "null" | "Null" | "NULL");
                let value = if is_null {
                    String::new()
                } else {
                    value.into_owned()
                };
                match (&mut list, &mut keys[..]) {
                    (Some(list), _) => list.push(value),
                    (None, [.., key @ None]) => *key = Some(value),
                    (None, [Some(source), group]) => {
                        let group = group.take().unwrap_or_default();
                        entries.push((source.clone(), group, value));
                    }
                    // A file without groups has an empty document.
                    (None, []) if is_null => {}
                    (None, []) => return fault("`SOURCE:` was expected"),
                    (None, _) => {
                        return fault(
                            "a source must have groups: `GROUP: NODES` on the next lines",
                        );
                    }
                }
            }
            Event::Alias(_) => return fault("references (*NAME) are not supported"),
            _ => {}
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match parse(text) {
            Ok(entries) => {
                let shown = |(source, group, nodes): &(String, String, String)| {
                    format!("{source}:{group}={nodes}")
                };
                entries.iter().map(shown).collect::<Vec<_>>().join(" ")
            }
            Err(why) => why,
        }
    }

    #[test]
    fn sources_have_groups() {
        let text = "# racks\nracks:\n  r1: 'n[1-4]'\n  r2: \"n[5-8]\"\n  all: '@r1,@r2'\nroles:\n  adm: login\n  none:\n  gpu: [g1, 'g[2-3]']\n  many:\n    - a\n    - b\n";
        let expected = "racks:r1=n[1-4] racks:r2=n[5-8] racks:all=@r1,@r2 roles:adm=login roles:none= \
                        roles:gpu=g1,g[2-3] roles:many=a,b";
        assert_eq!(parsed(text), expected);
        assert_eq!(parsed(""), "");
        assert_eq!(parsed("# nothing\n"), "");
    }

    #[test]
    fn other_files_are_errors_with_a_line() {
        for (text, expected) in [
            ("racks: n1\n", "line 1: a source must have groups"),
            (
                "- a\n",
                "line 1: a list of nodes must be the value of a group",
            ),
            ("word\n", "line 1: `SOURCE:` was expected"),
            (
                "a:\n  b:\n    c: d\n",
                "line 3: groups are not nested deeper",
            ),
            ("a:\n  b: &x n1\n  c: *x\n", "line 3: references"),
            ("a:\n  b: 'n1\n", "line 2"),
            ("a:\n  b: [n1, [n2]]\n", "line 2: a list of nodes must be"),
            ("? {a: b}\n: c\n", "line 1: a name was expected"),
        ] {
            let found = parsed(text);
            assert!(found.contains(expected), "{text:?}: {found}");
        }
        // Nesting costs no stack.
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&"a: {".repeat(100_000)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a*&:, \\-\\[\\]{}'\"\n?|>!%#]{0,24}") {
            let _ = parse(&text);
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The format of `groups.conf`: sections with keys, as Python's `configparser` reads them.

/// A section: its name, and its keys in lower case with their values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) values: Vec<(String, String)>,
}

impl Section {
    /// Returns the last value of a key.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        let mut values = self.values.iter().rev();
        values
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.as_str())
    }
}

/// Parses all sections.
///
/// # Errors
/// The number of a line that has no key, or is before the first section.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, usize> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        let fault = index + 1;
        if let Some(name) = content
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            && !line.starts_with([' ', '\t'])
        {
            let name = name.trim().to_owned();
            sections.push(Section {
                name,
                values: Vec::new(),
            });
            continue;
        }
        let section = sections.last_mut().ok_or(fault)?;
        if line.starts_with([' ', '\t'])
            && let Some((_, value)) = section.values.last_mut()
        {
            value.push('\n');
            value.push_str(content);
            continue;
        }
        let (key, value) = content.split_once([':', '=']).ok_or(fault)?;
        let key = key.trim().to_ascii_lowercase();
        section.values.push((key, value.trim().to_owned()));
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_keys_and_continued_values() {
        let text =
            "# all\n[Main]\ndefault: local\nautodir = /a\n   /b\n\n[x,y]\nmap: sed 's/a:/b/' [c]\n";
        let sections = parse(text).unwrap();
        assert_eq!(sections[0].name, "Main");
        assert_eq!(sections[0].value("default"), Some("local"));
        assert_eq!(sections[0].value("autodir"), Some("/a\n/b"));
        assert_eq!(sections[1].name, "x,y");
        assert_eq!(sections[1].value("map"), Some("sed 's/a:/b/' [c]"));
        assert_eq!(parse("a: b"), Err(1));
        assert_eq!(parse("[a]\nword\n"), Err(2));
    }
}

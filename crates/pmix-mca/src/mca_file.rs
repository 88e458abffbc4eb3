// SPDX-License-Identifier: MIT OR Apache-2.0
//! MCA parameter files: one `name = value` per line.
//!
//! The format is that of OpenPMIx (its `docs/mca.rst`). The value is the rest of the line without
//! blanks at its ends. Quotes and `#` are part of the value. Comments (`#`, `//`, `/* */`) are at
//! the start of a line. The undocumented `-mca name value` is parsed as well. `-x` lines, which set
//! variables of processes to be started, are ignored.

/// A line with content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The line number, counted from one.
    pub(crate) number: usize,
    /// The name and the value, or the error.
    pub(crate) content: Result<(String, String), &'static str>,
}

/// Returns the lines of a file that are neither empty nor comments.
pub(crate) fn parse(text: &str) -> Vec<Line> {
    let mut in_comment = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(rest) = without_comments(line, &mut in_comment) else {
            continue;
        };
        if let Some(content) = read(rest) {
            lines.push(Line {
                number: index + 1,
                content,
            });
        }
    }
    lines
}

/// Returns a line without its leading comments, or `None` if nothing remains.
fn without_comments<'a>(line: &'a str, in_comment: &mut bool) -> Option<&'a str> {
    let mut rest = line;
    loop {
        if *in_comment {
            rest = rest.split_once("*/")?.1;
            *in_comment = false;
        }
        rest = rest.trim();
        if rest.is_empty() || rest.starts_with('#') || rest.starts_with("//") {
            return None;
        }
        match rest.strip_prefix("/*") {
            Some(inside) => {
                rest = inside;
                *in_comment = true;
            }
            None => return Some(rest),
        }
    }
}

fn read(line: &str) -> Option<Result<(String, String), &'static str>> {
    let directive = line.strip_prefix("--").or_else(|| line.strip_prefix('-'));
    if let Some((word, rest)) = directive.and_then(|d| d.split_once([' ', '\t'])) {
        match word {
            "mca" => return Some(read_directive(rest)),
            "x" => return None,
            _ => {}
        }
    }
    Some(read_assignment(line))
}

fn read_assignment(line: &str) -> Result<(String, String), &'static str> {
    let (name, value) = line.split_once('=').ok_or("expected `name = value`")?;
    checked(name.trim(), value.trim())
}

fn read_directive(rest: &str) -> Result<(String, String), &'static str> {
    let (name, value) = rest
        .trim()
        .split_once([' ', '\t'])
        .ok_or("expected a name and a value after -mca")?;
    let value = value.trim();
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    checked(name, unquoted.unwrap_or(value))
}

fn checked(name: &str, value: &str) -> Result<(String, String), &'static str> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() {
        return Err("no parameter name before the `=`");
    }
    if !name.chars().all(legal) {
        return Err("a parameter name has letters, digits, `_`, `-` and `.` only");
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Result<(String, String), &'static str> {
        let mut lines = parse(text);
        assert_eq!(lines.len(), 1, "{text:?}");
        lines.remove(0).content
    }

    #[test]
    fn the_value_is_the_rest_of_the_line() {
        let value = |text| only(text).map(|(_, value)| value);
        assert_eq!(value("preg = raw,native"), Ok("raw,native".to_owned()));
        assert_eq!(
            value("preg=\"raw\" # no comment\r\n"),
            Ok("\"raw\" # no comment".to_owned())
        );
        assert_eq!(value("  preg\t=\t"), Ok(String::new()));
        assert_eq!(value("preg = a=b"), Ok("a=b".to_owned()));
        assert_eq!(value("-mca preg 'raw,native'"), Ok("raw,native".to_owned()));
    }

    #[test]
    fn ignores_comments_and_foreign_directives() {
        let text = "# preg = raw\n\n// preg = raw\n/* preg = raw\npreg = raw */\n-x preg=raw\n";
        assert_eq!(parse(text), []);
        assert_eq!(parse("/* a */ /* b */ preg = raw")[0].number, 1);
        assert_eq!(parse("/*\n*/ preg = raw")[0].number, 2);
    }

    #[test]
    fn ignores_malformed_lines_completely() {
        for text in ["preg raw", "= raw", "a:b = 1", "p r = 1", "-mca preg"] {
            assert!(only(text).is_err(), "{text:?}");
        }
    }
}

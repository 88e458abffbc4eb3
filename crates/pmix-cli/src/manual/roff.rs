// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conversion of Markdown to the format of man(1).
//!
//! Source: groff_man(7).

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A part of a document, from one heading to the next of its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section<'t> {
    /// The heading.
    pub(super) title: &'t str,
    /// The text of the section.
    pub(super) text: &'t str,
}

/// Returns the sections of a document at a level of headings.
pub(super) fn sections(document: &str, level: usize) -> Vec<Section<'_>> {
    let mark = format!("{} ", "#".repeat(level));
    let mut starts = Vec::new();
    let (mut at, mut is_code) = (0, false);
    for line in document.split_inclusive('\n') {
        is_code ^= line.starts_with("```");
        if let Some(title) = line.strip_prefix(&*mark)
            && !is_code
        {
            starts.push((at, at + line.len(), title.trim()));
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(start, ..)| *start);
    let ends: Vec<_> = ends.chain([document.len()]).collect();
    let parts = starts.into_iter().zip(ends);
    let part = |((_, body, title), end)| Section {
        title,
        text: document.get(body..end).unwrap_or_default(),
    };
    parts.map(part).collect()
}

/// Converts a document to roff. Headings become subsections, and each row of a table becomes a term
/// with a description.
pub(super) fn text(markdown: &str) -> String {
    let mut writer = Writer::default();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        writer.take(event);
    }
    writer.page
}

#[derive(Default)]
struct Writer {
    page: String,
    /// The line that is being written.
    line: String,
    /// The nesting depth of lists.
    depth: usize,
    /// The cells of the row that is being read.
    cells: Vec<String>,
    is_code: bool,
}

impl Writer {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_code => self.code(&text),
            Event::Text(text) => self.line.push_str(&escaped(&text)),
            Event::Code(text) => {
                let text = breakable(&escaped(&text));
                self.line.push_str(&format!("\\fB{text}\\fR"));
            }
            Event::SoftBreak | Event::HardBreak => self.line.push(' '),
            _ => {}
        }
    }

    fn begin(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Paragraph if self.depth == 0 => self.request(".PP"),
            Tag::CodeBlock(_) => {
                self.flush();
                self.request(".PP\n.RS 4\n.nf");
                self.is_code = true;
            }
            Tag::List(_) => {
                self.flush();
                self.depth += 1;
            }
            Tag::Item => self.request(".IP \\(bu 2"),
            Tag::Strong => self.line.push_str("\\fB"),
            Tag::Emphasis => self.line.push_str("\\fI"),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                let title = std::mem::take(&mut self.line).replace('"', "\\(dq");
                self.request(&format!(".SS \"{title}\""));
            }
            TagEnd::Paragraph | TagEnd::Item => self.flush(),
            TagEnd::CodeBlock => {
                self.is_code = false;
                self.request(".fi\n.RE");
            }
            TagEnd::List(_) => {
                self.flush();
                self.depth = self.depth.saturating_sub(1);
            }
            TagEnd::Strong | TagEnd::Emphasis => self.line.push_str("\\fR"),
            TagEnd::TableCell => self.cells.push(std::mem::take(&mut self.line)),
            TagEnd::TableHead => self.cells.clear(),
            TagEnd::TableRow => self.row(),
            _ => {}
        }
    }

    /// Writes a row of a table: the first cell as a term, the other cells as its description.
    fn row(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        let mut cells = cells.into_iter().filter(|cell| !cell.is_empty());
        self.request(".TP");
        self.line = cells.next().unwrap_or_default();
        self.flush();
        self.line = cells.collect::<Vec<_>>().join("; ");
        self.flush();
    }

    fn code(&mut self, text: &str) {
        for line in text.lines() {
            self.line = escaped(line);
            if self.line.is_empty() {
                self.page.push('\n');
            }
            self.flush();
        }
    }

    /// Writes a request on a separate line.
    fn request(&mut self, request: &str) {
        self.flush();
        self.page.push_str(request);
        self.page.push('\n');
    }

    /// Writes the line. Escapes its beginning if it would be a request.
    fn flush(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = if self.is_code {
            line.as_str()
        } else {
            line.trim()
        };
        if line.is_empty() {
            return;
        }
        if line.starts_with(['.', '\'']) {
            self.page.push_str("\\&");
        }
        self.page.push_str(line);
        self.page.push('\n');
    }
}

/// Escapes text. Hyphens are written so that they can be copied, and characters outside of ASCII as
/// numbers, which work in any locale.
fn escaped(text: &str) -> String {
    let mut to = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => to.push_str("\\e"),
            '-' => to.push_str("\\-"),
            c if c.is_ascii() => to.push(c),
            c => to.push_str(&format!("\\[u{:04X}]", u32::from(c))),
        }
    }
    to
}

/// Returns a word of code. A long word, such as a JSON form, gets break points after commas and
/// bars.
fn breakable(code: &str) -> String {
    const LONG: usize = 40;
    match code.len() < LONG {
        true => code.to_owned(),
        false => code.replace(',', ",\\:").replace('|', "|\\:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_converted_to_roff() {
        let page = text(
            "A `word` of -- [text](x.md), and\nanother\u{2026}\n\n- one\n- `.two`\n\n```\n.code  \\x\n\nend\n```\n\n\
             | name | what |\n| --- | --- |\n| `a` | first |\n\n### Part \"1\"\n\n'quoted'\n",
        );
        assert_eq!(
            page,
            ".PP\nA \\fBword\\fR of \\-\\- text, and another\\[u2026]\n.IP \\(bu 2\none\n.IP \\(bu 2\n\
             \\fB.two\\fR\n.PP\n.RS 4\n.nf\n\\&.code  \\ex\n\nend\n.fi\n.RE\n.TP\n\\fBa\\fR\nfirst\n\
             .SS \"Part \\(dq1\\(dq\"\n.PP\n\\&'quoted'\n"
        );
    }

    #[test]
    fn long_code_goes_on_in_the_next_line() {
        let long = "`{\"nspace\",\"name\",\"other\":1|2,\"and\",\"further\"}`";
        let page = text(long);
        assert!(page.contains("\"other\":1|\\:2,\\:\"and\""), "{page}");
        assert_eq!(text("`a,b|c`"), ".PP\n\\fBa,b|c\\fR\n");
    }

    #[test]
    fn a_document_falls_into_its_sections() {
        let document = "# Top\n\n## One\na\n### Inner\n```\n## none\n```\n## Two\nb\n";
        let found: Vec<_> = sections(document, 2)
            .iter()
            .map(|section| (section.title, section.text))
            .collect();
        assert_eq!(
            found,
            [("One", "a\n### Inner\n```\n## none\n```\n"), ("Two", "b\n")]
        );
    }
}

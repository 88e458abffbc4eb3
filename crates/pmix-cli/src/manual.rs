// SPDX-License-Identifier: MIT OR Apache-2.0
//! Manual pages, generated from the parser and from docs/cli.md.
//!
//! Source: man-pages(7), the sections of a page and their order. The text of docs/cli.md is in the additional
//! sections USE and DETAILS.

mod roff;

use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::args::Cli;
use roff::{Section, sections, text};

/// The documents for users about the commands and the JSON form of data.
const COMMANDS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/cli.md"));
const JSON: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/json.md"));

/// A page: the name of its file, and its text for man(1).
pub(crate) struct Page {
    pub(crate) file: String,
    pub(crate) text: String,
}

impl Page {
    /// Returns the section of the manual that the page belongs to.
    pub(crate) fn section(&self) -> &str {
        self.file.rsplit('.').next().unwrap_or_default()
    }
}

/// The chapters that belong to other commands than the one in their heading.
const CHAPTERS: &[(&str, &[&str])] = &[
    ("encode", &["pmix-map-encode"]),
    ("decode", &["pmix-map-decode"]),
    ("convert", &["pmix-map-convert"]),
    ("count and nth", &["pmix-map-count", "pmix-map-nth"]),
    (
        "Set work",
        &[
            "pmix-map-fold",
            "pmix-map-sort",
            "pmix-map-unique",
            "pmix-map-union",
            "pmix-map-minus",
            "pmix-map-intersection",
            "pmix-map-xor",
            "pmix-map-slice",
            "pmix-map-split",
            "pmix-map-chop",
            "pmix-map-pick",
            "pmix-map-position",
            "pmix-map-groups",
            "pmix-map-regroup",
        ],
    ),
    ("diff", &["pmix-map-diff"]),
    ("explain", &["pmix-map-explain"]),
    ("size", &["pmix-map-size"]),
    ("verify", &["pmix-map-verify"]),
    ("where and who", &["pmix-map-where", "pmix-map-who"]),
    ("draw", &["pmix-map-draw"]),
    ("batch", &["pmix-map-batch"]),
    ("wire decode", &["pmix-wire-decode"]),
    ("wire encode", &["pmix-wire-encode"]),
    ("wire --jsonl", &["pmix-wire-decode", "pmix-wire-encode"]),
    ("publish and lookup", &["pmix-publish", "pmix-lookup"]),
    (
        "plugins",
        &["pmix-plugins", "pmix-plugins-list", "pmix-plugins-check"],
    ),
    (
        "Completions and manual pages",
        &["pmix-completions", "pmix-man"],
    ),
    ("Options of every command", &["pmix"]),
    ("What is a map", &[MAPS]),
];

/// The request for left-aligned text. Justified lines with JSON and lists of names would have wide
/// gaps.
const RAGGED: &str = ".ad l\n";

/// The pages that do not describe a command.
const MAPS: &str = "pmix-maps";
const FORM: &str = "pmix-json";
const LAUNCHERS: &str = "pmix-launchers";

/// Returns all pages: `pmix`, one for each of its commands, the grammar of maps, the JSON form, and the options of other
/// launchers.
pub(crate) fn pages() -> Vec<Page> {
    let chapters = sections(COMMANDS, 2);
    let mut pages = Vec::new();
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut due = vec![root];
    while let Some(command) = due.pop() {
        let inside = command.get_subcommands().filter(|one| !one.is_hide_set());
        due.extend(inside.cloned());
        pages.push(command_page(command, &chapters));
    }
    pages.push(topic(
        MAPS,
        "node maps and process maps, as pmix reads them",
        &about(MAPS, &chapters),
    ));
    let form = sections(JSON, 1).into_iter().collect::<Vec<_>>();
    pages.push(topic(FORM, "PMIx data as JSON", &form));
    let launchers = crate::run::habits::page::page();
    pages.push(topic(
        LAUNCHERS,
        "options of mpirun, srun and other launchers in pmix run",
        &sections(&launchers, 1),
    ));
    pages.sort_by(|one, other| one.file.cmp(&other.file));
    pages
}

/// Returns the page of the command itself.
pub(crate) fn first_page() -> String {
    let page = pages().into_iter().find(|page| page.file == "pmix.1");
    page.map(|page| page.text).unwrap_or_default()
}

/// Returns the chapters that belong to a page.
fn about<'t>(page: &str, chapters: &[Section<'t>]) -> Vec<Section<'t>> {
    let is_about = |chapter: &&Section<'_>| {
        let listed = CHAPTERS.iter().find(|(title, _)| *title == chapter.title);
        match listed {
            Some((_, pages)) => pages.contains(&page),
            None => page.strip_prefix("pmix-") == Some(chapter.title),
        }
    };
    chapters.iter().filter(is_about).copied().collect()
}

fn command_page(command: clap::Command, chapters: &[Section<'_>]) -> Page {
    let name = command.get_display_name().unwrap_or("pmix").to_owned();
    let is_first = name == "pmix";
    let has_commands = command.get_subcommands().any(|one| !one.is_hide_set());
    let behind = command.get_after_help().map(ToString::to_string);
    let source = format!("pmix {}", env!("CARGO_PKG_VERSION"));
    let usage = usage_of(&command);
    let man = Man::new(command).manual("pmix-rs").source(source);
    let mut page = Vec::new();
    // Writing into a buffer cannot fail.
    let _ = man.render_title(&mut page);
    page.extend(RAGGED.bytes());
    let _ = man.render_name_section(&mut page);
    page.extend(format!(".SH SYNOPSIS\n{}", text(&usage)).bytes());
    let _ = man.render_description_section(&mut page);
    if has_commands {
        let _ = man.render_subcommands_section(&mut page);
    }
    let _ = man.render_options_section(&mut page);
    for (title, part) in sections_after_help(behind.as_deref().unwrap_or_default()) {
        // On the first page, the text of docs/cli.md already has these sections.
        if !is_first {
            page.extend(format!(".SH {title}\n{}", text(&part)).bytes());
        }
    }
    // clap_mangen repeats the definition of the apostrophe in each section.
    let page = String::from_utf8_lossy(&page);
    let (apostrophe, _) = page.split_once(".TH").unwrap_or_default();
    let mut page = format!("{apostrophe}{}", page.replace(apostrophe, ""));
    for chapter in about(&name, chapters) {
        let title = match is_first {
            true => "USE",
            false => "DETAILS",
        };
        section(&mut page, title, chapter);
    }
    if is_first {
        for (part, title) in OWN_SECTIONS {
            page = page.replace(&format!(".SS \"{part}\""), &format!(".SH {title}"));
        }
    }
    let mut others = vec![(MAPS, 7), (FORM, 7)];
    if !is_first {
        others.insert(0, ("pmix", 1));
    }
    if name == "pmix-run" {
        others.push((LAUNCHERS, 7));
    }
    see_also(&mut page, &others);
    Page {
        file: format!("{name}.1"),
        text: page,
    }
}

/// The chapters of docs/cli.md for which man-pages(7) has sections.
const OWN_SECTIONS: [(&str, &str); 3] = [
    ("Environment", "ENVIRONMENT"),
    ("Files", "FILES"),
    ("Exit codes", "\"EXIT STATUS\""),
];

/// Returns the sections after the options in the help of a command, with their text as Markdown.
fn sections_after_help(help: &str) -> Vec<(&'static str, String)> {
    let parts = help.split("\n\n").map(str::trim_end);
    let parts = parts.filter(|part| !part.is_empty()).map(|part| {
        for begin in ["Examples:", "For example:"] {
            if let Some(examples) = part.strip_prefix(begin) {
                let lines = examples.lines().map(str::trim).filter(|l| !l.is_empty());
                let lines = lines.collect::<Vec<_>>().join("\n");
                return ("EXAMPLES", format!("```\n{lines}\n```\n"));
            }
        }
        match part.strip_prefix("Exit codes: ") {
            Some(codes) => ("\"EXIT STATUS\"", codes.to_owned()),
            None => ("NOTES", part.to_owned()),
        }
    });
    parts.collect()
}

/// Returns a page of section 7.
fn topic(name: &str, about: &str, chapters: &[Section<'_>]) -> Page {
    let version = env!("CARGO_PKG_VERSION");
    let title = name.to_ascii_uppercase();
    let mut page = format!(".TH \"{title}\" 7 \"\" \"pmix {version}\" \"pmix-rs\"\n");
    page.push_str(&format!("{RAGGED}.SH NAME\n"));
    page.push_str(&format!("{} \\- {about}\n", name.replace('-', "\\-")));
    for chapter in chapters {
        section(&mut page, "DESCRIPTION", *chapter);
    }
    let other = if name == MAPS { FORM } else { MAPS };
    see_also(&mut page, &[("pmix", 1), (other, 7)]);
    Page {
        file: format!("{name}.7"),
        text: page,
    }
}

/// Returns the usage lines of a command from its help, which shows the values of options.
fn usage_of(command: &clap::Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines();
    let lines = usage.map(|line| format!("`{}`\n\n", line.trim()));
    lines.collect()
}

fn section(page: &mut String, title: &str, chapter: Section<'_>) {
    page.push_str(&format!(".SH {title}\n"));
    page.push_str(&text(chapter.text));
}

fn see_also(page: &mut String, others: &[(&str, u8)]) {
    let others = others.iter().map(|(name, section)| {
        let name = name.replace('-', "\\-");
        format!("\\fB{name}\\fR({section})")
    });
    let others = others.collect::<Vec<_>>().join(", ");
    page.push_str(&format!(".SH \"SEE ALSO\"\n{others}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chapter_is_in_a_page_and_every_command_has_one() {
        let pages = pages();
        let files: Vec<_> = pages.iter().map(|page| page.file.as_str()).collect();
        let is_page = |name: &str| {
            let has = |section| files.contains(&format!("{name}.{section}").as_str());
            has(1) || has(7)
        };
        for chapter in sections(COMMANDS, 2) {
            let listed = CHAPTERS.iter().find(|(title, _)| *title == chapter.title);
            match listed {
                Some((_, pages)) => {
                    for page in *pages {
                        assert!(is_page(page), "{page} of {:?}", chapter.title);
                    }
                }
                None => {
                    let name = format!("pmix-{}", chapter.title);
                    assert!(is_page(&name), "{:?} is in no page", chapter.title);
                }
            }
        }
        // Pages that only refer to other pages have the references in their list of commands.
        let leads = ["pmix-map.1", "pmix-wire.1"];
        for page in &pages {
            let has_prose = [
                ".SH USE",
                ".SH DETAILS",
                ".SH DESCRIPTION\nA",
                ".SH DESCRIPTION\n.PP",
            ];
            let has_prose = has_prose.iter().any(|title| page.text.contains(title));
            let leads = leads.contains(&page.file.as_str());
            assert!(has_prose || leads || page.section() == "7", "{}", page.file);
        }
    }

    #[test]
    fn pages_name_the_files_that_are_installed_with_them() {
        for page in pages() {
            for line in page.text.lines() {
                assert!(!line.contains("docs/"), "{}: {line}", page.file);
            }
        }
    }
}

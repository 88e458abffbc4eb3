// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manual pages of the C functions (section 3). They combine the comments of the headers with the tables of
//! directives and statuses in the documents.
//!
//! Source: man-pages(7), groff_man(7).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use xtask::process::root;

mod tables;

use tables::Tables;

/// The headers that declare functions.
const HEADERS: &[&str] = &["pmix.h", "pmix_server.h", "pmix_tool.h", "pmix_extend.h"];

/// The headers that declare callback types.
const CALLBACKS: &[&str] = &["pmix_common.h", "pmix_server.h", "pmix_tool.h"];

/// The beginning of a function's declaration.
const EXPORT: &str = "PMIX_EXPORT ";

/// The maximal length of a line of a declaration.
const WIDTH: usize = 76;

/// The function that returns a status as its result, not as an error.
const LOOKS_UP: &str = "PMIx_Error_code";

/// A function as a header declares it.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    header: &'static str,
    /// The declaration without the export macro and the semicolon: `int PMIx_Initialized(void)`.
    prototype: String,
    /// The comment in one line.
    text: String,
}

/// Formats all pages of a folder by groff with every warning enabled.
///
/// # Errors
/// Returns a message if groff is missing, or its warnings.
pub(crate) fn set(folder: &Path) -> Result<usize, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut groff = Command::new("groff");
    // ASCII output without formatting, so that the headings can be counted.
    groff
        .args(["-man", "-Tutf8", "-ww", "-P-cbou"])
        .args(&files);
    let said = groff.stdin(Stdio::null()).output();
    let said = said.map_err(|e| format!("groff: {e}"))?;
    let warnings = String::from_utf8_lossy(&said.stderr).into_owned();
    if !said.status.success() || !warnings.is_empty() {
        let shown: Vec<_> = warnings.lines().take(10).collect();
        return Err(format!("groff: {}: {}", said.status, shown.join("; ")));
    }
    let text = String::from_utf8_lossy(&said.stdout);
    let begun = text.lines().filter(|line| *line == "NAME").count();
    match begun == files.len() && begun > 0 {
        true => Ok(begun),
        false => Err(format!("groff has set {begun} pages of {}", files.len())),
    }
}

/// Returns the page of each function by name.
///
/// # Errors
/// Returns a message if a header cannot be read or has a function without a comment.
pub(crate) fn pages() -> Result<BTreeMap<String, String>, String> {
    let mut functions = Vec::new();
    let mut callbacks = BTreeMap::new();
    for header in HEADERS {
        functions.extend(declared(header, &read(header)?)?);
    }
    for header in CALLBACKS {
        callbacks.extend(types(&read(header)?));
    }
    let names: BTreeSet<_> = functions.iter().map(|one| one.name.clone()).collect();
    let tables = Tables::read(&names)?;
    let page = |one: &Function| {
        let text = page(one, &callbacks, &names, &tables);
        (one.name.clone(), text)
    };
    Ok(functions.iter().map(page).collect())
}

fn read(header: &str) -> Result<String, String> {
    let path = root().join("include").join(header);
    fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the functions of a header, each of which needs a comment before it.
fn declared(header: &'static str, text: &str) -> Result<Vec<Function>, String> {
    let mut functions = Vec::new();
    let mut about: Option<String> = None;
    for line in text.lines() {
        if let Some(begun) = line.strip_prefix("/** ") {
            about = Some(begun.to_owned());
        } else if let Some(rest) = line.strip_prefix(" * ")
            && let Some(about) = &mut about
        {
            about.push(' ');
            about.push_str(rest);
        } else if let Some(declaration) = line.strip_prefix(EXPORT) {
            let prototype = declaration.trim_end_matches(';').to_owned();
            let name = name_of(&prototype).to_owned();
            let text = about
                .take()
                .ok_or_else(|| format!("{header}: {name} has no comment"))?;
            let text = text.trim_end_matches("*/").trim().to_owned();
            functions.push(Function {
                name,
                header,
                prototype,
                text,
            });
        } else {
            about = None;
        }
    }
    Ok(functions)
}

/// Returns the name that a prototype declares.
fn name_of(prototype: &str) -> &str {
    let head = prototype.split('(').next().unwrap_or_default();
    head.rsplit([' ', '*']).next().unwrap_or_default()
}

/// Returns the callback types of a header by name.
fn types(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| line.starts_with("typedef "));
    let callbacks = lines.filter_map(|line| {
        let (_, rest) = line.split_once("(*")?;
        let (name, _) = rest.split_once(')')?;
        Some((name.to_owned(), line.trim_end_matches(';').to_owned()))
    });
    callbacks.collect()
}

/// Returns the page of a function.
fn page(
    one: &Function,
    callbacks: &BTreeMap<String, String>,
    names: &BTreeSet<String>,
    tables: &Tables,
) -> String {
    let Function { name, header, .. } = one;
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH \"{name}\" 3 \"\" \"pmix {version}\" \"pmix-rs\"\n");
    // Writing into a String cannot fail.
    let _ = writeln!(page, ".SH NAME\n{name} \\- {}", escaped(&first(&one.text)));
    let _ = writeln!(page, ".SH SYNOPSIS\n.nf\n#include <{header}>\n");
    page.push_str(&wrapped(&one.prototype));
    for callback in taken(&one.prototype, callbacks) {
        page.push('\n');
        page.push_str(&wrapped(callback));
    }
    page.push_str(".fi\n.SH DESCRIPTION\n");
    page.push_str(&described(&one.text, name, names));
    page.push_str(&tables.directives(name, names));
    if one.prototype.starts_with("pmix_status_t ") && name != LOOKS_UP {
        page.push_str(
            ".SH \"RETURN VALUE\"\n\\fBPMIX_SUCCESS\\fR, or another status, which \
             \\fBPMIx_Error_string\\fR(3) says in words.\n",
        );
        page.push_str(&tables.statuses(name, names));
    }
    let mut others = named(&one.text, name, names);
    let twin = match name.strip_suffix("_nb") {
        Some(waits) => waits.to_owned(),
        None => format!("{name}_nb"),
    };
    others.extend(names.get(&twin).cloned());
    let others = others.iter().map(|other| format!("\\fB{other}\\fR(3), "));
    let _ = writeln!(
        page,
        ".SH \"SEE ALSO\"\n{}\\fBpmix\\fR(1)",
        others.collect::<String>()
    );
    page
}

/// Returns the first sentence for the NAME section, without a capital and a full stop.
fn first(text: &str) -> String {
    let sentence = text.split(". ").next().unwrap_or_default();
    let sentence = sentence.trim_end_matches('.');
    let mut letters = sentence.chars();
    let begin = letters.next().map(|c| c.to_ascii_lowercase());
    begin.into_iter().chain(letters).collect()
}

/// Escapes text for groff.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    if text.starts_with(['.', '\'']) {
        out.push_str("\\&");
    }
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\e"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            other => out.push(other),
        }
    }
    out
}

/// Wraps a declaration, with each parameter on a line of its own if it does not fit on one line.
fn wrapped(declaration: &str) -> String {
    if declaration.len() < WIDTH {
        return escaped(declaration) + ";\n";
    }
    // The parameters are in the last parentheses: a callback has its name in the first ones.
    let at = declaration.rfind('(').map_or(0, |at| at + 1);
    let (head, params) = declaration.split_at(at);
    let params = escaped(params).replace(", ", ",\n    ");
    format!("{}\n    {params};\n", escaped(head))
}

/// Returns the callback types of a function's parameters in order.
fn taken<'a>(prototype: &str, callbacks: &'a BTreeMap<String, String>) -> Vec<&'a str> {
    let words = prototype.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let found = words.filter_map(|word| callbacks.get(word).map(String::as_str));
    let mut taken: Vec<&str> = Vec::new();
    for callback in found {
        if !taken.contains(&callback) {
            taken.push(callback);
        }
    }
    taken
}

/// Formats the description of a function, one sentence per line, with names in bold.
fn described(text: &str, name: &str, names: &BTreeSet<String>) -> String {
    let mut lines = String::new();
    for sentence in text.split(". ") {
        let sentence = sentence.trim_end_matches('.');
        let words = sentence
            .split_inclusive(' ')
            .map(|word| bold(word, name, names));
        lines.push_str(&guarded(words.collect()));
        lines.push_str(".\n");
    }
    lines
}

/// Guards a line that begins like a groff request.
fn guarded(line: String) -> String {
    match line.starts_with('.') {
        true => format!("\\&{line}"),
        false => line,
    }
}

/// Formats a word: in bold if it is a name of the interface, and with its section if it has a page.
fn bold(word: &str, own: &str, names: &BTreeSet<String>) -> String {
    let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let (begin, rest) = word.split_at(end.unwrap_or(word.len()));
    if !begin.starts_with("PMIx_") && !begin.starts_with("PMIX_") && !begin.starts_with("pmix_") {
        return escaped(word);
    }
    let section = match begin != own && names.contains(begin) && !rest.starts_with('(') {
        true => "(3)",
        false => "",
    };
    format!("\\fB{begin}\\fR{section}{}", escaped(rest))
}

/// Returns the functions that a text names, except its own.
fn named(text: &str, own: &str, names: &BTreeSet<String>) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let others = words.filter(|word| *word != own && names.contains(*word));
    others.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_table_has_a_page() {
        let table = fs::read_to_string(root().join("data/functions.tsv")).expect("the table");
        let pages = pages().expect("pages");
        let names: BTreeSet<_> = table
            .lines()
            .skip(1)
            .filter_map(|line| line.split('\t').next())
            .map(str::to_owned)
            .collect();
        assert_eq!(pages.into_keys().collect::<BTreeSet<_>>(), names);
    }

    #[test]
    fn a_page_has_all_that_the_header_says() {
        let pages = pages().expect("pages");
        let page = &pages["PMIx_Get_nb"];
        for part in [
            ".TH \"PMIx_Get_nb\" 3 ",
            "PMIx_Get_nb \\- does what PMIx_Get does without waiting",
            "#include <pmix.h>\n\npmix_status_t PMIx_Get_nb(\n    const pmix_proc_t *proc,\n",
            "typedef void (*pmix_value_cbfunc_t)(\n    pmix_status_t status,\n",
            "Does what \\fBPMIx_Get\\fR(3) does",
            "RETURN VALUE",
            "\\fBPMIx_Get\\fR(3), \\fBpmix\\fR(1)",
        ] {
            assert!(page.contains(part), "{part:?} is not in {page}");
        }
        for (name, page) in &pages {
            assert!(!page.contains("always returns"), "{name} is served");
        }
        assert!(!pages["PMIx_Error_code"].contains("RETURN VALUE"));
    }

    #[test]
    fn calls_that_say_what_is_meant_by_directives_have_them_and_their_statuses() {
        let pages = pages().expect("pages");
        let says = |name: &str, part: &str| {
            let page = &pages[name];
            assert!(page.contains(part), "{part:?} is not in {page}");
        };
        for name in [
            "PMIx_Group_construct",
            "PMIx_Group_destruct",
            "PMIx_Group_invite_nb",
            "PMIx_Group_join",
            "PMIx_Spawn",
            "PMIx_Spawn_nb",
            "PMIx_tool_init",
            "PMIx_IOF_pull",
            "PMIx_Job_control",
            "PMIx_Process_monitor_nb",
            "PMIx_Log",
        ] {
            says(name, ".SH DIRECTIVES\n.TP\n\\fBPMIX_");
            says(name, "says in words.\n.TP\n\\fBPMIX_");
        }
        says("PMIx_Log", "\\fBPMIX_LOG_ONCE\\fR (\\fIbool\\fR)\n");
        says(
            "PMIx_Spawn",
            "\\fBPMIX_MAPBY\\fR (\\fIchar*\\fR)\na hardware object, or ppr:N:PART",
        );
        says("PMIx_Group_leave", "\\fBPMIX_ERR_NOT_FOUND\\fR\n");
    }

    #[test]
    fn a_function_without_a_comment_is_a_fault() {
        let text = "/** Counts. */\n\nPMIX_EXPORT int PMIx_Count(void);\n";
        let fault = declared("pmix.h", text).expect_err("a fault");
        assert_eq!(fault, "pmix.h: PMIx_Count has no comment");
    }

    #[test]
    fn text_is_no_request() {
        assert_eq!(escaped(".so x\\y"), "\\&.so x\\ey");
        assert_eq!(escaped("it's"), "it\\(aqs");
    }
}

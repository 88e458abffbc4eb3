// SPDX-License-Identifier: MIT OR Apache-2.0
//! The comments of the functions in the C headers.

use std::collections::BTreeMap;

use super::super::sheet::Sheet;

/// Texts of function families by the endings of their names. `{}` is replaced by the type.
const FAMILIES: &[(&str, &str)] = &[
    (
        "_construct",
        "Sets every member of a {} to its initial value; frees nothing.",
    ),
    (
        "_create",
        "Allocates an array of n {}s, each as its construct function leaves it; NULL for none or no memory. Its free function gives it back.",
    ),
    (
        "_destruct",
        "Frees all that a {} holds and leaves it as its construct function does; the structure itself stays.",
    ),
    ("_free", "Frees an array of n {}s and all that they hold."),
    ("_release", "Frees one allocated {} and all that it holds."),
    (
        "_xfer",
        "Copies a {}, with copies of all that the source holds.",
    ),
    ("_string", "Says in words what a {} is."),
];

/// Texts of functions: those of `data/function_texts.tsv`, then those of families.
pub(crate) struct Texts(BTreeMap<String, String>);

impl Texts {
    /// Reads the table.
    ///
    /// # Errors
    /// Returns a message if the table cannot be read.
    pub(crate) fn read() -> Result<Self, String> {
        let sheet = Sheet::read("function_texts")?;
        let rows = sheet.rows().map(|row| {
            let (name, text) = (row.need("function")?, row.need("text")?);
            Ok((name.to_owned(), text.to_owned()))
        });
        Ok(Self(rows.collect::<Result<_, String>>()?))
    }

    /// Returns the text of a function.
    ///
    /// # Errors
    /// Returns a message if there is none.
    pub(crate) fn of(&self, function: &str) -> Result<String, String> {
        if let Some(text) = self.0.get(function) {
            return Ok(text.clone());
        }
        if let Some(waits) = function.strip_suffix("_nb") {
            return Ok(format!(
                "Does what {waits} does without waiting: the answer goes to the callback, once, from a \
                 thread of the library. If an error is returned, the callback is not called."
            ));
        }
        let family = FAMILIES.iter().find(|(end, _)| function.ends_with(end));
        let (end, text) = family.ok_or_else(|| {
            format!("data/function_texts.tsv: nothing about {function}, and no family has it")
        })?;
        let of = function.trim_start_matches("PMIx_").trim_end_matches(end);
        Ok(text.replace("{}", &format!("pmix_{}_t", of.to_lowercase())))
    }
}

/// Formats a C comment in lines of at most a hundred characters.
pub(crate) fn comment(text: &str) -> String {
    let mut lines = vec![String::from("/**")];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first line");
        if line.len() + word.len() + 1 > 96 {
            lines.push(format!(" * {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + " */\n"
}

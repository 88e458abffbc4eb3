// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reader of tab-separated tables with a header line, in which `-` means "no value".

use xtask::process;

/// The releases of the columns `in_*`, oldest first, with their Rust names.
pub(crate) const RELEASES: [(&str, &str); 6] = [
    ("4.2.2", "V4_2_2"),
    ("5.0.11", "V5_0_11"),
    ("6.1.0", "V6_1_0"),
    ("seed", "Seed"),
    ("master", "Master"),
    ("7.0.0rc1", "V7_0_0Rc1"),
];

/// A table of `data/`.
pub(crate) struct Sheet {
    name: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A row of a table.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    sheet: &'a Sheet,
    /// The index of the row, counted from zero.
    place: usize,
}

impl Sheet {
    /// Reads `data/NAME.tsv`.
    ///
    /// # Errors
    /// Returns a message if the file cannot be read, or if a row and the header differ in their number of fields.
    pub(crate) fn read(name: &str) -> Result<Self, String> {
        let path = process::root().join("data").join(format!("{name}.tsv"));
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(name, &text)
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let fields = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        let mut lines = text.lines().map(fields);
        let columns = lines.next().unwrap_or_default();
        let rows: Vec<_> = lines.collect();
        if let Some(place) = rows.iter().position(|row| row.len() != columns.len()) {
            let (line, wanted) = (place + 2, columns.len());
            return Err(format!("data/{name}.tsv:{line}: expected {wanted} fields"));
        }
        let name = name.to_owned();
        Ok(Self {
            name,
            columns,
            rows,
        })
    }

    /// Returns the rows in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.rows.len()).map(|place| Row { sheet: self, place })
    }
}

impl<'a> Row<'a> {
    /// Returns a field, or `None` if it is `-`.
    ///
    /// # Errors
    /// Returns a message if the column does not exist.
    pub(crate) fn get(self, column: &str) -> Result<Option<&'a str>, String> {
        let known = self.sheet.columns.iter().position(|c| c == column);
        let index = known.ok_or_else(|| self.fault(&format!("no column {column:?}")))?;
        let field = self.sheet.rows[self.place][index].as_str();
        Ok(Some(field).filter(|f| *f != "-"))
    }

    /// Returns a required field.
    ///
    /// # Errors
    /// Returns a message if the column does not exist or the field is `-`.
    pub(crate) fn need(self, column: &str) -> Result<&'a str, String> {
        self.get(column)?
            .ok_or_else(|| self.fault(&format!("nothing in column {column:?}")))
    }

    /// Returns the name without the common prefix.
    ///
    /// # Errors
    /// Returns a message if the name lacks the prefix.
    pub(crate) fn name(self) -> Result<&'a str, String> {
        let name = self.need("name")?;
        let short = name.strip_prefix("PMIX_");
        short.ok_or_else(|| self.fault(&format!("{name} has no prefix `PMIX_`")))
    }

    /// Returns a number.
    ///
    /// # Errors
    /// Returns a message if the field is no number.
    pub(crate) fn number(self, column: &str) -> Result<i64, String> {
        let field = self.need(column)?;
        field
            .parse()
            .map_err(|e| self.fault(&format!("{field:?}: {e}")))
    }

    /// Returns the releases that have the name, one bit each. The oldest is the lowest bit.
    ///
    /// # Errors
    /// Returns a message if a column is missing.
    pub(crate) fn releases(self) -> Result<u8, String> {
        let mut bits = 0;
        for (bit, (release, _)) in RELEASES.iter().enumerate() {
            if self.need(&format!("in_{release}"))? == "1" {
                bits |= 1 << bit;
            }
        }
        Ok(bits)
    }

    /// Returns the differing values of some releases from a field such as `6.1.0=-400;master=7`, as pairs of the
    /// release's Rust name and the text.
    ///
    /// # Errors
    /// Returns a message if the field has another form, or names an unknown release.
    pub(crate) fn differs(self, column: &str) -> Result<Vec<(&'static str, &'a str)>, String> {
        let mut found = Vec::new();
        for part in self.get(column)?.iter().flat_map(|field| field.split(';')) {
            let split = part.split_once('=');
            let known = split.and_then(|(release, text)| {
                let (_, rust) = RELEASES.iter().find(|(name, _)| *name == release)?;
                Some((*rust, text))
            });
            found.push(known.ok_or_else(|| self.fault(&format!("{part:?} names no release")))?);
        }
        Ok(found)
    }

    /// Returns `true` if the newest headers that have the name mark it as deprecated.
    ///
    /// # Errors
    /// Returns a message if the column is missing.
    pub(crate) fn is_deprecated(self) -> Result<bool, String> {
        Ok(self.need("deprecated")? == "1")
    }

    /// Returns the Rust name of the status that the name has in the Standard.
    ///
    /// # Errors
    /// Returns a message if the word is unknown.
    pub(crate) fn standing(self) -> Result<&'static str, String> {
        match self.get("std")? {
            None => Ok("Extension"),
            Some("stable") => Ok("Stable"),
            Some("provisional") => Ok("Provisional"),
            Some("deprecated") => Ok("Deprecated"),
            Some("removed") => Ok("Removed"),
            Some(word) => Err(self.fault(&format!("{word:?} is no standing"))),
        }
    }

    /// Returns an error about this row.
    pub(crate) fn fault(self, message: &str) -> String {
        format!("data/{}.tsv:{}: {message}", self.sheet.name, self.place + 2)
    }
}

/// Describes the first and last release of a name; empty if no release has it.
pub(crate) fn span(releases: u8) -> String {
    let has: Vec<_> = (0..RELEASES.len())
        .filter(|bit| releases & (1 << bit) != 0)
        .collect();
    match (has.first(), has.last()) {
        (Some(first), Some(last)) if *last + 1 == RELEASES.len() => {
            format!("since {}", RELEASES[*first].0)
        }
        (Some(first), Some(last)) => format!("{} to {}", RELEASES[*first].0, RELEASES[*last].0),
        _ => String::from("in no header"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_a_field_too_many_is_refused_by_its_line() {
        let Err(fault) = Sheet::parse("a", "x\ty\n1\t2\n1\t2\t3\n") else {
            panic!("a third field must be refused")
        };
        assert_eq!(fault, "data/a.tsv:3: expected 2 fields");
    }

    #[test]
    fn differing_values_are_read_by_release() {
        let sheet = Sheet::parse("a", "d\n6.1.0=-400;master=x=y\n-\n7.0=1\n").expect("a table");
        let rows: Vec<_> = sheet.rows().collect();
        assert_eq!(
            rows[0].differs("d"),
            Ok(vec![("V6_1_0", "-400"), ("Master", "x=y")])
        );
        assert_eq!(rows[1].differs("d"), Ok(vec![]));
        assert!(rows[2].differs("d").is_err());
    }

    #[test]
    fn spans_are_words() {
        assert_eq!(span(0b111111), "since 4.2.2");
        assert_eq!(span(0b00011), "4.2.2 to 5.0.11");
        assert_eq!(span(0), "in no header");
    }
}

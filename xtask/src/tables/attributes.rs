// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes: a table of records, and constants for the keys.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::head;
use super::sheet::{Row, Sheet, span};

/// Returns the attribute records sorted by name, with their keys in order.
pub(crate) fn records(sheet: &Sheet, types: &Sheet) -> Result<String, String> {
    let mut rows: Vec<_> = sheet
        .rows()
        .map(|row| Ok((row.name()?, row)))
        .collect::<Result<_, String>>()?;
    rows.sort_by_key(|(name, _)| *name);
    let uses = [
        "crate::DataType",
        "crate::Release::{Master, V4_2_2, V7_0_0Rc1}",
        "crate::attribute::Attribute",
        "crate::table::Standing::{Deprecated, Extension, Provisional, Stable}",
    ];
    let mut text = head("The attributes.", "`data/attributes.tsv`", &uses);
    text.push_str("\n/// Sorted by name.\npub(crate) static ATTRIBUTES: &[Attribute] = &[\n");
    for (_, row) in &rows {
        let _ = writeln!(text, "    {},", record(*row, types)?);
    }
    text.push_str("];\n");
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    text.push_str(
        "\n/// Every key and the place of its attribute, sorted; of one key the attribute that\n",
    );
    text.push_str("/// printing uses comes first.\npub(crate) static KEYS: &[(&str, u16)] = &[\n");
    for (key, _, place) in key_order(&rows)? {
        let _ = writeln!(text, "    ({key:?}, {place}),");
    }
    text.push_str("];\n");
    Ok(text)
}

fn record(row: Row<'_>, types: &Sheet) -> Result<String, String> {
    let (name, key, c_type) = (row.name()?, row.need("key")?, row.need("type")?);
    let data_type = match data_type(c_type, types)? {
        Some(name) => format!("Some(DataType::{name})"),
        None => String::from("None"),
    };
    let (releases, standing) = (row.releases()?, row.standing()?);
    let mut text = format!(
        "Attribute::new(\"PMIX_{name}\", {key:?}, {c_type:?}, {data_type}, {releases:#07b}, {standing})"
    );
    if row.is_deprecated()? {
        text.push_str(".deprecated()");
    }
    for (column, method) in [("key_differs_in", "keys"), ("type_differs_in", "c_types")] {
        let one = |(release, other): &(&str, &str)| format!("({release}, {other:?})");
        let list: Vec<_> = row.differs(column)?.iter().map(one).collect();
        if !list.is_empty() {
            let _ = write!(text, ".with_{method}(&[{}])", list.join(", "));
        }
    }
    for (column, method) in [
        ("std_key_if_other", "standard_key"),
        ("std_type_if_other", "standard_type"),
    ] {
        if let Some(other) = row.get(column)? {
            let _ = write!(text, ".with_{method}({other:?})");
        }
    }
    Ok(text)
}

/// Returns the data type of a C type: the oldest one that is not deprecated.
fn data_type<'a>(c_type: &str, types: &'a Sheet) -> Result<Option<&'a str>, String> {
    let value = c_type.strip_suffix('*').unwrap_or(c_type);
    for row in types.rows() {
        let fits = row
            .get("c_type")?
            .is_some_and(|known| known == c_type || known == value);
        if fits && !row.is_deprecated()? {
            return row.name().map(Some);
        }
    }
    Ok(None)
}

/// A key, the claim of its attribute to it (lower is stronger), and the index of the attribute.
type Claim<'a> = (&'a str, (u8, bool), usize);

/// Returns every key, including those of other releases and of the Standard.
fn key_order<'a>(rows: &[Row<'a>]) -> Result<Vec<Claim<'a>>, String> {
    let mut claims = BTreeSet::new();
    for (place, row) in rows.iter().enumerate() {
        let differs = row.differs("key_differs_in")?;
        let is_deprecated = row.is_deprecated()?;
        // An attribute that later gave the key to another one has the weaker claim.
        let own = u8::from(!differs.is_empty());
        claims.insert((row.need("key")?, (own, is_deprecated), place));
        for (_, key) in &differs {
            claims.insert((*key, (2, is_deprecated), place));
        }
        if let Some(key) = row.get("std_key_if_other")? {
            claims.insert((key, (3, is_deprecated), place));
        }
    }
    Ok(claims.into_iter().collect())
}

/// Returns the keys as constants.
pub(crate) fn keys(sheet: &Sheet) -> Result<String, String> {
    let about = "The key of every attribute, named as the headers name it, without `PMIX_`.";
    let mut text = head(about, "`data/attributes.tsv`", &[]);
    let mut rows: Vec<_> = sheet
        .rows()
        .map(|row| Ok((row.name()?, row)))
        .collect::<Result<_, String>>()?;
    rows.sort_by_key(|(name, _)| *name);
    for (name, row) in rows {
        let note = if row.is_deprecated()? {
            "; deprecated"
        } else {
            ""
        };
        let (key, c_type, span) = (row.need("key")?, row.need("type")?, span(row.releases()?));
        let _ = writeln!(text, "\n/// `{key}`: `{c_type}`, {span}{note}.");
        let _ = writeln!(text, "pub const {name}: &str = {key:?};");
    }
    Ok(text)
}

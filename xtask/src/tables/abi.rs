// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface in Rust: types, structures, callbacks, and a check that each exported function has the parameters of
//! the headers.

use std::fmt::Write as _;

use super::declare::{
    Member, Prototype, Struct, UNION, base, identifier, member, prototype, structs,
};
use super::head;
use super::sheet::Sheet;

/// Returns scalar types and structures, with assertions of their sizes and offsets.
///
/// # Errors
/// Returns a message if a table cannot be read.
pub(crate) fn types() -> Result<String, String> {
    let about = "The types of the C interface, and their layout.";
    let uses = [
        "std::ffi::{c_char, c_int, c_uint, c_void}",
        "std::mem::{offset_of, size_of}",
    ];
    let mut text = head(about, "`data/typedefs.tsv` and `data/structs.tsv`", &uses);
    text.push_str("\nuse super::callbacks::*;\n\n");
    text.push_str("/// `struct timeval`.\n#[derive(Clone, Copy, Default)]\n#[repr(C)]\n");
    text.push_str("pub(crate) struct timeval {\n    pub(crate) tv_sec: i64,\n    pub(crate) tv_usec: i64,\n}\n\n");
    for row in Sheet::read("typedefs")?.rows() {
        let (name, c_type) = (row.need("name")?, row.need("c_type")?);
        let rust = match c_type.strip_prefix("char[") {
            Some(len) => format!("[c_char; {}]", len.trim_end_matches(']')),
            None if c_type == "enum" => "c_uint".to_owned(),
            None => base(c_type).to_owned(),
        };
        let _ = writeln!(text, "pub(crate) type {name} = {rust};");
    }
    for one in structs()? {
        structure(&mut text, &one);
    }
    Ok(text)
}

fn structure(text: &mut String, one: &Struct) {
    let name = &one.name;
    if !one.union.is_empty() {
        let _ = write!(
            text,
            "\n#[derive(Clone, Copy)]\n#[repr(C)]\npub(crate) union pmix_value_data {{\n"
        );
        for part in &one.union {
            let _ = writeln!(text, "    {},", field(part));
        }
        text.push_str("}\n");
    }
    let _ = write!(
        text,
        "\n#[derive(Clone, Copy)]\n#[repr(C)]\npub(crate) struct {name} {{\n"
    );
    for part in &one.members {
        let _ = writeln!(text, "    {},", field(part));
    }
    let _ = write!(
        text,
        "}}\n\nconst _: () = {{\n    assert!(size_of::<{name}>() == {});\n",
        one.size
    );
    for part in &one.members {
        let _ = writeln!(
            text,
            "    assert!(offset_of!({name}, {}) == {});",
            identifier(&part.name),
            part.offset
        );
    }
    text.push_str("};\n");
}

fn field(part: &Member) -> String {
    let rust = match part.c_type.as_str() {
        UNION => "pmix_value_data".to_owned(),
        // The writer of the structure may have stored any byte, and a `bool` other than 0 or 1 is undefined behavior.
        "bool" => "u8".to_owned(),
        other => member(other),
    };
    format!("pub(crate) {}: {rust}", identifier(&part.name))
}

/// Returns the callback types.
///
/// # Errors
/// Returns a message if a table cannot be read.
pub(crate) fn callbacks() -> Result<String, String> {
    let about = "The types of functions that cross the C interface as pointers.";
    let uses = ["std::ffi::{c_char, c_int, c_void}"];
    let mut text = head(about, "`data/callbacks.tsv`", &uses);
    text.push_str("\nuse super::types::*;\n\n");
    for row in Sheet::read("callbacks")?.rows() {
        let one = prototype(row.need("signature")?).map_err(|e| row.fault(&e))?;
        let _ = writeln!(
            text,
            "pub(crate) type {} =\n    Option<unsafe extern \"C\" fn{}>;",
            one.name,
            params(&one, true)
        );
    }
    Ok(text)
}

/// Returns the signatures of the functions, as the argument of a macro that compares them with the exported functions.
///
/// # Errors
/// Returns a message if a table cannot be read.
pub(crate) fn signatures() -> Result<String, String> {
    let about = "The signatures of the headers for every function of the C interface.";
    let uses = ["std::ffi::{c_char, c_int, c_void}"];
    let mut text = head(about, "`data/functions.tsv`", &uses);
    text.push_str("\nuse super::callbacks::*;\nuse super::functions;\nuse super::types::*;\n\n");
    text.push_str("signatures! {\n");
    for row in Sheet::read("functions")?.rows() {
        let one = prototype(row.need("signature")?).map_err(|e| row.fault(&e))?;
        let _ = writeln!(text, "    fn {}{};", one.name, params(&one, false));
    }
    text.push_str("}\n");
    Ok(text)
}

/// Returns the parameters and the return type of a function.
fn params(one: &Prototype, named: bool) -> String {
    let params = one.params.iter().map(|(name, of)| match named {
        true => format!("{name}: {of}"),
        false => of.clone(),
    });
    let params: Vec<_> = params.collect();
    let returns = match one.returns.as_str() {
        "" => String::new(),
        other => format!(" -> {other}"),
    };
    format!("({}){returns}", params.join(", "))
}

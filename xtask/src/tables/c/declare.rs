// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parser of the C declarations in the tables: types of members, prototypes of functions.

/// A parsed prototype.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prototype {
    /// The function's name.
    pub(crate) name: String,
    /// The return type in Rust; empty for `void`.
    pub(crate) returns: String,
    /// Names and Rust types of its parameters.
    pub(crate) params: Vec<(String, String)>,
}

/// C types with another name in Rust. All others keep their names.
const BASES: &[(&str, &str)] = &[
    ("char", "c_char"),
    ("int", "c_int"),
    ("unsigned int", "c_uint"),
    ("void", "c_void"),
    ("size_t", "usize"),
    ("bool", "bool"),
    ("float", "f32"),
    ("double", "f64"),
    ("int8_t", "i8"),
    ("int16_t", "i16"),
    ("int32_t", "i32"),
    ("int64_t", "i64"),
    ("uint8_t", "u8"),
    ("uint16_t", "u16"),
    ("uint32_t", "u32"),
    ("uint64_t", "u64"),
    ("pid_t", "i32"),
    ("uid_t", "u32"),
    ("gid_t", "u32"),
    ("time_t", "i64"),
    ("struct timeval", "timeval"),
];

/// Reserved words of Rust.
const KEYWORDS: &[&str] = &["type", "ref", "fn", "mod", "box", "move"];

/// Returns the Rust name of a C type that is no pointer.
pub(crate) fn base(name: &str) -> &str {
    let known = BASES.iter().find(|(c, _)| *c == name);
    known.map_or(name, |(_, rust)| rust)
}

/// Returns a name that is a valid Rust identifier.
pub(crate) fn identifier(name: &str) -> String {
    match KEYWORDS.contains(&name) {
        true => format!("r#{name}"),
        false => name.to_owned(),
    }
}

/// Returns the Rust type of a structure's member: `char**`, `pmix_info_t*`, `uint64_t`.
pub(crate) fn member(text: &str) -> String {
    let bare = text.trim_end_matches('*');
    pointer("*mut ", text.len() - bare.len(), base(bare.trim()))
}

fn pointer(kind: &str, depth: usize, of: &str) -> String {
    match depth {
        0 => of.to_owned(),
        _ => format!("{}{kind}{of}", "*mut ".repeat(depth - 1)),
    }
}

/// Parses a prototype such as `pmix_status_t PMIx_Commit(void)`, or a callback type such as `void
/// (*pmix_op_cbfunc_t)(pmix_status_t status, void *cbdata)`.
///
/// # Errors
/// Returns a message if the text has another form.
pub(crate) fn prototype(text: &str) -> Result<Prototype, String> {
    let fault = || format!("{text:?} is no prototype");
    let inner = text.trim().strip_suffix(')').ok_or_else(fault)?;
    let (head, params) = match inner.split_once(")(") {
        Some((head, params)) => (head.replacen("(*", "", 1), params),
        None => {
            let (head, params) = inner.split_once('(').ok_or_else(fault)?;
            (head.to_owned(), params)
        }
    };
    let (name, returns) = declared(&head).ok_or_else(fault)?;
    let mut list = Vec::new();
    for param in params.split(',').map(str::trim) {
        if param != "void" && !param.is_empty() {
            list.push(declared(param).ok_or_else(fault)?);
        }
    }
    let returns = if returns == "c_void" {
        String::new()
    } else {
        returns
    };
    Ok(Prototype {
        name,
        returns,
        params: list,
    })
}

/// Parses a name with its type: `const char msg[]`, `pmix_info_t **results`. Array types (`pmix_nspace_t`,
/// `pmix_key_t`) become pointers to characters, as for any C parameter.
fn declared(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let (text, array) = match text.strip_suffix("[]") {
        Some(rest) => (rest.trim_end(), 1),
        None => (text, 0),
    };
    let at = text.rfind(|c: char| !(c.is_alphanumeric() || c == '_'))? + 1;
    let (left, name) = text.split_at(at);
    let depth = left.matches('*').count() + array;
    let left = left.replace('*', " ");
    let words: Vec<_> = left.split_whitespace().collect();
    let constant = words.first() == Some(&"const");
    let words = words.get(usize::from(constant)..)?.join(" ");
    let (of, depth) = match words.as_str() {
        "pmix_nspace_t" | "pmix_key_t" => ("char", depth + 1),
        other => (other, depth),
    };
    let kind = if constant { "*const " } else { "*mut " };
    Some((identifier(name), pointer(kind, depth, base(of))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prototypes_are_taken_apart() {
        let of = |text: &str| {
            let p = prototype(text).expect("a prototype");
            let params: Vec<_> = p.params.iter().map(|(n, t)| format!("{n}: {t}")).collect();
            format!("{}({}) {}", p.name, params.join(", "), p.returns)
        };
        assert_eq!(of("int PMIx_Initialized(void)"), "PMIx_Initialized() c_int");
        assert_eq!(
            of("pmix_status_t F(const char msg[], pmix_info_t **results, char * attrs[])"),
            "F(msg: *const c_char, results: *mut *mut pmix_info_t, attrs: *mut *mut c_char) pmix_status_t"
        );
        assert_eq!(
            of("void (*cb_t)(pmix_status_t status, pmix_nspace_t nspace, unsigned int type)"),
            "cb_t(status: pmix_status_t, nspace: *mut c_char, r#type: c_uint) "
        );
        assert_eq!(
            of("const char *F(pmix_scope_t scope)"),
            "F(scope: pmix_scope_t) *const c_char"
        );
        assert!(prototype("int x").is_err());
    }

    #[test]
    fn members_are_pointers_or_not() {
        assert_eq!(member("char**"), "*mut *mut c_char");
        assert_eq!(member("struct timeval"), "timeval");
        assert_eq!(member("pmix_info_t*"), "*mut pmix_info_t");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entry points of the framework with arbitrary bytes.

use preg_core::{LegacyRegex, Packed, Regex2Ref, Unpacked};

use super::{checks, preg};

/// Passes the bytes to every entry point that reads.
pub(crate) fn any_bytes(data: &[u8]) {
    let preg = preg();
    match preg.parse_nodes(data) {
        Ok(list) => checks::nodes(&list),
        Err(error) => checks::error(&error, data),
    }
    match preg.parse_procs(data) {
        Ok(map) => checks::procs(&map),
        Err(error) => checks::error(&error, data),
    }
    one_owner(data);
    wire(data);
    regex2(data);
}

/// Checks that at most one scheme claims a value.
fn one_owner(data: &[u8]) {
    let claims = preg()
        .modules()
        .iter()
        .filter(|module| !matches!(module.scheme.legacy_len(data), Ok(None)))
        .count();
    assert!(claims <= 1, "{claims} schemes claim one value");
    match preg().legacy_len(data) {
        Ok(Some(extent)) => assert!(extent.len <= data.len(), "a length past the end"),
        Ok(None) => assert_eq!(claims, 0),
        Err(error) => checks::error(&error, data),
    }
}

/// Checks that unpacking a packed value gives the same value, and that a copy equals the packed form.
fn wire(data: &[u8]) {
    let preg = preg();
    let packed = match preg.pack(data) {
        Err(error) => return checks::error(&error, data),
        Ok(Packed::Text(text)) => return assert!(data.starts_with(&text)),
        Ok(Packed::Framed(bytes)) => bytes,
    };
    assert_eq!(preg.copy(data).as_deref(), Ok(&packed[..]));
    let followed = [&packed[..], b"what comes next"].concat();
    match preg.unpack(&followed) {
        Ok(Unpacked::Framed(value, used)) => {
            assert_eq!(used, packed.len());
            assert!(packed.starts_with(&value.bytes));
            let framing = value.framing.clone();
            assert_ne!(framing, LegacyRegex::PLAIN);
            preg.release(value).expect("a value of the framework");
        }
        other => panic!("a packed value was unpacked to {other:?}"),
    }
}

/// Decodes a typed value; the first byte is the length of the type.
fn regex2(data: &[u8]) {
    let Some((len, rest)) = data.split_first() else {
        return;
    };
    let (kind, bytes) = rest.split_at(rest.len().min(usize::from(len % 16)));
    let Ok(kind) = std::str::from_utf8(kind) else {
        return;
    };
    let regex = Regex2Ref { kind, bytes };
    if let Err(error) = preg().parse_regex(regex) {
        checks::error(&error, bytes);
    }
    if let Ok(list) = preg().resolve_nodes(regex) {
        checks::nodes(&list);
    }
    if let Ok(map) = preg().resolve_procs(regex) {
        checks::procs(&map);
    }
}

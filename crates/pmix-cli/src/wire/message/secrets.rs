// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leaving credentials out of what is written down.

use serde_json::Value as Json;

/// The replacement of a credential.
const HIDDEN: &str = "hidden";
/// The replacement of each byte of a credential.
const FILLER: u8 = b'*';

/// Overwrites the credential in the payload of a first message, whole or cut: what follows the name of
/// the security module and a length.
pub(super) fn overwrite(payload: &mut [u8]) {
    let Some(end) = payload.iter().position(|byte| *byte == 0) else {
        return;
    };
    let Some((len, rest)) = payload[end + 1..].split_first_chunk_mut() else {
        return;
    };
    let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
    let len = len.min(rest.len());
    rest[..len].fill(FILLER);
}

/// Returns a message in JSON without the credentials that requests and replies carry.
pub(super) fn without(line: String) -> String {
    let has_any = [r#""credential""#, pmix_types::keys::CREDENTIAL];
    if !has_any.iter().any(|word| line.contains(word)) {
        return line;
    }
    // A line that is not JSON may still contain the credential, so the whole line is hidden.
    let Ok(mut json) = serde_json::from_str::<Json>(&line) else {
        return HIDDEN.to_owned();
    };
    hide(&mut json);
    json.to_string()
}

fn hide(json: &mut Json) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(hide),
        Json::Object(members) => {
            let is = |member: &str, word: &str| members.get(member).is_some_and(|m| m == word);
            let secret = match () {
                () if is("name", "credential") => Some("value"),
                () if is("key", pmix_types::keys::CREDENTIAL) => Some("data"),
                () => None,
            };
            for (name, member) in members.iter_mut() {
                match secret == Some(name.as_str()) {
                    true => *member = HIDDEN.into(),
                    false => hide(member),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_overwritten_in_a_message_of_any_length() {
        let whole = b"munge\0\0\0\0\x06MUNGE:\0rest";
        for len in 0..=whole.len() {
            let mut payload = whole[..len].to_vec();
            overwrite(&mut payload);
            let text = String::from_utf8_lossy(&payload).into_owned();
            assert!(!text.contains('M') && payload.len() == len, "{text}");
        }
        let mut payload = whole.to_vec();
        overwrite(&mut payload);
        assert_eq!(payload, b"munge\0\0\0\0\x06******\0rest");
        let mut lying = b"munge\0\xff\xff\xff\xffMUNGE:".to_vec();
        overwrite(&mut lying);
        assert!(lying.ends_with(b"******"));
    }

    #[test]
    fn credentials_of_requests_and_replies_are_left_out() {
        let line = r#"{"calls":[{"name":"credential","type":"PMIX_BYTE_OBJECT","value":["TVVOR0U="]},{"name":"infos","value":[{"key":"pmix.cred","data":"TVVOR0U=","type":"PMIX_STRING"},{"key":"a","data":1}]}]}"#;
        let expected = r#"{"calls":[{"name":"credential","type":"PMIX_BYTE_OBJECT","value":"hidden"},{"name":"infos","value":[{"key":"pmix.cred","data":"hidden","type":"PMIX_STRING"},{"key":"a","data":1}]}]}"#;
        assert_eq!(without(line.to_owned()), expected);
        assert_eq!(without("{\"a\": 1}".to_owned()), "{\"a\": 1}");
    }
}

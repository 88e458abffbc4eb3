// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of nodes in few columns, so that those beside each other are still told apart.

use crate::printable::columns;

/// Shortens names that are drawn below each other to so many columns each. What all of the long ones
/// begin with goes first, then what they end with.
pub(super) fn shorten_all(names: Vec<String>, most: usize) -> Vec<String> {
    let long = || names.iter().filter(|name| columns(name) > most);
    let Some(first) = long().next() else {
        return names;
    };
    let shared = |same: fn(&str, &str) -> usize| long().map(|name| same(first, name)).min();
    let (front, back) = (shared(same_front), shared(same_back));
    let (front, back) = (front.unwrap_or(0), back.unwrap_or(0));
    let shorten = |name: String| match columns(&name) > most {
        true => shorten(&name, front, back, most),
        false => name,
    };
    names.into_iter().map(shorten).collect()
}

/// Returns the length of the common prefix of two names.
fn same_front(a: &str, b: &str) -> usize {
    let alike = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    alike.map(|(c, _)| c.len_utf8()).sum()
}

/// Returns the length of the common suffix of two names.
fn same_back(a: &str, b: &str) -> usize {
    let alike = a.chars().rev().zip(b.chars().rev());
    let alike = alike.take_while(|(a, b)| a == b);
    alike.map(|(c, _)| c.len_utf8()).sum()
}

/// Shortens a name whose first `front` and last `back` bytes are common to all names: to its end if the
/// different part fits, otherwise to its beginning, otherwise to the beginning of the different part.
fn shorten(name: &str, front: usize, back: usize, most: usize) -> String {
    let differs = name.get(front..).unwrap_or_default();
    let begins = name.get(..name.len().saturating_sub(back));
    if columns(differs) < most || front + back >= name.len() {
        return format!("…{}", tail(name, most - 1));
    }
    match begins {
        Some(begins) if columns(begins) < most => format!("{}…", head(name, most - 1)),
        _ => format!("…{}…", head(differs, most - 2)),
    }
}

/// Returns the beginning of a text that fits `most` columns.
fn head(text: &str, most: usize) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let fits = ends.take_while(|end| columns(&text[..*end]) <= most).last();
    &text[..fits.unwrap_or(0)]
}

/// Returns the end of a text that fits `most` columns.
fn tail(text: &str, most: usize) -> &str {
    let starts = text.char_indices().rev().map(|(at, _)| at);
    let fits = starts.take_while(|start| columns(&text[*start..]) <= most);
    &text[fits.last().unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(names: &[&str]) -> Vec<String> {
        shorten_all(names.iter().map(|name| (*name).to_owned()).collect(), 10)
    }

    #[test]
    fn shortened_names_keep_their_differences() {
        assert_eq!(
            shortened(&["cluster-rack01-node1", "cluster-rack01-node2", "n3"]),
            ["…k01-node1", "…k01-node2", "n3"]
        );
        assert_eq!(
            shortened(&["n1.cluster.example", "n2.cluster.example"]),
            ["n1.cluste…", "n2.cluste…"]
        );
        assert_eq!(
            shortened(&["cluster-n1.example.org", "cluster-n2.example.org"]),
            ["…1.exampl…", "…2.exampl…"]
        );
        assert_eq!(shortened(&["cluster-rack01-node1"]), ["…k01-node1"]);
        assert_eq!(shortened(&["n1", "n2"]), ["n1", "n2"]);
    }

    #[test]
    fn columns_count_and_characters_stay_whole() {
        for name in shortened(&["日本語日本語日本語一", "日本語日本語日本語二"])
        {
            assert!(columns(&name) <= 10 && name.starts_with('…'), "{name}");
        }
        let names = shortened(&["é".repeat(30).as_str(), "é".repeat(31).as_str()]);
        assert!(names.iter().all(|name| columns(name) == 10), "{names:?}");
    }
}

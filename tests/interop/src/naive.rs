// SPDX-License-Identifier: MIT OR Apache-2.0
//! A minimal reader of the text forms, against which others are judged.
//!
//! It accepts only the documented grammar and rejects anything else. The checks can thus
//! distinguish a wrong value of a library from a value that our decoder reads wrongly.

/// The maximum number of expanded elements. A larger range is assumed to contain a wrong number.
const MOST: u64 = 1 << 20;

/// Returns the list that a value of the text forms encodes, or `None` if the grammar does not allow it.
pub fn expand(value: &str, procs: bool) -> Option<Vec<String>> {
    let inner = value.strip_prefix("pmix[").map(|v| v.strip_suffix(']'));
    match inner {
        Some(inner) if procs => nodes_of_ranks(inner?),
        Some(inner) => names(inner?),
        None if procs => nodes_of_ranks(value.strip_prefix("raw:").unwrap_or(value)),
        None => Some(split(value.strip_prefix("raw:").unwrap_or(value))),
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

/// Expands a process map into each node's ranks, separated by commas.
fn nodes_of_ranks(text: &str) -> Option<Vec<String>> {
    text.split(';')
        .map(|node| {
            let ranks = node.split(',').map(range).collect::<Option<Vec<_>>>()?;
            let words: Vec<_> = ranks.into_iter().flatten().map(|r| r.to_string()).collect();
            Some(words.join(","))
        })
        .collect()
}

/// Parses `N` or `N-M`.
fn range(text: &str) -> Option<std::ops::RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last && last - first < MOST).then_some(first..=last)
}

fn number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// Expands a node map of verbatim names and `prefix[width:range,range]suffix`.
fn names(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut rest = text;
    loop {
        let comma = rest.find(',').unwrap_or(rest.len());
        let (element, after) = match rest.find('[').filter(|at| *at < comma) {
            None => (rest.get(..comma)?, rest.get(comma..)?),
            Some(open) => {
                let close = open + rest.get(open..)?.find(']')?;
                let end = rest
                    .get(close..)?
                    .find(',')
                    .map_or(rest.len(), |n| close + n);
                (rest.get(..end)?, rest.get(end..)?)
            }
        };
        element_into(element, &mut all)?;
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some(all),
        }
    }
}

fn element_into(element: &str, all: &mut Vec<String>) -> Option<()> {
    let Some((prefix, group)) = element.split_once('[') else {
        all.push(element.to_owned());
        return Some(());
    };
    let (ranges, suffix) = group.split_once(']')?;
    let (width, ranges) = ranges.split_once(':')?;
    let width = usize::try_from(number(width)?).ok()?;
    for one in ranges.split(',') {
        for n in range(one)? {
            let digits = format!("{n:0width$}");
            if digits.len() > width {
                return None;
            }
            all.push(format!("{prefix}{digits}{suffix}"));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::expand;

    fn list(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn groups_expand_in_place_between_verbatim_names() {
        let value = "pmix[login,r[2:8-10,1]n0.dom,x[1:1]]";
        let names = "login r08n0.dom r09n0.dom r10n0.dom r01n0.dom x1";
        assert_eq!(expand(value, false), Some(list(names)));
    }

    #[test]
    fn ranks_expand_and_nodes_keep_their_place() {
        let value = "pmix[0-2,7;3]";
        assert_eq!(expand(value, true), Some(list("0,1,2,7 3")));
        assert_eq!(expand("raw:0,1;2", true), Some(list("0,1 2")));
    }

    #[test]
    fn what_the_grammar_does_not_allow_is_not_guessed() {
        for bad in [
            "pmix[n[1:-1]]",
            "pmix[n[1:8-12]]",
            "pmix[n[1:1]",
            "pmix[n[1]]",
        ] {
            assert_eq!(expand(bad, false), None, "{bad}");
        }
        assert_eq!(expand("pmix[3-1]", true), None);
    }
}

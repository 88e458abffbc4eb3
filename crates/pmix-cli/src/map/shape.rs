// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of lists: `--to`, `--contiguous`, `--output-format` and `--separator`.

use std::io::Write as _;

use pmix_map::{NodeList, NodeListBuilder};

use super::list::Map;
use super::notation;
use crate::args::{Shape, Target};
use crate::context::Context;
use crate::failure::Failure;

/// Writes a map in a format, with a final newline.
pub(super) fn write(
    context: &mut Context,
    map: &Map,
    to: Target,
    shape: &Shape,
) -> Result<(), Failure> {
    if shape.separator.is_some() && to != Target::List {
        return Err(Failure::usage("--separator is for --to list").cure("add --to list"));
    }
    let Map::Nodes(list) = map else {
        if shape.contiguous || shape.output_format.is_some() {
            let message = "--contiguous and --output-format are for names, not for ranks";
            return Err(Failure::usage(message).cure("leave out the option or --procs"));
        }
        return write_one(context, map, to, shape);
    };
    let formatted = match &shape.output_format {
        Some(format) => Some(formatted(list, format, context)?),
        None => None,
    };
    let list = formatted.as_ref().unwrap_or(list);
    if !shape.contiguous {
        return match formatted {
            Some(list) => write_one(context, &list.into(), to, shape),
            None => write_one(context, map, to, shape),
        };
    }
    for run in runs(list, context)? {
        write_one(context, &run.into(), to, shape)?;
    }
    Ok(())
}

fn write_one(context: &mut Context, map: &Map, to: Target, shape: &Shape) -> Result<(), Failure> {
    if let Some(text) = notation::text_in(context, map, to)? {
        if context.json {
            let text = String::from_utf8_lossy(&text);
            context.out.json(&serde_json::json!({ "text": text }))?;
        } else {
            match to {
                // Its names are checked, and a terminal needs its line ends.
                Target::Hostfile => context.out.write_all(&text)?,
                _ => {
                    context.out.foreign(&text)?;
                    context.out.write_all(b"\n")?;
                }
            }
        }
        return Ok(());
    }
    let out = &mut context.out;
    match to {
        _ if context.json => notation::write_object(out, map)?,
        Target::Json => {
            map.write_array(out)?;
            out.write_all(b"\n")?;
        }
        Target::Lines => map.write_lines(out)?,
        _ => {
            let separator = shape.separator.as_deref().map(str::as_bytes);
            map.write_list(out, separator)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Returns the list with each name in a format.
fn formatted(list: &NodeList, format: &str, context: &Context) -> Result<NodeList, Failure> {
    // The parts around each name, without the escape of the percent sign.
    let parts: Vec<String> = {
        let mut parts = vec![String::new()];
        let mut left = format;
        while let Some((before, after)) = left.split_once('%') {
            let last = parts.len() - 1;
            parts[last].push_str(before);
            match after.strip_prefix('s') {
                Some(_) => parts.push(String::new()),
                None => parts[last].push('%'),
            }
            left = after.get(1..).unwrap_or_default();
        }
        let last = parts.len() - 1;
        parts[last].push_str(left);
        parts
    };
    let mut builder = NodeListBuilder::new(context.limits());
    let (mut text, mut result) = (Vec::new(), Ok(()));
    list.for_each(|name| {
        text.clear();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                text.extend_from_slice(name);
            }
            text.extend_from_slice(part.as_bytes());
        }
        if result.is_ok() {
            result = builder.name(&text);
        }
    });
    result.map_err(|error| Failure::of(&preg_core::Error::from(error), "the list", b""))?;
    Ok(builder.finish())
}

/// Splits a list into runs of names whose numbers follow each other.
fn runs(list: &NodeList, context: &Context) -> Result<Vec<NodeList>, Failure> {
    let mut runs = Vec::new();
    let mut builder = NodeListBuilder::new(context.limits());
    let (mut last, mut place): (Vec<u8>, Option<usize>) = (Vec::new(), None);
    let mut is_first = true;
    let mut result = Ok(());
    list.for_each(|name| {
        let step = if is_first {
            None
        } else {
            successor(&last, name)
        };
        // Within a run, the same number of the name increases.
        let continues = step.is_some() && place.is_none_or(|place| Some(place) == step);
        if !is_first && !continues {
            let full = std::mem::replace(&mut builder, NodeListBuilder::new(context.limits()));
            runs.push(full.finish());
        }
        place = if continues { step } else { None };
        (last, is_first) = (name.to_vec(), false);
        if result.is_ok() {
            result = builder.name(name);
        }
    });
    result.map_err(|error| Failure::of(&preg_core::Error::from(error), "the list", b""))?;
    if !is_first {
        runs.push(builder.finish());
    }
    Ok(runs)
}

/// Returns the offset of the number that is 1 more in the second name, if the names are the same otherwise.
fn successor(first: &[u8], second: &[u8]) -> Option<usize> {
    let differs = first.iter().zip(second).position(|(a, b)| a != b);
    let at = differs.unwrap_or_else(|| first.len().min(second.len()));
    let before = first[..at].iter().rposition(|byte| !byte.is_ascii_digit());
    let start = before.map_or(0, |place| place + 1);
    let (number, rest) = number(&first[start..])?;
    let (other, other_rest) = self::number(&second[start..])?;
    let is_padded = |text: &[u8]| text.len() > 1 && text.first() == Some(&b'0');
    let widths = (first.len() - rest.len(), second.len() - other_rest.len());
    // Numbers with leading zeros keep their width.
    let fits = widths.0 == widths.1
        || !is_padded(&first[start..widths.0]) && !is_padded(&second[start..widths.1]);
    (rest == other_rest && fits && number.checked_add(1) == Some(other)).then_some(start)
}

/// Returns the number at the start of a text, and the text after it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let digits = std::str::from_utf8(digits).ok()?;
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_each_other_in_one_number() {
        for (first, second, expected) in [
            ("n1", "n2", Some(1)),
            ("n9", "n10", Some(1)),
            ("n09", "n10", Some(1)),
            ("n099", "n100", Some(1)),
            ("n09", "n010", None),
            ("n1", "n02", None),
            ("n1-ib0", "n2-ib0", Some(1)),
            ("n1-ib0", "n1-ib1", Some(5)),
            ("n1-ib0", "n2-ib1", None),
            ("n1", "n1", None),
            ("n1", "n3", None),
            ("n", "n1", None),
            ("", "", None),
            ("n18446744073709551615", "n0", None),
        ] {
            assert_eq!(
                successor(first.as_bytes(), second.as_bytes()),
                expected,
                "{first} {second}"
            );
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a list: by places, in so many parts, in parts of so many names; and the positions of names.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write as _;

use pmix_map::{NodeList, NodeListBuilder};
use preg_core::Status;
use serde_json::json;

use super::sets::list_of;
use super::{convert, read_lists};
use crate::args::{Lists, Parts, Position, Slice};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{Form, Source, procs_of_text, read_nodes, read_option, read_sources};

/// Runs `slice`.
pub(super) fn slice(context: &mut Context, args: &Slice) -> Result<Exit, Failure> {
    let list = one(context, &args.lists)?;
    let asked = procs_of_text(Source {
        origin: "the positions".to_owned(),
        bytes: args.places.as_bytes().to_vec(),
        comments: false,
        form: Form::Map,
    })
    .into_map(context.limits())
    .map_err(|f| {
        // What reads them knows ranks.
        f.saying("not a position in a list")
            .misuse("a position is a number or a range, counted from zero: 3, 8-15")
    })?;
    let places = (0..asked.num_nodes()).flat_map(|n| asked.ranks_of(n).into_iter().flatten());
    let mut builder = NodeListBuilder::new(context.limits());
    let (mut name, mut absent) = (Vec::new(), None);
    for place in places {
        name.clear();
        let index = usize::try_from(place.as_raw()).unwrap_or(usize::MAX);
        if !list.write_nth(index, &mut name) {
            absent.get_or_insert(place);
            continue;
        }
        let fault = |e| Failure::of(&preg_core::Error::from(e), "the list", b"");
        builder.name(&name).map_err(fault)?;
    }
    convert::write(context, &builder.finish().into(), args.lists.to)?;
    context.out.flush()?;
    match absent {
        None => Ok(Exit::Ok),
        Some(place) => {
            let message = format!("no element {place}: the list has {}", list.len());
            Err(Failure::answer(Status::ERR_NOT_FOUND, message))
        }
    }
}

/// Runs `split`: parts whose lengths differ by at most one, the longer ones first.
pub(super) fn split(context: &mut Context, args: &Parts) -> Result<Exit, Failure> {
    let list = one(context, &args.lists)?;
    let parts = args.number.get();
    let (each, more) = (list.len() / parts, list.len() % parts);
    let lengths = (0..parts.min(list.len())).map(|part| each + usize::from(part < more));
    cut(context, &list, lengths, args)
}

/// Runs `chop`: parts of one length; the last one can be shorter.
pub(super) fn chop(context: &mut Context, args: &Parts) -> Result<Exit, Failure> {
    let list = one(context, &args.lists)?;
    let each = args.number.get();
    let lengths = (0..list.len())
        .step_by(each)
        .map(|at| each.min(list.len() - at));
    cut(context, &list, lengths, args)
}

/// Writes one part after the other, a line each.
fn cut(
    context: &mut Context,
    list: &NodeList,
    lengths: impl Iterator<Item = usize>,
    args: &Parts,
) -> Result<Exit, Failure> {
    let mut names = list.iter();
    for length in lengths {
        let part: Vec<_> = names.by_ref().take(length).collect();
        let part = list_of(part.iter().map(Vec::as_slice), context.limits())?;
        convert::write(context, &part.into(), args.lists.to)?;
    }
    Ok(Exit::Ok)
}

/// Runs `position`: prints the positions of each name on one line.
pub(super) fn position(context: &mut Context, args: &Position) -> Result<Exit, Failure> {
    if args.names == "-" && (args.words.is_empty() || args.words.iter().any(|word| word == "-")) {
        return Err(Failure::usage("standard input can be read only once"));
    }
    let (preg, limits) = (&context.preg, context.limits());
    let asked = read_nodes(preg, read_option("the names", &args.names)?)?.into_list(limits)?;
    let list = read_nodes(preg, read_sources(&args.words)?)?.into_list(limits)?;
    let mut places: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    asked.for_each(|name| {
        places.entry(name.to_vec()).or_default();
    });
    let mut index = 0;
    list.for_each(|name| {
        if let Some(found) = places.get_mut(name) {
            found.push(index);
        }
        index += 1;
    });
    let (mut answers, mut absent) = (Vec::new(), Vec::new());
    for name in asked.iter() {
        let shown = String::from_utf8_lossy(&name).into_owned();
        let found = places.get(&name).map_or(&[][..], Vec::as_slice);
        for place in found {
            if !context.json {
                context.out.foreign(&name)?;
                writeln!(context.out, "\t{place}")?;
            }
        }
        if found.is_empty() {
            absent.push(shown.clone());
        }
        answers.push(json!({ "name": shown, "places": found }));
    }
    if context.json {
        context.out.json(&json!({ "names": answers }))?;
    }
    context.out.flush()?;
    let Some(first) = absent.first() else {
        return Ok(Exit::Ok);
    };
    let more = match absent.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more names"),
    };
    let message = format!("not in the list: {first}{more}");
    Err(Failure::answer(Status::ERR_NOT_FOUND, message))
}

/// Returns all arguments as one list.
fn one(context: &Context, args: &Lists) -> Result<NodeList, Failure> {
    let words: &[OsString] = &args.lists;
    let mut lists = read_lists(context, words)?;
    if lists.len() == 1 {
        return Ok(lists.remove(0));
    }
    let names: Vec<_> = lists.iter().flat_map(NodeList::iter).collect();
    list_of(names.iter().map(Vec::as_slice), context.limits())
}

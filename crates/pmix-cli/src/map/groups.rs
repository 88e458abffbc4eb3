// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmix map groups` and `pmix map regroup`.

use std::collections::HashSet;
use std::io::Write as _;

use pmix_map::NodeList;
use serde_json::json;

use super::sets::{list_of, natural_order};
use crate::args::{GroupList, Regroup};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::input::{Expressions, read_nodes, read_sources};

/// A group with its nodes.
struct Group {
    source: String,
    name: String,
    nodes: NodeList,
}

/// Runs `groups`: prints one line per group.
pub(super) fn list(context: &mut Context, args: &GroupList) -> Result<Exit, Failure> {
    let limits = *context.limits();
    let asked: Option<HashSet<Vec<u8>>> = match args.lists.is_empty() {
        true => None,
        false => {
            let list = read_nodes(&context.preg, read_sources(&args.lists)?)?.into_list(&limits)?;
            Some(list.iter().collect())
        }
    };
    let mut expressions = Expressions::new(&limits);
    let usual = expressions.groups()?.default_name();
    let sources =
        match &args.source {
            Some(source) => vec![expressions.groups()?.source(Some(source))?.1.name.clone()],
            None => {
                // Fails with advice if there is no source at all.
                expressions.groups()?.source(None).map(|_| ()).or_else(
                    |failure| match expressions.groups()?.sources().is_empty() {
                        true => Err(failure),
                        false => Ok(()),
                    },
                )?;
                let sources = expressions.groups()?.sources().iter();
                sources.map(|source| source.name.clone()).collect()
            }
        };
    for source in sources {
        for group in groups_of(&mut expressions, &source)? {
            let has_one =
                |asked: &HashSet<Vec<u8>>| group.nodes.iter().any(|name| asked.contains(&name));
            if asked.as_ref().is_some_and(|asked| !has_one(asked)) {
                continue;
            }
            let nodes = pmix_hostlist::write(&group.nodes, pmix_hostlist::Notation::ClusterShell);
            let nodes = nodes.map_err(|error| Failure::data(error.to_string()))?;
            if context.json {
                let nodes = String::from_utf8_lossy(&nodes);
                context.out.json(
                    &json!({ "source": group.source, "group": group.name, "nodes": nodes }),
                )?;
                continue;
            }
            let name = shown(&group.source, &group.name, usual.as_deref());
            context.out.foreign(name.as_bytes())?;
            context.out.write_all(b"\t")?;
            context.out.foreign(&nodes)?;
            context.out.write_all(b"\n")?;
        }
    }
    Ok(Exit::Ok)
}

/// Returns the groups of a source, in the order of its file.
fn groups_of(expressions: &mut Expressions<'_>, source: &str) -> Result<Vec<Group>, Failure> {
    let (_, found) = expressions.groups()?.source(Some(source))?;
    let names: Vec<_> = found.names().map(str::to_owned).collect();
    let group = |name: String| {
        let nodes = expressions.nodes_of(source, &name)?;
        let source = source.to_owned();
        Ok(Group {
            source,
            name,
            nodes,
        })
    };
    names.into_iter().map(group).collect()
}

/// Returns the name of a group in an expression. A group of the default source needs no source.
fn shown(source: &str, name: &str, usual: Option<&str>) -> String {
    match Some(source) == usual {
        true => format!("@{name}"),
        false => format!("@{source}:{name}"),
    }
}

/// Runs `regroup`: the largest groups first, then the names that are in none of them.
pub(super) fn regroup(context: &mut Context, args: &Regroup) -> Result<Exit, Failure> {
    let limits = *context.limits();
    let list = read_nodes(&context.preg, read_sources(&args.lists)?)?.into_list(&limits)?;
    let mut expressions = Expressions::new(&limits);
    let source = expressions
        .groups()?
        .source(args.source.as_deref())?
        .1
        .name
        .clone();
    let mut groups = groups_of(&mut expressions, &source)?;
    let usual = expressions.groups()?.default_name();
    groups.sort_by(|a, b| {
        b.nodes
            .len()
            .cmp(&a.nodes.len())
            .then_with(|| a.name.cmp(&b.name))
    });
    let mut left: HashSet<Vec<u8>> = list.iter().collect();
    let mut names = Vec::new();
    for group in groups {
        if !group.nodes.is_empty() && group.nodes.iter().all(|name| left.contains(&name)) {
            group.nodes.iter().for_each(|name| {
                left.remove(&name);
            });
            names.push(shown(&group.source, &group.name, usual.as_deref()).into_bytes());
        }
    }
    let fold = |mut names: Vec<Vec<u8>>| -> Result<Vec<u8>, Failure> {
        names.sort_by(|a, b| natural_order(a, b));
        let list = list_of(names.iter().map(Vec::as_slice), &limits)?;
        pmix_hostlist::write(&list, pmix_hostlist::Notation::ClusterShell)
            .map_err(|error| Failure::data(error.to_string()))
    };
    let parts = [fold(names)?, fold(left.into_iter().collect())?];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let text = parts.join(&b',');
    match context.json {
        true => context
            .out
            .json(&json!({ "text": String::from_utf8_lossy(&text) }))?,
        false => {
            context.out.foreign(&text)?;
            context.out.write_all(b"\n")?;
        }
    }
    Ok(Exit::Ok)
}

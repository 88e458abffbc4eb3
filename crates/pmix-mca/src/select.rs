// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which components of a framework are active, and in which order.
//!
//! Source: OpenPMIx, the selection of MCA components by priority, inclusion and exclusion.

use std::cmp::Reverse;
use std::fmt::Write as _;

use pmix_types::Status;

use crate::list::ComponentList;
use crate::nearest::hint;
use crate::source::Layer;
use crate::{Error, Params, Source};

/// Holds the properties of a component by which it is selected.
#[derive(Clone, Debug)]
pub struct Header<'a> {
    /// The component's name.
    pub name: &'a str,
    /// Its built-in priority; higher is asked first.
    pub priority: i32,
    /// Whether it is active when nothing is configured.
    pub enabled: bool,
}

/// Says what was decided about one component, in the order the headers came.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The priority in force.
    pub priority: i32,
    /// The layer that the priority came from.
    pub priority_source: Source,
    /// The reason why the component is not active, and by which setting; `None` when it is active.
    pub excluded: Option<(String, Source)>,
    /// Whether values of this component may be read, active or not.
    pub parse: bool,
    /// The layer that `parse` came from.
    pub parse_source: Source,
}

/// Holds the outcome of [`select`].
#[derive(Clone, Debug)]
pub struct Selection {
    /// Indices of all components, highest priority first, ties by name.
    pub order: Vec<usize>,
    /// Indices of the active components, in that order.
    pub active: Vec<usize>,
    /// Indices of the components whose values may be read, in that order.
    pub readers: Vec<usize>,
    /// One decision per header.
    pub decisions: Vec<Decision>,
}

/// Selects the active components of a framework and their order: applies the parameters
/// `<framework>`, `<framework>_<component>_priority`, `_enabled` and `_parse`.
///
/// The list and `_enabled` may disagree; then the higher layer decides, and within one layer
/// whichever excludes. A component that is not active still reads values of peers unless `_parse`
/// is false.
///
/// # Errors
/// A misplaced `^`, an unknown component, a malformed value, or nothing left to select; the
/// message names the setting's source.
pub fn select(
    framework: &str,
    headers: &[Header<'_>],
    params: &Params,
) -> Result<Selection, Error> {
    let list = match params.get(framework) {
        Some(setting) => ComponentList::parse(framework, setting)?,
        None => ComponentList::Default,
    };
    let known = |name: &String| headers.iter().any(|h| h.name == name.as_str());
    if let Some(name) = list.names().iter().find(|name| !known(name)) {
        return Err(unknown_component(framework, name, headers, params));
    }
    let mut decisions = Vec::new();
    for header in headers {
        decisions.push(decide(framework, header, &list, params)?);
    }
    let mut order: Vec<usize> = (0..headers.len()).collect();
    order.sort_by_key(|i| (Reverse(decisions[*i].priority), headers[*i].name));
    let kept = |keep: &dyn Fn(&Decision) -> bool| -> Vec<usize> {
        let indices = order.iter().copied();
        indices.filter(|i| keep(&decisions[*i])).collect()
    };
    let active = kept(&|d| d.excluded.is_none());
    if active.is_empty() {
        return Err(no_plugins(
            framework,
            headers.iter().map(|h| h.name).zip(&decisions),
        ));
    }
    Ok(Selection {
        active,
        readers: kept(&|d| d.parse),
        order,
        decisions,
    })
}

fn decide(
    framework: &str,
    header: &Header<'_>,
    list: &ComponentList,
    params: &Params,
) -> Result<Decision, Error> {
    let key = |what: &str| format!("{framework}_{}_{what}", header.name);
    let source = |what: &str| {
        let setting = params
            .get(&key(what))
            .filter(|s| !s.value.trim().is_empty());
        setting.map_or(Source::Default, |s| s.source.clone())
    };
    let decision = Decision {
        // DEVIATION: OpenPMIx's priorities are fixed, and such a parameter is ignored in silence;
        // the_highest_priority_comes_first
        priority: params.number(&key("priority"), header.priority)?,
        priority_source: source("priority"),
        excluded: None,
        // DEVIATION: OpenPMIx takes a value of a component that is not selected for host names;
        // here switching off stops producing, not reading, as a peer's value cannot be asked
        // for in another form; disabled_encoders_still_read_unless_told_otherwise
        parse: params.flag(&key("parse"), true)?,
        parse_source: source("parse"),
    };
    let enabled = params.flag(&key("enabled"), header.enabled)?;
    let enabled_by = set_in(params, &key("enabled"));
    let listed_by = set_in(params, framework);
    let listed = list.names().iter().any(|name| name == header.name);
    let by_list = match list {
        ComponentList::Default => None,
        ComponentList::Include(_) => Some(listed),
        ComponentList::Exclude(_) => listed.then_some(false),
    };
    let list_decides = by_list.is_some_and(|active| {
        // In one layer, whichever excludes; a default is lower than every layer.
        listed_by > enabled_by || (listed_by == enabled_by && !active)
    });
    let (active, reason, by) = if list_decides {
        let value = params.get(framework).map_or("", |s| s.value.trim());
        let by = params.get(framework).map(|s| s.source.clone());
        (by_list == Some(true), format!("{framework} = {value}"), by)
    } else if enabled_by.is_some() {
        let by = Some(source("enabled"));
        (enabled, format!("{} = {enabled}", key("enabled")), by)
    } else {
        (enabled, "off by default".to_owned(), None)
    };
    Ok(Decision {
        excluded: (!active).then(|| (reason, by.unwrap_or(Source::Default))),
        ..decision
    })
}

/// The layer that sets a parameter, unless it sets it to the default.
fn set_in(params: &Params, name: &str) -> Option<Layer> {
    let entry = params.entry(name)?;
    (!entry.setting.value.trim().is_empty()).then_some(entry.layer)
}

fn unknown_component(
    framework: &str,
    name: &str,
    headers: &[Header<'_>],
    params: &Params,
) -> Error {
    let source = params
        .get(framework)
        .map_or_else(String::new, |s| format!("{}: ", s.source));
    let shown: String = name.chars().take(60).collect();
    let mut known: Vec<&str> = headers.iter().map(|h| h.name).collect();
    known.sort_unstable();
    Error::new(format!(
        "{source}{framework} names the unknown component {shown:?}{}; known are {}",
        hint(name, known.iter().copied()),
        known.join(", ")
    ))
    .with_status(Status::ERR_NOT_FOUND)
}

/// Returns the error for a framework without an active component: what was excluded, and by which
/// setting.
pub fn no_plugins<'a>(
    framework: &str,
    decisions: impl IntoIterator<Item = (&'a str, &'a Decision)>,
) -> Error {
    let mut text = format!(
        "no component of the {framework} framework is left, so it could do nothing; \
         the library does not start.\nLeft out were:"
    );
    let mut nothing = true;
    for (name, decision) in decisions {
        nothing = false;
        let (why, source) = match &decision.excluded {
            Some((why, source)) => (why.as_str(), source.to_string()),
            None => ("cannot work here", "its own decision".to_owned()),
        };
        let _ = write!(text, "\n  {name}: {why} ({source})");
    }
    if nothing {
        text.push_str("\n  nothing: no component is linked or loaded");
    }
    let _ = write!(
        text,
        "\nName at least one of them in {framework} (as in PMIX_MCA_{framework}=NAME), or remove \
         the settings above."
    );
    // What went wrong is said in full, so nobody has to say it again.
    Error::new(text).with_status(Status::ERR_SILENT)
}

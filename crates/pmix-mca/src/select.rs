// SPDX-License-Identifier: MIT OR Apache-2.0
//! The selection of the active components of a framework, and their order.
//!
//! Source: OpenPMIx, the selection of MCA components by priority, inclusion and exclusion.

use std::cmp::Reverse;
use std::fmt::Write as _;

use pmix_types::Status;

use crate::nearest::hint;
use crate::spec::Layer;
use crate::{Error, Params, Setting, Source};

/// The properties of a component that determine its selection.
#[derive(Clone, Debug)]
pub struct Header<'a> {
    /// The component's name.
    pub name: &'a str,
    /// The built-in priority. The component with the highest priority comes first.
    pub priority: i32,
    /// `true` if the component is active without configuration.
    pub enabled: bool,
}

/// The decision about a component.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The effective priority.
    pub priority: i32,
    /// The source of the priority.
    pub priority_source: Source,
    /// The reason for which the component is not active, and the source of the setting; `None` if
    /// it is active.
    pub excluded: Option<(String, Source)>,
    /// `true` if values of this component may be parsed, even if it is not active.
    pub parse: bool,
    /// The source of `parse`.
    pub parse_source: Source,
}

/// The result of [`select`].
#[derive(Clone, Debug)]
pub struct Selection {
    /// The indices of all components, highest priority first. Components of equal priority are
    /// sorted by name.
    pub order: Vec<usize>,
    /// The indices of the active components, in the same order.
    pub active: Vec<usize>,
    /// The indices of the components whose values may be parsed, in the same order.
    pub readers: Vec<usize>,
    /// One decision for each header, in the order of the headers.
    pub decisions: Vec<Decision>,
}

/// Selects the active components of a framework and their order, according to the parameters
/// `<framework>`, `<framework>_<component>_priority`, `_enabled` and `_parse`.
///
/// If the list and `_enabled` disagree, the setting of the higher layer applies; within one layer,
/// the exclusion applies. A component that is not active still parses values of peers, unless
/// `_parse` is false.
///
/// # Errors
/// A `^` is misplaced, a component is unknown, a value is malformed, or no component is left. The
/// message names the source of the setting.
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
        // DEVIATION: priorities are fixed in OpenPMIx, which silently ignores this parameter;
        // the_highest_priority_comes_first
        priority: params.number(&key("priority"), header.priority)?,
        priority_source: source("priority"),
        excluded: None,
        // DEVIATION: OpenPMIx treats a value of an unselected component as host names; here an
        // excluded component does not encode but still parses, because a peer cannot encode its
        // value in another form on request; disabled_encoders_still_read_unless_told_otherwise
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
        // Within one layer the exclusion applies. Defaults are below every layer.
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

/// Returns the layer that sets a parameter to a value other than the default.
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

/// Returns the error for a framework without an active component, with the settings that excluded
/// each.
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
    // The message is complete, so callers must not add another one.
    Error::new(text).with_status(Status::ERR_SILENT)
}

/// The value of `PMIX_MCA_<framework>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ComponentList {
    /// All components that are enabled by default.
    Default,
    /// Only these components.
    Include(Vec<String>),
    /// All components except these.
    Exclude(Vec<String>),
}

impl ComponentList {
    /// Parses a setting: names separated by commas. With a leading `^`, the whole list is excluded.
    pub(crate) fn parse(framework: &str, setting: &Setting) -> Result<Self, Error> {
        let fail = |message: String| {
            let shown: String = setting.value.chars().take(80).collect();
            Err(Error::new(format!(
                "{}: {framework} = {shown:?}: {message}",
                setting.source
            )))
        };
        let value = setting.value.trim();
        if value.is_empty() {
            return Ok(Self::Default);
        }
        let (exclude, names) = match value.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, value),
        };
        if names.contains('^') {
            return fail(
                "`^` may only stand once, at the very front: it excludes the whole list, \
                 as in ^raw,native"
                    .to_owned(),
            );
        }
        let names: Vec<String> = names
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        if names.is_empty() {
            return fail("no component is named; leave the value empty for the default".to_owned());
        }
        Ok(if exclude {
            Self::Exclude(names)
        } else {
            Self::Include(names)
        })
    }

    /// Returns the names of the list.
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::Default => &[],
            Self::Include(names) | Self::Exclude(names) => names,
        }
    }
}

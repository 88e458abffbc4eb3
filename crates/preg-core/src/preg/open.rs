// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening the framework: plugin files, selection, limits, and the decision about each component.
//!
//! Source: OpenPMIx `regex.rst`, "The MCA preg Framework"; the limits are this project's own.

use std::path::PathBuf;

use pmix_map::Limits;
use pmix_mca::{Catalog, Header, LoadFault, Params, Refusal};

use super::Preg;
use super::candidate::Candidate::{self, Loaded, Static};
use super::candidate::{ComponentStatus, FRAMEWORK, Modules};
use crate::{Component, Error, ParamSpec, Status, dynamic};

/// The parameters of the framework.
const PARAMS: &[ParamSpec] = &[
    ParamSpec {
        name: "preg",
        default: "",
        help: "components to use (raw,native), or with a leading ^ those not to use; empty: all",
    },
    ParamSpec {
        name: "preg_base_max_nodes",
        default: "16777216",
        help: "maximum number of names in a node map and of nodes in a process map; -1: no limit",
    },
    ParamSpec {
        name: "preg_base_max_ranks",
        default: "134217728",
        help: "maximum number of ranks in a process map, over all nodes; -1: no limit",
    },
    ParamSpec {
        name: "preg_base_max_bytes",
        default: "2147483648",
        help: "maximum size in bytes of the text that a folded map expands to; -1: no limit",
    },
    ParamSpec {
        name: "preg_base_max_text",
        default: "268435456",
        help: "maximum size in bytes of decompressed values and of maps written as text; -1: no limit",
    },
    ParamSpec {
        name: "preg_base_max_memory",
        default: "268435456",
        help: "maximum memory in bytes of a decoded map; -1: no limit",
    },
    ParamSpec {
        name: "preg_base_max_name",
        default: "1048576",
        help: "maximum size in bytes of one name; -1: no limit",
    },
    ParamSpec {
        name: "preg_base_plugins",
        default: "",
        help: "files to load besides those of plugins.toml, separated by colons",
    },
];

/// Returns the known parameters of the framework and the given components, for display and checks.
#[must_use]
pub fn parameters(components: &[&'static Component]) -> Catalog {
    let mut catalog = Catalog::new(FRAMEWORK, PARAMS);
    for component in components {
        catalog.component(&component.header(), component.params);
    }
    catalog
}

impl Component {
    pub(crate) fn header(&self) -> Header<'_> {
        Header {
            name: self.name,
            priority: self.priority,
            enabled: self.enabled,
        }
    }
}

impl Preg {
    /// Loads the plugins that the parameters name, selects among the plugins and the given
    /// components, and creates their schemes. A plugin that cannot be used is skipped with a
    /// warning.
    ///
    /// # Errors
    /// A setting is invalid, a user other than the owner and root can write a plugin file, or no
    /// component is left. The message names the settings.
    pub fn open(params: &Params, components: &[&'static Component]) -> Result<Self, Error> {
        let limits = limits(params)?;
        let mut candidates: Vec<Candidate> = components.iter().copied().map(Static).collect();
        let mut refused = load_plugins(params, &mut candidates)?;
        let catalog = catalog(&candidates, refused.is_empty());
        catalog.check(params)?;
        let headers: Vec<_> = candidates.iter().map(Candidate::header).collect();
        let selection = pmix_mca::select(FRAMEWORK, &headers, params)
            .map_err(|e| with_refusals(e, &refused))?;
        let mut made = Modules::default();
        for index in selection.order {
            let decision = selection.decisions[index].clone();
            let taken = made.add(&candidates[index], decision, params, &limits)?;
            refused.extend(taken);
        }
        let Modules { modules, statuses } = made;
        if !modules.iter().any(|m| m.decision.excluded.is_none()) {
            let left_out = statuses.iter().map(|s| (s.name.as_str(), &s.decision));
            let error = pmix_mca::no_plugins(FRAMEWORK, left_out);
            return Err(with_refusals(error, &refused));
        }
        Ok(Self {
            tags: statuses
                .iter()
                .map(|s| (s.tag.clone(), s.name.clone()))
                .collect(),
            modules,
            limits,
            components: statuses,
            refused,
            catalog,
        })
    }

    /// Returns the plugin files that were rejected, with the reasons.
    #[must_use]
    pub fn refused(&self) -> &[Refusal] {
        &self.refused
    }

    /// Returns every component, highest priority first, including those without a scheme.
    #[must_use]
    pub fn components(&self) -> &[ComponentStatus] {
        &self.components
    }

    /// Returns the known parameters, including those of loaded components.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }
}

/// Returns the known parameters of the framework and of all candidates. `complete` is `true` if no
/// candidate is missing.
fn catalog(candidates: &[Candidate], complete: bool) -> Catalog {
    let mut catalog = Catalog::new(FRAMEWORK, PARAMS);
    for candidate in candidates {
        match candidate {
            Static(component) => catalog.component(&component.header(), component.params),
            Loaded(loaded) => match &loaded.params {
                Some(params) => {
                    let declared = params.iter().map(|p| (&*p.name, &*p.default, &*p.help));
                    catalog.declared_component(&candidate.header(), declared);
                }
                None => catalog.open_component(&candidate.header()),
            },
        }
    }
    if !complete {
        catalog.mark_incomplete();
    }
    catalog
}

/// Appends the rejected plugins to an error: a component that is missing may be one of them.
fn with_refusals(error: pmix_mca::Error, refused: &[Refusal]) -> Error {
    let mut text = error.to_string();
    for refusal in refused {
        text.push_str(&format!("\nnot loaded: {refusal}"));
    }
    Error::new(error.status(), text)
}

fn limits(params: &Params) -> Result<Limits, Error> {
    let default = Limits::default();
    Ok(Limits {
        max_nodes: params.size("preg_base_max_nodes", default.max_nodes)?,
        max_ranks: params.size("preg_base_max_ranks", default.max_ranks)?,
        max_bytes: params.size("preg_base_max_bytes", default.max_bytes)?,
        max_text: params.size("preg_base_max_text", default.max_text)?,
        max_memory: params.size("preg_base_max_memory", default.max_memory)?,
        max_name: params.size("preg_base_max_name", default.max_name)?,
    })
}

/// Adds every usable plugin to the candidates. For each other plugin, logs a warning and records a
/// refusal.
///
/// # Errors
/// Another user could have written a plugin file.
pub(super) fn load_plugins(
    params: &Params,
    candidates: &mut Vec<Candidate>,
) -> Result<Vec<Refusal>, Error> {
    let mut refused = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for file in params.plugin_files(FRAMEWORK) {
        // Two layers may name the same file.
        let path = file
            .path
            .canonicalize()
            .unwrap_or_else(|_| file.path.clone());
        if seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let loaded = dynamic::load(&file.path).and_then(|loaded| {
            let others: Vec<_> = candidates.iter().map(Candidate::occupied).collect();
            match dynamic::collision(&loaded, &others) {
                Ok(()) => Ok(loaded),
                Err(fault) => Err(Refusal::new(&loaded.path, fault)),
            }
        });
        match loaded {
            Ok(loaded) => candidates.push(Candidate::Loaded(Box::new(loaded))),
            Err(refusal) if matches!(refusal.fault, LoadFault::Untrusted(_)) => {
                let message = format!("{refusal} (named by {})", file.source);
                return Err(Error::new(Status::ERR_NO_PERMISSIONS, message));
            }
            Err(refusal) => {
                tracing::warn!("{refusal}; it is not used (named by {})", file.source);
                refused.push(refusal);
            }
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_limits_are_the_built_in_ones() {
        let default = |name| {
            let spec = PARAMS.iter().find(|s| s.name == name);
            spec.and_then(|s| s.default.parse::<u64>().ok())
        };
        let limits = Limits::default();
        assert_eq!(default("preg_base_max_nodes"), Some(limits.max_nodes));
        assert_eq!(default("preg_base_max_ranks"), Some(limits.max_ranks));
        assert_eq!(default("preg_base_max_bytes"), Some(limits.max_bytes));
        assert_eq!(default("preg_base_max_text"), Some(limits.max_text));
        assert_eq!(default("preg_base_max_memory"), Some(limits.max_memory));
        assert_eq!(default("preg_base_max_name"), Some(limits.max_name));
    }
}

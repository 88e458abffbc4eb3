// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening the framework: selection, limits, and what became of each component.

use pmix_map::Limits;
use pmix_mca::{Catalog, Decision, Header, Params, Source};

use super::{Module, Preg};
use crate::{Component, Error, ParamSpec};

/// The framework's name.
pub(crate) const FRAMEWORK: &str = "preg";

/// The framework's own parameters.
const PARAMS: &[ParamSpec] = &[
    ParamSpec {
        name: "preg",
        default: "",
        help: "components to use (raw,native), or with a leading ^ those not to use; empty: all",
    },
    ParamSpec {
        name: "preg_base_max_nodes",
        default: "16777216",
        help: "most names of a node map and most nodes of a process map; -1: no limit",
    },
    ParamSpec {
        name: "preg_base_max_ranks",
        default: "268435456",
        help: "most ranks of a process map, over all nodes; -1: no limit",
    },
    ParamSpec {
        name: "preg_base_max_bytes",
        default: "2147483648",
        help: "most bytes of decoded text; -1: no limit",
    },
];

/// What is known of a component, active or not.
#[derive(Clone, Debug)]
pub struct ComponentStatus {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// What its string form begins with.
    pub tag: Vec<u8>,
    /// Its priority, why it is excluded if it is, whether it reads.
    pub decision: Decision,
}

/// The known parameters of the framework and the given components, for showing and checking.
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
    /// Selects among the components by the parameters and makes their schemes.
    ///
    /// # Errors
    /// A setting that cannot be obeyed, or no component left; the message names the settings.
    pub fn open(params: &Params, components: &[&'static Component]) -> Result<Self, Error> {
        let catalog = parameters(components);
        catalog.check(params)?;
        let headers: Vec<_> = components.iter().map(|c| c.header()).collect();
        let selection = pmix_mca::select(FRAMEWORK, &headers, params)?;
        let mut decisions = selection.decisions;
        let mut modules = Vec::new();
        let mut statuses = Vec::new();
        for index in selection.order {
            let (component, decision) = (components[index], &mut decisions[index]);
            if decision.excluded.is_none() || decision.parse {
                match (component.query)(params)? {
                    Some(scheme) => modules.push(Module {
                        scheme,
                        decision: decision.clone(),
                    }),
                    None => cannot_work(decision),
                }
            }
            statuses.push(ComponentStatus {
                name: component.name.to_owned(),
                about: component.about.to_owned(),
                tag: component.tag.to_vec(),
                decision: decision.clone(),
            });
        }
        if !modules.iter().any(|m| m.decision.excluded.is_none()) {
            let left_out = statuses.iter().map(|s| (s.name.as_str(), &s.decision));
            return Err(pmix_mca::no_plugins(FRAMEWORK, left_out).into());
        }
        Ok(Self {
            tags: statuses
                .iter()
                .map(|s| (s.tag.clone(), s.name.clone()))
                .collect(),
            modules,
            limits: limits(params)?,
            components: statuses,
            catalog,
        })
    }

    /// Every component, highest priority first, those that do not run included.
    #[must_use]
    pub fn components(&self) -> &[ComponentStatus] {
        &self.components
    }

    /// The known parameters, those of loaded components included.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }
}

/// Notes that a component made no scheme; it neither encodes nor reads.
fn cannot_work(decision: &mut Decision) {
    decision.parse = false;
    decision.excluded.get_or_insert_with(|| {
        let why = "cannot work here: what it needs is not built in or is switched off";
        (why.to_owned(), Source::Default)
    });
}

fn limits(params: &Params) -> Result<Limits, Error> {
    let default = Limits::default();
    Ok(Limits {
        max_nodes: params.size("preg_base_max_nodes", default.max_nodes)?,
        max_ranks: params.size("preg_base_max_ranks", default.max_ranks)?,
        max_bytes: params.size("preg_base_max_bytes", default.max_bytes)?,
    })
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
    }
}

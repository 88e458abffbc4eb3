// SPDX-License-Identifier: MIT OR Apache-2.0
//! Components before selection, built in or loaded, and the modules created from them.
//!
//! Source: OpenPMIx `regex.rst`, "The MCA preg Framework".

use std::path::PathBuf;

use pmix_mca::{Decision, Header, LoadFault, Params, Refusal, Source};

use super::Module;
use crate::dynamic::{self, Occupied};
use crate::{Component, Error, Limits, Scheme};

/// The status of a component of an open framework.
#[derive(Clone, Debug)]
pub struct ComponentStatus {
    /// The name.
    pub name: String,
    /// A description for users, in one line.
    pub about: String,
    /// The prefix of every value in the component's string form.
    pub tag: Vec<u8>,
    /// The effective priority, the reason if the component does not encode, and whether it parses
    /// values.
    pub decision: Decision,
    /// The file from which it was loaded; `None` if it is built in.
    pub file: Option<PathBuf>,
}

/// The name of the framework.
pub(crate) const FRAMEWORK: &str = "preg";

/// Returns the reason to reject a plugin that uses the name, tag or regex2 type of a linked component. The component may
/// be disabled here and enabled elsewhere.
pub(crate) fn collision_with_linked(
    loaded: &pmix_mca::Loaded,
    components: &[&'static Component],
    params: &Params,
) -> Result<(), LoadFault> {
    let linked: Vec<_> = components.iter().copied().map(Candidate::Static).collect();
    let others: Vec<_> = linked.iter().map(Candidate::occupied).collect();
    dynamic::collision(loaded, &others)?;
    let Some(kind) = &loaded.kind else {
        return Ok(());
    };
    // The regex2 type of a linked component is known only after its scheme is created.
    for (component, (_, owner)) in components.iter().zip(&others) {
        if let Ok(Some(scheme)) = (component.query)(params)
            && scheme.kind() == Some(kind)
        {
            return Err(LoadFault::Taken {
                what: "regex2 type",
                value: kind.clone(),
                owner: owner.clone(),
            });
        }
    }
    Ok(())
}

/// A component before selection.
pub(super) enum Candidate {
    /// A linked component.
    Static(&'static Component),
    /// A component from a file.
    Loaded(Box<pmix_mca::Loaded>),
}

impl Candidate {
    pub(super) fn header(&self) -> Header<'_> {
        match self {
            Self::Static(component) => component.header(),
            Self::Loaded(loaded) => Header {
                name: &loaded.name,
                priority: loaded.priority,
                enabled: loaded.enabled,
            },
        }
    }

    /// Returns the names that the candidate uses, and its description, as far as they are known
    /// before it runs.
    pub(super) fn occupied(&self) -> (Occupied<'_>, String) {
        match self {
            Self::Static(component) => (
                Occupied {
                    name: component.name,
                    tag: component.tag,
                    kind: None,
                },
                format!("the built-in component {:?}", component.name),
            ),
            Self::Loaded(loaded) => (
                Occupied {
                    name: &loaded.name,
                    tag: &loaded.tag,
                    kind: loaded.kind.as_deref(),
                },
                format!("plugin {}", loaded.path.display()),
            ),
        }
    }

    fn status(&self, decision: &Decision) -> ComponentStatus {
        let (about, tag, file) = match self {
            Self::Static(component) => (component.about, component.tag, None),
            Self::Loaded(l) => (l.about.as_str(), l.tag.as_slice(), Some(l.path.clone())),
        };
        ComponentStatus {
            name: self.header().name.to_owned(),
            about: about.to_owned(),
            tag: tag.to_vec(),
            decision: decision.clone(),
            file,
        }
    }
}

/// The modules created so far, and the decisions about all candidates.
#[derive(Default)]
pub(super) struct Modules {
    pub(super) modules: Vec<Module>,
    pub(super) statuses: Vec<ComponentStatus>,
}

impl Modules {
    /// Creates the module of a candidate that encodes or parses. Returns a refusal if the candidate
    /// is a plugin and turns out to be unusable.
    pub(super) fn add(
        &mut self,
        candidate: &Candidate,
        mut decision: Decision,
        params: &Params,
        limits: &Limits,
    ) -> Result<Option<Refusal>, Error> {
        let mut refusal = None;
        if decision.excluded.is_none() || decision.parse {
            let made = match candidate {
                Candidate::Static(component) => (component.query)(params)?,
                Candidate::Loaded(loaded) => match self.dynamic(loaded, params, limits) {
                    Ok(scheme) => scheme,
                    Err(fault) => {
                        refusal = Some(Refusal::new(&loaded.path, fault));
                        None
                    }
                },
            };
            match made {
                Some(scheme) => self.modules.push(Module {
                    scheme,
                    decision: decision.clone(),
                }),
                None => cannot_work(&mut decision, refusal.as_ref()),
            }
        }
        if let Some(refusal) = &refusal {
            tracing::warn!("{refusal}; it is not used");
        }
        self.statuses.push(candidate.status(&decision));
        Ok(refusal)
    }

    fn dynamic(
        &self,
        loaded: &pmix_mca::Loaded,
        params: &Params,
        limits: &Limits,
    ) -> Result<Option<Box<dyn Scheme>>, LoadFault> {
        // The regex2 type of a built-in component is known only after its scheme is created.
        let same_kind =
            |m: &&Module| loaded.kind.is_some() && m.scheme.kind() == loaded.kind.as_deref();
        if let Some(owner) = self.modules.iter().find(same_kind) {
            return Err(LoadFault::Taken {
                what: "regex2 type",
                value: loaded.kind.clone().unwrap_or_default(),
                owner: format!("component {:?}", owner.scheme.name()),
            });
        }
        let scheme = dynamic::scheme(loaded, params, limits).map_err(LoadFault::Query)?;
        Ok(scheme.map(|scheme| -> Box<dyn Scheme> { Box::new(scheme) }))
    }
}

/// Records that a component created no scheme, so that it neither encodes nor parses.
fn cannot_work(decision: &mut Decision, refusal: Option<&Refusal>) {
    decision.parse = false;
    decision.excluded.get_or_insert_with(|| {
        let why = match refusal {
            Some(refusal) => refusal.fault.to_string(),
            None => "cannot work here: a feature that it needs is not built in or is disabled"
                .to_owned(),
        };
        (why, Source::Default)
    });
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The catalog of known parameters, for checks and for display.
//!
//! Source: this project; the components declare their parameters.

use crate::nearest::hint;
use crate::params::{Entry, malformed};
use crate::spec::{Layer, parse_flag};
use crate::{Error, Header, Kind, ParamSpec, Params, Setting, Source};

/// The components of OpenPMIx that this implementation does not have, in the frameworks that both have, and the names
/// that OpenPMIx gives to all parameters of its frameworks.
///
/// Source: the directories of `src/mca` in OpenPMIx 3.2 to 6.0.
const OF_OPENPMIX: &[(&str, &[&str])] = &[
    ("gds", &["base", "ds12", "ds20", "ds21", "shmem", "shmem2"]),
    ("psec", &["base", "dummy_handshake"]),
    ("preg", &["base"]),
    ("pcompress", &["base", "zlibng"]),
];

/// Returns `true` if a parameter configures a component that only OpenPMIx has, or is one that each component of
/// OpenPMIx has.
fn is_of_openpmix(name: &str) -> bool {
    let Some((framework, rest)) = name.split_once('_') else {
        return false;
    };
    let components = OF_OPENPMIX.iter().find(|(known, _)| *known == framework);
    let mut components = components
        .into_iter()
        .flat_map(|(_, components)| *components);
    let is_inside = |component: &&str| {
        let inside = rest.strip_prefix(component);
        inside.is_some_and(|inside| inside.is_empty() || inside.starts_with('_'))
    };
    components.any(is_inside) || rest.ends_with("_verbose") || rest.ends_with("_priority")
}

/// A known parameter: its default, its help, the effective value and the overridden values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// The full MCA name.
    pub name: String,
    /// The component of the parameter; `None` for the framework itself.
    pub component: Option<String>,
    /// The default value.
    pub default: String,
    /// The help, in one line.
    pub help: String,
    /// The kind of value.
    pub kind: Kind,
    /// The effective value and its source.
    pub setting: Setting,
    /// The overridden values of lower layers, highest first.
    pub overridden: Vec<Setting>,
}

#[derive(Clone, Debug)]
struct Known {
    name: String,
    component: Option<String>,
    default: String,
    help: String,
}

#[derive(Clone, Debug)]
struct KnownComponent {
    name: String,
    /// `true` if the component may have parameters that are not in the catalog.
    open: bool,
}

/// The known parameters of one framework and its components.
#[derive(Clone, Debug)]
pub struct Catalog {
    framework: String,
    known: Vec<Known>,
    components: Vec<KnownComponent>,
    incomplete: bool,
}

impl Catalog {
    /// Creates the catalog of a framework with the framework's own parameters.
    #[must_use]
    pub fn new(framework: &str, specs: &[ParamSpec]) -> Self {
        let mut catalog = Self {
            framework: framework.to_owned(),
            known: Vec::new(),
            components: Vec::new(),
            incomplete: false,
        };
        catalog.known.extend(specs.iter().map(|s| known(None, s)));
        catalog
    }

    /// Adds a component that parses values of peers, with its own parameters and `_priority`,
    /// `_enabled` and `_parse`.
    pub fn component(&mut self, header: &Header<'_>, specs: &[ParamSpec]) {
        self.plain_component(header, specs);
        let name = header.name;
        self.known.push(Known {
            name: format!("{}_{name}_parse", self.framework),
            component: Some(name.to_owned()),
            default: "true".to_owned(),
            help: "whether it reads values of peers, even when not enabled".to_owned(),
        });
    }

    /// Adds a component that is controlled only by its parameter `_enabled`, with its own
    /// parameters.
    pub fn plain_component(&mut self, header: &Header<'_>, specs: &[ParamSpec]) {
        let name = header.name;
        let mut add = |key: &str, default: String, help: &str| {
            self.known.push(Known {
                name: format!("{}_{name}_{key}", self.framework),
                component: Some(name.to_owned()),
                default,
                help: help.to_owned(),
            });
        };
        let priority = header.priority.to_string();
        add(
            "priority",
            priority,
            "higher is asked first; ties are broken by name",
        );
        let enabled = header.enabled.to_string();
        add("enabled", enabled, "whether it is used");
        self.known
            .extend(specs.iter().map(|s| known(Some(name), s)));
        self.components.push(KnownComponent {
            name: name.to_owned(),
            open: false,
        });
    }

    /// Adds a loaded component that does not declare its parameters.
    pub fn open_component(&mut self, header: &Header<'_>) {
        self.component(header, &[]);
        if let Some(last) = self.components.last_mut() {
            last.open = true;
        }
    }

    /// Adds a loaded component with declared parameters: their names, defaults and help.
    pub fn declared_component<'p>(
        &mut self,
        header: &Header<'_>,
        params: impl IntoIterator<Item = (&'p str, &'p str, &'p str)>,
    ) {
        self.component(header, &[]);
        let declared = params.into_iter().map(|(name, default, help)| Known {
            name: name.to_owned(),
            component: Some(header.name.to_owned()),
            default: default.to_owned(),
            help: help.to_owned(),
        });
        self.known.extend(declared);
    }

    /// Records that a component could not be loaded. Unknown names may then be its parameters, so
    /// they become warnings.
    pub fn mark_incomplete(&mut self) {
        self.incomplete = true;
    }

    /// Returns all parameters with their effective values.
    #[must_use]
    pub fn describe(&self, params: &Params) -> Vec<ParamInfo> {
        self.known.iter().map(|known| known.info(params)).collect()
    }

    /// Checks the names and values of the parameters that are set.
    ///
    /// An unknown name in `plugins.toml`, on the command line or from the API is an error. In the
    /// environment and in MCA parameter files, which other programs share, it is a warning.
    /// Parameters of other frameworks are ignored.
    ///
    /// # Errors
    /// A name is unknown, or a value has the wrong kind. The message names the source.
    pub fn check(&self, params: &Params) -> Result<(), Error> {
        for section in &params.sections {
            if section.framework == self.framework && !self.has_component(&section.component) {
                let names = self.components.iter().map(|c| c.name.as_str());
                let message = format!(
                    "{}: unknown component {:?} in [{}.{}]{}",
                    section.source,
                    section.component,
                    self.framework,
                    section.component,
                    hint(&section.component, names)
                );
                self.unknown(message, true)?;
            }
        }
        for (name, entries) in &params.values {
            for (index, entry) in entries.iter().enumerate() {
                let in_force = index + 1 == entries.len();
                self.check_entry(name, entry, in_force)?;
            }
        }
        Ok(())
    }

    fn check_entry(&self, name: &str, entry: &Entry, in_force: bool) -> Result<(), Error> {
        if let Some(known) = self.known.iter().find(|k| k.name == name) {
            return known.check(entry, in_force);
        }
        if !self.covers(name) || self.is_open(name) || name.ends_with("_base_verbose") {
            return Ok(());
        }
        let (shown, suggestion) = match &entry.toml {
            Some((key, _)) => (key.as_str(), self.nearest_key(key)),
            None => (name, hint(name, self.known.iter().map(|k| k.name.as_str()))),
        };
        let source = &entry.setting.source;
        let strict = entry.toml.is_some() || entry.layer == Layer::Program;
        // Each framework of OpenPMIx has a parameter with the framework's name. Sites set
        // `PMIX_MCA_gds`, for example, for clients of OpenPMIx. Such a parameter is ignored here.
        if !strict && (!name.contains('_') || is_of_openpmix(name)) {
            return Ok(());
        }
        self.unknown(
            format!("{source}: unknown parameter {shown}{suggestion}"),
            strict,
        )
    }

    fn unknown(&self, message: String, strict: bool) -> Result<(), Error> {
        if strict && !self.incomplete {
            return Err(Error::new(message));
        }
        tracing::warn!("{message}; it is ignored");
        Ok(())
    }

    /// Returns `true` if the parameter `name` belongs to this framework, or to another framework of
    /// which a component declares parameters (such as `pcompress`).
    fn covers(&self, name: &str) -> bool {
        let first = |name: &str| name.split('_').next().unwrap_or_default().to_owned();
        self.known
            .iter()
            .any(|known| first(&known.name) == first(name))
    }

    fn is_open(&self, name: &str) -> bool {
        let inside = name
            .strip_prefix(&self.framework)
            .and_then(|n| n.strip_prefix('_'));
        self.components.iter().filter(|c| c.open).any(|component| {
            inside
                .and_then(|n| n.strip_prefix(component.name.as_str()))
                .is_some_and(|n| n.starts_with('_'))
        })
    }

    fn has_component(&self, name: &str) -> bool {
        self.components.iter().any(|c| c.name == name)
    }

    /// Returns the most similar key of the same table of `plugins.toml`.
    fn nearest_key(&self, key: &str) -> String {
        let Some((table, last)) = key.rsplit_once('.') else {
            return String::new();
        };
        let prefix = format!("{}_", table.replace('.', "_"));
        let names = self
            .known
            .iter()
            .filter_map(|k| k.name.strip_prefix(&prefix));
        hint(last, names.chain(["select"]))
    }
}

fn known(component: Option<&str>, spec: &ParamSpec) -> Known {
    Known {
        name: spec.name.to_owned(),
        component: component.map(str::to_owned),
        default: spec.default.to_owned(),
        help: spec.help.to_owned(),
    }
}

impl Known {
    fn info(&self, params: &Params) -> ParamInfo {
        let default = Setting {
            value: self.default.clone(),
            source: Source::Default,
        };
        let mut set = params.settings(&self.name).cloned().rev();
        let setting = set.next().filter(|s| !s.value.trim().is_empty());
        ParamInfo {
            name: self.name.clone(),
            component: self.component.clone(),
            default: self.default.clone(),
            help: self.help.clone(),
            kind: Kind::of(&self.default),
            setting: setting.unwrap_or(default),
            overridden: set.collect(),
        }
    }

    /// Checks the type of a value in `plugins.toml`, and the text of an effective value.
    fn check(&self, entry: &Entry, in_force: bool) -> Result<(), Error> {
        let kind = Kind::of(&self.default);
        if let Some((key, found)) = &entry.toml
            && *found != kind
            && !(kind == Kind::Text && *found == Kind::Number)
        {
            return Err(malformed(key, &entry.setting, kind.expected()));
        }
        let text = entry.setting.value.trim();
        let readable = match kind {
            Kind::Text => true,
            Kind::Flag => parse_flag(text).is_some(),
            Kind::Number => text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok(),
        };
        if readable || text.is_empty() || !in_force {
            return Ok(());
        }
        Err(malformed(&self.name, &entry.setting, kind.expected()))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameter that lists components to include or to exclude.

use crate::{Error, Setting};

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

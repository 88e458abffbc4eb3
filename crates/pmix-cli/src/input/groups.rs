// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of nodes from the files of ClusterShell and genders.
//!
//! Files are only read: the commands (upcalls) of `groups.conf` are never run. Otherwise another user who can change that
//! file could run programs as the user of `pmix`.

mod clustershell;
mod genders;
mod ini;
mod yaml;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pmix_files::Fault;
use pmix_mca::Environment;
use preg_core::Status;

use crate::failure::{Exit, Failure};

/// The maximum size of a file with groups, in bytes.
const MOST_OF_FILE: u64 = 16 << 20;

/// The maximum size of the definitions of all groups, in bytes.
const MOST: usize = 64 << 20;

/// The name of the source that reads the file of genders.
const GENDERS: &str = "genders";

/// The groups of this node.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    sources: Vec<GroupSource>,
    /// The name of the source of groups without a source in their name.
    default: Option<String>,
    /// Sources whose groups only a command returns, with the file that names the command.
    upcalls: Vec<(String, PathBuf)>,
    /// The bytes of all definitions.
    len: usize,
}

/// A source of groups: a file, or a part of one.
#[derive(Debug)]
pub(crate) struct GroupSource {
    pub(crate) name: String,
    /// The file, for messages.
    file: PathBuf,
    /// Names and definitions, in the order of the file.
    groups: Vec<(String, String)>,
    places: HashMap<String, usize>,
}

impl Groups {
    /// Reads the files that the environment selects.
    pub(crate) fn read(environment: &Environment) -> Result<Self, Failure> {
        let mut groups = Self::default();
        clustershell::read(environment, &mut groups)?;
        genders::read(environment, &mut groups)?;
        Ok(groups)
    }

    /// Returns all sources.
    pub(crate) fn sources(&self) -> &[GroupSource] {
        &self.sources
    }

    /// Returns the source with this name, or the default source, with its index.
    pub(crate) fn source(&self, name: Option<&str>) -> Result<(usize, &GroupSource), Failure> {
        let usual = || self.default_name();
        let Some(wanted) = name.map(str::to_owned).or_else(usual) else {
            let message =
                "there are no groups on this node: no file of ClusterShell or genders has any";
            return Err(not_found(message).cure(
                "write groups as `NAME: NODES` to ~/.config/clustershell/groups; @FILE reads a file of names",
            ));
        };
        let found = self.sources.iter().position(|source| source.name == wanted);
        if let Some(index) = found {
            return Ok((index, &self.sources[index]));
        }
        if let Some((_, file)) = self.upcalls.iter().find(|(upcall, _)| *upcall == wanted) {
            let message = format!(
                "only a command of {} returns the groups of source `{wanted}`, and pmix runs no such commands",
                file.display()
            );
            return Err(not_found(message).cure(format!(
                "let nodeset run it: \"$(nodeset -f @{wanted}:NAME)\"; or write the groups to a file in groups.d"
            )));
        }
        let known: Vec<_> = self.sources.iter().map(|source| &*source.name).collect();
        let message = format!("no source of groups is named `{wanted}`");
        Err(not_found(message).cure(match known.is_empty() {
            true => "no file of ClusterShell or genders defines groups".to_owned(),
            false => format!("the sources are {}", known.join(", ")),
        }))
    }

    /// Returns the name of the source of groups that have no source in their name.
    pub(crate) fn default_name(&self) -> Option<String> {
        let named = self.default.clone();
        named.or_else(|| self.sources.first().map(|source| source.name.clone()))
    }

    /// Returns the index and the definition of a group.
    pub(crate) fn group(&self, source: Option<&str>, name: &str) -> Result<(usize, &str), Failure> {
        let (index, found) = self.source(source)?;
        if let Some(text) = found.definition(name) {
            return Ok((index, text));
        }
        let file = found.file.display();
        let failure = not_found(format!(
            "no group `{name}` in source `{}` ({file})",
            found.name
        ));
        let mut others = self
            .sources
            .iter()
            .filter(|other| other.definition(name).is_some());
        if let Some(other) = others.next() {
            return Err(failure.cure(format!("did you mean `@{}:{name}`?", other.name)));
        }
        let names = found.groups.iter().map(|(name, _)| name.as_str());
        let near = pmix_mca::nearest(name, names);
        Err(failure.cure(match near {
            Some(near) => format!("did you mean `@{near}`? `pmix map groups` lists the groups"),
            None => "`pmix map groups` lists the groups".to_owned(),
        }))
    }

    /// Adds a source without groups, or returns the index of the source with this name.
    fn add_source(&mut self, name: &str, file: &Path) -> usize {
        if let Some(index) = self.sources.iter().position(|source| source.name == name) {
            return index;
        }
        self.sources.push(GroupSource {
            name: name.to_owned(),
            file: file.to_owned(),
            groups: Vec::new(),
            places: HashMap::new(),
        });
        self.sources.len() - 1
    }

    /// Adds nodes to a group.
    fn add(&mut self, source: usize, group: &str, nodes: &str) -> Result<(), Failure> {
        self.len = self.len.saturating_add(group.len() + nodes.len() + 1);
        let source = &mut self.sources[source];
        if self.len > MOST {
            let message = format!(
                "the groups in {} exceed {MOST} bytes",
                source.file.display()
            );
            return Err(
                Failure::new(Exit::Data, Status::ERR_OUT_OF_RESOURCE, message)
                    .cure("remove unneeded groups from the file"),
            );
        }
        match source.places.get(group) {
            Some(place) => {
                let (_, text) = &mut source.groups[*place];
                if !text.is_empty() && !nodes.is_empty() {
                    text.push(',');
                }
                text.push_str(nodes);
            }
            None => {
                source.places.insert(group.to_owned(), source.groups.len());
                source.groups.push((group.to_owned(), nodes.to_owned()));
            }
        }
        Ok(())
    }
}

impl GroupSource {
    /// Returns the names of the groups, in the order of the file.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the nodes of a group, as a list.
    pub(crate) fn definition(&self, name: &str) -> Option<&str> {
        let place = self.places.get(name)?;
        self.groups.get(*place).map(|(_, text)| text.as_str())
    }

    /// Returns the file of the source.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}

fn not_found(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Data, Status::ERR_NOT_FOUND, message)
}

/// Reads a file of text. Returns `None` if there is no such file.
fn read_text(path: &Path) -> Result<Option<String>, Failure> {
    match pmix_files::read_regular(path, MOST_OF_FILE) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                Err(malformed(path, format!("byte {at} is not UTF-8")))
            }
        },
        Err(fault) if fault.is_absent() => Ok(None),
        Err(fault) => Err(malformed(path, fault.to_string())),
    }
}

/// Reads a file of text like [`read_text`]. A file that this user may not read is left out with a warning: its groups are
/// for others, as for ClusterShell.
fn read_permitted(path: &Path) -> Result<Option<String>, Failure> {
    match pmix_files::read_regular(path, MOST_OF_FILE) {
        Err(Fault::Io(std::io::ErrorKind::PermissionDenied, why)) => {
            tracing::warn!("{}: {why}; its groups are left out", path.display());
            Ok(None)
        }
        _ => read_text(path),
    }
}

/// Returns the failure for a file that has no readable groups.
fn malformed(path: &Path, why: impl std::fmt::Display) -> Failure {
    let message = format!("cannot read groups from {}: {why}", path.display());
    Failure::data(message)
        .cure("correct the file, or select another directory with CLUSTERSHELL_CFGDIR")
}

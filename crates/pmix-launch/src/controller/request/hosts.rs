// SPDX-License-Identifier: MIT OR Apache-2.0
//! The nodes that a spawn request names, in lists and hostfiles.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pmix_hostlist::{Allocation, has_slots, parse_hostfile, parse_hosts};
use pmix_map::Limits;
use pmix_types::Status;

use super::read::Refusal;

/// The largest hostfile in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// A node that a request names. Without slots, its free ones are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedHost {
    pub(crate) name: String,
    /// The slots to use, if they are given.
    pub(crate) slots: Option<u32>,
}

/// The nodes that a request names for a job or for one of its applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedHosts {
    /// The nodes on which processes are placed; `None` for all.
    pub(crate) selected: Option<Vec<NamedHost>>,
    pub(crate) added: Vec<NamedHost>,
    /// The hostfiles that were not read, and `true` if their nodes are added.
    files: Vec<(PathBuf, bool)>,
}

impl NamedHost {
    /// Returns the name of the node in the maps. `host` is that of this node.
    pub(crate) fn name_of(&self, host: &[u8]) -> String {
        match is_name_of(host, &self.name) {
            true => String::from_utf8_lossy(host).into_owned(),
            false => self.name.clone(),
        }
    }
}

impl NamedHosts {
    /// Adds the nodes of a list such as `n1,n2:4`.
    pub(crate) fn take(&mut self, list: &[u8], adds: bool) -> Result<(), Refusal> {
        for word in words(list) {
            let parsed = parse_hosts(word, &Limits::default());
            let found = parsed.map_err(|error| Refusal::bad(error.to_string()))?;
            let count = word.rsplit(|byte| *byte == b':').next();
            let is_number =
                |count: &[u8]| !count.is_empty() && count.iter().all(u8::is_ascii_digit);
            let is_counted = word.contains(&b':') && count.is_some_and(is_number);
            self.add(&found, is_counted, adds);
        }
        Ok(())
    }

    /// Adds a hostfile, which [`read`](Self::read) reads.
    pub(crate) fn take_file(&mut self, file: PathBuf, adds: bool) {
        self.files.push((file, adds));
    }

    /// Returns `true` if there are hostfiles that were not read.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Reads the hostfiles. This can take as long as the disks need.
    pub(crate) fn read(&mut self) -> Result<(), Refusal> {
        for (path, adds) in std::mem::take(&mut self.files) {
            let invalid = |why: String| {
                let message = format!("hostfile {}: {why}", path.display());
                Refusal::new(Status::ERR_JOB_FAILED_TO_MAP, message)
            };
            let text = read(&path).map_err(|error| invalid(error.to_string()))?;
            let found = parse_hostfile(&text, true, &Limits::default());
            let found = found.map_err(|error| invalid(error.to_string()))?;
            self.add(&found, has_slots(&text), adds);
        }
        Ok(())
    }

    fn add(&mut self, found: &Allocation, is_counted: bool, adds: bool) {
        let slots = found.slots.as_ref().map(|slots| slots.per_node());
        let mut slots = slots.into_iter().flatten();
        let hosts = found.nodes.iter().map(|name| {
            let slots = slots.next();
            NamedHost {
                name: String::from_utf8_lossy(&name).into_owned(),
                slots: slots.filter(|_| is_counted),
            }
        });
        match adds {
            true => self.added.extend(hosts),
            false => self.selected.get_or_insert_default().extend(hosts),
        }
    }

    /// Refuses nodes other than this one.
    pub(crate) fn check_here(&self, host: &[u8]) -> Result<(), Refusal> {
        let is_here = |one: &NamedHost| is_name_of(host, &one.name);
        let selected = self.selected.as_deref();
        let has_none = |hosts: &[NamedHost]| !hosts.iter().any(is_here);
        if selected.is_some_and(has_none) || !self.added.iter().all(is_here) {
            let why = "PMIX_HOST names other nodes; this launcher has processes on this node only: name all nodes, as in \
                `pmix run --host localhost:1,n2:4`";
            return Err(Refusal::new(Status::ERR_JOB_FAILED_TO_MAP, why));
        }
        Ok(())
    }
}

fn is_name_of(host: &[u8], name: &str) -> bool {
    name.as_bytes() == host || name == "localhost"
}

/// Splits a list at its commas, except those within brackets.
fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut depth = 0_usize;
    let words = list.split(move |byte| {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *byte == b',' && depth == 0
    });
    words
        .map(<[u8]>::trim_ascii)
        .filter(|word| !word.is_empty())
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut text)?;
    match u64::try_from(text.len()) {
        Ok(len) if len <= MOST_BYTES => Ok(text),
        _ => Err(std::io::Error::other(format!(
            "it exceeds {MOST_BYTES} bytes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostfiles_select_and_add_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts");
        std::fs::write(&file, "n2 slots=2 # two\nn3\n").unwrap();
        let mut hosts = NamedHosts::default();
        hosts.take_file(file.clone(), false);
        hosts.take_file(file, true);
        assert!(hosts.has_files());
        hosts.read().unwrap();
        let named = |name: &str, slots| NamedHost {
            name: name.to_owned(),
            slots: Some(slots),
        };
        let expected = vec![named("n2", 2), named("n3", 1)];
        assert_eq!(hosts.selected.as_ref(), Some(&expected));
        assert_eq!(hosts.added, expected);
        assert!(hosts.check_here(b"n2").is_err());
        hosts.take_file(dir.path().join("missing"), false);
        assert!(
            hosts
                .read()
                .unwrap_err()
                .why
                .contains("missing: No such file")
        );
    }
}

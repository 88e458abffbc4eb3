// SPDX-License-Identifier: MIT OR Apache-2.0
//! Process sets: names for processes of any jobs.

use std::collections::BTreeMap;

use pmix_types::{Proc, Rank, Text};

use crate::Error;

/// Process sets, by name (PMIx Standard, chapter "Process Sets and Groups").
#[derive(Debug, Default)]
pub(crate) struct ProcessSets(BTreeMap<Text<'static>, Vec<Proc<'static>>>);

impl ProcessSets {
    /// Defines a set, or defines it anew.
    pub(crate) fn define(
        &mut self,
        name: Text<'static>,
        members: Vec<Proc<'static>>,
    ) -> Result<(), Error> {
        if name.is_empty() || members.is_empty() {
            return Err(Error::bad("a process set has a name and members"));
        }
        self.0.insert(name, members);
        Ok(())
    }

    /// Deletes a set.
    pub(crate) fn delete(&mut self, name: &Text<'_>) -> Result<(), Error> {
        match self.0.remove(name.as_bytes()) {
            Some(_) => Ok(()),
            None => Err(Error::not_found(format!(
                "no process set {name} is defined"
            ))),
        }
    }

    /// All sets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Text<'static>, &[Proc<'static>])> {
        self.0
            .iter()
            .map(|(name, members)| (name, members.as_slice()))
    }

    /// The names of the sets that a process is in.
    pub(crate) fn of<'s>(&'s self, proc: &'s Proc<'_>) -> impl Iterator<Item = &'s Text<'static>> {
        let has = |member: &&Proc<'_>| {
            member.nspace == proc.nspace
                && (member.rank == proc.rank || member.rank == Rank::WILDCARD)
        };
        let sets = self.0.iter();
        sets.filter(move |(_, members)| members.iter().any(|member| has(&member)))
            .map(|(name, _)| name)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment variables of the processes of a job, in addition to those of every client.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use arc_swap::ArcSwap;
use pmix_mca::Environment;
use pmix_types::{Info, IntoOwned, Nspace, Status, Value, keys};

use super::Variable;
use crate::Error;

/// The change of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The variable gets this value.
    Set,
    /// The variable gets this value unless it is set.
    Add,
    /// The value is put before the current one.
    Prepend,
    /// The value is put after the current one.
    Append,
}

const CHANGES: [(&str, Change); 4] = [
    (keys::SET_ENVAR, Change::Set),
    (keys::ADD_ENVAR, Change::Add),
    (keys::PREPEND_ENVAR, Change::Prepend),
    (keys::APPEND_ENVAR, Change::Append),
];

/// A change of the environment.
#[derive(Clone, Debug)]
struct Directive {
    change: Change,
    name: OsString,
    value: OsString,
    separator: u8,
}

/// The results of `setup_local_support` for each job. They are read without a lock, because hosts can call
/// `setup_fork` in a forked child.
#[derive(Debug, Default)]
pub(crate) struct LocalSupport(ArcSwap<HashMap<Nspace<'static>, Vec<Directive>>>);

impl LocalSupport {
    /// Stores the changes for a job. Infos that are not about the environment are ignored.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_BAD_PARAM` for a variable without a name, and `PMIX_ERR_NOT_SUPPORTED` for one to be unset,
    /// since only the starter of the process can unset it.
    pub(crate) fn set(&self, nspace: &Nspace<'_>, infos: &[Info<'_>]) -> Result<(), Error> {
        let directives: Result<Vec<_>, _> = infos.iter().filter_map(directive).collect();
        let directives = directives?;
        let nspace = nspace.clone().into_owned();
        // The map is replaced as a whole, so that a forked child reads either version without a lock.
        self.0.rcu(|jobs| {
            let mut jobs = HashMap::clone(jobs);
            let job = jobs.entry(nspace.clone()).or_default();
            job.extend_from_slice(&directives);
            jobs
        });
        Ok(())
    }

    /// Drops the changes for a job.
    pub(crate) fn forget(&self, nspace: &Nspace<'_>) {
        self.0.rcu(|jobs| {
            let mut jobs = HashMap::clone(jobs);
            jobs.remove(nspace.as_bytes());
            jobs
        });
    }

    /// Applies the changes for a job to the inherited environment.
    pub(super) fn add(
        &self,
        nspace: &Nspace<'_>,
        inherited: &Environment,
        environment: &mut Vec<Variable>,
    ) {
        let jobs = self.0.load();
        for directive in jobs.get(nspace.as_bytes()).into_iter().flatten() {
            directive.apply(inherited, environment);
        }
    }
}

impl Directive {
    fn apply(&self, inherited: &Environment, environment: &mut Vec<Variable>) {
        let place = environment.iter().position(|(name, _)| *name == self.name);
        let own = place.and_then(|place| environment.get(place));
        let outer = || inherited.vars.iter().find(|(name, _)| *name == self.name);
        // The process inherits the outer environment, so a change applies to the value there.
        let known = own.or_else(outer).map(|(_, value)| value.as_os_str());
        let value = match (self.change, known) {
            (Change::Add, Some(_)) => return,
            (Change::Set | Change::Add, _) | (_, None) => self.value.clone(),
            (Change::Prepend, Some(known)) => self.joined(&self.value, known),
            (Change::Append, Some(known)) => self.joined(known, &self.value),
        };
        match place.and_then(|place| environment.get_mut(place)) {
            Some((_, known)) => *known = value,
            None => environment.push((self.name.clone(), value)),
        }
    }

    fn joined(&self, first: &OsStr, second: &OsStr) -> OsString {
        let separator = [self.separator];
        let parts = [first.as_bytes(), &separator, second.as_bytes()];
        OsString::from_vec(parts.concat())
    }
}

fn directive(info: &Info<'_>) -> Option<Result<Directive, Error>> {
    let refused = |status, why: &str| {
        let key = info.key.as_text().to_str_lossy();
        Some(Err(Error::new(status, why).of(&key)))
    };
    // The host starts the process, so only the host can unset a variable; it marks the info when it does so.
    if info.key.is(keys::UNSET_ENVAR) && info.was_processed() {
        return None;
    }
    if info.key.is(keys::UNSET_ENVAR) {
        let why = "unsetting a variable is left to the host that starts the process";
        return refused(Status::ERR_NOT_SUPPORTED, why);
    }
    let (_, change) = CHANGES.iter().find(|(key, _)| info.key.is(key))?;
    let Value::Envar(envar) = &info.value else {
        return refused(Status::ERR_BAD_PARAM, "expected a variable and its value");
    };
    let name = envar.envar.as_ref().map_or(&[][..], |name| name.as_bytes());
    if name.is_empty() || name.contains(&b'=') {
        return refused(Status::ERR_BAD_PARAM, "invalid name of a variable");
    }
    let value = envar
        .value
        .as_ref()
        .map_or(&[][..], |value| value.as_bytes());
    Some(Ok(Directive {
        change: *change,
        name: OsStr::from_bytes(name).to_owned(),
        value: OsStr::from_bytes(value).to_owned(),
        separator: if envar.separator == 0 {
            b':'
        } else {
            envar.separator
        },
    }))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries of the datastore.
//!
//! Source: PMIx Standard, chapter "Query Operations".

use pmix_types::{Info, IntoOwned, Key, Nspace, Query, Rank, Status, Value, keys};

use crate::{Error, Request, Store};

/// The result of a query (PMIx Standard, `PMIx_Query_info`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryResults {
    /// The values, with the requested keys, in the order of the query.
    pub found: Vec<Info<'static>>,
    /// The keys without a value, each with the reason.
    pub missing: Vec<(Key<'static>, Error)>,
}

impl QueryResults {
    /// Returns `PMIX_SUCCESS` if every key has a value, `PMIX_ERR_PARTIAL_SUCCESS` if some have,
    /// and `PMIX_ERR_NOT_FOUND` otherwise.
    #[must_use]
    pub fn status(&self) -> Status {
        match (self.found.is_empty(), self.missing.is_empty()) {
            (_, true) => Status::SUCCESS,
            (false, false) => Status::ERR_PARTIAL_SUCCESS,
            (true, false) => Status::ERR_NOT_FOUND,
        }
    }
}

impl Store {
    /// Returns the values of the keys in a query, for the job or process that its qualifiers name.
    ///
    /// `PMIX_NSPACE` names a job, and `PMIX_RANK` a process of it. `PMIX_PROCID` names both. A
    /// query without a process is about the job. The other qualifiers have the same meaning as for
    /// [`Self::get`].
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` if the query has no keys or names no job, or a qualifier has an invalid
    /// type.
    pub fn query(&self, query: &Query<'_>) -> Result<QueryResults, Error> {
        if query.keys.is_empty() {
            return Err(Error::bad("a query without keys"));
        }
        let (nspace, rank) = subject(&query.qualifiers)?;
        let mut findings = QueryResults::default();
        for key in &query.keys {
            let owned = Key::new(key.clone().into_owned());
            let name = key
                .as_str()
                .ok_or_else(|| Error::bad(format!("{key:?} is not a valid key")))?;
            let request = Request::new(rank, name).with(&query.qualifiers);
            match self.get(&nspace, &request) {
                Ok(value) => findings
                    .found
                    .push(Info::new(owned.as_text().clone(), value)),
                Err(error) => findings.missing.push((owned, error)),
            }
        }
        Ok(findings)
    }
}

/// Returns the job or process that the qualifiers name.
fn subject<'q>(qualifiers: &[Info<'q>]) -> Result<(Nspace<'q>, Rank), Error> {
    let value = |key| {
        qualifiers
            .iter()
            .find(|info| info.key.is(key))
            .map(|info| &info.value)
    };
    let mut rank = Rank::WILDCARD;
    let mut nspace = None;
    match value(keys::PROCID) {
        Some(Value::Proc(proc)) => (nspace, rank) = (Some(proc.nspace.clone()), proc.rank),
        Some(other) => return Err(wrong(keys::PROCID, other)),
        None => {}
    }
    match value(keys::NSPACE) {
        Some(Value::String(Some(name))) => nspace = Some(Nspace::new(name.clone())),
        Some(Value::Nspace(name)) => nspace = Some(name.clone()),
        Some(other) => return Err(wrong(keys::NSPACE, other)),
        None => {}
    }
    match value(keys::RANK) {
        Some(Value::Rank(number)) => rank = *number,
        Some(other) => return Err(wrong(keys::RANK, other)),
        None => {}
    }
    let nspace = nspace.ok_or_else(|| Error::bad("a query without pmix.nspace or pmix.procid"))?;
    Ok((nspace, rank))
}

fn wrong(key: &str, value: &Value<'_>) -> Error {
    let found = value.data_type();
    Error::bad(format!("the qualifier {key} has type {found}"))
}

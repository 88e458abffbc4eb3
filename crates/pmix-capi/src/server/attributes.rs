// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attributes that a host registers as supported (`PMIx_Register_attributes`), and replies to queries for them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_server::{SupportLevel, SupportedFunction, is_about_support};
use pmix_types::{Attribute, Info, Query, Status, Text};

use crate::memory::Result;
use crate::per_process::PerProcess;

/// The maximum number of functions whose attributes a host may register; PMIx has fewer functions that reach a host.
const MOST_FUNCTIONS: usize = 256;

/// The names of attributes by function.
type Registered = BTreeMap<String, Vec<&'static str>>;

static REGISTERED: PerProcess<Mutex<Registered>> = PerProcess::new(Mutex::new(BTreeMap::new()));

fn registered() -> MutexGuard<'static, Registered> {
    let registered = REGISTERED.get().lock();
    registered.unwrap_or_else(PoisonError::into_inner)
}

/// Registers the attributes of a function. Names that no release defines are skipped, because a reply contains the
/// key of each attribute.
///
/// # Errors
///
/// Returns `PMIX_ERR_REPEAT_ATTR_REGISTRATION` if the function is already registered, and `PMIX_ERR_OUT_OF_RESOURCE`
/// if there are too many functions.
pub(super) fn register(function: &Text<'_>, names: &[Text<'_>]) -> Result<()> {
    let function = function.as_str().ok_or(Status::ERR_BAD_PARAM)?;
    let mut registered = registered();
    if registered.contains_key(function) {
        return Err(Status::ERR_REPEAT_ATTR_REGISTRATION);
    }
    if registered.len() >= MOST_FUNCTIONS {
        return Err(Status::ERR_OUT_OF_RESOURCE);
    }
    let known = names.iter().filter_map(|name| {
        let found = name.as_str().and_then(Attribute::by_name);
        if found.is_none() {
            tracing::debug!("{name} is not an attribute");
        }
        found.map(Attribute::full_name)
    });
    let names = known.collect();
    registered.insert(function.to_owned(), names);
    Ok(())
}

/// Drops all registrations, when the server ends.
pub(super) fn forget() {
    registered().clear();
}

/// Replies to queries for the support of the host. Returns `None` unless all queries ask for it and the host has
/// registered attributes.
pub(super) fn answer(queries: &[Query<'_>]) -> Option<Vec<Info<'static>>> {
    let registered = registered();
    if registered.is_empty() || !queries.iter().all(is_about_support) {
        return None;
    }
    let table: Vec<SupportedFunction<'_>> = { registered.iter() }
        .map(|(function, names)| (function.as_str(), &names[..]))
        .collect();
    let answers = queries
        .iter()
        .flat_map(|query| SupportLevel::Host.answer(query, &table));
    Some(answers.collect())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loading of plugin files that the parameters name.

use std::path::PathBuf;

use pmix_mca::{LoadFault, Params, Refusal};

use super::candidate::{Candidate, FRAMEWORK};
use crate::{Error, Status, dynamic};

/// Adds every usable plugin to the candidates. For each other plugin, logs a warning and records a
/// refusal.
///
/// # Errors
/// Another user could have written a plugin file.
pub(super) fn load(
    params: &Params,
    candidates: &mut Vec<Candidate>,
) -> Result<Vec<Refusal>, Error> {
    let mut refused = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for file in params.plugin_files(FRAMEWORK) {
        // Two layers may name the same file.
        let path = file
            .path
            .canonicalize()
            .unwrap_or_else(|_| file.path.clone());
        if seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let loaded = dynamic::load(&file.path).and_then(|loaded| {
            let others: Vec<_> = candidates.iter().map(Candidate::occupied).collect();
            match dynamic::collision(&loaded, &others) {
                Ok(()) => Ok(loaded),
                Err(fault) => Err(Refusal::new(&loaded.path, fault)),
            }
        });
        match loaded {
            Ok(loaded) => candidates.push(Candidate::Loaded(Box::new(loaded))),
            Err(refusal) if matches!(refusal.fault, LoadFault::Untrusted(_)) => {
                let message = format!("{refusal} (named by {})", file.source);
                return Err(Error::new(Status::ERR_NO_PERMISSIONS, message));
            }
            Err(refusal) => {
                tracing::warn!("{refusal}; it is not used (named by {})", file.source);
                refused.push(refusal);
            }
        }
    }
    Ok(refused)
}

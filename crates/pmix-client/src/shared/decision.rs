// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decisions of the program about groups whose participants decline or are lost.
//!
//! Source: PMIx Standard, chapter "Process Sets and Groups".

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use pmix_types::keys;

use super::Shared;
use crate::group::{Question, each};
use crate::{Decision, Error};

/// The interface for the program's decision about a group; see [`ClientEvent::Group`](crate::ClientEvent::Group). If it
/// is dropped without a decision, the group is formed without the process if `PMIX_GROUP_OPTIONAL` was given, and is
/// aborted otherwise.
#[derive(Clone)]
pub struct GroupDecision(Arc<OpenQuestion>);

struct OpenQuestion {
    client: Weak<Shared>,
    question: Question,
    is_decided: AtomicBool,
}

impl GroupDecision {
    pub(super) fn new(client: &Weak<Shared>, question: Question) -> Self {
        Self(Arc::new(OpenQuestion {
            client: Weak::clone(client),
            question,
            is_decided: AtomicBool::new(false),
        }))
    }

    /// Takes the decision; only the first one counts. Whole jobs are replaced by their processes.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` for a [`Decision::Invite`] with an empty list, an invalid rank, or a process that
    /// was invited before. Returns `PMIX_ERR_OUT_OF_RESOURCE` for more than 1,048,576 processes, and an error if the
    /// size of a job is unknown. The question remains open then.
    pub fn decide(&self, mut decision: Decision) -> Result<(), Error> {
        let asked = &self.0;
        let Some(shared) = asked.client.upgrade() else {
            return Ok(());
        };
        if let Decision::Invite(procs) = &mut decision {
            *procs = each(procs, |job| shared.get(job, keys::JOB_SIZE))?;
        }
        asked.decide(&shared, Some(decision))
    }
}

impl OpenQuestion {
    /// Applies a decision unless there was one before.
    fn decide(&self, shared: &Shared, decision: Option<Decision>) -> Result<(), Error> {
        shared.change(None, |state| {
            // The lock of the state orders the decisions of several threads.
            if self.is_decided.load(Ordering::Acquire) {
                return Ok(());
            }
            let now = Instant::now();
            state.core.decide(&self.question, decision, now)?;
            // A rejected decision has returned before, so the question remains open.
            self.is_decided.store(true, Ordering::Release);
            Ok(())
        })
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if !*self.is_decided.get_mut()
            && let Some(shared) = self.client.upgrade()
        {
            // The question is resolved without a decision, so an error has no consequence.
            let _ = self.decide(&shared, None);
        }
    }
}

impl PartialEq for GroupDecision {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for GroupDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GroupDecision")
            .field(&self.0.question)
            .finish()
    }
}

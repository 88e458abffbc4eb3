// SPDX-License-Identifier: MIT OR Apache-2.0
//! A node and its engine.

use std::sync::Arc;

use gds_hash::{LocalNode, Store};
use pmix_engine::{Claim, Config, Engine, EngineEvent, Error, Psec, Verification, Verified};
use pmix_types::{Proc, Rank, Status};
use preg_core::Params;

/// A node with the events of its engine.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) events: Vec<EngineEvent>,
    /// The processes registered here.
    pub(super) procs: Vec<Proc<'static>>,
}

impl Node {
    pub(super) fn new(place: usize, config: &Config) -> Self {
        let preg = pmix_builtin::open_preg(&Params::default()).unwrap();
        let store = Store::new(Arc::new(preg), LocalNode::new(name(place)));
        let mut config = config.clone();
        config.server = Proc::new(format!("server{place}"), Rank::new(0));
        Self {
            engine: Engine::new(
                config,
                Arc::new(store),
                vec![Box::new(Native), Box::new(Later)],
            ),
            events: Vec::new(),
            procs: Vec::new(),
        }
    }

    /// Returns `true` if the process, or one selected by a wildcard, is on this node.
    pub(super) fn hosts(&self, proc: &Proc<'_>) -> bool {
        let mut procs = self.procs.iter();
        procs.any(|own| own.nspace == proc.nspace && own.rank.matches(proc.rank))
    }

    /// Returns the statuses of refused peers, in order.
    pub(crate) fn refusals(&self) -> Vec<Status> {
        let refused = self.events.iter().filter_map(|event| match event {
            EngineEvent::Refused { reason, .. } => Some(reason.status()),
            _ => None,
        });
        refused.collect()
    }
}

/// Returns the name of a node.
pub(super) fn name(place: usize) -> String {
    format!("n{place:02}")
}

/// A security module that accepts any pair of numbers.
struct Native;

impl Psec for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn verify(&self, credential: &[u8], _: &Claim<'_>) -> Result<Verification, Error> {
        let numbers = credential.as_chunks::<4>();
        let ([uid, gid], []) = numbers else {
            return Err(Error::new(
                Status::ERR_INVALID_CRED,
                "the credential does not have two numbers",
            ));
        };
        Ok(Verification::Done(Verified {
            uid: Some(u32::from_ne_bytes(*uid)),
            gid: Some(u32::from_ne_bytes(*gid)),
        }))
    }
}

/// A security module whose results a test supplies.
struct Later;

impl Psec for Later {
    fn name(&self) -> &str {
        "later"
    }

    fn verify(&self, _: &[u8], _: &Claim<'_>) -> Result<Verification, Error> {
        Ok(Verification::Pending)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! One published datum: who may read it and how long it stays.

use std::sync::Arc;

use pmix_types::{Key, Pdata, Persistence, Value};

use super::caller::{Caller, Range};
use super::directives::Access;

/// One published datum.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) publisher: Caller,
    pub(super) key: Key<'static>,
    pub(super) value: Value<'static>,
    /// Whom it is for.
    pub(super) reach: Range,
    pub(super) persistence: Persistence,
    pub(super) access: Option<Arc<Access>>,
    pub(super) weight: usize,
}

/// How much of an item the caller of a lookup may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visibility {
    /// Nothing: it is not for him, or he looks elsewhere.
    Hidden,
    /// That it is there, but not what it is.
    Denied,
    Open,
}

impl Item {
    /// What somebody sees who looks among the publishers in a reach (PMIx Standard, "Retrieval
    /// rules for published data").
    pub(super) fn seen_by(&self, caller: &Caller, among: &Range) -> Visibility {
        if !among.has(&self.publisher) || !self.reach.has(caller) {
            return Visibility::Hidden;
        }
        let allowed = match &self.access {
            Some(access) => access.lets(caller.uid, caller.gid),
            None => caller.uid == self.publisher.uid,
        };
        let own = caller.proc == self.publisher.proc && caller.uid == self.publisher.uid;
        match allowed || own || caller.is_host {
            true => Visibility::Open,
            false => Visibility::Denied,
        }
    }

    /// What is handed to who may read it.
    pub(super) fn data(&self) -> Pdata<'static> {
        Pdata {
            proc: self.publisher.proc.clone(),
            key: self.key.clone(),
            value: self.value.clone(),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept of an invitation until it ends.

use std::collections::BTreeMap;

use pmix_types::{Proc, Text};

use crate::procs::Procs;

/// The invitations that have not ended, by group and leader.
pub(super) type Invitations = BTreeMap<(Text<'static>, Proc<'static>), Invitation>;

/// Who was invited to a group.
#[derive(Debug, Default)]
pub(super) struct Invitation {
    pub(super) list: Vec<Proc<'static>>,
    /// The same, to look one up.
    pub(super) set: Procs,
    /// Those of whom the leader was told that they are gone.
    pub(super) gone: Procs,
    /// How much it takes, about.
    pub(super) bytes: usize,
}

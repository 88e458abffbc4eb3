// SPDX-License-Identifier: MIT OR Apache-2.0
//! Put data in messages: a commit, the answer to a request, a direct modex.
//!
//! | message | calls |
//! | --- | --- |
//! | commit, client to server | for each scope `PMIX_SCOPE`, then `PMIX_BUFFER` with a `PMIX_KVAL` call each |
//! | answer, server to client | `PMIX_BYTE_OBJECT` with a call of `PMIX_PROC`, then `PMIX_KVAL` each |
//! | direct modex, server to server | `PMIX_KVAL` each |
//!
//! A global value stands in a commit twice, with the local and with the remote scope. Frozen:
//! append only.

use bfrops::{Encoder, wire_type};
use pmix_types::{Bytes, Key, Proc, Rank, Scope, Value};

use super::audience::Action;
use super::{Audience, Entry, seen_in};
use crate::exchange::wire::check_variants;
use crate::{Error, Puts, Wire};

/// What a commit does, in order.
enum Step {
    Merge(Audience, Vec<Entry>),
    Remove(Audience, Key<'static>),
}

impl Puts {
    /// What a process sends its server to make known what it put for others; nothing if there is
    /// nothing.
    ///
    /// # Errors
    ///
    /// What cannot be packed, with its key.
    pub fn commit_message(&self, wire: &Wire<'_>, rank: Rank) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        for (scope, audience) in [
            (Scope::LOCAL, Audience::LOCAL),
            (Scope::REMOTE, Audience::REMOTE),
        ] {
            let block = self.kvals(wire, rank, audience)?;
            if !block.is_empty() {
                let mut encoder = wire.encoder(&mut out);
                pack(&mut encoder, |encoder| {
                    encoder.one::<wire_type::Scope>(&scope)?;
                    encoder.one::<wire_type::Buffer>(&Bytes::Owned(block))
                })?;
            }
        }
        Ok(out)
    }

    /// Stores what a process of this node made known.
    ///
    /// What it said before stays unless it is said again or deleted: clients up to 5.0 repeat
    /// everything in each commit, later ones send what changed.
    ///
    /// # Errors
    ///
    /// What is wrong and at which byte; nothing has changed then. `PMIX_ERR_BAD_PARAM` for a scope
    /// that no message can have: internal data never leave their process.
    pub fn commit(&mut self, wire: &Wire<'_>, rank: Rank, bytes: &[u8]) -> Result<(), Error> {
        for step in steps(wire, bytes)? {
            match step {
                Step::Merge(audience, entries) => self.merge(rank, audience, entries),
                Step::Remove(audience, key) => self.remove(rank, audience, &key),
            }
        }
        Ok(())
    }

    /// What a client gets who asks about a process: all that its scope lets it see.
    ///
    /// # Errors
    ///
    /// What cannot be packed for this client, with its key; `PMIX_ERR_BAD_PARAM` with a scope in
    /// which nothing can be found.
    pub fn answer(&self, wire: &Wire<'_>, proc: &Proc<'_>, scope: Scope) -> Result<Vec<u8>, Error> {
        let mut object = Vec::new();
        pack(&mut wire.encoder(&mut object), |encoder| {
            encoder.one::<wire_type::Proc>(proc)
        })?;
        object.extend(self.kvals(wire, proc.rank, seen_in(scope)?)?);
        let mut out = Vec::new();
        pack(&mut wire.encoder(&mut out), |encoder| {
            encoder.one::<wire_type::ByteObject>(&Bytes::Owned(object))
        })?;
        Ok(out)
    }

    /// What another server gets who asks about a process of this node.
    ///
    /// # Errors
    ///
    /// What cannot be packed, with its key.
    pub fn direct(&self, wire: &Wire<'_>, rank: Rank) -> Result<Vec<u8>, Error> {
        self.kvals(wire, rank, Audience::REMOTE)
    }

    /// Stores what another server answered about a process of its node.
    ///
    /// # Errors
    ///
    /// What is wrong and at which byte; nothing has changed then.
    pub fn absorb_direct(
        &mut self,
        wire: &Wire<'_>,
        rank: Rank,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let mut entries = Vec::new();
        wire.reader(bytes).kvals(&mut entries)?;
        check_variants(&entries)?;
        self.merge(rank, Audience::REMOTE, entries);
        Ok(())
    }

    fn kvals(&self, wire: &Wire<'_>, rank: Rank, audience: Audience) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let mut encoder = wire.encoder(&mut out);
        for entry in self.entries(rank, audience) {
            let packed = encoder.one::<wire_type::Kval>(entry.kval());
            packed.map_err(|error| entry.unsent(&error, rank))?;
        }
        Ok(out)
    }
}

fn pack(
    encoder: &mut Encoder<'_>,
    write: impl FnOnce(&mut Encoder<'_>) -> Result<(), bfrops::Error>,
) -> Result<(), Error> {
    write(encoder).map_err(|error| Error::new(error.status(), error.message()))
}

/// Reads a commit as a whole.
fn steps(wire: &Wire<'_>, bytes: &[u8]) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    let mut reader = wire.reader(bytes);
    while !reader.is_empty() {
        let start = reader.offset();
        let scope = reader.one::<wire_type::Scope>()?;
        let action = Action::of(scope).filter(|(_, audience)| *audience != Audience::OWN);
        let (action, audience) = action.ok_or_else(|| {
            Error::bad(format!("{scope} is no scope of data that are sent")).at(start)
        })?;
        let mut entries = Vec::new();
        let mut block = reader.object::<wire_type::Buffer>()?;
        let start = block.offset();
        block.kvals(&mut entries)?;
        check_variants(&entries).map_err(|error| error.at(start))?;
        match action {
            Action::Store => store(&mut steps, audience, entries),
            Action::Remove => steps.extend(
                (entries.iter())
                    .map(|entry| Step::Remove(audience | Audience::OWN, entry.key().clone())),
            ),
        }
    }
    Ok(steps)
}

/// Values to store; one of no type says that the key is gone.
fn store(steps: &mut Vec<Step>, audience: Audience, entries: Vec<Entry>) {
    let mut batch = Vec::new();
    for entry in entries {
        if *entry.value() == Value::Undef {
            steps.push(Step::Merge(audience, std::mem::take(&mut batch)));
            steps.push(Step::Remove(audience, entry.key().clone()));
        } else {
            batch.push(entry);
        }
    }
    steps.push(Step::Merge(audience, batch));
}

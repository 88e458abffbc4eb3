// SPDX-License-Identifier: MIT OR Apache-2.0
//! The storage of a commit in parts.
//!
//! A commit may have tens of thousands of keys, and a server must not let other processes wait until all of them are
//! stored. A [`StagedCommit`] therefore works on a copy of the process's data, a part at each call. The copy shares the
//! unchanged keys with the original. No other process sees a part of a commit: the copy replaces the data when all is
//! stored.
//!
//! | stage | work of a part | next stage |
//! | --- | --- | --- |
//! | decode | decodes keys and values of the message, and groups them into steps | decode; apply at the end of the message |
//! | apply | applies one step to the copy | apply; check after the last step |
//! | check | checks the limits of the data, then the number of values of each key with qualifiers | check; complete |
//! | complete | none | |
//!
//! An error ends the commit in any stage. Then the data of the process have not changed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bfrops::wire_type;
use pmix_types::{Key, Rank, Scope, Status};

use super::ModexStore;
use super::entry::{Action, Entry, ScopeSet};
use super::proc_data::ProcData;
use crate::exchange::codec::{MAX_STORED_VARIANTS, MAX_VARIANTS, check_num_variants};
use crate::{Codec, CommitLimits, Error};

/// The scope of the block that marks a continued commit. This scope is never used for data.
pub(super) const GOES_ON: Scope = Scope::DEL_INTERNAL;

/// A change of a key by a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyChange {
    /// The commit has a value of the key, or removes a key that processes of this node did not see.
    Stored,
    /// Processes of this node saw a value of the key, which the commit removes.
    Removed,
}

/// The position of a message in its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitPart {
    /// The commit continues in another message.
    Begin,
    /// The message is the last one of the commit.
    End,
}

/// The number of keys after which a part ends. The work for a key takes about a microsecond.
const KEYS_OF_A_PART: usize = 1024;

/// The number of packed bytes that take as long to decode as one more key. The work of a part is measured in keys.
const BYTES_OF_A_KEY: usize = 1024;

/// The maximum number of keys in a step.
const MAX_KEYS: usize = 512;

/// A change of the data by consecutive keys of a commit, at most [`MAX_KEYS`].
#[derive(Debug)]
enum Step {
    Merge(ScopeSet, Vec<Entry>),
    Remove(ScopeSet, Vec<Key<'static>>),
}

/// A block of the message, whose keys have the same scope.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The offset of its end in the message.
    end: usize,
    action: Action,
    scopes: ScopeSet,
}

/// The stage of a commit, as in the table of this module.
#[derive(Debug)]
enum Stage {
    Decode,
    Apply,
    Check(Vec<Key<'static>>),
    Complete,
}

/// A commit of a process of this node that is stored in parts.
#[derive(Debug)]
pub struct StagedCommit {
    rank: Rank,
    /// The limits of the data after the commit.
    limits: CommitLimits,
    /// The limits of the rest of the message.
    room: CommitLimits,
    /// The data before the commit.
    before: Option<Arc<ProcData>>,
    /// The copy of the data, from the first change on.
    data: Option<ProcData>,
    /// `true` if the commit has replaced a value or removed a key.
    has_changed: bool,
    stage: Stage,
    /// The offset of the next bytes of the message.
    at: usize,
    block: Option<Block>,
    steps: VecDeque<Step>,
    /// The number of values with qualifiers of each key in the message, for local and for remote processes.
    variants: HashMap<Key<'static>, [usize; 2]>,
    part: CommitPart,
}

impl ModexStore {
    /// Begins a commit of a process of this node that is stored in parts. The limits apply to the data of the process
    /// after the commit.
    #[must_use]
    pub fn begin_commit(&self, rank: Rank, limits: CommitLimits) -> StagedCommit {
        StagedCommit {
            rank,
            limits,
            // A commit contains a global value twice.
            room: CommitLimits {
                keys: limits.keys.saturating_mul(2),
                ..limits
            },
            before: self.shared_data(rank).cloned(),
            data: None,
            has_changed: false,
            stage: Stage::Decode,
            at: 0,
            block: None,
            steps: VecDeque::new(),
            variants: HashMap::new(),
            part: CommitPart::End,
        }
    }

    /// Stores the data of a commit all of whose parts are done. Returns `false` without a change if the data of the
    /// process have changed since the commit began. The caller then begins the commit again.
    pub fn end_commit(&mut self, staged: &mut StagedCommit) -> bool {
        let is_same = match (self.shared_data(staged.rank), &staged.before) {
            (Some(now), Some(before)) => Arc::ptr_eq(now, before),
            (now, before) => now.is_none() && before.is_none(),
        };
        if is_same && let Some(data) = staged.data.take() {
            self.replace_data(staged.rank, data, staged.has_changed);
        }
        is_same
    }
}

impl StagedCommit {
    /// Does the next part of the commit with this message, and calls `told` for each key that the part stores or
    /// removes. Returns `true` if it was the last part; [`ModexStore::end_commit`] follows.
    ///
    /// # Errors
    ///
    /// As for [`ModexStore::commit_within`].
    pub fn advance(
        &mut self,
        codec: &Codec<'_>,
        message: &[u8],
        mut told: impl FnMut(&Key<'static>, KeyChange),
    ) -> Result<bool, Error> {
        let mut left = KEYS_OF_A_PART;
        while left > 0 && !matches!(self.stage, Stage::Complete) {
            let cost = match &mut self.stage {
                Stage::Decode => self.decode(codec, message, left)?,
                Stage::Apply => match self.steps.pop_front() {
                    Some(step) => self.apply(step, &mut told),
                    None => self.check_limits()?,
                },
                Stage::Check(keys) => match keys.pop() {
                    Some(key) => self.check_variants(&key)?,
                    None => self.complete(),
                },
                Stage::Complete => 0,
            };
            left = left.saturating_sub(cost);
        }
        Ok(matches!(self.stage, Stage::Complete))
    }

    /// Returns the position of the message in the commit, after the last part.
    #[must_use]
    pub const fn part(&self) -> CommitPart {
        self.part
    }

    /// Returns the bytes of the process's data after the parts that are done, as [`ModexStore::num_bytes`].
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        self.data().map_or(0, ProcData::bytes)
    }

    /// Returns the data with the steps applied so far.
    fn data(&self) -> Option<&ProcData> {
        self.data.as_ref().or(self.before.as_deref())
    }

    /// Returns the copy of the data, for a change.
    fn data_mut(&mut self) -> &mut ProcData {
        let before = self.before.as_deref();
        self.data
            .get_or_insert_with(|| before.cloned().unwrap_or_default())
    }

    /// Decodes keys until they cost `most` or the message ends. Returns the cost in keys, as the other stages do.
    fn decode(&mut self, codec: &Codec<'_>, message: &[u8], most: usize) -> Result<usize, Error> {
        let mut cost = 0;
        while cost < most {
            let Some(block) = self.block else {
                if self.at >= message.len() {
                    self.stage = Stage::Apply;
                    break;
                }
                self.begin_block(codec, message)?;
                cost += 1;
                continue;
            };
            let mut reader = codec.reader_of(message, self.at..block.end);
            while !reader.is_empty() && cost < most {
                let entry = reader.entry(&mut self.room)?;
                let counted = self.count_variant(block, &entry);
                counted.map_err(|error| error.at(self.at))?;
                cost += 1 + (reader.offset() - self.at) / BYTES_OF_A_KEY;
                self.at = reader.offset();
                self.push(block, entry);
            }
            if reader.is_empty() {
                self.at = block.end;
                self.block = None;
            }
        }
        Ok(cost)
    }

    /// Decodes the beginning of a block, or the mark of a continued commit.
    fn begin_block(&mut self, codec: &Codec<'_>, message: &[u8]) -> Result<(), Error> {
        let start = self.at;
        let mut reader = codec.reader_of(message, start..message.len());
        let scope = reader.one::<wire_type::Scope>()?;
        if scope == GOES_ON {
            let block = reader.object::<wire_type::Buffer>()?;
            if !(block.is_empty() && reader.is_empty()) {
                let message = "the mark of a continued commit is not the end of the message";
                return Err(Error::bad(message).at(start));
            }
            self.at = reader.offset();
            self.part = CommitPart::Begin;
            return Ok(());
        }
        let action = Action::of(scope).filter(|(_, scopes)| *scopes != ScopeSet::OWN);
        let (action, scopes) = action.ok_or_else(|| {
            Error::bad(format!("{scope} is no scope of data that are sent")).at(start)
        })?;
        let block = reader.object::<wire_type::Buffer>()?;
        self.at = block.offset();
        self.block = Some(Block {
            end: reader.offset(),
            action,
            scopes,
        });
        Ok(())
    }

    /// Counts a value with qualifiers. A message with many values of one key would make searches slow.
    fn count_variant(&mut self, block: Block, entry: &Entry) -> Result<(), Error> {
        if block.action != Action::Store || !entry.is_qualified() {
            return Ok(());
        }
        let counts = self.variants.entry(entry.key().clone()).or_default();
        for (count, side) in counts.iter_mut().zip([ScopeSet::LOCAL, ScopeSet::REMOTE]) {
            *count += usize::from(block.scopes.meets(side));
            check_num_variants(*count, MAX_VARIANTS)?;
        }
        Ok(())
    }

    /// Adds a decoded key to the last step, or to a new one. The order of values and removals matters only for the same
    /// key, but it is kept for all.
    fn push(&mut self, block: Block, entry: Entry) {
        let removes_for = match block.action {
            Action::Store if entry.is_deletion() => Some(block.scopes),
            Action::Store => None,
            Action::Remove => Some(block.scopes | ScopeSet::OWN),
        };
        match (removes_for, self.steps.back_mut()) {
            (None, Some(Step::Merge(scopes, batch)))
                if *scopes == block.scopes && batch.len() < MAX_KEYS =>
            {
                batch.push(entry);
            }
            (Some(of), Some(Step::Remove(scopes, keys)))
                if *scopes == of && keys.len() < MAX_KEYS =>
            {
                keys.push(entry.key().clone());
            }
            (None, _) => {
                let step = Step::Merge(block.scopes, vec![entry]);
                self.steps.push_back(step);
            }
            (Some(of), _) => {
                let step = Step::Remove(of, vec![entry.key().clone()]);
                self.steps.push_back(step);
            }
        }
    }

    /// Applies a step to the copy of the data.
    fn apply(&mut self, step: Step, mut told: impl FnMut(&Key<'static>, KeyChange)) -> usize {
        let cost = match &step {
            Step::Merge(_, entries) => entries.len(),
            Step::Remove(_, keys) => keys.len(),
        };
        match step {
            Step::Merge(scopes, entries) => {
                let keys = entries.iter().map(Entry::key);
                keys.for_each(|key| told(key, KeyChange::Stored));
                self.has_changed |= self.data_mut().merge(entries, scopes);
            }
            Step::Remove(scopes, keys) => {
                let mut keys: Vec<_> = keys.iter().collect();
                keys.sort_unstable();
                keys.dedup();
                let lost = match self.data() {
                    Some(_) => self.data_mut().remove_all(&keys, scopes),
                    None => vec![ScopeSet::NONE; keys.len()],
                };
                for (key, lost) in keys.into_iter().zip(lost) {
                    self.has_changed |= lost != ScopeSet::NONE;
                    let change = match lost.meets(ScopeSet::LOCAL) {
                        true => KeyChange::Removed,
                        false => KeyChange::Stored,
                    };
                    told(key, change);
                }
            }
        }
        cost
    }

    /// Checks that the data are within their limits. The check follows the last step, so that values that the commit
    /// removes do not count.
    fn check_limits(&mut self) -> Result<usize, Error> {
        let num_keys = self.data().map_or(0, ProcData::num_keys);
        for (what, found, most) in [
            ("keys", num_keys, self.limits.keys),
            ("bytes", self.num_bytes(), self.limits.bytes),
        ] {
            if found > most {
                let message = format!("a process with {found} {what} put, more than {most}");
                return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
            }
        }
        let variants = std::mem::take(&mut self.variants);
        self.stage = Stage::Check(variants.into_keys().collect());
        Ok(1)
    }

    fn complete(&mut self) -> usize {
        self.stage = Stage::Complete;
        1
    }

    /// Checks the number of values of a key with qualifiers, for local and for remote processes.
    fn check_variants(&self, key: &Key<'_>) -> Result<usize, Error> {
        let values = self
            .data()
            .map_or(&[][..], |data| data.of_key(key.as_bytes()));
        for side in [ScopeSet::LOCAL, ScopeSet::REMOTE] {
            let seen = values.iter().filter(|entry| entry.scopes.meets(side));
            let count = seen.filter(|entry| entry.is_qualified()).count();
            check_num_variants(count, MAX_STORED_VARIANTS)?;
        }
        // The values of a key are visited twice.
        Ok(1 + values.len() / 16)
    }
}

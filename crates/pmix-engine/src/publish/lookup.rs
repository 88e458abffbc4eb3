// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups: answered at once, or when enough is there, or when their time is over.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use pmix_types::{DataRange, Info, Key, Persistence, Status, Text};

use super::caller::{Caller, Item, Visibility};
use super::directives::Directives;
use super::pending_lookup::{Found, LookupResult, PendingLookup, Search};
use super::pubsub::{PubSub, owned, range_of};
use crate::Error;

impl<T> PubSub<T> {
    /// Looks keys up, among the publishers of the session if no range is given. The result is
    /// returned at once unless the caller waits (`PMIX_WAIT`) and not enough is there.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_BAD_PARAM` without keys or for directives that cannot be,
    /// `PMIX_ERR_OUT_OF_RESOURCE` beyond the limits; nobody waits then.
    pub fn lookup(
        &mut self,
        token: T,
        caller: &Caller,
        keys: &[Text<'_>],
        infos: &[Info<'_>],
        now: Instant,
    ) -> Result<Option<LookupResult<T>>, Error> {
        let (directives, _) = Directives::read(infos)?;
        if keys.is_empty() || keys.len() > self.limits.keys_per_lookup {
            let most = self.limits.keys_per_lookup;
            let given = keys.len();
            return Err(Error::bad(format!(
                "{given} keys to look up, not 1 to {most}"
            )));
        }
        let data_range = directives.range.unwrap_or(DataRange::SESSION);
        let wanted = Search {
            caller: caller.clone(),
            keys: owned(keys),
            among: range_of(data_range, caller, directives.listed)?,
        };
        let enough = match directives.wait {
            None => 0,
            Some(0) => keys.len(),
            Some(number) => number.min(keys.len()),
        };
        let waiting = PendingLookup {
            token,
            wanted,
            enough,
            until: directives.timeout.and_then(|time| now.checked_add(time)),
        };
        if self.has_enough(&waiting) {
            return Ok(Some(self.answer(waiting)));
        }
        self.check_waiting(&waiting.wanted)?;
        self.waiting.add(waiting);
        Ok(None)
    }

    fn check_waiting(&self, wanted: &Search) -> Result<(), Error> {
        let before = self.waiting.num_keys_of(&wanted.caller.proc);
        let most = self.limits.waiting_keys_per_proc;
        if before + wanted.keys.len() <= most {
            return Ok(());
        }
        let message = format!("a process may wait for {most} keys, and waits for {before}");
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// What is there of the keys that are wanted, and where. A key that is named again is not
    /// looked for again.
    fn find(&self, wanted: &Search) -> (Found, Vec<u64>) {
        let mut found = Found::default();
        let mut numbers = Vec::new();
        let mut known = HashMap::new();
        for key in &wanted.keys {
            let seen = known.entry(key);
            match *seen.or_insert_with(|| self.find_key(key, wanted)) {
                Seen::Open(number, item) => {
                    found.data.push(item.data());
                    numbers.push(number);
                }
                Seen::Denied => found.num_denied += 1,
                Seen::Nothing => {}
            }
        }
        (found, numbers)
    }

    fn find_key(&self, key: &Key<'_>, wanted: &Search) -> Seen<'_> {
        let mut is_denied = false;
        let mut items = self.under(key.as_bytes());
        let open = items.find(|(_, item)| {
            let visibility = item.seen_by(&wanted.caller, &wanted.among);
            is_denied |= visibility == Visibility::Denied;
            visibility == Visibility::Open
        });
        match open {
            Some((number, item)) => Seen::Open(number, item),
            None if is_denied => Seen::Denied,
            None => Seen::Nothing,
        }
    }

    /// Whether a lookup has waited for enough. It stops looking as soon as that cannot be.
    fn has_enough(&self, waiting: &PendingLookup<T>) -> bool {
        let wanted = &waiting.wanted;
        let may_lack = wanted.keys.len().saturating_sub(waiting.enough);
        let mut known = HashMap::new();
        let lacks = |key| matches!(self.find_key(key, wanted), Seen::Nothing);
        let lacking = wanted.keys.iter();
        let lacking = lacking.filter(|key| *known.entry(*key).or_insert_with(|| lacks(key)));
        waiting.enough == 0 || lacking.take(may_lack + 1).count() <= may_lack
    }

    /// Answers with what is there; what is for the first reader is gone then.
    fn answer(&mut self, waiting: PendingLookup<T>) -> LookupResult<T> {
        let (found, numbers) = self.find(&waiting.wanted);
        for number in numbers {
            let item = self.items.get(&number);
            if item.is_some_and(|item| item.persistence == Persistence::FIRST_READ) {
                self.remove_item(number);
            }
        }
        LookupResult {
            token: waiting.token,
            status: found.status(waiting.wanted.keys.len()),
            data: found.data,
        }
    }

    /// Answers the lookups that have enough now that some keys are there, the oldest first.
    pub(super) fn settle(&mut self, keys: &HashSet<Key<'static>>) -> Vec<LookupResult<T>> {
        let mut answered = Vec::new();
        for id in self.waiting.naming(keys) {
            if self
                .waiting
                .get(id)
                .is_some_and(|waiting| self.has_enough(waiting))
                && let Some(waiting) = self.waiting.take(id)
            {
                answered.push(self.answer(waiting));
            }
        }
        answered
    }

    /// Ends the lookups whose time is over, with `PMIX_ERR_TIMEOUT`.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<LookupResult<T>> {
        let over = self.waiting.expired(now).into_iter();
        let looked = |waiting: PendingLookup<T>| LookupResult {
            token: waiting.token,
            status: Status::ERR_TIMEOUT,
            data: Vec::new(),
        };
        over.map(looked).collect()
    }

    /// Returns when the time of the next lookup is over.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.next_deadline()
    }
}

/// What is found of a key.
#[derive(Clone, Copy)]
enum Seen<'s> {
    /// This may be read.
    Open(u64, &'s Item),
    /// Something is there that may not be read.
    Denied,
    Nothing,
}

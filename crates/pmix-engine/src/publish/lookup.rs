// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lookups: answered at once, or when enough is there, or when their time is over.

use std::collections::HashSet;
use std::time::Instant;

use pmix_types::{DataRange, Info, Key, Persistence, Status, Text};

use super::caller::{Caller, Visibility};
use super::directives::Directives;
use super::pending_lookup::{Found, LookupResult, PendingLookup, Search};
use super::pubsub::{PubSub, owned, range_of};
use crate::Error;

impl<T> PubSub<T> {
    /// Looks keys up, among the publishers of the session if no range is given. Some(answer) comes
    /// at once unless the caller waits (`PMIX_WAIT`) and not enough is there.
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
        let range = directives.range.unwrap_or(DataRange::SESSION);
        let wanted = Search {
            caller: caller.clone(),
            keys: owned(keys),
            among: range_of(range, caller, directives.listed)?,
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
        self.waiting.push(waiting);
        Ok(None)
    }

    fn check_waiting(&self, wanted: &Search) -> Result<(), Error> {
        let own = |waiting: &&PendingLookup<T>| waiting.wanted.caller.proc == wanted.caller.proc;
        let own = self.waiting.iter().filter(own);
        let before: usize = own.map(|waiting| waiting.wanted.keys.len()).sum();
        let most = self.limits.waiting_keys_per_proc;
        if before + wanted.keys.len() <= most {
            return Ok(());
        }
        let message = format!("a process may wait for {most} keys, and waits for {before}");
        Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message))
    }

    /// What is there of the keys that are wanted, and where.
    fn find(&self, wanted: &Search) -> (Found, Vec<u64>) {
        let mut found = Found::default();
        let mut numbers = Vec::new();
        for key in &wanted.keys {
            let mut denied = false;
            let open = self.under(key.as_bytes()).into_iter().find(|(_, item)| {
                let sight = item.seen_by(&wanted.caller, &wanted.among);
                denied |= sight == Visibility::Denied;
                sight == Visibility::Open
            });
            match open {
                Some((number, item)) => {
                    found.data.push(item.data());
                    numbers.push(number);
                }
                None => found.num_denied += usize::from(denied),
            }
        }
        (found, numbers)
    }

    fn has_enough(&self, waiting: &PendingLookup<T>) -> bool {
        waiting.enough == 0 || self.find(&waiting.wanted).0.num_keys() >= waiting.enough
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
        let mut place = 0;
        while let Some(waiting) = self.waiting.get(place) {
            let concerns = waiting.wanted.keys.iter().any(|key| keys.contains(key));
            if concerns && self.has_enough(waiting) {
                let waiting = self.waiting.remove(place);
                answered.push(self.answer(waiting));
            } else {
                place += 1;
            }
        }
        answered
    }

    pub(super) fn stop_waiting(&mut self, gone: impl Fn(&Caller) -> bool) -> Vec<T> {
        let gone = |waiting: &mut PendingLookup<T>| gone(&waiting.wanted.caller);
        let stopped = self.waiting.extract_if(.., gone);
        stopped.map(|waiting| waiting.token).collect()
    }

    /// Ends the lookups whose time is over, with `PMIX_ERR_TIMEOUT`.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<LookupResult<T>> {
        let over = |waiting: &mut PendingLookup<T>| waiting.until.is_some_and(|until| until <= now);
        let over = self.waiting.extract_if(.., over);
        let looked = |waiting: PendingLookup<T>| LookupResult {
            token: waiting.token,
            status: Status::ERR_TIMEOUT,
            data: Vec::new(),
        };
        over.map(looked).collect()
    }

    /// When the time of the next lookup is over.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waiting
            .iter()
            .filter_map(|waiting| waiting.until)
            .min()
    }
}

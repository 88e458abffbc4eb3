// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sorted list in chunks, which snapshots share.
//!
//! A process may put millions of keys, and commit another key after each snapshot. Such a change
//! copies only one chunk and the list of chunks instead of all keys.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;
use std::vec;

use pmix_types::Key;

/// An item with a sort key.
pub(super) trait Keyed {
    /// Returns the key by which the item is sorted.
    fn sort_key(&self) -> &[u8];
}

impl Keyed for Key<'_> {
    fn sort_key(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Items sorted by key. Items with equal keys are in the same chunk, in the order of insertion.
#[derive(Clone, Debug)]
pub(super) struct SortedChunks<T> {
    /// The first chunk, which is the only one for most processes.
    head: Vec<T>,
    /// The other chunks, none of them empty.
    tail: Vec<Arc<Vec<T>>>,
}

impl<T> Default for SortedChunks<T> {
    fn default() -> Self {
        Self {
            head: Vec::new(),
            tail: Vec::new(),
        }
    }
}

impl<T: Keyed + Clone> SortedChunks<T> {
    /// The length above which a chunk is split, unless all its items have the same key.
    const MAX_LEN: usize = 128;

    /// Reserves memory for the first `count` items, so that a short list takes no more than it
    /// needs.
    pub(super) fn expect(&mut self, count: usize) {
        if self.head.is_empty() && self.tail.is_empty() {
            self.head.reserve_exact(count.min(Self::MAX_LEN + 1));
        }
    }

    /// Returns the items of a key.
    pub(super) fn of_key(&self, key: &[u8]) -> &[T] {
        let chunk = self.chunk(self.number_of(key));
        chunk.get(range(chunk, key)).unwrap_or_default()
    }

    /// Returns all items, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let tail = self.tail.iter().flat_map(|chunk| chunk.iter());
        self.head.iter().chain(tail)
    }

    /// Changes the items of a key. The closure receives their chunk and their range in the chunk.
    /// It may replace, remove and insert items with this key there.
    pub(super) fn change<R>(
        &mut self,
        key: &[u8],
        write: impl FnOnce(&mut Vec<T>, Range<usize>) -> R,
    ) -> R {
        let number = self.number_of(key);
        let chunk = match number.checked_sub(1).and_then(|at| self.tail.get_mut(at)) {
            Some(chunk) => Arc::make_mut(chunk),
            None => &mut self.head,
        };
        let range = range(chunk, key);
        let result = write(chunk, range);
        let split = (chunk.len() > Self::MAX_LEN)
            .then(|| split(chunk))
            .flatten();
        let is_empty = chunk.is_empty();
        if let Some(behind) = split {
            self.tail.insert(number, Arc::new(behind));
        } else if is_empty && let Some(at) = number.checked_sub(1) {
            self.tail.remove(at);
        }
        result
    }

    /// Passes each item of these keys, which are sorted, with the place of its key in `keys`. The closure may change the
    /// item, but not its key, and returns `true` to keep it. The chunks without such items are not copied.
    pub(super) fn retain_of<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        mut is_kept: impl FnMut(usize, &mut T) -> bool,
    ) {
        retain_of(&mut self.head, keys, &mut is_kept);
        for chunk in &mut self.tail {
            let has_any = |range: Range<usize>| {
                let keys = keys.get(range).unwrap_or_default();
                { keys.iter() }.any(|key| !self::range(chunk, key.as_ref()).is_empty())
            };
            if has_any(spanned(chunk, keys)) {
                retain_of(Arc::make_mut(chunk), keys, &mut is_kept);
            }
        }
        self.tail.retain(|chunk| !chunk.is_empty());
    }

    /// Inserts the items, which are sorted and have different keys, whose keys the list does not have, in one pass.
    /// Passes each of the others to `is_settled`, with the items of its chunk from that key on. Returns the ones for
    /// which the closure returns `false`. The chunks without new items are not copied.
    pub(super) fn insert_new(
        &mut self,
        items: Vec<T>,
        mut is_settled: impl FnMut(&[T], &T) -> bool,
    ) -> Vec<T> {
        let mut items = items.into_iter().peekable();
        let mut known = Vec::new();
        let mut note = |behind: &[T], item: T| {
            if !is_settled(behind, &item) {
                known.push(item);
            }
        };
        let old = std::mem::take(&mut self.tail);
        self.tail
            .reserve(old.len() + items.len() / (Self::MAX_LEN / 2));
        let mut old = old.into_iter().peekable();
        let new = new_in(&self.head, &mut items, old.peek(), &mut note);
        if !new.is_empty() {
            let mut pieces = pieces(merged(std::mem::take(&mut self.head), new), Self::MAX_LEN);
            self.head = pieces.next().unwrap_or_default();
            self.tail.extend(pieces.map(Arc::new));
        }
        while let Some(chunk) = old.next() {
            let new = new_in(&chunk, &mut items, old.peek(), &mut note);
            if new.is_empty() {
                self.tail.push(chunk);
                continue;
            }
            let merged = merged(Arc::unwrap_or_clone(chunk), new);
            self.tail
                .extend(pieces(merged, Self::MAX_LEN).map(Arc::new));
        }
        known
    }

    /// Returns `true` if a pass over all chunks costs no more than a search for each of `count` items.
    pub(super) fn is_worth_a_pass(&self, count: usize) -> bool {
        count.saturating_mul(8) > self.tail.len()
    }

    /// Returns the bytes of heap memory of the list, without data to which its items refer.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunk =
            |len: usize| size_of::<Vec<T>>() + 2 * size_of::<usize>() + len * size_of::<T>();
        let tail = self.tail.iter().map(|items| chunk(items.capacity()));
        self.head.capacity() * size_of::<T>()
            + self.tail.capacity() * size_of::<Arc<Vec<T>>>()
            + tail.sum::<usize>()
    }

    /// Returns the number of the chunk to which a key belongs. The head has number 0.
    fn number_of(&self, key: &[u8]) -> usize {
        let begins_before = |chunk: &Arc<Vec<T>>| {
            let first = chunk.first();
            first.is_some_and(|item| item.sort_key() <= key)
        };
        self.tail.partition_point(begins_before)
    }

    fn chunk(&self, number: usize) -> &[T] {
        let tail = number.checked_sub(1).and_then(|at| self.tail.get(at));
        tail.map_or(&self.head, |chunk| chunk)
    }
}

/// Takes the items that belong to a chunk, before the first item of the next chunk. Returns those whose keys the chunk does
/// not have, and passes the others to `known`, with the items of the chunk from that key on.
fn new_in<T: Keyed>(
    chunk: &[T],
    items: &mut Peekable<vec::IntoIter<T>>,
    next: Option<&Arc<Vec<T>>>,
    known: &mut impl FnMut(&[T], T),
) -> Vec<T> {
    let end = next.and_then(|next| next.first()).map(T::sort_key);
    let is_inside = |item: &T| end.is_none_or(|end| item.sort_key() < end);
    let mut new = Vec::new();
    let mut rest = chunk;
    while let Some(item) = items.next_if(is_inside) {
        let key = item.sort_key();
        // Items of a commit are often neighbors, so the first of the rest is tried before a search.
        if rest.first().is_some_and(|first| first.sort_key() < key) {
            let smaller = rest.partition_point(|other| other.sort_key() < key);
            rest = rest.get(smaller..).unwrap_or_default();
        }
        match rest.first() {
            Some(first) if first.sort_key() == key => known(rest, item),
            _ => new.push(item),
        }
    }
    new
}

/// Merges two sorted lists.
fn merged<T: Keyed>(old: Vec<T>, new: Vec<T>) -> Vec<T> {
    if old.is_empty() {
        return new;
    }
    let mut all = Vec::with_capacity(old.len() + new.len());
    let mut old = old.into_iter().peekable();
    for item in new {
        while let Some(smaller) = old.next_if(|old| old.sort_key() < item.sort_key()) {
            all.push(smaller);
        }
        all.push(item);
    }
    all.extend(old);
    all
}

/// Cuts a sorted list into pieces of at most `most` items, except that items with the same key stay together.
fn pieces<T: Keyed>(items: Vec<T>, most: usize) -> impl Iterator<Item = Vec<T>> {
    let mut rest = items.into_iter().peekable();
    std::iter::from_fn(move || {
        // A piece of a longer list has room for later items, as after a split.
        let count = match rest.len() {
            0 => return None,
            len if len <= most => len,
            _ => most * 3 / 4,
        };
        let mut piece = Vec::with_capacity(count);
        piece.extend(rest.by_ref().take(count));
        while let Some(next) = rest.next_if(|next| has_key_of_last(&piece, next)) {
            piece.push(next);
        }
        Some(piece)
    })
}

fn has_key_of_last<T: Keyed>(items: &[T], next: &T) -> bool {
    items
        .last()
        .is_some_and(|last| last.sort_key() == next.sort_key())
}

/// Returns the range of the sorted keys that lie between the first and the last item of a chunk.
fn spanned<T: Keyed, K: AsRef<[u8]>>(chunk: &[T], keys: &[K]) -> Range<usize> {
    let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else {
        return 0..0;
    };
    let start = keys.partition_point(|key| key.as_ref() < first.sort_key());
    let behind = keys.get(start..).unwrap_or_default();
    start..start + behind.partition_point(|key| key.as_ref() <= last.sort_key())
}

/// Does the work of [`SortedChunks::retain_of`] for a chunk.
fn retain_of<T: Keyed, K: AsRef<[u8]>>(
    chunk: &mut Vec<T>,
    keys: &[K],
    is_kept: &mut impl FnMut(usize, &mut T) -> bool,
) {
    let Range { start, end } = spanned(chunk, keys);
    let mut place = start;
    chunk.retain_mut(|item| {
        // Both lists are sorted, so each is passed once.
        while place < end && keys[place].as_ref() < item.sort_key() {
            place += 1;
        }
        let is_named = place < end && keys[place].as_ref() == item.sort_key();
        !is_named || is_kept(place, item)
    });
}

/// Returns the range of the items of a key in a chunk. If there are none, it is the empty range
/// where they would be inserted.
fn range<T: Keyed>(chunk: &[T], key: &[u8]) -> Range<usize> {
    let first = chunk.partition_point(|item| item.sort_key() < key);
    let behind = chunk.get(first..).unwrap_or_default();
    first..first + behind.partition_point(|item| item.sort_key() == key)
}

/// Removes and returns the second half of a chunk. Items with the same key stay together.
fn split<T: Keyed>(chunk: &mut Vec<T>) -> Option<Vec<T>> {
    let middle = chunk.get(chunk.len() / 2)?.sort_key();
    let Range { start, end } = range(chunk, middle);
    let at = [start, end]
        .into_iter()
        .filter(|at| *at > 0 && *at < chunk.len())
        .min_by_key(|at| at.abs_diff(chunk.len() / 2))?;
    let behind = chunk.split_off(at);
    chunk.shrink_to(at.next_multiple_of(16));
    Some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keyed for (Vec<u8>, u32) {
        fn sort_key(&self) -> &[u8] {
            &self.0
        }
    }

    type List = SortedChunks<(Vec<u8>, u32)>;

    fn insert(list: &mut List, key: u32, value: u32) {
        let key = key.to_be_bytes().to_vec();
        list.change(&key.clone(), |items, range| {
            items.insert(range.end, (key, value));
        });
    }

    #[test]
    fn items_in_any_order_are_sorted_and_found() {
        let mut list = List::default();
        let mut model = std::collections::BTreeMap::<u32, Vec<u32>>::new();
        for step in 0..20_000_u32 {
            let key = step.wrapping_mul(2_654_435_761) % 3_000;
            insert(&mut list, key, step);
            model.entry(key).or_default().push(step);
            if step % 3 == 0 {
                let gone = step.wrapping_mul(40_503) % 3_000;
                list.change(&gone.to_be_bytes(), |items, range| {
                    items.drain(range);
                });
                model.remove(&gone);
            }
        }
        assert!(list.tail.len() > 20);
        assert!(list.tail.iter().all(|chunk| !chunk.is_empty()));
        let expected = model.values().flatten().copied();
        assert!(list.iter().map(|item| item.1).eq(expected));
        for (key, values) in &model {
            let found = list.of_key(&key.to_be_bytes());
            assert!(found.iter().map(|item| item.1).eq(values.iter().copied()));
        }
        assert_eq!(list.of_key(&5_000_u32.to_be_bytes()), &[]);
    }

    #[test]
    fn the_items_of_many_keys_are_removed_in_one_pass() {
        let mut list = List::default();
        (0..2_000).for_each(|key| insert(&mut list, key, 0));
        (0..2_000).for_each(|key| insert(&mut list, key, 1));
        let before = list.clone();
        // Every third key of the first half, and keys that do not exist.
        let keys: Vec<_> = (0..1_000_u32).step_by(3).chain(9_000..9_010).collect();
        let names: Vec<_> = keys.iter().map(|key| key.to_be_bytes()).collect();
        let mut passed = Vec::new();
        list.retain_of(&names, |place, item| {
            passed.push(place);
            item.1 == 1
        });
        let known = (0..334).flat_map(|place| [place, place]);
        assert!(passed.into_iter().eq(known));
        let is_left =
            |item: &&(Vec<u8>, u32)| item.1 == 1 || !names.iter().any(|key| item.0 == *key);
        assert!(list.iter().eq(before.iter().filter(is_left)));
        // The chunks of the second half are those of the clone.
        let shared = list.tail.iter().zip(before.tail.iter());
        assert!(shared.rev().take(5).all(|(a, b)| Arc::ptr_eq(a, b)));
        let all: Vec<_> = (0..2_000_u32).map(u32::to_be_bytes).collect();
        list.retain_of(&all, |_, _| false);
        assert_eq!(list.iter().count(), 0);
        assert!(list.tail.is_empty());
    }

    #[test]
    fn new_items_are_inserted_in_one_pass_and_known_ones_are_returned() {
        let item = |key: u32, value| (key.to_be_bytes().to_vec(), value);
        for (known, items) in [
            (0..0, 0..1),
            (0..0, 0..1_000),
            (100..101, 0..200),
            (0..300, 300..310),
            (1_000..2_000, 0..3_000),
            (0..2_000, 500..600),
        ] {
            let (mut list, step) = (List::default(), if items.len() > 1_000 { 7 } else { 1 });
            known
                .clone()
                .step_by(2)
                .for_each(|key| insert(&mut list, key, 0));
            let before = list.clone();
            let new = items.clone().step_by(step).map(|key| item(key, 1));
            let given: Vec<_> = new.collect();
            let returned = list.insert_new(given.clone(), |behind, item| {
                assert!(behind[0].0 == item.0, "{known:?} {items:?}");
                false
            });
            let is_known = |item: &(Vec<u8>, u32)| !before.of_key(&item.0).is_empty();
            let (old, new): (Vec<_>, Vec<_>) = given.clone().into_iter().partition(is_known);
            assert_eq!(returned, old, "{known:?} {items:?}");
            let mut expected: Vec<_> = before.iter().cloned().chain(new).collect();
            expected.sort();
            assert!(list.iter().eq(&expected), "{known:?} {items:?}");
            for item in &expected {
                assert_eq!(list.of_key(&item.0), std::slice::from_ref(item));
            }
            assert!(list.insert_new(given, |_, _| true).is_empty());
            assert!(list.iter().eq(&expected), "{known:?} {items:?}");
            let longest = list.tail.iter().map(|chunk| chunk.len()).max();
            assert!(longest.unwrap_or_default().max(list.head.len()) <= List::MAX_LEN);
            let is_shared =
                |chunk: &&Arc<Vec<_>>| before.tail.iter().any(|old| Arc::ptr_eq(old, chunk));
            if known.len() == 2_000 {
                assert!(list.tail.iter().filter(is_shared).count() > before.tail.len() / 2);
            }
        }
    }

    #[test]
    fn items_of_one_key_stay_together() {
        let mut list = List::default();
        for value in 0..1_000 {
            insert(&mut list, 7, value);
        }
        insert(&mut list, 3, 0);
        insert(&mut list, 9, 0);
        let found = list.of_key(&7_u32.to_be_bytes());
        assert!(found.iter().map(|item| item.1).eq(0..1_000));
        assert_eq!(list.iter().count(), 1_002);
    }

    #[test]
    fn a_change_copies_one_chunk_of_a_snapshot() {
        let mut list = List::default();
        (0..10_000).for_each(|key| insert(&mut list, key, 0));
        let snapshot = list.clone();
        insert(&mut list, 5_000, 1);
        let shared = snapshot.tail.iter().filter(|of| {
            let is_same = |own: &Arc<Vec<_>>| Arc::ptr_eq(own, of);
            list.tail.iter().any(is_same)
        });
        assert!(snapshot.tail.len() - shared.count() <= 1);
        assert_eq!(snapshot.of_key(&5_000_u32.to_be_bytes()).len(), 1);
        assert_eq!(list.of_key(&5_000_u32.to_be_bytes()).len(), 2);
    }
}

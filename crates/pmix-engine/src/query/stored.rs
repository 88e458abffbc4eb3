// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of the datastore for the jobs and nodes of a query.

use std::collections::HashSet;

use gds_hash::Request;
use pmix_types::{DataArray, Nspace, Proc, Rank, Text, Value, keys};

use super::nodes::Nodes;
use super::results::QueryResults;
use super::target::may_see;
use crate::Error;
use crate::cx::Cx;
use crate::peers::Member;

/// Returns the value of a key. Lists of processes are merged for all jobs and nodes of the query. Any other value is
/// returned only if it is equal for all that have one, because the reply cannot say which job or node it belongs to.
pub(super) fn stored(
    cx: &Cx,
    member: &Member,
    jobs: &[Nspace<'static>],
    rank: Rank,
    key: &str,
    nodes: &Nodes<'_>,
) -> Result<Option<Value<'static>>, Error> {
    let mut merged = match key {
        keys::LOCAL_PROCS => Merged::Procs(None, HashSet::new()),
        // Ranks are ambiguous for several jobs.
        keys::LOCAL_PEERS if jobs.len() == 1 => Merged::Ranks(None, HashSet::new()),
        _ => Merged::Equal(None),
    };
    let mut result = Ok(());
    for nspace in jobs.iter().filter(|nspace| may_see(cx, member, nspace)) {
        // Each value is merged before the next is looked up, so only one copy exists at a time.
        nodes.for_each(|qualifiers| {
            let request = Request::new(rank, key).with(qualifiers);
            if result.is_ok()
                && !matches!(merged, Merged::Different)
                && let Ok(value) = cx.store.get(nspace, &request)
            {
                result = merged.add(value);
            }
        });
    }
    result.map(|()| merged.into_value())
}

/// The values of a key for the jobs and nodes of a query, merged into one.
enum Merged {
    /// The distinct processes of lists, in order.
    Procs(Option<Vec<Proc<'static>>>, HashSet<Proc<'static>>),
    /// The distinct ranks of lists such as `0,1`, in order.
    Ranks(Option<Vec<u8>>, HashSet<Vec<u8>>),
    /// The value that all have so far.
    Equal(Option<Value<'static>>),
    /// There are different values.
    Different,
}

impl Merged {
    /// Adds a value. A value of another type than a list is not part of a merged list.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the list is longer than a reply, and `PMIX_ERR_NOMEM` if the process has no
    /// memory for it.
    fn add(&mut self, value: Value<'static>) -> Result<(), Error> {
        match (self, value) {
            (Self::Procs(all, seen), Value::DataArray(DataArray::Proc(procs))) => {
                let all = all.get_or_insert_default();
                QueryResults::make_room(all, procs.len() as u64)?;
                all.extend(procs.into_iter().filter(|proc| seen.insert(proc.clone())));
            }
            (Self::Ranks(all, seen), Value::String(Some(list))) => {
                let all = all.get_or_insert_default();
                QueryResults::make_room(all, list.len() as u64 + 1)?;
                let words = list.as_bytes().split(|byte| *byte == b',');
                for word in words.filter(|word| !word.is_empty()) {
                    if seen.insert(word.to_vec()) {
                        if !all.is_empty() {
                            all.push(b',');
                        }
                        all.extend_from_slice(word);
                    }
                }
            }
            (Self::Equal(all @ None), value) => *all = Some(value),
            (this @ Self::Equal(_), value) => {
                let is_equal = matches!(this, Self::Equal(Some(known)) if *known == value);
                *this = match is_equal {
                    true => Self::Equal(Some(value)),
                    false => Self::Different,
                };
            }
            _ => {}
        }
        Ok(())
    }

    fn into_value(self) -> Option<Value<'static>> {
        match self {
            Self::Procs(all, _) => all.map(Value::from),
            Self::Ranks(all, _) => all.map(|list| Value::String(Some(Text::new(list)))),
            Self::Equal(value) => value,
            Self::Different => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(mut merged: Merged, values: impl IntoIterator<Item = Value<'static>>) -> Merged {
        for value in values {
            merged.add(value).unwrap();
        }
        merged
    }

    #[test]
    fn equal_values_are_one_and_different_values_none() {
        let of = |values: [u32; 3]| {
            let values = values.into_iter().map(Value::from);
            merged(Merged::Equal(None), values).into_value()
        };
        assert_eq!(of([1, 1, 1]), Some(Value::from(1_u32)));
        assert_eq!(of([1, 2, 1]), None);
    }

    #[test]
    fn lists_are_merged_without_repetitions() {
        let proc = |rank| Proc::new("job", Rank::new(rank));
        let lists = [vec![proc(0), proc(1)], vec![proc(1), proc(2)]];
        let procs = Merged::Procs(None, HashSet::new());
        let all = merged(procs, lists.into_iter().map(Value::from)).into_value();
        assert_eq!(all, Some(Value::from(vec![proc(0), proc(1), proc(2)])));
        let ranks = Merged::Ranks(None, HashSet::new());
        let all = merged(ranks, ["0,1", "1,,2"].map(Value::from)).into_value();
        assert_eq!(all, Some(Value::from("0,1,2")));
    }
}

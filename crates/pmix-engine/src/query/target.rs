// SPDX-License-Identifier: MIT OR Apache-2.0
//! The job and process that a query selects, and the jobs that a member may query.

use gds_hash::Request;
use pmix_types::{Info, IntoOwned, Nspace, Proc, Rank, Text, Value, keys};

use crate::Error;
use crate::cx::Cx;
use crate::peers::Member;

/// The job and process in the qualifiers of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueryTarget {
    /// The job, if one is named.
    pub(super) nspace: Option<Nspace<'static>>,
    /// The process, or the wildcard.
    pub(super) rank: Rank,
}

impl QueryTarget {
    /// Decodes the qualifiers of a query (PMIx Standard, `PMIx_Query_info`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` if both `PMIX_PROCID` and its parts name a process, and for a name of a wrong type.
    pub(super) fn read(qualifiers: &[Info<'_>]) -> Result<Self, Error> {
        let find = |key| qualifiers.iter().find(|info| info.key.is(key));
        let whole = find(keys::PROCID);
        let (nspace, rank) = (find(keys::NSPACE), find(keys::RANK));
        match (whole, nspace, rank) {
            (Some(info), None, None) => match &info.value {
                Value::Proc(proc) => Ok(Self::of(proc)),
                _ => Err(wrong(info)),
            },
            (Some(_), _, _) => Err(Error::bad(
                "a query names a process either by pmix.procid or by pmix.nspace and pmix.rank",
            )),
            (None, nspace, rank) => Ok(Self {
                nspace: nspace.map(name).transpose()?.flatten(),
                rank: match rank.map(|info| (info, &info.value)) {
                    None => Rank::WILDCARD,
                    Some((_, Value::Rank(rank))) => *rank,
                    Some((info, _)) => return Err(wrong(info)),
                },
            }),
        }
    }

    fn of(proc: &Proc<'_>) -> Self {
        let nspace = proc.nspace.clone().into_owned();
        Self {
            nspace: (!nspace.is_empty()).then_some(nspace),
            rank: proc.rank,
        }
    }
}

/// Returns the job that an info names; `None` for an empty name.
fn name(info: &Info<'_>) -> Result<Option<Nspace<'static>>, Error> {
    let nspace = match &info.value {
        Value::String(None) => return Ok(None),
        Value::String(Some(text)) => Nspace::new(text.as_bytes().to_vec()),
        Value::Nspace(nspace) => nspace.clone().into_owned(),
        _ => return Err(wrong(info)),
    };
    Ok((!nspace.is_empty()).then_some(nspace))
}

#[cold]
fn wrong(info: &Info<'_>) -> Error {
    let found = info.value.data_type();
    Error::bad(format!("the qualifier {} has type {found}", info.key))
}

/// Returns `true` if a member may query a job.
pub(super) fn may_see(cx: &Cx, member: &Member, nspace: &Nspace<'_>) -> bool {
    cx.store.job(nspace).is_some() && cx.check_reads(member, nspace).is_ok()
}

/// Returns the jobs that a member may query, sorted by name.
pub(crate) fn visible(cx: &Cx, member: &Member) -> Vec<Nspace<'static>> {
    let mut nspaces = cx.store.nspaces();
    nspaces.retain(|nspace| may_see(cx, member, nspace));
    nspaces.sort_unstable();
    nspaces
}

/// Returns the jobs that a query covers: the named one, or else the member's own. A tool has no job of its own, so its
/// query covers all jobs that it may read.
pub(super) fn meant(
    cx: &Cx,
    member: &Member,
    named: Option<&Nspace<'static>>,
) -> Vec<Nspace<'static>> {
    let own = &member.proc.nspace;
    match named {
        Some(nspace) => vec![nspace.clone()],
        None if cx.store.job(own).is_some() => vec![own.clone()],
        None => visible(cx, member),
    }
}

/// Returns a value of a job as a whole.
pub(super) fn of_job(cx: &Cx, nspace: &Nspace<'_>, key: &str) -> Option<Value<'static>> {
    let request = Request::new(Rank::WILDCARD, key);
    cx.store.get(nspace, &request).ok()
}

/// Returns the processes of a job in a list of ranks such as `0,1,2`.
pub(super) fn procs_of(nspace: &Nspace<'static>, ranks: &Text<'_>) -> Vec<Proc<'static>> {
    let ranks = ranks.as_str().unwrap_or_default().split(',');
    let ranks = ranks.filter_map(|rank| rank.parse().ok());
    ranks
        .map(|rank| Proc::new(nspace.as_text().clone(), Rank::new(rank)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmix_types::Status;

    fn proc() -> Proc<'static> {
        Proc::new("a", Rank::new(3))
    }

    #[test]
    fn a_process_is_named_in_one_of_two_ways() {
        let parts = [
            Info::new(keys::NSPACE, "a"),
            Info::new(keys::RANK, Rank::new(3)),
        ];
        let whole = [Info::new(keys::PROCID, proc())];
        let target = QueryTarget::read(&whole).unwrap();
        assert_eq!(target.rank, Rank::new(3));
        assert_eq!(QueryTarget::read(&parts).unwrap(), target);
        for part in parts {
            let both = [whole[0].clone(), part];
            let refused = QueryTarget::read(&both).unwrap_err();
            assert_eq!(refused.status(), Status::ERR_BAD_PARAM);
        }
    }

    #[test]
    fn a_query_without_a_target_has_no_nspace() {
        let nobody = QueryTarget::read(&[]).unwrap();
        assert_eq!((nobody.nspace, nobody.rank), (None, Rank::WILDCARD));
        for empty in [Value::String(None), Value::from("")] {
            let infos = [Info::new(keys::NSPACE, empty)];
            assert_eq!(QueryTarget::read(&infos).unwrap().nspace, None);
        }
    }

    #[test]
    fn names_of_other_types_are_refused() {
        for key in [keys::NSPACE, keys::RANK, keys::PROCID] {
            let refused = QueryTarget::read(&[Info::new(key, 3_u16)]).unwrap_err();
            assert_eq!(refused.status(), Status::ERR_BAD_PARAM, "{key}");
        }
    }
}

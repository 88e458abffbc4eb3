// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of job info, in the form in which a client stores them.
//!
//! | subject of the value | owner of the object | form |
//! | --- | --- | --- |
//! | a process | the process | the key |
//! | the job | `PMIX_RANK_WILDCARD` | the key |
//! | a node | `PMIX_RANK_WILDCARD` | `pmix.node.arr` with name and number of the node, and the key |
//! | an application | `PMIX_RANK_WILDCARD` | `pmix.app.arr` with its number, and the key |
//! | a session | `PMIX_RANK_WILDCARD` | `pmix.ssn.arr` with its number, and the key |
//!
//! Clients since 4.2 do not find a value of a node under a bare key.

use gds_hash::{Job, KnownNode, Request, Subject};
use pmix_types::{DataArray, Info, Kval, Proc, Rank, Text, Value, keys};

use super::get_request::{GetRequest, of_job};
use super::state::Exchange;
use crate::Error;
use crate::cx::Cx;

impl Exchange {
    /// Returns the value in the job info for a request, and its subject.
    pub(super) fn job_level(
        cx: &Cx,
        job: &Job,
        request: &GetRequest,
    ) -> Result<(Proc<'static>, Kval<'static>), Error> {
        let key = request.text().ok_or_else(|| Error::not_found("no key"))?;
        let asked = of_job(request.proc.rank);
        let found = Self::lookup(cx, job, request, asked, key);
        // A request for a process may name a value of its job.
        let found = match found {
            Err(_) if asked.is_valid() => Self::lookup(cx, job, request, Rank::WILDCARD, key),
            other => other,
        };
        match found {
            Err(_) if key == keys::PSET_NAMES => Self::set_names(cx, request),
            other => other,
        }
    }

    fn lookup(
        cx: &Cx,
        job: &Job,
        request: &GetRequest,
        rank: Rank,
        key: &str,
    ) -> Result<(Proc<'static>, Kval<'static>), Error> {
        let lookup = Request::new(rank, key).with(&request.infos);
        let (value, subject) = match cx.store.get(job.nspace(), &lookup) {
            Ok(value) => (value, job.subject(&lookup)?),
            Err(error) => match cx.resources.find(key, &request.infos) {
                Some((subject, value)) => (value.into_owned(), subject),
                None => return Err(error.into()),
            },
        };
        let rank = match subject {
            Subject::Proc(rank) => rank,
            _ => Rank::WILDCARD,
        };
        let kval = enclosed(subject, key, value);
        Ok((Proc::new(job.nspace().clone(), rank), kval))
    }

    /// Returns the names of the process sets of a process, separated by commas.
    fn set_names(cx: &Cx, request: &GetRequest) -> Result<(Proc<'static>, Kval<'static>), Error> {
        let names: Vec<_> = cx.process_sets.of(&request.proc).collect();
        if names.is_empty() {
            return Err(Error::not_found("the process is not in a process set"));
        }
        let names: Vec<_> = names.into_iter().map(Text::as_bytes).collect();
        let kval = Kval {
            key: keys::PSET_NAMES.into(),
            value: Value::String(Some(Text::new(names.join(&b',')))),
        };
        Ok((request.proc.clone(), kval))
    }
}

/// Puts a value into the array of its subject, unless that is a process or the job.
fn enclosed(subject: Subject, key: &str, value: Value<'static>) -> Kval<'static> {
    let (array, mut infos) = match subject {
        Subject::Proc(_) | Subject::Job => {
            let key = key.to_owned().into();
            return Kval { key, value };
        }
        Subject::Node(node) => (keys::NODE_INFO_ARRAY, names(node)),
        Subject::App(number) => {
            let number = Info::new(keys::APPNUM, number);
            (keys::APP_INFO_ARRAY, vec![number])
        }
        Subject::Session(number) => {
            // Clients accept the array only with a number; this value means that there is none.
            let number = Info::new(keys::SESSION_ID, number.unwrap_or(u32::MAX));
            (keys::SESSION_INFO_ARRAY, vec![number])
        }
    };
    if !infos.iter().any(|info| info.key.is(key)) {
        infos.push(Info::new(key.to_owned(), value));
    }
    Kval {
        key: array.into(),
        value: Value::DataArray(DataArray::Info(infos)),
    }
}

fn names(node: KnownNode) -> Vec<Info<'static>> {
    let name = node.name.map(|name| {
        let name = Value::String(Some(Text::new(name)));
        Info::new(keys::HOSTNAME, name)
    });
    let number = node.id.map(|id| Info::new(keys::NODEID, id));
    name.into_iter().chain(number).collect()
}

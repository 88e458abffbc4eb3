// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolution of the processes on a node and of the nodes of a job.
//!
//! Source: PMIx Standard, chapter "Query Operations", `PMIx_Resolve_peers` and `PMIx_Resolve_nodes`.

use pmix_types::{Info, IntoOwned as _, Nspace, Proc, Rank, Status, Text, Value, keys, memory};

use crate::{Client, Error};

/// Returns the wildcard process of a job and the qualifier that selects a node.
fn request_of(nspace: &Nspace<'_>, node: Option<&str>) -> (Proc<'static>, Vec<Info<'static>>) {
    let job = Proc::new(nspace.clone().into_owned(), Rank::WILDCARD);
    let node = node.map(|node| Info::new(keys::HOSTNAME, node.to_owned()));
    (job, node.into_iter().collect())
}

/// Parses the value of `pmix.lpeers`: ranks separated by commas.
fn peers(nspace: &Nspace<'static>, value: &Value<'_>) -> Result<Vec<Proc<'static>>, Error> {
    let ranks = text(value, keys::LOCAL_PEERS)?;
    let mut procs = memory::list(num_items(ranks))?;
    // One copy of the name serves all ranks.
    let nspace = nspace.to_shared();
    let ranks = ranks.to_str_lossy();
    let ranks = ranks.split(',').map(str::trim);
    for rank in ranks.filter(|rank| !rank.is_empty()) {
        match rank.parse() {
            Ok(rank) => procs.push(Proc::new(nspace.clone(), Rank::new(rank))),
            Err(_) => return Err(malformed(keys::LOCAL_PEERS, &format!("the rank {rank:?}"))),
        }
    }
    Ok(procs)
}

/// Returns the number of items in a comma-separated list, empty ones included.
fn num_items(list: &Text<'_>) -> usize {
    list.as_bytes().split(|byte| *byte == b',').count()
}

/// Parses the value of `pmix.nlist`: names separated by commas.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_FOUND` for an empty list. A server of OpenPMIx 7 sends one, although every job has a node.
fn nodes(value: &Value<'_>) -> Result<Vec<Text<'static>>, Error> {
    let list = text(value, keys::NODE_LIST)?;
    let names = list.as_bytes().split(|byte| *byte == b',');
    let names = names.filter(|name| !name.is_empty());
    // A name of one byte takes 30 times as much memory once it is split off.
    let bytes = { names.clone() }.map(|name| size_of::<Text<'_>>() + memory::allocated(name.len()));
    memory::check(bytes.sum())?;
    let names: Vec<_> = names.map(|name| Text::new(name.to_vec())).collect();
    match names.is_empty() {
        true => {
            let message = "the server did not send the nodes of the job";
            Err(Error::new(Status::ERR_NOT_FOUND, message.to_owned()))
        }
        false => Ok(names),
    }
}

fn text<'v>(value: &'v Value<'_>, key: &str) -> Result<&'v Text<'v>, Error> {
    match value {
        Value::String(Some(text)) => Ok(text),
        _ => Err(malformed(key, "no text")),
    }
}

fn malformed(key: &str, what: &str) -> Error {
    let message = format!("the value of {key} has {what}");
    Error::new(Status::ERR_UNPACK_FAILURE, message)
}

impl Client {
    /// Returns the processes of a job on a node in the order of their ranks (`PMIx_Resolve_peers`). Without a node, it
    /// uses the node of this process. For the processes of all jobs on a node, query `pmix.qry.peers`.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the job is unknown or has no process on the node. Otherwise as
    /// [`get`](Self::get).
    pub fn resolve_peers(
        &self,
        nspace: &Nspace<'_>,
        node: Option<&str>,
    ) -> Result<Vec<Proc<'static>>, Error> {
        let (job, infos) = request_of(nspace, node);
        let found = self.get(&job, keys::LOCAL_PEERS, &infos).wait()?;
        peers(&job.nspace, &found)
    }

    /// Returns the names of the nodes of a job in the order of its node map (`PMIx_Resolve_nodes`).
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if the job is unknown or the server sends no node. Otherwise as [`get`](Self::get).
    pub fn resolve_nodes(&self, nspace: &Nspace<'_>) -> Result<Vec<Text<'static>>, Error> {
        let (job, infos) = request_of(nspace, None);
        let found = self.get(&job, keys::NODE_LIST, &infos).wait()?;
        nodes(&found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Value<'static> {
        Value::String(Some(text.to_owned().into()))
    }

    #[test]
    fn lists_are_read_and_what_is_none_is_an_error() {
        let job = Nspace::new("job");
        let ranks = |value: &Value<'_>| {
            let procs = peers(&job, value)?;
            Ok::<_, Error>(
                procs
                    .iter()
                    .map(|proc| proc.rank.as_raw())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(ranks(&of("0,3,17")).unwrap(), [0, 3, 17]);
        assert_eq!(ranks(&of("")).unwrap(), []);
        let error = ranks(&of("0,x")).unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNPACK_FAILURE);
        assert!(error.to_string().contains("the rank \"x\""), "{error}");
        assert!(ranks(&Value::Uint32(4)).is_err());
        assert_eq!(
            nodes(&of("n1,n2")).unwrap(),
            [Text::from("n1"), Text::from("n2")]
        );
        assert!(nodes(&Value::Bool(true)).is_err());
        for empty in ["", ","] {
            assert_eq!(
                nodes(&of(empty)).unwrap_err().status(),
                Status::ERR_NOT_FOUND
            );
        }
    }
}

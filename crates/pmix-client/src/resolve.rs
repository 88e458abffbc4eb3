// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processes of a job are on a node, and which nodes a job is on.
//!
//! Source: PMIx Standard, chapter "Query Operations", `PMIx_Resolve_peers` and `PMIx_Resolve_nodes`.

use pmix_types::{Info, IntoOwned as _, Key, Nspace, Proc, Rank, Status, Text, Value, keys};

use crate::{Client, Error, SharedClient};

/// The whole of a job, and the info that says which of its nodes is meant.
fn asked(nspace: &Nspace<'_>, node: Option<&str>) -> (Proc<'static>, Vec<Info<'static>>) {
    let job = Proc::new(nspace.clone().into_owned(), Rank::WILDCARD);
    let node = node.map(|node| Info::new(keys::HOSTNAME, node.to_owned()));
    (job, node.into_iter().collect())
}

/// The processes of `pmix.lpeers`: ranks with commas between them.
fn peers(nspace: &Nspace<'static>, value: &Value<'_>) -> Result<Vec<Proc<'static>>, Error> {
    let ranks = text(value, keys::LOCAL_PEERS)?.to_str_lossy();
    let ranks = ranks
        .split(',')
        .map(str::trim)
        .filter(|rank| !rank.is_empty());
    let procs = ranks.map(|rank| match rank.parse() {
        Ok(rank) => Ok(Proc::new(nspace.clone(), Rank::new(rank))),
        Err(_) => Err(strange(keys::LOCAL_PEERS, &format!("the rank {rank:?}"))),
    });
    procs.collect()
}

/// Returns the names of `pmix.nlist`, which have commas between them.
///
/// # Errors
///
/// `PMIX_ERR_NOT_FOUND` for a list without names, as a server of OpenPMIx 7 sends it: every job is on a node.
fn nodes(value: &Value<'_>) -> Result<Vec<Text<'static>>, Error> {
    let names = text(value, keys::NODE_LIST)?.as_bytes();
    let names = names
        .split(|byte| *byte == b',')
        .filter(|name| !name.is_empty());
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
        _ => Err(strange(key, "no text")),
    }
}

fn strange(key: &str, what: &str) -> Error {
    let message = format!("the value of {key} has {what}");
    Error::new(Status::ERR_UNPACK_FAILURE, message)
}

impl Client {
    /// Returns the processes of a job that are on a node, by their ranks; on the node of this process if none
    /// is named (`PMIx_Resolve_peers`). The processes of all jobs of a node are a question to the server:
    /// the query `pmix.qry.peers`.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if the job is not known or has no process on the node, otherwise as
    /// [`get`](Self::get).
    pub fn resolve_peers(
        &mut self,
        nspace: &Nspace<'_>,
        node: Option<&str>,
    ) -> Result<Vec<Proc<'static>>, Error> {
        let (job, infos) = asked(nspace, node);
        let found = self.get(&job, keys::LOCAL_PEERS, &infos)?;
        peers(&job.nspace, &found)
    }

    /// Returns the names of the nodes that a job is on, in the order of its map (`PMIx_Resolve_nodes`).
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if the job is not known or the server names no node, otherwise as [`get`](Self::get).
    pub fn resolve_nodes(&mut self, nspace: &Nspace<'_>) -> Result<Vec<Text<'static>>, Error> {
        let (job, infos) = asked(nspace, None);
        let found = self.get(&job, keys::NODE_LIST, &infos)?;
        nodes(&found)
    }
}

impl SharedClient {
    /// Returns the processes of a job that are on a node, as [`Client::resolve_peers`].
    ///
    /// # Errors
    ///
    /// As [`Client::resolve_peers`].
    pub fn resolve_peers(
        &self,
        nspace: &Nspace<'_>,
        node: Option<&str>,
    ) -> Result<Vec<Proc<'static>>, Error> {
        let (job, infos) = asked(nspace, node);
        let found = self.get(&job, &Key::from(keys::LOCAL_PEERS), &infos)?;
        peers(&job.nspace, &found)
    }

    /// Returns the names of the nodes that a job is on, as [`Client::resolve_nodes`].
    ///
    /// # Errors
    ///
    /// As [`Client::resolve_nodes`].
    pub fn resolve_nodes(&self, nspace: &Nspace<'_>) -> Result<Vec<Text<'static>>, Error> {
        let (job, infos) = asked(nspace, None);
        let found = self.get(&job, &Key::from(keys::NODE_LIST), &infos)?;
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

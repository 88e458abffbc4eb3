// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets of the blocking client.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Get`.

use pmix_types::{Info, Proc, Status, Value};

use super::Client;
use crate::core::Answer;
use crate::{Error, Found};

impl Client {
    /// Returns the value of a key (`PMIx_Get`).
    ///
    /// Reserved keys (`pmix.…`) are about a process, its node, its application, its session or, with
    /// [`Rank::WILDCARD`](pmix_types::Rank::WILDCARD), its job. The server sent most of them at init. Other keys were
    /// put by the process; if it has not committed yet, the get waits. The reply has all data of the process that this
    /// client may see, and the client caches them. The server is asked again only for a key that is not in the cache.
    ///
    /// Directives:
    ///
    /// - `pmix.optional`: sends no request, except once for the job info if this client reads shared memory and did not
    ///   request it at init.
    /// - `pmix.immediate`: does not wait for the process to commit.
    /// - `pmix.timeout`: the time limit of the server in seconds.
    /// - `pmix.get.refresh`: requests the data again.
    ///
    /// Other infos select a node, application or session, or qualify the value.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` if there is no such value. Returns `PMIX_ERR_OUT_OF_RESOURCE` if it is a compressed
    /// string longer than [`Settings::max_string_bytes`](crate::Settings::max_string_bytes). Otherwise returns the
    /// server's status, or an error if no reply arrives.
    pub fn get(
        &mut self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> Result<Value<'static>, Error> {
        // A get from the cache needs no operation and does not read the clock.
        let ask = match self.core.look(proc, key, infos) {
            Found::Known(known) => return known,
            Found::AskServer(ask) => ask,
        };
        match self.wait(|core, end| core.ask(*ask, end))? {
            Answer::Value(value) => Ok(value),
            _ => Err(Error::new(
                Status::ERR_COMM_FAILURE,
                "a get without a value",
            )),
        }
    }

    /// Returns the value of a key of the own job (`PMIx_Get` with
    /// [`Rank::WILDCARD`](pmix_types::Rank::WILDCARD)).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`get`](Self::get).
    pub fn get_of_job(&mut self, key: &str) -> Result<Value<'static>, Error> {
        let job = self.job();
        self.get(&job, key, &[])
    }
}

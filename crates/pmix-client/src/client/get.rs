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
    /// Reserved keys (`pmix.…`) tell about a process, its node, its application, its session or,
    /// with [`Rank::WILDCARD`](pmix_types::Rank::WILDCARD), its job: most of it the server said at
    /// init. Other keys were put by the process; who asks before it has committed waits. What the server
    /// answers is kept: all that the process has put for this one. It is asked again only for a key that
    /// is not among it.
    ///
    /// Directives: `pmix.optional` asks for nothing but the job info, once, which a client that shares
    /// memory with its server has not asked for at init; `pmix.immediate` waits for nobody,
    /// `pmix.timeout` is how many seconds the server is to wait, `pmix.get.refresh` asks
    /// again. Other infos say which node, application or session is meant, or qualify a value.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` if there is no such value; `PMIX_ERR_OUT_OF_RESOURCE` if it is a
    /// compressed string longer than
    /// [`Settings::max_string_bytes`](crate::Settings::max_string_bytes); otherwise what the server
    /// answers, or that it does not.
    pub fn get(
        &mut self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> Result<Value<'static>, Error> {
        // What is known here needs neither an operation nor the time.
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
    /// As [`get`](Self::get).
    pub fn get_of_job(&mut self, key: &str) -> Result<Value<'static>, Error> {
        let job = self.job();
        self.get(&job, key, &[])
    }
}

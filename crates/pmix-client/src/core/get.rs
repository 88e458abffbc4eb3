// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets: a value from what is known here, else from the server.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Get`.

use std::time::Instant;

use pmix_proto::Request;
use pmix_types::{Info, Proc, Value};

use super::Core;
use super::operation::{Answer, OperationId, Waiting};
use crate::Error;

impl Core {
    /// Looks for the value of a key (`PMIx_Get`): [`Answer::Value`], at once if it is known here. See
    /// [`Client::get`](crate::Client::get) for directives and for what is kept.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit). That there is no such value is how the operation ends.
    pub fn get(
        &mut self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
        end: Option<Instant>,
    ) -> Result<OperationId, Error> {
        match self.known(proc, key, infos) {
            Some(known) => Ok(self.ended(known.map(Answer::Value))),
            None => self.fetch(proc, key, infos, end),
        }
    }

    /// Asks the server for the value of a key that is not known here.
    pub(crate) fn fetch(
        &mut self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
        end: Option<Instant>,
    ) -> Result<OperationId, Error> {
        let (get, wanted) = self.known.ask(proc, key, infos);
        self.begin(&Request::Get(get), Waiting::Get(wanted), end)
    }

    /// Returns whether the server may say more of the own job than is shared, and was not asked.
    pub(crate) fn is_to_learn(&self, key: &str) -> bool {
        self.known.is_to_learn(key)
    }

    /// Asks for the job info that was not asked for at init.
    pub(crate) fn learn(&mut self, end: Option<Instant>) -> Result<OperationId, Error> {
        self.begin(&Request::JobInfo, Waiting::MoreJobInfo, end)
    }

    /// Returns the value of a key, or that there is none, as far as the server need not be asked. With
    /// `pmix.get.refresh` among the infos what is known of the process is forgotten.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` where the infos say that nobody is to be asked (`pmix.optional`);
    /// `PMIX_ERR_OUT_OF_RESOURCE` for a compressed string longer than
    /// [`Settings::max_string_bytes`](crate::Settings::max_string_bytes).
    pub fn known(
        &self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> Option<Result<Value<'static>, Error>> {
        self.known.get(proc, key, infos)
    }
}

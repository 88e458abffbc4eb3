// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets: a value from the local data, else from the server.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Get`.

use std::time::Instant;

use pmix_types::{Info, Proc, Value};

use super::Core;
use super::operation::{Answer, OperationId, Waiting};
use crate::Error;
use crate::known::Found;

impl Core {
    /// Gets the value of a key (`PMIx_Get`): [`Answer::Value`], at once if it is in the local data. For directives and
    /// caching see [`Client::get`](crate::Client::get).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`commit`](Self::commit). If there is no such value, the operation completes with an
    /// error.
    pub fn get(
        &mut self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
        end: Option<Instant>,
    ) -> Result<OperationId, Error> {
        match self.known.search(proc, key, infos) {
            Found::Known(known) => Ok(self.ended(known.map(Answer::Value))),
            Found::AskServer(call) => self.begin_call(*call, end),
        }
    }

    /// Handles the job info that a get requested. The get completes, or it requests the data of the process.
    pub(super) fn handle_job_info(&mut self, id: OperationId, payload: &[u8]) {
        let Some(Waiting::JobInfoForGet(pending)) = self.operations.waiting(id) else {
            return;
        };
        let found = self.known.handle_job_info(payload, pending);
        self.continue_get(id, found);
    }

    /// Requests the data again without `PMIX_GET_REFRESH_CACHE`. A server of OpenPMIx may answer a refresh with success
    /// and no data, because its own clients then read the data from shared memory.
    pub(super) fn repeat_get(&mut self, id: OperationId) {
        let Some(Waiting::Get(pending)) = self.operations.waiting(id) else {
            return;
        };
        let found = self.known.repeat(pending);
        self.continue_get(id, found);
    }

    /// Completes a get, or sends its next request.
    fn continue_get(&mut self, id: OperationId, found: Found) {
        match found {
            Found::Known(known) => self.operations.complete(id, known.map(Answer::Value)),
            Found::AskServer(call) => match self.send(&call.request) {
                Ok(tag) => self.operations.add_request(id, tag, Some(call.waiting)),
                Err(error) => self.operations.complete(id, Err(error)),
            },
        }
    }

    /// Returns the value of a key, or the error of a get that needs no server; `None` if the server must be asked. With
    /// `pmix.get.refresh` the cached data of the process are dropped.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_FOUND` for a missing value with `pmix.optional`, and `PMIX_ERR_OUT_OF_RESOURCE` for a
    /// compressed string longer than [`Settings::max_string_bytes`](crate::Settings::max_string_bytes).
    pub fn known(
        &self,
        proc: &Proc<'_>,
        key: &str,
        infos: &[Info<'_>],
    ) -> Option<Result<Value<'static>, Error>> {
        self.known.get(proc, key, infos)
    }
}

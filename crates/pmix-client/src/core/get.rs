// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets: a value from what is known here, else from the server.
//!
//! Source: PMIx Standard, chapter "Data Access and Sharing", `PMIx_Get`.

use std::time::Instant;

use pmix_types::{Info, Proc, Value};

use super::Core;
use super::operation::{Answer, OperationId, Waiting};
use crate::{Error, Found};

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
        match self.known.look(proc, key, infos) {
            Found::Known(known) => Ok(self.ended(known.map(Answer::Value))),
            Found::AskServer(ask) => self.ask(*ask, end),
        }
    }

    /// Looks for a value in what is known, and says what to ask for otherwise.
    pub(crate) fn look(&self, proc: &Proc<'_>, key: &str, infos: &[Info<'_>]) -> Found {
        self.known.look(proc, key, infos)
    }

    /// Takes the job info that a get asked for: the get ends, or asks for what the process has put.
    pub(super) fn learnt(&mut self, id: OperationId, payload: &[u8]) {
        let Some(Waiting::Learn(wanted)) = self.operations.waiting(id) else {
            return;
        };
        match self.known.learnt(payload, wanted) {
            Found::Known(known) => self.operations.complete(id, known.map(Answer::Value)),
            Found::AskServer(ask) => match self.send(&ask.request) {
                Ok(tag) => self.operations.ask(id, tag, Some(ask.waiting)),
                Err(error) => self.operations.complete(id, Err(error)),
            },
        }
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
